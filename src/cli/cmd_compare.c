/* cmd_compare.c -- `compare`: which variant fits which budget, as one table. */
#include "cli/model_options.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/terminal.h"
#include "base/text.h"
#include "report/compare_pages.h"

#include <string.h>

static ModelOptions model = { .paced = true };
static struct {
    const char *allow, *md, *html;
    TextList    sweep;
    int64_t     effort;
    double      time_limit;
    bool        json;
} opt;

/* clang-format off */
static const Option options[] = {
    MODEL_OPTIONS(model),
    LOSS_OPTION(model),
    RANK_OPTIONS(model),
    { "sweep",      OPT_LIST,   &opt.sweep,      "KEY=A,B,C", "one row for each value of a key; "
                                                              "several: every combination" },
    { "allow",      OPT_TEXT,   &opt.allow,      "LIST",      "numeric levers that plans may use; "
                                                              "see fit" },
    { "effort",     OPT_NATURAL,&opt.effort,     "N",         "search moves of each search" },
    { "time-limit", OPT_SECONDS,&opt.time_limit, "S",         "start no search after S seconds; "
                                                              "default 60" },
    { "html",       OPT_TEXT,   &opt.html,       "FILE",      "write the table as a page that opens "
                                                              "offline" },
    { "md",         OPT_TEXT,   &opt.md,         "FILE",      "write the table in Markdown" },
    { "json",       OPT_FLAG,   &opt.json,       NULL,        "print the table as JSON" },
    { 0 }
};
/* clang-format on */

enum { MAX_VALUES = 64, MAX_VARIANTS = 256, SECONDS = 60 };

typedef struct Sweep {
    const char *settings[MAX_VALUES]; /* "key=value" */
    int         n;
} Sweep;

/* "a,[1,2],b" is three values: commas in brackets belong to a value. */
static Err sweep_read(Pool *pool, const char *text, Sweep *sweep)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return fail(E_USAGE, "--sweep takes KEY=A,B,C, not '%s'", text);
    for (const char *at = equals + 1, *from = at;; at++) {
        int depth = 0;
        for (; *at && (depth > 0 || *at != ','); at++)
            depth += *at == '[' ? 1 : *at == ']' ? -1 : 0;
        if (sweep->n == MAX_VALUES)
            return fail(E_USAGE, "--sweep %.*s has more than %d values", (int)(equals - text), text,
                        MAX_VALUES);
        if (at == from)
            return fail(E_USAGE, "--sweep %s: a value is missing", text);
        sweep->settings[sweep->n++] = pool_print(pool, "%.*s=%.*s", (int)(equals - text), text,
                                                 (int)(at - from), from);
        if (!*at)
            return OK;
        from = at + 1;
    }
}

static Err budgets_read(Pool *pool, const Device *device, const char *list, Comparison *c)
{
    static const int64_t common[] = { 8, 12, 16, 24, 40, 80 }; /* GiB */
    int32_t              cap = 0;
    for (size_t i = 0; !list && i < sizeof common / sizeof *common; i++)
        VEC_ADD(pool, c->budgets, c->n_budgets, cap, common[i] << 30);
    if (list)
        c->shares = NEWN(pool, const char *, strlen(list) + 1);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const char *word = pool_textn(pool, at, strcspn(at, ","));
        int64_t     bytes;
        if (budget_is_of_kept(word)) { /* each row has its own bytes */
            TRY(budget_of_kept(word, 1 << 20, &bytes));
            c->shares[c->n_budgets] = pool_print(pool, "%.*s%%", (int)strcspn(word, "%"), word);
        } else {
            TRY(bytes_read(word, device->memory_bytes + device->runtime_bytes, &bytes));
        }
        if (bytes <= 0)
            return fail(E_USAGE, "--budget must be more than 0 bytes");
        VEC_ADD(pool, c->budgets, c->n_budgets, cap, bytes);
    }
    return OK;
}

/* Adds variant `at` of one recipe: a value of every sweep, the last sweep changing fastest. */
static Err variant_add(Pool *pool, const char *name, bool alone, const Sweep *sweeps, int at,
                       Comparison *c, const CompareOptions *how)
{
    const char *settings[64];
    Text        label = { .pool = pool };
    Recipe     *recipe = NULL;
    Device     *device = NULL;
    int64_t     no_budget;
    if (!alone || !opt.sweep.n)
        text_add(&label, "%s", name);
    for (int i = opt.sweep.n - 1; i >= 0; i--) {
        settings[i] = sweeps[i].settings[at % sweeps[i].n];
        at /= sweeps[i].n;
    }
    for (int i = 0; i < opt.sweep.n; i++)
        text_add(&label, "%s%s", label.n ? " " : "", settings[i]);
    if (how->progress)
        how->progress(how->progress_arg, 0.5, label.at);
    Err err = model_open(pool, &model, name, settings, opt.sweep.n, &recipe, &device, &no_budget);
    return compare_add(pool, c, label.at, recipe, device, err, how);
}

/* As one would type it, without a byte less. */
static const char *budget_word(Pool *pool, int64_t bytes)
{
    static const char *const units[] = { "", "KiB", "MiB", "GiB", "TiB" };
    int                      unit = 0;
    for (; unit < 4 && bytes && bytes % 1024 == 0; unit++)
        bytes /= 1024;
    return pool_print(pool, "%lld%s", (long long)bytes, units[unit]);
}

static Err cmd_compare_run(Pool *pool, int n_args, char **args)
{
    Comparison     c = { 0 };
    Device        *device;
    Sweep         *sweeps = NEWN(pool, Sweep, opt.sweep.n + 1);
    int64_t        variants = n_args;
    const char    *budgets = model.budget;
    CompareOptions how = { .allow = ALLOW_DEFAULT,
                           .effort = opt.effort,
                           .shard_auto = model_shards(&model),
                           .progress = terminal_draws() ? show_planning : NULL,
                           .deadline_s = clock_now() +
                                         (opt.time_limit > 0 ? opt.time_limit : SECONDS) };
    Err            last = OK;
    int            good = 0;

    if (n_args < 1)
        return fail(E_USAGE, "compare takes one or more recipes: plimsoll compare dit3d-s dit3d-b "
                             "--budget 16GiB,24GiB");
    if (opt.md)
        TRY(file_try(opt.md));
    if (opt.html)
        TRY(file_try(opt.html));
    if (opt.allow)
        TRY(allow_read(opt.allow, &how.allow));
    for (int m = 0; m < n_args; m++) /* before long work; what a setting breaks is a row */
        TRY(recipe_find(pool, args[m]));
    for (int i = 0; i < opt.sweep.n; i++) {
        TRY(sweep_read(pool, opt.sweep.items[i], &sweeps[i]));
        variants *= sweeps[i].n;
        if (variants > MAX_VARIANTS)
            return fail(E_USAGE, "%lld variants are more than %d; sweep fewer values at once",
                        (long long)variants, MAX_VARIANTS);
    }
    TRY(device_open(pool, model.device,
                    &(DeviceOptions){ .threads = (int)model.threads, .backend = model.backend },
                    &device));
    TRY(budgets_read(pool, device, budgets, &c));
    c.device = device;
    model.budget = NULL; /* model_open reads one budget, not a list */
    for (int m = 0; m < n_args; m++)
        for (int at = 0; at < variants / n_args; at++) {
            Err err = variant_add(pool, args[m], n_args == 1, sweeps, at, &c, &how);
            good += !err;
            last = err ? err : last;
        }
    if (how.progress)
        how.progress(how.progress_arg, 1, "");
    if (!good)
        return fail(last, "%s", c.rows[c.n_rows - 1].error);
    if (opt.md) {
        Text text = { .pool = pool };
        compare_md(&text, &c);
        TRY(file_write(opt.md, text.at, text.n));
    }
    if (opt.html)
        TRY(compare_html(pool, opt.html, &c));
    if (opt.json)
        return compare_json(stdout, &c);
    compare_text(stdout, &c, terminal_colours(stdout));
    next_command("fit %s --budget %s -o plan.json", text_word(pool, args[0]),
                 !c.n_budgets           ? "16GiB"
                 : compare_share(&c, 0) ? pool_print(pool, "%skept", c.shares[0])
                                        : budget_word(pool, c.budgets[0]));
    return OK;
}

const Command cmd_compare = { "compare", "MODEL... [--sweep KEY=A,B] [--budget B,B]",
                              "show which variants fit which budgets, as one table", options,
                              cmd_compare_run };
