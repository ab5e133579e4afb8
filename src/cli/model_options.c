/* model_options.c -- opens the recipe and the device that a command works on. */
#include "cli/model_options.h"

#include "base/file.h"
#include "base/int_math.h"
#include "base/text.h"
#include "device/memory.h"
#include "ops/ops.h"
#include "profile/pace.h"
#include "profile/rank_device.h"
#include "train/checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Kernels in the CUDA graphs of a step. Updates and sums over micro-batches do not count: hundreds
 * of them share one launch. A recipe that cannot be built fails later, where it is built. */
static int64_t model_launches(const Recipe *recipe)
{
    Pool         *pool = pool_new(NULL, "launches");
    TrainingGraph graph;
    int64_t       n = 0;
    if (!recipe_graph(pool, recipe, false, &graph))
        for (int32_t i = 0; i < graph.graph->n_nodes; i++) {
            const OpDef *op = graph.graph->nodes[i].op;
            n += op != &op_adam && op != &op_sgd && op != &op_accumulate;
        }
    pool_free(pool);
    return n;
}

/* --loss KIND[:OUTPUT[:TARGET]] as settings of the recipe. */
static Err loss_sets(Pool *pool, const char *loss, const char *name, const char **sets, int *n)
{
    static const char *const keys[] = { "kind", "output", "target" };
    Recipe                  *recipe;
    if (!recipe_is_model(name)) {
        TRY(recipe_read(pool, name, NULL, 0, &recipe));
        if (!recipe->model->named_inputs)
            return fail(
                E_USAGE,
                "--loss is for a model of your own (model.pt2); the system %s has its own loss",
                recipe->model->name);
    }
    for (int i = 0; i < 3; i++) {
        size_t part = i < 2 ? strcspn(loss, ":") : strlen(loss);
        if (part)
            sets[(*n)++] = pool_print(pool, "model.loss.%s=%s", keys[i],
                                      i ? text_quoted(pool, pool_textn(pool, loss, part), "''")
                                        : pool_textn(pool, loss, part));
        else if (!i)
            return fail(E_USAGE, "--loss takes KIND[:OUTPUT[:TARGET]], and KIND is mse, l1 or "
                                 "cross-entropy");
        loss += part;
        if (!*loss)
            break;
        loss++;
    }
    return OK;
}

/* All the memory that the device has, in use or not; 0: planning for a processor, of any size. */
static int64_t device_total(const Device *device, bool runs)
{
    MemoryLimits limits = memory_limits();
    if (device->kind == DEVICE_CPU)
        return runs ? limits.total : 0;
    if (device->profile && device->profile->total_bytes)
        return device->profile->total_bytes;
    return 0;
}

static Err budget_within(const Device *device, bool runs, int64_t bytes)
{
    int64_t total = device_total(device, runs);
    if (!total || bytes <= total)
        return OK;
    return fail(E_USAGE, "--budget %s is more than the %s of %s; give at most that, or 100%%",
                bytes_text(bytes), bytes_text(total), device->name);
}

Err checkpoint_option(Pool *pool, const char *run, const char *text, int64_t *step)
{
    char *end;
    *step = -1;
    if (!text)
        return OK;
    if (!strcmp(text, "best"))
        return checkpoint_best(pool, run, step);
    errno = 0;
    *step = strtoll(text, &end, 10);
    return end != text && !*end && !errno && *step >= 0
               ? OK
               : fail(E_USAGE, "--checkpoint takes a step or best, not '%s'", text);
}

Err weights_option(const char *text, WeightsKind *kind)
{
    *kind = !text ? WEIGHTS_USUAL : !strcmp(text, "raw") ? WEIGHTS_RAW : WEIGHTS_AVERAGED;
    return *kind != WEIGHTS_AVERAGED || !strcmp(text, "ema")
               ? OK
               : fail(E_USAGE, "--weights takes ema or raw, not '%s'", text);
}

Err shard_read(const char *shard, const char *bucket, int *level, int64_t *bucket_bytes)
{
    *level = -1;
    *bucket_bytes = 0;
    if (shard && strcmp(shard, "auto")) {
        *level = shard[0] - '0';
        if (*level < 0 || *level > SHARD_MAX || shard[1])
            return fail(E_USAGE, "--shard is auto, 0, 1, 2 or 3, not %s", shard);
    }
    if (bucket)
        TRY(bytes_read(bucket, 0, bucket_bytes));
    return bucket && *bucket_bytes <= 0 ? fail(E_USAGE, "--bucket must be more than 0 bytes") : OK;
}

bool model_shards(const ModelOptions *o)
{
    return o->ranks > 1 && (!o->shard || !strcmp(o->shard, "auto"));
}

static Err model_ranks(Pool *pool, const ModelOptions *o, Recipe *recipe, Device *device)
{
    Levers *levers = &recipe->levers;
    int     level;
    if (o->ranks <= 1)
        return o->per_node || o->shard || o->bucket || o->wire
                   ? fail(E_USAGE, "--per-node, --shard, --bucket and --wire are for several "
                                   "ranks: give --ranks N too")
                   : OK;
    if (o->ranks > RANKS_MAX)
        return fail(E_USAGE, "--ranks %lld is more than %d", (long long)o->ranks, RANKS_MAX);
    TRY(shard_read(o->shard, o->bucket, &level, &levers->bucket));
    TRY(recipe_check_ranks(recipe, o->ranks));
    levers->ranks = o->ranks;
    levers->shard = level < 0 ? SHARD_DEFAULT : level;
    int per_node = o->per_node ? (int)o->per_node : device_per_node(device);
    return device_join_ranks(pool, device, (Ranks){ (int)o->ranks, per_node }, o->wire);
}

/* The settings of all options, in the order in which they apply. */
typedef struct Settings {
    const char **list, *batch, *precision; /* the last two: those of --batch and --precision */
    int          n;
} Settings;

static Err settings_of(Pool *pool, const ModelOptions *o, const char *name, const char *const *more,
                       int n_more, Settings *s)
{
    *s = (Settings){ .list = NEWN(pool, const char *, o->set.n + n_more + 5) };
    for (int i = 0; i < o->set.n; i++)
        s->list[s->n++] = o->set.items[i];
    if (o->batch)
        s->list[s->n++] = s->batch = pool_print(pool, "batch=%lld", (long long)o->batch);
    if (o->precision)
        s->list[s->n++] = s->precision = pool_print(pool, "precision=%s", o->precision);
    if (o->loss)
        TRY(loss_sets(pool, o->loss, name, s->list, &s->n));
    for (int i = 0; i < n_more; i++)
        s->list[s->n++] = more[i];
    return OK;
}

const char *model_words(Pool *pool, const ModelOptions *o)
{
    Text text = { .pool = pool, .at = "" };
    if (o->device)
        text_add(&text, " --device %s", text_word(pool, o->device));
    if (o->batch)
        text_add(&text, " --batch %lld", (long long)o->batch);
    if (o->precision)
        text_add(&text, " --precision %s", text_word(pool, o->precision));
    if (o->loss)
        text_add(&text, " --loss %s", text_word(pool, o->loss));
    for (int i = 0; i < o->set.n; i++)
        text_add(&text, " --set %s", text_word(pool, o->set.items[i]));
    if (o->backend)
        text_add(&text, " --backend %s", text_word(pool, o->backend));
    if (o->threads)
        text_add(&text, " --threads %lld", (long long)o->threads);
    return text.at;
}

/* A failure of --batch or --precision was worded for the setting that it became. */
static Err option_blame(Pool *pool, Err err, const char *setting, const char *option)
{
    const char *said = setting ? pool_print(pool, "--set %s: ", setting) : "";
    size_t      n = strlen(said);
    return n && !strncmp(err_text(), said, n)
               ? fail(err, "%s %s: %s", option, strchr(setting, '=') + 1,
                      pool_text(pool, err_text() + n))
               : err;
}

static Err host_budget_set(const char *text, Device *device)
{
    if (device->to_host <= 0)
        return fail(E_USAGE, "--host-budget is for GPUs: %s has one memory, which --budget limits",
                    device->name);
    if (strchr(text, '%') && !device->host_bytes)
        return fail(
            E_USAGE,
            "--host-budget %s: the host of %s is not this machine, so give the budget in bytes",
            text, device->name);
    TRY(bytes_read(text, device->host_bytes, &device->host_bytes));
    device->host_bytes = int_max(device->host_bytes, 1); /* 0 would mean no limit */
    return OK;
}

/* *bytes: for the arena, without the runtime. */
static Err budget_set(const char *text, const Device *device, bool runs, int64_t *bytes)
{
    TRY(bytes_read(text, device->memory_bytes + device->runtime_bytes, bytes));
    if (*bytes <= 0)
        return fail(E_USAGE, "--budget must be more than 0 bytes");
    TRY(budget_within(device, runs, *bytes));
    *bytes -= device->runtime_bytes;
    if (*bytes <= 0)
        return fail(E_BUDGET,
                    "a budget of %s leaves nothing for an arena: %s takes %s for its context and "
                    "libraries",
                    bytes_text(*bytes + device->runtime_bytes), device->name,
                    bytes_text(device->runtime_bytes));
    return OK;
}

const char *model_share(const ModelOptions *o)
{
    return o->budget && budget_is_of_kept(o->budget) ? o->budget : NULL;
}

Err model_kept_share(Pool *pool, const ModelOptions *o, const Recipe *recipe, Device *device,
                     const FitOptions *how, int64_t *budget_bytes)
{
    FitResult kept;
    if (!model_share(o))
        return OK;
    TRY(fit_run(pool, recipe, device, how, &kept));
    return budget_of_kept(model_share(o), kept.engine->keep_all_bytes, budget_bytes);
}

Err model_open(Pool *pool, const ModelOptions *o, const char *name, const char *const *more, int n,
               Recipe **recipe, Device **out, int64_t *budget_bytes)
{
    Settings s;
    Device  *device;
    *budget_bytes = 0;
    TRY(settings_of(pool, o, name, more, n, &s));
    Err err = recipe_read(pool, name, s.list, s.n, recipe);
    if (err)
        err = option_blame(pool, err, s.precision, "--precision");
    if (err)
        return option_blame(pool, err, s.batch, "--batch");
    TRY(device_open(pool, o->device,
                    &(DeviceOptions){ .threads = (int)o->threads,
                                      .place = o->place,
                                      .backend = o->backend,
                                      .tf32 = recipe_tf32(*recipe) },
                    out));
    device = *out;
    if (o->paced)
        TRY(pace_find(pool, device));
    TRY(model_ranks(pool, o, *recipe, device));
    if (device->kind == DEVICE_CUDA)
        device_expect(device, model_launches(*recipe));
    if (o->runs && device->described)
        return fail(E_USAGE,
                    "%s is known only by its profile: it can be planned for (explain, fit) but not "
                    "run here",
                    device->name);
    if (o->host_budget)
        TRY(host_budget_set(o->host_budget, device));
    bool later = o->shares && model_share(o);
    return o->budget && !later ? budget_set(o->budget, device, o->runs, budget_bytes) : OK;
}

/* A file is named instead of a run: one of a run, or weights from elsewhere. */
static Err run_wrong_file(Pool *pool, const char *file)
{
    char folder[FILE_PATH_MAX];
    file_folder(file, folder, sizeof folder);
    return file_exists(pool_print(pool, "%s/recipe.yaml", folder))
               ? fail(E_USAGE, "%s is a file of a run; name the run itself: %s", file,
                      text_word(pool, folder))
               : fail(E_USAGE,
                      "%s is a file, not a run; plimsoll train RECIPE --init FILE --steps 0 --out "
                      "RUN makes a run of weights",
                      file);
}

Err run_recipe(Pool *pool, const char *run, const char **path)
{
    *path = pool_print(pool, "%s/recipe.yaml", run);
    if (file_exists(*path))
        return OK;
    if (errno != ENOENT && errno != ENOTDIR) /* it may be a run that cannot be read */
        return file_fail("read", *path, errno);
    if (file_exists(run) && !folder_exists(run))
        return run_wrong_file(pool, run);
    if (!folder_exists(run))
        return fail(E_USAGE,
                    "%s is not a run: there is no such folder (plimsoll train MODEL --out %s makes "
                    "it)",
                    run, text_word(pool, run));
    return fail(E_USAGE,
                "%s is not a run: it has no recipe.yaml (plimsoll train MODEL --out RUN makes one)",
                run);
}
