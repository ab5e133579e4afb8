/* cmd_fit.c -- `fit`: the fastest plan within a budget, proven by placing every buffer. */
#include "cli/model_options.h"

#include "base/json_out.h"
#include "base/text.h"
#include "plan/engine.h"
#include "report/machine.h"

#include <unistd.h>

static ModelOptions model;
static struct { int64_t effort, seed; double time_limit; bool json; } opt;

static const Option options[] = {
    MODEL_OPTIONS(model),
    { "effort",     OPT_INT,    &opt.effort,     "N",  "search moves; the default takes about 10 s on 2 cores" },
    { "time-limit", OPT_NUMBER, &opt.time_limit, "S",  "cut the search off after S seconds" },
    { "seed",       OPT_INT,    &opt.seed,       "N",  "of the search" },
    { "json",       OPT_FLAG,   &opt.json,       NULL, "print the result as JSON" },
    { 0 }
};

static Err fit_json(const Recipe *recipe, const Engine *engine, int64_t budget)
{
    JsonOut o;
    json_out_stream(&o, stdout, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_string(&o, "model", recipe->name);
    json_out_string(&o, "device", engine->device->name);
    json_out_bool(&o, "fits", true);
    json_out_int(&o, "budget_bytes", budget);
    json_out_int(&o, "peak_bytes", engine->arena_bytes);
    json_out_int(&o, "keep_all_bytes", engine->keep_all_bytes);
    json_out_int(&o, "persistent_bytes", engine->persistent_bytes);
    json_out_object_row(&o, "plan");
    json_out_int(&o, "micro_batch", recipe->batch);
    json_out_int(&o, "accumulate", recipe->accumulate);
    json_out_string(&o, "precision", recipe_precisions[recipe->precision]);
    json_out_int(&o, "recompute_nodes", engine->recomputed);
    json_out_end(&o);
    json_out_int(&o, "runtime_bytes", device_runtime_bytes(engine->device, 0));
    time_json(&o, engine, engine_step_ns(engine, recipe->accumulate) * 1e-6, engine->cost_ns / engine->keep_all_ns);
    json_out_end(&o);
    return json_out_done(&o);
}

static Err cmd_fit_run(Pool *pool, int n_args, char **args)
{
    Recipe       *recipe;
    Device       *device;
    Engine       *engine;
    TrainingGraph graph;
    EngineOptions plan = { .effort = opt.effort, .time_limit_s = opt.time_limit, .seed = (uint64_t)opt.seed };

    if (n_args != 1)
        return fail(E_USAGE, "fit takes one recipe: plimsoll fit MODEL --budget 16GiB");
    TRY(model_open(pool, &model, args[0], NULL, 0, &recipe, &device, &plan.budget_bytes));
    if (!plan.budget_bytes)
        plan.budget_bytes = device->memory_bytes;    /* what can really be taken */
    if (!opt.json && isatty(2))
        plan.progress = show_planning;
    TRY(recipe_graph(pool, recipe, false, &graph));
    TRY(engine_new(pool, graph.graph, device, &plan, &engine));
    if (opt.json)
        return fit_json(recipe, engine, plan.budget_bytes);
    printf("%s fits %s: one step needs %s bytes (%s), every buffer placed.\n", recipe->name, bytes_text(plan.budget_bytes),
           count_text(engine->arena_bytes), bytes_text(engine->arena_bytes));
    if (engine->recomputed)
        printf("With everything kept it would need %s. %d nodes are run a second time: %+.1f %% of the step's time, "
               "predicted.\n", bytes_text(engine->keep_all_bytes), engine->recomputed,
               100 * (engine->cost_ns / engine->keep_all_ns - 1));
    else
        printf("Everything is kept; nothing is run twice.\n");
    printf("On %s; %s.\n", device_text(pool, device), runtime_text(pool, device, device_runtime_bytes(device, 0)));
    printf("Predicted step time %.1f ms, by %s.\n", engine_step_ns(engine, recipe->accumulate) * 1e-6,
           time_text(pool, engine));
    return OK;
}

const Command cmd_fit = {
    "fit", "MODEL --budget B", "the fastest plan that stays within a budget", options, cmd_fit_run
};
