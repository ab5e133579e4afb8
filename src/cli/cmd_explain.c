/* cmd_explain.c -- `explain`: where the memory of one training step goes, to the byte. */
#include "cli/model_options.h"

#include "base/file.h"
#include "base/terminal.h"
#include "base/text.h"
#include "fit/whatif.h"
#include "report/explain_pages.h"

#include <string.h>

static ModelOptions model = { .shares = true, .paced = true };
static struct {
    const char *html, *md, *allow, *plan;
    int64_t     effort;
    double      time_limit;
    bool        json, what_if;
} opt;

/* clang-format off */
static const Option options[] = {
    MODEL_OPTIONS(model),
    LOSS_OPTION(model),
    RANK_OPTIONS(model),
    { "what-if",    OPT_FLAG,   &opt.what_if,    NULL,   "plan again with each lever, alone and "
                                                         "together (on with --html, --md)" },
    { "allow",      OPT_TEXT,   &opt.allow,      "LIST", "numeric levers that plans may use; see fit" },
    { "effort",     OPT_INT,    &opt.effort,     "N",    "search moves of each search; -1: only "
                                                         "the balance sheet" },
    { "time-limit", OPT_SECONDS,&opt.time_limit, "S",    "time limit of --what-if in seconds; "
                                                         "default 60" },
    { "plan",       OPT_TEXT,   &opt.plan,       "FILE", "show this plan beside everything kept" },
    { "html",       OPT_TEXT,   &opt.html,       "FILE",
      "write one interactive page that opens offline" },
    { "md",         OPT_TEXT,   &opt.md,         "FILE", "write a report in Markdown" },
    { "json",       OPT_FLAG,   &opt.json,       NULL,   "print the whole sheet as JSON" },
    { 0 }
};
/* clang-format on */

/* The plan within the budget, or of a file. "Nothing fits" is an answer here, not a failure. */
static Err explain_plan(Pool *pool, Explained *e, unsigned allow)
{
    if (!opt.plan && !e->budget_bytes)
        return OK;
    e->fit = NEW(pool, FitResult);
    if (opt.plan)
        return fit_read(pool, opt.plan, e->recipe, e->device, false, e->fit);
    FitOptions how = { .budget_bytes = e->budget_bytes > 0 ? e->budget_bytes : 1,
                       .allow = allow,
                       .shard_auto = model_shards(&model),
                       .effort = opt.effort > 0 ? opt.effort : 0,
                       .time_limit_s = opt.time_limit,
                       .progress = terminal_draws() ? show_planning : NULL };
    if (e->budget_bytes < 0) /* less than the GPU's runtime: a short search will do */
        how.effort = EXPLAIN_EFFORT;
    Err err = e->budget_bytes < 0 ? fit_plan(pool, e->recipe, e->device, &how, e->fit)
                                  : fit_run(pool, e->recipe, e->device, &how, e->fit);
    return err == E_BUDGET ? OK : err;
}

static Err explain_usage(int n_args, unsigned *allow)
{
    if (n_args != 1)
        return fail(E_USAGE, "explain takes one recipe: plimsoll explain MODEL");
    if (opt.effort < -1)
        return fail(E_USAGE, "--effort takes -1, 0 or the number of search moves, not %lld",
                    (long long)opt.effort);
    if (opt.html)
        TRY(file_try(opt.html));
    if (opt.md)
        TRY(file_try(opt.md));
    return opt.allow ? allow_read(opt.allow, allow) : OK;
}

static Err explain_what_if(Pool *pool, Explained *e, unsigned allow)
{
    WhatIfOptions how = { .time_limit_s = opt.time_limit > 0 ? opt.time_limit : WHAT_IF_SECONDS,
                          .effort = opt.effort > 0 ? opt.effort : 0,
                          .allow = opt.allow ? allow : ALLOW_DEFAULT | ALLOW_PRECISION,
                          .curve = opt.html || opt.md,
                          .progress = terminal_draws() ? show_planning : NULL };
    return opt.what_if || opt.html || opt.md ? whatif_run(pool, e, &how) : OK;
}

static Err explain_files(Pool *pool, const Explained *e)
{
    Text text = { .pool = pool };
    if (opt.html)
        TRY(explain_html(opt.html, e));
    if (!opt.md)
        return OK;
    TRY(explain_md(&text, e));
    return file_write(opt.md, text.at, text.n);
}

static Err explain_open(Pool *pool, const char *name, Recipe **recipe, Device **device,
                        ExplainOptions *how)
{
    Err err = model_open(pool, &model, name, NULL, 0, recipe, device, &how->budget_bytes);
    if (err && err != E_BUDGET) /* E_BUDGET: less than the GPU's runtime, an answer */
        return err;
    if (err && !how->budget_bytes)
        how->budget_bytes = -1; /* 0 would mean: no budget given */
    return OK;
}

static Err cmd_explain_run(Pool *pool, int n_args, char **args)
{
    Recipe        *recipe;
    Device        *device;
    Explained     *e;
    ExplainOptions how = { .effort = opt.effort, .batches = opt.effort >= 0 };
    unsigned       allow = ALLOW_DEFAULT;

    TRY(explain_usage(n_args, &allow));
    how.no_split = !(allow & ALLOW_SPLIT);
    TRY(explain_open(pool, args[0], &recipe, &device, &how));
    TRY(explained_sheet(pool, recipe, device, &how, &e));
    if (model_share(&model)) /* the sheet has found what everything kept needs */
        TRY(budget_of_kept(model_share(&model), e->sheet->peak_bytes, &e->budget_bytes));
    bool early = !opt.json && !opt.plan; /* a plan file may be refused: print later */
    if (early) {
        explain_text_sheet(stdout, e, terminal_colours(stdout));
        fflush(stdout); /* the searches that follow take a while */
    }
    TRY(explained_minimum(pool, e, &how));
    TRY(explain_plan(pool, e, allow));
    TRY(explained_plan(pool, e));
    TRY(explain_what_if(pool, e, allow));
    TRY(explain_files(pool, e));
    if (opt.json)
        return explain_json(stdout, e);
    if (!early)
        explain_text_sheet(stdout, e, terminal_colours(stdout));
    explain_text_rest(stdout, e, terminal_colours(stdout));
    next_command("fit %s%s --budget %s -o plan.json", text_word(pool, args[0]),
                 model_words(pool, &model),
                 model.budget                  ? model.budget
                 : device->kind == DEVICE_CUDA ? "80%"
                                               : "80%kept");
    return OK;
}

const Command cmd_explain = { "explain",
                              "MODEL [--budget B] [--what-if] [--json] [--html F] [--md F]",
                              "show where the memory of one training step goes", options,
                              cmd_explain_run };
