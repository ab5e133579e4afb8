/* sashimi_run.h -- a session of sashimi-small with some keys set, and its weights as a sampler reads
 * them. */
#ifndef TESTS_MODELS_SASHIMI_RUN_H
#define TESTS_MODELS_SASHIMI_RUN_H

#include "test.h"

#include "exec/session.h"
#include "models/sashimi.h"
#include "recipe/recipe.h"

typedef struct Run {
    Pool    *pool;
    Recipe  *recipe;
    Session *session;
    int32_t *tokens; /* (batch, length), where the test has them */
} Run;

static inline Run run_of(const char *const *sets, int n)
{
    Run           r = { .pool = pool_new(NULL, "run") };
    TrainingGraph train;
    Device       *device;
    Engine       *engine;
    CHECK_OK(recipe_read(r.pool, SOURCE_DIR "/recipes/sashimi-small.yaml", sets, n, &r.recipe));
    CHECK_OK(device_cpu(r.pool, &(DeviceOptions){ .threads = 2, .backend = "builtin" }, &device));
    CHECK_OK(recipe_graph(r.pool, r.recipe, false, &train));
    CHECK_OK(engine_new(r.pool, train.graph, device, NULL, &engine));
    CHECK_OK(session_new(r.pool, engine, &r.session));
    CHECK_OK(session_init(r.session, 5));
    return r;
}

static inline const float *run_weight(Sampler *s, const char *name)
{
    Run   *r = s->own;
    Graph *graph = session_engine(r->session)->graph;
    Param *p = param_find(graph, name);
    if (!p)
        return NULL;
    float *data = NEWN(r->pool, float, shape_count(p->disk));
    session_get_param(r->session, (int32_t)(p - graph->params), p->value, data);
    return data;
}

#endif
