/* cmd_train.c -- `train`: trains a recipe exactly as planned. */
#include "cli/model_options.h"
#include "cli/rank_command.h"

#include "base/file.h"
#include "base/json_out.h"
#include "base/text.h"
#include "comm/agree.h"
#include "fit/fit.h"
#include "train/rank_messages.h"
#include "train/rank_run.h"
#include "train/ranks.h"
#include "train/run_file.h"
#include "train/trainer.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ModelOptions model = { .runs = true, .shares = true, .paced = true };
static struct {
    const char *out, *resume, *init, *given, *dump, *dump_random, *data, *plan, *allow,
        *loader_memory, *cache, *mpi, *shard, *bucket;
    int64_t steps, seed, check_ranks;
    double  patience;
    bool    json, init_partial, ema, quiet;
} opt = { .steps = -1, .seed = -1, .check_ranks = -1 };

/* clang-format off */
static const Option options[] = {
    { "steps",        OPT_NATURAL,&opt.steps,        "N",
      "total number of steps, also with --resume" },
    { "out",          OPT_TEXT, &opt.out,          "RUN",
      "folder of the run; default: runs/RECIPE-N; none: save nothing" },
    { "resume",       OPT_TEXT, &opt.resume,       "RUN",
      "continue RUN from its newest checkpoint, with its options" },
    { "init",         OPT_TEXT, &opt.init,         "FILE",
      "starting weights: .safetensors, .pt, .pth, .ckpt, .msgpack, or a run" },
    { "init-partial", OPT_FLAG, &opt.init_partial, NULL,
      "take the tensors of --init that match by name and shape" },
    { "ema",          OPT_FLAG, &opt.ema,          NULL,
      "take the averaged weights of --init" },
    { "data",         OPT_TEXT, &opt.data,         "DIR",  "folder with the samples" },
    { "seed",         OPT_NATURAL,&opt.seed,         "N",
      "seed of weights, noise and data order" },
    { "given",        OPT_TEXT, &opt.given,        "FILE",
      "take inputs and noise from a file (docs/user/FORMATS.md)" },
    { "dump",         OPT_TEXT, &opt.dump,         "FILE",
      "write the first step's loss, outputs and gradients here" },
    { "dump-random",  OPT_TEXT, &opt.dump_random,  "FILE",
      "write the random numbers of an imported model here" },
    LOADER_OPTIONS(opt, "RUN/cache"),
    MODEL_OPTIONS(model),
    LOSS_OPTION(model),
    { "plan",         OPT_TEXT, &opt.plan,         "FILE", "follow a plan that fit -o wrote" },
    ALLOW_OPTION(opt.allow),
    SHARD_OPTIONS(opt.shard, opt.bucket),
    WIRE_OPTION(model.wire),
    { "patience",     OPT_SECONDS, &opt.patience,  "S",
      "end if one rank is silent for S seconds; default 300", GROUP_RANKS },
    { "check-ranks",  OPT_NATURAL, &opt.check_ranks, "N",
      "compare parameters every N steps; default 1000, 0: never", GROUP_RANKS },
    MPI_OPTION(opt.mpi),
    PROGRESS_OPTIONS(opt),
    { 0 }
};
/* clang-format on */

/* The three phases of a sampler, which are neighbours in the enum, are shown as one. */
static void phases_json(JsonOut *o, const TrainResult *r)
{
    json_out_array(o, "phases");
    for (int phase = 0, next; phase < PHASE_COUNT; phase = next) {
        int64_t     planned = 0, measured = 0;
        const char *name = phase_public_name((Phase)phase);
        for (next = phase; next < PHASE_COUNT && !strcmp(phase_public_name((Phase)next), name);
             next++) {
            planned = r->phase_planned[next] > planned ? r->phase_planned[next] : planned;
            measured = r->phase_measured[next] > measured ? r->phase_measured[next] : measured;
        }
        if (!planned)
            continue;
        json_out_object_row(o, NULL);
        json_out_string(o, "name", name);
        json_out_int(o, "planned_bytes", planned);
        json_out_int(o, "measured_bytes", measured);
        json_out_end(o);
    }
    json_out_end(o);
}

static void ranks_json(JsonOut *o, const TrainResult *r)
{
    json_out_object_row(o, "ranks");
    json_out_int(o, "ranks", r->ranks);
    json_out_int(o, "sent_bytes", r->moving.bytes);
    json_out_number(o, "moving_ms", r->moving.moving_ns * 1e-6);
    json_out_number(o, "waiting_ms", r->moving.waits_ns * 1e-6);
    if (*r->by)
        json_out_string(o, "by", r->by);
    else
        json_out_number(o, "waited_ms", r->waited_ms);
    json_out_end(o);
}

/* A GPU waits by itself, beside the host: how long, only its own clock could tell. */
static void ranks_print(const TrainResult *r)
{
    char waited[512];
    snprintf(waited, sizeof waited, "rank 0 waited %.1f ms per step for others", r->waited_ms);
    if (*r->by)
        snprintf(waited, sizeof waited, "bytes travel by %s", r->by);
    print_sentence(stdout,
                   "each of %lld ranks sends %s per step, predicted to take %.1f ms, of which %.1f "
                   "are waited for; %s",
                   (long long)r->ranks, bytes_text(r->moving.bytes), r->moving.moving_ns * 1e-6,
                   r->moving.waits_ns * 1e-6, waited);
}

static Err train_json(const Recipe *recipe, const TrainResult *r)
{
    JsonOut o;
    json_out_stream(&o, stdout, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_string(&o, "model", recipe->name);
    json_out_int(&o, "steps", r->steps);
    json_out_int(&o, "step", r->step);
    json_out_number(&o, "loss_first", r->loss_first);
    json_out_number(&o, "loss_last", r->loss_last);
    if (r->validations)
        json_out_number(&o, "val_loss", r->validation_last);
    json_out_number(&o, "step_ms", r->step_ms);
    json_out_int(&o, "planned_bytes", r->planned_bytes);
    json_out_int(&o, "measured_bytes", r->measured_bytes);
    phases_json(&o, r);
    if (r->host_planned_bytes) {
        json_out_int(&o, "host_planned_bytes", r->host_planned_bytes);
        json_out_int(&o, "host_measured_bytes", r->host_measured_bytes);
    }
    json_out_int(&o, "loader_bytes", r->loader_bytes);
    if (r->loader_limit)
        json_out_int(&o, "loader_limit_bytes", r->loader_limit);
    json_out_int(&o, "recomputed_nodes", r->recomputed);
    json_out_int(&o, "micro_batch", r->batch);
    json_out_int(&o, "accumulate", r->accumulate);
    json_out_number(&o, "predicted_slowdown", r->slowdown);
    json_out_number(&o, "predicted_ms", r->predicted_ms);
    json_out_string(&o, "time_source", r->time_source);
    if (r->ranks > 1)
        ranks_json(&o, r);
    json_out_int(&o, "runtime_bytes", r->runtime_bytes);
    if (r->stated_bytes)
        json_out_int(&o, "runtime_stated_bytes", r->stated_bytes);
    json_out_bool(&o, "interrupted", r->interrupted);
    json_out_end(&o);
    return json_out_done(&o);
}

static void train_print(Pool *pool, const Recipe *recipe, const TrainResult *r, const char *run)
{
    if (!recipe->steps && run && !opt.resume) {
        print_sentence(stdout, "%s: no steps; %s holds the starting weights", recipe->name, run);
        return;
    }
    if (!r->steps) {
        print_sentence(stdout,
                       "%s: nothing left to do: step %lld of %lld is done; --steps N continues",
                       recipe->name, (long long)r->step, (long long)recipe->steps);
        return;
    }
    print_sentence(stdout,
                   "%s: %lld steps, loss %.5f -> %.5f, %.1f ms/step, %s planned = %s measured",
                   recipe->name, (long long)r->steps, r->loss_first, r->loss_last, r->step_ms,
                   count_text(r->planned_bytes), count_text(r->measured_bytes));
    if (r->stated_bytes)
        print_sentence(stdout,
                       "predicted %.1f ms/step, by %s; the driver counts %s outside the arena, of "
                       "%s that were reserved for it",
                       r->predicted_ms, r->time_source, bytes_text(r->runtime_bytes),
                       bytes_text(r->stated_bytes));
    else
        print_sentence(stdout,
                       "predicted %.1f ms/step, by %s; %s outside the arena (code, generated "
                       "kernels, graph, batch buffers)",
                       r->predicted_ms, r->time_source, bytes_text(r->runtime_bytes));
    if (r->stated_bytes && r->runtime_bytes > r->stated_bytes)
        print_sentence(stdout, "that is %s more than was reserved: lower --budget by that much",
                       bytes_text(r->runtime_bytes - r->stated_bytes));
    if (r->ranks > 1)
        ranks_print(r);
    if (r->batch != recipe->batch)
        printf("each step was run as %lld micro-batches of %lld instead of %lld of %lld\n",
               (long long)r->accumulate, (long long)r->batch, (long long)recipe->accumulate,
               (long long)recipe->batch);
    if (r->recomputed)
        print_sentence(stdout,
                       "%d nodes are recomputed in each step to stay within the budget (predicted "
                       "%+.1f %% time)",
                       r->recomputed, 100 * (r->slowdown - 1));
    if (run && !opt.out && !opt.resume)
        printf("the run is in %s\n", run);
    if (run && !r->interrupted && recipe->model->sample && !opt.quiet)
        next_command("sample %s -n 4", text_word(pool, run));
    if (r->interrupted && run)
        printf("stopped at step %lld; continue with: plimsoll train --resume %s\n",
               (long long)r->step, text_word(pool, run));
}

/* A run keeps the length of its schedule: resumed for more steps it continues on the same curve.
 * Said where it ends before the run does. */
static void schedule_keep(Recipe *recipe)
{
    if (!opt.resume && recipe->schedule.kind == SCHEDULE_COSINE && !recipe->schedule.steps)
        recipe->schedule.steps = recipe->steps;
    int64_t end = schedule_end(recipe);
    if (end && recipe->steps > end)
        print_sentence(stderr,
                       "schedule: the learning rate is 0 from step %lld on, and the run has %lld "
                       "steps; --set schedule.steps=%lld ends it with the run",
                       (long long)end, (long long)recipe->steps, (long long)recipe->steps);
}

/* Makes runs/NAME-N, the first that is not there. */
static Err run_folder(Pool *pool, const char *name, const char **out)
{
    char *plain = pool_text(pool, name);
    for (char *c = plain; *c; c++)
        *c = strchr("/\n ", *c) ? '-' : *c;
    TRY(folder_make("runs"));
    for (int n = 1;; n++) {
        const char *path = pool_print(pool, "runs/%s-%d", *plain == '.' ? "run" : plain, n);
        if (!mkdir(path, 0777)) {
            *out = path;
            return OK;
        }
        if (errno != EEXIST)
            return file_fail("make", path, errno);
    }
}

static void option_default(const char **option, const char *from_run)
{
    *option = *option ? *option : from_run;
}

/* The options that the run was started with, where none is given now. Its plan holds the budget. */
static Err resume_options(Pool *pool, const char *run)
{
    RunFile file;
    TRY(run_file_read(pool, run, &file));
    option_default(&model.device, file.device);
    option_default(&model.backend, file.backend);
    option_default(&model.host_budget, file.host_budget);
    option_default(&opt.loader_memory, file.loader_memory);
    option_default(&opt.allow, opt.plan ? NULL : file.allow);
    option_default(&opt.given, file.given);
    option_default(&opt.cache, file.cache);
    option_default(&opt.shard, file.shard);
    option_default(&opt.bucket, file.bucket);
    model.threads = model.threads ? model.threads : file.threads;
    opt.check_ranks = opt.check_ranks < 0 ? file.check_ranks : opt.check_ranks;
    opt.patience = opt.patience > 0 ? opt.patience : file.patience;
    if (!opt.plan && !file_exists(pool_print(pool, "%s/plan.json", run)))
        option_default(&model.budget, file.budget);
    return OK;
}

/* A recipe that is named with --resume is the run's, perhaps with other numbers. */
static Err resume_recipe(Pool *pool, const Recipe *named)
{
    Recipe     *own;
    const char *path = pool_print(pool, "%s/recipe.yaml", opt.resume);
    if (!file_exists(path)) /* lost: then the recipe that is named takes its place */
        return OK;
    TRY(recipe_read(pool, path, NULL, 0, &own));
    if (strcmp(own->name, named->name) == 0 && own->model == named->model)
        return OK;
    return fail(E_USAGE,
                "%s is a run of %s, not of %s; leave out the recipe: plimsoll train --resume %s",
                opt.resume, own->name, named->name, text_word(pool, opt.resume));
}

/* Rank 0 chooses the folder for all. */
static Err run_folder_of_all(Pool *pool, Comm *comm, const char *name, const char **out)
{
    char path[FILE_PATH_MAX] = "";
    Err  err = OK;
    if (comm_rank(comm) == 0) {
        err = run_folder(pool, name, out);
        snprintf(path, sizeof path, "%s", err ? "" : *out);
    }
    TRY(comm_follow(comm, 0, err));
    TRY(comm_share(comm, 0, path, sizeof path));
    *out = pool_text(pool, path);
    return OK;
}

/* The options of a plan for several ranks, as the launcher started them. */
static void model_join(const Comm *comm)
{
    if (comm_ranks(comm) == 1) {
        model.wire = NULL;
        return;
    }
    model.ranks = comm_ranks(comm);
    model.per_node = rank_per_node(comm);
    model.shard = opt.shard;
    model.bucket = opt.bucket;
}

/* Options that exclude or need each other. */
static Err train_usage(int n_args)
{
    if (opt.resume && opt.out)
        return fail(E_USAGE, "--resume RUN already names the folder; leave out --out");
    if (n_args != 1 && !(n_args == 0 && opt.resume))
        return fail(E_USAGE, "train takes one recipe: plimsoll train MODEL --steps N --out RUN");
    if (opt.init_partial && !opt.init)
        return fail(E_USAGE, "--init-partial takes tensors of --init; name that file too");
    if (opt.ema && !opt.init)
        return fail(E_USAGE,
                    "--ema takes the averaged weights of the file of --init; name that file too");
    if (opt.resume && opt.init)
        return fail(E_USAGE, "--resume continues with the run's own weights; leave out --init, or "
                             "start another run with --init and --out");
    if (opt.given && opt.dump_random)
        return fail(E_USAGE, "--dump-random writes the random numbers, but --given takes them from "
                             "a file; leave out one of the two");
    if (opt.plan && (model.budget || opt.allow))
        return fail(E_USAGE,
                    "--plan has its own budget and levers; leave out --budget and --allow");
    return OK;
}

typedef struct TrainAsked { /* by the options */
    Recipe *recipe;
    Device *device;
    int64_t budget, loader; /* bytes */
} TrainAsked;

/* The recipe that is named, or the run's, with the keys that options stand for; the device. Each rank
 * opens its own: nothing here waits for another rank. */
static Err train_open(Pool *pool, Comm *comm, int n_args, char **args, TrainAsked *asked)
{
    const char *sets[5], *name = args[0];
    int         n = 0;
    bool        file = n_args && recipe_is_model(name);

    TRY(train_usage(n_args));
    if (opt.init && !strcmp(opt.init, "none")) {
        if (file)
            sets[n++] = "model.weights=drawn";
        opt.init = NULL;
    }
    if (opt.resume)
        TRY(resume_options(pool, opt.resume));
    if (opt.patience > 0)
        comm_patience(comm, opt.patience);
    TRY(loader_memory_read(opt.loader_memory ? opt.loader_memory : LOADER_MEMORY, &asked->loader));
    if (opt.steps >= 0)
        sets[n++] = pool_print(pool, "steps=%lld", (long long)opt.steps);
    if (opt.seed >= 0)
        sets[n++] = pool_print(pool, "seed=%lld", (long long)opt.seed);
    if (opt.data)
        sets[n++] = pool_print(pool, "data.path=%s", text_quoted(pool, opt.data, "''"));
    if (opt.resume && file) /* the run's recipe, with its model from here */
        sets[n++] = pool_print(pool, "model.file=%s", text_quoted(pool, name, "''"));
    if (!n_args || (opt.resume && file))
        TRY(run_recipe(pool, opt.resume, &name));
    /* A plan holds for one number of threads, and so do the bits of a run. */
    const char *plan = opt.plan     ? opt.plan
                       : opt.resume ? pool_print(pool, "%s/plan.json", opt.resume)
                                    : NULL;
    if (plan && !model.threads)
        model.threads = fit_threads(pool, plan);
    rank_command_threads(comm, &model);
    model_join(comm);
    TRY(model_open(pool, &model, name, sets, n, &asked->recipe, &asked->device, &asked->budget));
    FitOptions how = { .shard_auto = model_shards(&model) };
    TRY(model_kept_share(pool, &model, asked->recipe, asked->device, &how, &asked->budget));
    if (opt.resume && n_args && !file)
        TRY(resume_recipe(pool, asked->recipe));
    schedule_keep(asked->recipe);
    return OK;
}

/* What --resume takes up again. */
static RunFile run_started(void)
{
    return (RunFile){ .device = model.device,
                      .backend = model.backend,
                      .budget = model.budget,
                      .host_budget = model.host_budget,
                      .loader_memory = opt.loader_memory,
                      .allow = opt.allow,
                      .given = opt.given,
                      .cache = opt.cache,
                      .shard = opt.shard,
                      .bucket = opt.bucket,
                      .check_ranks = opt.check_ranks,
                      .patience = opt.patience,
                      .threads = model.threads };
}

static Err train_command(Pool *pool, Comm *comm, int n_args, char **args)
{
    TrainAsked  asked = { 0 };
    TrainResult result;

    Comm *shared;
    Err   opened = train_open(pool, comm, n_args, args, &asked);
    TRY(rank_command_share(pool, comm, asked.recipe, asked.device, opened, &shared));
    Recipe     *recipe = asked.recipe;
    RunFile     started = run_started();
    const char *out = opt.resume ? opt.resume : opt.out;
    if (!out)
        TRY(run_folder_of_all(pool, comm, recipe->name, &out));
    else if (!strcmp(out, "none"))
        out = NULL;
    TrainOptions run = { .out = out,
                         .started = &started,
                         .resume = opt.resume != NULL,
                         .init = opt.init,
                         .init_partial = opt.init_partial,
                         .init_average = opt.ema,
                         .given = opt.given,
                         .dump = opt.dump,
                         .dump_random = opt.dump_random,
                         .budget_bytes = asked.budget,
                         .plan = opt.plan,
                         .cache = opt.cache ? opt.cache
                                  : out     ? pool_print(pool, "%s/cache", out)
                                            : NULL,
                         .loader_bytes = asked.loader,
                         .allow = ALLOW_DEFAULT,
                         .comm = comm,
                         .check_ranks = opt.check_ranks < 0 ? RANKS_CHECK_EVERY : opt.check_ranks,
                         .quiet = opt.quiet || opt.json || comm_rank(comm) };
    if (opt.allow)
        TRY(allow_read(opt.allow, &run.allow));
    TRY(shard_read(opt.shard, opt.bucket, &run.shard, &run.bucket));
    Err err = train_run(pool, recipe, asked.device, &run, &result);
    if (err && out && !opt.out && !opt.resume && !comm_rank(comm))
        rmdir(out); /* if it is still empty */
    TRY(err);
    TRY(rank_messages_tell(pool, comm));
    if (comm_rank(comm))
        return OK; /* rank 0 prints the result */
    if (opt.json)
        return train_json(recipe, &result);
    train_print(pool, recipe, &result, run.out);
    return OK;
}

static Err cmd_train_run(Pool *pool, int n_args, char **args)
{
    if (opt.patience > 0)
        comm_open_within(opt.patience);
    return rank_command(pool, opt.mpi, options, train_command, n_args, args);
}

const Command cmd_train = { "train", "MODEL [--out RUN | --resume RUN]",
                            "train a model exactly as planned", options, cmd_train_run };
