/* attention_wide_cuda.cu -- attention with heads wider than 128 on CUDA, which do not fit in a
 * block's registers (StableSR's autoencoder has one head of 512).
 *
 * Queries are processed in chunks. linalg's matrix products write the scores of a chunk to
 * workspace; kernels over its rows compute exponentials and ds in between. Heads at equal strides
 * are one batched product. The gradients of keys and values are sums over all queries: with several
 * chunks they are summed in fp32 and rounded once. */
#include "ops/attention/attention_cuda.h"

extern "C" {
#include "linalg/linalg.h"
}

enum { CHUNK_SCORES = 4 << 20, ROW_THREADS = 256 }; /* scores per chunk: enough to fill a GPU */

typedef enum WideProduct { SCORES, SUMS, DP, DQ, DK, DV, PRODUCTS } WideProduct;

/* How a node is divided into chunks, and the layout of its workspace. */
typedef struct WideLayout {
    int64_t heads_together;        /* heads at equal strides, in one product */
    int64_t chunks;                /* of queries */
    int64_t rows, last;            /* queries per chunk, and in the last one */
    int64_t ld;                    /* between rows of scores */
    size_t  scores, rounded, sums; /* bytes: fp32 scores, p or ds in 16 bits, dk or dv in fp32 */
    size_t  products;              /* offset of the workspace of the products */
    size_t  bytes;
} WideLayout;

typedef struct WidePrims {
    const Prim *at[PRODUCTS][2][2]; /* [product][is first chunk][is last chunk] */
} WidePrims;

/* ---- rows ---- */

typedef struct ScoreRows { /* the scores of a chunk: those of head h begin at row h * rows */
    const float *score, *dp;
    void        *p, *ds;
    float       *lse;
    const float *delta;
    int64_t      rows, columns, ld, lq, query; /* query: the chunk's first */
    float        scale;
    bool         mask_diagonal;
} ScoreRows;

/* One block per row. In fp32 p may overwrite the scores: each thread reads and writes the same
 * elements. */
template <class T> __global__ void __launch_bounds__(ROW_THREADS) wide_softmax(ScoreRows r)
{
    __shared__ float partial[32];
    int64_t          row = blockIdx.x, query = r.query + row % r.rows;
    const float     *score = r.score + row * r.ld;
    T               *p = (T *)r.p + row * r.ld;
    float            scale = r.scale * LOG2_E, top = -INFINITY, sum = 0;
    int64_t          hidden = r.mask_diagonal ? query : -1;
    for (int64_t c = threadIdx.x; c < r.columns; c += ROW_THREADS)
        if (c != hidden)
            top = fmaxf(top, score[c] * scale);
    top = block_max(top, partial);
    for (int64_t c = threadIdx.x; c < r.columns; c += ROW_THREADS)
        sum += c == hidden ? 0.0f : exp2f(__fmul_rn(score[c], scale) - top);
    sum = block_sum(sum, partial);
    float part = 1 / sum;
    for (int64_t c = threadIdx.x; c < r.columns; c += ROW_THREADS)
        put(p, c, c == hidden ? 0.0f : exp2f(__fmul_rn(score[c], scale) - top) * part);
    if (threadIdx.x == 0)
        r.lse[row / r.rows * r.lq + query] = (top + log2f(sum)) * LN_2;
}

/* Recomputes p, and computes ds times the scale that dq and dk need. */
template <class T> __global__ void __launch_bounds__(ROW_THREADS) wide_differences(ScoreRows r)
{
    int64_t      row = blockIdx.x, query = r.query + row % r.rows, at = row / r.rows * r.lq + query;
    const float *score = r.score + row * r.ld, *dp = r.dp + row * r.ld;
    T           *p = (T *)r.p + row * r.ld, *ds = (T *)r.ds + row * r.ld;
    float        scale = r.scale * LOG2_E, lse = r.lse[at] * LOG2_E, delta = r.delta[at];
    int64_t      hidden = r.mask_diagonal ? query : -1;
    for (int64_t c = threadIdx.x; c < r.columns; c += ROW_THREADS) {
        float x = c == hidden ? 0.0f : exp2f(__fmul_rn(score[c], scale) - lse), d = dp[c];
        put(p, c, x);
        put(ds, c, x * (d - delta) * r.scale);
    }
}

/* Rounds the sums of one head into the output. */
template <class T>
__global__ void wide_round(const float *sums, T *to, int64_t rows, int64_t width, int64_t ld)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * width;
         i += (int64_t)gridDim.x * blockDim.x)
        put(to, i / width * ld + i % width, sums[i]);
}

/* ---- chunks and products ---- */

bool attention_cuda_wide(const Node *n)
{
    const AttentionAttr *attr = ATTR(n, AttentionAttr);
    return attr->width > 128 && !in_given(n, ATTENTION_TEMPERATURE) && !attention_cuda_form(n) &&
           attr->kv_heads == attr->heads && attr->v_width == attr->width;
}

static size_t align_256(int64_t bytes) { return align_bytes((size_t)bytes, 256); }

static int64_t element(const AttentionCuda &a) { return a.type == F32 ? 4 : 2; }

/* The stride between the heads of one product. */
static int64_t step_of(const AttentionCuda &a, const SideCuda &side)
{
    return a.heads == 1 ? side.batch_stride : side.head_stride;
}

/* Rows of a chunk's queries times all keys: q k^T, dy v^T. */
static MatmulDesc scores_desc(const AttentionCuda &a, const WideLayout &w, int64_t rows,
                              const SideCuda &left, const SideCuda &right)
{
    MatmulDesc d = {};
    d.batch = w.heads_together;
    d.m = rows, d.n = a.lk, d.k = a.width;
    d.lda = left.ld, d.ldb = right.ld, d.ldc = w.ld;
    d.stride_a = step_of(a, left), d.stride_b = step_of(a, right), d.stride_c = w.rows * w.ld;
    d.type_a = d.type_b = a.type, d.type_c = F32;
    d.trans_b = true;
    return d;
}

/* Probabilities times values, or ds times keys: p v, ds k. */
static MatmulDesc sums_desc(const AttentionCuda &a, const WideLayout &w, int64_t rows,
                            const SideCuda &right, const SideCuda &out)
{
    MatmulDesc d = {};
    d.batch = w.heads_together;
    d.m = rows, d.n = a.width, d.k = a.lk;
    d.lda = w.ld, d.ldb = right.ld, d.ldc = out.ld;
    d.stride_a = w.rows * w.ld, d.stride_b = step_of(a, right), d.stride_c = step_of(a, out);
    d.type_a = d.type_b = d.type_c = a.type;
    return d;
}

/* The same transposed, summed over queries: ds^T q, p^T dy. Several chunks are summed in fp32. */
static MatmulDesc keys_desc(const AttentionCuda &a, const WideLayout &w, int64_t rows,
                            const SideCuda &right, const SideCuda &out, bool first)
{
    MatmulDesc d = sums_desc(a, w, rows, right, out);
    d.m = a.lk, d.k = rows;
    d.trans_a = true;
    d.ldc = w.sums ? a.width : out.ld;
    d.type_c = w.sums ? F32 : a.type;
    d.accumulate = !first;
    return d;
}

static MatmulDesc wide_desc(const AttentionCuda &a, const WideLayout &w, WideProduct product,
                            bool first, bool last)
{
    int64_t rows = last ? w.last : w.rows;
    switch (product) {
    case SCORES: return scores_desc(a, w, rows, a.q, a.k);
    case DP: return scores_desc(a, w, rows, a.dy, a.v);
    case SUMS: return sums_desc(a, w, rows, a.v, a.y);
    case DQ: return sums_desc(a, w, rows, a.k, a.dq);
    case DK: return keys_desc(a, w, rows, a.q, a.dk, first);
    default: return keys_desc(a, w, rows, a.dy, a.dv, first);
    }
}

static WideLayout wide_layout(const AttentionCuda &a, bool gradient)
{
    WideLayout w = {};
    w.ld = ceil_div(a.lk, 8) * 8;
    int64_t heads = a.heads == 1 ? a.n_heads : a.heads; /* at equal strides */
    w.heads_together = 1;
    for (int64_t some = 2; some <= heads && some * a.lq * w.ld <= CHUNK_SCORES; some++)
        if (heads % some == 0)
            w.heads_together = some;
    int64_t max_rows = CHUNK_SCORES / w.ld > 128 ? CHUNK_SCORES / w.ld : 128;
    w.chunks = w.heads_together > 1 ? 1 : ceil_div(a.lq, max_rows);
    w.rows = ceil_div(ceil_div(a.lq, w.chunks), 8) * 8;
    w.rows = w.rows < a.lq ? w.rows : a.lq;
    w.chunks = ceil_div(a.lq, w.rows);
    w.last = a.lq - (w.chunks - 1) * w.rows;
    w.scores = align_256(w.heads_together * w.rows * w.ld * 4);
    w.rounded = a.type == F32 ? 0 : align_256((int64_t)w.scores / 2);
    w.sums = gradient && w.chunks > 1 ? align_256(a.lk * a.width * 4) : 0;
    w.products = gradient ? align_256(a.n_heads * a.lq * 4) + 2 * (w.scores + w.rounded + w.sums)
                          : w.scores + w.rounded;
    w.bytes = w.products;
    return w;
}

/* Finds all products that a node may need, and with them the size of its workspace. */
static Err wide_prims(const Device *device, const AttentionCuda &a, bool gradient, WideLayout *w,
                      WidePrims *prims)
{
    *w = wide_layout(a, gradient);
    size_t max_bytes = 0;
    for (int product = 0; product < PRODUCTS; product++)
        for (int first = 0; first < 2; first++)
            for (int last = 0; last < 2; last++) {
                if (gradient ? product == SUMS : product > SUMS)
                    continue;
                MatmulDesc   d = wide_desc(a, *w, (WideProduct)product, first, last);
                const Prim **prim = &prims->at[product][first][last];
                TRY(linalg_matmul(device->backend, &d, device->threads, prim));
                max_bytes = (*prim)->workspace_bytes > max_bytes ? (*prim)->workspace_bytes
                                                                 : max_bytes;
            }
    w->bytes += max_bytes;
    return OK;
}

static AttentionCuda wide_sides(const Call *call, bool gradient)
{
    const Node   *n = call->node;
    AttentionCuda a = attention_cuda_of(call, n);
    a.y = attention_cuda_side_y(n, gradient ? call->in[attention_kept(n)] : call->out[0]);
    a.lse = (float *)(gradient ? call->in[attention_kept(n) + 1] : call->out[1]);
    if (gradient) {
        a.dy = attention_cuda_side_y(n, call->in[attention_kept(n) + 2]);
        attention_cuda_gradients(call, &a);
        a.delta = (float *)call->workspace;
    }
    return a;
}

Err attention_wide_choose(const Node *n, const Device *device, bool gradient, Choice *choice)
{
    void      *none[16] = {}; /* sizes and strides come from the node alone */
    Call       call = {};
    WideLayout w;
    WidePrims  prims;
    call.node = n;
    call.in = call.out = none;
    TRY(wide_prims(device, wide_sides(&call, gradient), gradient, &w, &prims));
    choice->workspace_bytes = w.bytes;
    return OK;
}

Err attention_wide_prepare(Pool *pool, Call *call, bool gradient)
{
    WideLayout w;
    WidePrims *prims = NEW(pool, WidePrims);
    TRY(wide_prims(call->device, wide_sides(call, gradient), gradient, &w, prims));
    call->prepared = prims;
    return OK;
}

/* ---- running ---- */

typedef struct WideChunk { /* one chunk of queries of the heads in one product */
    const Call   *call;
    AttentionCuda a;
    WideLayout    w;
    int64_t       head, query;                              /* the first of each */
    bool          first, last;                              /* chunk of the head */
    char         *score, *dp, *p, *ds, *sums[2], *products; /* sums: of dk, of dv */
} WideChunk;

static void *place(const WideChunk &k, const SideCuda &side, int64_t row)
{
    const AttentionCuda &a = k.a;
    return side.data + (k.head / a.heads * side.batch_stride + k.head % a.heads * side.head_stride +
                        side.column + row * side.ld) *
                           element(a);
}

static Err wide_product(const WideChunk &k, WideProduct product, void *left, void *right, void *out)
{
    const Prim *prim = ((const WidePrims *)k.call->prepared)->at[product][k.first][k.last];
    PrimArgs    args = {};
    args.a = left;
    args.b = right;
    args.c = out;
    args.workspace = k.products;
    return prim->backend->run(prim, &args);
}

static ScoreRows rows_of(const WideChunk &k)
{
    const AttentionCuda &a = k.a;
    ScoreRows            r = {};
    r.score = (const float *)k.score;
    r.dp = (const float *)k.dp;
    r.p = k.p;
    r.ds = k.ds;
    r.lse = a.lse + k.head * a.lq;
    r.delta = a.delta + (a.delta ? k.head * a.lq : 0);
    r.rows = k.w.rows;
    r.columns = a.lk;
    r.ld = k.w.ld;
    r.lq = a.lq;
    r.query = k.query;
    r.scale = a.scale;
    r.mask_diagonal = a.mask_diagonal;
    return r;
}

/* Only the last chunk may have fewer rows, and then it is of one head. */
static unsigned row_blocks(const WideChunk &k)
{
    return (unsigned)(k.w.heads_together * (k.last ? k.w.last : k.w.rows));
}

static Err forward_chunk(const WideChunk &k)
{
    const Call *call = k.call;
    TRY(wide_product(k, SCORES, place(k, k.a.q, k.query), place(k, k.a.k, 0), k.score));
    WITH_FLOAT(k.a.type, T, {
        wide_softmax<T><<<row_blocks(k), ROW_THREADS, 0, cuda_stream(call)>>>(rows_of(k));
        CUDA_LAUNCHED();
    });
    return wide_product(k, SUMS, k.p, place(k, k.a.v, 0), place(k, k.a.y, k.query));
}

/* Computes dk or dv: in the output, or, with several chunks, in the fp32 sums, which are rounded
 * into the output after the last chunk. */
static Err keys_chunk(const WideChunk &k, WideProduct product)
{
    const Call     *call = k.call;
    const SideCuda &out = product == DK ? k.a.dk : k.a.dv, &right = product == DK ? k.a.q : k.a.dy;
    char           *sums = k.sums[product == DV];
    if (!out.data)
        return OK;
    TRY(wide_product(k, product, product == DK ? k.ds : k.p, place(k, right, k.query),
                     k.w.sums ? sums : place(k, out, 0)));
    if (!k.w.sums || !k.last)
        return OK;
    int64_t count = k.a.lk * k.a.width;
    WITH_FLOAT(k.a.type, T, {
        wide_round<T><<<cuda_blocks(call, count, 256), 256, 0, cuda_stream(call)>>>(
            (const float *)sums, (T *)place(k, out, 0), k.a.lk, k.a.width, out.ld);
        CUDA_LAUNCHED();
    });
    return OK;
}

static Err backward_chunk(const WideChunk &k)
{
    const Call *call = k.call;
    TRY(wide_product(k, SCORES, place(k, k.a.q, k.query), place(k, k.a.k, 0), k.score));
    TRY(wide_product(k, DP, place(k, k.a.dy, k.query), place(k, k.a.v, 0), k.dp));
    WITH_FLOAT(k.a.type, T, {
        wide_differences<T><<<row_blocks(k), ROW_THREADS, 0, cuda_stream(call)>>>(rows_of(k));
        CUDA_LAUNCHED();
    });
    TRY(keys_chunk(k, DV));
    TRY(keys_chunk(k, DK));
    return k.a.dq.data ? wide_product(k, DQ, k.ds, place(k, k.a.k, 0), place(k, k.a.dq, k.query))
                       : OK;
}

static WideChunk chunk_of(const Call *call, bool gradient)
{
    WideChunk k = {};
    char     *at = (char *)call->workspace;
    k.call = call;
    k.a = wide_sides(call, gradient);
    k.w = wide_layout(k.a, gradient);
    k.products = at + k.w.products;
    at += gradient ? align_256(k.a.n_heads * k.a.lq * 4) : 0;
    k.score = at;
    k.p = k.w.rounded ? at + k.w.scores : at;
    at += k.w.scores + k.w.rounded;
    k.dp = at;
    k.ds = k.w.rounded ? at + k.w.scores : at;
    at += k.w.scores + k.w.rounded;
    k.sums[0] = at;
    k.sums[1] = at + k.w.sums;
    return k;
}

static Err wide_each_chunk(WideChunk *k, Err (*run)(const WideChunk &))
{
    for (k->head = 0; k->head < k->a.n_heads; k->head += k->w.heads_together)
        for (int64_t i = 0; i < k->w.chunks; i++) {
            k->query = i * k->w.rows;
            k->first = i == 0;
            k->last = i == k->w.chunks - 1;
            TRY(run(*k));
        }
    return OK;
}

Err attention_wide_forward(const Call *call)
{
    WideChunk k = chunk_of(call, false);
    return wide_each_chunk(&k, forward_chunk);
}

Err attention_wide_backward(const Call *call)
{
    WideChunk k = chunk_of(call, true);
    attention_cuda_set(&k.a);
    TRY(attention_cuda_delta(call, k.a));
    return wide_each_chunk(&k, backward_chunk);
}
