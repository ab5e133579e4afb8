/* attention_wide_cuda.cu -- attention of heads wider than 128 on CUDA: what a block's registers do
 * not hold (StableSR's autoencoder has one head of 512).
 *
 * Scores of some queries at a time go into workspace, by the products that linear layers have too;
 * between products there are rows: exponentials, ds. Heads at equal distances are one product. The
 * gradients of keys and values are sums over all queries: where these come in several pieces, they
 * are added up in fp32 and rounded once. */
#include "ops/attention/attention_cuda.h"

extern "C" {
#include "linalg/linalg.h"
}

enum { PIECE_SCORES = 4 << 20, ROW_THREADS = 256 };  /* a piece: enough to fill a GPU */

typedef enum Made { SCORES, SUMS, DP, DQ, DK, DV, MADE } Made;   /* one product each */

/* How a node is cut, what its workspace holds and where. */
typedef struct Wide {
    int64_t together;            /* heads at equal distances, in one product */
    int64_t pieces, rows, last;  /* of queries; in each, and in the last */
    int64_t ld;                  /* between rows of scores */
    size_t  scores, narrow, sums;    /* bytes: fp32 scores, what is rounded from them, dk in fp32 */
    size_t  products;            /* where the products' own workspace begins */
    size_t  bytes;
} Wide;

typedef struct WidePrims {       /* [first piece][last piece] */
    const Prim *at[MADE][2][2];
} WidePrims;

/* ---- rows ---- */

typedef struct Rows {            /* of a piece's scores: head h's begin at row h * rows */
    const float *score, *dp;
    void        *p, *ds;
    float       *lse;
    const float *delta;
    int64_t      rows, columns, ld, lq, query;   /* query: the first of the piece */
    float        scale;
    bool         mask_diagonal;
} Rows;

/* A block a row. In fp32 p may lie on the scores: each thread comes back to its own. */
template <class T> __global__ void __launch_bounds__(ROW_THREADS) wide_softmax(Rows r)
{
    __shared__ float lines[32];
    int64_t      row = blockIdx.x, query = r.query + row % r.rows;
    const float *score = r.score + row * r.ld;
    T           *p = (T *)r.p + row * r.ld;
    float        scale = r.scale * LOG2_E, top = -INFINITY, sum = 0;
    int64_t      hidden = r.mask_diagonal ? query : -1;
    for (int64_t c = threadIdx.x; c < r.columns; c += ROW_THREADS)
        if (c != hidden)
            top = fmaxf(top, score[c] * scale);
    top = block_max(top, lines);
    for (int64_t c = threadIdx.x; c < r.columns; c += ROW_THREADS)
        sum += c == hidden ? 0.0f : exp2f(__fmul_rn(score[c], scale) - top);
    sum = block_sum(sum, lines);
    float part = 1 / sum;
    for (int64_t c = threadIdx.x; c < r.columns; c += ROW_THREADS)
        put(p, c, c == hidden ? 0.0f : exp2f(__fmul_rn(score[c], scale) - top) * part);
    if (threadIdx.x == 0)
        r.lse[row / r.rows * r.lq + query] = (top + log2f(sum)) * LN_2;
}

/* p again, and ds with the scale that dq and dk have before them. */
template <class T> __global__ void __launch_bounds__(ROW_THREADS) wide_differences(Rows r)
{
    int64_t      row = blockIdx.x, query = r.query + row % r.rows,
                 at = row / r.rows * r.lq + query;
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

/* Sums of one head, rounded to where they belong. */
template <class T>
__global__ void wide_round(const float *sums, T *to, int64_t rows, int64_t width, int64_t ld)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * width;
         i += (int64_t)gridDim.x * blockDim.x)
        put(to, i / width * ld + i % width, sums[i]);
}

/* ---- how it is cut ---- */

bool attention_cuda_wide(const Node *n)
{
    return ATTR(n, AttentionAttr)->width > 128 && !in_given(n, ATTENTION_TEMPERATURE);
}

static size_t aligned(int64_t bytes) { return ((size_t)bytes + 255) / 256 * 256; }

static int64_t element(const AttentionCuda &a) { return a.type == F32 ? 4 : 2; }

/* Between neighbours of those heads that lie at equal distances. */
static int64_t step_of(const AttentionCuda &a, const SideCuda &side)
{
    return a.heads == 1 ? side.batch_stride : side.head_stride;
}

/* Rows of some queries times all keys: q k^T, dy v^T. */
static MatmulDesc scores_desc(const AttentionCuda &a, const Wide &w, int64_t rows,
                              const SideCuda &left, const SideCuda &right)
{
    MatmulDesc d = {};
    d.batch = w.together;
    d.m = rows, d.n = a.lk, d.k = a.width;
    d.lda = left.ld, d.ldb = right.ld, d.ldc = w.ld;
    d.stride_a = step_of(a, left), d.stride_b = step_of(a, right), d.stride_c = w.rows * w.ld;
    d.type_a = d.type_b = a.type, d.type_c = F32;
    d.trans_b = true;
    return d;
}

/* What was made of scores times keys or values: p v, ds k. */
static MatmulDesc sums_desc(const AttentionCuda &a, const Wide &w, int64_t rows,
                            const SideCuda &right, const SideCuda &out)
{
    MatmulDesc d = {};
    d.batch = w.together;
    d.m = rows, d.n = a.width, d.k = a.lk;
    d.lda = w.ld, d.ldb = right.ld, d.ldc = out.ld;
    d.stride_a = w.rows * w.ld, d.stride_b = step_of(a, right), d.stride_c = step_of(a, out);
    d.type_a = d.type_b = d.type_c = a.type;
    return d;
}

/* The same turned, over queries: ds^T q, p^T dy; several pieces are added up in fp32. */
static MatmulDesc keys_desc(const AttentionCuda &a, const Wide &w, int64_t rows,
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

static MatmulDesc wide_desc(const AttentionCuda &a, const Wide &w, Made made, bool first, bool last)
{
    int64_t rows = last ? w.last : w.rows;
    switch (made) {
    case SCORES: return scores_desc(a, w, rows, a.q, a.k);
    case DP:     return scores_desc(a, w, rows, a.dy, a.v);
    case SUMS:   return sums_desc(a, w, rows, a.v, a.y);
    case DQ:     return sums_desc(a, w, rows, a.k, a.dq);
    case DK:     return keys_desc(a, w, rows, a.q, a.dk, first);
    default:     return keys_desc(a, w, rows, a.dy, a.dv, first);
    }
}

static Wide wide_of(const AttentionCuda &a, bool gradient)
{
    Wide w = {};
    w.ld = ceil_div(a.lk, 8) * 8;
    int64_t heads = a.heads == 1 ? a.n_heads : a.heads;  /* at equal distances */
    w.together = 1;
    for (int64_t some = 2; some <= heads && some * a.lq * w.ld <= PIECE_SCORES; some++)
        if (heads % some == 0)
            w.together = some;
    int64_t most = PIECE_SCORES / w.ld > 128 ? PIECE_SCORES / w.ld : 128;
    w.pieces = w.together > 1 ? 1 : ceil_div(a.lq, most);
    w.rows = ceil_div(ceil_div(a.lq, w.pieces), 8) * 8;
    w.rows = w.rows < a.lq ? w.rows : a.lq;
    w.pieces = ceil_div(a.lq, w.rows);
    w.last = a.lq - (w.pieces - 1) * w.rows;
    w.scores = aligned(w.together * w.rows * w.ld * 4);
    w.narrow = a.type == F32 ? 0 : aligned((int64_t)w.scores / 2);
    w.sums = gradient && w.pieces > 1 ? aligned(a.lk * a.width * 4) : 0;
    w.products = gradient ? aligned(a.n_heads * a.lq * 4) + 2 * (w.scores + w.narrow + w.sums)
                          : w.scores + w.narrow;
    w.bytes = w.products;
    return w;
}

/* Every product a node may make, and with them its workspace. */
static Err wide_prims(const Device *device, const AttentionCuda &a, bool gradient, Wide *w,
                      WidePrims *prims)
{
    *w = wide_of(a, gradient);
    size_t most = 0;
    for (int made = 0; made < MADE; made++)
        for (int first = 0; first < 2; first++)
            for (int last = 0; last < 2; last++) {
                if (gradient ? made == SUMS : made > SUMS)
                    continue;
                MatmulDesc   d = wide_desc(a, *w, (Made)made, first, last);
                const Prim **prim = &prims->at[made][first][last];
                TRY(linalg_matmul(device->backend, &d, device->threads, prim));
                most = (*prim)->workspace_bytes > most ? (*prim)->workspace_bytes : most;
            }
    w->bytes += most;
    return OK;
}

static AttentionCuda wide_sides(const Call *call, bool gradient)
{
    const Node   *n = call->node;
    AttentionCuda a = attention_cuda_of(call, n);
    a.y = attention_cuda_side_y(n, gradient ? call->in[ATTENTION_INPUTS] : call->out[0]);
    a.lse = (float *)(gradient ? call->in[ATTENTION_INPUTS + 1] : call->out[1]);
    if (gradient) {
        a.dy = attention_cuda_side_y(n, call->in[ATTENTION_INPUTS + 2]);
        attention_cuda_gradients(call, &a);
        a.delta = (float *)call->workspace;
    }
    return a;
}

Err attention_wide_choose(const Node *n, const Device *device, bool gradient, Choice *choice)
{
    void     *none[16] = {};         /* places and sizes come from the node alone */
    Call      call = {};
    Wide      w;
    WidePrims prims;
    call.node = n;
    call.in = call.out = none;
    TRY(wide_prims(device, wide_sides(&call, gradient), gradient, &w, &prims));
    choice->workspace_bytes = w.bytes;
    return OK;
}

Err attention_wide_prepare(Pool *pool, Call *call, bool gradient)
{
    Wide       w;
    WidePrims *prims = NEW(pool, WidePrims);
    TRY(wide_prims(call->device, wide_sides(call, gradient), gradient, &w, prims));
    call->prepared = prims;
    return OK;
}

/* ---- running ---- */

typedef struct Walk {            /* a piece of a group of heads */
    const Call   *call;
    AttentionCuda a;
    Wide          w;
    int64_t       head, query;   /* the first of each */
    bool          first, last;
    char         *score, *dp, *p, *ds, *sums[2], *products;      /* sums: of dk, of dv */
} Walk;

static void *place(const Walk &k, const SideCuda &side, int64_t row)
{
    const AttentionCuda &a = k.a;
    return side.data + (k.head / a.heads * side.batch_stride + k.head % a.heads * side.head_stride +
                        side.column + row * side.ld) * element(a);
}

static Err wide_product(const Walk &k, Made made, void *left, void *right, void *out)
{
    const Prim *prim = ((const WidePrims *)k.call->prepared)->at[made][k.first][k.last];
    PrimArgs    args = {};
    args.a = left;
    args.b = right;
    args.c = out;
    args.workspace = k.products;
    return prim->backend->run(prim, &args);
}

static Rows rows_of(const Walk &k)
{
    const AttentionCuda &a = k.a;
    Rows r = {};
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

/* Only the last piece has fewer rows, and then it is of one head. */
static unsigned row_blocks(const Walk &k)
{
    return (unsigned)(k.w.together * (k.last ? k.w.last : k.w.rows));
}

static Err forward_piece(const Walk &k)
{
    const Call *call = k.call;
    TRY(wide_product(k, SCORES, place(k, k.a.q, k.query), place(k, k.a.k, 0), k.score));
    WITH_FLOAT(k.a.type, T, {
        wide_softmax<T><<<row_blocks(k), ROW_THREADS, 0, cuda_stream(call)>>>(rows_of(k));
        CUDA_LAUNCHED();
    });
    return wide_product(k, SUMS, k.p, place(k, k.a.v, 0), place(k, k.a.y, k.query));
}

/* dk or dv: straight to its place, or to the sums, and from them there after the last piece. */
static Err keys_piece(const Walk &k, Made made)
{
    const Call     *call = k.call;
    const SideCuda &out = made == DK ? k.a.dk : k.a.dv, &right = made == DK ? k.a.q : k.a.dy;
    char           *sums = k.sums[made == DV];
    if (!out.data)
        return OK;
    TRY(wide_product(k, made, made == DK ? k.ds : k.p, place(k, right, k.query),
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

static Err backward_piece(const Walk &k)
{
    const Call *call = k.call;
    TRY(wide_product(k, SCORES, place(k, k.a.q, k.query), place(k, k.a.k, 0), k.score));
    TRY(wide_product(k, DP, place(k, k.a.dy, k.query), place(k, k.a.v, 0), k.dp));
    WITH_FLOAT(k.a.type, T, {
        wide_differences<T><<<row_blocks(k), ROW_THREADS, 0, cuda_stream(call)>>>(rows_of(k));
        CUDA_LAUNCHED();
    });
    TRY(keys_piece(k, DV));
    TRY(keys_piece(k, DK));
    return k.a.dq.data
               ? wide_product(k, DQ, k.ds, place(k, k.a.k, 0), place(k, k.a.dq, k.query))
               : OK;
}

static Walk walk_of(const Call *call, bool gradient)
{
    Walk  k = {};
    char *at = (char *)call->workspace;
    k.call = call;
    k.a = wide_sides(call, gradient);
    k.w = wide_of(k.a, gradient);
    k.products = at + k.w.products;
    at += gradient ? aligned(k.a.n_heads * k.a.lq * 4) : 0;
    k.score = at;
    k.p = k.w.narrow ? at + k.w.scores : at;
    at += k.w.scores + k.w.narrow;
    k.dp = at;
    k.ds = k.w.narrow ? at + k.w.scores : at;
    at += k.w.scores + k.w.narrow;
    k.sums[0] = at;
    k.sums[1] = at + k.w.sums;
    return k;
}

static Err wide_walk(Walk *k, Err (*piece)(const Walk &))
{
    for (k->head = 0; k->head < k->a.n_heads; k->head += k->w.together)
        for (int64_t i = 0; i < k->w.pieces; i++) {
            k->query = i * k->w.rows;
            k->first = i == 0;
            k->last = i == k->w.pieces - 1;
            TRY(piece(*k));
        }
    return OK;
}

Err attention_wide_forward(const Call *call)
{
    Walk k = walk_of(call, false);
    return wide_walk(&k, forward_piece);
}

Err attention_wide_backward(const Call *call)
{
    Walk k = walk_of(call, true);
    attention_cuda_set(&k.a);
    TRY(attention_cuda_delta(call, k.a));
    return wide_walk(&k, backward_piece);
}
