/* cmd_explain.c -- `explain`: where the memory of one training step goes, to the byte. */
#include "cli/cli.h"

#include "base/text.h"
#include "report/explain.h"

static struct {
    const char *budget, *precision, *backend;
    int64_t     batch, threads;
    bool        json;
    TextList    set;
} opt;

static const Option options[] = {
    { "batch",     OPT_INT,  &opt.batch,     "N",         "samples of one micro-batch" },
    { "precision", OPT_TEXT, &opt.precision, "P",         "fp32, bf16 or fp16" },
    { "budget",    OPT_TEXT, &opt.budget,    "B",         "does it fit this? 16GiB, 24GB, 80%" },
    { "threads",   OPT_INT,  &opt.threads,   "N",         "of every kernel; scratch depends on it" },
    { "backend",   OPT_TEXT, &opt.backend,   "NAME",      "onednn or own matrix products" },
    { "set",       OPT_LIST, &opt.set,       "KEY=VALUE", "override a recipe key, e.g. model.heads=8" },
    { "json",      OPT_FLAG, &opt.json,      NULL,        "the whole sheet as JSON" },
    { 0 }
};

static Err cmd_explain_run(Pool *pool, int n_args, char **args)
{
    Recipe       *recipe;
    Device       *device;
    Engine       *engine;
    Sheet        *sheet;
    TrainingGraph graph;
    const char   *sets[80];
    int           n = 0;

    if (n_args != 1)
        return fail(E_USAGE, "explain takes one recipe: plimsoll explain MODEL");
    for (int i = 0; i < opt.set.n; i++)
        sets[n++] = opt.set.items[i];
    if (opt.batch)
        sets[n++] = pool_print(pool, "batch=%lld", (long long)opt.batch);
    if (opt.precision)
        sets[n++] = pool_print(pool, "precision=%s", opt.precision);
    TRY(recipe_read(pool, args[0], sets, n, &recipe));
    TRY(device_cpu(pool, &(DeviceOptions){ .threads = (int)opt.threads, .blas = opt.backend }, &device));
    TRY(recipe_graph(pool, recipe, false, &graph));
    TRY(engine_new(pool, graph.graph, device, NULL, &engine));
    TRY(sheet_new(pool, engine, &sheet));

    Explained e = { .recipe = recipe, .sheet = sheet };
    if (opt.budget)
        TRY(bytes_read(opt.budget, device->memory_bytes, &e.budget_bytes));
    for (int i = 0; i < engine->n_programs; i++)
        e.step_ms += engine->programs[i].meter.cost * 1e-6 *
                     (engine->programs[i].parts[PART_MICRO] ? (double)recipe->accumulate : 1);
    if (opt.json)
        return explain_json(stdout, &e);
    explain_text(stdout, &e);
    return OK;
}

const Command cmd_explain = {
    "explain", "MODEL [--budget B] [--json]", "where the memory of one training step goes", options, cmd_explain_run
};
