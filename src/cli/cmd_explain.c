/* cmd_explain.c -- `explain`: where the memory of one training step goes, to the byte. */
#include "cli/model_options.h"

#include "report/explain.h"

static ModelOptions model;
static struct { bool json; } opt;

static const Option options[] = {
    MODEL_OPTIONS(model),
    { "json", OPT_FLAG, &opt.json, NULL, "the whole sheet as JSON" },
    { 0 }
};

static Err cmd_explain_run(Pool *pool, int n_args, char **args)
{
    Recipe       *recipe;
    Device       *device;
    Engine       *engine;
    Sheet        *sheet;
    TrainingGraph graph;
    Explained     e = { 0 };

    if (n_args != 1)
        return fail(E_USAGE, "explain takes one recipe: plimsoll explain MODEL");
    TRY(model_open(pool, &model, args[0], NULL, 0, &recipe, &device, &e.budget_bytes));
    TRY(recipe_graph(pool, recipe, false, &graph));
    TRY(engine_new(pool, graph.graph, device, NULL, &engine));
    TRY(sheet_new(pool, engine, &sheet));

    e.recipe = recipe;
    e.sheet = sheet;
    e.step_ms = engine_step_ns(engine, recipe->accumulate) * 1e-6;
    e.runtime_bytes = device_runtime_bytes(device, 0);
    if (opt.json)
        return explain_json(stdout, &e);
    explain_text(stdout, &e);
    return OK;
}

const Command cmd_explain = {
    "explain", "MODEL [--budget B] [--json]", "where the memory of one training step goes", options, cmd_explain_run
};
