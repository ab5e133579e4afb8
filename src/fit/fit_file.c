/* fit_file.c -- plan.json of a training step: the levers here, phases and choices in
 * plan/engine_file.c. */
#include "fit/fit.h"

#include "base/file.h"

#include <string.h>

static const char *const host_words[] = { "none", "ema", "state", NULL }; /* by HostState */

static void write_changes(JsonOut *o, const char *key, const FitResult *r, bool exact)
{
    json_out_array(o, key);
    for (int i = 0; i < r->n_changes; i++) {
        if (r->changes[i].exact != exact)
            continue;
        json_out_object_row(o, NULL);
        json_out_string(o, "what", r->changes[i].what);
        json_out_string(o, "from", r->changes[i].from);
        json_out_string(o, "to", r->changes[i].to);
        json_out_end(o);
    }
    json_out_end(o);
}

void fit_write_changes(JsonOut *o, const FitResult *r)
{
    write_changes(o, "numeric", r, false);
    write_changes(o, "exact", r, true);
}

static Err plan_json(JsonOut *to, const Recipe *asked, const FitResult *r)
{
    const Levers *levers = &r->recipe->levers;
    JsonOut       o = *to;
    json_out_object(&o, NULL);
    json_out_string(&o, "format", "plimsoll-plan-1");
    json_out_string(&o, "model", r->recipe->name);
    json_out_object_row(&o, "levers");
    json_out_int(&o, "batch", r->recipe->batch);
    json_out_int(&o, "accumulate", r->recipe->accumulate);
    json_out_int(&o, "split", levers->split > 1 ? levers->split : 1);
    if (levers->merge > 1)
        json_out_int(&o, "merge", levers->merge);
    json_out_string(&o, "precision", recipe_precisions[r->recipe->precision]);
    json_out_string(&o, "asked_precision", recipe_precisions[asked->precision]);
    json_out_string(&o, "attention", levers->stored_attention ? "stored" : "streamed");
    json_out_bool(&o, "release", levers->release);
    json_out_int(&o, "sample_chunks", levers->sample_chunks > 1 ? levers->sample_chunks : 1);
    json_out_int(&o, "loss_chunks", levers->loss_chunks > 1 ? levers->loss_chunks : 1);
    if (levers->host)
        json_out_string(&o, "host", host_words[levers->host]);
    if (levers->ranks > 1) {
        json_out_int(&o, "ranks", levers->ranks);
        json_out_int(&o, "shard", levers->shard);
        json_out_int(&o, "bucket", levers->bucket);
    }
    json_out_end(&o);
    fit_write_changes(&o, r);
    json_out_int(&o, "default_bytes", r->default_bytes);
    json_out_number(&o, "default_cost", r->default_ns);
    engine_write(&o, r->engine, r->engine->programs[0].plan->budget_bytes);
    json_out_end(&o);
    return json_out_done(&o);
}

Err fit_write(const char *path, const Recipe *asked, const FitResult *r)
{
    FileOut file;
    JsonOut o;
    TRY(file_out_init(&file, path));
    json_out_file(&o, &file, JSON_PRETTY);
    return file_out_done(&file, plan_json(&o, asked, r));
}

Err fit_text(Text *to, const Recipe *asked, const FitResult *r)
{
    JsonOut o;
    json_out_text(&o, to, JSON_COMPACT);
    return plan_json(&o, asked, r);
}

/* Says nothing about a damaged file: fit_read reports that. */
int64_t fit_threads(Pool *pool, const char *path)
{
    const Json *root, *device;
    const char *name;
    int64_t     threads;
    if (!file_exists(path) || json_read(pool, path, 0, &root) ||
        json_need_object(root, "device", &device) || json_need_text(device, "name", &name) ||
        json_need_int(device, "threads", &threads))
        return 0;
    return strcmp(name, "cpu") || threads < 1 ? 0 : threads;
}

/* Both keys are optional. */
static Err read_chunks(const Json *root, const Json *levers, Levers *out)
{
    out->sample_chunks = out->loss_chunks = 1;
    if (json_get(levers, "sample_chunks"))
        TRY(json_need_int(levers, "sample_chunks", &out->sample_chunks));
    if (json_get(levers, "loss_chunks"))
        TRY(json_need_int(levers, "loss_chunks", &out->loss_chunks));
    if (out->sample_chunks < 1 || out->loss_chunks < 1 || out->sample_chunks > MAX_CHUNKS ||
        out->loss_chunks > MAX_CHUNKS || (out->sample_chunks > 1 && out->loss_chunks > 1))
        return json_fail(root, levers,
                         "sample_chunks is %lld and loss_chunks %lld; only one of the two may be "
                         "above 1, up to %d",
                         (long long)out->sample_chunks, (long long)out->loss_chunks, MAX_CHUNKS);
    return OK;
}

/* Written for several ranks only. The ranks of the run are known here. any: the plan may be for
 * another number of ranks, and a plan for one says nothing about the division. */
static Err read_ranks(const Json *root, const Json *levers, Recipe *recipe, bool any)
{
    int64_t ranks = 1, shard = 0, bucket = 0, here = recipe->levers.ranks;
    here = here > 1 ? here : 1;
    if (json_get(levers, "ranks")) {
        TRY(json_need_int(levers, "ranks", &ranks));
        TRY(json_need_int(levers, "shard", &shard));
        TRY(json_need_int(levers, "bucket", &bucket));
    }
    if (any && ranks == 1)
        return OK;
    if (ranks != here && !any)
        return fail(E_PLAN,
                    "%s was made for %lld rank%s, but there %s %lld; plimsoll fit --ranks "
                    "%lld makes a plan for these",
                    json_name(root), (long long)ranks, ranks == 1 ? "" : "s",
                    here == 1 ? "is" : "are", (long long)here, (long long)here);
    if (shard < 0 || shard > SHARD_MAX || bucket < 0)
        return json_fail(root, levers, "levers.shard must be 0 to %d, and levers.bucket a size",
                         SHARD_MAX);
    recipe->levers.shard = (int)shard;
    recipe->levers.bucket = bucket;
    return OK;
}

/* Merges and splits the recipe's micro-batches as the file does. */
static Err read_micro_batches(const Json *root, const Json *levers, Recipe *recipe)
{
    int64_t batch, accumulate, split, merge = 1;
    TRY(json_need_int(levers, "batch", &batch));
    TRY(json_need_int(levers, "accumulate", &accumulate));
    TRY(json_need_int(levers, "split", &split));
    TRY(json_maybe_int(levers, "merge", &merge));
    if (merge < 1 || merge > recipe->accumulate || recipe->accumulate % merge ||
        (merge > 1 && split != 1) || recipe->batch > INT64_MAX / merge)
        return json_fail(root, levers,
                         "levers.merge is %lld, which does not divide the recipe's "
                         "%lld micro-batches",
                         (long long)merge, (long long)recipe->accumulate);
    if (merge > 1)
        TRY(recipe_merge(recipe, merge));
    if (split < 1 || split > recipe->batch || recipe->batch % split ||
        recipe->batch / split != batch || recipe->accumulate > INT64_MAX / split ||
        recipe->accumulate * split != accumulate)
        return fail(E_PLAN,
                    "%s was made for micro-batches of %lld x %lld, split by %lld, which does not "
                    "match the %lld x %lld of this recipe; plimsoll fit makes a plan for it",
                    json_name(root), (long long)batch, (long long)accumulate, (long long)split,
                    (long long)recipe->batch, (long long)recipe->accumulate);
    if (merge > 1 && recipe->levers.ranks > 1 && recipe->accumulate % recipe->levers.ranks)
        return fail(E_PLAN,
                    "%s runs %lld micro-batches of the recipe as one, and %lld ranks cannot share "
                    "the %lld that remain evenly; start as many ranks as divide them",
                    json_name(root), (long long)merge, (long long)recipe->levers.ranks,
                    (long long)recipe->accumulate);
    return split > 1 ? recipe_split(recipe, split) : OK;
}

static Err read_host(const Json *root, const Json *levers, Recipe *recipe)
{
    const char *host = host_words[0];
    TRY(json_maybe_text(levers, "host", &host));
    for (recipe->levers.host = 0; host_words[recipe->levers.host]; recipe->levers.host++)
        if (!strcmp(host_words[recipe->levers.host], host))
            return OK;
    return json_fail(root, levers, "levers.host must be none, ema or state, not %s", host);
}

static Err read_precision(const Json *root, const Json *levers, Recipe *recipe)
{
    const char *precision, *asked, *attention;
    int         now = 0;
    TRY(json_need_text(levers, "precision", &precision));
    TRY(json_need_text(levers, "asked_precision", &asked));
    TRY(json_need_text(levers, "attention", &attention));
    while (recipe_precisions[now] && strcmp(recipe_precisions[now], precision))
        now++;
    if (!recipe_precisions[now] || (strcmp(attention, "stored") && strcmp(attention, "streamed")))
        return json_fail(root, levers, "there is no precision %s or no attention %s", precision,
                         attention);
    if (strcmp(asked, recipe_precisions[recipe->precision]))
        return fail(E_PLAN,
                    "%s was made for a recipe in %s, but this one is in %s; plimsoll fit makes a "
                    "plan for it",
                    json_name(root), asked, recipe_precisions[recipe->precision]);
    recipe->precision = now;
    recipe->levers.stored_attention = !strcmp(attention, "stored");
    return OK;
}

/* Sets the levers of the file; the recipe must be the one that the plan was made for. */
static Err read_levers(const Json *root, Recipe *recipe, bool any_ranks)
{
    const Json *levers;
    if (root->kind == JSON_OBJECT && !json_get(root, "levers") && json_get(root, "steps"))
        return json_fail(root, NULL,
                         "this is a plan of a bare graph; plimsoll fit -o makes one of a training "
                         "step");
    TRY(json_need_object(root, "levers", &levers));
    TRY(json_need_bool(levers, "release", &recipe->levers.release));
    TRY(read_chunks(root, levers, &recipe->levers));
    TRY(read_ranks(root, levers, recipe, any_ranks));
    TRY(read_host(root, levers, recipe));
    TRY(read_precision(root, levers, recipe));
    TRY(read_micro_batches(root, levers, recipe));
    const char *why_not = recipe->levers.release ? recipe_no_release(recipe) : NULL;
    return why_not ? fail(E_PLAN, "%s releases gradients early, but in this recipe %s",
                          json_name(root), why_not)
                   : OK;
}

/* The changes in words, as the file lists them. */
static Err read_changes(Pool *pool, const Json *root, const char *key, bool exact, FitResult *r)
{
    const Json *list;
    TRY(json_need_array(root, key, &list));
    for (uint32_t i = 0; i < list->n; i++) {
        const char *text[3];
        if (list->items[i].kind != JSON_OBJECT ||
            r->n_changes == (int)(sizeof r->changes / sizeof *r->changes))
            return json_fail(root, list, "%s is not a short list of changes", key);
        TRY(json_need_text(&list->items[i], "what", &text[0]));
        TRY(json_need_text(&list->items[i], "from", &text[1]));
        TRY(json_need_text(&list->items[i], "to", &text[2]));
        r->changes[r->n_changes++] = (FitChange){ pool_text(pool, text[0]),
                                                  pool_text(pool, text[1]),
                                                  pool_text(pool, text[2]), exact };
    }
    return OK;
}

Err fit_from_json(Pool *pool, const Json *root, const Recipe *asked, const Device *device,
                  bool given_noise, FitResult *r)
{
    Recipe *recipe = recipe_copy(pool, asked);
    *r = (FitResult){ 0 };
    TRY(read_levers(root, recipe, false));
    if (given_noise && recipe->levers.split > 1)
        return fail(E_USAGE,
                    "%s splits micro-batches, but given inputs cannot be split; make a plan with "
                    "--allow none",
                    json_name(root));
    TRY(read_changes(pool, root, "numeric", false, r));
    TRY(read_changes(pool, root, "exact", true, r));
    TRY(recipe_suits(recipe, device));
    recipe = recipe_for(pool, recipe, device);
    TRY(recipe_graph(pool, recipe, given_noise, &r->graph));
    EngineOptions how = { .accumulate = recipe_rounds(recipe),
                          .validate = recipe_validation(recipe).batches };
    TRY(engine_read(pool, root, r->graph.graph, device, &how, &r->engine));
    r->fits = true;
    r->recipe = recipe;
    r->step_ns = engine_step_ns(r->engine, recipe_rounds(recipe));
    TRY(json_need_number(root, "default_cost", &r->default_ns)); /* for reports only */
    TRY(json_need_int(root, "default_bytes", &r->default_bytes));
    r->bound_bytes = r->engine->bound_bytes;
    r->cut = r->engine->cut;
    return OK;
}

Err fit_read(Pool *pool, const char *path, const Recipe *recipe, const Device *device,
             bool given_noise, FitResult *r)
{
    Pool       *text = pool_new(NULL, "fit_read");
    const Json *root;
    Err         err = json_read(text, path, 0, &root);
    if (err == E_FORMAT || (!err && !json_get(root, "levers") && !json_get(root, "steps")))
        err = fail(E_FORMAT,
                   "%s is not a plan of a training step, as plimsoll fit -o writes it%s%s", path,
                   err ? ": " : "", err ? pool_text(text, err_text()) : "");
    if (!err)
        err = fit_from_json(pool, root, recipe, device, given_noise, r);
    pool_free(text);
    return err;
}

int64_t fit_ranks(Pool *pool, const char *path)
{
    const Json *root, *levers;
    int64_t     ranks;
    if (json_read(pool, path, 0, &root) || json_need_object(root, "levers", &levers) ||
        !json_get(levers, "ranks") || json_need_int(levers, "ranks", &ranks))
        return 1;
    return ranks;
}

Err fit_again(Pool *pool, const char *path, const Recipe *asked, const Device *device,
              bool given_noise, FitResult *r)
{
    const Json *root, *numeric;
    FitOptions  how = { .given_noise = given_noise };
    Recipe     *recipe = recipe_copy(pool, asked);
    const char *what;
    TRY(json_read(pool, path, 0, &root));
    TRY(read_levers(root, recipe, true));
    TRY(json_need_int(root, "budget_bytes", &how.budget_bytes));
    TRY(json_need_array(root, "numeric", &numeric));
    for (uint32_t i = 0; i < numeric->n; i++) {
        TRY(json_need_text(&numeric->items[i], "what", &what));
        if (!strcmp(what, "algorithm"))
            return fail(E_PLAN,
                        "%s chose algorithms for %lld rank%s, and another number of ranks would "
                        "give other bits; resume with as many ranks, or give --budget",
                        path, (long long)fit_ranks(pool, path),
                        fit_ranks(pool, path) == 1 ? "" : "s");
    }
    return fit_plan(pool, recipe, device, &how, r);
}
