/* attention_cuda.h -- what the CUDA attention kernels share: the layout of q, k, v; fp32 tiles.
 *
 * There are five families of kernels. Masks by position (causal), a bias and dropout are "forms":
 * kernels are compiled with and without them, so that plain attention pays nothing. All but the last follow the loop order of Dao (2023,
 * FlashAttention-2):
 *
 *   heads      bf16 and fp16 on Hopper, up to 288 positions, heads of even width up to 64: a block
 *              holds all keys of a head (attention_head.h)
 *   wgmma      bf16 and fp16 on Hopper, heads of even width up to 128: a warpgroup multiplies 64
 *              rows, the TMA fetches tiles (attention_ring.h)
 *   mma        other GPUs, odd widths, and fp32 whose factors may be rounded to tf32: tensor-core
 *              products of 16 rows by 8 (attention_mma.h)
 *   tiles      exact fp32, and whatever no other family takes: 128 threads compute 64 x 64 scores,
 *              each 8 rows by 4 columns. The summed index is read in slices and results are
 *              written in chunks of columns, so that any width fits; every chunk recomputes the
 *              scores
 *   products   heads wider than 128: the scores of some queries at a time, by the matrix products
 *              of linalg (attention_wide_cuda.cu)
 */
#ifndef OPS_ATTENTION_ATTENTION_CUDA_H
#define OPS_ATTENTION_ATTENTION_CUDA_H

#include "ops/ops_cuda.h"

#include <float.h>

extern "C" {
#include "base/random.h"
#include "ops/attention/attention.h"
#include "ops/optimizer/optim.h"
}

typedef struct SideCuda { /* q, k, v, y or a gradient; data is NULL if it is not wanted */
    char   *data;
    int64_t ld, batch_stride, column, head_stride; /* in elements */
    int     width, share; /* columns of a head; heads of q that share one of its heads */
} SideCuda;

typedef struct AttentionCuda {
    SideCuda       q, k, v, y, dy, dq, dk, dv;
    float         *lse;   /* [n_heads][lq] */
    float         *part;  /* [n_heads][lq] or NULL: see lse_put */
    float         *delta; /* [n_heads][lq]: rowsum(dy * y) */
    /* wgmma, instead of delta: [n_heads][tiles][2][tile], the lse (base 2) and delta of each tile's
     * queries; both are 0 beyond the last query */
    float         *stats;
    int            tile, tiles;
    double        *temperature_sums; /* partial sums of its gradient, one per block of keys */
    void          *p;                /* stored probabilities [n_heads][lq][lk], or NULL */
    int64_t        heads, n_heads, lq, lk;
    int64_t        share;          /* heads of q that share one of k and v */
    int            width, v_width; /* of q and k; of v and y */
    int            chunks;         /* of columns, for the tiles family */
    int            copy;           /* bytes per copy that all alignments allow: 2, 4, 8, 16 */
    float          scale;          /* without a temperature */
    const void    *temperature;
    Type           type, type_t;
    bool           mask_diagonal;
    bool           form; /* any of the following */
    bool           causal;
    const void    *bias; /* or NULL */
    Type           bias_type;
    int64_t        bias_stride[3]; /* of samples, heads, queries; 0 where it is repeated */
    float          dropout;
    uint32_t       stream;
    const int32_t *counters;
} AttentionCuda;

AttentionCuda attention_cuda_of(const Call *call, const Node *n); /* without y, dy, gradients */
SideCuda      attention_cuda_side(const Node *n, AttentionSlice slice, void *const *pointers);
SideCuda      attention_cuda_side_y(const Node *n, void *data);
void          attention_cuda_gradients(const Call *call, AttentionCuda *a);
void          attention_cuda_set(AttentionCuda *a); /* copy and chunks, after all sides are set */
/* Whether a node runs in a family, and the name of the family it runs in. */
bool          attention_cuda_head(const Node *n, const Device *device);
bool          attention_cuda_wgmma(const Node *n, const Device *device);
bool          attention_cuda_mma(const Node *n, const Device *device);
bool          attention_cuda_wide(const Node *n); /* products */
bool          attention_cuda_form(const Node *n);
int64_t       attention_cuda_width(const Node *n); /* the wider of k and v */
const char   *attention_cuda_name(const Node *n, const Device *device);
int64_t       attention_cuda_temperature_count(const Node *n); /* max. temperature_sums */
Err           attention_cuda_forward(const Call *call, AttentionCuda a);
int           attention_wgmma_tile(int64_t width); /* queries per tile of attention_wgmma_keys */
Err           attention_wgmma_forward(const Call *call, const AttentionCuda &a);
/* dk, dv and the partial sums for the temperature; dq */
Err           attention_wgmma_keys(const Call *call, const AttentionCuda &a);
Err           attention_wgmma_queries(const Call *call, const AttentionCuda &a);
Err           attention_mma_keys(const Call *call, const AttentionCuda &a);
Err           attention_mma_queries(const Call *call, const AttentionCuda &a);
Err           attention_tiles_backward(const Call *call, const AttentionCuda &a);
bool          attention_head_fits(int64_t lq, int64_t lk, int64_t width);
Err           attention_head_forward(const Call *call, const AttentionCuda &a);
Err           attention_head_backward(const Call *call, const AttentionCuda &a);
/* Inputs, gradients and workspace of a gradient node, without y and dy; bytes of that workspace. */
AttentionCuda attention_cuda_backward(const Call *call);
size_t        attention_cuda_backward_bytes(const Node *n);
/* delta = rowsum(dy * y); after attention_cuda_set */
Err           attention_cuda_delta(const Call *call, const AttentionCuda &a);
Err attention_wide_choose(const Node *n, const Device *device, bool gradient, Choice *choice);
Err attention_wide_prepare(Pool *pool, Call *call, bool gradient);
Err attention_wide_forward(const Call *call);
Err attention_wide_backward(const Call *call);
Err attention_cuda_temperature_reduce(const Call *call, const AttentionCuda *a, int64_t count);

enum { TILE = 64, SLICE = 32, TILE_LD = TILE + 4, TILE_THREADS = 128 };

#define LOG2_E 1.44269504088896f
#define LN_2   0.69314718055995f

#ifdef __CUDACC__

__device__ __forceinline__ float attention_scale_of(const AttentionCuda &a)
{
    if (!a.temperature)
        return a.scale;
    float t = a.type_t == F32    ? *(const float *)a.temperature
              : a.type_t == BF16 ? get((const bf16 *)a.temperature, 0)
                                 : get((const f16 *)a.temperature, 0);
    return fmaxf(expf(t), FLT_MIN); /* never 0: scaling a masked score must give infinity */
}

/* Stores a row's log-sum-exp, given its maximum score (base 2) and the sum of exponentials relative
 * to it. With a.part both are stored separately: then probabilities sum to 1 however large the
 * scores are. */
__device__ __forceinline__ void lse_put(const AttentionCuda &a, int64_t row, float top, float sum)
{
    a.lse[row] = a.part ? top : (top + log2f(sum)) * LN_2;
    if (a.part)
        a.part[row] = 1 / sum;
}

/* The same where a query may see no key: its sum is 0, and an infinite log-sum-exp makes its
 * probabilities 0 in the backward pass. Returns the factor that makes y a mean. */
__device__ __forceinline__ float lse_put_safe(const AttentionCuda &a, int64_t row, float top,
                                              float sum)
{
    float part = sum > 0 ? 1 / sum : 0.0f;
    a.lse[row] = a.part ? top : sum > 0 ? (top + log2f(sum)) * LN_2 : INFINITY;
    if (a.part)
        a.part[row] = part;
    return part;
}

__device__ __forceinline__ float *stats_of(const AttentionCuda &a, int64_t head, int64_t tile)
{
    return a.stats + (head * a.tiles + tile) * 2 * a.tile;
}

template <class T>
__device__ __forceinline__ T *head_rows(const AttentionCuda &a, const SideCuda &s, int64_t head)
{
    return (T *)s.data + head / a.heads * s.batch_stride +
           head % a.heads / s.share * s.head_stride + s.column;
}

/* ---- forms ---- */

/* A maximum of scores begins here where a query may see no key: exponentials are then 0, not
 * undefined. */
#define FORM_LOW -1e30f

struct FormHead { /* of one head: where its bias begins, and its random numbers */
    int64_t   bias;
    uint64_t  element;
    RandomKey key;
};

__device__ __forceinline__ FormHead form_head(const AttentionCuda &a, int64_t head)
{
    FormHead f = {};
    if (a.bias)
        f.bias = head / a.heads * a.bias_stride[0] + head % a.heads * a.bias_stride[1];
    if (a.dropout > 0) {
        const int32_t *c = a.counters;
        f.key.seed = (uint64_t)(uint32_t)c[COUNTER_SEED_HIGH] << 32 | (uint32_t)c[COUNTER_SEED_LOW];
        f.key.stream = a.stream;
        f.key.step = (uint32_t)c[COUNTER_STEP];
        f.element = ((uint64_t)(uint32_t)c[COUNTER_MICRO] * (uint64_t)a.n_heads + (uint64_t)head) *
                    (uint64_t)(a.lq * a.lk);
    }
    return f;
}

__device__ __forceinline__ bool form_sees(const AttentionCuda &a, int64_t query, int64_t key)
{
    return query < a.lq && key < a.lk && !(a.causal && key > query) &&
           !(a.mask_diagonal && key == query);
}

/* The bias of a query and a key that exist. */
__device__ __forceinline__ float form_bias(const AttentionCuda &a, const FormHead &f, int64_t query,
                                           int64_t key)
{
    int64_t at = f.bias + query * a.bias_stride[2] + key;
    return a.bias_type == F32    ? ((const float *)a.bias)[at]
           : a.bias_type == BF16 ? get((const bf16 *)a.bias, at)
                                 : get((const f16 *)a.bias, at);
}

/* A scaled score to a logit, both to base 2. */
__device__ __forceinline__ float form_logit(const AttentionCuda &a, const FormHead &f,
                                            int64_t query, int64_t key, float score)
{
    if (!form_sees(a, query, key))
        return -INFINITY;
    return a.bias ? score + form_bias(a, f, query, key) * LOG2_E : score;
}

/* What dropout multiplies a probability by. */
__device__ __forceinline__ float form_keep(const AttentionCuda &a, const FormHead &f, int64_t query,
                                           int64_t key)
{
    if (a.dropout == 0)
        return 1;
    uint64_t element = f.element + (uint64_t)(query * a.lk + key);
    uint32_t w[4];
    int      j = (int)(element % 4);
    random_block(f.key, element / 4, w);
    uint32_t word = j == 0 ? w[0] : j == 1 ? w[1] : j == 2 ? w[2] : w[3];
    return random_unit(word) < a.dropout ? 0.0f : 1 / (1 - a.dropout);
}

/* Note [Dropout by blocks of four]
 * One block of the random generator has the numbers of four keys of one query, if rows of keys begin
 * at a multiple of four. In a fragment of 16 rows a thread holds two neighbouring columns of two
 * rows, so that four elements of a thread come from up to four blocks. Lanes therefore draw one
 * block each and exchange the answers, one bit an element: a quarter of the work of form_keep. Bit
 * 4 n + e of the result says whether [n][e] is kept. All lanes of a warp must take part. */
__device__ __forceinline__ uint32_t form_kept_four(const AttentionCuda &a, const FormHead &f,
                                                   uint64_t block)
{
    uint32_t w[4], kept = 0;
    random_block(f.key, block, w);
#pragma unroll
    for (int j = 0; j < 4; j++)
        kept |= random_unit(w[j]) < a.dropout ? 0u : 1u << j;
    return kept;
}

/* Rows are 16 queries from `query` on, columns at most 64 keys from `key` on, a multiple of 4. */
template <int COLUMNS>
__device__ __forceinline__ uint32_t form_kept_keys(const AttentionCuda &a, const FormHead &f,
                                                   int64_t query, int64_t key)
{
    static_assert(COLUMNS <= 64, "a bit for every element of a thread");
    int      g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4, odd = t & 1;
    uint32_t kept = 0;
    if (a.lk % 4) {
#pragma unroll 1
        for (int i = 0; i < COLUMNS / 2; i++) {
            int64_t at = key + i / 4 * 8 + 2 * t + i % 2;
            kept |= form_keep(a, f, query + g + i % 4 / 2 * 8, at) > 0 ? 1u << i : 0u;
        }
        return kept;
    }
    uint64_t block = (f.element + (uint64_t)((query + g + 8 * odd) * a.lk + key + t / 2 * 4)) / 4;
#pragma unroll 2
    for (int n = 0; n < COLUMNS / 8; n++)
        kept |= form_kept_four(a, f, block + 2 * (uint64_t)n) << 4 * n;
    uint32_t other = __shfl_xor_sync(0xffffffffu, kept, 1);
    return odd ? (kept & 0xccccccccu) | (other >> 2 & 0x33333333u)
               : (kept & 0x33333333u) | (other << 2 & 0xccccccccu);
}

/* Rows are 16 keys from `key` on, a multiple of 4, columns at most 64 queries from `query` on. */
template <int COLUMNS>
__device__ __forceinline__ uint32_t form_kept_queries(const AttentionCuda &a, const FormHead &f,
                                                      int64_t query, int64_t key)
{
    static_assert(COLUMNS <= 64, "a bit for every element of a thread");
    int      lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4, i = g % 4;
    uint32_t drawn = 0, kept = 0;
    if (a.lk % 4) {
#pragma unroll 1
        for (int j = 0; j < COLUMNS / 2; j++) {
            int64_t at = query + j / 4 * 8 + 2 * t + j % 2;
            kept |= form_keep(a, f, at, key + g + j % 4 / 2 * 8) > 0 ? 1u << j : 0u;
        }
        return kept;
    }
    /* of the four elements of a thread, lane i of four draws the i-th */
    uint64_t first = (uint64_t)((query + 2 * t + i % 2) * a.lk + key + (g & 4) + i / 2 * 8);
    uint64_t block = (f.element + first) / 4;
#pragma unroll 2
    for (int n = 0; n < COLUMNS / 8; n++)
        drawn |= form_kept_four(a, f, block + 2 * (uint64_t)(n * a.lk)) << 4 * n;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        uint32_t of = __shfl_sync(0xffffffffu, drawn, (lane & ~12) | e << 2);
        kept |= (of >> i & 0x11111111u) << e;
    }
    return kept;
}

/* Applies dropout to 64 columns or less. */
template <int COLUMNS, int BLOCKS>
__device__ __forceinline__ void form_drop(const AttentionCuda &a, float (&x)[BLOCKS][4],
                                          uint32_t kept, int first = 0)
{
    float factor = 1 / (1 - a.dropout);
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            x[first + n][e] = kept >> (4 * n + e) & 1 ? x[first + n][e] * factor : 0.0f;
}

/* Dropout of the probabilities of 16 queries from `query` on. */
template <int KEYS>
__device__ __forceinline__ void scores_drop(const AttentionCuda &a, const FormHead &f,
                                            float (&score)[KEYS / 8][4], int64_t query, int64_t key)
{
    constexpr int part = KEYS < 64 ? KEYS : 64;
    static_assert(KEYS % part == 0, "parts of equal width");
#pragma unroll
    for (int c = 0; c < KEYS; c += part)
        form_drop<part>(a, score, form_kept_keys<part>(a, f, query, key + c), c / 8);
}

/* Keys that queries below `end` may see. */
__device__ __forceinline__ int64_t form_keys(const AttentionCuda &a, int64_t end)
{
    return a.causal && end < a.lk ? end : a.lk;
}

/* ---- tiles of floats ---- */

/* Shared memory: two slices, transposed scores, rows of one chunk of columns. */
template <int DC> struct Tiles {
    float a[SLICE][TILE_LD], b[SLICE][TILE_LD];
    float p[TILE][TILE_LD];
    float c[TILE][DC];
};

/* Loads columns [at, at+SLICE) of up to n rows, transposed and padded with zeros. A warp takes 8
 * columns of 4 rows at a time, which fall into 32 different banks. */
template <class T>
__device__ __forceinline__ void slice_load(float (*to)[TILE_LD], const T *x, int64_t ld, int64_t n,
                                           int at, int width)
{
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int c0 = lane % 8, r0 = lane / 8 + 4 * warp;
#pragma unroll
    for (int r = 0; r < TILE; r += 16)
#pragma unroll
        for (int c = 0; c < SLICE; c += 8) {
            bool there = r + r0 < n && at + c + c0 < width;
            to[c + c0][r + r0] = there ? get(x, (int64_t)(r + r0) * ld + at + c + c0) : 0.0f;
        }
}

/* Loads columns [at, at+DC) of up to n rows, padded with zeros. */
template <class T, int DC>
__device__ __forceinline__ void chunk_load(float (*to)[DC], const T *x, int64_t ld, int64_t n,
                                           int at, int width)
{
    for (int i = (int)threadIdx.x; i < TILE * DC; i += TILE_THREADS) {
        int r = i / DC, c = i % DC;
        to[r][c] = r < n && at + c < width ? get(x, (int64_t)r * ld + at + c) : 0.0f;
    }
}

/* acc[i][j] = row ty*8+i of x times row tx+16j of y. Begins with a barrier. */
template <class T, int DC>
__device__ __forceinline__ void tile_dot(Tiles<DC> &s, float (&acc)[8][4], const T *x, int64_t ldx,
                                         int64_t nx, const T *y, int64_t ldy, int64_t ny, int width)
{
    int tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            acc[i][j] = 0;
    for (int at = 0; at < width; at += SLICE) {
        __syncthreads();
        slice_load(s.a, x, ldx, nx, at, width);
        slice_load(s.b, y, ldy, ny, at, width);
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < SLICE; k++) {
            float4 lo = *(const float4 *)&s.a[k][ty * 8], hi = *(const float4 *)&s.a[k][ty * 8 + 4];
            float  a[8] = { lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w };
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float b = s.b[k][tx + 16 * j];
#pragma unroll
                for (int i = 0; i < 8; i++)
                    acc[i][j] += a[i] * b;
            }
        }
    }
}

/* Stores the scores transposed, as the left-hand side of the next product. */
template <int DC>
__device__ __forceinline__ void tile_transpose(Tiles<DC> &s, const float (&p)[8][4])
{
    int tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        float *to = &s.p[tx + 16 * j][ty * 8];
        *(float4 *)to = make_float4(p[0][j], p[1][j], p[2][j], p[3][j]);
        *(float4 *)(to + 4) = make_float4(p[4][j], p[5][j], p[6][j], p[7][j]);
    }
}

/* acc[i][4q+x] += sum over k of p[k][ty*8+i] c[k][64q + 4tx + x]. */
template <int DC>
__device__ __forceinline__ void tile_add(const Tiles<DC> &s, float (&acc)[8][DC / 16])
{
    int tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
#pragma unroll 4
    for (int k = 0; k < TILE; k++) {
        float4 lo = *(const float4 *)&s.p[k][ty * 8], hi = *(const float4 *)&s.p[k][ty * 8 + 4];
        float  a[8] = { lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w };
#pragma unroll
        for (int q = 0; q < DC / 64; q++) {
            float4 c = *(const float4 *)&s.c[k][64 * q + 4 * tx];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                acc[i][4 * q] += a[i] * c.x;
                acc[i][4 * q + 1] += a[i] * c.y;
                acc[i][4 * q + 2] += a[i] * c.z;
                acc[i][4 * q + 3] += a[i] * c.w;
            }
        }
    }
}

/* Stores up to n rows of the chunk of columns at `at`, row i times factor[i]. */
template <class T, int DC>
__device__ __forceinline__ void tile_store(T *to, int64_t ld, int64_t n, int at, int width,
                                           const float (&acc)[8][DC / 16], const float (&factor)[8])
{
    int tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int e = 0; e < DC / 16; e++) {
            int c = at + 64 * (e / 4) + 4 * tx + e % 4;
            if (ty * 8 + i < n && c < width)
                put(to, (int64_t)(ty * 8 + i) * ld + c, acc[i][e] * factor[i]);
        }
}

#endif
#endif
