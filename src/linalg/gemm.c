/* gemm.c -- the built-in matrix product: its division among threads and into blocks. See gemm.h.
 *
 *   plan  shape, threads -> parts and block sizes, exact workspace bytes
 *   run   each job: for blocks of n, for blocks of k: pack B, for blocks of m: pack A, then kernels
 *
 * Workspace:  job 0 [A panels | B panels | sums]  job 1 [...]  ...  then partial sums over k, if
 * any. */
#include "linalg/gemm_int.h"

#include "linalg/linalg.h"
#include "device/convert.h"

bool gemm_swap(int64_t m, int64_t n)
{
    double plain = (double)m * (double)align_up(n, GEMM_LANES);
    double transposed = (double)n * (double)align_up(m, GEMM_LANES);
    return 1.3 * transposed < plain;
}

/* Cycles of the slowest job, roughly: products, packing, partial sums and waking the threads. Only
 * comparisons between such figures matter. */
static double gemm_cost(const GemmPlan *p, int64_t b, int64_t m, int64_t n, int64_t k)
{
    double batch = (double)ceil_div(p->batch, b), rows = (double)ceil_div(p->m, m);
    double cols = (double)align_up(ceil_div(p->n, n), GEMM_LANES),
           depth = (double)ceil_div(p->k, k);
    double cost = rows * cols * depth * (double)p->product + (double)p->pack_a * rows * depth +
                  (double)p->pack_b * cols * depth;
    if (k > 1)
        cost += rows * cols * (0.2 + 0.1 * (double)k);
    return batch * cost + (b * m * n * k > 1 ? 4000.0 : 0.0);
}

void gemm_plan_parts(GemmPlan *p)
{
    int64_t threads = p->threads, n_panels = ceil_div(p->n, GEMM_NR);
    double  best = gemm_cost(p, 1, 1, 1, 1);
    for (int64_t b = 1; b <= int_min(threads, p->batch); b++)
        for (int64_t m = 1; m <= int_min(threads / b, p->m); m++)
            for (int64_t n = 1; n <= int_min(threads / (b * m), n_panels); n++)
                for (int64_t k = 1; k <= int_min(threads / (b * m * n), p->k); k++) {
                    if (k > 1 && p->batch > 1)
                        break;
                    double cost = gemm_cost(p, b, m, n, k);
                    if (cost < best) {
                        best = cost;
                        p->parts_b = b, p->parts_m = m, p->parts_n = n, p->parts_k = k;
                    }
                }
}

void gemm_plan(GemmPlan *plan, int64_t batch, int64_t m, int64_t n, int64_t k, int threads,
               bool direct)
{
    *plan = (GemmPlan){ .batch = batch,
                        .m = m,
                        .n = n,
                        .k = k,
                        .threads = threads,
                        .direct = direct,
                        .product = 0.5f / GEMM_LANES,
                        .pack_a = 0.4f,
                        .pack_b = 0.3f,
                        .parts_b = 1,
                        .parts_m = 1,
                        .parts_n = 1,
                        .parts_k = 1 };
    gemm_plan_parts(plan);
    int64_t job_m = gemm_ceil_part(m, plan->parts_m, 1);
    int64_t job_n = gemm_ceil_part(n, plan->parts_n, GEMM_NR),
            job_k = gemm_ceil_part(k, plan->parts_k, 1);
    plan->nc = gemm_even(job_n, direct ? GEMM_NC_DIRECT : GEMM_NC, GEMM_NR);
    int64_t min_kc = job_k <= GEMM_KC_ONCE ? GEMM_KC_ONCE : GEMM_KC_MIN;
    plan->kc = gemm_even(job_k, int_max(min_kc, GEMM_B_FLOATS / plan->nc), 1);
    bool aside = !direct && plan->parts_k == 1;
    plan->mb = aside ? gemm_even(job_m, GEMM_TILE_ROWS, 1) : int_max(job_m, 1);
    plan->mc = gemm_even(plan->mb, int_max(GEMM_A_FLOATS / plan->kc / GEMM_MR, 1) * GEMM_MR,
                         GEMM_MR);

    int64_t b_cols = align_up(int_min(plan->nc, job_n), GEMM_LANES);
    plan->a_floats = (size_t)align_up(plan->mc * plan->kc + GEMM_LANES, 16);
    plan->b_floats = (size_t)align_up(b_cols * plan->kc + GEMM_LANES, 16);
    plan->tile_floats = aside ? (size_t)align_up(plan->mb * b_cols, 16) : 0;
    gemm_plan_workspace(plan, m);
}

void gemm_plan_workspace(GemmPlan *plan, int64_t rows)
{
    plan->job_bytes = 4 * (plan->a_floats + plan->b_floats + plan->tile_floats);
    plan->partial_floats = plan->parts_k > 1 ? (size_t)(rows * align_up(plan->n, 16)) : 0;
    size_t jobs = (size_t)(plan->parts_b * plan->parts_m * plan->parts_n * plan->parts_k);
    plan->workspace_bytes = jobs * plan->job_bytes +
                            4 * (size_t)plan->parts_k * plan->partial_floats;
}

/* --- writing results --- */

/* dst[x] = src[x] + more[x] as bf16: the usual case, without a row of floats in between. */
static void gemm_store_bf16(uint16_t *restrict dst, const float *restrict src,
                            const float *restrict more, int64_t n)
{
    for (int64_t x = 0; x < n; x++)
        dst[x] = f32_to_bf16(src[x] + more[x]);
}

/* One row of C, n columns from `first` on: sums + bias (+ C). */
static void gemm_store_row(const GemmOut *c, int64_t first, int64_t n, const float *sums,
                           const float *bias)
{
    float old[GEMM_NC], fresh[GEMM_NC];
    if (c->type == BF16 && !c->accumulate) {
        gemm_store_bf16((uint16_t *)c->data + first, sums, bias, n);
        return;
    }
    float       *dst = row_open(c->type, c->data, first, fresh);
    const float *before = bias;
    if (c->accumulate) {
        before = row_load(c->type, c->data, first, n, old);
        for (int64_t x = 0; c->bias && x < n; x++)
            dst[x] = before[x] + bias[x];
        before = c->bias ? dst : before;
    }
    for (int64_t x = 0; x < n; x++)
        dst[x] = sums[x] + before[x];
    row_store(c->type, c->data, first, n, dst);
}

/* Transposes n rows of sums, up to GEMM_LANES columns of each: transposed[y*GEMM_NC + x]. */
static void gemm_transpose(const float *sums, int64_t ld, int64_t rows, int64_t n,
                           float *transposed)
{
    const float *from[GEMM_NR];
    for (int64_t x = 0; x < n; x += GEMM_NR) {
        int64_t count = int_min(GEMM_NR, n - x);
        for (int64_t r = 0; r < count; r++)
            from[r] = sums + (x + r) * ld;
        gemm_interleave(transposed + x, GEMM_NC, from, count, rows);
    }
}

/* C[i][j] = sums[i][j] + bias[j] (+ C[i][j]) for rows [i.lo,i.hi) and columns [j.lo,j.hi) of the
 * product as computed; if swapped, C[j][i] and bias[i]. sums points at (i.lo, j.lo). */
static void gemm_finish(const GemmOut *c, const float *sums, int64_t ld, GemmRange i, GemmRange j)
{
    float     bias[GEMM_NC], transposed[GEMM_LANES * GEMM_NC];
    GemmRange row = c->swapped ? j : i, col = c->swapped ? i : j;
    int64_t   group = c->swapped ? GEMM_LANES : 1;
    for (int64_t at = col.lo; at < col.hi; at += GEMM_NC) {
        int64_t n = int_min(GEMM_NC, col.hi - at);
        for (int64_t x = 0; x < n; x++)
            bias[x] = 0.0f;
        if (c->bias)
            convert_rows(F32, bias, c->type_bias,
                         (const char *)c->bias + at * type_bytes(c->type_bias), (size_t)n);
        for (int64_t y = row.lo; y < row.hi; y += group) {
            int64_t      rows = int_min(group, row.hi - y);
            const float *src = sums + (y - row.lo) * ld + at - col.lo;
            if (c->swapped) {
                gemm_transpose(sums + (at - col.lo) * ld + y - row.lo, ld, rows, n, transposed);
                src = transposed;
            }
            for (int64_t r = 0; r < rows; r++)
                gemm_store_row(c, (c->row ? c->row(c->shape, y + r) : (y + r) * c->ld) + at, n,
                               src + r * GEMM_NC, bias); /* rows > 1: transposed */
        }
    }
}

static int64_t gemm_panel_width(int64_t cols) { return cols > GEMM_LANES ? GEMM_NR : GEMM_LANES; }

/* Where row i begins in s->data. */
static int64_t gemm_row_at(const GemmSums *s, int64_t i)
{
    return (s->row ? s->row(s->shape, i) : (i - s->row0) * s->ld) - s->col0;
}

/* One tile: `rows` rows, the first of which begins at `at`, columns n. */
static void gemm_one_tile(const GemmSums *s, const GemmTile *panels, int64_t at, int64_t rows,
                          GemmRange n, bool add)
{
    float    edge[GEMM_MR * GEMM_NR], *c = s->data + at + n.lo;
    int64_t  cols = n.hi - n.lo;
    int      vectors = cols > GEMM_LANES ? 2 : 1;
    bool     whole = s->padded || cols == vectors * GEMM_LANES;
    GemmTile tile = *panels;
    tile.alpha = s->alpha;
    tile.c = whole ? c : edge;
    tile.ldc = whole ? s->ld : GEMM_NR;
    tile.add = whole && add;
    gemm_kernel(rows, vectors, &tile);
    for (int64_t y = 0; !whole && y < rows; y++)
        for (int64_t x = 0; x < cols; x++)
            c[y * s->ld + x] = edge[y * GEMM_NR + x] + (add ? c[y * s->ld + x] : 0.0f);
}

/* Packs one panel for k in [k, k + run), GEMM_KC at a time. */
static void gemm_pack_panel(const GemmSide *side, GemmRange i, int64_t width, int64_t k,
                            int64_t run, float *dst)
{
    for (int64_t x = 0; x < run; x += GEMM_KC)
        side->pack(side, i.lo, i.hi - i.lo, width, k + x, int_min(GEMM_KC, run - x),
                   dst + x * width);
}

/* If i is contiguous, packing one panel would read a few bytes in each of kk rows; a short run of k
 * across all panels reads whole rows. (Not for packers along k, which write beyond their end.) */
static int64_t gemm_run_of_k(const GemmSide *side, int64_t kk) { return side->along_i ? 16 : kk; }

static void gemm_pack_a(const GemmSide *a, GemmRange m, int64_t k0, int64_t kk, float *dst)
{
    int64_t rows = m.hi - m.lo, panels = ceil_div(rows, GEMM_MR), run = gemm_run_of_k(a, kk);
    for (int64_t k = 0; k < kk; k += run) {
        float *panel = dst;
        for (int64_t p = 0; p < panels; p++) {
            GemmRange r = gemm_part(rows, panels, p, 1);
            int64_t   width = r.hi - r.lo;
            gemm_pack_panel(a, (GemmRange){ m.lo + r.lo, m.lo + r.hi }, width, k0 + k,
                            int_min(run, kk - k), panel + k * width);
            panel += width * kk;
        }
    }
}

static void gemm_pack_b(const GemmSide *b, GemmRange n, int64_t k0, int64_t kk, float *dst)
{
    int64_t run = gemm_run_of_k(b, kk);
    for (int64_t k = 0; k < kk; k += run) {
        float *panel = dst;
        for (int64_t j = n.lo; j < n.hi; j += GEMM_NR) {
            GemmRange cols = { j, int_min(j + GEMM_NR, n.hi) };
            int64_t   width = gemm_panel_width(cols.hi - cols.lo);
            gemm_pack_panel(b, cols, width, k0 + k, int_min(run, kk - k), panel + k * width);
            panel += width * kk;
        }
    }
}

enum { GEMM_SPANS = 32 };

/* What a block of k reads: panels of A and B, or the operands in place. */
typedef struct GemmBlock {
    const GemmSide *there; /* A, if it lies in place; what does not is packed in `room` */
    float          *room;
    int64_t         k0;
    const float    *a, *b; /* packed; or rows of A from m.lo on, if lda is set */
    int64_t         lda, kk;
    const float    *b_there; /* B in place for columns below `in_place`, rows ldb apart */
    int64_t         ldb, in_place;
    const float    *init; /* for columns n */
    bool            add;
} GemmBlock;

/* The rows of A of one tile, over a block of k: one span, or some that lie in place. */
typedef struct GemmSpans {
    struct {
        const float *a;
        int64_t      lda, k;
    } span[GEMM_SPANS];
    int n;
} GemmSpans;

/* Rows [i, i + rows), which lie in one run. What follows the last span is packed as one. */
static void gemm_find_spans(const GemmBlock *block, int64_t i, int64_t rows, GemmSpans *spans)
{
    const GemmSide *a = block->there;
    float          *room = block->room;
    spans->n = 0;
    for (int64_t k = 0, nk; k < block->kk; k += nk) {
        int64_t      lda = 0;
        bool         last = spans->n == GEMM_SPANS - 1;
        const float *at = NULL;
        nk = block->kk - k;
        if (!last)
            at = a->in_place(a, i, rows, block->k0 + k, &nk, &lda);
        if (!at) {
            gemm_pack_panel(a, (GemmRange){ i, i + rows }, rows, block->k0 + k, nk, room);
            at = room;
            lda = 0;
            room += nk * rows;
        }
        spans->span[spans->n].a = at;
        spans->span[spans->n].lda = lda;
        spans->span[spans->n++].k = nk;
    }
}

/* One tile, whose rows of A are in spans: its sums pass from span to span. */
static void gemm_tile_of(const GemmSums *s, GemmTile tile, const GemmSpans *spans, int64_t at,
                         int64_t rows, GemmRange n, bool add)
{
    static const float zeros[GEMM_NR];
    float              sums[GEMM_MR * GEMM_NR];
    for (int x = 0; x < spans->n; x++) {
        tile.a = spans->span[x].a;
        tile.lda = spans->span[x].lda;
        tile.k = spans->span[x].k;
        tile.sums = x > 0 ? sums : NULL;
        if (x == spans->n - 1) {
            gemm_one_tile(s, &tile, at, rows, n, add);
        } else {
            GemmTile part = tile;
            part.init = zeros, part.alpha = 1.0f, part.c = sums, part.ldc = GEMM_NR;
            gemm_kernel(rows, n.hi - n.lo > GEMM_LANES ? 2 : 1, &part);
        }
        tile.b += tile.k * tile.b_step;
    }
}

/* Rows [i, i + rows) of the product: a tile for each panel of B. */
static void gemm_row_of_tiles(const GemmSums *s, const GemmBlock *block, const GemmSpans *spans,
                              int64_t i, int64_t rows, GemmRange n)
{
    const float *b = block->b;
    int64_t      at = gemm_row_at(s, i);
    for (int64_t j = n.lo; j < n.hi; j += GEMM_NR) {
        GemmRange cols = { j, int_min(j + GEMM_NR, n.hi) };
        bool      there = j < block->in_place;
        int64_t   width = gemm_panel_width(cols.hi - cols.lo);
        GemmTile  tile = { .b = there ? block->b_there + (j - n.lo) : b,
                           .b_step = there ? block->ldb : width,
                           .init = block->init + (j - n.lo) };
        gemm_tile_of(s, tile, spans, at, rows, cols, block->add);
        b += there ? 0 : width * block->kk;
    }
}

/* Multiplies each panel of A by all panels of B: the panel of A stays in L1 while the contiguous
 * panels of B stream from L2 (the kernel prefetches), and C is written row by row. */
static void gemm_rows(const GemmSums *s, const GemmBlock *block, GemmRange m, GemmRange n)
{
    int64_t   rows = m.hi - m.lo, panels = ceil_div(rows, GEMM_MR);
    GemmSpans spans = { .span[0] = { block->a, block->lda, block->kk }, .n = 1 };
    for (int64_t p = 0; p < panels; p++) {
        GemmRange r = gemm_part(rows, panels, p, 1);
        gemm_row_of_tiles(s, block, &spans, m.lo + r.lo, r.hi - r.lo, n);
        spans.span[0].a += (r.hi - r.lo) * (block->lda ? block->lda : block->kk);
    }
}

/* The same where A is in place: no tile reaches from one run of rows into the next. */
static void gemm_runs(const GemmSums *s, const GemmBlock *block, GemmRange m, GemmRange n)
{
    GemmSpans spans;
    for (int64_t i = m.lo, rows; i < m.hi; i += rows) {
        int64_t left = int_min(block->there->run - i % block->there->run, m.hi - i);
        rows = ceil_div(left, ceil_div(left, GEMM_MR));
        gemm_find_spans(block, i, rows, &spans);
        gemm_row_of_tiles(s, block, &spans, i, rows, n);
    }
}

/* Rows m by columns n of the product, over all of k, in blocks, into s. */
static void gemm_block(const GemmPlan *p, const GemmSide *a, const GemmSide *b, const GemmSums *s,
                       GemmRange m, GemmRange n, GemmRange k, float *a_panels, float *b_panels,
                       bool b_packed)
{
    /* With few rows packing B does not pay, with few columns packing A does not: they are read in
     * place. */
    bool    few = m.hi - m.lo <= GEMM_FEW_ROWS && b->pack == gemm_pack_along_i && b->type == F32;
    int64_t in_place = few ? n.lo + (n.hi - n.lo) / GEMM_NR * GEMM_NR : n.lo;
    bool    a_in_place = n.hi - n.lo <= GEMM_FEW_COLS && a->pack == gemm_pack_along_k &&
                      a->type == F32;
    float init[GEMM_NC_DIRECT + GEMM_NR] = { 0 };
    if (s->bias)
        convert_rows(F32, init, s->type_bias,
                     (const char *)s->bias + n.lo * type_bytes(s->type_bias),
                     (size_t)(n.hi - n.lo));
    int64_t k0 = k.lo;
    do { /* also for k = 0: the result is the bias */
        GemmBlock block = { .there = a->in_place ? a : NULL,
                            .room = a_panels,
                            .k0 = k0,
                            .kk = int_min(p->kc, k.hi - k0),
                            .b = b_panels,
                            .ldb = b->ld,
                            .in_place = in_place,
                            .lda = a_in_place ? a->ld : 0,
                            .init = init,
                            .add = s->add || k0 > k.lo };
        if (few)
            block.b_there = (const float *)b->data + k0 * b->ld + n.lo;
        if (!b_packed)
            gemm_pack_b(b, (GemmRange){ in_place, n.hi }, k0, block.kk, b_panels);
        if (block.there)
            gemm_runs(s, &block, m, n);
        for (int64_t i0 = m.lo; i0 < m.hi && !block.there; i0 += p->mc) {
            GemmRange rows = { i0, int_min(i0 + p->mc, m.hi) };
            block.a = a_in_place ? (const float *)a->data + i0 * a->ld + k0 : a_panels;
            if (!a_in_place)
                gemm_pack_a(a, rows, k0, block.kk, a_panels);
            gemm_rows(s, &block, rows, n);
        }
        for (int64_t x = 0; s->bias && x < n.hi - n.lo; x++)
            init[x] = 0.0f; /* the bias is added once */
        k0 += p->kc;
    } while (k0 < k.hi);
}

/* The part of one job in one matrix of the batch. */
static void gemm_job(const GemmPlan *p, const GemmSide *a, const GemmSide *b, const GemmOut *c,
                     GemmRange m, GemmRange n, GemmRange k, char *mine, float *partial)
{
    float *a_panels = (float *)mine, *b_panels = a_panels + p->a_floats,
          *tile = b_panels + p->b_floats;
    bool aside = !p->direct && !partial;
    for (int64_t j = n.lo; j < n.hi; j += p->nc) {
        GemmRange cols = { j, int_min(j + p->nc, n.hi) };
        int64_t   tile_ld = align_up(cols.hi - cols.lo, GEMM_LANES);
        for (int64_t i = m.lo; i < m.hi; i += p->mb) {
            GemmRange rows = { i, int_min(i + p->mb, m.hi) };
            bool      b_packed = i > m.lo && (p->b_whole || k.hi - k.lo <= p->kc);
            GemmSums  s = { .alpha = 1.0f };
            if (partial)
                s.data = partial, s.ld = align_up(p->n, 16), s.padded = true;
            else if (aside)
                s.data = tile, s.row0 = i, s.col0 = j, s.ld = tile_ld, s.padded = true;
            else
                s.data = c->data, s.ld = c->ld, s.row = c->row, s.shape = c->shape,
                s.add = c->accumulate, s.bias = c->bias, s.type_bias = c->type_bias;
            if (p->amx)
                gemm_block_amx(p, a, b, &s, rows, cols, k, a_panels, b_panels, b_packed);
            else
                gemm_block(p, a, b, &s, rows, cols, k, a_panels, b_panels, b_packed);
            if (aside)
                gemm_finish(c, tile, tile_ld, rows, cols);
        }
    }
}

/* Adds the partial sums in the order of k and writes the result; threads divide the rows. */
static void gemm_reduce(const GemmPlan *p, const GemmOut *c, float *partial, GemmRange m)
{
    int64_t ld = align_up(p->n, 16);
    for (int64_t i = m.lo; i < m.hi; i++) {
        float *restrict sum = partial + i * ld;
        for (int64_t part = 1; part < p->parts_k; part++) {
            const float *restrict more = sum + part * (int64_t)p->partial_floats;
            for (int64_t x = 0; x < p->n; x++)
                sum[x] += more[x];
        }
    }
    gemm_finish(c, partial + m.lo * ld, ld, m, (GemmRange){ 0, p->n });
}

static const void *gemm_advance(const void *data, Type type, int64_t elements)
{
    return data ? (const char *)data + elements * type_bytes(type) : NULL;
}

static void gemm_run_job(const GemmPlan *p, const GemmSide *a, const GemmSide *b, const GemmOut *c,
                         int64_t job, char *workspace, float *partial)
{
    int64_t   rest = job;
    int64_t   unit_m = p->amx ? AMX_ROWS : 1, unit_k = p->amx ? AMX_K : 1;
    GemmRange k = gemm_part(p->k, p->parts_k, rest % p->parts_k, unit_k);
    float    *mine = partial ? partial + rest % p->parts_k * (int64_t)p->partial_floats : NULL;
    rest /= p->parts_k;
    GemmRange m = gemm_part(p->m, p->parts_m, rest % p->parts_m, unit_m);
    rest /= p->parts_m;
    GemmRange n = gemm_part(p->n, p->parts_n, rest % p->parts_n, GEMM_NR);
    GemmRange batch = gemm_part(p->batch, p->parts_b, rest / p->parts_n, 1);
    if (p->amx)
        amx_begin();
    for (int64_t i = batch.lo; i < batch.hi; i++) {
        GemmSide ai = *a, bi = *b;
        GemmOut  ci = *c;
        ai.data = gemm_advance(a->data, a->type, i * a->batch_stride);
        bi.data = gemm_advance(b->data, b->type, i * b->batch_stride);
        ci.data = (char *)c->data + i * c->batch_stride * type_bytes(c->type);
        gemm_job(p, &ai, &bi, &ci, m, n, k, workspace + (size_t)job * p->job_bytes, mine);
    }
    if (p->amx)
        amx_end();
}

void gemm_run(const GemmPlan *p, const GemmSide *a, const GemmSide *b, const GemmOut *c,
              void *workspace)
{
    int64_t jobs = p->parts_b * p->parts_m * p->parts_n * p->parts_k;
    float  *partial = (float *)((char *)workspace + (size_t)jobs * p->job_bytes);
    if (p->parts_k == 1)
        partial = NULL;
    /* no parallel region: OpenMP allocates a new team when the size changes */
    if (jobs == 1) {
        gemm_run_job(p, a, b, c, 0, workspace, NULL);
        return;
    }
#pragma omp parallel for num_threads(p->threads) schedule(static, 1)
    for (int64_t job = 0; job < jobs; job++)
        gemm_run_job(p, a, b, c, job, workspace, partial);
    if (!partial)
        return;
#pragma omp parallel for num_threads(p->threads) schedule(static, 1)
    for (int64_t job = 0; job < p->threads; job++)
        gemm_reduce(p, c, partial, gemm_part(p->m, p->threads, job, 1));
}

/* --- one thread, fp32, for kernels that do their own tiling --- */

size_t gemm_tile_workspace(int64_t m, int64_t n, int64_t k)
{
    GemmPlan plan;
    gemm_plan(&plan, 1, m, n, k, 1, true);
    return plan.workspace_bytes;
}

void gemm_tile(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha,
               const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
               int64_t ldc, void *workspace)
{
    GemmPlan plan;
    gemm_plan(&plan, 1, m, n, k, 1, true);
    if (beta != 0.0f && beta != 1.0f)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                c[i * ldc + j] *= beta;
    GemmSide sa = gemm_matrix(trans_a, F32, a, lda);
    GemmSide sb = gemm_matrix(!trans_b, F32, b, ldb);
    GemmSums s = { .data = c, .ld = ldc, .add = beta != 0.0f, .alpha = alpha };
    float   *a_panels = workspace, *b_panels = a_panels + plan.a_floats;
    for (int64_t j = 0; j < n; j += plan.nc)
        gemm_block(&plan, &sa, &sb, &s, (GemmRange){ 0, m },
                   (GemmRange){ j, int_min(j + plan.nc, n) }, (GemmRange){ 0, k }, a_panels,
                   b_panels, false);
}
