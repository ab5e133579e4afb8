/* fuse.c -- groups of pointwise nodes: which are found, and that loss and gradients stay.
 *
 * Each graph is built twice. One copy is fused; both run. The loss may differ by the order of its
 * sum (2e-6), gradients by rounding (2e-5 of their norm; 2e-2 in bf16). Backward of the fused graph
 * must not keep more bytes. */
#include "test_device.h"
#include "test.h"

#include "autodiff/autodiff.h"
#include "base/random.h"
#include "device/convert.h"
#include "exec/session.h"
#include "ops/elementwise/basic.h"
#include "ops/arrange/arrange.h"
#include "ops/elementwise/glu.h"
#include "ops/elementwise/unary.h"
#include "ops/linear/linear.h"
#include "ops/norm/batchnorm.h"
#include "ops/norm/groupnorm.h"
#include "ops/norm/layernorm.h"
#include "ops/ops.h"
#include "ops/pointwise/pointwise.h"
#include "rewrite/fuse.h"

#include <stdlib.h>

/* ---- small graphs ---- */

static Tensor weight(Graph *g, const char *name, Shape shape)
{
    return param_add(g, name, shape, (Init){ .kind = INIT_NORMAL, .scale = 0.7f });
}

/* Strides of a dense tensor over its own axes; with an axis less for each leading one missing. */
static void strides_over(Shape space, Shape x, int64_t *stride)
{
    int64_t next = 1;
    for (int a = space.rank - 1; a >= 0; a--) {
        int at = a - (space.rank - x.rank);
        stride[a] = at >= 0 && x.dim[at] > 1 ? next : 0;
        next *= at >= 0 ? x.dim[at] : 1;
    }
}

/* One node: op(x), or op(x, y) with y repeated along leading axes, stored in the graph's type. */
static Tensor point(PointOp op, Tensor x, Tensor y)
{
    Shape        s = tensor_shape(x);
    int64_t      stride[POINT_RANK];
    PointProgram p = point_begin(s.rank, s.dim);
    strides_over(s, s, stride);
    int a = point_input(&p, x, stride), b = -1;
    if (tensor_ok(y)) {
        strides_over(s, tensor_shape(y), stride);
        b = point_input(&p, y, stride);
    }
    point_store(&p, point_step(&p, op, a, b, -1), x.graph->compute, s);
    return point_end(&p, NULL);
}
#define POINT1(op, x)    point(POINT_##op, (x), (Tensor){ NULL, TENSOR_NONE })
#define POINT2(op, x, y) point(POINT_##op, (x), (y))

/* Reduces the last axis, or all. */
static Tensor reduced(PointReduce how, Tensor x, bool all)
{
    Shape        s = tensor_shape(x);
    int64_t      stride[POINT_RANK];
    PointProgram p = point_begin(s.rank, s.dim);
    strides_over(s, s, stride);
    point_reduce(&p, point_input(&p, x, stride), how, all ? (1u << s.rank) - 1 : 1u << (s.rank - 1),
                 1, F32, all ? SHAPE(1) : shape_with(s, s.rank - 1, 1));
    return point_end(&p, NULL);
}

static Tensor loss_of(Tensor x) { return reduced(POINT_SUM, POINT2(MUL, x, x), true); }

/* loss = sum of squares of (silu(x + v) x): five nodes, one group */
static Tensor chain(Graph *g)
{
    Tensor x = weight(g, "x", SHAPE(2, 5, 8)), v = weight(g, "v", SHAPE(8));
    return loss_of(POINT2(MUL, POINT1(SILU, POINT2(ADD, x, v)), x));
}

/* v + v has fewer points than its reader: it is computed once, not at every point. */
static Tensor small_producer(Graph *g)
{
    Tensor x = weight(g, "x", SHAPE(2, 5, 8)), v = weight(g, "v", SHAPE(8));
    return loss_of(POINT2(MUL, x, POINT2(ADD, v, v)));
}

/* a -> sigmoid -> b, and a -> b: b cannot be in a's group. */
static Tensor around(Graph *g)
{
    Tensor a = POINT1(TANH, weight(g, "x", SHAPE(4, 6)));
    return loss_of(POINT2(MUL, a, sigmoid(a)));
}

/* The same, where the path outside begins and ends in different members. */
static Tensor around_groups(Graph *g)
{
    Tensor x = weight(g, "x", SHAPE(4, 6)), a = POINT1(TANH, x), b = POINT1(EXP, a);
    Tensor c = POINT2(ADD, b, x), d = POINT2(MUL, c, sigmoid(b)), e = POINT2(ADD, d, a);
    return loss_of(POINT2(MUL, e, sigmoid(d)));
}

/* d reads c; c reads the group of a and b, which reads c: by way of s, which comes before c. */
static Tensor across_group(Graph *g)
{
    Tensor a = POINT1(TANH, weight(g, "x", SHAPE(4, 6))), s = sigmoid(a);
    Tensor c = POINT1(EXP, weight(g, "y", SHAPE(4, 6))), b = POINT2(MUL, a, sigmoid(c));
    Tensor d = POINT2(ADD, c, s);
    return add(loss_of(b), loss_of(d));
}

/* a is read inside and outside: it is a further result. */
static Tensor read_outside(Graph *g)
{
    Tensor a = POINT1(TANH, weight(g, "x", SHAPE(4, 6))), b = POINT2(MUL, a, a);
    return add(loss_of(b), loss_of(sigmoid(a)));
}

/* Under another shape, with a vector along axes that the first node has not. */
static Tensor reshaped(Graph *g)
{
    Tensor a = POINT1(TANH, weight(g, "x", SHAPE(2, 3, 4))), v = weight(g, "v", SHAPE(4));
    Tensor b = POINT2(ADD, a, v);
    return loss_of(POINT2(MUL, reshape(b, SHAPE(3, 8)), weight(g, "w", SHAPE(8))));
}

/* Axes of 4 and axes of 6 have no common space. */
static Tensor no_common_space(Graph *g)
{
    Tensor a = POINT2(ADD, weight(g, "x", SHAPE(6, 4)), weight(g, "v", SHAPE(4)));
    return loss_of(POINT2(MUL, reshape(a, SHAPE(4, 6)), weight(g, "w", SHAPE(6))));
}

/* Read across, not in its order. */
static Tensor transposed(Graph *g)
{
    Tensor       a = POINT1(TANH, weight(g, "x", SHAPE(6, 4)));
    PointProgram p = point_begin(2, (int64_t[]){ 4, 6 });
    int          t = point_input(&p, a, (int64_t[]){ 1, 4 });
    point_store(&p, point_step(&p, POINT_EXP, t, -1, -1), g->compute, SHAPE(4, 6));
    return loss_of(point_end(&p, NULL));
}

/* Largest, exponentials with their sum, quotient: three groups; the square and its sum join the
 * last. */
static Tensor softmax_parts(Graph *g)
{
    Tensor       x = weight(g, "x", SHAPE(5, 9)), top = reduced(POINT_AMAX, x, false);
    int64_t      dim[] = { 5, 9 }, dense[] = { 9, 1 }, rows[] = { 1, 0 };
    PointProgram p = point_begin(2, dim);
    int d = point_step(&p, POINT_SUB, point_input(&p, x, dense), point_input(&p, top, rows), -1);
    point_store(&p, d, F32, SHAPE(5, 9));
    Tensor e = POINT1(EXP, point_end(&p, NULL)), sum = reduced(POINT_SUM, e, false);
    p = point_begin(2, dim);
    int q = point_step(&p, POINT_DIV, point_input(&p, e, dense), point_input(&p, sum, rows), -1);
    point_store(&p, q, F32, SHAPE(5, 9));
    return loss_of(point_end(&p, NULL));
}

static Tensor many_operands(Graph *g)
{
    Tensor x = weight(g, "x", SHAPE(3, 4));
    for (int i = 0; i < 2 * FUSE_INPUTS; i++)
        x = POINT2(ADD, x, weight(g, pool_print(g->pool, "x%d", i), SHAPE(3, 4)));
    return loss_of(x);
}

static Tensor many_steps(Graph *g)
{
    Tensor x = weight(g, "x", SHAPE(3, 4));
    for (int i = 0; i < FUSE_STEPS; i++)
        x = i % 2 ? POINT1(TANH, x) : POINT1(SILU, x);
    return loss_of(x);
}

/* Many members that nodes outside read. */
static Tensor many_results(Graph *g)
{
    Tensor x = weight(g, "x", SHAPE(3, 4)), sum = loss_of(sigmoid(x));
    for (int i = 0; i < 2 * FUSE_RESULTS; i++) {
        x = POINT1(TANH, x);
        sum = add(sum, loss_of(sigmoid(x)));
    }
    return add(sum, loss_of(x));
}

/* The state is read before it is written: its reader stays where it is. */
static Tensor with_state(Graph *g)
{
    Tensor x = weight(g, "x", SHAPE(4)),
           s = state_add(g, "s", F32, SHAPE(4), CLASS_CONSTANTS, true);
    Tensor a = POINT2(ADD, x, s);
    assign(s, x);
    Tensor b = POINT2(MUL, a, POINT2(ADD, x, s));
    return loss_of(b);
}

/* ---- known groups, and what is nearly one ---- */

static Tensor add_number(Tensor x, int number)
{
    int64_t      n = shape_count(tensor_shape(x)), one = 1;
    PointProgram p = point_begin(1, &n);
    int          y = point_step(&p, POINT_TO_F32, point_integer(&p, number), -1, -1);
    point_store(&p, point_step(&p, POINT_ADD, point_input(&p, x, &one), y, -1), F32,
                tensor_shape(x));
    return point_end(&p, NULL);
}

/* op(x, row): x (B,L,C), row (B,C) */
static Tensor by_row(PointOp op, Tensor x, Tensor row)
{
    Shape        s = tensor_shape(x);
    PointProgram p = point_begin(3, s.dim);
    int          a = point_input(&p, x, (int64_t[]){ s.dim[1] * s.dim[2], s.dim[2], 1 }),
        b = point_input(&p, row, (int64_t[]){ s.dim[2], 0, 1 });
    point_store(&p, point_step(&p, op, b, a, -1), F32, s);
    return point_end(&p, NULL);
}

static Tensor group_of(Graph *g)
{
    return groupnorm(weight(g, "x", SHAPE(2, 3, 3, 8)), weight(g, "w", SHAPE(8)),
                     weight(g, "b", SHAPE(8)), 4, 1e-5f, NORM_LINEAR);
}
static Tensor groupnorm_silu(Graph *g) { return loss_of(POINT1(SILU, group_of(g))); }
static Tensor groupnorm_relu(Graph *g) { return loss_of(POINT1(RELU, group_of(g))); }
static Tensor groupnorm_gelu(Graph *g) { return loss_of(POINT1(GELU, group_of(g))); }
static Tensor groupnorm_read_twice(Graph *g)
{
    Tensor y = group_of(g);
    return add(loss_of(POINT1(SILU, y)), loss_of(sigmoid(y)));
}

/* The statistics are read before the ReLU. */
static Tensor batchnorm_relu(Graph *g)
{
    Tensor statistics, x = weight(g, "x", SHAPE(2, 3, 3, 8));
    Tensor y = batchnorm(x, weight(g, "w", SHAPE(8)), weight(g, "b", SHAPE(8)), 1e-5f, false,
                         &statistics);
    Tensor mean = state_add(g, "mean", F32, SHAPE(8), CLASS_CONSTANTS, true),
           var = state_add(g, "var", F32, SHAPE(8), CLASS_CONSTANTS, true),
           batches = state_add(g, "batches", I32, SHAPE(1), CLASS_CONSTANTS, false);
    batchnorm_track(x, statistics, mean, var, batches, 1e-5f, 0.1f);
    return loss_of(POINT1(RELU, y));
}

static Tensor modulated(Graph *g, bool affine, int number)
{
    Tensor x = weight(g, "x", SHAPE(2, 5, 8)), none = tensor_none(g);
    Tensor y = layernorm(x, affine ? weight(g, "w", SHAPE(8)) : none, none, 1e-5f);
    Tensor scale = weight(g, "scale", SHAPE(2, 8)), shift = weight(g, "shift", SHAPE(2, 8));
    return loss_of(by_row(POINT_ADD, by_row(POINT_MUL, y, add_number(scale, number)), shift));
}
static Tensor modulate(Graph *g) { return modulated(g, false, 1); }
static Tensor modulate_affine(Graph *g) { return modulated(g, true, 1); }
static Tensor modulate_by_two(Graph *g) { return modulated(g, false, 2); }

/* norm(x) * (number + gamma) + beta, with maps */
static Tensor mapped(Graph *g, bool weighted, bool biased, int number)
{
    Tensor none = tensor_none(g), x = weight(g, "x", SHAPE(2, 3, 3, 8));
    Tensor y = groupnorm(x, weighted ? weight(g, "w", SHAPE(8)) : none,
                         biased ? weight(g, "b", SHAPE(8)) : none, 8, 1e-5f, NORM_LINEAR);
    Tensor gamma = weight(g, "gamma", SHAPE(2, 3, 3, 8)),
           beta = weight(g, "beta", SHAPE(2, 3, 3, 8));
    return loss_of(POINT2(ADD, POINT2(MUL, y, add_number(gamma, number)), beta));
}
static Tensor maps_plain(Graph *g) { return mapped(g, false, false, 1); }
static Tensor maps_affine(Graph *g) { return mapped(g, true, true, 1); }
static Tensor maps_weight_alone(Graph *g) { return mapped(g, true, false, 1); }
static Tensor maps_by_two(Graph *g) { return mapped(g, false, false, 2); }

static Tensor gated(Graph *g, PointOp gate, bool second)
{
    Tensor halves[2];
    split(halves, 2, weight(g, "x", SHAPE(2, 5, 16)), 2);
    return loss_of(POINT2(MUL, halves[second], point(gate, halves[!second], tensor_none(g))));
}
static Tensor gated_gelu(Graph *g) { return gated(g, POINT_GELU, false); }
static Tensor gated_sigmoid(Graph *g) { return gated(g, POINT_SIGMOID, false); }
static Tensor gated_first_half(Graph *g) { return gated(g, POINT_GELU, true); }

static Tensor linear_summand(Graph *g)
{
    Tensor x = weight(g, "x", SHAPE(2, 5, 8));
    Tensor y = linear_op(sigmoid(x), weight(g, "w", SHAPE(8, 8)), weight(g, "b", SHAPE(8)),
                         (LinearAttr){ 0 });
    return loss_of(POINT2(ADD, x, y));
}

/* x / rms(of), times a weight */
static Tensor by_rms(Tensor x, Tensor of, Tensor w)
{
    Shape   s = tensor_shape(x);
    int64_t n = shape_rows(s), width = dim(s, -1), one = 1, dims[] = { n, width },
            dense[] = { width, 1 };
    PointProgram p = point_begin(2, dims);
    int          square = point_step(&p, POINT_SQUARE, point_input(&p, of, dense), -1, -1);
    point_reduce(&p, square, POINT_SUM, 2, 1.0f / (float)width, F32, SHAPE(n, 1));
    Tensor mean = point_end(&p, NULL);
    p = point_begin(1, &n);
    int sum = point_step(&p, POINT_ADD, point_input(&p, mean, &one), point_constant(&p, 1e-4f), -1);
    point_store(&p, point_step(&p, POINT_RSQRT, sum, -1, -1), F32, SHAPE(n, 1));
    Tensor rate = point_end(&p, NULL);
    p = point_begin(2, dims);
    int y = point_input(&p, rate, (int64_t[]){ 1, 0 });
    y = point_step(&p, POINT_MUL, point_input(&p, x, dense), y, -1);
    point_store(&p, y, F32, s);
    Tensor z = point_end(&p, NULL);
    return tensor_ok(w) ? POINT2(MUL, z, w) : z;
}
static Tensor rms_weighted(Graph *g)
{
    Tensor x = weight(g, "x", SHAPE(2, 5, 8));
    return loss_of(by_rms(x, x, weight(g, "w", SHAPE(8))));
}
static Tensor rms_plain(Graph *g)
{
    Tensor x = weight(g, "x", SHAPE(2, 5, 8));
    return loss_of(POINT1(TANH, by_rms(x, x, tensor_none(g))));
}
static Tensor rms_of_another(Graph *g)
{
    Tensor x = weight(g, "x", SHAPE(2, 5, 8)), y = weight(g, "y", SHAPE(2, 5, 8));
    return add(loss_of(by_rms(x, y, tensor_none(g))), loss_of(sigmoid(y)));
}

/* ---- random graphs ---- */

static RandomKey random_key;
static int64_t   random_at;

static int draw(int n)
{
    float u;
    random_uniforms(random_key, (uint64_t)random_at++, 1, &u);
    int x = (int)(u * (float)n);
    return x < n ? x : n - 1;
}

static Tensor random_graph(Graph *g)
{
    static const PointOp ones[] = { POINT_TANH, POINT_SILU, POINT_SIGMOID, POINT_NEG, POINT_GELU },
                         twos[] = { POINT_ADD, POINT_SUB, POINT_MUL, POINT_MAX };
    Shape  shapes[] = { SHAPE(2, 3, 8), SHAPE(6, 8), SHAPE(48) };
    Tensor all[40], v = weight(g, "v", SHAPE(8)), w = weight(g, "w", SHAPE(3, 8));
    int    n = 0;
    random_at = 0;
    all[n++] = weight(g, "x", shapes[0]);
    all[n++] = weight(g, "y", shapes[1]);
    while (n < 30) {
        Tensor x = all[draw(n)], y = all[draw(n)];
        switch (draw(6)) {
        case 0: all[n++] = sigmoid(x); break;
        case 1: all[n++] = reshape(x, shapes[draw(3)]); break;
        case 2: all[n++] = point(ones[draw(5)], x, tensor_none(g)); break;
        case 3: all[n++] = POINT2(MUL, reshape(x, shapes[1]), v); break;
        case 4: all[n++] = POINT2(ADD, reshape(x, shapes[0]), w); break;
        default: all[n++] = point(twos[draw(4)], reshape(x, shapes[0]), reshape(y, shapes[0]));
        }
    }
    Tensor sum = loss_of(all[n - 1]);
    for (int i = 0; i < 3; i++)
        sum = add(sum, loss_of(all[draw(n)]));
    return sum;
}

/* ---- comparing ---- */

typedef Tensor (*Builder)(Graph *g);

typedef struct FusedRun {
    Graph  *graph;
    int32_t n_pointwise, n_several, fused; /* forward nodes; those with several results */
    int64_t kept_bytes;
    float   loss;
    float **grads;
} FusedRun;

/* Bytes of forward values that backward reads. */
static int64_t kept_bytes(const Graph *g)
{
    bool   *kept = NEWN(g->pool, bool, g->n_values);
    int64_t sum = 0;
    for (int32_t i = 0; i < g->n_nodes; i++)
        for (int j = 0; j < g->nodes[i].n_in; j++) {
            int32_t id = g->nodes[i].in[j];
            if (!g->nodes[i].backward || g->nodes[i].op->view || id < 0)
                continue;
            const Value *v = value_at(g, value_at(g, id)->root);
            if (v->producer >= 0 && !g->nodes[v->producer].backward && !kept[v->root])
                sum += v->bytes;
            kept[v->root] = true;
        }
    return sum;
}

static void run_graph(Pool *pool, const Device *device, Builder build, Type compute, bool fuse,
                      FusedRun *out)
{
    Graph   *g = graph_new(pool, compute);
    Tensor   loss = build(g);
    Engine  *engine;
    Session *session;
    float    one = 1;
    CHECK_OK(graph_check(g));
    *out = (FusedRun){ 0 };
    if (fuse)
        CHECK_OK(graph_fuse(g, &g, &loss, &out->fused));
    out->graph = g;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        out->n_pointwise += g->nodes[i].op == &op_pointwise;
        out->n_several += g->nodes[i].op == &op_pointwise &&
                          ATTR(&g->nodes[i], PointwiseAttr)->n_results > 1;
    }
    Tensor unit = constant_add(g, "seed", F32, SHAPE(1), &one, CLASS_CONSTANTS);
    CHECK_OK(autodiff_backward(g, loss, unit, NULL));
    out->kept_bytes = kept_bytes(g);
    CHECK_OK(engine_new(pool, g, device, NULL, &engine));
    CHECK_OK(session_new(pool, engine, &session));
    CHECK_OK(session_init(session, 1));
    CHECK_OK(session_watch(session, loss.id, &out->loss));
    out->grads = NEWN(pool, float *, g->n_params);
    for (int32_t i = 0; i < g->n_params; i++)
        if (g->params[i].grad >= 0) {
            out->grads[i] = NEWN(pool, float, shape_count(g->params[i].disk));
            CHECK_OK(session_watch(session, g->params[i].grad, out->grads[i]));
        }
    CHECK_OK(session_run(session, PHASE_MICRO));
}

static const float *grad_f32(const FusedRun *run, int32_t i, int64_t n)
{
    Type   type = value_at(run->graph, run->graph->params[i].grad)->type;
    float *x = NEWN(run->graph->pool, float, n);
    convert_rows(F32, x, type, run->grads[i], (size_t)n);
    return x;
}

static void compare_runs(const FusedRun *want, const FusedRun *got, double tol)
{
    CHECK_NEAR((double)got->loss, (double)want->loss, 2e-6 * (fabs((double)want->loss) + 1e-3));
    CHECK(got->kept_bytes <= want->kept_bytes);
    for (int32_t i = 0; i < want->graph->n_params; i++) {
        int64_t n = shape_count(want->graph->params[i].disk);
        double  error = 0, size = 0;
        CHECK((want->grads[i] != NULL) == (got->grads[i] != NULL));
        if (!want->grads[i] || !got->grads[i])
            continue;
        const float *a = grad_f32(want, i, n), *b = grad_f32(got, i, n);
        for (int64_t k = 0; k < n; k++) {
            error += pow((double)a[k] - (double)b[k], 2);
            size += pow((double)a[k], 2);
        }
        if (!CHECK(sqrt(error) <= tol * (sqrt(size) + 1e-3)))
            printf("  %s: %g of %g\n", want->graph->params[i].name, sqrt(error), sqrt(size));
    }
}

typedef struct FuseCase {
    const char *name;
    Builder     build;
    int         before, after, several; /* pointwise nodes; those with several results */
    bool        only_f32;               /* in bf16 rounding adds steps, or values are fp32 */
} FuseCase;

static const FuseCase fuse_cases[] = {
    { "chain", chain, 5, 1, 0 },
    { "small_producer", small_producer, 4, 2, 0 },
    { "around", around, 4, 2, 0 },
    { "around_groups", around_groups, 8, 3, 2 },
    { "across_group", across_group, 8, 3, 1 },
    { "read_outside", read_outside, 6, 2, 1 },
    { "reshaped", reshaped, 5, 1, 0 },
    { "no_common_space", no_common_space, 4, 2, 0 },
    { "transposed", transposed, 4, 2, 0 },
    { "softmax_parts", softmax_parts, 7, 3, 1, true },
    { "many_operands", many_operands, 2 * FUSE_INPUTS + 2, 3, 0 },
    { "many_steps", many_steps, FUSE_STEPS + 2, 2, 0, true },
    { "many_results", many_results, 2 * FUSE_RESULTS + 2 * (2 * FUSE_RESULTS + 2), 0, 0 },
    { "with_state", with_state, 5, 3, 0, true },
};
enum { N_FUSE_CASES = sizeof fuse_cases / sizeof *fuse_cases };

static void check_limits(const Graph *g)
{
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const PointwiseAttr *p = ATTR(&g->nodes[i], PointwiseAttr);
        if (g->nodes[i].op != &op_pointwise || g->nodes[i].backward)
            continue;
        CHECK(p->n_in <= FUSE_INPUTS && p->n_steps <= FUSE_STEPS);
    }
}

static void check_case(const Device *device, const FuseCase *c, Type compute)
{
    Pool    *pool = pool_new(NULL, "fuse");
    FusedRun want, got;
    test_name = c->name;
    run_graph(pool, device, c->build, compute, false, &want);
    run_graph(pool, device, c->build, compute, true, &got);
    compare_runs(&want, &got, compute == F32 ? 2e-5 : 2e-2);
    printf("%s: %d pointwise nodes, then %d; kept %lld, then %lld\n", c->name, want.n_pointwise,
           got.n_pointwise, (long long)want.kept_bytes, (long long)got.kept_bytes);
    CHECK_INT(got.fused, want.n_pointwise - got.n_pointwise);
    CHECK_INT(want.n_pointwise, c->before);
    if (c->after) {
        CHECK_INT(got.n_pointwise, c->after);
        CHECK_INT(got.n_several, c->several);
    } else
        CHECK(got.n_pointwise < want.n_pointwise);
    check_limits(got.graph);
    pool_free(pool);
}

typedef struct KnownCase {
    const char  *name;
    Builder      build;
    const OpDef *op;    /* in the fused graph */
    int          after; /* pointwise nodes, the loss's included */
    int          n_in;  /* of the operator */
} KnownCase;

static const KnownCase known_cases[] = {
    { "groupnorm_silu", groupnorm_silu, &op_groupnorm, 1, 3 },
    { "groupnorm_relu", groupnorm_relu, &op_groupnorm, 1, 3 },
    { "groupnorm_gelu", groupnorm_gelu, &op_groupnorm, 1, 3 },
    { "groupnorm_read_twice", groupnorm_read_twice, &op_groupnorm, 2, 3 },
    { "batchnorm_relu", batchnorm_relu, &op_batchnorm, 1, 3 },
    { "maps_plain", maps_plain, &op_spade, 1, 5 },
    { "maps_affine", maps_affine, &op_spade, 1, 5 },
    { "maps_weight_alone", maps_weight_alone, &op_groupnorm, 1, 3 },
    { "maps_by_two", maps_by_two, &op_groupnorm, 1, 3 },
    { "modulate", modulate, &op_layernorm_modulate, 1, 2 },
    { "modulate_affine", modulate_affine, &op_layernorm, 2, 3 },
    { "modulate_by_two", modulate_by_two, &op_layernorm, 2, 3 },
    { "gated_gelu", gated_gelu, &op_geglu, 1, 1 },
    { "gated_sigmoid", gated_sigmoid, &op_glu, 1, 1 },
    { "gated_first_half", gated_first_half, &op_split, 1, 1 },
    { "rms_weighted", rms_weighted, &op_rmsnorm, 1, 2 },
    { "rms_plain", rms_plain, &op_rmsnorm, 1, 2 },
    { "rms_of_another", rms_of_another, &op_sigmoid, 4, 1 },
    { "linear_summand", linear_summand, &op_linear, 1, 4 },
};
enum { N_KNOWN_CASES = sizeof known_cases / sizeof *known_cases };

static void check_known(const Device *device, const KnownCase *c)
{
    Pool    *pool = pool_new(NULL, "fuse");
    FusedRun want, got;
    int      found = 0;
    test_name = c->name;
    run_graph(pool, device, c->build, F32, false, &want);
    run_graph(pool, device, c->build, F32, true, &got);
    compare_runs(&want, &got, 5e-5);
    CHECK_INT(got.n_pointwise, c->after);
    for (int32_t i = 0; i < got.graph->n_nodes; i++)
        if (got.graph->nodes[i].op == c->op) {
            CHECK_INT(got.graph->nodes[i].n_in, c->n_in);
            found++;
        }
    CHECK_INT(found, 1);
    printf("%s: %d pointwise nodes, then %d; kept %lld, then %lld\n", c->name, want.n_pointwise,
           got.n_pointwise, (long long)want.kept_bytes, (long long)got.kept_bytes);
    pool_free(pool);
}

static void check_random(const Device *device, int seeds)
{
    int64_t before = 0, after = 0;
    test_name = "random_graph";
    for (int i = 0; i < seeds; i++) {
        Pool    *pool = pool_new(NULL, "fuse");
        FusedRun want, got;
        int      failed = test_failed;
        random_key = (RandomKey){ .seed = (uint64_t)i + 1 };
        run_graph(pool, device, random_graph, i % 4 == 3 ? BF16 : F32, false, &want);
        run_graph(pool, device, random_graph, i % 4 == 3 ? BF16 : F32, true, &got);
        compare_runs(&want, &got, i % 4 == 3 ? 4e-2 : 5e-5);
        before += want.n_pointwise;
        after += got.n_pointwise;
        if (test_failed > failed)
            printf("  seed %d: kept %lld, then %lld\n", i + 1, (long long)want.kept_bytes,
                   (long long)got.kept_bytes);
        pool_free(pool);
    }
    printf("random graphs: %lld pointwise nodes, then %lld\n", (long long)before, (long long)after);
    CHECK(after < before);
}

/* Nodes keep the module and line of their last member; a graph without pointwise nodes is given
 * back. */
static void places(void)
{
    Pool   *pool = pool_new(NULL, "fuse");
    Graph  *g = graph_new(pool, F32), *out;
    int32_t fused;
    Tensor  x = weight(g, "x", SHAPE(4));
    Tensor  none = sigmoid(x);
    CHECK_OK(graph_fuse(g, &out, &none, &fused));
    CHECK(out == g && fused == 0);
    scope_open(g, "first");
    at_line(g, "model.py", 7);
    Tensor a = POINT1(TANH, x);
    scope_close(g);
    scope_open(g, "second");
    at_line(g, "model.py", 9);
    Tensor loss = reduced(POINT_SUM, a, true);
    scope_close(g);
    graph_output(loss, "loss");
    CHECK_OK(graph_fuse(g, &out, &loss, &fused));
    CHECK_INT(fused, 1);
    const Node *n = &out->nodes[value_at(out, loss.id)->producer];
    CHECK_INT(n->source.line, 9);
    CHECK_TEXT(out->modules[n->module].path, "second");
    CHECK_INT(out->n_outputs, 1);
    CHECK_INT(out->outputs[0].value, loss.id);
    pool_free(pool);
}

int main(int argc, char **argv)
{
    Pool   *pool = pool_new(NULL, "fuse");
    Device *device;
    CHECK_OK(test_device(pool, &(DeviceOptions){ .threads = 2 }, &device));
    for (int i = 0; i < N_FUSE_CASES; i++) {
        check_case(device, &fuse_cases[i], F32);
        if (!fuse_cases[i].only_f32)
            check_case(device, &fuse_cases[i], BF16);
    }
    for (int i = 0; i < N_KNOWN_CASES; i++)
        check_known(device, &known_cases[i]);
    check_random(device, argc > 1 ? atoi(argv[1]) : 300);
    RUN(places);
    pool_free(pool);
    return test_end();
}
