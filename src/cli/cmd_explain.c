/* cmd_explain.c -- `explain`: where the memory of one training step goes, to the byte. */
#include "cli/model_options.h"

#include "report/explain.h"

#include <unistd.h>

static ModelOptions model;
static struct { const char *html; int64_t effort; bool json; } opt;

static const Option options[] = {
    MODEL_OPTIONS(model),
    { "effort", OPT_INT, &opt.effort, "N", "of the search for the least budget" },
    { "html", OPT_TEXT, &opt.html, "FILE", "one interactive page that opens offline" },
    { "json", OPT_FLAG, &opt.json, NULL, "the whole sheet as JSON" },
    { 0 }
};

static Err cmd_explain_run(Pool *pool, int n_args, char **args)
{
    Recipe        *recipe;
    Device        *device;
    Explained     *e;
    ExplainOptions how = { .effort = opt.effort };

    if (n_args != 1)
        return fail(E_USAGE, "explain takes one recipe: plimsoll explain MODEL");
    TRY(model_open(pool, &model, args[0], NULL, 0, &recipe, &device, &how.budget_bytes));
    how.batches = how.budget_bytes || opt.html;
    TRY(explained_new(pool, recipe, device, &how, &e));
    if (opt.html)
        TRY(explain_html(opt.html, e));
    if (opt.json)
        return explain_json(stdout, e);
    explain_text(stdout, e, isatty(1));
    return OK;
}

const Command cmd_explain = {
    "explain", "MODEL [--budget B] [--json]", "where the memory of one training step goes", options, cmd_explain_run
};
