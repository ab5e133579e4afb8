/* recipe_phases.c -- adds the graphs of validation and sampling to a training graph. */
#include "recipe/recipe_phases.h"

#include "base/int_math.h"
#include "ops/elementwise/basic.h"
#include "ops/optimizer/optim.h"

/* Replaces a parameter by its average, rounded to the compute type once per phase. */
static Tensor phase_average(Graph *graph, Param *param)
{
    bool         divided = param_shards(graph, param, param->ema) != NULL;
    const Value *value = value_at(graph, param->value), *before;
    int32_t      module = graph->module;
    Source       source = graph->source;
    if (param->ema < 0)
        return (Tensor){ graph, param->value };
    if (value->type == F32 && !divided) {
        param->stands = param->ema;
        return (Tensor){ graph, param->ema };
    }
    before = param->stands >= 0 ? value_at(graph, param->stands) : NULL;
    if (before && before->producer >= 0 && graph->nodes[before->producer].phase == graph->phase)
        return (Tensor){ graph, param->stands };
    graph->module = value->module;
    graph->source = value->source;
    Tensor average = divided ? rank_average(graph, param) : (Tensor){ graph, param->ema };
    param->stands = value->type == F32 ? average.id : cast(average, value->type).id;
    graph->module = module;
    graph->source = source;
    return (Tensor){ graph, param->stands };
}

/* Other phases count masked elements themselves. */
static const BuildOptions *phase_options(Graph *graph, int64_t split)
{
    BuildOptions *options = NEW(graph->pool, BuildOptions);
    *options = *graph->build;
    options->counts_given = false;
    options->split = split;
    return options;
}

static void build_validate(const Recipe *recipe, TrainingGraph *out)
{
    Graph     *graph = out->graph;
    Validation v = recipe_validation(recipe);
    int32_t    n_outputs = graph->n_outputs;
    graph->phase = PHASE_VALIDATE;
    graph->build = phase_options(graph, v.split);
    Tensor loss = recipe->model->loss(graph, recipe->config, v.batch, v.batches);
    graph->n_outputs = n_outputs; /* nobody reads the prediction: it may be freed */
    graph->module = 0;
    graph->source = (Source){ 0 };
    if (tensor_ok(loss))
        /* reuses the step's loss, which has been read by now */
        accumulate(out->train.loss, loss, out->train.counters);
    graph->phase = PHASE_MICRO;
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
    graph->build = phase_options(graph, recipe->levers.split);
    graph->drawn_all = recipe->sample.n;
    graph->drawn_here = ceil_div(recipe->sample.n, int_max(recipe->levers.ranks, 1));
    if (sample)
        recipe->model->sample_graph(graph, recipe->config, &recipe->sampler, graph->drawn_here);
    graph->stand_in = NULL;
    graph->phase = PHASE_MICRO;
    graph->module = 0;
    TRY(graph_check(graph));
    REQUIRE(graph->n_params == n); /* a phase adds no weights */
    /* Building the model again may have changed these: the training graph's values hold. */
    for (int32_t i = 0; i < n; i++) {
        graph->params[i].init = params[i].init;
        graph->params[i].frozen = params[i].frozen;
    }
    return OK;
}
