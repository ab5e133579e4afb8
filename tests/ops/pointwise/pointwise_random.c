/* pointwise_random.c -- random programs against an interpreter of their own: results point by point
 * in double, and gradients against differences of that.
 *
 *   test_ops_pointwise_random [PROGRAMS [FIRST SEED]]
 */
#include "test.h"
#include "test_device.h"

#include "autodiff/autodiff.h"
#include "base/random.h"
#include "device/convert.h"
#include "exec/session.h"
#include "ops/elementwise/basic.h"
#include "ops/pointwise/pointwise.h"

enum { MAX_OPERANDS = 6 };

/* ---- numbers at random ---- */

static RandomKey key;
static uint64_t  drawn;

static uint32_t draw(uint32_t n) /* 0 .. n - 1 */
{
    uint32_t four[4];
    random_block(key, drawn++, four);
    return four[0] % n;
}

static float draw_float(float low, float high)
{
    float x = low + (high - low) * (float)draw(1u << 20) / (float)(1u << 20);
    return bf16_to_f32(f32_to_bf16(x));
}

/* ---- a program ---- */

typedef struct Operand {
    Tensor  tensor;
    int     param; /* -1: a constant */
    int64_t count, stride[POINT_RANK];
    double *data;
    float  *stored, *grad;
} Operand;

typedef struct Random {
    Pool          *pool;
    Graph         *graph;
    PointProgram   p;
    Operand        operand[MAX_OPERANDS];
    int            n_operands;
    double         bound[POINT_STEPS_MAX]; /* of each step's size */
    PointwiseAttr  attr;                   /* of the node, before gradients */
    const int32_t *in;
    Tensor         out[POINT_RESULTS];
    float         *weight[POINT_RESULTS];
    void          *raw[POINT_RESULTS];
    int64_t        points;
} Random;

static void program_operand(Random *g, bool integer)
{
    Operand *o = &g->operand[g->n_operands];
    int      rank = g->p.attr.rank, order[POINT_RANK], n = 0;
    Shape    shape = { .rank = 0 };
    int64_t  next = 1;
    for (int a = 0; a < rank; a++) /* some axes, in some order */
        if (g->p.attr.dim[a] > 1 && draw(10) < 7 && n < MAX_RANK) {
            int at = draw(3) == 0 ? (int)draw((uint32_t)n + 1) : n;
            memmove(order + at + 1, order + at, (size_t)(n - at) * sizeof *order);
            order[at] = a;
            n++;
        }
    for (int i = 0; i < n; i++)
        shape.dim[shape.rank++] = g->p.attr.dim[order[i]];
    if (n == 0)
        shape = SHAPE(1);
    memset(o->stride, 0, sizeof o->stride);
    for (int i = n - 1; i >= 0; i--) {
        o->stride[order[i]] = next;
        next *= shape.dim[i];
    }
    o->count = shape_count(shape);
    o->data = NEWN(g->pool, double, o->count);
    o->stored = NEWN(g->pool, float, o->count);
    o->grad = NEWN(g->pool, float, o->count);
    o->param = -1;
    const char *name = pool_print(g->pool, "x%d", g->n_operands);
    if (integer) {
        bool     bytes = draw(2);
        int32_t *ints = NEWN(g->pool, int32_t, o->count);
        uint8_t *small = NEWN(g->pool, uint8_t, o->count);
        for (int64_t i = 0; i < o->count; i++) {
            ints[i] = (int32_t)draw(bytes ? 200 : 41) - (bytes ? 0 : 20);
            small[i] = (uint8_t)ints[i];
            o->data[i] = ints[i];
        }
        o->tensor = constant_add(g->graph, name, bytes ? U8 : I32, shape,
                                 bytes ? (void *)small : (void *)ints, CLASS_INPUTS);
    } else {
        /* Elements of different operands are never equal: there, gradients and differences of
         * comparisons would differ. What bf16 holds: multiples of 1/64. */
        for (int64_t i = 0; i < o->count; i++) {
            o->stored[i] = g->graph->compute == F32
                               ? -1.5f + 3.0f * (float)draw(1u << 24) / (float)(1u << 24)
                               : (float)((int)draw(24) * 8 - 95 + 2 * g->n_operands) / 64;
            o->data[i] = (double)o->stored[i];
        }
        o->tensor = param_add(g->graph, name, shape, (Init){ .kind = INIT_ZEROS });
        o->param = g->graph->n_params - 1;
    }
    int step = point_input(&g->p, o->tensor, o->stride);
    g->bound[step] = integer ? 200 : 1.5;
    g->n_operands++;
}

static int program_add(Random *g, PointOp op, int a, int b, int c, double bound)
{
    int step = point_step(&g->p, op, a, b, c);
    if (g->p.step[step].op == op) /* else an existing or simpler one */
        g->bound[step] = bound;
    else if (g->bound[step] == 0)
        g->bound[step] = bound;
    return step;
}

static int program_pick(Random *g,
                        bool    integer) /* an earlier step of that kind, the later the likelier */
{
    int best = -1;
    for (int tries = 0; tries < 40; tries++) {
        int n = g->p.attr.n_steps, at = (int)draw((uint32_t)n);
        if (g->p.step[at].integer == integer && at > best)
            best = at;
        if (best >= 0 && tries > 2)
            break;
    }
    return best;
}

static void program_float_step(Random *g)
{
    static const PointOp smooth[] = { POINT_SIN,  POINT_COS,      POINT_TANH, POINT_SIGMOID,
                                      POINT_SILU, POINT_GELU,     POINT_MISH, POINT_GELU_TANH,
                                      POINT_ATAN, POINT_SOFTPLUS, POINT_ERF,  POINT_LOG_SIGMOID,
                                      POINT_NEG,  POINT_ABS,      POINT_RELU, POINT_SQUARE,
                                      POINT_EXP,  POINT_EXPM1,    POINT_SINH, POINT_COSH,
                                      POINT_EXP2, POINT_TO_F32,   POINT_SIGN };
    static const PointOp two[] = { POINT_ADD, POINT_SUB,       POINT_MUL,       POINT_MIN,
                                   POINT_MAX, POINT_CLAMP_MIN, POINT_CLAMP_MAX, POINT_ATAN2 };
    int                  a = program_pick(g, false), b = program_pick(g, false);
    if (a < 0 || b < 0)
        return;
    double ba = g->bound[a], bb = g->bound[b];
    switch (draw(7)) {
    case 0:
    case 1: {
        PointOp op = smooth[draw(sizeof smooth / sizeof *smooth)];
        if (ba > 3)
            a = program_add(g, POINT_TANH, a, -1, -1, 1), ba = 1;
        bool grows = op == POINT_EXP || op == POINT_EXPM1 || op == POINT_SINH || op == POINT_COSH;
        program_add(g, op, a, -1, -1, grows ? exp(ba) + 1 : op == POINT_SQUARE ? ba * ba : ba + 1);
        break;
    }
    case 2:
    case 3: {
        PointOp op = two[draw(sizeof two / sizeof *two)];
        double  bound = op == POINT_MUL ? ba * bb : ba + bb;
        if (op == POINT_ATAN2) { /* away from the origin */
            b = program_add(g, POINT_ADD, point_constant(&g->p, 2),
                            program_add(g, POINT_SIN, b, -1, -1, 1), -1, 3);
            bound = 2;
        }
        int y = program_add(g, op, a, b, -1, bound);
        if (bound > 8)
            program_add(g, draw(2) ? POINT_TANH : POINT_SIN, y, -1, -1, 1);
        break;
    }
    case 4: { /* divided by, rooted, logarithm of what is at least 1 */
        int safe = program_add(g, POINT_ADD, point_constant(&g->p, 2.5f),
                               program_add(g, POINT_COS, b, -1, -1, 1), -1, 3.5);
        switch (draw(6)) {
        case 0: program_add(g, POINT_DIV, a, safe, -1, ba); break;
        case 1: program_add(g, POINT_SQRT, safe, -1, -1, 2); break;
        case 2: program_add(g, POINT_LOG, safe, -1, -1, 2); break;
        case 3: program_add(g, POINT_RSQRT, safe, -1, -1, 1); break;
        case 4: program_add(g, POINT_RECIPROCAL, safe, -1, -1, 1); break;
        default:
            a = program_add(g, POINT_TANH, a, -1, -1, 1);
            program_add(g, POINT_POW, safe, a, -1, 4);
        }
        break;
    }
    case 5: { /* chosen by a comparison */
        int cond = point_step(&g->p, (PointOp)(POINT_EQ + (int)draw(6)), a, b, -1);
        program_add(g, POINT_SELECT, cond, a, b, ba + bb);
        break;
    }
    default: {
        int i = program_pick(g, true);
        if (i >= 0)
            program_add(g, POINT_SELECT, i, a, b, ba + bb);
        else
            program_add(g, POINT_MUL, a, point_constant(&g->p, draw_float(-2, 2)), -1, 2 * ba);
    }
    }
}

static void program_integer_step(Random *g)
{
    static const PointOp two[] = { POINT_ADD,  POINT_SUB,       POINT_MIN, POINT_MAX,
                                   POINT_AND,  POINT_OR,        POINT_XOR, POINT_FLOOR_DIV,
                                   POINT_FMOD, POINT_REMAINDER, POINT_LT,  POINT_GE };
    int                  a = program_pick(g, true), b = program_pick(g, true);
    if (a < 0 || b < 0)
        return;
    PointOp op = two[draw(sizeof two / sizeof *two)];
    if (op == POINT_FLOOR_DIV || op == POINT_FMOD || op == POINT_REMAINDER)
        b = point_integer(&g->p, (int32_t)draw(9) + 2);
    program_add(g, op, a, b, -1, 1000);
}

static void program_results(Random *g)
{
    static const float scales[] = { 1, 0.5f, 0.125f };
    int                n = 1 + (int)draw(4);
    for (int r = 0; r < n; r++) {
        bool integer = draw(6) == 0;
        int  step = program_pick(g, integer);
        if (step < 0)
            step = program_pick(g, integer = false);
        if (g->p.step[step].op == POINT_CONSTANT)
            continue;
        Type        type = integer ? I32 : draw(3) ? g->graph->compute : F32;
        PointReduce how = draw(2) ? POINT_STORED : (PointReduce)(1 + (int)draw(3));
        if (how > POINT_SUM && !integer && g->graph->compute != F32)
            how = POINT_SUM; /* equal elements share, which differences cannot tell */
        uint32_t axes = 0;
        Shape    shape = { .rank = 1, .dim = { 1 } };
        for (int a = 0; a < g->p.attr.rank; a++) {
            bool gone = how != POINT_STORED && draw(2);
            axes |= (uint32_t)gone << a;
            shape.dim[0] *= gone ? 1 : g->p.attr.dim[a];
        }
        float scale = how == POINT_SUM && !integer ? scales[draw(3)] : 1;
        point_reduce(&g->p, step, how, axes, scale, type, shape);
    }
    if (g->p.attr.n_results == 0)
        point_store(&g->p, 0, g->p.step[0].integer ? I32 : F32, SHAPE(g->points));
}

static void program_make(Random *g, Pool *pool, Type type, bool large)
{
    *g = (Random){ .pool = pool, .graph = graph_new(pool, type) };
    int     rank = 1 + (int)draw(5);
    int64_t dim[POINT_RANK];
    g->points = 1;
    for (int a = 0; a < rank; a++) {
        dim[a] = draw(6) == 0 ? 1 : 1 + (int64_t)draw(large ? 11 : 6);
        if (large && a == rank - 1)
            dim[a] = 20 + (int64_t)draw(120);
        g->points *= dim[a];
    }
    g->p = point_begin(rank, dim);
    int n = 1 + (int)draw(4);
    for (int i = 0; i < n; i++)
        program_operand(g, i > 0 && draw(4) == 0);
    for (int i = 3 + (int)draw(20); i > 0; i--)
        if (draw(5))
            program_float_step(g);
        else
            program_integer_step(g);
    program_results(g);
    point_end(&g->p, g->out);
}

/* ---- the interpreter ---- */

static double run_float(PointOp op, double a, double b)
{
    switch (op) {
    case POINT_ADD: return a + b;
    case POINT_SUB: return a - b;
    case POINT_MUL: return a * b;
    case POINT_DIV: return a / b;
    case POINT_POW: return pow(a, b);
    case POINT_ATAN2: return atan2(a, b);
    case POINT_MIN:
    case POINT_CLAMP_MAX: return a < b ? a : b;
    case POINT_MAX:
    case POINT_CLAMP_MIN: return a > b ? a : b;
    case POINT_DETACH:
    case POINT_TO_F32: return a;
    case POINT_NEG: return -a;
    case POINT_ABS: return fabs(a);
    case POINT_SIGN: return a > 0 ? 1 : a < 0 ? -1 : 0;
    case POINT_SQUARE: return a * a;
    case POINT_SQRT: return sqrt(a);
    case POINT_RSQRT: return 1 / sqrt(a);
    case POINT_RECIPROCAL: return 1 / a;
    case POINT_EXP: return exp(a);
    case POINT_EXP2: return exp2(a);
    case POINT_EXPM1: return expm1(a);
    case POINT_LOG: return log(a);
    case POINT_SIN: return sin(a);
    case POINT_COS: return cos(a);
    case POINT_ATAN: return atan(a);
    case POINT_SINH: return sinh(a);
    case POINT_COSH: return cosh(a);
    case POINT_TANH: return tanh(a);
    case POINT_SIGMOID: return 1 / (1 + exp(-a));
    case POINT_LOG_SIGMOID: return -log1p(exp(-a));
    case POINT_SOFTPLUS: return log1p(exp(a));
    case POINT_RELU: return a > 0 ? a : 0;
    case POINT_SILU: return a / (1 + exp(-a));
    case POINT_GELU: return a * 0.5 * erfc(-a * 0.70710678118654752);
    case POINT_GELU_TANH:
        return 0.5 * a * (1 + tanh(0.79788456080286536 * (a + 0.044715 * a * a * a)));
    case POINT_MISH: return a * tanh(log1p(exp(a)));
    case POINT_ERF: return erf(a);
    default: REQUIRE(!"an operation that the test does not know"); return 0;
    }
}

static double floor_mod(double a, double b) { return a - b * floor(a / b); }

static double run_integer(PointOp op, double a, double b)
{
    int32_t x = (int32_t)a, y = (int32_t)b;
    switch (op) {
    case POINT_ADD: return a + b;
    case POINT_SUB: return a - b;
    case POINT_MIN: return a < b ? a : b;
    case POINT_MAX: return a > b ? a : b;
    case POINT_AND: return x & y;
    case POINT_OR: return x | y;
    case POINT_XOR: return x ^ y;
    case POINT_FLOOR_DIV: return floor(a / b);
    case POINT_REMAINDER: return floor_mod(a, b);
    case POINT_FMOD: return fmod(a, b);
    default: REQUIRE(!"an operation that the test does not know"); return 0;
    }
}

static bool compare(PointOp op, double a, double b)
{
    switch (op) {
    case POINT_EQ: return a == b;
    case POINT_NE: return a != b;
    case POINT_LT: return a < b;
    case POINT_LE: return a <= b;
    case POINT_GT: return a > b;
    default: return a >= b;
    }
}

/* The program as the node has it, over all points; result r is want[r]. `detached`: the values that
 * DETACH gave, written or read. */
static void interpret(const Random *g, double *const *want, double *detached, bool write)
{
    const PointwiseAttr *p = &g->attr;
    double               v[POINT_STEPS_MAX];
    int64_t              index[POINT_RANK] = { 0 };
    for (int r = 0; r < p->n_results; r++)
        for (int64_t i = 0; i < shape_count(p->result[r].shape); i++)
            want[r][i] = p->result[r].reduce == POINT_AMAX   ? -1e300
                         : p->result[r].reduce == POINT_AMIN ? 1e300
                                                             : 0;
    for (int64_t point = 0; point < g->points; point++) {
        for (int s = 0; s < p->n_steps; s++) {
            const PointStep *step = &p->step[s];
            if (step->op == POINT_INPUT) {
                const Operand *o = NULL;
                int64_t        at = 0;
                for (int i = 0; i < g->n_operands; i++)
                    if (g->operand[i].tensor.id == g->in[step->a])
                        o = &g->operand[i];
                for (int a = 0; a < p->rank; a++)
                    at += index[a] * o->stride[a];
                v[s] = o->data[at];
            } else if (step->op == POINT_CONSTANT)
                v[s] = step->integer ? step->value.i : (double)step->value.f;
            else if (step->op == POINT_SELECT)
                v[s] = v[step->a] != 0 ? v[step->b] : v[step->c];
            else if (step->op == POINT_DETACH && !step->integer) {
                double *kept = &detached[point * p->n_steps + s];
                if (write)
                    *kept = v[step->a];
                v[s] = *kept;
            } else if (step->op >= POINT_EQ && step->op <= POINT_GE)
                v[s] = compare(step->op, v[step->a], v[step->b]);
            else if (step->op == POINT_TO_TRUTH)
                v[s] = v[step->a] != 0;
            else {
                double b = point_op_operands(step->op) > 1 ? v[step->b] : 0;
                v[s] = step->integer ? run_integer(step->op, v[step->a], b)
                                     : run_float(step->op, v[step->a], b);
            }
        }
        for (int r = 0; r < p->n_results; r++) {
            const PointResult *result = &p->result[r];
            int64_t            at = 0;
            for (int a = 0; a < p->rank; a++)
                at = result->axes >> a & 1 ? at : at * p->dim[a] + index[a];
            double x = v[result->step], *y = &want[r][at];
            *y = result->reduce == POINT_STORED ? x
                 : result->reduce == POINT_SUM  ? *y + x * (double)result->scale
                 : result->reduce == POINT_AMAX ? (x > *y ? x : *y)
                                                : (x < *y ? x : *y);
        }
        for (int a = p->rank - 1; a >= 0 && ++index[a] == p->dim[a]; a--)
            index[a] = 0;
    }
}

/* ---- running ---- */

static double *wanted[POINT_RESULTS];

static double loss_of(const Random *g, double *detached, bool write)
{
    double loss = 0;
    interpret(g, wanted, detached, write);
    for (int r = 0; r < g->attr.n_results; r++)
        for (int64_t i = 0; g->weight[r] && i < shape_count(g->attr.result[r].shape); i++)
            loss += wanted[r][i] * (double)g->weight[r][i];
    return loss;
}

/* The loss: the sum of results times weights, itself a program. */
static Tensor program_loss(Random *g)
{
    Tensor loss = tensor_none(g->graph);
    for (int r = 0; r < g->attr.n_results; r++) {
        int64_t n = shape_count(g->attr.result[r].shape), one = 1;
        if (!type_is_float(g->attr.result[r].type))
            continue;
        g->weight[r] = NEWN(g->pool, float, n);
        for (int64_t i = 0; i < n; i++)
            g->weight[r][i] = draw_float(-1, 1);
        Tensor       w = constant_add(g->graph, pool_print(g->pool, "w%d", r), F32, SHAPE(n),
                                      g->weight[r], CLASS_CONSTANTS);
        PointProgram p = point_begin(1, &n);
        int          y = point_step(&p, POINT_MUL, point_input(&p, g->out[r], &one),
                                    point_input(&p, w, &one), -1);
        point_reduce(&p, y, POINT_SUM, 1, 1, F32, SHAPE(1));
        Tensor term = point_end(&p, NULL);
        loss = tensor_ok(loss) ? add(loss, term) : term;
    }
    return loss;
}

static double norm(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static void check_results(const Random *g, uint64_t seed, double tol)
{
    for (int r = 0; r < g->attr.n_results; r++) {
        int64_t n = shape_count(g->attr.result[r].shape);
        Type    type = g->attr.result[r].type;
        double  error = 0, length = norm(wanted[r], n);
        float  *got = NEWN(g->pool, float, n);
        if (type == I32)
            for (int64_t i = 0; i < n; i++)
                got[i] = (float)((const int32_t *)g->raw[r])[i];
        else
            convert_rows(F32, got, type, g->raw[r], (size_t)n);
        for (int64_t i = 0; i < n; i++)
            error += ((double)got[i] - wanted[r][i]) * ((double)got[i] - wanted[r][i]);
        error = sqrt(error) / (length + 1e-3 * sqrt((double)g->points) + 1e-3);
        if (!CHECK(error <= (type == I32 ? 0 : tol)))
            fprintf(stderr, "  seed %llu: result %d (%s, reduced by %d) is off by %.3g\n",
                    (unsigned long long)seed, r, type_name(type), g->attr.result[r].reduce, error);
    }
}

static void check_gradients(Random *g, uint64_t seed, double tol)
{
    double *detached = NEWN(g->pool, double, g->points * g->attr.n_steps + 1);
    loss_of(g, detached, true);
    for (int i = 0; i < g->n_operands; i++) {
        Operand *o = &g->operand[i];
        double   step = 1e-6, value[2], want = 0, size = 0;
        if (o->param < 0)
            continue;
        double *at = NEWN(g->pool, double, o->count), *way = NEWN(g->pool, double, o->count);
        memcpy(at, o->data, (size_t)o->count * sizeof *at);
        for (int64_t k = 0; k < o->count; k++) {
            way[k] = (double)draw_float(-1, 1);
            want += way[k] * (double)o->grad[k];
            size += way[k] * way[k] * (double)o->grad[k] * (double)o->grad[k];
        }
        for (int side = 0; side < 2; side++) {
            for (int64_t k = 0; k < o->count; k++)
                o->data[k] = at[k] + (side ? step : -step) * way[k];
            value[side] = loss_of(g, detached, false);
        }
        memcpy(o->data, at, (size_t)o->count * sizeof *at);
        double got = (value[1] - value[0]) / (2 * step);
        double slack = tol * (fabs(got) + sqrt(size) + 1e-2 * sqrt((double)g->points));
        if (!CHECK(fabs(got - want) <= slack))
            fprintf(stderr, "  seed %llu: gradient of x%d: differences say %.8g, the rule %.8g\n",
                    (unsigned long long)seed, i, got, want);
    }
}

/* For a person who looks for a fault: the program of a seed. */
static void program_print(const Random *g)
{
    for (int i = 0; i < g->attr.n_steps; i++) {
        const PointStep *s = &g->attr.step[i];
        fprintf(stderr, "  %2d %s %d %d %d", i, point_op_name(s->op), s->a, s->b, s->c);
        if (s->op == POINT_CONSTANT)
            fprintf(stderr, "  %g", s->integer ? s->value.i : (double)s->value.f);
        fprintf(stderr, "\n");
    }
    for (int i = 0; i < g->attr.n_results; i++)
        fprintf(stderr, "  result %d: step %d, reduced by %d over %x, %s\n", i,
                g->attr.result[i].step, g->attr.result[i].reduce, g->attr.result[i].axes,
                type_name(g->attr.result[i].type));
}

static void check_program(Pool *parent, const Device *device, uint64_t seed)
{
    Pool    *pool = pool_new(parent, "program");
    Random   g;
    bool     narrow = seed % 3 == 2;
    Engine  *engine;
    Session *session;
    key = (RandomKey){ .seed = seed };
    drawn = 0;
    program_make(&g, pool, narrow ? BF16 : F32, seed % 5 == 0);
    if (graph_check(g.graph)) {
        fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, err_text());
        CHECK(false);
        pool_free(pool);
        return;
    }
    const Node *node = &g.graph->nodes[value_at(g.graph, g.out[0].id)->producer];
    g.attr = *ATTR(node, PointwiseAttr);
    g.in = node->in;
    float  one = 1;
    Tensor loss = program_loss(&g),
           unit = constant_add(g.graph, "seed", F32, SHAPE(1), &one, CLASS_CONSTANTS);
    bool gradients = tensor_ok(loss);
    if (gradients && autodiff_backward(g.graph, loss, unit, NULL)) {
        gradients = strstr(err_text(), "no trained parameter has a path") != NULL;
        CHECK(gradients);
        gradients = false;
        g.graph->error = OK;
    }
    CHECK_OK(engine_new(pool, g.graph, device, NULL, &engine));
    CHECK_OK(session_new(pool, engine, &session));
    CHECK_OK(session_init(session, 1));
    for (int i = 0; i < g.n_operands; i++)
        if (g.operand[i].param >= 0) {
            CHECK_OK(session_set_param(session, g.operand[i].param, g.operand[i].stored));
            int32_t grad = g.graph->params[g.operand[i].param].grad;
            if (grad >= 0)
                CHECK_OK(session_watch(session, grad, g.operand[i].grad));
        }
    for (int r = 0; r < g.attr.n_results; r++) {
        wanted[r] = NEWN(pool, double, shape_count(g.attr.result[r].shape));
        g.raw[r] = NEWN(pool, float, shape_count(g.attr.result[r].shape));
        CHECK_OK(session_watch(session, g.out[r].id, g.raw[r]));
    }
    CHECK_OK(session_run(session, PHASE_MICRO));
    double *detached = NEWN(pool, double, g.points *g.attr.n_steps + 1);
    loss_of(&g, detached, true);
    check_results(&g, seed, narrow ? 1e-2 : 2e-5);
    int before = test_failed;
    if (gradients)
        check_gradients(&g, seed, narrow ? 4e-2 : 2e-4);
    if (test_failed > before)
        program_print(&g);
    pool_free(pool);
}

int main(int argc, char **argv)
{
    Pool    *pool = pool_new(NULL, "random programs");
    Device  *device;
    int      programs = argc > 1 ? atoi(argv[1]) : 300;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    if (test_device(pool, &(DeviceOptions){ .threads = 2 }, &device)) {
        fprintf(stderr, "%s\n", err_text());
        return 1;
    }
    for (int i = 0; i < programs; i++)
        check_program(pool, device, first + (uint64_t)i);
    pool_free(pool);
    return test_end();
}
