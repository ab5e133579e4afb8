/* pointwise_rules.c -- what a gradient keeps, which node computes what, and what is refused. */
#include "test.h"

#include "autodiff/autodiff.h"
#include "ops/elementwise/basic.h"
#include "ops/ops.h"
#include "ops/pointwise/pointwise.h"
#include "ops/reduce/reduce.h"

static Pool  *pool;
static Graph *graph;

static const int64_t dims[] = { 8, 16 }, rows[] = { 16, 1 }, row[] = { 0, 1 };

/* A value that a parameter flows into, and that is no parameter itself. */
static Tensor activation(const char *name)
{
    Tensor       w = param_add(graph, name, SHAPE(8, 16), (Init){ .kind = INIT_ONES });
    PointProgram p = point_begin(2, dims);
    point_store(&p, point_step(&p, POINT_NEG, point_input(&p, w, rows), -1, -1), tensor_type(w),
                SHAPE(8, 16));
    return point_end(&p, NULL);
}

static Tensor whole(PointProgram *p, int step)
{
    point_store(p, step, graph->compute, SHAPE(8, 16));
    return point_end(p, NULL);
}

static void backward(Tensor y)
{
    Tensor loss = reshape(cast(sum_axes(y, 0, -1), F32), SHAPE(1));
    Tensor seed = feed(graph, "seed", F32, SHAPE(1));
    CHECK_OK(autodiff_backward(graph, loss, seed, NULL));
}

static const Node *producer(Tensor t) { return &graph->nodes[value_at(graph, t.id)->producer]; }

/* Bytes of forward values, other than parameters, that backward nodes read. */
static int64_t kept_bytes(void)
{
    int64_t bytes = 0;
    bool   *seen = NEWN(pool, bool, graph->n_values);
    for (int32_t i = 0; i < graph->n_nodes; i++)
        for (int j = 0; graph->nodes[i].backward && j < graph->nodes[i].n_in; j++) {
            int32_t      id = graph->nodes[i].in[j];
            const Value *value = id >= 0 ? value_at(graph, id) : NULL;
            if (!value || value->persistent || graph->nodes[value->producer].backward || seen[id] ||
                graph->nodes[value->producer].op == &op_feed)
                continue;
            seen[id] = true;
            bytes += value->bytes;
        }
    return bytes;
}

static int results_of(Tensor y) { return ATTR(producer(y), PointwiseAttr)->n_results; }

static void begin(Type type) { graph = graph_new(pool, type); }

static void keeps_the_sum(void) /* silu(a + b): a + b, and nothing else */
{
    for (Type type = F32; type <= BF16; type++) {
        begin(type);
        Tensor       a = activation("a"), b = activation("b");
        PointProgram p = point_begin(2, dims);
        int sum = point_step(&p, POINT_ADD, point_input(&p, a, rows), point_input(&p, b, rows), -1);
        Tensor y = whole(&p, point_step(&p, POINT_SILU, sum, -1, -1));
        backward(y);
        CHECK_INT(results_of(y), 2);
        CHECK_INT(kept_bytes(), 8 * 16 * type_bytes(type));
        CHECK_INT(value_at(graph, producer(y)->out[1])->type, type);
    }
}

static void keeps_the_result(void) /* tanh(a + b): what there is */
{
    begin(F32);
    Tensor       a = activation("a"), b = activation("b");
    PointProgram p = point_begin(2, dims);
    int    sum = point_step(&p, POINT_ADD, point_input(&p, a, rows), point_input(&p, b, rows), -1);
    Tensor y = whole(&p, point_step(&p, POINT_TANH, sum, -1, -1));
    backward(y);
    CHECK_INT(results_of(y), 1);
    CHECK_INT(kept_bytes(), 8 * 16 * 4);
}

static void keeps_nothing(void) /* of sums, and of functions of parameters */
{
    begin(F32);
    Tensor       a = activation("a");
    Tensor       v = param_add(graph, "v", SHAPE(16), (Init){ .kind = INIT_ONES });
    PointProgram p = point_begin(2, dims);
    int          x = point_input(&p, a, rows),
        e = point_step(&p, POINT_EXP, point_input(&p, v, row), -1, -1);
    Tensor y = whole(&p, point_step(&p, POINT_SUB, x, e, -1));
    backward(y);
    CHECK_INT(results_of(y), 1);
    CHECK_INT(kept_bytes(), 0);
}

static void keeps_truth_in_bytes(void) /* a > b ? a : 2 b */
{
    begin(F32);
    Tensor       a = activation("a"), b = activation("b");
    PointProgram p = point_begin(2, dims);
    int          x = point_input(&p, a, rows), z = point_input(&p, b, rows);
    int          cond = point_step(&p, POINT_GT, x, z, -1);
    int          twice = point_step(&p, POINT_MUL, z, point_constant(&p, 2), -1);
    Tensor       y = whole(&p, point_step(&p, POINT_SELECT, cond, x, twice));
    backward(y);
    CHECK_INT(results_of(y), 2);
    CHECK_INT(value_at(graph, producer(y)->out[1])->type, U8);
    CHECK_INT(kept_bytes(), 8 * 16);
}

static void one_node_for_two(void) /* x v: dx and dv from one node */
{
    begin(F32);
    Tensor       a = activation("a");
    Tensor       v = param_add(graph, "v", SHAPE(16), (Init){ .kind = INIT_ONES });
    PointProgram p = point_begin(2, dims);
    Tensor       y = whole(
              &p, point_step(&p, POINT_MUL, point_input(&p, a, rows), point_input(&p, v, row), -1));
    backward(y);
    const Param *param = param_find(graph, "v");
    const Node  *grad = producer((Tensor){ graph, param->grad });
    CHECK_INT(ATTR(grad, PointwiseAttr)->n_results, 2);
    CHECK_INT(ATTR(grad, PointwiseAttr)->result[1].reduce, POINT_SUM);
    CHECK_INT(value_at(graph, param->grad)->type, F32);
}

#define REFUSED(make, text)                                                                        \
    do {                                                                                           \
        begin(F32);                                                                                \
        Tensor got_ = make();                                                                      \
        CHECK(!tensor_ok(got_));                                                                   \
        if (CHECK(graph_check(graph) != OK) && !CHECK(strstr(err_text(), text) != NULL))           \
            fprintf(stderr, "  said: %s\n", err_text());                                           \
    } while (0)

static Tensor input(Type type, Shape shape) { return feed(graph, "x", type, shape); }

static Tensor strides_overlap(void)
{
    PointProgram p = point_begin(2, (int64_t[]){ 3, 3 });
    int          x = point_input(&p, input(F32, SHAPE(3)), (int64_t[]){ 1, 1 });
    point_store(&p, x, F32, SHAPE(3, 3));
    return point_end(&p, NULL);
}

static Tensor part_of_a_tensor(void)
{
    PointProgram p = point_begin(1, (int64_t[]){ 3 });
    int          x = point_input(&p, input(F32, SHAPE(5)), (int64_t[]){ 1 });
    point_store(&p, x, F32, SHAPE(3));
    return point_end(&p, NULL);
}

static Tensor wrong_type(void)
{
    PointProgram p = point_begin(1, (int64_t[]){ 5 });
    int          x = point_input(&p, input(F32, SHAPE(5)), (int64_t[]){ 1 });
    point_store(&p, x, I32, SHAPE(5));
    return point_end(&p, NULL);
}

static Tensor wrong_shape(void)
{
    PointProgram p = point_begin(1, (int64_t[]){ 5 });
    int          x = point_input(&p, input(F32, SHAPE(5)), (int64_t[]){ 1 });
    point_store(&p, x, F32, SHAPE(2, 3));
    return point_end(&p, NULL);
}

static Tensor bits_of_floats(void)
{
    PointProgram p = point_begin(1, (int64_t[]){ 5 });
    int          x = point_input(&p, input(F32, SHAPE(5)), (int64_t[]){ 1 });
    point_store(&p, point_step(&p, POINT_AND, x, x, -1), I32, SHAPE(5));
    return point_end(&p, NULL);
}

static Tensor too_long(void)
{
    PointProgram p = point_begin(1, (int64_t[]){ 5 });
    int          x = point_input(&p, input(F32, SHAPE(5)), (int64_t[]){ 1 });
    for (int i = 0; i < 200; i++)
        x = point_step(&p, POINT_SIN, x, -1, -1);
    point_store(&p, x, F32, SHAPE(5));
    return point_end(&p, NULL);
}

static Tensor no_result(void)
{
    PointProgram p = point_begin(1, (int64_t[]){ 5 });
    point_input(&p, input(F32, SHAPE(5)), (int64_t[]){ 1 });
    return point_end(&p, NULL);
}

static Tensor reads_ahead(void)
{
    PointStep     step[] = { { .op = POINT_NEG, .a = 1, .b = -1, .c = -1 },
                             { .op = POINT_INPUT, .a = 0, .b = -1, .c = -1 } };
    PointwiseAttr p = { .rank = 1,
                        .n_in = 1,
                        .n_results = 1,
                        .n_steps = 2,
                        .dim = { 5 },
                        .stride = { { 1 } },
                        .step = step };
    Tensor        x = input(F32, SHAPE(5));
    p.result[0] = (PointResult){ .step = 0, .scale = 1, .type = F32, .shape = SHAPE(5) };
    return pointwise(&p, &x, NULL);
}

static void refused(void)
{
    REFUSED(strides_overlap, "do not show each element of (3)");
    REFUSED(part_of_a_tensor, "do not show each element of (5)");
    REFUSED(wrong_type, "of floats, cannot be stored as i32");
    REFUSED(wrong_shape, "has 5 elements and cannot be (2,3)");
    REFUSED(bits_of_floats, "bits of floats");
    REFUSED(too_long, "more than 128 steps");
    REFUSED(no_result, "has no result");
    REFUSED(reads_ahead, "reads step 1, which is not before it");
}

int main(void)
{
    pool = pool_new(NULL, "pointwise rules");
    RUN(keeps_the_sum);
    RUN(keeps_the_result);
    RUN(keeps_nothing);
    RUN(keeps_truth_in_bytes);
    RUN(one_node_for_two);
    RUN(refused);
    pool_free(pool);
    return test_end();
}
