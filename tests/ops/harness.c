/* harness.c -- runs every case of every operator; cases.h says what is checked.
 *
 *   test_ops                    against the stored references
 *   test_ops --dump FILE        write all inputs, for reference.py
 *   test_ops --refs DIR         against references made just now from such a dump
 *   test_ops --only OP          one operator
 *   test_ops --case NAME        cases of that name
 *   test_ops --share 2/3        every third case, from the second on
 *   test_ops --large 0          without the cases that have no stored reference
 *   test_ops --backend builtin  with the builtin products and convolutions
 *   test_ops --quick N          only the first N cases of each operator, fp32 (for valgrind)
 *   test_ops --differences 0    without finite differences, which are many more runs of the same
 *                               code and tell a sanitizer nothing
 *   test_ops --tf32 1           on a GPU: fp32 factors may be rounded to tf32
 */
#define TEST_TAKES_PATHS /* its options name files from where it is started */

#include "ops/cases.h"
#include "test_device.h"
#include "test.h"

#include "autodiff/autodiff.h"
#include "base/file.h"
#include "base/random.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "device/convert.h"
#include "exec/session.h"
#include "ops/arrange/arrange.h"
#include "ops/elementwise/basic.h"
#include "ops/ops.h"
#include "rewrite/chunk.h"

#include <glob.h>
#include <stdarg.h>
#include <stdlib.h>

enum { MAX_PORTS = 24 };

static bool differences = true, tf32;

typedef struct Port { /* an input or output of a case */
    const char *name;
    int32_t     value, param; /* param: index, -1 if not differentiated */
    Shape       shape;
    float      *data;   /* inputs: given; outputs: what came out, as fp32 */
    float      *weight; /* outputs: the loss is the sum of y * weight */
    float      *grad;   /* differentiated inputs: what came out */
    void       *raw;    /* outputs and gradients: watched bytes */
    const void *feed;
    Type        type;
} Port;

struct Case {
    const OpDef  *op;
    const OpCase *oc;
    Pool         *pool;
    Graph        *graph;
    Type          type;
    Port          in[MAX_PORTS], out[MAX_PORTS];
    int           n_in, n_out;
    Session      *session;
};

/* A test-only operator that ends a case: loss = sum over outputs of y * weight, in double. */
static Err probe_shape(Node *n)
{
    out_set(n, 0, F32, SHAPE(1));
    return OK;
}
static Cost probe_cost(const Node *n) { return (Cost){ .bytes = node_bytes(n) }; }
static Err  probe_cpu(const Call *call)
{
    int64_t      count = shape_count(in_shape(call->node, 0));
    const float *w = call->in[1];
    double       sum = 0;
    float        buffer[1];
    for (int64_t i = 0; i < count; i++)
        sum += (double)*row_load(in_type(call->node, 0), call->in[0], i, 1, buffer) * (double)w[i];
    *(float *)call->out[0] = (float)sum;
    return OK;
}
static Err probe_grad_shape(Node *n)
{
    out_set(n, 0, in_type(n, 0), in_shape(n, 0));
    return OK;
}
static Err probe_grad_cpu(const Call *call)
{
    const float *w = call->in[1], *dy = call->in[2];
    int64_t      count = shape_count(in_shape(call->node, 0));
    for (int64_t i = 0; i < count; i++) {
        float d = w[i] * *dy;
        Type  t = out_type(call->node, 0);
        convert_rows(t, (char *)call->out[0] + i * type_bytes(t), F32, &d, 1);
    }
    return OK;
}
/* The ids of the harness's operators follow the program's. */
enum { OP_ID_PROBE = OP_COUNT, OP_ID_PROBE_GRAD, HARNESS_OPS };

static const OpDef op_probe_grad = { .name = "probe_grad",
                                     .id = OP_ID_PROBE_GRAD,
                                     .n_in = 3,
                                     .n_out = 1,
                                     .shape = probe_grad_shape,
                                     .cost = probe_cost,
                                     .cpu = { .run = probe_grad_cpu } };
static void        probe_grad(Grad *g)
{
    grad_give(g, 0,
              node_add(g->graph, &op_probe_grad, NULL,
                       TENSORS(grad_in(g, 0), grad_in(g, 1), grad_dy(g, 0)), NULL));
}
static const OpDef op_probe = { .name = "probe",
                                .id = OP_ID_PROBE,
                                .n_in = 2,
                                .n_out = 1,
                                .shape = probe_shape,
                                .grad = probe_grad,
                                .cost = probe_cost,
                                .cpu = { .run = probe_cpu } };

/* A GPU has no kernels for the probes: the host runs them on copies. */
static Err probe_on_host(const Call *call)
{
    const Node *n = call->node;
    void       *in[4] = { NULL }, *out[1];
    Call        host = *call;
    Err         err = OK;
    for (int i = 0; i < n->n_in && !err; i++) {
        size_t bytes = (size_t)value_at(n->graph, n->in[i])->bytes;
        in[i] = malloc(bytes + 1);
        err = device_read(call->device, in[i], call->in[i], bytes);
    }
    size_t bytes = (size_t)value_at(n->graph, n->out[0])->bytes;
    out[0] = malloc(bytes + 1);
    host.in = in, host.out = out;
    err = err ? err : n->op->cpu.run(&host);
    err = err ? err : device_write(call->device, call->out[0], out[0], bytes);
    for (int i = 0; i < 4; i++)
        free(in[i]);
    free(out[0]);
    return err;
}

/* The device's kernels and the probe's. */
static const Kernel *const *harness_kernels(const Device *device)
{
    static const Kernel  probe = { .run = probe_on_host };
    static const Kernel *kernels[HARNESS_OPS];
    memcpy(kernels, device->kernels, OP_COUNT * sizeof *kernels);
    kernels[OP_ID_PROBE] = kernels[OP_ID_PROBE_GRAD] = &probe;
    return kernels;
}

Graph *case_graph(Case *c) { return c->graph; }

static uint64_t case_seed(const Case *c, const char *name)
{
    return ((uint64_t)random_stream(c->oc->name) << 32 | random_stream(c->op->name)) ^
           random_stream(name);
}

static float bf16_near(float x) { return bf16_to_f32(f32_to_bf16(x)); }

static float *case_numbers(Case *c, const char *name, Shape shape, float low, float high,
                           bool whole)
{
    int64_t   n = shape_count(shape);
    float    *data = NEWN(c->pool, float, n);
    RandomKey key = { .seed = case_seed(c, name) };
    for (int64_t i = 0; i < n; i++) {
        float u = random_uniform_at(key, (uint64_t)i);
        data[i] = whole ? floorf(fmaf(u, high - low, low)) : bf16_near(fmaf(u, high - low, low));
    }
    return data;
}

static Port *case_port(Port *ports, int *n, const char *name, Shape shape)
{
    REQUIRE(*n < MAX_PORTS);
    Port *port = &ports[(*n)++];
    *port = (Port){ .name = name, .shape = shape, .param = -1, .value = -1, .type = F32 };
    return port;
}

static Tensor case_param(Case *c, const char *name, Shape shape, float low, float high, Type type)
{
    Port *port = case_port(c->in, &c->n_in, name, shape);
    Type  compute = c->graph->compute;
    port->data = case_numbers(c, name, shape, low, high, false);
    c->graph->compute = type;
    Tensor t = param_add(c->graph, name, shape, (Init){ .kind = INIT_ZEROS });
    c->graph->compute = compute;
    port->value = t.id;
    port->param = c->graph->n_params - 1;
    port->type = type;
    return t;
}

Tensor case_in(Case *c, const char *name, Shape shape, float low, float high)
{
    return case_param(c, name, shape, low, high, c->type);
}

Tensor case_in_f32(Case *c, const char *name, Shape shape, float low, float high)
{
    return case_param(c, name, shape, low, high, F32);
}

Tensor case_const(Case *c, const char *name, Shape shape, float low, float high)
{
    Port   *port = case_port(c->in, &c->n_in, name, shape);
    int64_t n = shape_count(shape);
    port->data = case_numbers(c, name, shape, low, high, false);
    port->type = c->type;
    void *stored = pool_alloc(c->pool, (size_t)n, (size_t)type_bytes(c->type));
    convert_rows(c->type, stored, F32, port->data, (size_t)n);
    return constant_add(c->graph, name, c->type, shape, stored, CLASS_CONSTANTS);
}

Tensor case_ints(Case *c, const char *name, Shape shape, int low, int high)
{
    Port   *port = case_port(c->in, &c->n_in, name, shape);
    int64_t n = shape_count(shape);
    port->data = case_numbers(c, name, shape, (float)low, (float)high, true);
    port->type = I32;
    int32_t *ints = NEWN(c->pool, int32_t, n);
    for (int64_t i = 0; i < n; i++)
        ints[i] = (int32_t)port->data[i];
    return constant_add(c->graph, name, I32, shape, ints, CLASS_INPUTS);
}

Tensor case_bytes(Case *c, const char *name, Shape shape, int low, int high)
{
    Port   *port = case_port(c->in, &c->n_in, name, shape);
    int64_t n = shape_count(shape);
    port->data = case_numbers(c, name, shape, (float)low, (float)high, true);
    port->type = U8;
    uint8_t *bytes = NEWN(c->pool, uint8_t, n);
    for (int64_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)port->data[i];
    return constant_add(c->graph, name, U8, shape, bytes, CLASS_INPUTS);
}

Tensor case_feed(Case *c, const char *name, Type type, Shape shape, const void *data)
{
    Port *port = case_port(c->in, &c->n_in, name, shape);
    port->feed = data;
    port->type = type;
    port->data = NEWN(c->pool, float, shape_count(shape));
    return feed(c->graph, name, type, shape);
}

void case_out(Case *c, const char *name, Tensor y)
{
    Port *port = case_port(c->out, &c->n_out, name, tensor_shape(y));
    port->value = y.id;
    port->type = tensor_type(y);
    port->weight = case_numbers(c, name, port->shape, -1, 1, false);
}

const float *case_result(Case *c, const char *name)
{
    for (int i = 0; i < c->n_out; i++)
        if (!strcmp(c->out[i].name, name))
            return c->out[i].data;
    REQUIRE(!"no such output");
    return NULL;
}

static Err case_build(Case *c, Pool *parent, const OpDef *op, const OpCase *oc, Type type)
{
    *c = (Case){ .op = op, .oc = oc, .type = type, .pool = pool_new(parent, "case") };
    c->graph = graph_new(c->pool, type);
    oc->build(c);
    return graph_check(c->graph);
}

/* Adds the loss and the backward pass, makes the session, gives it the inputs. */
static Err case_ready(Case *c, const Device *device, const EngineOptions *options)
{
    Graph *graph = c->graph;
    Tensor loss = tensor_none(graph);
    bool   differentiated = false;
    for (int i = 0; i < c->n_in; i++)
        differentiated |= c->in[i].param >= 0;
    for (int i = 0; i < c->n_out; i++) {
        Port *port = &c->out[i];
        if (!type_is_float(port->type)) { /* has no gradient: the host reads it */
            graph_output((Tensor){ graph, port->value }, port->name);
            continue;
        }
        Tensor w = constant_add(graph, pool_print(c->pool, "weight/%s", port->name), F32,
                                port->shape, port->weight, CLASS_CONSTANTS);
        Tensor term = node_add(graph, &op_probe, NULL, TENSORS(((Tensor){ graph, port->value }), w),
                               NULL);
        loss = tensor_ok(loss) ? add(loss, term) : term;
    }
    if (differentiated && tensor_ok(loss)) {
        float  one = 1;
        Tensor seed = constant_add(graph, "seed", F32, SHAPE(1), &one, CLASS_CONSTANTS);
        TRY(autodiff_backward(graph, loss, seed, NULL));
    }
    Engine *engine;
    TRY(engine_new(c->pool, graph, device, options, &engine));
    TRY(session_new(c->pool, engine, &c->session));
    TRY(session_init(c->session, 7));
    for (int i = 0; i < c->n_in; i++) {
        Port *port = &c->in[i];
        if (port->feed)
            TRY(session_feed(c->session, port->name, port->feed));
        if (port->param < 0)
            continue;
        TRY(session_set_param(c->session, port->param, port->data));
        int32_t grad = graph->params[port->param].grad;
        int64_t n = shape_count(port->shape);
        port->grad = NEWN(c->pool, float, n);
        if (grad < 0)
            continue;
        if (value_at(graph, grad)->type != F32)
            return fail(E_SHAPE, "the gradient of %s is not f32", port->name);
        TRY(session_watch(c->session, grad, port->grad));
    }
    for (int i = 0; i < c->n_out; i++) {
        Port *port = &c->out[i];
        port->raw = pool_alloc(c->pool, (size_t)shape_count(port->shape),
                               (size_t)type_bytes(port->type));
        port->data = NEWN(c->pool, float, shape_count(port->shape));
        TRY(session_watch(c->session, port->value, port->raw));
    }
    return OK;
}

static Err case_run(Case *c)
{
    TRY(session_run(c->session, PHASE_MICRO));
    if (session_measured_bytes(c->session, PHASE_MICRO) !=
        session_planned_bytes(c->session, PHASE_MICRO))
        return fail(E_PLAN, "measured %lld bytes, planned %lld",
                    (long long)session_measured_bytes(c->session, PHASE_MICRO),
                    (long long)session_planned_bytes(c->session, PHASE_MICRO));
    for (int i = 0; i < c->n_out; i++) {
        Port   *port = &c->out[i];
        int64_t n = shape_count(port->shape);
        if (type_is_float(port->type))
            convert_rows(F32, port->data, port->type, port->raw, (size_t)n);
        for (int64_t j = 0; j < n && port->type == I32; j++)
            port->data[j] = (float)((const int32_t *)port->raw)[j];
        for (int64_t j = 0; j < n && port->type == U8; j++)
            port->data[j] = (float)((const uint8_t *)port->raw)[j];
    }
    return OK;
}

static const char *case_title(const Case *c)
{
    return pool_print(c->pool, "%s '%s' %s", c->op->name, c->oc->name, type_name(c->type));
}

static void case_fault(const Case *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void case_fault(const Case *c, const char *fmt, ...)
{
    char    text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fprintf(stderr, "%s: %s\n", case_title(c), text);
    test_failed++;
}

static double norm_of(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* ||x - r|| / max(||r||, floor): NaN counts as infinitely wrong. */
static double error_of(const float *x, const float *r, int64_t n, double floor_norm)
{
    double sum = 0, norm = norm_of(r, n);
    for (int64_t i = 0; i < n; i++)
        sum += ((double)x[i] - (double)r[i]) * ((double)x[i] - (double)r[i]);
    double error = sqrt(sum) / (norm > floor_norm ? norm : floor_norm > 0 ? floor_norm : 1);
    return isfinite(error) ? error : 1e30;
}

static void check_reference(Case *c, const SafeFile *refs)
{
    double tol = c->type == F32 ? (c->oc->tol_f32 > 0 ? c->oc->tol_f32 : 1e-5)
                                : (c->oc->tol_bf16 > 0 ? c->oc->tol_bf16 : 1e-2);
    /* Factors rounded to tf32 have 11 bits, those of bf16 8. */
    double tol_tf32 = (c->oc->tol_bf16 > 0 ? c->oc->tol_bf16 : 1e-2) / 8;
    if (c->type == F32 && tf32 && tol < tol_tf32)
        tol = tol_tf32;
    double largest = 1e-30; /* of all gradients: some are zero by algebra */
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < c->n_in + c->n_out; i++) {
            bool  is_out = i >= c->n_in;
            Port *port = is_out ? &c->out[i - c->n_in] : &c->in[i];
            if (!is_out && port->param < 0)
                continue;
            const char *key = pool_print(c->pool, "%s/%s/%s", c->oc->name, is_out ? "out" : "grad",
                                         port->name);
            const SafeTensor *r = safetensors_find(refs, key);
            int64_t           n = shape_count(port->shape);
            if (!r || r->type != SAFE_F32 || r->n_bytes != (size_t)n * 4) {
                if (pass)
                    case_fault(c, "no reference for %s (make it with tests/ops/reference.py)", key);
                continue;
            }
            if (!pass) {
                double norm = is_out ? 0 : norm_of(r->data, n);
                largest = norm > largest ? norm : largest;
                continue;
            }
            double error = error_of(is_out ? port->data : port->grad, r->data, n,
                                    is_out ? 1e-6 : 1e-4 * largest);
            if (error > tol)
                case_fault(c, "%s %s is off by %.3g of its length (allowed %.3g)",
                           is_out ? "output" : "gradient of", port->name, error, tol);
            else
                test_passed++;
        }
}

/* The directional derivative of the loss along a random direction, by central differences. */
static void check_differences(Case *c)
{
    for (int i = 0; i < c->n_in; i++) {
        Port *port = &c->in[i];
        if (port->param < 0)
            continue;
        int64_t n = shape_count(port->shape);
        if (case_run(c)) { /* gradients at the given inputs, not at moved ones */
            case_fault(c, "%s", err_text());
            return;
        }
        float *moved = NEWN(c->pool, float, n), *direction = NEWN(c->pool, float, n);
        float *grad = NEWN(c->pool, float, n);
        double value[2], want = 0, step = 1e-2, size = 0;
        memcpy(grad, port->grad, (size_t)n * sizeof *grad);
        for (int64_t j = 0; j < n; j++) {
            direction[j] = random_normal_at((RandomKey){ .seed = 99 }, (uint64_t)j);
            want += (double)direction[j] * (double)grad[j];
        }
        step /= sqrt((double)n) > 4 ? sqrt((double)n) / 4 : 1;
        for (int side = 0; side < 2; side++) {
            for (int64_t j = 0; j < n; j++)
                moved[j] = port->data[j] + (side ? 1.0f : -1.0f) * (float)step * direction[j];
            session_set_param(c->session, port->param, moved);
            if (case_run(c)) {
                case_fault(c, "%s", err_text());
                return;
            }
            value[side] = 0;
            for (int o = 0; o < c->n_out; o++)
                for (int64_t j = 0; j < shape_count(c->out[o].shape); j++) {
                    double term = (double)c->out[o].data[j] * (double)c->out[o].weight[j];
                    value[side] += term;
                    size += fabs(term);
                }
        }
        session_set_param(c->session, port->param, port->data);
        double got = (value[1] - value[0]) / (2 * step);
        double slack = 0.01 * fabs(want) + 0.001 * norm_of(grad, n) + 4e-7 * size / step + 1e-5;
        if (!(fabs(got - want) <= slack))
            case_fault(c, "gradient of %s: differences say %.6g, the rule %.6g (slack %.2g)",
                       port->name, got, want, slack);
        else
            test_passed++;
    }
}

static bool same_bits(Case *a, Case *b, const char *what)
{
    for (int i = 0; i < a->n_out; i++)
        if (memcmp(a->out[i].raw, b->out[i].raw,
                   (size_t)(shape_count(a->out[i].shape) * type_bytes(a->out[i].type)))) {
            case_fault(a, "output %s changes a bit %s", a->out[i].name, what);
            return false;
        }
    for (int i = 0; i < a->n_in; i++)
        if (a->in[i].param >= 0 &&
            memcmp(a->in[i].grad, b->in[i].grad, (size_t)shape_count(a->in[i].shape) * 4)) {
            case_fault(a, "gradient of %s changes a bit %s", a->in[i].name, what);
            return false;
        }
    test_passed++;
    return true;
}

static Err variant(Case *c, const Case *of, const Device *device, const EngineOptions *options)
{
    TRY(case_build(c, of->pool, of->op, of->oc, of->type));
    TRY(case_ready(c, device, options));
    return case_run(c);
}

static void check_case(Pool *pool, const OpDef *op, const OpCase *oc, Type type,
                       const Device *device, const SafeFile *refs)
{
    Case c, other;
    if (case_build(&c, pool, op, oc, type) || case_ready(&c, device, NULL) || case_run(&c)) {
        fprintf(stderr, "%s '%s' %s: %s\n", op->name, oc->name, type_name(type), err_text());
        test_failed++;
        return;
    }
    if (oc->check) {
        const char *wrong = oc->check(&c);
        if (wrong)
            case_fault(&c, "%s", wrong);
        else
            test_passed++;
    }
    if (!(oc->flags & CASE_NO_TORCH) && refs)
        check_reference(&c, refs);
    if (variant(&other, &c, device, &(EngineOptions){ .guards = true }))
        case_fault(&c, "with guard bytes: %s", err_text());
    else
        same_bits(&c, &other, "when buffers are placed elsewhere");
    if (variant(&other, &c, device, &(EngineOptions){ .no_inplace = true }))
        case_fault(&c, "not in place: %s", err_text());
    else {
        same_bits(&c, &other, "when nothing is done in place");
        if (case_run(&other))
            case_fault(&c, "second run: %s", err_text());
        else
            same_bits(&c, &other, "from run to run");
    }
    if (differences && type == F32 && !(oc->flags & CASE_NO_DIFFERENCES))
        check_differences(&c);
    pool_free(c.pool);
}

/* ---- chunks: OpDef.chunk promises that an operator may run chunk by chunk ---- */

typedef struct ChunkedCase {
    Case    c;
    Tensor *made;      /* per value of the case's graph: its value in the chunked graph */
    int     n_chunked; /* nodes of the operator that run in chunks */
    bool    sums;      /* one of them is a loss: chunks are added in another order */
} ChunkedCase;

/* A node in n chunks: views of the sliced inputs, one node for each, and the outputs assembled. */
static Err chunk_one(ChunkedCase *cc, const Node *n, const ChunkRule *rule, int64_t chunks)
{
    Graph  *to = cc->c.graph;
    Pool   *pool = cc->c.pool;
    Tensor *in = NEWN(pool, Tensor, n->n_in + 1), *out = NEWN(pool, Tensor, n->op->n_out + 1);
    Tensor *whole = NEWN(pool, Tensor, n->n_in + 1);
    for (int i = 0; i < n->n_in; i++) {
        whole[i] = n->in[i] < 0 ? tensor_none(to) : cc->made[n->in[i]];
        if (rule->inputs >> i & 1)
            whole[i] = whole_view(whole[i]);
    }
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        for (int i = 0; i < n->n_in; i++) {
            in[i] = whole[i];
            if (!(rule->inputs >> i & 1))
                continue;
            int     axis = chunk_axis(in_shape(n, i));
            int64_t extent = in_shape(n, i).dim[axis] / chunks;
            in[i] = part(whole[i], axis, chunk * extent, (chunk + 1) * extent);
        }
        node_add(to, n->op, rule->attr, in, n->n_in, out);
        TRY(graph_check(to));
        for (int i = 0; i < n->n_out; i++) {
            if (n->out[i] < 0)
                continue;
            Tensor *made = &cc->made[n->out[i]];
            Shape   s = out_shape(n, i);
            if (rule->sums && i == 0) {
                *made = chunk ? add(*made, out[i]) : out[i];
                continue;
            }
            if (!chunk_divides(s, chunks))
                return fail(E_SHAPE, "output %d, %s, does not divide into %lld chunks", i,
                            shape_text(s), (long long)chunks);
            int64_t extent = s.dim[chunk_axis(s)] / chunks;
            *made = put(out[i], chunk ? *made : tensor_none(to), s, chunk_axis(s), chunk * extent);
        }
    }
    return graph_check(to);
}

/* The case's graph with every node of its operator in chunks: 2, or 3 where 2 do not divide. */
static Err chunked_build(ChunkedCase *cc, const Case *of)
{
    TRY(case_build(&cc->c, of->pool, of->op, of->oc, of->type));
    Graph   *from = cc->c.graph, *to = graph_new(cc->c.pool, from->compute);
    int32_t *into = NEWN(cc->c.pool, int32_t, from->n_values);
    cc->c.graph = to;
    cc->made = NEWN(cc->c.pool, Tensor, from->n_values);
    graph_copy_state(to, from, into);
    for (int32_t i = 0; i < from->n_values; i++)
        cc->made[i] = (Tensor){ to, into[i] };
    for (int32_t i = 0; i < from->n_nodes; i++) {
        const Node *n = &from->nodes[i];
        ChunkRule   rule;
        int64_t     chunks = 2;
        to->module = n->module;
        to->phase = n->phase;
        while (chunks <= 3 && (n->op != of->op || !chunk_rule(cc->c.pool, n, chunks, false, &rule)))
            chunks++;
        if (chunks <= 3) {
            TRY(chunk_one(cc, n, &rule, chunks));
            cc->n_chunked++;
            cc->sums |= rule.sums;
            continue;
        }
        Tensor *in = NEWN(cc->c.pool, Tensor, n->n_in + 1);
        Tensor *out = NEWN(cc->c.pool, Tensor, n->op->n_out + 1);
        for (int j = 0; j < n->n_in; j++)
            in[j] = n->in[j] < 0 ? tensor_none(to) : cc->made[n->in[j]];
        node_add(to, n->op, n->attr, in, n->n_in, out);
        for (int j = 0; j < n->n_out; j++)
            if (n->out[j] >= 0)
                cc->made[n->out[j]] = out[j];
    }
    to->phase = PHASE_MICRO;
    to->module = 0;
    for (int i = 0; i < cc->c.n_in; i++)
        if (cc->c.in[i].value >= 0)
            cc->c.in[i].value = cc->made[cc->c.in[i].value].id;
    for (int i = 0; i < cc->c.n_out; i++)
        cc->c.out[i].value = cc->made[cc->c.out[i].value].id;
    return graph_check(to);
}

/* Outputs are the same to the bit; those of losses, and of products and convolutions (the operators
 * with a prepare function), whose blocking depends on the shape, are within rounding, and so are
 * gradients. */
static void check_chunked(const Case *whole, const ChunkedCase *cc)
{
    bool   rounds = cc->sums || whole->op->cpu.prepare;
    double largest = 1e-30, tol = whole->oc->tol_f32 > 1e-5 ? whole->oc->tol_f32 : 1e-5;
    for (int i = 0; i < whole->n_out; i++) {
        const Port *want = &whole->out[i], *got = &cc->c.out[i];
        int64_t     n = shape_count(want->shape);
        bool        same = !memcmp(want->raw, got->raw, (size_t)(n * type_bytes(want->type)));
        if (!same && rounds)
            same = error_of(got->data, want->data, n, 1e-6) <= 2e-6;
        if (!same)
            case_fault(whole, "output %s differs when the operator runs in chunks (by %.3g)",
                       want->name, error_of(got->data, want->data, n, 1e-6));
        else
            test_passed++;
    }
    for (int i = 0; i < whole->n_in; i++)
        if (whole->in[i].param >= 0)
            largest = fmax(largest, norm_of(whole->in[i].grad, shape_count(whole->in[i].shape)));
    for (int i = 0; i < whole->n_in; i++) {
        const Port *want = &whole->in[i], *got = &cc->c.in[i];
        if (want->param < 0)
            continue;
        double error = error_of(got->grad, want->grad, shape_count(want->shape), 1e-4 * largest);
        if (error > tol)
            case_fault(whole, "gradient of %s differs by %.3g when the operator runs in chunks",
                       want->name, error);
        else
            test_passed++;
    }
}

/* Runs a case whole and in chunks on one thread, so that threads do not change the order of sums.
 * Returns how many nodes ran in chunks. */
static int check_chunks(Pool *pool, const OpDef *op, const OpCase *oc, const Device *device)
{
    Case        of = { .op = op, .oc = oc, .type = F32, .pool = pool_new(pool, "chunks") }, whole;
    ChunkedCase cc = { .n_chunked = 0 };
    int         n_chunked;
    if (chunked_build(&cc, &of))
        case_fault(&of, "in chunks: %s", err_text());
    else if (cc.n_chunked) {
        if (variant(&whole, &of, device, NULL))
            case_fault(&of, "on one thread: %s", err_text());
        else if (case_ready(&cc.c, device, NULL) || case_run(&cc.c))
            case_fault(&of, "in chunks: %s", err_text());
        else
            check_chunked(&whole, &cc);
    }
    n_chunked = cc.n_chunked;
    pool_free(of.pool);
    return n_chunked;
}

static void dump(Pool *pool, const OpDef *op, const OpCase *oc, SafeTensor **list, int32_t *n,
                 int32_t *cap)
{
    Case c;
    if ((oc->flags & CASE_NO_TORCH) || case_build(&c, pool, op, oc, F32))
        return;
    for (int i = 0; i < c.n_in + c.n_out; i++) {
        Port       *port = i < c.n_in ? &c.in[i] : &c.out[i - c.n_in];
        const char *kind = i >= c.n_in                 ? "weight"
                           : port->param >= 0          ? "in"
                           : type_is_float(port->type) ? "const"
                                                       : "int";
        VEC_ADD(pool, *list, *n, *cap,
                (SafeTensor){
                    .name = pool_print(pool, "%s/%s/%s/%s", op->name, oc->name, kind, port->name),
                    .type = SAFE_F32,
                    .rank = port->shape.rank,
                    .shape = memcpy(NEWN(pool, int64_t, MAX_RANK), port->shape.dim,
                                    sizeof port->shape.dim),
                    .data = i < c.n_in ? port->data : port->weight });
    }
    VEC_ADD(pool, *list, *n, *cap,
            (SafeTensor){ .name = pool_print(pool, "%s/%s/%s", op->name, oc->name,
                                             oc->flags & CASE_LIVE_ONLY ? "torch_live" : "torch"),
                          .type = SAFE_U8,
                          .rank = 1,
                          .shape = memcpy(NEWN(pool, int64_t, 1),
                                          &(int64_t){ (int64_t)strlen(oc->torch) }, 8),
                          .data = oc->torch });
}

#define OPERATOR(name) extern const OpCase cases_##name[];
#define OPERATOR_INTERNAL(name)
#include "ops/ops_list.def"
#undef OPERATOR
#undef OPERATOR_INTERNAL

static const struct {
    const OpDef  *op;
    const OpCase *cases;
} all_cases[] = {
#define OPERATOR(name) { &op_##name, cases_##name },
#define OPERATOR_INTERNAL(name)
#include "ops/ops_list.def"
#undef OPERATOR
#undef OPERATOR_INTERNAL
};

static bool has_cases(const OpDef *op)
{
    for (size_t i = 0; i < sizeof all_cases / sizeof *all_cases; i++)
        if (all_cases[i].op == op)
            return true;
    return false;
}

/* The references of an operator: in the folder given, or in its family's; NULL: it has none. */
static const char *ref_path(Pool *pool, const char *folder, const char *op)
{
    glob_t      found = { 0 };
    const char *path = NULL;
    if (folder) {
        path = pool_print(pool, "%s/%s.safetensors", folder, op);
        return file_exists(path) ? path : NULL;
    }
    if (!glob(pool_print(pool, SOURCE_DIR "/tests/ops/*/ref/%s.safetensors", op), 0, NULL, &found))
        path = pool_text(pool, found.gl_pathv[0]);
    globfree(&found);
    return path;
}

int main(int argc, char **argv)
{
    const char *dump_path = NULL, *refs_dir = NULL, *only = NULL, *named = NULL, *backend = NULL;
    bool        live = false;
    int         quick = 0, large = 1, share = 1, shares = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--dump"))
            dump_path = argv[i + 1];
        else if (!strcmp(argv[i], "--refs"))
            refs_dir = argv[i + 1], live = true;
        else if (!strcmp(argv[i], "--only"))
            only = argv[i + 1];
        else if (!strcmp(argv[i], "--case"))
            named = argv[i + 1];
        else if (!strcmp(argv[i], "--large"))
            large = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--backend"))
            backend = argv[i + 1];
        else if (!strcmp(argv[i], "--quick"))
            quick = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--differences"))
            differences = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--tf32"))
            tf32 = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--share") /* 2/3: every third case from the second on */
                 && (sscanf(argv[i + 1], "%d/%d", &share, &shares) != 2 || shares < 1))
            return fprintf(stderr, "--share takes a number of a number, like 2/3\n"), 2;
    }
    if (tf32)
        differences = 0; /* a step of 1e-2 drowns in the rounding */
    Pool       *pool = pool_new(NULL, "harness");
    Device     *device;
    SafeTensor *list = NULL;
    int32_t     n = 0, cap = 0;
    if (test_device(pool, &(DeviceOptions){ .backend = backend, .threads = 2, .tf32 = tf32 },
                    &device)) {
        fprintf(stderr, "%s\n", err_text());
        return 1;
    }
    if (device->kernels)
        device->kernels = harness_kernels(device);
    Device *one_thread = NULL; /* for chunks; other backends do not keep bits */
    if (backend && !strcmp(backend, "builtin") && !device->api &&
        device_cpu(pool, &(DeviceOptions){ .backend = backend, .threads = 1 }, &one_thread)) {
        fprintf(stderr, "%s\n", err_text());
        return 1;
    }
    for (size_t i = 0; i < sizeof all_cases / sizeof *all_cases; i++) {
        const OpDef *op = all_cases[i].op;
        SafeFile     refs, *have = NULL;
        if (only && strcmp(only, op->name))
            continue;
        const char *path = ref_path(pool, refs_dir, op->name);
        if (!dump_path && path) {
            if (safetensors_read(pool, path, &refs)) {
                fprintf(stderr, "%s\n", err_text());
                return 1;
            }
            have = &refs;
        }
        int before = test_failed, cases = 0, at = 0, chunked = 0;
        for (const OpCase *oc = all_cases[i].cases; oc->name && (!quick || cases < quick); oc++) {
            if (at++ % shares != share - 1 || (named && strcmp(named, oc->name)) ||
                (!large && (oc->flags & CASE_LIVE_ONLY)))
                continue;
            cases++;
            if (dump_path) {
                dump(pool, op, oc, &list, &n, &cap);
                continue;
            }
            bool needs = !(oc->flags & CASE_NO_TORCH) && (live || !(oc->flags & CASE_LIVE_ONLY));
            if (needs && !have) {
                fprintf(stderr, "%s: no references at %s\n", op->name, path);
                test_failed++;
            }
            check_case(pool, op, oc, F32, device, needs ? have : NULL);
            if (!(oc->flags & CASE_F32_ONLY) && !quick)
                check_case(pool, op, oc, BF16, device, needs ? have : NULL);
            if (one_thread && op->chunk.by != CHUNK_NEVER)
                chunked += check_chunks(pool, op, oc, one_thread);
            /* On a GPU fp16 has kernels of its own. */
            if (!(oc->flags & (CASE_F32_ONLY | CASE_NO_F16)) && !quick && device->api)
                check_case(pool, op, oc, F16, device, needs ? have : NULL);
        }
        bool all = !quick && !named && shares == 1 && !dump_path;
        if (one_thread && all && op->chunk.by != CHUNK_NEVER && !chunked) {
            fprintf(stderr, "%s: it has a chunking rule, but no case can be chunked; add one\n",
                    op->name);
            test_failed++;
        }
        if (!dump_path) {
            printf("%-24s %2d cases ", op->name, cases);
            if (chunked)
                printf("%2d nodes in chunks ", chunked);
            printf("%s\n", test_failed > before ? "FAILED" : "ok");
        }
    }
    for (int i = 0; i < OP_COUNT; i++)
        if (ops_all[i]->chunk.by != CHUNK_NEVER && !has_cases(ops_all[i])) {
            fprintf(stderr, "%s: it has a chunking rule, but no cases\n", ops_all[i]->name);
            test_failed++;
        }
    if (dump_path) {
        Err err = safetensors_write(dump_path, list, n, NULL);
        if (err)
            fprintf(stderr, "%s\n", err_text());
        return err != OK;
    }
    pool_free(pool);
    return test_end();
}
