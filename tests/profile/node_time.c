/* node_time.c -- keys of nodes: equal work has an equal key, and any difference that can change the
 * time another key. Times come from the profile if there is one. */
#include "plan/engine.h"
#include "profile/node_time.h"

#include "ops/conv/conv.h"
#include "ops/linear/linear.h"
#include "ops/loss/loss.h"
#include "ops/elementwise/unary.h"
#include "test.h"

static Pool *pool;

static Tensor in(Graph *g, const char *name, Type type, Shape shape)
{
    return state_add(g, name, type, shape, CLASS_CONSTANTS, false);
}

static uint64_t key_of(Tensor y, const Choice *choice)
{
    static const Choice plain;
    static const Device device;
    CHECK(tensor_ok(y));
    return node_call(&device, &y.graph->nodes[value_at(y.graph, y.id)->producer],
                     choice ? choice : &plain, 0)
        .key;
}

static void keys(void)
{
    Graph *g = graph_new(pool, F32);
    Tensor x = in(g, "x", F32, SHAPE(4, 8)), x2 = in(g, "x2", F32, SHAPE(4, 8)),
           w = in(g, "w", F32, SHAPE(16, 8));
    Tensor   b = in(g, "b", F32, SHAPE(16)), none = tensor_none(g);
    uint64_t key = key_of(linear_op(x, w, b, (LinearAttr){ 0 }), NULL);
    scope_open(g, "elsewhere");
    CHECK(key == key_of(linear_op(x2, w, b, (LinearAttr){ 0 }), NULL)); /* same work elsewhere */
    scope_close(g);
    CHECK(key != key_of(linear_op(x, w, none, (LinearAttr){ 0 }), NULL)); /* no bias */
    CHECK(key != key_of(linear_op(in(g, "y", F32, SHAPE(5, 8)), w, b, (LinearAttr){ 0 }), NULL));
    CHECK(key != key_of(linear_op(in(g, "z", F32, SHAPE(2, 2, 8)), w, b, (LinearAttr){ 0 }), NULL));
    CHECK(key != key_of(linear_op(in(g, "h", BF16, SHAPE(4, 8)), in(g, "wh", BF16, SHAPE(16, 8)),
                                  none, (LinearAttr){ 0 }),
                        NULL));
    CHECK(key_of(silu(x), NULL) != key_of(gelu(x), NULL)); /* another operator */
    /* attribute values do not matter */
    CHECK(key_of(affine(x, 1, 2), NULL) == key_of(affine(x, 1, 3), NULL));
    Tensor image = in(g, "image", F32, SHAPE(1, 8, 8, 4)), k = in(g, "k", F32, SHAPE(3, 3, 4, 4));
    CHECK(key_of(conv_op(image, k, none, conv_attr(1, 1)), NULL) !=
          key_of(conv_op(image, k, none, conv_attr(2, 1)), NULL));
    Tensor y = linear_op(x, w, b, (LinearAttr){ 0 });
    Choice a = { .name = "one" }, c = { .name = "two" },
           d = { .name = "one", .workspace_bytes = 64 };
    uint64_t ka = key_of(y, &a), kc = key_of(y, &c), kd = key_of(y, &d);
    CHECK(ka != kc && ka != kd && kc != kd && ka != key); /* another algorithm */
}

static void times(void)
{
    Graph    *g = graph_new(pool, F32);
    Tensor    y = silu(in(g, "x", F32, SHAPE(64, 8)));
    Node     *node = &g->nodes[value_at(g, y.id)->producer];
    Choice    choice = { 0 };
    Device    device = { .threads = 2 };
    TimeBasis basis;
    double    plain = node_time(&device, node, &choice, 5, &basis);
    CHECK_INT(basis, TIME_ROOFLINE);
    CHECK(plain > 1000);
    device.threads = 0; /* a device that has none */
    CHECK(isfinite(node_time(&device, node, &choice, 5, &basis)));
    OpTime    op = node_call(&device, node, &choice, 5);
    Bandwidth bandwidth = { 1, 1e9, 1e9, 1e9 };
    Profile   profile = { .name = "p", .launch_ns = 10, .bandwidth = &bandwidth, .n_bandwidth = 1 };
    device.profile = &profile;
    CHECK_NEAR(node_time(&device, node, &choice, 5, &basis), 10 + op.bytes, 1e-6);
    CHECK_INT(basis, TIME_ROOFLINE);
    op.ns = 777;
    profile_add_op(pool, &profile, op);
    profile_ready(pool, &profile);
    CHECK_NEAR(node_time(&device, node, &choice, 5, &basis), 777, 0);
    CHECK_INT(basis, TIME_MEASURED);
}

/* A described GPU: aligned to 256, no workspaces, and its plan is a plan. */
static void gpus(void)
{
    Graph        *g = graph_new(pool, F32);
    const Profile profile = {
        .name = "GPU", .title = "t", .gpu = true, .launch_ns = 1, .usable_bytes = 1 << 30
    };
    const Device gpu = { .kind = DEVICE_CUDA,
                         .name = "GPU",
                         .threads = 1,
                         .align = 256,
                         .profile = &profile,
                         .described = true };
    Engine      *engine;
    Tensor       x = in(g, "x", F32, SHAPE(1, 9, 9, 3)), w = in(g, "w", F32, SHAPE(3, 3, 3, 5));
    Tensor       h = silu(conv_op(x, w, tensor_none(g), conv_attr(1, 1)));
    graph_output(mse_loss(h, in(g, "t", F32, SHAPE(1, 9, 9, 5)), 1), "loss");
    CHECK(!device_has_kernels(&gpu));
    CHECK_OK(engine_new(pool, g, &gpu, NULL, &engine));
    for (int32_t i = 0; i < g->n_values; i++)
        CHECK(engine->offset[i] < 0 || engine->offset[i] % 256 == 0);
    for (int p = 0; p < engine->n_programs; p++) {
        const Program *program = &engine->programs[p];
        for (int32_t i = 0; i < program->buffers.n_buffers; i++)
            CHECK_INT(program->buffers.buffers[i].offset % 256, 0);
        for (int32_t i = 0; i < program->pgraph->n_nodes; i++)
            CHECK_INT(program->pgraph->nodes[i].workspace, 0);
    }
    CHECK_INT(engine->persistent_bytes % 256, 0);
    CHECK_TEXT(engine_time_source(engine), "roofline of profile GPU");
    CHECK_NEAR(engine_time_share(engine, TIME_ROOFLINE), 1, 1e-12);
    CHECK_NEAR(engine_step_ns(engine, 1), engine->cost_ns, 1e-6);
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(keys);
    RUN(times);
    RUN(gpus);
    pool_free(pool);
    return test_end();
}
