/* cmd_fit.c -- `fit`: the fastest plan within a budget, with every buffer placed. */
#include "cli/model_options.h"

#include "base/file.h"
#include "base/json_out.h"
#include "base/stop.h"
#include "base/terminal.h"
#include "base/text.h"
#include "fit/fit.h"
#include "fit/sheet.h"
#include "profile/devices.h"
#include "report/curve.h"
#include "report/fit_pages.h"
#include "report/machine.h"
#include "report/rank_pages.h"

#include <math.h>
#include <stdlib.h>

static ModelOptions model = { .shares = true, .paced = true };
static struct {
    const char *allow, *out, *html;
    double      prove_limit;
    bool        json, curve, what_if, prove;
} opt;
static SearchOptions search;

static const Option options[] = {
    MODEL_OPTIONS(model),
    LOSS_OPTION(model),
    RANK_OPTIONS(model),
    ALLOW_OPTION(opt.allow),
    { "o", OPT_TEXT, &opt.out, "FILE", "write the plan here, for train --plan" },
    { "curve", OPT_FLAG, &opt.curve, NULL, "show arena size against time, down to the minimum" },
    { "what-if", OPT_FLAG, &opt.what_if, NULL, "plan again with each lever that is not allowed" },
    { "prove", OPT_FLAG, &opt.prove, NULL, "print a bound on the optimality gap" },
    { "prove-limit", OPT_SECONDS, &opt.prove_limit, "S",
      "seconds for CBC, if it is installed; default 30" },
    { "html", OPT_TEXT, &opt.html, "FILE", "write a page with the plan and its curve" },
    SEARCH_OPTIONS(search, "search moves; the default takes about 10 s on 2 cores"),
    { "json", OPT_FLAG, &opt.json, NULL, "print the result as JSON" },
    { 0 }
};

typedef struct Shown { /* everything to print */
    Pool         *pool;
    const Recipe *recipe; /* as asked for */
    FitResult     fit;
    FitPoint     *points;
    int           n_points;
    FitOffer      offers[ALLOW_COUNT];
    int           n_offers;
    int64_t       budget_bytes; /* as asked for: on a GPU with the runtime */
    EngineProof   proof;        /* with --prove */
} Shown;

static double percent(double now, double before)
{
    double more = before > 0 ? 100 * (now / before - 1) : 0;
    return fabs(more) < 1e-6 ? 0 : more; /* no "-0.0" from rounding */
}

/* ---- as JSON ---- */

/* Percent of the step's time that a better plan could save at most. */
static double avoidable(const Shown *s)
{
    double cost_ns = s->fit.engine->cost_ns;
    return s->proof.reached || cost_ns <= 0 ? 0 : 100 * (1 - s->proof.cost_ns / cost_ns);
}

/* The bound as a predicted time, comparable with the plan's. */
static double proof_ns(const Shown *s)
{
    const Engine *engine = s->fit.engine;
    return engine_pace(engine) * engine_forecast_ns(engine, s->proof.cost_ns, engine->arena_bytes);
}

static void json_proof(JsonOut *o, const Shown *s)
{
    json_out_object_row(o, "proof");
    json_out_number(o, "step_ms", proof_ns(s) * 1e-6);
    json_out_int(o, "bytes", s->proof.bytes);
    json_out_number(o, "gap_percent", avoidable(s));
    json_out_bool(o, "optimal", s->proof.reached);
    json_out_end(o);
}

static void json_offers(JsonOut *o, const Shown *s)
{
    json_out_array(o, "what_if");
    for (int i = 0; i < s->n_offers; i++) {
        const FitOffer *offer = &s->offers[i];
        json_out_object_row(o, NULL);
        json_out_string(o, "allow", allow_words[offer->allow]);
        json_out_bool(o, "helps", offer->possible);
        json_out_bool(o, "fits", offer->result.fits);
        json_out_int(o, "peak_bytes", offer->result.engine->arena_bytes);
        json_out_number(o, "slowdown", offer->result.step_ns / s->fit.default_ns);
        json_out_bool(o, "cut", offer->result.cut);
        json_out_end(o);
    }
    json_out_end(o);
}

/* The first phase that reaches the top of the arena; the peak program may hold two. */
static const char *peak_phase(const Engine *engine)
{
    int phase = 0;
    while (phase + 1 < PHASE_COUNT && engine->phase_bytes[phase] < engine->arena_bytes)
        phase++;
    return phase_public_name((Phase)phase);
}

static Err fit_json(const Shown *s)
{
    const FitResult *r = &s->fit;
    const Engine    *engine = r->engine;
    JsonOut          o;
    json_out_stream(&o, stdout, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_string(&o, "model", r->recipe->name);
    json_out_string(&o, "device", engine->device->name);
    json_out_bool(&o, "fits", r->fits);
    json_out_int(&o, "budget_bytes", s->budget_bytes);
    json_out_int(&o, "peak_bytes", engine->arena_bytes);
    json_out_int(&o, "live_bytes", engine->live_bytes);
    json_out_int(&o, "arena_bytes", engine->arena_bytes);
    json_out_string(&o, "peak_phase", peak_phase(engine));
    json_out_int(&o, "keep_all_bytes", r->default_bytes);
    json_out_int(&o, "persistent_bytes", engine->persistent_bytes);
    if (engine->host_bytes)
        json_out_int(&o, "host_bytes", engine->host_bytes);
    if (!r->fits)
        json_out_int(&o, "minimum_bytes", r->minimum_bytes + engine->device->runtime_bytes);
    json_out_int(&o, "bound_bytes", r->bound_bytes);
    json_out_bool(&o, "cut", r->cut);
    json_out_object(&o, "plan");
    json_out_int(&o, "micro_batch", r->recipe->batch);
    json_out_int(&o, "accumulate", r->recipe->accumulate);
    json_out_string(&o, "precision", recipe_precisions[r->recipe->precision]);
    json_out_int(&o, "recompute_nodes", engine->recomputed);
    json_out_bool(&o, "release", r->recipe->levers.release);
    chunks_json(&o, &r->recipe->levers);
    fit_write_changes(&o, r);
    json_out_end(&o);
    json_out_int(&o, "runtime_bytes", device_runtime_bytes(engine->device, 0));
    time_json(&o, engine, r->step_ns * 1e-6, r->default_ns > 0 ? r->step_ns / r->default_ns : 1);
    rank_json(&o, engine, r->recipe, NULL, 0);
    json_out_array(&o, "notes");
    for (int i = 0; i < r->n_notes; i++)
        json_out_string(&o, NULL, r->notes[i]);
    json_out_end(&o);
    if (opt.prove)
        json_proof(&o, s);
    if (opt.curve)
        curve_json(&o, s->points, s->n_points, r->default_ns, engine_pace(engine));
    if (opt.what_if)
        json_offers(&o, s);
    json_out_end(&o);
    return json_out_done(&o);
}

/* ---- for people ---- */

static void show_notes(const Shown *s)
{
    for (int i = 0; i < s->fit.n_notes; i++)
        print_sentence(stdout, "  %s", s->fit.notes[i]);
}

static void show_choice(Pool *pool, const Shown *s)
{
    const FitResult *r = &s->fit;
    const Device    *device = r->engine->device;
    print_sentence(stdout, "%s %s %s: one step needs %s bytes (%s), every buffer placed.",
                   r->recipe->name, r->fits ? "fits" : "does not fit", bytes_text(s->budget_bytes),
                   count_text(r->engine->arena_bytes), bytes_text(r->engine->arena_bytes));
    if (r->engine->host_bytes)
        printf("  %-18s %10s\n", "on the host, pinned", bytes_text(r->engine->host_bytes));
    printf("  %-18s %10s  %12s a step\n", "everything kept", bytes_text(r->default_bytes),
           step_text(pool, r->default_ns * engine_pace(r->engine)));
    if (r->n_changes)
        printf("  %-18s %10s  %12s a step: %s%s, time %+.1f %%\n",
               r->fits ? "this plan" : "smallest found", bytes_text(r->engine->arena_bytes),
               step_text(pool, r->step_ns * engine_pace(r->engine)),
               r->default_bytes >= r->engine->arena_bytes ? "saves " : "takes more by ",
               bytes_text(llabs(r->default_bytes - r->engine->arena_bytes)),
               percent(r->step_ns, r->default_ns));
    else
        printf("  no changes, no recomputation\n");
    if (r->n_changes)
        printf("what changes\n");
    changes_print(stdout, r);
    if (r->cut)
        printf("  %s the search; a longer one may find a better plan.\n",
               stop_asked() ? "^C ended" : "The time limit ended");
    show_notes(s);
    if (r->recipe->levers.ranks > 1)
        print_sentence(stdout, "%s.", rank_text(pool, r->engine, r->recipe));
    print_sentence(stdout, "On %s; %s. Times by %s.", device_text(pool, device),
                   runtime_text(pool, device, device_runtime_bytes(device, 0)),
                   time_text(pool, r->engine));
}

static void show_plan(Pool *pool, const Shown *s)
{
    if (s->fit.fits || opt.curve || opt.what_if || opt.prove)
        show_choice(pool, s);
    else
        show_notes(s);
    if (!s->fit.fits)
        print_sentence(stdout, "The smallest plan has its peak where %s.",
                       sheet_fullest(pool, s->fit.engine));
}

static void show_proof(Pool *pool, const Shown *s)
{
    const char *at_all = pool_print(pool, "no plan needs less than %s", bytes_text(s->proof.bytes));
    if (!s->fit.fits)
        print_sentence(stdout, "Proof, under these levers: %s.", at_all);
    else if (s->proof.reached)
        print_sentence(
            stdout, "Proof, under these levers: optimal. No plan within the budget is faster; %s.",
            at_all);
    else
        print_sentence(stdout,
                       "Proof, under these levers: no plan within the budget takes less than %s a "
                       "step, so at most %.2f %% of this plan's time could be saved; %s.",
                       step_text(pool, proof_ns(s)), avoidable(s), at_all);
}

static void print_point(FILE *to, Pool *pool, const Shown *s, const FitPoint *p)
{
    fprintf(to, "  %10s  %+7.1f%%  %5lld x %-4lld %10d%s\n", bytes_text(p->peak_bytes),
            percent(p->step_ns, s->fit.default_ns), (long long)p->batch, (long long)p->accumulate,
            p->recomputed, point_text(pool, s->recipe, p));
}

static void show_curve(Pool *pool, const Shown *s)
{
    printf("\narena against time: plans that no other plan beats in both\n"
           "       arena      time  micro-batch  recomputed\n");
    for (int i = 0; i < s->n_points; i++)
        print_point(stdout, pool, s, &s->points[i]);
}

/* The curve takes a while: its points go to a terminal as they are found, the best of them to
 * stdout at the end. */
static void tell_point(void *arg, const FitPoint *p)
{
    Shown *s = arg;
    progress_clear();
    print_point(stderr, s->pool, s, p);
}

/* What ^C would keep. */
static void tell_found(void *arg, int64_t arena_bytes, double step_ns)
{
    const Shown *s = arg;
    progress_clear();
    fprintf(stderr, "  found: %s, %s a step; looking for a faster plan\n", bytes_text(arena_bytes),
            step_text(s->pool, step_ns));
}

static void show_offers(const Shown *s)
{
    const FitResult *now = &s->fit;
    printf("\nif you also allow\n");
    for (int i = 0; i < s->n_offers; i++) {
        const FitResult *r = &s->offers[i].result;
        const char      *cut = r->cut ? " (cut off)" : "";
        printf("  %-16s ", allow_words[s->offers[i].allow]);
        if (!s->offers[i].possible)
            printf("nothing changes here%s\n", cut);
        else if (r->fits && !now->fits)
            printf("it fits: %s, time %+.1f %%%s\n", bytes_text(r->engine->arena_bytes),
                   percent(r->step_ns, now->default_ns), cut);
        else if (r->fits && percent(now->step_ns, r->step_ns) < 0.05)
            printf("nothing is gained%s\n", cut);
        else if (r->fits)
            printf("%s, time %+.1f %% instead of %+.1f %%%s\n", bytes_text(r->engine->arena_bytes),
                   percent(r->step_ns, now->default_ns), percent(now->step_ns, now->default_ns),
                   cut);
        else
            printf("the minimum is %s instead of %s%s\n", bytes_text(r->engine->arena_bytes),
                   bytes_text(now->engine->arena_bytes), cut);
    }
}

/* With the options that the plan was made for. */
static void fit_next(Pool *pool, const char *name, const Device *device)
{
    ModelOptions asked = model;
    asked.device = device->described ? "cuda" : model.device;
    const char *on = model_words(pool, &asked);
    if (device_planned_only(device))
        return;
    if (opt.out)
        next_command("train %s%s --plan %s", text_word(pool, name), on, text_word(pool, opt.out));
    else
        next_command("fit %s%s --budget %s -o plan.json", text_word(pool, name), on,
                     model.budget ? model.budget : "100%");
}

/* The recipe, the device and the budget. *no_room: why the budget leaves no arena; the minimum is
 * named all the same. */
static Err fit_open(Pool *pool, const char *name, Recipe **recipe, Device **device, FitOptions *how,
                    const char **no_room)
{
    how->shard_auto = model_shards(&model);
    Err none = model_open(pool, &model, name, NULL, 0, recipe, device, &how->budget_bytes);
    if (none && none != E_BUDGET)
        return none;
    *no_room = none ? pool_text(pool, err_text()) : NULL;
    TRY(model_kept_share(pool, &model, *recipe, *device, how, &how->budget_bytes));
    if (!*no_room && !how->budget_bytes)
        how->budget_bytes = (*device)->memory_bytes; /* what the device can give */
    return OK;
}

/* What takes longer than the plan: proof, curve, other levers. Each is shown as soon as it is there. */
static Err fit_more(Pool *pool, const Recipe *recipe, Device *device, FitOptions *how, Shown *s)
{
    if (opt.prove)
        TRY(engine_prove(pool, s->fit.engine, how->budget_bytes, opt.prove_limit, &s->proof));
    if (opt.prove && !opt.json)
        show_proof(pool, s);
    fflush(stdout);
    if (opt.curve || opt.html)
        TRY(fit_curve(pool, recipe, device, how, &s->fit, &s->points, &s->n_points));
    if (opt.curve && !opt.json)
        show_curve(pool, s);
    fflush(stdout);
    if (opt.what_if) {
        if (how->time_limit_s <= 0)
            how->time_limit_s = WHAT_IF_SECONDS;
        TRY(fit_offers(pool, recipe, device, how, s->offers, &s->n_offers));
    }
    if (opt.what_if && !opt.json)
        show_offers(s);
    return OK;
}

static Err cmd_fit_run(Pool *pool, int n_args, char **args)
{
    Recipe     *recipe;
    Device     *device;
    Shown      *s = NEW(pool, Shown);
    const char *no_room;
    FitOptions  how = { .allow = ALLOW_DEFAULT,
                        .effort = search.effort,
                        .time_limit_s = search.time_limit,
                        .seed = (uint64_t)search.seed };

    if (n_args != 1)
        return fail(E_USAGE, "fit takes one recipe: plimsoll fit MODEL --budget 16GiB");
    if (opt.out)
        TRY(file_try(opt.out));
    if (opt.html)
        TRY(file_try(opt.html));
    if (opt.allow)
        TRY(allow_read(opt.allow, &how.allow));
    TRY(fit_open(pool, args[0], &recipe, &device, &how, &no_room));
    s->budget_bytes = how.budget_bytes + device->runtime_bytes;
    how.budget_bytes = no_room ? 1 : how.budget_bytes;
    if (!opt.json && terminal_draws()) {
        how.progress = show_planning;
        how.point = tell_point;
        how.found = tell_found;
        how.point_arg = how.found_arg = s;
    }
    s->pool = pool;
    s->recipe = recipe;
    stop_on_interrupt(
        "\nplimsoll: stopping, with the best plan found so far; ^C again ends at once\n");
    Err err = fit_run(pool, recipe, device, &how, &s->fit);
    if (err && err != E_BUDGET)
        return err;
    how.found = NULL;
    const char *refusal = err ? pool_text(pool, err_text()) : NULL;
    if (err && no_room)
        refusal = pool_print(pool, "%s; with them this model needs at least %s", no_room,
                             bytes_exact(s->fit.minimum_bytes + device->runtime_bytes));
    if (!err && opt.out)
        TRY(fit_write(opt.out, recipe, &s->fit));
    if (!opt.json)
        show_plan(pool, s);
    TRY(fit_more(pool, recipe, device, &how, s));
    if (opt.html)
        TRY(fit_html(pool, opt.html, &s->fit, s->budget_bytes, s->points, s->n_points));
    if (opt.json)
        TRY(fit_json(s));
    else if (!err)
        fit_next(pool, args[0], device);
    return err ? fail(err, "%s", refusal) : OK;
}

const Command cmd_fit = { "fit", "MODEL --budget B [-o plan.json]",
                          "find the fastest plan within a memory budget", options, cmd_fit_run };
