/* misuse.c -- builders given what does not fit: a poisoned tensor and one sentence with the
 * numbers, never a crash; views of leading slices cost no bytes; kernels refuse numbers outside
 * their tables. */
#include "profile/devices.h"
#include "test.h"

#include "exec/session.h"
#include "ops/arrange/arrange.h"
#include "ops/arrange/pad_mode.h"
#include "ops/arrange/permute.h"
#include "ops/arrange/strided.h"
#include "ops/conv/conv.h"
#include "ops/elementwise/basic.h"
#include "ops/elementwise/binary.h"
#include "ops/elementwise/glu.h"
#include "ops/elementwise/unary.h"
#include "ops/embedding/embedding.h"
#include "ops/index/count.h"
#include "ops/index/extreme.h"
#include "ops/index/gather.h"
#include "ops/index/grouped_mm.h"
#include "ops/index/scan.h"
#include "ops/index/sort.h"
#include "ops/loss/dml.h"
#include "ops/loss/loss.h"
#include "ops/matmul/matmul.h"
#include "ops/random/noise.h"
#include "ops/random/qsample.h"
#include "ops/reduce/reduce.h"
#include "ops/reduce/softmax.h"
#include "ops/reduce/variance.h"

static Pool  *pool;
static Graph *graph;

static Tensor input(Type type, Shape shape) { return feed(graph, "x", type, shape); }

/* The expression must poison the graph with a sentence that has `text` in it, and stay poisoned. */
#define REFUSED(expression, text)                                                                  \
    do {                                                                                           \
        graph = graph_new(pool, F32);                                                              \
        Tensor got_ = (expression);                                                                \
        CHECK(!tensor_ok(got_) && !tensor_ok(silu(got_)));                                         \
        if (CHECK(graph_check(graph) != OK) && !CHECK(strstr(err_text(), text) != NULL))           \
            fprintf(stderr, "  said: %s\n", err_text());                                           \
    } while (0)

static void pointwise(void)
{
    REFUSED(silu(input(I32, SHAPE(3))), "i32");
    REFUSED(affine(input(F32, SHAPE(3)), NAN, 0), "not finite");
    REFUSED(sub(input(F32, SHAPE(2, 3)), input(F32, SHAPE(3, 2))), "(2,3) and (3,2)");
    REFUSED(mul(input(F32, SHAPE(3)), input(U8, SHAPE(3))), "u8");
    REFUSED(add_rows(input(F32, SHAPE(2, 4, 3)), input(F32, SHAPE(4))),
            "(4) does not lie along (2,4,3)");
    REFUSED(mul_rows(input(F32, SHAPE(2, 4, 3)), input(F32, SHAPE(3, 3))), "does not lie along");
    REFUSED(mul_rows(input(F32, SHAPE(3)), input(F32, SHAPE(1, 3))), "does not lie along");
    REFUSED(
        gated_add(input(F32, SHAPE(2, 4, 3)), input(F32, SHAPE(2, 3)), input(F32, SHAPE(2, 5, 3))),
        "differ");
    REFUSED(weighted_sum(input(F32, SHAPE(3)), INFINITY, input(F32, SHAPE(3)), 1), "not finite");
    REFUSED(glu(input(F32, SHAPE(2, 3))), "must be even");
}

/* 2^63 bytes and more, also where the product wraps round to something small; and empty axes, also
 * two whose signs cancel. */
static void sizes(void)
{
    int64_t big = (int64_t)1 << 31;
    REFUSED(input(F32, SHAPE(big, big)), "(2147483648,2147483648) has more bytes than can be");
    REFUSED(input(F32, SHAPE(big, big, 16)), "more bytes than can be counted");
    REFUSED(cast(input(BF16, SHAPE(big, big / 2)), F32), "more bytes than can be counted");
    REFUSED(silu(param_add(graph, "w", SHAPE(big, big, 4), (Init){ 0 })), "more bytes than can");
    REFUSED(param_add(graph, "w", SHAPE(-2, -3), (Init){ 0 }), "parameter w would have shape");
    REFUSED(input(F32, SHAPE(-2, -3)), "empty tensor (-2,-3)");
    REFUSED(input(F32, SHAPE(0, big, big, big)), "");
    graph = graph_new(pool, F32);
    CHECK(tensor_ok(input(U8, SHAPE(big, big - 1)))); /* no fault yet: less than 2^62 */
    CHECK_OK(graph_check(graph));
}

static Tensor split_first(Tensor x, int n, int axis)
{
    Tensor parts[64];
    split(parts, n, x, axis);
    return parts[0];
}

static void arrangement(void)
{
    REFUSED(concat(TENSORS(input(F32, SHAPE(2, 3)), input(F32, SHAPE(3, 3))), 1), "axis 1 only");
    REFUSED(concat(TENSORS(input(F32, SHAPE(2, 3)), input(I32, SHAPE(2, 3))), 1), "i32");
    REFUSED(concat(TENSORS(input(F32, SHAPE(2, 3)), input(F32, SHAPE(2, 3))), 2), "no axis 2");
    REFUSED(slice(input(F32, SHAPE(4)), 0, 2, 5), "2 to 5");
    REFUSED(slice(input(F32, SHAPE(4)), 0, 2, 2), "2 to 2");
    REFUSED(split_first(input(F32, SHAPE(2, 5)), 2, 1), "does not divide into 2");
    REFUSED(split_first(input(F32, SHAPE(2, 64)), 64, 1), "into 64");
    REFUSED(split_first(input(F32, SHAPE(2, 64)), 2, 5), "axis 5");
    REFUSED(pad_axis(input(F32, SHAPE(4)), 0, -1, 0), "use slice to remove");
    REFUSED(pad_axis(input(F32, SHAPE(4)), 3, 1, 0), "no axis 3");
    REFUSED(shift(input(F32, SHAPE(4)), 1, 1), "no axis 1");
    REFUSED(permute(input(F32, SHAPE(4, 2)), (int[]){ 0, 0 }), "not an order");
    REFUSED(permute(input(F32, SHAPE(4, 2)), (int[]){ 0, 7 }), "no axis 7");
    REFUSED(swap_axes(input(F32, SHAPE(4, 2)), 0, 2), "no axes");
    REFUSED(patchify2d(input(F32, SHAPE(1, 5, 4, 3)), 2, 2), "patches of 2");
    REFUSED(patchify3d(input(F32, SHAPE(1, 4, 4, 3)), 2, 2, 2), "is not (B,D,H,W,C)");
    REFUSED(unpatchify2d(input(F32, SHAPE(1, 4, 11)), SHAPE(1, 4, 4, 3), 2, 2),
            "(1,4,11) is not (1,4,12)");
    REFUSED(sum_axes(input(F32, SHAPE(4, 2)), 1, 0), "no axes");
    REFUSED(sum_axes(input(I32, SHAPE(4, 2)), 0, 0), "i32");
    REFUSED(tile(input(F32, SHAPE(4, 2)), 0, 0), "0 times");
}

static void numbers(void)
{
    REFUSED(random_normal(input(I32, SHAPE(3)), 0, F32, SHAPE(4)), "counters");
    REFUSED(random_normal(input(I32, SHAPE(4)), 0, I32, SHAPE(4)), "cannot draw");
    REFUSED(random_ints(input(I32, SHAPE(4)), 0, 0, SHAPE(4)), "below 0");
    REFUSED(dropout(input(F32, SHAPE(4)), input(I32, SHAPE(4)), 0, 1), "a rate of 1");
    REFUSED(dropout(input(F32, SHAPE(4)), input(F32, SHAPE(4)), 0, 0.5f), "counters");
    REFUSED(embedding(input(F32, SHAPE(4)), input(I32, SHAPE(4))), "a table (V,C)");
    REFUSED(embedding(input(F32, SHAPE(4, 2)), input(F32, SHAPE(4))), "i32 ids");
    REFUSED(time_embedding(input(F32, SHAPE(4)), 7, 10000), "width 7");
    REFUSED(q_sample(input(F32, SHAPE(4, 3)), input(F32, SHAPE(4, 3)), input(F32, SHAPE(9)),
                     input(I32, SHAPE(3))),
            "do not fit");
    REFUSED(softmax(input(I32, SHAPE(4))), "i32");
    REFUSED(mse_loss(input(F32, SHAPE(4)), input(F32, SHAPE(5)), 1), "(4) against f32 (5)");
    REFUSED(mse_loss(input(F32, SHAPE(4)), input(F32, SHAPE(4)), NAN), "scale");
    REFUSED(masked_l1_loss(input(F32, SHAPE(4, 3)), input(F32, SHAPE(4, 3)), input(U8, SHAPE(4, 3)),
                           tensor_none(graph), 1),
            "(4,1)");
    REFUSED(cross_entropy(input(F32, SHAPE(4, 3)), input(I32, SHAPE(5)), tensor_none(graph), 1),
            "one i32 per row");
    REFUSED(cross_entropy(input(F32, SHAPE(4, 3)), input(I32, SHAPE(4)), input(F32, SHAPE(2)), 1),
            "denominator");
    REFUSED(dml_loss(input(F32, SHAPE(4, 4)), input(I32, SHAPE(4)), tensor_none(graph), 256, 1),
            "3 K");
    REFUSED(dml_loss(input(F32, SHAPE(4, 6)), input(I32, SHAPE(4)), tensor_none(graph), 1, 1),
            "1 levels");
}

static Tensor viewed(Tensor x, int64_t n, int64_t stride, int64_t offset)
{
    return strided(
        x,
        (StridedAttr){
            .rank = 1, .dim = { n }, .stride = { stride }, .offset = offset, .shape = SHAPE(n) });
}

static void views(void)
{
    REFUSED(viewed(input(F32, SHAPE(2, 3)), 4, 2, 0), "elements 0 to 6 of (2,3), which has 6");
    REFUSED(viewed(input(F32, SHAPE(6)), 3, -2, 3), "elements -1 to 3");
    REFUSED(viewed(input(F32, SHAPE(6)), 0, 1, 0), "0 elements");
    REFUSED(strided(input(F32, SHAPE(6)), (StridedAttr){ .rank = 9, .shape = SHAPE(6) }),
            "9 axes; at most 8");
    REFUSED(strided(input(F32, SHAPE(6)),
                    (StridedAttr){ .rank = 1, .dim = { 3 }, .stride = { 2 }, .shape = SHAPE(2) }),
            "3 elements cannot become (2)");
    REFUSED(flip(input(F32, SHAPE(2, 3)), 4), "(2,3) has no axis 2");
    REFUSED(expand_to(input(F32, SHAPE(2, 3)), SHAPE(4, 3)), "(2,3) cannot be repeated to (4,3)");
    REFUSED(expand_to(input(F32, SHAPE(2, 3)), SHAPE(3)), "cannot be repeated");
    REFUSED(pad_mode(input(F32, SHAPE(3)), (PadAttr){ { 3 }, { 0 } }, PAD_REFLECT, 0),
            "too wide for axis 0 of (3)");
    REFUSED(pad_mode(input(F32, SHAPE(3)), (PadAttr){ { -2 }, { -1 } }, PAD_CONSTANT, 1), "slice");
}

static void products(void)
{
    REFUSED(matmul(input(F32, SHAPE(2, 3)), input(F32, SHAPE(4, 5))), "(2,3) and (4,5)");
    REFUSED(matmul(input(F32, SHAPE(2, 2, 3)), input(F32, SHAPE(3, 3, 5))), "leading axes");
    REFUSED(matmul(input(F32, SHAPE(2, 3)), input(BF16, SHAPE(3, 5))), "f32 by bf16");
    REFUSED(bmm(input(F32, SHAPE(2, 3)), input(F32, SHAPE(3, 5))), "not batches of matrices");
    MatmulAttr gap = { .m = 2, .n = 2, .k = 3, .alpha = 1, .shape = SHAPE(2, 3), .type = F32 };
    gap.a.row_stride = gap.b.row_stride = gap.out.row_stride = 3;
    REFUSED(matmul_op(input(F32, SHAPE(2, 3)), input(F32, SHAPE(3, 3)), gap), "do not cover (2,3)");
    gap.a.offset = 1;
    REFUSED(matmul_op(input(F32, SHAPE(2, 3)), input(F32, SHAPE(3, 3)), gap), "inside (2,3)");
    REFUSED(grouped_mm(input(F32, SHAPE(2, 3)), input(F32, SHAPE(4, 2, 5)), input(I32, SHAPE(4))),
            "(2,3) by matrices (4,2,5)");
}

static Tensor sorted(Tensor x, int64_t k, int axis)
{
    Tensor out[2];
    topk(out, x, k, axis, true);
    return out[1];
}

static void indices(void)
{
    REFUSED(gather(input(F32, SHAPE(2, 3)), 1, input(I32, SHAPE(3, 3))),
            "(3,3) does not fit (2,3)");
    REFUSED(gather(input(F32, SHAPE(2, 3)), 1, input(F32, SHAPE(2, 3))), "must be i32, not f32");
    REFUSED(gather(input(F32, SHAPE(2, 3)), 2, input(I32, SHAPE(2, 3))), "along axis 2");
    REFUSED(index_rows(input(F32, SHAPE(2, 3)), 2, input(I32, SHAPE(2)), -1), "along axis 2");
    REFUSED(index_at(input(F32, SHAPE(2, 3)), TENSORS(input(I32, SHAPE(2)), input(I32, SHAPE(3)))),
            "do not broadcast");
    REFUSED(scatter(input(F32, SHAPE(2, 3)), 1, input(I32, SHAPE(1, 3)), input(F32, SHAPE(1, 3))),
            "must agree");
    REFUSED(
        scatter_add(input(F32, SHAPE(2, 3)), 1, input(I32, SHAPE(2, 4)), input(F32, SHAPE(2, 3))),
        "4");
    REFUSED(cumsum(input(F32, SHAPE(2, 3)), 2), "no axis 2");
    REFUSED(cumprod(input(I32, SHAPE(2, 3)), 1), "must be floats, not i32");
    REFUSED(argmax(input(F32, SHAPE(2, 3)), -3, true), "no axis -3");
    REFUSED(amax(input(F32, SHAPE(2, 3)), 4, true), "no such axes");
    REFUSED(sorted(input(F32, SHAPE(2, 3)), 4, 1), "4 values cannot be taken");
    REFUSED(sorted(input(F32, SHAPE(2, 3)), 1, 2), "no axis 2");
    REFUSED(one_hot(input(F32, SHAPE(2, 3)), 4, F32), "f32 (2,3)");
    REFUSED(bincount(input(F32, SHAPE(3)), 4), "must be i32, not f32");
    REFUSED(histc(input(F32, SHAPE(3)), 4, 1, 1), "from 1 to 1");
    REFUSED(sum_over(input(F32, SHAPE(3)), 2, false), "no such axes");
    REFUSED(mean_over(input(I32, SHAPE(3)), 1, false), "must be floats, not i32");
    REFUSED(var_over(input(F32, SHAPE(3)), 0, 1, false), "no such axes");
}

static void views_cost_nothing(void)
{
    graph = graph_new(pool, F32);
    Tensor x = input(F32, SHAPE(5, 4)), y = slice(x, 0, 2, 4),
           z = slice(reshape(x, SHAPE(1, 5, 4)), 1, 3, 5);
    CHECK_OK(graph_check(graph));
    CHECK_INT(value_at(graph, y.id)->root, x.id);
    CHECK_INT(value_at(graph, y.id)->offset, 2 * 4 * 4);
    CHECK_INT(value_at(graph, z.id)->root, x.id);
    CHECK_INT(value_at(graph, z.id)->offset, 3 * 4 * 4);
    Tensor copy = slice(x, 1, 0, 2);
    CHECK_INT(value_at(graph, copy.id)->root, copy.id);
}

/* Runs a graph whose last node must refuse a number it was fed. */
static void refuses(int32_t number, const char *text, Tensor (*build)(Tensor ids))
{
    Device  *device;
    Engine  *engine;
    Session *session;
    graph = graph_new(pool, F32);
    build(input(I32, SHAPE(1)));
    CHECK_OK(graph_check(graph));
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 1, .backend = "builtin" }, &device));
    CHECK_OK(engine_new(pool, graph, device, NULL, &engine));
    CHECK_OK(session_new(pool, engine, &session));
    CHECK_OK(session_init(session, 1));
    CHECK_OK(session_feed(session, "x", &number));
    CHECK_INT(session_run(session, PHASE_MICRO), E_NUMBER);
    CHECK(strstr(err_text(), text) != NULL);
}

static Tensor table(int64_t rows, int64_t width)
{
    return constant_add(graph, "table", F32, width ? SHAPE(rows, width) : SHAPE(rows), NULL,
                        CLASS_CONSTANTS);
}

static Tensor build_embedding(Tensor ids) { return embedding(table(3, 2), ids); }
static Tensor build_rows(Tensor ids) { return index_rows(table(3, 2), 0, ids, -1); }
static Tensor build_gather(Tensor ids) { return gather(table(3, 0), 0, ids); }
static Tensor build_scatter(Tensor ids) { return scatter(table(3, 0), 0, ids, table(3, 0)); }
static Tensor build_one_hot(Tensor ids) { return one_hot(ids, 3, F32); }
static Tensor build_counts(Tensor ids) { return bincount(ids, 3); }
static Tensor build_grouped(Tensor ids)
{
    return grouped_mm(table(2, 3),
                      constant_add(graph, "w", F32, SHAPE(1, 3, 4), NULL, CLASS_CONSTANTS), ids);
}
static Tensor build_entropy(Tensor ids)
{
    return cross_entropy(table(1, 3), ids, tensor_none(graph), 1);
}
static Tensor build_dml(Tensor ids)
{
    return dml_loss(table(1, 3), ids, tensor_none(graph), 16, 1);
}
static Tensor build_q(Tensor ids)
{
    return q_sample(table(1, 3), table(1, 3),
                    constant_add(graph, "abar", F32, SHAPE(4), NULL, CLASS_CONSTANTS), ids);
}

static void numbers_outside(void)
{
    refuses(3, "id 3", build_embedding);
    refuses(-1, "id -1", build_embedding);
    refuses(3, "index 3", build_rows);
    refuses(-4, "index -4", build_rows);
    refuses(-1, "index -1", build_gather);
    refuses(3, "index 3", build_scatter);
    refuses(-1, "id -1", build_one_hot);
    refuses(3, "id 3", build_counts);
    refuses(3, "end 3", build_grouped);
    refuses(3, "target 3", build_entropy);
    refuses(-99, "target -99", build_entropy);
    refuses(16, "target 16", build_dml);
    refuses(4, "time 4", build_q);
    refuses(INT32_MIN, "time -2147483648", build_q);
}

static Tensor conv_of(Shape x, Shape w, ConvAttr a)
{
    Tensor tx = input(F32, x), tw = feed(graph, "w", F32, w), none = tensor_none(graph);
    return x.rank == 3 ? conv1d_op(tx, tw, none, a) : conv_op(tx, tw, none, a);
}

static void convolutions(void)
{
    ConvAttr a = conv_attr(1, 1);
    REFUSED(conv_of(SHAPE(1, 4, 4, 6), SHAPE(3, 3, 3, 6), a), "does not take the channels");
    a.groups = 4;
    REFUSED(conv_of(SHAPE(1, 4, 4, 6), SHAPE(3, 3, 3, 6), a), "cannot be divided into 4 groups");
    a.groups = 3;
    REFUSED(conv_of(SHAPE(1, 4, 4, 6), SHAPE(3, 3, 3, 6), a), "in 3 groups does not take");
    a.groups = 2, a.dilation[2] = 3;
    REFUSED(conv_of(SHAPE(1, 4, 4, 6), SHAPE(3, 3, 3, 6), a), "does not fit into (1,4,4,6)");
    a.dilation[2] = -1;
    REFUSED(conv_of(SHAPE(1, 4, 4, 6), SHAPE(3, 3, 3, 6), a), "does not fit");
    REFUSED(conv_of(SHAPE(1, 4, 6), SHAPE(3, 3, 3, 6), a), "neither an image nor a volume");
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(pointwise);
    RUN(sizes);
    RUN(arrangement);
    RUN(views);
    RUN(products);
    RUN(indices);
    RUN(numbers);
    RUN(convolutions);
    RUN(views_cost_nothing);
    RUN(numbers_outside);
    pool_free(pool);
    return test_end();
}
