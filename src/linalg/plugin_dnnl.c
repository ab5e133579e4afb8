/* plugin_dnnl.c -- the oneDNN backend, a shared library of its own (libplimsoll_dnnl.so).
 *
 * It keeps the promises of linalg.h as follows:
 * (1) scratchpads belong to the caller; their size is asked for with the number of threads that
 * will
 *     run;
 * (2) implementations that allocate are refused by name: "gemm:..." converts and copies into
 * buffers
 *     of its own (0.3 to 33 MB per call), "ref" is slow as well;
 * (3) weights are (KD,KH,KW,I,O) in our arena. They are reordered to the layout that an
 * implementation
 *     wants, or back, within the call, in workspace that is counted;
 * (4) everything else (memory objects, argument lists) is made once, here.
 * Within a call oneDNN 2.6 still allocates and frees some hundred bytes of bookkeeping.
 *
 * A primitive holds the pointers of its current call, so only one thread at a time may run it.
 */
#include "base/int_math.h"
#include "device/plugin.h"
#include "linalg/plugin_dnnl.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#include <omp.h>
#include <stdio.h>
#include <string.h>

static PluginHost    host;
static dnnl_engine_t engine;
static dnnl_stream_t stream;

#define DNNL_TRY(call)                                                                             \
    do {                                                                                           \
        dnnl_status_t status_ = (call);                                                            \
        if (status_ != dnnl_success)                                                               \
            return host.fail(E_DEVICE, "oneDNN: %s: status %d", #call, (int)status_);              \
    } while (0)

enum { WIDE = 256 }; /* positions in a row, see dnnl_refused */

typedef struct DnnlStep { /* one primitive with its arguments */
    dnnl_primitive_t prim;
    dnnl_memory_t    workspace;
    size_t           workspace_at; /* offset in the caller's workspace */
    dnnl_exec_arg_t  args[6];
    int              n_args;
} DnnlStep;

typedef struct DnnlPrim {
    Prim          head;
    int           threads;
    char          impl[64];
    DnnlStep      main, reorder; /* reorder: weights from our layout to the wanted, or back */
    bool          reorder_before, reorder_after;
    dnnl_memory_t a, b, c, bias; /* the caller's tensors, in our layouts */
    dnnl_memory_t reordered;     /* weights in the wanted layout, at offset 0 of workspace */
} DnnlPrim;

static void dnnl_undo(void *arg)
{
    DnnlPrim     *p = arg;
    dnnl_memory_t memories[] = {
        p->a, p->b, p->c, p->bias, p->reordered, p->main.workspace, p->reorder.workspace
    };
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++)
        dnnl_memory_destroy(memories[i]);
    dnnl_primitive_destroy(p->main.prim);
    dnnl_primitive_destroy(p->reorder.prim);
}

/* --- making a primitive --- */

static size_t dnnl_align(size_t bytes) { return align_bytes(bytes, 64); }

static bool dnnl_type(Type type, dnnl_data_type_t *out)
{
    *out = type == F32 ? dnnl_f32 : dnnl_bf16;
    return type == F32 || type == BF16;
}

/* "gemm:jit" allocates, "brgemm:avx512_core" does not. "brgconv" generates code for every
 * position in a row, 0.6 KiB each (10 MiB and 57 ms at W = 16384); "jit", the next choice,
 * generates little. Depthwise convolutions are slow by implementations that are not made for them,
 * "jit_dw" and "brdgmm_dw". */
static bool dnnl_refused(const char *impl, const DnnlOp *op)
{
    const char *gemm = strstr(impl, "gemm");
    return strstr(impl, "ref") || (op->depthwise && !strstr(impl, "_dw")) ||
           (op->wide && strncmp(impl, "brgconv:", 8) == 0) ||
           (gemm && (gemm < impl + 2 || strncmp(gemm - 2, "br", 2) != 0));
}

static void step_add(DnnlStep *s, int arg, dnnl_memory_t memory)
{
    s->args[s->n_args++] = (dnnl_exec_arg_t){ arg, memory };
}

/* Makes the primitive of a descriptor and places its scratchpad at *bytes, which grows. */
static Err step_make(DnnlStep *s, dnnl_primitive_desc_t pd, size_t *bytes)
{
    MdRef  md = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    size_t size = dnnl_memory_desc_get_size(md);
    DNNL_TRY(dnnl_primitive_create(&s->prim, pd));
    if (size) {
        DNNL_TRY(dnnl_memory_create(&s->workspace, md, engine, DNNL_MEMORY_NONE));
        step_add(s, DNNL_ARG_SCRATCHPAD, s->workspace);
        s->workspace_at = *bytes;
        *bytes += dnnl_align(size);
    }
    return OK;
}

/* Makes the step that reorders weights between our layout and the wanted one. */
static Err dnnl_reorder_new(DnnlPrim *p, MdRef ours, MdRef wanted, dnnl_primitive_attr_t attr,
                            size_t *bytes)
{
    dnnl_primitive_desc_t pd;
    MdRef from = p->reorder_before ? ours : wanted, to = p->reorder_before ? wanted : ours;
    DNNL_TRY(dnnl_memory_create(&p->reordered, wanted, engine, DNNL_MEMORY_NONE));
    *bytes += dnnl_align(dnnl_memory_desc_get_size(wanted));
    DNNL_TRY(dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, attr));
    Err err = step_make(&p->reorder, pd, bytes);
    dnnl_primitive_desc_destroy(pd);
    TRY(err);
    step_add(&p->reorder, DNNL_ARG_FROM, p->reorder_before ? p->b : p->reordered);
    step_add(&p->reorder, DNNL_ARG_TO, p->reorder_before ? p->reordered : p->b);
    return OK;
}

static Err dnnl_fill(DnnlPrim *p, const DnnlOp *op, const dnnl_memory_desc_t *weights,
                     DnnlWalk *walk, dnnl_primitive_attr_t attr)
{
    static const int conv_args[][3] = {
        [CONV_FORWARD] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST },
        [CONV_BACKWARD_DATA] = { DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST },
        [CONV_BACKWARD_WEIGHTS] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST },
    };
    const char *impl = NULL;
    do {
        DNNL_TRY(dnnl_primitive_desc_query(walk->pd, dnnl_query_impl_info_str, 0, (void *)&impl));
        if (!dnnl_refused(impl, op))
            break;
        impl = NULL;
    } while (walk_next(walk));
    if (!impl)
        return host.fail(E_DEVICE,
                         "oneDNN has no implementation of this call that does not allocate memory");
    snprintf(p->impl, sizeof p->impl, "onednn:%s", impl);

    size_t bytes = 0;
    bool   last = op->is_conv && op->kind == CONV_BACKWARD_WEIGHTS;
    MdRef  wanted = dnnl_primitive_desc_query_md(
         walk->pd, last ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
    DNNL_TRY(dnnl_memory_create(&p->a, MD(op->a), engine, DNNL_MEMORY_NONE));
    DNNL_TRY(dnnl_memory_create(&p->b, MD(*weights), engine, DNNL_MEMORY_NONE));
    DNNL_TRY(dnnl_memory_create(&p->c, MD(op->c), engine, DNNL_MEMORY_NONE));
    if (!dnnl_memory_desc_equal(wanted, MD(*weights))) {
        p->reorder_after = last;
        p->reorder_before = !last;
        TRY(dnnl_reorder_new(p, MD(*weights), wanted, attr, &bytes));
    }
    const int *names = conv_args[op->is_conv ? op->kind : CONV_FORWARD];
    step_add(&p->main, names[0], p->a);
    step_add(&p->main, names[1], p->reordered ? p->reordered : p->b);
    step_add(&p->main, names[2], p->c);
    if (op->has_bias) {
        DNNL_TRY(dnnl_memory_create(&p->bias, MD(op->bias), engine, DNNL_MEMORY_NONE));
        step_add(&p->main, DNNL_ARG_BIAS, p->bias);
    }
    TRY(step_make(&p->main, walk->pd, &bytes));
    p->head.workspace_bytes = bytes;
    return OK;
}

/* weights: B or w as stored; op->b may leave the layout open. */
static Err dnnl_make(Pool *pool, const Backend *backend, const DnnlOp *op,
                     const dnnl_memory_desc_t *weights, int threads, Prim **prim)
{
    dnnl_primitive_attr_t attr;
    DnnlPrim             *p = host.pool_alloc(pool, 1, sizeof *p);
    p->head.backend = backend;
    p->head.impl = p->impl;
    p->threads = threads;
    host.pool_at_free(pool, dnnl_undo, p);
    DNNL_TRY(dnnl_primitive_attr_create(&attr));
    dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    int before = omp_get_max_threads(); /* oneDNN plans for the threads it finds now */
    omp_set_num_threads(threads);
    dnnl_primitive_attr_t main_attr;
    dnnl_primitive_attr_clone(&main_attr, attr);
    if (op->accumulate) {
        dnnl_post_ops_t ops;
        dnnl_post_ops_create(&ops);
        post_sum(ops);
        dnnl_primitive_attr_set_post_ops(main_attr, ops);
        dnnl_post_ops_destroy(ops);
    }
    DnnlWalk      walk = { 0 };
    dnnl_status_t status = walk_open(&walk, op, main_attr, engine);
    Err           err = status == dnnl_success
                            ? dnnl_fill(p, op, weights, &walk, attr)
                            : host.fail(E_DEVICE, "oneDNN does not offer this call (status %d)", (int)status);
    walk_close(&walk);
    omp_set_num_threads(before);
    dnnl_primitive_attr_destroy(main_attr);
    dnnl_primitive_attr_destroy(attr);
    *prim = &p->head;
    return err;
}

/* --- matrix products --- */

static Err dnnl_matmul_op(DnnlOp *op, const MatmulDesc *d)
{
    dnnl_data_type_t ta, tb, tc, tbias = dnnl_f32;
    if (!dnnl_type(d->type_a, &ta) || !dnnl_type(d->type_b, &tb) || !dnnl_type(d->type_c, &tc) ||
        (d->bias && !dnnl_type(d->type_bias, &tbias)) || ta != tb || d->k < 1)
        return host.fail(
            E_DEVICE, "oneDNN is used only for f32 and bf16 matrix products with k of 1 or more");
    /* without a batch axis: the last two axes */
    int         skip = d->batch > 1 ? 0 : 1, n = 3 - skip;
    dnnl_dims_t da = { d->stride_a ? d->batch : 1, d->m, d->k },
                db = { d->stride_b ? d->batch : 1, d->k, d->n };
    dnnl_dims_t dc = { d->batch, d->m, d->n }, dbias = { 1, 1, d->n }, sbias = { d->n, d->n, 1 };
    dnnl_dims_t sa = { d->stride_a, d->trans_a ? 1 : d->lda, d->trans_a ? d->lda : 1 };
    dnnl_dims_t sb = { d->stride_b, d->trans_b ? 1 : d->ldb, d->trans_b ? d->ldb : 1 };
    dnnl_dims_t sc = { d->stride_c, d->ldc, 1 };
    if (!d->stride_a)
        sa[0] = d->m * d->k;
    if (!d->stride_b)
        sb[0] = d->k * d->n;
    op->has_bias = d->bias;
    op->accumulate = d->accumulate;
    DNNL_TRY(md_strided(&op->a, n, da + skip, ta, sa + skip));
    DNNL_TRY(md_strided(&op->b, n, db + skip, tb, sb + skip));
    DNNL_TRY(md_strided(&op->c, n, dc + skip, tc, sc + skip));
    DNNL_TRY(md_strided(&op->bias, n, dbias + skip, tbias, sbias + skip));
    return OK;
}

static Backend dnnl_backend;

static Err dnnl_backend_matmul(Pool *pool, const MatmulDesc *desc, int threads, Prim **prim)
{
    DnnlOp op;
    memset(&op, 0, sizeof op);
    Err err = dnnl_matmul_op(&op, desc);
    if (!err)
        err = dnnl_make(pool, &dnnl_backend, &op, &op.b, threads, prim);
    md_done(op.a), md_done(op.b), md_done(op.c), md_done(op.bias);
    return err;
}

/* --- convolutions --- */

/* A channels-last image of n x c x (D,H,W), without D unless volume. */
static Err dnnl_image(dnnl_memory_desc_t *md, int64_t n, int64_t c, const int64_t size[3],
                      bool volume, dnnl_data_type_t type)
{
    dnnl_dims_t dims = { n, c }, strides = { size[0] * size[1] * size[2] * c, 1 };
    int64_t     step = c;
    int         axes = volume ? 3 : 2;
    for (int i = axes - 1; i >= 0; i--) {
        dims[2 + i] = size[3 - axes + i];
        strides[2 + i] = step;
        step *= dims[2 + i];
    }
    DNNL_TRY(md_strided(md, 2 + axes, dims, type, strides));
    return OK;
}

/* Does every tap of the kernel meet the image at least once? If one does not, oneDNN 2.6.3 leaves
 * its gradient unwritten (seen with bf16, W = 1, kernel 3, padding 0 and 2). */
static bool dnnl_taps_met(const ConvDesc *d)
{
    for (int axis = 0; axis < 3; axis++)
        for (int64_t tap = 0; tap < d->kernel[axis]; tap++) {
            bool met = false;
            for (int64_t o = 0; o < d->out[axis] && !met; o++) {
                int64_t at = o * d->stride[axis] - d->pad_lo[axis] + tap * conv_dilation(d, axis);
                met = at >= 0 && at < d->in[axis];
            }
            if (!met)
                return false;
        }
    return true;
}

static Err dnnl_conv_op(DnnlOp *op, dnnl_memory_desc_t *weights, const ConvDesc *d)
{
    dnnl_data_type_t tx, tw, ty, tbias = dnnl_f32;
    if (!dnnl_type(d->type_x, &tx) || !dnnl_type(d->type_w, &tw) || !dnnl_type(d->type_y, &ty) ||
        (d->bias && !dnnl_type(d->type_bias, &tbias)))
        return host.fail(E_DEVICE, "oneDNN is used only for f32 and bf16 convolutions");
    if (d->kind == CONV_BACKWARD_WEIGHTS && !dnnl_taps_met(d))
        return host.fail(E_DEVICE,
                         "oneDNN leaves the gradient of a tap that only sees padding unwritten");
    for (int i = 0; i < 3; i++)
        if (d->pad_hi[i] < 0)
            return host.fail(E_DEVICE, "oneDNN is not used for negative padding");
    bool volume = d->in[0] > 1 || d->out[0] > 1 || d->kernel[0] > 1;
    int  axes = volume ? 3 : 2;
    /* In one of a dozen runs of one case (f32, depth 7, kernel 7, stride 4, padding 6) four of
     * seven planes of the gradient were wrong. */
    if (d->kind == CONV_BACKWARD_WEIGHTS && volume && d->stride[0] > 1)
        return host.fail(E_DEVICE,
                         "oneDNN is not used for weight gradients with a stride in depth");
    /* A bf16 weight gradient of 5 groups of 5 channels, dilated, was wrong and differed between runs
     * of the same call. */
    if (d->kind == CONV_BACKWARD_WEIGHTS && conv_groups(d) > 1 &&
        (d->type_x == BF16 || d->type_y == BF16 || d->type_w == BF16))
        return host.fail(E_DEVICE, "oneDNN is not used for bf16 weight gradients of groups");
    *op = (DnnlOp){ .is_conv = true,
                    .kind = d->kind,
                    .has_bias = d->bias,
                    .wide = d->out[2] > WIDE,
                    .depthwise = conv_groups(d) > 1 && d->ci == conv_groups(d) };
    /* With groups, weights have the group as their first axis. */
    int64_t     groups = conv_groups(d), ci = d->ci / groups, co = d->co / groups;
    int         lead = groups > 1, n = lead + 2 + axes;
    dnnl_dims_t dims = { groups }, strides = { co }, one = { d->co }, unit = { 1 };
    int64_t     step = d->co * ci;
    dims[lead] = co, strides[lead] = 1;
    dims[lead + 1] = ci, strides[lead + 1] = d->co;
    for (int i = axes - 1; i >= 0; i--) {
        int axis = 3 - axes + i;
        op->strides[i] = d->stride[axis];
        op->dilates[i] = conv_dilation(d, axis) - 1;
        op->pad_lo[i] = d->pad_lo[axis];
        op->pad_hi[i] = d->pad_hi[axis];
        dims[lead + 2 + i] = d->kernel[axis];
        strides[lead + 2 + i] = step;
        step *= d->kernel[axis];
    }
    TRY(dnnl_image(&op->a, d->n, d->ci, d->in, volume, tx));
    TRY(dnnl_image(&op->c, d->n, d->co, d->out, volume, ty));
    DNNL_TRY(md_any(&op->b, n, dims, tw));
    DNNL_TRY(md_any(&op->forward_b, n, dims, d->kind == CONV_BACKWARD_WEIGHTS ? tx : tw));
    DNNL_TRY(md_strided(weights, n, dims, tw, strides));
    DNNL_TRY(md_strided(&op->bias, 1, one, tbias, unit));
    return OK;
}

static Err dnnl_backend_conv(Pool *pool, const ConvDesc *desc, int threads, Prim **prim)
{
    DnnlOp             op;
    dnnl_memory_desc_t weights;
    memset(&op, 0, sizeof op);
    memset(&weights, 0, sizeof weights);
    Err err = dnnl_conv_op(&op, &weights, desc);
    if (!err)
        err = dnnl_make(pool, &dnnl_backend, &op, &weights, threads, prim);
    md_done(op.a), md_done(op.b), md_done(op.c), md_done(op.bias), md_done(weights);
    md_done(op.forward_b);
    return err;
}

/* --- running --- */

/* Setting a handle makes oneDNN 2 search for padding to zero, so it is set only when it changes. */
static Err dnnl_point(dnnl_memory_t memory, const void *at)
{
    void *now;
    if (!memory)
        return OK;
    DNNL_TRY(dnnl_memory_get_data_handle(memory, &now));
    if (now != at)
        DNNL_TRY(dnnl_memory_set_data_handle(memory, (void *)(uintptr_t)at));
    return OK;
}

static Err dnnl_step(const DnnlStep *s, char *workspace)
{
    TRY(dnnl_point(s->workspace, workspace + s->workspace_at));
    DNNL_TRY(dnnl_primitive_execute(s->prim, stream, s->n_args, s->args));
    return OK;
}

static Err dnnl_steps(const DnnlPrim *p, const PrimArgs *args)
{
    TRY(dnnl_point(p->a, args->a));
    TRY(dnnl_point(p->b, args->b));
    TRY(dnnl_point(p->c, args->c));
    TRY(dnnl_point(p->bias, args->bias));
    TRY(dnnl_point(p->reordered, args->workspace));
    if (p->reorder_before)
        TRY(dnnl_step(&p->reorder, args->workspace));
    TRY(dnnl_step(&p->main, args->workspace));
    if (p->reorder_after)
        TRY(dnnl_step(&p->reorder, args->workspace));
    DNNL_TRY(dnnl_stream_wait(stream));
    return OK;
}

static Err dnnl_backend_run(const Prim *prim, const PrimArgs *args)
{
    const DnnlPrim *p = (const DnnlPrim *)prim;
    int             before = omp_get_max_threads();
    omp_set_num_threads(p->threads);
    Err err = dnnl_steps(p, args);
    omp_set_num_threads(before);
    return err;
}

static char    dnnl_version_text[32];
static Backend dnnl_backend = { .name = "onednn",
                                .version = dnnl_version_text,
                                .matmul = dnnl_backend_matmul,
                                .conv = dnnl_backend_conv,
                                .run = dnnl_backend_run };

/* oneDNN reads the AMX tile sizes from CPUID leaf 1DH, and Linux gives tiles to processes that ask.
 * Some virtual machines show the AMX flags without that leaf; oneDNN 2.6 to 3.2 then configure
 * tiles without rows and end in SIGILL, so AMX is switched off there. */
static bool dnnl_tiles_work(void)
{
#ifdef __x86_64__
    /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    enum { ASK_PERMISSION = 0x1023, TILE_DATA = 18 };
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid_count(0x1D, 1, &eax, &ebx, &ecx, &edx) && ebx >> 16 >= 8 &&
           syscall(SYS_arch_prctl, ASK_PERMISSION, TILE_DATA) == 0;
#else
    return true;
#endif
}

/* Without tiles bf16 means VDPBF16PS: twice the rate of fp32 on Zen 4, but half of it on Intel
 * (measured: 80 against 150 GFLOP/s per core), where fp32 products of bf16 data are faster. */
static bool dnnl_bf16_pays(bool tiles)
{
#ifdef __x86_64__
    unsigned eax, ebx, ecx, edx;
    return tiles || !__get_cpuid(0, &eax, &ebx, &ecx, &edx) || ebx != signature_INTEL_ebx;
#else
    return tiles;
#endif
}

PluginEntry plimsoll_backend;

const Backend *plimsoll_backend(const PluginHost *program)
{
    if (program->form != PLUGIN_FORM)
        return NULL;
    host = *program;
    bool tiles = dnnl_tiles_work();
    dnnl_backend.bf16_pays = dnnl_bf16_pays(tiles);
    if (!tiles)
        dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
    const dnnl_version_t *v = dnnl_version();
    snprintf(dnnl_version_text, sizeof dnnl_version_text, "%d.%d.%d", v->major, v->minor, v->patch);
    /* a primitive dies with its pool, not some time later */
    dnnl_set_primitive_cache_capacity(0);
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) != dnnl_success)
        return NULL;
    return &dnnl_backend;
}
