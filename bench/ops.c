/* ops.c -- times of single operators on this machine, as JSON lines for bench/ops.py.
 *
 *   bench_ops [SECONDS [THREADS [BACKEND]]]
 *
 * Cases come in a fixed order, fp32 before bf16. Each line "run" on standard input starts a round
 * of SECONDS, which prints the best time of each operator, one per line, then an empty line. Any
 * other line moves on to the next case. So the reader can alternate with what it compares
 * with. */
#include "autodiff/autodiff.h"
#include "base/clock.h"
#include "exec/session.h"
#include "ops/attention/attention.h"
#include "ops/elementwise/basic.h"
#include "ops/conv/conv.h"
#include "ops/fft/fft_conv.h"
#include "ops/norm/groupnorm.h"
#include "ops/norm/layernorm.h"
#include "ops/linear/linear.h"
#include "ops/loss/loss.h"
#include "ops/ops.h"
#include "ops/reduce/softmax.h"
#include "ops/elementwise/unary.h"
#include "profile/devices.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Tensor in(Graph *g, const char *name, Shape shape)
{
    return param_add(g, name, shape, (Init){ .kind = INIT_NORMAL, .scale = 0.1f });
}

static Tensor none(Graph *g) { return tensor_none(g); }

static Tensor matmul_square(Graph *g)
{
    return linear_op(in(g, "x", SHAPE(1024, 1024)), in(g, "w", SHAPE(1024, 1024)), none(g),
                     (LinearAttr){ 0 });
}
static Tensor matmul_tall(Graph *g)
{
    return linear_op(in(g, "x", SHAPE(16384, 1152)), in(g, "w", SHAPE(128, 1152)), none(g),
                     (LinearAttr){ 0 });
}
static Tensor matmul_token(Graph *g)
{
    return linear_op(in(g, "x", SHAPE(512, 384)), in(g, "w", SHAPE(1536, 384)),
                     in(g, "b", SHAPE(1536)), (LinearAttr){ 0 });
}
static Tensor conv_3x3(Graph *g)
{
    return conv_op(in(g, "x", SHAPE(2, 32, 256, 128)), in(g, "w", SHAPE(3, 3, 128, 128)), none(g),
                   conv_attr(1, 1));
}
static Tensor conv_thin(Graph *g)
{
    return conv_op(in(g, "x", SHAPE(2, 64, 256, 3)), in(g, "w", SHAPE(3, 3, 3, 64)), none(g),
                   conv_attr(1, 1));
}
static Tensor conv_down(Graph *g)
{
    return conv_op(in(g, "x", SHAPE(2, 32, 256, 128)), in(g, "w", SHAPE(3, 3, 128, 256)), none(g),
                   conv_attr(2, 1));
}
static Tensor attention_1024(Graph *g)
{
    return attention_qkv(in(g, "qkv", SHAPE(1, 1024, 3 * 1024)), 16, NULL);
}
static Tensor attention_text(Graph *g)
{
    return attention_q_kv(in(g, "q", SHAPE(1, 4096, 320)), in(g, "kv", SHAPE(1, 77, 640)), 5, NULL);
}
static Tensor attention_256(Graph *g)
{
    return attention_qkv(in(g, "qkv", SHAPE(12, 256, 3 * 468)), 9, NULL);
}
static Tensor layernorm_rows(Graph *g)
{
    return layernorm(in(g, "x", SHAPE(4096, 1024)), in(g, "w", SHAPE(1024)),
                     in(g, "b", SHAPE(1024)), 1e-5f);
}
static Tensor groupnorm_map(Graph *g)
{
    return groupnorm(in(g, "x", SHAPE(2, 32, 256, 128)), in(g, "w", SHAPE(128)),
                     in(g, "b", SHAPE(128)), 32, 1e-5f, NORM_SILU);
}
static Tensor softmax_rows(Graph *g) { return softmax(in(g, "x", SHAPE(4096, 1024))); }
static Tensor gelu_map(Graph *g) { return gelu(in(g, "x", SHAPE(4096, 1024))); }
static Tensor fft_64(Graph *g)
{
    Type   compute = g->compute;
    Tensor u = in(g, "u", SHAPE(1, 16384, 64));
    g->compute = F32;
    Tensor k = in(g, "k", SHAPE(16384, 64)), d = in(g, "d", SHAPE(64));
    g->compute = compute;
    return fft_conv(u, k, d);
}

/* clang-format off */
static const struct { const char *name; Tensor (*build)(Graph *); } cases[] = {
    { "matmul 1024x1024x1024", matmul_square }, { "matmul 16384x128x1152", matmul_tall },
    { "linear 512x1536x384", matmul_token },    { "conv 3x3 128-128 32x256", conv_3x3 },
    { "conv 3x3 3-64 64x256", conv_thin },      { "conv 3x3/2 128-256 32x256", conv_down },
    { "attention 16x1024x64", attention_1024 }, { "attention 5x4096x77x64", attention_text },
    { "attention 12x9x256x52", attention_256 }, { "layer norm 4096x1024", layernorm_rows },
    { "group norm + SiLU 2x32x256x128", groupnorm_map }, { "softmax 4096x1024", softmax_rows },
    { "GELU 4096x1024", gelu_map },             { "FFT convolution 64x16384", fft_64 },
};
/* clang-format on */

static Err bench_best(Session *session, const Graph *graph, double *ns, double *best)
{
    TRY(session_profile(session, PHASE_MICRO, ns));
    for (int32_t i = 0; i < graph->n_nodes; i++)
        best[i] = ns[i] < best[i] ? ns[i] : best[i];
    return OK;
}

static void print_times(const char *name, Type type, const Graph *graph, const double *best)
{
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const Node *node = &graph->nodes[i];
        if (!node->op->view && node->op != &op_mse_loss && node->op != &op_mse_loss_grad &&
            node->op != &op_cast)
            printf("{\"case\": \"%s\", \"type\": \"%s\", \"op\": \"%s\", \"ms\": %.4f, \"flops\": "
                   "%.0f}\n",
                   name, type_name(type), node->op->name, best[i] * 1e-6,
                   node->op->cost(node).flops);
    }
    printf("\n");
    fflush(stdout);
}

/* One case: a round of `seconds` for each line "run", until another line or the end. */
static Err bench(Pool *parent, const Device *device, const char *name, Tensor (*build)(Graph *),
                 Type type, double seconds)
{
    Pool    *pool = pool_new(parent, "bench");
    Graph   *graph = graph_new(pool, type);
    Engine  *engine;
    Session *session;
    float    one = 1;
    char     line[32];
    Tensor   y = build(graph);
    Tensor   target = state_add(graph, "target", tensor_type(y), tensor_shape(y), CLASS_CONSTANTS,
                                false);
    Tensor   seed = constant_add(graph, "seed", F32, SHAPE(1), &one, CLASS_CONSTANTS);
    TRY(autodiff_backward(graph, mse_loss(y, target, 1), seed, NULL));
    TRY(engine_new(pool, graph, device, NULL, &engine));
    TRY(session_new(pool, engine, &session));
    TRY(session_init(session, 1));
    double *best = NEWN(pool, double, graph->n_nodes), *ns = NEWN(pool, double, graph->n_nodes);
    while (fgets(line, sizeof line, stdin) && !strcmp(line, "run\n")) {
        double end = clock_now() + seconds;
        for (int32_t i = 0; i < graph->n_nodes; i++)
            best[i] = INFINITY;
        for (int runs = 0; runs < 3 || clock_now() < end; runs++)
            TRY(bench_best(session, graph, ns, best));
        print_times(name, type, graph, best);
    }
    pool_free(pool);
    return OK;
}

int main(int argc, char **argv)
{
    Pool         *pool = pool_new(NULL, "bench");
    Device       *device;
    double        seconds = argc > 1 ? atof(argv[1]) : 0.1;
    DeviceOptions options = { .threads = argc > 2 ? atoi(argv[2]) : 2,
                              .backend = argc > 3 ? argv[3] : NULL };
    Err           err = device_cpu(pool, &options, &device);
    for (int t = 0; !err && t < 2; t++)
        for (size_t i = 0; !err && i < sizeof cases / sizeof *cases; i++)
            err = bench(pool, device, cases[i].name, cases[i].build, t ? BF16 : F32, seconds);
    if (err)
        fprintf(stderr, "%s\n", err_text());
    pool_free(pool);
    return err != OK;
}
