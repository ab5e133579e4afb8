/* attention_cuda.cu -- attention forward on CUDA, without ever storing the scores.
 *
 * A block holds some queries of one head and iterates over tiles of keys: scores, online softmax
 * (Milakov & Gimelshein 2018), y += p v. Exponentials are taken to base 2. The choice between the
 * families of kernels is here too.
 */
#include "ops/attention/attention_mma.h"

/* Keys per tile: as many as fit in shared memory. */
template <class T, int D> constexpr int forward_keys = sizeof(T) == 4 && D > 80 ? 32 : 64;

template <class T, int D, int MT> struct MmaForwardShared {
    T q[64 * MT][ROW<T, D>];
    T k[2][forward_keys<T, D>][ROW<T, D>], v[2][forward_keys<T, D>][ROW<T, D>];
};

/* score = q k^T; q is held in registers. */
template <class T, int D, int MT, int KEYS>
__device__ __forceinline__ void forward_scores(float (&score)[MT][KEYS / 8][4],
                                               const uint32_t (&q)[MT][D / 16][FRAGMENT<T>],
                                               T (*k)[ROW<T, D>])
{
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                score[m][n][e] = 0;
#pragma unroll
    for (int d = 0; d < D / 16; d++)
#pragma unroll
        for (int n = 0; n < KEYS / 16; n++) {
            uint32_t b[FRAGMENT<T>];
            fragment_b_rows<T, D>(b, k, n * 16, d * 16);
#pragma unroll
            for (int m = 0; m < MT; m++) {
                mma(score[m][2 * n], q[m][d], b, T());
                mma(score[m][2 * n + 1], q[m][d], b + FRAGMENT<T> / 2, T());
            }
        }
}

/* Online softmax of 16 queries: scores become exponentials relative to the maximum so far; the sum
 * and y are rescaled when the maximum grows. */
template <int D, int KEYS>
__device__ __forceinline__ void forward_softmax(float (&score)[KEYS / 8][4], float (&top)[2],
                                                float (&sum)[2], float (&y)[D / 8][4], float scale)
{
    float high[2] = { top[0], top[1] };
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            score[n][e] *= scale;
            high[e / 2] = fmaxf(high[e / 2], score[n][e]);
        }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        high[h] = fmaxf(high[h], __shfl_xor_sync(0xffffffffu, high[h], 1));
        high[h] = fmaxf(high[h], __shfl_xor_sync(0xffffffffu, high[h], 2));
        float factor = fast_exp2(top[h] - high[h]);
        top[h] = high[h];
        sum[h] *= factor;
#pragma unroll
        for (int d = 0; d < D / 8; d++) {
            y[d][2 * h] *= factor;
            y[d][2 * h + 1] *= factor;
        }
    }
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            score[n][e] = fast_exp2(score[n][e] - top[e / 2]);
            sum[e / 2] += score[n][e];
        }
}

/* Products of 16 queries from `query` on to logits. */
template <int KEYS>
__device__ __forceinline__ void forward_form(const AttentionCuda &a, const FormHead &f,
                                             float (&score)[KEYS / 8][4], int64_t    query,
                                             int64_t key, float scale)
{
    int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            score[n][e] = form_logit(a, f, query + g + e / 2 * 8, key + n * 8 + 2 * t + (e & 1),
                                     score[n][e] * scale);
}

/* y += p v */
template <class T, int D, int MT, int KEYS>
__device__ __forceinline__ void
forward_values(float (&y)[MT][D / 8][4], const float (&score)[MT][KEYS / 8][4], T (*v)[ROW<T, D>])
{
#pragma unroll
    for (int n = 0; n < KEYS / 16; n++) {
        uint32_t p[MT][FRAGMENT<T>];
#pragma unroll
        for (int m = 0; m < MT; m++)
            fragment_of_scores<T>(p[m], score[m][2 * n], score[m][2 * n + 1]);
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
            uint32_t b[FRAGMENT<T>];
            fragment_b_columns<T, D>(b, v, n * 16, d * 16);
#pragma unroll
            for (int m = 0; m < MT; m++) {
                mma(y[m][2 * d], p[m], b, T());
                mma(y[m][2 * d + 1], p[m], b + FRAGMENT<T> / 2, T());
            }
        }
    }
}

/* Stores y / sum and the log-sum-exp of 16 queries from `row` on. */
template <class T, int D, bool FORM>
__device__ __forceinline__ void forward_store(const AttentionCuda &a, int64_t head, int64_t row,
                                              const float (&top)[2], float (&sum)[2],
                                              const float (&y)[D / 8][4], T *out, int g, int t)
{
    float part[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 1);
        sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 2);
        part[h] = FORM && !(sum[h] > 0) ? 0.0f : 1 / sum[h];
        if (t == 0 && row + g + 8 * h < a.lq) {
            if (FORM)
                lse_put_safe(a, head * a.lq + row + g + 8 * h, top[h], sum[h]);
            else
                lse_put(a, head * a.lq + row + g + 8 * h, top[h], sum[h]);
        }
    }
    fragment_store<T, D>(out + row * a.y.ld, a.y.ld, a.lq - row, a.v_width, a.copy > (int)sizeof(T),
                         y, part[0], part[1]);
}

/* mma: four warps, each with MT times 16 queries. */
template <class T, int D, int MT, bool FORM>
__global__ void __launch_bounds__(MMA_THREADS) forward_mma(AttentionCuda a, int64_t blocks)
{
    extern __shared__ __align__(16) char memory[];
    MmaForwardShared<T, D, MT>          &s = *(MmaForwardShared<T, D, MT> *)memory;
    constexpr int                        rows = 64 * MT, KEYS = forward_keys<T, D>;
    int64_t  head = blockIdx.x / blocks, query = blockIdx.x % blocks * rows;
    int      warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    const T *q = head_rows<T>(a, a.q, head) + query * a.q.ld;
    const T *k = head_rows<T>(a, a.k, head), *v = head_rows<T>(a, a.v, head);
    int64_t  end = FORM ? form_keys(a, query + rows) : a.lk, tiles = (end + KEYS - 1) / KEYS;
    FormHead form = FORM ? form_head(a, head) : FormHead();
    float    scale = attention_scale_of(a) * LOG2_E, masked = scale < 0 ? INFINITY : -INFINITY;

    shared_clear(memory, (int)sizeof s);
    __syncthreads();
    rows_load<T, D, rows>(s.q, q, a.q.ld, a.lq - query, a.width, a.copy);
    rows_load<T, D, KEYS>(s.k[0], k, a.k.ld, a.lk, a.width, a.copy);
    rows_load<T, D, KEYS>(s.v[0], v, a.v.ld, a.lk, a.v_width, a.copy);
    copy_commit();

    float    top[MT][2], sum[MT][2], y[MT][D / 8][4];
    uint32_t qf[MT][D / 16][FRAGMENT<T>];
#pragma unroll
    for (int m = 0; m < MT; m++) {
        top[m][0] = top[m][1] = FORM ? FORM_LOW : -INFINITY;
        sum[m][0] = sum[m][1] = 0;
#pragma unroll
        for (int d = 0; d < D / 8; d++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                y[m][d][e] = 0;
    }
    for (int64_t tile = 0; tile < tiles; tile++) {
        int     stage = (int)(tile & 1);
        int64_t key = tile * KEYS;
        if (tile + 1 < tiles) {
            int64_t next = key + KEYS;
            rows_load<T, D, KEYS>(s.k[stage ^ 1], k + next * a.k.ld, a.k.ld, a.lk - next, a.width,
                                  a.copy);
            rows_load<T, D, KEYS>(s.v[stage ^ 1], v + next * a.v.ld, a.v.ld, a.lk - next, a.v_width,
                                  a.copy);
            copy_commit();
            copy_wait<1>();
        } else {
            copy_wait<0>();
        }
        __syncthreads();
        if (tile == 0)
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int d = 0; d < D / 16; d++)
                    fragment_a<T, D>(qf[m][d], s.q, (warp * MT + m) * 16, d * 16);

        float score[MT][KEYS / 8][4];
        forward_scores<T, D, MT, KEYS>(score, qf, s.k[stage]);
        int64_t first = query + warp * MT * 16;
        bool    mask = a.mask_diagonal && key < first + MT * 16 && first < key + KEYS;
        if (FORM) {
#pragma unroll
            for (int m = 0; m < MT; m++)
                forward_form<KEYS>(a, form, score[m], first + m * 16, key, scale);
        } else if (mask || key + KEYS > a.lk) {
#pragma unroll
            for (int m = 0; m < MT; m++)
                scores_mask<KEYS>(score[m], masked, a.lk - key, mask, (int)(first - key) + m * 16);
        }
#pragma unroll
        for (int m = 0; m < MT; m++)
            forward_softmax<D, KEYS>(score[m], top[m], sum[m], y[m], FORM ? 1.0f : scale);
        if (FORM && a.dropout > 0)
#pragma unroll
            for (int m = 0; m < MT; m++)
                scores_drop<KEYS>(a, form, score[m], first + m * 16, key);
        forward_values<T, D, MT, KEYS>(y, score, s.v[stage]);
        __syncthreads(); /* the next copy overwrites this pipeline stage */
    }

    T *out = head_rows<T>(a, a.y, head);
#pragma unroll
    for (int m = 0; m < MT; m++)
        forward_store<T, D, FORM>(a, head, query + (warp * MT + m) * 16, top[m], sum[m], y[m], out,
                                  g, t);
}

/* tiles: a block computes 64 queries and one chunk of columns. */
template <class T, int DC, bool FORM>
__global__ void __launch_bounds__(TILE_THREADS) forward_tiles(AttentionCuda a, int64_t blocks)
{
    extern __shared__ __align__(16) char memory[];
    Tiles<DC>                           &s = *(Tiles<DC> *)memory;
    int64_t  head = blockIdx.x / blocks, query = blockIdx.x % blocks * TILE;
    int      tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16, column = (int)blockIdx.y * DC;
    const T *q = head_rows<T>(a, a.q, head) + query * a.q.ld;
    const T *k = head_rows<T>(a, a.k, head), *v = head_rows<T>(a, a.v, head);
    int64_t  end = FORM ? form_keys(a, query + TILE) : a.lk;
    FormHead form = FORM ? form_head(a, head) : FormHead();
    float    scale = attention_scale_of(a) * LOG2_E;
    float    top[8], sum[8], y[8][DC / 16];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        top[i] = FORM ? FORM_LOW : -INFINITY;
        sum[i] = 0;
#pragma unroll
        for (int e = 0; e < DC / 16; e++)
            y[i][e] = 0;
    }
    for (int64_t key = 0; key < end; key += TILE) {
        float p[8][4];
        tile_dot(s, p, q, a.q.ld, a.lq - query, k + key * a.k.ld, a.k.ld, a.lk - key, a.width);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float high = top[i];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int64_t at = key + tx + 16 * j;
                p[i][j] = __fmul_rn(p[i][j], scale);
                if (FORM)
                    p[i][j] = form_logit(a, form, query + ty * 8 + i, at, p[i][j]);
                else if (at >= a.lk || (a.mask_diagonal && at == query + ty * 8 + i))
                    p[i][j] = -INFINITY;
                high = fmaxf(high, p[i][j]);
            }
            high = warp_max<16>(high);
            float factor = exp2f(top[i] - high), part = 0;
            top[i] = high;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                p[i][j] = exp2f(p[i][j] - high);
                part += p[i][j];
                if (FORM)
                    p[i][j] *= form_keep(a, form, query + ty * 8 + i, key + tx + 16 * j);
            }
            sum[i] = sum[i] * factor + part;
#pragma unroll
            for (int e = 0; e < DC / 16; e++)
                y[i][e] *= factor;
        }
        tile_transpose(s, p); /* tile_dot's barriers come after the last read of s.p */
        chunk_load<T, DC>(s.c, v + key * a.v.ld, a.v.ld, a.lk - key, column, a.v_width);
        __syncthreads();
        tile_add<DC>(s, y);
    }
    float part[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float   all = warp_sum<16>(sum[i]);
        int64_t row = query + ty * 8 + i;
        part[i] = FORM && !(all > 0) ? 0.0f : 1 / all;
        if (column == 0 && tx == 0 && row < a.lq) {
            if (FORM)
                lse_put_safe(a, head * a.lq + row, top[i], all);
            else
                lse_put(a, head * a.lq + row, top[i], all);
        }
    }
    tile_store<T, DC>(head_rows<T>(a, a.y, head) + query * a.y.ld, a.y.ld, a.lq - query, column,
                      a.v_width, y, part);
}

/* Adds up the partial sums of the temperature's gradient in a fixed order. */
__global__ void temperature_reduce(const double *temperature_sums, int64_t count, float *out)
{
    __shared__ double sums[256];
    double            sum = 0;
    for (int64_t i = threadIdx.x; i < count; i += 256)
        sum += temperature_sums[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x)
        return;
    for (int i = 1; i < 256; i++)
        sum += sums[i];
    *out = (float)sum;
}

/* ---- host ---- */

SideCuda attention_cuda_side(const Node *n, AttentionSlice slice, void *const *pointers)
{
    const AttentionAttr *attr = ATTR(n, AttentionAttr);
    Shape                s = in_shape(n, slice.source);
    bool                 query = slice.source == attr->q.source && slice.column == attr->q.column;
    bool                 value = slice.source == attr->v.source && slice.column == attr->v.column;
    SideCuda             side = { (char *)pointers[slice.source],
                                  dim(s, -1),
                                  shape_count(s) / dim(s, 0),
                                  slice.column,
                                  slice.head_stride,
                                  (int)(value ? attr->v_width : attr->width),
                      query ? 1 : (int)(attr->heads / attr->kv_heads) };
    return side;
}

SideCuda attention_cuda_side_y(const Node *n, void *data)
{
    const AttentionAttr *attr = ATTR(n, AttentionAttr);
    int64_t              columns = attr->heads * attr->v_width,
            lq = attention_length(in_shape(n, attr->q.source));
    SideCuda side = {
        (char *)data, columns, lq * columns, 0, attr->v_width, (int)attr->v_width, 1
    };
    return side;
}

bool attention_cuda_form(const Node *n)
{
    const AttentionAttr *attr = ATTR(n, AttentionAttr);
    return attr->causal || attr->dropout > 0 || attention_given(n, ATTENTION_BIAS);
}

int64_t attention_cuda_width(const Node *n)
{
    const AttentionAttr *attr = ATTR(n, AttentionAttr);
    return attr->width > attr->v_width ? attr->width : attr->v_width;
}

static void form_set(const Call *call, const Node *n, AttentionCuda *a)
{
    const AttentionAttr *attr = ATTR(n, AttentionAttr);
    a->form = attention_cuda_form(n);
    a->causal = attr->causal;
    a->dropout = attr->dropout;
    a->stream = attr->stream;
    if (attr->dropout > 0)
        a->counters = (const int32_t *)call->in[ATTENTION_COUNTERS];
    if (!attention_given(n, ATTENTION_BIAS))
        return;
    Shape   s = in_shape(n, ATTENTION_BIAS);
    int64_t stride = s.dim[3];
    a->bias = call->in[ATTENTION_BIAS];
    a->bias_type = in_type(n, ATTENTION_BIAS);
    for (int axis = 2; axis >= 0; axis--) {
        a->bias_stride[axis] = s.dim[axis] > 1 ? stride : 0;
        stride *= s.dim[axis];
    }
}

AttentionCuda attention_cuda_of(const Call *call, const Node *n)
{
    const AttentionAttr *attr = ATTR(n, AttentionAttr);
    Shape                q = in_shape(n, attr->q.source);
    AttentionCuda        a = {};
    a.q = attention_cuda_side(n, attr->q, call->in);
    a.k = attention_cuda_side(n, attr->k, call->in);
    a.v = attention_cuda_side(n, attr->v, call->in);
    a.heads = attr->heads;
    a.share = attr->heads / attr->kv_heads;
    a.n_heads = dim(q, 0) * attr->heads;
    a.lq = attention_length(q);
    a.lk = attention_length(in_shape(n, attr->k.source));
    a.width = (int)attr->width;
    a.v_width = (int)attr->v_width;
    a.scale = attr->scale;
    a.type = in_type(n, attr->q.source);
    a.mask_diagonal = attr->mask_diagonal;
    if (in_given(n, ATTENTION_TEMPERATURE)) {
        a.temperature = call->in[ATTENTION_TEMPERATURE];
        a.type_t = in_type(n, ATTENTION_TEMPERATURE);
    }
    form_set(call, n, &a);
    return a;
}

void attention_cuda_gradients(const Call *call, AttentionCuda *a)
{
    const AttentionAttr *attr = ATTR(call->node, AttentionAttr);
    a->dq = attention_cuda_side(call->node, attr->q, call->out);
    a->dk = attention_cuda_side(call->node, attr->k, call->out);
    a->dv = attention_cuda_side(call->node, attr->v, call->out);
}

bool attention_cuda_mma(const Node *n, const Device *device)
{
    const AttentionAttr *attr = ATTR(n, AttentionAttr);
    bool                 rounds = ((const CudaHandle *)device->handle)->tf32;
    return (in_type(n, attr->q.source) != F32 || rounds) && attention_cuda_width(n) <= 128;
}

bool attention_cuda_wgmma(const Node *n, const Device *device)
{
    const AttentionAttr *attr = ATTR(n, AttentionAttr);
    return cuda_has_sm90a((const CudaHandle *)device->handle) &&
           in_type(n, attr->q.source) != F32 && attention_cuda_width(n) <= 128 &&
           attr->width % 2 == 0 && attr->v_width % 2 == 0 && /* a copy is at least 4 bytes */
           /* the bias is divided by the scale, which a temperature may take to 0 */
           !(attention_given(n, ATTENTION_BIAS) && in_given(n, ATTENTION_TEMPERATURE));
}

bool attention_cuda_head(const Node *n, const Device *device)
{
    const AttentionAttr *attr = ATTR(n, AttentionAttr);
    return attention_cuda_wgmma(n, device) && !attention_cuda_form(n) &&
           attr->kv_heads == attr->heads && attr->v_width == attr->width &&
           attention_head_fits(attention_length(in_shape(n, attr->q.source)),
                               attention_length(in_shape(n, attr->k.source)), attr->width);
}

const char *attention_cuda_name(const Node *n, const Device *device)
{
    return attention_cuda_head(n, device)    ? "heads"
           : attention_cuda_wgmma(n, device) ? "wgmma"
           : attention_cuda_mma(n, device)   ? "mma"
           : attention_cuda_wide(n)          ? "products"
                                             : "tiles";
}

static int chunks_of(int64_t width) { return (int)ceil_div(width, width <= 64 ? 64 : 128); }

int64_t attention_cuda_temperature_count(const Node *n)
{
    const AttentionAttr *attr = ATTR(n, AttentionAttr);
    int64_t              blocks = ceil_div(attention_length(in_shape(n, attr->k.source)), TILE);
    return dim(in_shape(n, attr->q.source), 0) * attr->kv_heads * blocks *
           chunks_of(attention_cuda_width(n));
}

/* The largest copy, up to max_bytes, that every address and stride of a side is aligned to. */
static int copy_bytes(const SideCuda *side, int size, int max_bytes)
{
    if (!side->data)
        return max_bytes;
    uint64_t all = (uint64_t)(uintptr_t)side->data |
                   (uint64_t)(side->ld | side->batch_stride | side->column | side->head_stride |
                              side->width) *
                       (uint64_t)size;
    while (all % (uint64_t)max_bytes)
        max_bytes /= 2;
    return max_bytes;
}

void attention_cuda_set(AttentionCuda *a)
{
    const SideCuda *sides[] = { &a->q, &a->k, &a->v, &a->y, &a->dy, &a->dq, &a->dk, &a->dv };
    a->copy = 16;
    for (const SideCuda *side : sides)
        a->copy = copy_bytes(side, a->type == F32 ? 4 : 2, a->copy);
    a->chunks = chunks_of(a->width > a->v_width ? a->width : a->v_width);
}

template <class T, int D, int MT, bool FORM>
static Err launch_mma(const Call *call, const AttentionCuda &a)
{
    int64_t blocks = ceil_div(a.lq, 64 * MT);
    size_t  bytes = sizeof(MmaForwardShared<T, D, MT>);
    CUDA_TRY(cudaFuncSetAttribute(forward_mma<T, D, MT, FORM>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    forward_mma<T, D, MT, FORM>
        <<<(unsigned)(a.n_heads * blocks), MMA_THREADS, bytes, cuda_stream(call)>>>(a, blocks);
    CUDA_LAUNCHED();
    return OK;
}

template <class T, int DC, bool FORM>
static Err launch_tiles(const Call *call, const AttentionCuda &a)
{
    int64_t blocks = ceil_div(a.lq, TILE);
    size_t  bytes = sizeof(Tiles<DC>);
    dim3    grid((unsigned)(a.n_heads * blocks), (unsigned)a.chunks);
    CUDA_TRY(cudaFuncSetAttribute(forward_tiles<T, DC, FORM>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    forward_tiles<T, DC, FORM><<<grid, TILE_THREADS, bytes, cuda_stream(call)>>>(a, blocks);
    CUDA_LAUNCHED();
    return OK;
}

template <class T> static Err forward_with(const Call *call, const AttentionCuda &a)
{
    /* too few blocks to fill the GPU: make them smaller */
    bool few = a.n_heads * ceil_div(a.lq, 128) < 2 * cuda_handle(call)->sms;
    int  wider = a.width > a.v_width ? a.width : a.v_width;
    WITH_WIDTH(wider, D, {
        constexpr int max_mt = D > 80 || sizeof(T) == 4 ? 1 : 2; /* limited by registers */
        if (a.form)
            return launch_mma<T, D, 1, true>(call, a);
        if (few)
            return launch_mma<T, D, 1, false>(call, a);
        return launch_mma<T, D, max_mt, false>(call, a);
    });
}

Err attention_cuda_forward(const Call *call, AttentionCuda a)
{
    attention_cuda_set(&a);
    if (attention_cuda_head(call->node, call->device))
        return attention_head_forward(call, a);
    if (attention_cuda_wgmma(call->node, call->device))
        return attention_wgmma_forward(call, a);
    /* attention_stored computes its probabilities from exact fp32 scores; lse must match them. */
    if (attention_cuda_mma(call->node, call->device) && !(a.type == F32 && a.part))
        return a.type == BF16  ? forward_with<bf16>(call, a)
               : a.type == F16 ? forward_with<f16>(call, a)
                               : forward_with<float>(call, a);
    WITH_FLOAT(a.type, T, {
        bool narrow = a.width <= 64 && a.v_width <= 64;
        if (a.form)
            return narrow ? launch_tiles<T, 64, true>(call, a)
                          : launch_tiles<T, 128, true>(call, a);
        return narrow ? launch_tiles<T, 64, false>(call, a) : launch_tiles<T, 128, false>(call, a);
    });
    return OK;
}

Err attention_cuda_temperature_reduce(const Call *call, const AttentionCuda *a, int64_t count)
{
    temperature_reduce<<<1, 256, 0, cuda_stream(call)>>>(a->temperature_sums, count,
                                                         (float *)call->out[ATTENTION_TEMPERATURE]);
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err attention_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    choice->name = attention_cuda_name(n, device);
    return attention_cuda_wide(n) ? attention_wide_choose(n, device, false, choice) : OK;
}

extern "C" Err attention_prepare_cuda(Pool *pool, Call *call)
{
    return attention_cuda_wide(call->node) ? attention_wide_prepare(pool, call, false) : OK;
}

extern "C" Err attention_cuda(const Call *call)
{
    if (attention_cuda_wide(call->node))
        return attention_wide_forward(call);
    AttentionCuda a = attention_cuda_of(call, call->node);
    a.y = attention_cuda_side_y(call->node, call->out[0]);
    a.lse = (float *)call->out[1];
    return attention_cuda_forward(call, a);
}

CUDA_KERNEL(attention, .choose = attention_choose_cuda, .prepare = attention_prepare_cuda,
            .run = attention_cuda)
