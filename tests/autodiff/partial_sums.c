/* partial_sums.c -- how a bias's gradient is summed: from partial column sums that dy's producer
 * wrote, or from dy itself. */
#include "test.h"

#include "autodiff/autodiff.h"
#include "ops/elementwise/basic.h"
#include "ops/elementwise/binary.h"
#include "ops/linear/linear.h"
#include "ops/ops.h"
#include "ops/reduce/reduce.h"
#include "ops/elementwise/unary.h"

static Tensor layer(Tensor x, const char *name, int64_t out)
{
    Graph *graph = x.graph;
    Init   init = { .kind = INIT_ONES };
    scope_open(graph, "%s", name);
    Tensor w = param_add(graph, "w", SHAPE(dim(tensor_shape(x), -1), out), init);
    Tensor y = linear_op(x, w, param_add(graph, "b", SHAPE(out), init), (LinearAttr){ true });
    scope_close(graph);
    return y;
}

/* The shape of what is summed for that bias, and its producer. */
static const Node *summed(Graph *graph, const char *bias, Shape *shape)
{
    const Value *grad = value_at(graph, param_find(graph, bias)->grad);
    const Node  *sum = &graph->nodes[grad->producer];
    REQUIRE(sum->op == &op_bias_grad);
    *shape = in_shape(sum, 0);
    return &graph->nodes[value_at(graph, sum->in[0])->producer];
}

static Graph *backward(Pool *pool, int64_t rows, Tensor (*body)(Tensor))
{
    Graph *graph = graph_new(pool, F32);
    Tensor y = body(feed(graph, "x", F32, SHAPE(2, rows, 3)));
    Tensor loss = sum_axes(y, 0, -1), seed = feed(graph, "seed", F32, SHAPE(1));
    CHECK_OK(autodiff_backward(graph, loss, seed, NULL));
    return graph;
}

static Tensor function(Tensor x) { return layer(gelu_tanh(layer(x, "first", 40)), "second", 1); }
static Tensor joined(Tensor x)
{
    return layer(silu(add(layer(x, "first", 40), layer(x, "other", 40))), "second", 1);
}
static Tensor gated(Tensor x)
{
    Tensor gate = param_add(x.graph, "gate", SHAPE(2, 64), (Init){ .kind = INIT_ONES });
    Tensor h = layer(x, "first", 64);
    return layer(gated_add(layer(x, "other", 64), gate, h), "second", 1);
}

static void one_reader(void)
{
    Pool       *pool = pool_new(NULL, "partial sums");
    Shape       shape;
    Graph      *graph = backward(pool, 550, function);
    const Node *producer = summed(graph, "first.b", &shape);
    CHECK(producer->op == &op_gelu_tanh_grad && producer->n_out == 2);
    CHECK(shape_same(shape, SHAPE(35, 40)));      /* 1,100 rows, 32 per partial sum */
    producer = summed(graph, "second.b", &shape); /* the producer of dy writes none */
    CHECK(shape_same(shape, SHAPE(2, 550, 1)) && producer->n_out == producer->op->n_out);

    graph = backward(pool, 100, function); /* few rows: dy is read again */
    producer = summed(graph, "first.b", &shape);
    CHECK(producer->op == &op_gelu_tanh_grad && producer->n_out == 1);
    CHECK(shape_same(shape, SHAPE(2, 100, 40)));
    pool_free(pool);
}

static void two_readers(void) /* two biases, one gradient: written once */
{
    Pool       *pool = pool_new(NULL, "partial sums");
    Shape       shape;
    Graph      *graph = backward(pool, 550, joined);
    const Node *producer = summed(graph, "first.b", &shape);
    CHECK(producer->op == &op_silu_grad && producer->n_out == 2 &&
          shape_same(shape, SHAPE(35, 40)));
    CHECK(producer == summed(graph, "other.b", &shape));
    pool_free(pool);
}

static void samples(void) /* each partial sum covers one sample */
{
    Pool  *pool = pool_new(NULL, "partial sums");
    Shape  shape;
    Graph *graph = backward(pool, 550, gated);
    CHECK(summed(graph, "first.b", &shape)->op == &op_gated_add_grad);
    CHECK(shape_same(shape, SHAPE(2 * 18, 64)));
    CHECK(summed(graph, "other.b", &shape)->op != &op_gated_add_grad); /* bypasses the gate */
    pool_free(pool);
}

int main(void)
{
    RUN(one_reader);
    RUN(two_readers);
    RUN(samples);
    return test_end();
}
