/* train_graph.c -- from parameter gradients to the update: accumulation, clip, optimizer, EMA. */
#include "autodiff/autodiff.h"

#include "autodiff/train_ranks.h"
#include "ops/ranks/shard.h"

#include <string.h>

static bool group_matches(const ParamGroup *group, const char *name)
{
    if (!group->match)
        return true;
    size_t length = strlen(name);
    for (const char *at = group->match, *end;; at = end + 1) {
        end = strchr(at, '|');
        size_t n = end ? (size_t)(end - at) : strlen(at);
        if (n && n <= length && !memcmp(name + length - n, at, n))
            return true;
        if (!end)
            return false;
    }
}

int param_group(const TrainSpec *spec, const char *name)
{
    int group = 0;
    while (group + 1 < spec->n_groups && !group_matches(&spec->groups[group], name))
        group++;
    return group;
}

UpdateAttr param_update_attr(const TrainSpec *spec, int group)
{
    return (UpdateAttr){ .beta1 = spec->beta1,
                         .beta2 = spec->beta2,
                         .eps = spec->eps,
                         .decoupled = spec->optimizer != OPTIMIZER_ADAM,
                         .group = group,
                         .decay = spec->groups[group].decay };
}

static Tensor param_state(Graph *graph, const Param *param, const char *what, Class mem_class)
{
    Shape shape = value_at(graph, param->value)->shape;
    return state_add(graph, pool_print(graph->pool, "%s/%s", what, param->name), F32, shape,
                     mem_class, true);
}

static void train_update_param(Graph *graph, int32_t index, const TrainSpec *spec,
                               const TrainGraph *train)
{
    Param     *param = &graph->params[index];
    Tensor     none = tensor_none(graph);
    UpdateIn   in = { .p = { graph, param->value },
                      .grad = { graph, param->grad },
                      .m = none,
                      .v = none,
                      .ema = none,
                      .master = none,
                      .progress = train->progress,
                      .rates = train->rates };
    UpdateAttr attr = param_update_attr(spec, param_group(spec, param->name));
    param->group = attr.group;
    graph->source = value_at(graph, param->value)->source;
    graph->module = value_at(graph, param->value)->module;
    int32_t module = graph->module;

    graph->module = 0; /* state is named after the parameter's full name */
    if (spec->optimizer != OPTIMIZER_SGD || spec->beta1 > 0)
        in.m = param_state(graph, param, "optimizer.m", CLASS_OPTIMIZER);
    if (spec->optimizer != OPTIMIZER_SGD)
        in.v = param_state(graph, param, "optimizer.v", CLASS_OPTIMIZER);
    if (spec->ema)
        in.ema = param_state(graph, param, "ema", CLASS_EMA);
    if (value_at(graph, param->value)->type != F32)
        in.master = param_state(graph, param, "master", CLASS_MASTER);
    param->m = in.m.id;
    param->v = in.v.id;
    param->ema = in.ema.id;
    param->master = in.master.id;
    for (int i = 0; i < 4; i++) {
        int32_t id = (const int32_t[]){ in.ema.id, in.m.id, in.v.id, in.master.id }[i];
        if (id < 0)
            continue;
        Value *value = value_at(graph, id);
        value->module = module;
        value->host_resident = spec->host >= (i == 0 ? HOST_EMA : HOST_STATE) &&
                               value->bytes >= HOST_MINIMUM;
    }
    graph->module = module;
    if (spec->optimizer == OPTIMIZER_SGD)
        sgd(in, attr);
    else
        adam(in, attr);
}

typedef struct Accumulation {
    Graph *graph;
    Tensor counters;
} Accumulation;

/* Each gradient is added in place to a persistent buffer as soon as it is complete, so that
 * accumulating micro-batches needs no second copy of the gradients. */
static Tensor accumulate_final(void *arg, int32_t index, Tensor grad)
{
    Accumulation *a = arg;
    Graph        *graph = a->graph;
    Param        *param = &graph->params[index];
    int32_t       module = value_at(graph, param->value)->module;
    Shape         shape = value_at(graph, param->value)->shape;
    const char   *name = pool_print(graph->pool, "gradient/%s", param->name);

    graph->source = value_at(graph, param->value)->source;
    graph->module = 0;
    Tensor sum = state_add(graph, name, F32, shape, CLASS_GRADIENTS, false);
    value_at(graph, sum.id)->module = graph->module = module;
    accumulate(sum, grad, a->counters);
    return sum;
}

typedef struct Release {
    Graph            *graph;
    const TrainSpec  *spec;
    const TrainGraph *train;
} Release;

static Tensor release_final(void *arg, int32_t index, Tensor grad)
{
    Release *r = arg;
    r->graph->params[index].grad = tensor_class(grad, CLASS_GRADIENTS).id;
    r->graph->phase = PHASE_UPDATE;
    r->graph->backward = false;
    train_update_param(r->graph, index, r->spec, r->train);
    r->graph->backward = true;
    r->graph->phase = PHASE_MICRO;
    return grad;
}

const char *train_no_release(const TrainSpec *spec, Type compute)
{
    return spec->accumulate > 1 ? "gradients are accumulated over several micro-batches"
           : spec->clip > 0     ? "clipping needs all gradients before the first update"
           : compute == F16     ? "fp16 must see all gradients finite before the first update"
                                : NULL;
}

static void train_tick(Graph *graph, Tensor norm, const TrainSpec *spec, const TrainGraph *train)
{
    graph->phase = PHASE_UPDATE;
    tick(train->progress, norm, train->loss,
         (TickAttr){ .beta1 = spec->beta1,
                     .beta2 = spec->beta2,
                     .clip = spec->clip,
                     .scaling = graph->compute == F16,
                     .growth_interval = 2000 });
}

static Tensor train_norm(Graph *graph)
{
    Tensor *grads = NEWN(graph->pool, Tensor, graph->n_params);
    int     n = 0;
    for (int32_t i = 0; i < graph->n_params; i++)
        if (graph->params[i].trained)
            grads[n++] = (Tensor){ graph, graph->params[i].grad };
    return grad_norm(graph, grads, n);
}

/* From complete sums of gradients to new parameters. */
static void train_update(Graph *graph, const TrainSpec *spec, const TrainGraph *train,
                         RankSums *sums)
{
    bool   divided = sums && spec->shard > 0;
    Tensor norm = tensor_none(graph);
    if (sums)
        rank_replay(sums, train->loss);
    if (sums && !divided)
        rank_gather_gradients(sums);
    if (train->measures_norm)
        norm = divided ? shard_norm(graph) : train_norm(graph);
    train_tick(graph, norm, spec, train);
    if (divided)
        rank_update(sums, train);
    for (int32_t i = 0; i < graph->n_params && !divided; i++)
        if (graph->params[i].trained)
            train_update_param(graph, i, spec, train);
}

static Err train_backward(Graph *graph, Tensor loss, Tensor seed, const TrainSpec *spec,
                          TrainGraph *out, RankSums *sums)
{
    Accumulation accumulation = { graph, out->counters };
    Release      release = { graph, spec, out };
    FinalGrad    final_grad = sums            ? (FinalGrad){ rank_sums_final, sums }
                              : spec->release ? (FinalGrad){ release_final, &release }
                                              : (FinalGrad){ accumulate_final, &accumulation };
    bool         plain = !sums && !spec->release && spec->accumulate == 1;
    TRY(autodiff_backward(graph, loss, seed, plain ? NULL : &final_grad));
    if (sums)
        rank_sums_end(sums);
    return graph_check(graph);
}

Err autodiff_train(Graph *graph, Tensor loss, const TrainSpec *spec, TrainGraph *out)
{
    TRY(graph_check(graph));
    REQUIRE(spec->n_groups > 0 && spec->accumulate > 0);
    RankSums *sums = spec->ranks > 1 ? NEW(graph->pool, RankSums) : NULL;
    graph->module = 0;
    graph->source = (Source){ 0 };
    out->measures_norm = spec->clip > 0 || graph->compute == F16;
    out->counters = graph_counters(graph);
    out->rates = state_add(graph, "run.rates", F32, SHAPE(RATE_GROUPS + spec->n_groups),
                           CLASS_INPUTS, false);
    out->progress = state_add(graph, "optimizer.progress", F32, SHAPE(PROGRESS_WORDS),
                              CLASS_CONSTANTS, true);
    out->loss = state_add(graph, "run.loss", F32, SHAPE(1), CLASS_CONSTANTS, false);
    if (sums)
        TRY(rank_sums_begin(graph, loss, spec, out->counters, sums));
    else
        accumulate(out->loss, loss, out->counters);
    Tensor seed = grad_seed(out->progress);
    if (spec->release) {
        REQUIRE(!train_no_release(spec, graph->compute));
        train_tick(graph, tensor_none(graph), spec, out);
        graph->phase = PHASE_MICRO;
    }
    TRY(train_backward(graph, loss, seed, spec, out, sums));
    if (spec->release)
        return OK;

    graph->phase = PHASE_UPDATE;
    graph->source = (Source){ 0 };
    train_update(graph, spec, out, sums);
    graph->phase = PHASE_MICRO;
    graph->module = 0;
    return graph_check(graph);
}
