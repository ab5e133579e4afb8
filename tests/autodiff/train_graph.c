/* train_graph.c -- the update phase against plain formulas in double, over several steps and
 * micro-batches. */
#include "profile/devices.h"
#include "test.h"

#include "autodiff/autodiff.h"
#include "base/random.h"
#include "exec/session.h"
#include "ops/elementwise/basic.h"
#include "ops/optimizer/optim.h"

#include <stdlib.h>

/* loss = sum over elements of g * w, so that the gradient of w is the fed g: the update is all
 * there is. */
static Err dot_shape(Node *n)
{
    out_set(n, 0, F32, SHAPE(1));
    return OK;
}
static Cost dot_cost(const Node *n) { return (Cost){ .bytes = node_bytes(n) }; }
static Err  dot_cpu(const Call *call)
{
    double sum = 0;
    for (int64_t i = 0; i < shape_count(in_shape(call->node, 1)); i++)
        sum += (double)((float *)call->in[1])[i];
    *(float *)call->out[0] = (float)sum;
    return OK;
}
static Err scale_shape(Node *n)
{
    out_set(n, 0, F32, in_shape(n, 0));
    return OK;
}
static Err scale_cpu(const Call *call)
{
    for (int64_t i = 0; i < shape_count(in_shape(call->node, 0)); i++)
        ((float *)call->out[0])[i] = ((float *)call->in[0])[i] * *(float *)call->in[1];
    return OK;
}
static const OpDef op_scale = { .name = "scale",
                                .n_in = 2,
                                .n_out = 1,
                                .shape = scale_shape,
                                .cost = dot_cost,
                                .cpu = { .run = scale_cpu } };
static void        dot_grad(Grad *g)
{
    grad_give(g, 0,
              node_add(g->graph, &op_scale, NULL, TENSORS(grad_in(g, 1), grad_dy(g, 0)), NULL));
}
static const OpDef op_dot = { .name = "dot",
                              .n_in = 2,
                              .n_out = 1,
                              .shape = dot_shape,
                              .grad = dot_grad,
                              .cost = dot_cost,
                              .cpu = { .run = dot_cpu } };

enum { N = 37, STEPS = 4 };

typedef struct Truth { /* the same in double */
    double p[N], m[N], v[N], e[N];
} Truth;

static void truth_step(Truth *t, const TrainSpec *spec, const double *grad, double lr, double decay,
                       double ema, int step)
{
    double norm = 0, factor = 1;
    for (int i = 0; i < N; i++)
        norm += grad[i] * grad[i];
    norm = sqrt(norm);
    if (spec->clip > 0 && (double)spec->clip / (norm + 1e-6) < 1)
        factor = (double)spec->clip / (norm + 1e-6);
    for (int i = 0; i < N; i++) {
        double g = grad[i] * factor, b1 = (double)spec->beta1, b2 = (double)spec->beta2;
        if (spec->optimizer == OPTIMIZER_ADAM)
            g += decay * t->p[i];
        else
            t->p[i] *= 1 - lr * decay;
        if (spec->optimizer == OPTIMIZER_SGD) {
            t->m[i] = b1 * t->m[i] + g;
            t->p[i] -= lr * t->m[i];
        } else {
            t->m[i] = b1 * t->m[i] + (1 - b1) * g;
            t->v[i] = b2 * t->v[i] + (1 - b2) * g * g;
            t->p[i] -= lr / (1 - pow(b1, step)) * t->m[i] /
                       (sqrt(t->v[i] / (1 - pow(b2, step))) + (double)spec->eps);
        }
        t->e[i] -= (1 - ema) * (t->e[i] - t->p[i]);
    }
}

static void compare(Type compute, TrainSpec spec, double tol)
{
    Pool      *pool = pool_new(NULL, "train");
    ParamGroup groups[] = { { "slow", 0.002f, 0.0f, "gone|other" }, { "all", 0.01f, 0.1f, NULL } };
    Device    *device;
    Engine    *engine;
    Session   *session;
    TrainGraph train;
    Truth      truth = { 0 };
    RandomKey  key = { .seed = 5 };

    spec.groups = groups;
    spec.n_groups = 2;
    spec.ema = true;
    Graph *graph = graph_new(pool, compute);
    Tensor w = param_add(graph, "w", SHAPE(N), (Init){ .kind = INIT_NORMAL, .scale = 0.5f });
    Tensor frozen = param_add(graph, "frozen", SHAPE(N), (Init){ .kind = INIT_ONES });
    param_find(graph, "frozen")->frozen = true;
    Tensor unused = param_add(graph, "unused", SHAPE(3), (Init){ .kind = INIT_ONES });
    Tensor g = feed(graph, "g", F32, SHAPE(N));
    (void)unused;
    Tensor loss = add(node_add(graph, &op_dot, NULL, TENSORS(w, g), NULL),
                      node_add(graph, &op_dot, NULL, TENSORS(frozen, g), NULL));
    CHECK_OK(autodiff_train(graph, loss, &spec, &train));
    CHECK(!param_find(graph, "frozen")->trained && param_find(graph, "frozen")->m < 0);
    CHECK(!param_find(graph, "unused")->trained && param_find(graph, "unused")->grad < 0);
    CHECK_INT(param_find(graph, "w")->group, 1);
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 2 }, &device));
    CHECK_OK(engine_new(pool, graph, device, NULL, &engine));
    CHECK_OK(session_new(pool, engine, &session));
    CHECK_OK(session_init(session, 3));
    Param *param = param_find(graph, "w");
    float  start[N], fed[N], now[N];
    session_get_param(session, 0, param->master >= 0 ? param->master : param->value, start);
    for (int i = 0; i < N; i++)
        truth.p[i] = truth.e[i] = (double)start[i];

    for (int step = 1; step <= STEPS; step++) {
        double   total[N] = { 0 }, ema = step == 1 ? 0 : 0.75;
        int32_t *counters = session_bytes(session, train.counters.id);
        float   *rates = session_bytes(session, train.rates.id);
        rates[RATE_EMA_DECAY] = (float)ema;
        rates[RATE_GROUPS] = 99; /* the other group's: must not be used */
        rates[RATE_GROUPS + 1] = 0.01f / (float)step;
        CHECK_OK(session_feed(session, "g", fed));
        for (int micro = 0; micro < spec.accumulate; micro++) {
            counters[COUNTER_MICRO] = micro;
            for (int i = 0; i < N; i++) {
                fed[i] = random_normal_at(key, (uint64_t)((step * 10 + micro) * N + i));
                total[i] += (double)fed[i];
            }
            CHECK_OK(session_run(session, PHASE_MICRO));
        }
        CHECK_OK(session_run(session, PHASE_UPDATE));
        truth_step(&truth, &spec, total, 0.01 / step, 0.1, ema, step);
        session_get_param(session, 0, param->master >= 0 ? param->master : param->value, now);
        for (int i = 0; i < N; i++)
            if (!CHECK_NEAR((double)now[i], truth.p[i], tol))
                break;
        session_get_param(session, 0, param->ema, now);
        for (int i = 0; i < N; i++)
            if (!CHECK_NEAR((double)now[i], truth.e[i], tol))
                break;
        if (param->master >= 0) { /* the compute copy is the rounded master */
            float rounded[N];
            session_get_param(session, 0, param->master, now);
            session_get_param(session, 0, param->value, rounded);
            for (int i = 0; i < N; i++)
                CHECK_NEAR((double)rounded[i], (double)now[i], 0.004 * fabs((double)now[i]));
        }
    }
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        if (session_measured_bytes(session, (Phase)phase))
            CHECK_INT(session_measured_bytes(session, (Phase)phase),
                      session_planned_bytes(session, (Phase)phase));
    pool_free(pool);
}

static void adamw(void)
{
    compare(F32, (TrainSpec){ OPTIMIZER_ADAMW, 0.9f, 0.99f, 1e-8f, .accumulate = 1 }, 2e-6);
}
static void adamw_micro(void)
{
    compare(F32, (TrainSpec){ OPTIMIZER_ADAMW, 0.9f, 0.99f, 1e-8f, .accumulate = 3 }, 2e-6);
}
static void adamw_clip(void)
{
    compare(F32, (TrainSpec){ OPTIMIZER_ADAMW, 0.9f, 0.99f, 1e-8f, .clip = 1, .accumulate = 2 },
            2e-6);
}
static void adam_l2(void)
{
    compare(F32, (TrainSpec){ OPTIMIZER_ADAM, 0.8f, 0.95f, 1e-6f, .accumulate = 1 }, 2e-6);
}
static void sgd_momentum(void)
{
    compare(F32, (TrainSpec){ OPTIMIZER_SGD, 0.9f, 0.0f, 0.0f, .accumulate = 1 }, 2e-6);
}
static void adamw_bf16(void)
{
    compare(BF16, (TrainSpec){ OPTIMIZER_ADAMW, 0.9f, 0.99f, 1e-8f, .accumulate = 2 }, 2e-6);
}

int main(void)
{
    RUN(adamw);
    RUN(adamw_micro);
    RUN(adamw_clip);
    RUN(adam_l2);
    RUN(sgd_momentum);
    RUN(adamw_bf16);
    return test_end();
}
