/* phases.c -- the parts of validation and sampling, and running them. */
#include "train/phases.h"

#include "base/file.h"
#include "ops/basic.h"
#include "ops/optim.h"
#include "train/drawing.h"
#include "train/feeds.h"

#include <stdio.h>

/* ---- building ---- */

/* The average of a parameter in its stead, in the compute type; rounded once a part. */
static Tensor phase_average(Graph *graph, Param *param)
{
    const Value *value = value_at(graph, param->value), *before;
    int32_t      module = graph->module;
    Source       source = graph->source;
    if (param->ema < 0)
        return (Tensor){ graph, param->value };
    if (value->type == F32) {
        param->stands = param->ema;
        return (Tensor){ graph, param->ema };
    }
    before = param->stands >= 0 ? value_at(graph, param->stands) : NULL;
    if (before && before->maker >= 0 && graph->nodes[before->maker].part == graph->part)
        return (Tensor){ graph, param->stands };
    graph->module = value->module;
    graph->source = value->source;
    param->stands = cast((Tensor){ graph, param->ema }, value->type).id;
    graph->module = module;
    graph->source = source;
    return (Tensor){ graph, param->stands };
}

static void build_validate(const Recipe *recipe, TrainingGraph *out)
{
    Graph     *graph = out->graph;
    Validation v = recipe_validation(recipe);
    int32_t    n_outputs = graph->n_outputs;
    graph->part = PART_VALIDATE;
    graph->pieces = v.pieces;
    Tensor loss = recipe->model->loss(graph, recipe->config, v.batch, v.batches);
    graph->n_outputs = n_outputs;            /* nobody reads a prediction here: it need not stay */
    graph->module = 0;
    graph->source = (Source){ 0 };
    if (tensor_ok(loss))
        /* the step's own has been read by now */
        accumulate(out->train.loss, loss, out->train.counters);
    graph->pieces = recipe->levers.pieces;
    graph->part = PART_MICRO;
}

Err phases_build(const Recipe *recipe, TrainingGraph *out)
{
    Graph *graph = out->graph;
    bool   validate = recipe->validate.every > 0, sample = recipe->sample.every > 0;
    if (!validate && !sample)
        return OK;
    int32_t n = graph->n_params;
    Param  *params = NEWN(graph->pool, Param, n);
    for (int32_t i = 0; i < n; i++)
        params[i] = graph->params[i];
    graph->stand_in = phase_average;
    if (validate)
        build_validate(recipe, out);
    if (sample)
        recipe->model->sample_graph(graph, recipe->config, &recipe->sampler, recipe->sample.n);
    graph->stand_in = NULL;
    graph->part = PART_MICRO;
    graph->module = 0;
    TRY(graph_check(graph));
    REQUIRE(graph->n_params == n);           /* a phase brings no weights of its own */
    /* a model may change a start when it is built: once is enough */
    for (int32_t i = 0; i < n; i++) {
        graph->params[i].init = params[i].init;
        graph->params[i].frozen = params[i].frozen;
    }
    return OK;
}

/* ---- running ---- */

/* Validation's numbers come from a step that training never takes. */
enum { VALIDATION_STEP = -1 };

struct Phases {
    const Recipe        *recipe;
    const TrainingGraph *graph;
    Session             *session;
    Feeds                held;
    Drawing             *drawing;            /* NULL: nothing is sampled */
    const char          *folder;
    int32_t              counters[COUNTER_WORDS];
};

/* A run that was killed while it drew may have left half a file, in any of the folders. */
static void phases_tidy(Pool *pool, const char *folder)
{
    Pool  *work = pool_new(pool, "tidy");
    char **names;
    int    n;
    if (folder_exists(folder) && !folder_list(work, folder, &names, &n))
        for (int i = 0; i < n; i++)
            folder_tidy(pool_print(work, "%s/%s", folder, names[i]));
    pool_free(work);
}

Err phases_open(Pool *pool, Session *session, const Recipe *recipe, const TrainingGraph *graph,
                const char *out, bool quiet, Phases **phases)
{
    Phases *p = *phases = NEW(pool, Phases);
    *p = (Phases){ .recipe = recipe, .graph = graph, .session = session };
    if (recipe->validate.every > 0) {
        TRY(feeds_new(pool, session, PART_VALIDATE, &p->held));
        TRY(feeds_open_held(pool, &p->held, recipe));
    }
    if (recipe->sample.every > 0 && out) {
        p->folder = pool_print(pool, "%s/samples", out);
        phases_tidy(pool, p->folder);
        TRY(drawing_new(
            pool, session, recipe,
            &(DrawingOptions){
                .n = recipe->sample.n, .seed = recipe->seed, .averaged = true, .quiet = quiet },
            &p->drawing));
        TRY(drawing_prepare(p->drawing));
    }
    return session_read(session, graph->train.counters.id, p->counters);
}

int64_t phases_bytes(const Phases *p)
{
    return p->held.bytes + (p->drawing ? drawing_bytes(p->drawing) : 0);
}

bool phase_due(const EveryConfig *every, int64_t step)
{
    return every->every > 0 && step % every->every == 0;
}

Err phases_validate(Phases *p, double *loss)
{
    Validation v = recipe_validation(p->recipe);
    float      sum;
    p->counters[COUNTER_STEP] = VALIDATION_STEP;
    for (int64_t i = 0; i < v.batches; i++) {
        p->counters[COUNTER_MICRO] = (int32_t)i;
        TRY(session_write(p->session, p->graph->train.counters.id, p->counters));
        TRY(feeds_fill(&p->held, i, i * v.batch));
        TRY(session_run(p->session, PART_VALIDATE));
    }
    TRY(session_read(p->session, p->graph->train.loss.id, &sum));
    *loss = (double)sum;
    return OK;
}

Err phases_sample(Phases *p, int64_t step)
{
    char folder[FILE_PATH_MAX];
    if (!p->drawing)
        return OK;
    /* as a session that only samples begins */
    p->counters[COUNTER_STEP] = p->counters[COUNTER_MICRO] = 0;
    TRY(session_write(p->session, p->graph->train.counters.id, p->counters));
    snprintf(folder, sizeof folder, "%s/%06lld", p->folder, (long long)step);
    return drawing_again(p->drawing, folder);
}
