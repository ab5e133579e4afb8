/* cmd_evaluate.c -- `evaluate`: measures a run's weights on data, or the distance of two feature
 * sets. */
#include "cli/model_options.h"
#include "cli/rank_command.h"

#include "base/file.h"
#include "base/text.h"
#include "report/evaluation_pages.h"
#include "train/rank_run.h"

#include <string.h>

static ModelOptions model = { .runs = true };
static struct {
    const char *data, *weights, *out, *pairs, *loader_memory, *checkpoint, *cache, *mpi;
    int64_t     n, draw, timesteps, seed;
    bool        features, quiet, json;
} opt = { .draw = -1, .seed = -1, .loader_memory = LOADER_MEMORY };

static const Option options[] = {
    { "data", OPT_TEXT, &opt.data, "TEST", "test samples; default: those that the run held out" },
    WEIGHTS_OPTION(opt.weights),
    { "n", OPT_COUNT, &opt.n, "N", "number of samples; default: all, or 16 of generated data" },
    { "draw", OPT_NATURAL, &opt.draw, "N",
      "draw results for the first N samples only; 0: only the loss" },
    { "timesteps", OPT_COUNT, &opt.timesteps, "N", "timesteps of the loss; default 50, or all" },
    { "pairs", OPT_TEXT, &opt.pairs, "DIR", "write images for LPIPS to DIR/result and DIR/truth" },
    { "features", OPT_FLAG, &opt.features, NULL,
      "Frechet distance between two .npy files of features, (n,d) each" },
    { "o", OPT_TEXT, &opt.out, "FILE", "write the JSON here" },
    { "seed", OPT_NATURAL, &opt.seed, "N", "seed of the noise; default: the run's" },
    { "checkpoint", OPT_TEXT, &opt.checkpoint, "STEP", CHECKPOINT_HELP },
    LOADER_OPTIONS(opt, "the run's"),
    MODEL_OPTIONS(model),
    MPI_OPTION(opt.mpi),
    PROGRESS_OPTIONS(opt),
    { 0 }
};

typedef struct Answered { /* one of the two */
    const Recipe     *recipe;
    const Evaluation *evaluation;
    const Frechet    *frechet;
} Answered;

static Err found_json(JsonOut *o, const Answered *f)
{
    if (f->frechet)
        frechet_json(o, f->frechet);
    else
        evaluation_json(o, f->recipe, f->evaluation);
    return json_out_done(o);
}

static Err found_show(const Answered *f)
{
    JsonOut o;
    if (opt.out) {
        FileOut file;
        TRY(file_out_init(&file, opt.out));
        json_out_file(&o, &file, JSON_PRETTY);
        TRY(file_out_done(&file, found_json(&o, f)));
    }
    if (opt.json) {
        json_out_stream(&o, stdout, JSON_PRETTY);
        return found_json(&o, f);
    }
    if (f->frechet)
        frechet_text(stdout, f->frechet);
    else
        evaluation_text(stdout, f->recipe, f->evaluation);
    return OK;
}

static Err evaluate_features(Pool *pool, int n_args, char **args)
{
    Frechet frechet;
    if (n_args != 2)
        return fail(E_USAGE,
                    "--features takes two files: plimsoll evaluate --features A.npy B.npy");
    if (opt.data || opt.pairs || opt.weights)
        return fail(E_USAGE, "--features compares two files alone; leave out --%s",
                    opt.data    ? "data"
                    : opt.pairs ? "pairs"
                                : "weights");
    if (opt.out)
        TRY(file_try(opt.out));
    TRY(frechet_files(pool, args[0], args[1], &frechet));
    return found_show(&(Answered){ .frechet = &frechet });
}

static Err evaluate_command(Pool *pool, Comm *comm, int n_args, char **args)
{
    Recipe     *recipe = NULL;
    Device     *device = NULL;
    Evaluation  evaluation;
    const char *path;
    WeightsKind weights;
    int64_t     budget, loader, checkpoint, batch = model.batch ? model.batch : 1;
    if (n_args != 1)
        return fail(E_USAGE, "evaluate takes one run: plimsoll evaluate RUN --data TEST");
    TRY(weights_option(opt.weights, &weights));
    TRY(loader_memory_read(opt.loader_memory, &loader));
    if (opt.n && opt.n % batch)
        return fail(E_USAGE, "-n %lld is not a multiple of --batch %lld", (long long)opt.n,
                    (long long)batch);
    if (opt.out && rank_leads(comm))
        TRY(file_try(opt.out));
    if (opt.pairs && rank_leads(comm))
        TRY(folder_try(opt.pairs));
    TRY(run_recipe(pool, args[0], &path));
    rank_command_threads(comm, &model);
    Err opened = model_open(pool, &model, path, NULL, 0, &recipe, &device, &budget);
    TRY(rank_command_share(pool, comm, recipe, device, opened, &comm));
    TRY(checkpoint_option(pool, args[0], opt.checkpoint, &checkpoint));
    EvaluateOptions o = { .data = opt.data,
                          .pairs = opt.pairs,
                          .cache = opt.cache,
                          .n = opt.n,
                          .batch = batch,
                          .draw = opt.draw,
                          .timesteps = opt.timesteps,
                          .seed = opt.seed,
                          .checkpoint = checkpoint,
                          .budget_bytes = budget,
                          .loader_bytes = loader,
                          .weights = weights,
                          .comm = comm,
                          .quiet = opt.quiet || opt.json || !rank_leads(comm) };
    TRY(evaluate_run(pool, args[0], recipe, device, &o, &evaluation));
    if (!rank_leads(comm))
        return OK;
    TRY(found_show(&(Answered){ .recipe = recipe, .evaluation = &evaluation }));
    if (!opt.quiet && !opt.json)
        next_command("sample %s", text_word(pool, args[0]));
    return OK;
}

static Err cmd_evaluate_run(Pool *pool, int n_args, char **args)
{
    if (opt.features)
        return evaluate_features(pool, n_args, args);
    return rank_command(pool, opt.mpi, options, evaluate_command, n_args, args);
}

const Command cmd_evaluate = {
    "evaluate", "RUN [--data TEST] | --features A.npy B.npy",
    "measure a run's weights on test data: loss, PSNR, SSIM, metres, bits", options,
    cmd_evaluate_run
};
