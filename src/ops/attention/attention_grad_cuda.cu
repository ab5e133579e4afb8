/* attention_grad_cuda.cu -- gradients of attention on CUDA, scores computed again by tiles.
 *
 * With p = exp(score - lse) and delta = rowsum(dy * y):
 *
 *      dv = p^T dy        ds = p * (dy v^T - delta)        dq = scale ds k        dk = scale ds^T q
 *
 * One kernel has a block of keys for every thread block, walks over the queries and ends with dk
 * and dv; another has a block of queries and ends with dq. So every result has one owner and one
 * order of summation, at the price of making the scores twice. In the first all tiles are turned,
 * keys being the rows: then p and ds are left-hand sides as they lie in the registers.
 *
 * attention_stored's gradient is here too: the same kernels of floats with p read instead of made,
 * and delta = rowsum(p * dp).
 */
#include "ops/attention/attention_mma.h"

/* ---- delta = rowsum(dy * y): eight threads for a row of a head ---- */

template <class T, int N> __global__ void __launch_bounds__(256) delta_rows(AttentionCuda a)
{
    int64_t i = (int64_t)blockIdx.x * 32 + threadIdx.x / 8;
    int     lane = (int)threadIdx.x % 8;
    bool    there = i < a.n_heads * a.lq;
    i = there ? i : 0;
    int64_t  row = i / a.heads % a.lq, head = i / (a.heads * a.lq) * a.heads + i % a.heads;
    const T *y = head_rows<T>(a, a.y, head) + row * a.y.ld,
            *dy = head_rows<T>(a, a.dy, head) + row * a.dy.ld;
    float    sum = 0;
    for (int c = lane * N; c < a.width; c += 8 * N) {
        float u[N], v[N];
        get_pack<N>(y, c, u);
        get_pack<N>(dy, c, v);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum += u[j] * v[j];
    }
#pragma unroll
    for (int d = 4; d; d >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (!there || (lane && !a.numbers))
        return;
    if (!a.numbers) {
        a.delta[head * a.lq + row] = sum;
        return;
    }
    float *line = numbers_of(a, head, row / a.tile);
    int    at = (int)(row % a.tile);
    if (lane == 0) {
        line[at] = a.lse[head * a.lq + row] * LOG2_E;
        line[a.tile + at] = sum;
    }
    if (row == a.lq - 1)
        for (int rest = at + 1 + lane; rest < a.tile; rest += 8)
            line[rest] = line[a.tile + rest] = 0;
}

/* ---- tensor cores ---- */

template <class T, int D, int QUERIES> struct KeysShared {
    T     k[64][ROW<T, D>], v[64][ROW<T, D>];
    T     q[2][QUERIES][ROW<T, D>], dy[2][QUERIES][ROW<T, D>];
    float lse[2][QUERIES], delta[2][QUERIES];
    float lines[32];
};

/* lse in powers of two, and delta; a query beyond the end gets p = 0. */
template <int N>
__device__ __forceinline__ void numbers_load(const AttentionCuda &a, float *lse, float *delta,
                                             int64_t head, int64_t query)
{
    for (int i = (int)threadIdx.x; i < N; i += MMA_THREADS) {
        bool there = query + i < a.lq;
        lse[i] = there ? a.lse[head * a.lq + query + i] * LOG2_E : INFINITY;
        delta[i] = there ? a.delta[head * a.lq + query + i] : 0.0f;
    }
}

template <class T, int D, int QUERIES>
__global__ void __launch_bounds__(MMA_THREADS) keys_mma(AttentionCuda a, int64_t blocks)
{
    extern __shared__ __align__(16) char memory[];
    KeysShared<T, D, QUERIES> &s = *(KeysShared<T, D, QUERIES> *)memory;
    int64_t head = blockIdx.x / blocks, key = blockIdx.x % blocks * 64;
    int     warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    const T *q = head_rows<T>(a, a.q, head), *dy = head_rows<T>(a, a.dy, head);
    float   scale = attention_scale_of(a), steep = scale * LOG2_E;
    bool    want_v = a.dv.data, want_k = a.dk.data || a.heat;
    int64_t tiles = (a.lq + QUERIES - 1) / QUERIES;

    shared_clear(memory, (int)(sizeof s / 16 * 16));
    __syncthreads();
    rows_load<T, D, 64>(s.k, head_rows<T>(a, a.k, head) + key * a.k.ld, a.k.ld, a.lk - key, a.width,
                        a.copy);
    rows_load<T, D, 64>(s.v, head_rows<T>(a, a.v, head) + key * a.v.ld, a.v.ld, a.lk - key, a.width,
                        a.copy);
    rows_load<T, D, QUERIES>(s.q[0], q, a.q.ld, a.lq, a.width, a.copy);
    rows_load<T, D, QUERIES>(s.dy[0], dy, a.dy.ld, a.lq, a.width, a.copy);
    copy_commit();
    numbers_load<QUERIES>(a, s.lse[0], s.delta[0], head, 0);

    float dk[D / 8][4], dv[D / 8][4];
#pragma unroll
    for (int d = 0; d < D / 8; d++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            dk[d][e] = dv[d][e] = 0;
    for (int64_t tile = 0; tile < tiles; tile++) {
        int     stage = (int)(tile & 1);
        int64_t query = tile * QUERIES, next = query + QUERIES;
        if (tile + 1 < tiles) {
            rows_load<T, D, QUERIES>(s.q[stage ^ 1], q + next * a.q.ld, a.q.ld, a.lq - next,
                                     a.width, a.copy);
            rows_load<T, D, QUERIES>(s.dy[stage ^ 1], dy + next * a.dy.ld, a.dy.ld, a.lq - next,
                                     a.width, a.copy);
            copy_commit();
            numbers_load<QUERIES>(a, s.lse[stage ^ 1], s.delta[stage ^ 1], head, next);
            copy_wait<1>();
        } else {
            copy_wait<0>();
        }
        __syncthreads();

        float   p[QUERIES / 8][4], ds[QUERIES / 8][4];
        int64_t row = key + warp * 16;           /* of the keys */
        product_rows<T, D, QUERIES>(p, s.k, warp * 16, s.q[stage]);
#pragma unroll
        for (int n = 0; n < QUERIES / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int at = n * 8 + 2 * t + (e & 1);
                p[n][e] = fast_exp2(p[n][e] * steep - s.lse[stage][at]);
            }
        if (a.mask_diagonal && query < row + 16 && row < next)
            scores_mask<QUERIES>(p, 0, QUERIES, true, (int)(row - query));
        if (want_v)
            product_columns<T, D, QUERIES>(dv, p, s.dy[stage]);
        if (want_k) {
            product_rows<T, D, QUERIES>(ds, s.v, warp * 16, s.dy[stage]);
#pragma unroll
            for (int n = 0; n < QUERIES / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    ds[n][e] = p[n][e] * (ds[n][e] - s.delta[stage][n * 8 + 2 * t + (e & 1)]);
            product_columns<T, D, QUERIES>(dk, ds, s.q[stage]);
        }
        __syncthreads();
    }

    int64_t row = key + warp * 16;
    bool    pairs = a.copy > (int)sizeof(T);
    if (want_v)
        fragment_store<T, D>(head_rows<T>(a, a.dv, head) + row * a.dv.ld, a.dv.ld, a.lk - row,
                             a.width, pairs, dv, 1, 1);
    if (a.dk.data)
        fragment_store<T, D>(head_rows<T>(a, a.dk, head) + row * a.dk.ld, a.dk.ld, a.lk - row,
                             a.width, pairs, dk, scale, scale);
    if (a.heat) {
        float heat = 0;
#pragma unroll
        for (int d = 0; d < D / 8; d++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (row + g + e / 2 * 8 < a.lk)
                    heat += dk[d][e] * get(s.k[warp * 16 + g + e / 2 * 8], d * 8 + 2 * t + (e & 1));
        heat = block_sum(heat, s.lines);
        if (threadIdx.x == 0)
            a.heat[blockIdx.x] = (double)scale * (double)heat;
    }
}

template <class T, int D, int KEYS> struct QueriesShared {
    T q[64][ROW<T, D>], dy[64][ROW<T, D>];
    T k[2][KEYS][ROW<T, D>], v[2][KEYS][ROW<T, D>];
};

template <class T, int D, int KEYS>
__global__ void __launch_bounds__(MMA_THREADS) queries_mma(AttentionCuda a, int64_t blocks)
{
    extern __shared__ __align__(16) char memory[];
    QueriesShared<T, D, KEYS> &s = *(QueriesShared<T, D, KEYS> *)memory;
    int64_t head = blockIdx.x / blocks, query = blockIdx.x % blocks * 64;
    int     warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4;
    const T *k = head_rows<T>(a, a.k, head), *v = head_rows<T>(a, a.v, head);
    float   scale = attention_scale_of(a), steep = scale * LOG2_E, lse[2], delta[2];
    int64_t tiles = (a.lk + KEYS - 1) / KEYS, row = query + warp * 16 + g;

    shared_clear(memory, (int)sizeof s);
    __syncthreads();
    rows_load<T, D, 64>(s.q, head_rows<T>(a, a.q, head) + query * a.q.ld, a.q.ld, a.lq - query,
                        a.width, a.copy);
    rows_load<T, D, 64>(s.dy, head_rows<T>(a, a.dy, head) + query * a.dy.ld, a.dy.ld, a.lq - query,
                        a.width, a.copy);
    rows_load<T, D, KEYS>(s.k[0], k, a.k.ld, a.lk, a.width, a.copy);
    rows_load<T, D, KEYS>(s.v[0], v, a.v.ld, a.lk, a.width, a.copy);
    copy_commit();
#pragma unroll
    for (int h = 0; h < 2; h++) {
        bool there = row + 8 * h < a.lq;
        lse[h] = there ? a.lse[head * a.lq + row + 8 * h] * LOG2_E : INFINITY;
        delta[h] = there ? a.delta[head * a.lq + row + 8 * h] : 0.0f;
    }
    float dq[D / 8][4];
#pragma unroll
    for (int d = 0; d < D / 8; d++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            dq[d][e] = 0;
    for (int64_t tile = 0; tile < tiles; tile++) {
        int     stage = (int)(tile & 1);
        int64_t key = tile * KEYS, next = key + KEYS;
        if (tile + 1 < tiles) {
            rows_load<T, D, KEYS>(s.k[stage ^ 1], k + next * a.k.ld, a.k.ld, a.lk - next, a.width,
                                  a.copy);
            rows_load<T, D, KEYS>(s.v[stage ^ 1], v + next * a.v.ld, a.v.ld, a.lk - next, a.width,
                                  a.copy);
            copy_commit();
            copy_wait<1>();
        } else {
            copy_wait<0>();
        }
        __syncthreads();

        float   p[KEYS / 8][4], ds[KEYS / 8][4];
        int64_t own = query + warp * 16;
        bool    mask = a.mask_diagonal && key < own + 16 && own < next;
        product_rows<T, D, KEYS>(p, s.q, warp * 16, s.k[stage]);
        product_rows<T, D, KEYS>(ds, s.dy, warp * 16, s.v[stage]);
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float x = fast_exp2(p[n][e] * steep - lse[e / 2]);
                ds[n][e] = x * (ds[n][e] - delta[e / 2]);
            }
        if (mask || next > a.lk)
            scores_mask<KEYS>(ds, 0, a.lk - key, mask, (int)(own - key));
        product_columns<T, D, KEYS>(dq, ds, s.k[stage]);
        __syncthreads();
    }
    row = query + warp * 16;
    fragment_store<T, D>(head_rows<T>(a, a.dq, head) + row * a.dq.ld, a.dq.ld, a.lq - row, a.width,
                         a.copy > (int)sizeof(T), dq, scale, scale);
}

/* ---- floats ---- */

/* p of query and key, made or read. */
template <class T, bool STORED>
__device__ __forceinline__ float probability(const AttentionCuda &a, int64_t head, int64_t query,
                                             int64_t key, float score, float steep)
{
    if (query >= a.lq || key >= a.lk)
        return 0;
    if (STORED)
        return get((const T *)a.p, (head * a.lq + query) * a.lk + key);
    if (a.mask_diagonal && query == key)
        return 0;
    return exp2f(score * steep - a.lse[head * a.lq + query] * LOG2_E);
}

template <class T, int DC, bool STORED>
__global__ void __launch_bounds__(TILE_THREADS) keys_tiles(AttentionCuda a, int64_t blocks)
{
    extern __shared__ __align__(16) char memory[];
    Tiles<DC> &s = *(Tiles<DC> *)memory;
    int64_t head = blockIdx.x / blocks, key = blockIdx.x % blocks * TILE;
    int     tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16, column = (int)blockIdx.y * DC;
    const T *k = head_rows<T>(a, a.k, head) + key * a.k.ld,
            *v = head_rows<T>(a, a.v, head) + key * a.v.ld;
    const T *q = head_rows<T>(a, a.q, head), *dy = head_rows<T>(a, a.dy, head);
    float   scale = attention_scale_of(a), steep = scale * LOG2_E;
    float   dk[8][DC / 16], dv[8][DC / 16];
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int e = 0; e < DC / 16; e++)
            dk[i][e] = dv[i][e] = 0;
    for (int64_t query = 0; query < a.lq; query += TILE) {
        const T *qt = q + query * a.q.ld, *dyt = dy + query * a.dy.ld;
        float    p[8][4], ds[8][4];
        if (STORED)
            __syncthreads();                     /* else tile_dot begins with one */
        else
            tile_dot(s, p, k, a.k.ld, a.lk - key, qt, a.q.ld, a.lq - query, a.width);
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                p[i][j] = probability<T, STORED>(a, head, query + tx + 16 * j, key + ty * 8 + i,
                                                 STORED ? 0.0f : p[i][j], steep);
        if (a.dv.data) {
            tile_turn(s, p);
            chunk_load<T, DC>(s.c, dyt, a.dy.ld, a.lq - query, column, a.width);
            __syncthreads();
            tile_add<DC>(s, dv);
        }
        if (!a.dk.data && !a.heat)
            continue;
        tile_dot(s, ds, v, a.v.ld, a.lk - key, dyt, a.dy.ld, a.lq - query, a.width);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int64_t at = query + tx + 16 * j;
            float   delta = at < a.lq ? a.delta[head * a.lq + at] : 0.0f;
#pragma unroll
            for (int i = 0; i < 8; i++)
                ds[i][j] = p[i][j] * (ds[i][j] - delta);
        }
        tile_turn(s, ds);
        chunk_load<T, DC>(s.c, qt, a.q.ld, a.lq - query, column, a.width);
        __syncthreads();
        tile_add<DC>(s, dk);
    }
    float one[8], by[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        one[i] = 1;
        by[i] = scale;
    }
    if (a.dv.data)
        tile_store<T, DC>(head_rows<T>(a, a.dv, head) + key * a.dv.ld, a.dv.ld, a.lk - key, column,
                          a.width, dv, one);
    if (a.dk.data)
        tile_store<T, DC>(head_rows<T>(a, a.dk, head) + key * a.dk.ld, a.dk.ld, a.lk - key, column,
                          a.width, dk, by);
    if (a.heat) {
        float heat = 0;
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int e = 0; e < DC / 16; e++) {
                int c = column + 64 * (e / 4) + 4 * tx + e % 4;
                if (key + ty * 8 + i < a.lk && c < a.width)
                    heat += dk[i][e] * get(k, (int64_t)(ty * 8 + i) * a.k.ld + c);
            }
        __syncthreads();
        heat = block_sum(heat, &s.p[0][0]);
        if (threadIdx.x == 0)
            a.heat[blockIdx.x * (int64_t)gridDim.y + blockIdx.y] = (double)scale * (double)heat;
    }
}

template <class T, int DC, bool STORED>
__global__ void __launch_bounds__(TILE_THREADS) queries_tiles(AttentionCuda a, int64_t blocks)
{
    extern __shared__ __align__(16) char memory[];
    Tiles<DC> &s = *(Tiles<DC> *)memory;
    int64_t head = blockIdx.x / blocks, query = blockIdx.x % blocks * TILE;
    int     tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16, column = (int)blockIdx.y * DC;
    const T *q = head_rows<T>(a, a.q, head) + query * a.q.ld,
            *dy = head_rows<T>(a, a.dy, head) + query * a.dy.ld;
    const T *k = head_rows<T>(a, a.k, head), *v = head_rows<T>(a, a.v, head);
    float   scale = attention_scale_of(a), steep = scale * LOG2_E, delta[8], by[8], dq[8][DC / 16];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        delta[i] = query + ty * 8 + i < a.lq ? a.delta[head * a.lq + query + ty * 8 + i] : 0.0f;
        by[i] = scale;
#pragma unroll
        for (int e = 0; e < DC / 16; e++)
            dq[i][e] = 0;
    }
    for (int64_t key = 0; key < a.lk; key += TILE) {
        const T *kt = k + key * a.k.ld;
        float    p[8][4], ds[8][4];
        if (!STORED)
            tile_dot(s, p, q, a.q.ld, a.lq - query, kt, a.k.ld, a.lk - key, a.width);
        tile_dot(s, ds, dy, a.dy.ld, a.lq - query, v + key * a.v.ld, a.v.ld, a.lk - key, a.width);
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                ds[i][j] = probability<T, STORED>(a, head, query + ty * 8 + i, key + tx + 16 * j,
                                                  STORED ? 0.0f : p[i][j], steep) *
                           (ds[i][j] - delta[i]);
        tile_turn(s, ds);
        chunk_load<T, DC>(s.c, kt, a.k.ld, a.lk - key, column, a.width);
        __syncthreads();
        tile_add<DC>(s, dq);
    }
    tile_store<T, DC>(head_rows<T>(a, a.dq, head) + query * a.dq.ld, a.dq.ld, a.lq - query, column,
                      a.width, dq, by);
}

/* Stored probabilities: delta = rowsum(p * dp). */
template <class T>
__global__ void __launch_bounds__(TILE_THREADS) delta_tiles(AttentionCuda a, int64_t blocks)
{
    extern __shared__ __align__(16) char memory[];
    Tiles<64> &s = *(Tiles<64> *)memory;
    int64_t head = blockIdx.x / blocks, query = blockIdx.x % blocks * TILE;
    int     tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
    const T *dy = head_rows<T>(a, a.dy, head) + query * a.dy.ld, *v = head_rows<T>(a, a.v, head);
    float   delta[8] = { 0, 0, 0, 0, 0, 0, 0, 0 };
    for (int64_t key = 0; key < a.lk; key += TILE) {
        float dp[8][4];
        tile_dot(s, dp, dy, a.dy.ld, a.lq - query, v + key * a.v.ld, a.v.ld, a.lk - key, a.width);
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                delta[i] += dp[i][j] * probability<T, true>(a, head, query + ty * 8 + i,
                                                            key + tx + 16 * j, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float sum = sum_16(delta[i]);
        if (tx == 0 && query + ty * 8 + i < a.lq)
            a.delta[head * a.lq + query + ty * 8 + i] = sum;
    }
}

/* ---- host ---- */

template <class T, int D> static Err launch_mma(const Call *call, const AttentionCuda &a)
{
    constexpr int rows = D <= 64 ? 64 : 32;  /* of the tiles walked over: what the registers hold */
    cudaStream_t  stream = cuda_stream(call);
    if (a.dk.data || a.dv.data || a.heat) {
        int64_t blocks = ceil_div(a.lk, 64);
        size_t  bytes = sizeof(KeysShared<T, D, rows>);
        CUDA_TRY(cudaFuncSetAttribute(keys_mma<T, D, rows>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
        keys_mma<T, D, rows>
            <<<(unsigned)(a.n_heads * blocks), MMA_THREADS, bytes, stream>>>(a, blocks);
        CUDA_LAUNCHED();
    }
    if (a.dq.data) {
        int64_t blocks = ceil_div(a.lq, 64);
        size_t  bytes = sizeof(QueriesShared<T, D, rows>);
        CUDA_TRY(cudaFuncSetAttribute(queries_mma<T, D, rows>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
        queries_mma<T, D, rows>
            <<<(unsigned)(a.n_heads * blocks), MMA_THREADS, bytes, stream>>>(a, blocks);
        CUDA_LAUNCHED();
    }
    return OK;
}

template <class T> static Err backward_mma(const Call *call, const AttentionCuda &a)
{
    WITH_WIDTH(a.width, D, { return launch_mma<T, D>(call, a); });
}

template <class T, int DC, bool STORED>
static Err backward_tiles(const Call *call, const AttentionCuda &a)
{
    cudaStream_t stream = cuda_stream(call);
    size_t       bytes = sizeof(Tiles<DC>);
    if (a.dk.data || a.dv.data || a.heat) {
        int64_t blocks = ceil_div(a.lk, TILE);
        dim3    grid((unsigned)(a.n_heads * blocks), (unsigned)a.chunks);
        CUDA_TRY(cudaFuncSetAttribute(keys_tiles<T, DC, STORED>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
        keys_tiles<T, DC, STORED><<<grid, TILE_THREADS, bytes, stream>>>(a, blocks);
        CUDA_LAUNCHED();
    }
    if (a.dq.data) {
        int64_t blocks = ceil_div(a.lq, TILE);
        dim3    grid((unsigned)(a.n_heads * blocks), (unsigned)a.chunks);
        CUDA_TRY(cudaFuncSetAttribute(queries_tiles<T, DC, STORED>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
        queries_tiles<T, DC, STORED><<<grid, TILE_THREADS, bytes, stream>>>(a, blocks);
        CUDA_LAUNCHED();
    }
    return OK;
}

/* Workspace: heat, then numbers or delta. */
static size_t heat_bytes(const Node *n)
{
    return ATTR(n, AttentionAttr)->wants[ATTENTION_TEMPERATURE]
               ? (size_t)attention_cuda_heat(n) * sizeof(double) : 0;
}

/* So that numbers, which the TMA fetches, begin where it can. */
static size_t numbers_at(const Node *n) { return (heat_bytes(n) + 15) / 16 * 16; }

static size_t numbers_bytes(const Node *n)
{
    const AttentionAttr *attr = ATTR(n, AttentionAttr);
    Shape   q = in_shape(n, attr->q.source);
    int64_t tile = attention_wgmma_tile(attr->width),
            tiles = ceil_div(attention_length(q), tile);
    return (size_t)(dim(q, 0) * attr->heads * tiles * 2 * tile) * sizeof(float);
}

static size_t backward_bytes(const Node *n)
{
    const AttentionAttr *attr = ATTR(n, AttentionAttr);
    Shape q = in_shape(n, attr->q.source);
    return heat_bytes(n) + (size_t)(dim(q, 0) * attr->heads * attention_length(q)) * sizeof(float);
}

static AttentionCuda backward_of(const Call *call)
{
    const Node   *n = call->node;
    AttentionCuda a = attention_cuda_of(call, n);
    attention_cuda_gradients(call, &a);
    a.heat = heat_bytes(n) ? (double *)call->workspace : NULL;
    a.delta = (float *)((char *)call->workspace + heat_bytes(n));
    return a;
}

extern "C" Err attention_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    choice->workspace_bytes = attention_cuda_head(n, device)    ? heat_bytes(n)  /* without delta */
                              : attention_cuda_wgmma(n, device) ? numbers_at(n) + numbers_bytes(n)
                                                                : backward_bytes(n);
    choice->name = attention_cuda_name(n, device);
    return attention_cuda_wide(n) ? attention_wide_choose(n, device, true, choice) : OK;
}

extern "C" Err attention_grad_prepare_cuda(Pool *pool, Call *call)
{
    return attention_cuda_wide(call->node) ? attention_wide_prepare(pool, call, true) : OK;
}

Err attention_cuda_delta(const Call *call, const AttentionCuda &a)
{
    unsigned blocks = (unsigned)ceil_div(a.n_heads * a.lq, 32);
    WITH_FLOAT(a.type, T, {
        if (a.copy == 16 && sizeof(T) == 2)
            delta_rows<T, (sizeof(T) == 2 ? 8 : 1)><<<blocks, 256, 0, cuda_stream(call)>>>(a);
        else if (a.copy == 8 && sizeof(T) == 2)
            delta_rows<T, (sizeof(T) == 2 ? 4 : 1)><<<blocks, 256, 0, cuda_stream(call)>>>(a);
        else
            delta_rows<T, 1><<<blocks, 256, 0, cuda_stream(call)>>>(a);
    });
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err attention_grad_cuda(const Call *call)
{
    const Node   *n = call->node;
    AttentionCuda a = backward_of(call);
    if (in_type(n, ATTENTION_INPUTS + 2) != a.type)
        return fail(E_DEVICE, "attention_grad: q and dy differ in type, which has no CUDA kernel");
    if (attention_cuda_wide(n))
        return attention_wide_backward(call);
    a.y = attention_cuda_side_y(n, call->in[ATTENTION_INPUTS]);
    a.lse = (float *)call->in[ATTENTION_INPUTS + 1];
    a.dy = attention_cuda_side_y(n, call->in[ATTENTION_INPUTS + 2]);
    attention_cuda_set(&a);
    if (attention_cuda_head(n, call->device)) {
        TRY(attention_head_backward(call, a));
        return a.heat ? attention_cuda_heat_sum(call, &a, a.n_heads) : OK;
    }
    bool wgmma = attention_cuda_wgmma(n, call->device);
    if (wgmma) {
        a.numbers = (float *)((char *)call->workspace + numbers_at(n));
        a.tile = attention_wgmma_tile(a.width);
        a.tiles = (int)ceil_div(a.lq, a.tile);
    }
    TRY(attention_cuda_delta(call, a));
    if (wgmma) {
        if (a.dk.data || a.dv.data || a.heat)
            TRY(attention_wgmma_keys(call, a));
        if (a.dq.data)
            TRY(attention_wgmma_queries(call, a));
    } else if (attention_cuda_mma(n, call->device)) {
        WITH_FLOAT(a.type, T, { TRY(backward_mma<T>(call, a)); });
    } else {
        WITH_FLOAT(a.type, T, {
            if (a.width <= 64)
                TRY((backward_tiles<T, 64, false>(call, a)));
            else
                TRY((backward_tiles<T, 128, false>(call, a)));
        });
    }
    if (!a.heat)
        return OK;
    bool    mma = attention_cuda_mma(n, call->device);
    int64_t parts = a.n_heads * ceil_div(a.lk, TILE) * (mma ? 1 : a.chunks);
    return attention_cuda_heat_sum(call, &a, parts);
}

extern "C" Err attention_stored_grad_choose_cuda(const Node *n, const Device *device,
                                                 Choice *choice)
{
    (void)device;
    choice->workspace_bytes = backward_bytes(n);
    choice->name = "tiles";
    return OK;
}

extern "C" Err attention_stored_grad_cuda(const Call *call)
{
    const Node   *n = call->node;
    AttentionCuda a = backward_of(call);
    if (in_type(n, ATTENTION_INPUTS + 1) != a.type)
        return fail(E_DEVICE,
                    "attention_stored_grad: q and dy differ in type, which has no CUDA kernel");
    a.p = call->in[ATTENTION_INPUTS];
    a.dy = attention_cuda_side_y(n, call->in[ATTENTION_INPUTS + 1]);
    attention_cuda_set(&a);
    int64_t blocks = ceil_div(a.lq, TILE);
    size_t  bytes = sizeof(Tiles<64>);
    WITH_FLOAT(a.type, T, {
        CUDA_TRY(cudaFuncSetAttribute(delta_tiles<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      (int)bytes));
        delta_tiles<T>
            <<<(unsigned)(a.n_heads * blocks), TILE_THREADS, bytes, cuda_stream(call)>>>(a, blocks);
        CUDA_LAUNCHED();
        if (a.width <= 64)
            TRY((backward_tiles<T, 64, true>(call, a)));
        else
            TRY((backward_tiles<T, 128, true>(call, a)));
    });
    if (!a.heat)
        return OK;
    return attention_cuda_heat_sum(call, &a, a.n_heads * ceil_div(a.lk, TILE) * a.chunks);
}

CUDA_KERNEL(attention_grad, .choose = attention_grad_choose_cuda,
            .prepare = attention_grad_prepare_cuda, .run = attention_grad_cuda)
CUDA_KERNEL(attention_stored_grad, .choose = attention_stored_grad_choose_cuda,
            .run = attention_stored_grad_cuda)
