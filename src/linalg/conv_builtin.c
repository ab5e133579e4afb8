/* conv_builtin.c -- the built-in convolution: matrix products whose operand is never written out.
 *
 *   forward           y[position][o]  = sum over (tap, i)     window(x)  * w
 *   backward data     dx[position][i] = sum over (tap, o)     window(dy) * w^T,  residue by residue
 *   backward weights  dw[tap, i][o]   = sum over positions    window(x)^T * dy
 *
 * A window (conv_window.h) is (taps along D) x (taps along H) lines, and packing copies segments of
 * lines. Few channels are no special case: a line of three taps of three channels is nine floats.
 *
 * Backward data with stride s divides dx into s residue classes per axis (positions with the same
 * remainder). In one class only every s-th tap meets a dy, and these meet consecutive dy's: a
 * window again, with step 1 and the taps in reverse order. So no inserted zeros are multiplied, and
 * no atomic additions are needed. Dilation only sets the taps further apart.
 *
 * Groups are products of their own, one after another.
 */
#include "linalg/builtin.h"

#include "linalg/amx.h"
#include "linalg/conv_window.h"
#include "device/convert.h"

enum {
    THIN_STRETCH = 1024, /* floats that conv_pack_thin loads at once */
    RUN_LINE = 64,       /* floats of a line, and positions of a row, from which windows are */
    RUN_WIDTH = 8,       /* read in place */
};

typedef struct BuiltinConv {
    BuiltinPrim prim;
    ConvDesc    desc;
    bool        swapped;
    int         n_windows; /* residue classes of backward data; otherwise 1 */
    ConvWindow *windows;
} BuiltinConv;

/* --- packing --- */

/* The segment as fp32: in place if the source is fp32, holds all of it, and no copy is asked for;
 * else in room. */
static inline const float *conv_see(const GemmSide *side, const ConvWindow *w, const Origin *o,
                                    WindowSegment l, bool copy, float *room)
{
    int64_t row, from, width = w->width;
    if (!conv_find(w, o, l, &row, &from) || from >= width || from + l.n <= 0) {
        for (int64_t x = 0; x < l.n; x++)
            room[x] = 0.0f;
        return room;
    }
    if (from >= 0 && from + l.n <= width) {
        const float *at = row_load(side->type, side->data, row + from, l.n, room);
        if (!copy || at == room)
            return at;
        gemm_copy(room, at, l.n);
        return room;
    }
    int64_t lo = int_max(-from, 0), hi = int_min(width - from, l.n);
    for (int64_t x = 0; x < lo; x++)
        room[x] = 0.0f;
    for (int64_t x = hi; x < l.n; x++)
        room[x] = 0.0f;
    convert_rows(F32, room + lo, side->type,
                 (const char *)side->data + (row + from + lo) * type_bytes(side->type),
                 (size_t)(hi - lo));
    return room;
}

/* X[i][k]: i is a position, k an element of its window; for lines shorter than a vector.
 * Neighbouring positions read overlapping segments of one stretch of memory: it is loaded once per
 * line. */
static void conv_pack_thin(const GemmSide *side, int64_t i0, int64_t count, int64_t width,
                           int64_t k0, int64_t kk, float *dst)
{
    const ConvWindow *w = side->shape;
    float             room[THIN_STRETCH];
    int64_t           length = w->line, apart = w->step[2] * w->pixel;
    Origin            o = conv_origin(w, i0);
    for (int64_t r = 0; r < count;) {
        int64_t run = int_min(conv_run(w, &o, count - r), (THIN_STRETCH - length) / apart + 1);
        for (int64_t k = 0; k < kk;) {
            WindowSegment l = conv_segment(w, k0 + k, k0 + kk);
            WindowSegment stretch = { l.td, l.th, l.tw, l.from, (run - 1) * apart + l.n };
            const float  *src = conv_see(side, w, &o, stretch, false, room);
            for (int64_t p = 0; p < l.n; p++, k++)
                for (int64_t x = 0; x < run; x++)
                    dst[k * width + r + x] = src[x * apart + p];
        }
        for (int64_t x = 0; x < run; x++, r++)
            conv_next(w, &o);
    }
    for (int64_t k = 0; count < width && k < kk; k++)
        for (int64_t r = count; r < width; r++)
            dst[k * width + r] = 0.0f;
}

/* The same for lines of any length: interleaves segments. */
static void conv_pack_positions(const GemmSide *side, int64_t i0, int64_t count, int64_t width,
                                int64_t k0, int64_t kk, float *dst)
{
    const ConvWindow *w = side->shape;
    const float      *rows[GEMM_NR];
    float             part[GEMM_NR][GEMM_KC];
    Origin            origin[GEMM_NR];
    if (w->line < GEMM_LANES && w->step[2] * w->pixel < THIN_STRETCH) {
        conv_pack_thin(side, i0, count, width, k0, kk, dst);
        return;
    }
    origin[0] = conv_origin(w, i0);
    for (int64_t r = 1; r < count; r++) {
        origin[r] = origin[r - 1];
        conv_next(w, &origin[r]);
    }
    for (int64_t k = 0; k < kk;) {
        WindowSegment l = conv_segment(w, k0 + k, k0 + kk);
        for (int64_t r = 0; r < count; r++)
            rows[r] = conv_see(side, w, &origin[r], l, false, part[r]);
        gemm_interleave(dst + k * width, width, rows, count, l.n);
        k += l.n;
    }
}

/* The same without packing: neighbouring positions see a line at a fixed distance. */
static const float *conv_positions_in_place(const GemmSide *side, int64_t i, int64_t count,
                                            int64_t k0, int64_t *nk, int64_t *lda)
{
    const ConvWindow *w = side->shape;
    Origin            o = conv_origin(w, i);
    WindowSegment     l = conv_segment(w, k0, k0 + *nk);
    int64_t           at;
    *nk = l.n;
    return conv_held(w, &o, l, count, &at, lda) ? (const float *)side->data + at : NULL;
}

static bool conv_in_runs(const ConvWindow *w)
{
    Type type = w->desc->kind == CONV_FORWARD ? w->desc->type_x : w->desc->type_y;
    return w->desc->kind != CONV_BACKWARD_WEIGHTS && type == F32 && w->line >= RUN_LINE &&
           w->grid[2] >= RUN_WIDTH;
}

/* X[i][k]: i is an element of the window, k a position. */
static void conv_pack_elements(const GemmSide *side, int64_t i0, int64_t count, int64_t width,
                               int64_t k0, int64_t kk, float *dst)
{
    const ConvWindow *w = side->shape;
    int64_t           limit = w->width, apart = w->step[2] * w->pixel;
    for (int64_t i = 0; i < count;) {
        WindowSegment l = conv_segment(w, i0 + i, i0 + count);
        Origin        o = conv_origin(w, k0);
        for (int64_t k = 0; k < kk;) {
            int64_t run = conv_run(w, &o, kk - k), q = o.q[2], row, from;
            bool    there = conv_find(w, &o, l, &row, &from) && side->type == F32;
            for (int64_t x = 0; x < run; x++, from += apart) {
                float *to = dst + (k + x) * width + i;
                if (there && from >= 0 && from + l.n <= limit) {
                    gemm_copy(to, (const float *)side->data + row + from, l.n);
                } else {
                    o.q[2] = q + x;
                    conv_see(side, w, &o, l, true, to);
                }
            }
            k += run;
            o.q[2] = q + run - 1;
            conv_next(w, &o);
        }
        i += l.n;
    }
    for (int64_t k = 0; count < width && k < kk; k++)
        for (int64_t r = count; r < width; r++)
            dst[k * width + r] = 0.0f;
}

/* X[i][k]: i is an input channel, k a (tap of this residue, output channel), both of one group; w is
 * (KD,KH,KW,I/groups,O). */
static void conv_pack_weights(const GemmSide *side, int64_t i0, int64_t count, int64_t width,
                              int64_t k0, int64_t kk, float *dst)
{
    const ConvWindow *w = side->shape;
    const ConvDesc   *c = w->desc;
    const float      *rows[GEMM_NR];
    float             part[GEMM_NR][GEMM_KC];
    int64_t           ci = c->ci / c->groups, co = c->co / c->groups;
    bool              gather = side->type != F32 || co < GEMM_LANES;
    for (int64_t k = 0; k < kk;) {
        int64_t o = (k0 + k) % co, n = int_min(co - o, kk - k), at = conv_tap(w, k0 + k);
        for (int64_t r = 0; r < count; r++) {
            float *room = part[r] + (gather ? k : 0);
            rows[r] = row_load(side->type, side->data, (at * ci + i0 + r) * c->co + o, n, room);
            if (gather && rows[r] != room)
                gemm_copy(room, rows[r], n);
        }
        if (!gather)
            gemm_interleave(dst + k * width, width, rows, count, n);
        k += n;
    }
    if (gather) {
        for (int64_t r = 0; r < count; r++)
            rows[r] = part[r];
        gemm_interleave(dst, width, rows, count, kk);
    }
}

/* Offset in dx of position i of this residue class. */
static int64_t conv_place(const void *shape, int64_t i)
{
    const ConvWindow *w = shape;
    const ConvDesc   *c = w->desc;
    Origin            o = conv_origin(w, i);
    int64_t           at = o.image;
    for (int axis = 0; axis < 3; axis++)
        at = at * c->in[axis] + w->place[axis] + o.q[axis] * w->spread[axis];
    return at * c->ci;
}

/* --- the three products --- */

/* The tensor from this channel on. */
static void *conv_from(void *data, Type type, int64_t channel)
{
    return (char *)data + channel * type_bytes(type);
}

static void conv_group_run(const BuiltinConv *conv, const ConvWindow *w, int64_t group,
                           const PrimArgs *args)
{
    const ConvDesc *d = &conv->desc;
    int64_t         i = group * (d->ci / d->groups), o = group * (d->co / d->groups);
    void           *px = conv_from(args->a, d->type_x, i), *pw = conv_from(args->b, d->type_w, o);
    void           *py = conv_from(args->c, d->type_y, o);
    GemmSide        a = { .shape = w }, b = { .shape = w };
    GemmOut         c = { .swapped = conv->swapped };
    switch (d->kind) {
    case CONV_FORWARD:
        a.pack = conv_pack_positions, a.block = conv_block_positions;
        a.data = px, a.type = d->type_x;
        b = gemm_matrix(true, d->type_w, pw, d->co);
        c.data = py, c.type = d->type_y, c.ld = d->co;
        c.bias = d->bias ? (const char *)args->bias + o * type_bytes(d->type_bias) : NULL;
        c.type_bias = d->type_bias;
        break;
    case CONV_BACKWARD_DATA:
        a.pack = conv_pack_positions, a.block = conv_block_positions;
        a.data = py, a.type = d->type_y;
        b.pack = conv_pack_weights, b.block = conv_block_weights;
        b.data = pw, b.type = d->type_w;
        c.data = px, c.type = d->type_x, c.ld = d->ci;
        if (conv->n_windows > 1)
            c.row = conv_place, c.shape = w, c.ld *= w->spread[2];
        break;
    case CONV_BACKWARD_WEIGHTS:
        a.pack = conv_pack_elements, a.block = conv_block_elements, a.along_i = true;
        a.data = px, a.type = d->type_x;
        b = gemm_matrix(true, d->type_y, py, d->co);
        c.data = pw, c.type = d->type_w, c.ld = d->co;
        break;
    }
    if (conv_in_runs(w) && !conv->swapped)
        a.in_place = conv_positions_in_place, a.run = w->grid[2];
    gemm_run(&w->plan, conv->swapped ? &b : &a, conv->swapped ? &a : &b, &c, args->workspace);
}

static void conv_builtin_run(const BuiltinPrim *prim, const PrimArgs *args)
{
    const BuiltinConv *conv = (const BuiltinConv *)prim;
    for (int i = 0; i < conv->n_windows; i++)
        for (int64_t group = 0; group < conv->desc.groups; group++)
            conv_group_run(conv, &conv->windows[i], group, args);
}

static int64_t conv_gcd(int64_t a, int64_t b) { return b ? conv_gcd(b, a % b) : a; }

/* Taps t with t dilation = rest + padding modulo the stride: none, or every (stride / gcd)-th. */
ConvResidue conv_residue_of(const ConvDesc *d, int axis, int64_t rest)
{
    int64_t     stride = d->stride[axis], dilation = conv_dilation(d, axis);
    int64_t     kernel = d->kernel[axis], at = rest + d->pad_lo[axis];
    int64_t     common = conv_gcd(stride, dilation), jump = stride / common, first = 0;
    ConvResidue r = { .positions = (d->in[axis] - rest + stride - 1) / stride,
                      .jump = jump,
                      .apart = dilation / common };
    while (first < jump && (at - first * dilation) % stride != 0)
        first++;
    if (first < jump && first < kernel) {
        r.taps = (kernel - 1 - first) / jump + 1;
        r.first = first;
        r.base = (at - first * dilation) / stride;
    }
    return r;
}

/* Residue class `rest` of backward data along one axis; false if it has no positions. */
static bool conv_residue(ConvWindow *w, const ConvDesc *d, int axis, int64_t rest)
{
    int64_t     stride = d->stride[axis];
    ConvResidue r = conv_residue_of(d, axis, rest);
    w->grid[axis] = r.positions;
    w->taps[axis] = r.taps;
    w->source[axis] = d->out[axis];
    w->step[axis] = 1;
    w->dilate[axis] = r.apart;
    w->base[axis] = r.base - (r.taps - 1) * r.apart;
    w->first[axis] = r.first + r.jump * (r.taps - 1);
    w->jump[axis] = -r.jump;
    w->place[axis] = rest;
    w->spread[axis] = stride;
    return r.positions > 0;
}

static void conv_windows_back(BuiltinConv *conv)
{
    const ConvDesc *d = &conv->desc;
    for (int64_t rd = 0; rd < d->stride[0]; rd++)
        for (int64_t rh = 0; rh < d->stride[1]; rh++)
            for (int64_t rw = 0; rw < d->stride[2]; rw++) {
                ConvWindow *w = &conv->windows[conv->n_windows];
                w->channels = d->co / d->groups;
                bool some = conv_residue(w, d, 0, rd);
                some = conv_residue(w, d, 1, rh) && some;
                some = conv_residue(w, d, 2, rw) && some;
                conv_window_lines(w, d->co);
                conv->n_windows += some;
            }
}

static void conv_window_forward(BuiltinConv *conv)
{
    const ConvDesc *d = &conv->desc;
    ConvWindow     *w = conv->windows;
    for (int axis = 0; axis < 3; axis++) {
        w->grid[axis] = d->out[axis];
        w->taps[axis] = d->kernel[axis];
        w->source[axis] = d->in[axis];
        w->step[axis] = d->stride[axis];
        w->base[axis] = -d->pad_lo[axis];
        w->dilate[axis] = d->dilation[axis];
    }
    w->channels = d->ci / d->groups;
    conv_window_lines(w, d->ci);
    conv->n_windows = 1;
}

static Err conv_builtin_check(const ConvDesc *d, int threads)
{
    static const char axis_name[] = "DHW";
    if (d->n < 1 || d->ci < 1 || d->co < 1 || threads < 1)
        return fail(E_SHAPE,
                    "convolution of %lld images, %lld to %lld channels, with %d threads: every "
                    "count must be at least 1",
                    (long long)d->n, (long long)d->ci, (long long)d->co, threads);
    if (d->groups < 0 || d->ci % conv_groups(d) != 0 || d->co % conv_groups(d) != 0)
        return fail(E_SHAPE,
                    "convolution: %lld to %lld channels cannot be divided into %lld groups",
                    (long long)d->ci, (long long)d->co, (long long)d->groups);
    for (int axis = 0; axis < 3; axis++) {
        int64_t in = d->in[axis], kernel = d->kernel[axis], stride = d->stride[axis];
        int64_t room = in + d->pad_lo[axis] + d->pad_hi[axis] -
                       conv_reach(kernel, d->dilation[axis]);
        if (in < 1 || kernel < 1 || stride < 1 || d->dilation[axis] < 0 || d->pad_lo[axis] < 0 ||
            room < 0 || d->out[axis] != room / stride + 1)
            return fail(E_SHAPE,
                        "convolution along %c: extent %lld, padding %lld and %lld, kernel %lld, "
                        "dilation %lld and stride %lld do not give the output extent %lld",
                        axis_name[axis], (long long)in, (long long)d->pad_lo[axis],
                        (long long)d->pad_hi[axis], (long long)kernel,
                        (long long)conv_dilation(d, axis), (long long)stride,
                        (long long)d->out[axis]);
    }
    if (!type_is_float(d->type_x) || !type_is_float(d->type_w) || !type_is_float(d->type_y) ||
        (d->bias && !type_is_float(d->type_bias)))
        return fail(E_SHAPE, "convolution: operands must be f32, bf16 or f16");
    if (d->bias && d->kind != CONV_FORWARD)
        return fail(E_SHAPE, "convolution: only the forward pass adds a bias");
    return OK;
}

static Err conv_builtin_windows(Pool *pool, const ConvDesc *desc, int threads, Prim **prim)
{
    BuiltinConv *conv = NEW(pool, BuiltinConv);
    conv->desc = conv_filled(desc);
    const ConvDesc *d = &conv->desc;
    bool            back = d->kind == CONV_BACKWARD_DATA;
    int64_t         residues = d->stride[0] * d->stride[1] * d->stride[2];
    conv->windows = NEWN(pool, ConvWindow, back ? residues : 1);
    if (back)
        conv_windows_back(conv);
    else
        conv_window_forward(conv);
    bool amx = amx_ready() && (back || d->type_x == BF16) &&
               (d->kind == CONV_FORWARD || d->type_y == BF16) &&
               (d->kind == CONV_BACKWARD_WEIGHTS || d->type_w == BF16);
    size_t workspace = 0;
    for (int i = 0; i < conv->n_windows; i++) {
        ConvWindow *w = &conv->windows[i];
        w->desc = d;
        int64_t positions = d->n * w->grid[0] * w->grid[1] * w->grid[2];
        int64_t elements = w->taps[0] * w->taps[1] * w->taps[2] * w->channels;
        int64_t m = d->kind == CONV_BACKWARD_WEIGHTS ? elements : positions;
        int64_t n = (back ? d->ci : d->co) / d->groups;
        int64_t k = d->kind == CONV_BACKWARD_WEIGHTS ? positions : elements;
        Type    to = back ? d->type_x : d->kind == CONV_FORWARD ? d->type_y : d->type_w;
        bool    a_along_i = d->kind == CONV_BACKWARD_WEIGHTS, b_along_i = !back;
        if (i == 0)
            conv->swapped = amx ? gemm_swap_amx(m, n, k, a_along_i, b_along_i) : gemm_swap(m, n);
        bool swap = conv->swapped;
        bool direct = to == F32 && !swap && (conv->n_windows == 1 || conv_in_runs(w));
        if (amx)
            gemm_plan_amx(&w->plan, 1, swap ? n : m, swap ? m : n, k, threads,
                          direct && !d->bias && m % AMX_ROWS == 0 && n % AMX_ROWS == 0,
                          swap ? b_along_i : a_along_i, swap ? a_along_i : b_along_i);
        else
            gemm_plan(&w->plan, 1, swap ? n : m, swap ? m : n, k, threads, direct);
        if (w->plan.workspace_bytes > workspace)
            workspace = w->plan.workspace_bytes;
    }
    conv->prim = (BuiltinPrim){ .head = { .backend = backend_builtin(),
                                          .workspace_bytes = workspace,
                                          .impl = !amx ? "builtin:window"
                                                       : amx_word("builtin:window_bf16",
                                                                  "builtin:window_amx") },
                                .run = conv_builtin_run };
    *prim = &conv->prim.head;
    return OK;
}

Err conv_builtin_lean(Pool *pool, const ConvDesc *desc, int threads, Prim **prim)
{
    TRY(conv_builtin_check(desc, threads));
    bool depth = conv_depth_fits(desc);
    if (!depth && !conv_thin_fits(desc, threads))
        return conv_builtin_windows(pool, desc, threads, prim);
    *prim = depth ? conv_depth(pool, desc, threads) : conv_thin(pool, desc, threads);
    return OK;
}

Err conv_builtin(Pool *pool, const ConvDesc *desc, int threads, Prim **prim)
{
    TRY(conv_builtin_check(desc, threads));
    if (conv_wino_fits(desc, threads))
        *prim = conv_wino(pool, desc, threads);
    else if (conv_wino_bf16_fits(desc, threads))
        *prim = conv_wino_bf16(pool, desc, threads);
    else
        return conv_builtin_lean(pool, desc, threads, prim);
    return OK;
}
