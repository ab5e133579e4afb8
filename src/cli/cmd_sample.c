/* cmd_sample.c -- `sample`: samples images, clips or audio from a trained run. */
#include "cli/model_options.h"
#include "cli/rank_command.h"
#include "cli/sampler_options.h"

#include "base/json_out.h"
#include "base/text.h"
#include "data/raster.h"
#include "train/enlarge.h"
#include "train/rank_run.h"

#include <math.h>

static ModelOptions   model = { .runs = true };
static SamplerOptions sampler = SAMPLER_OPTIONS_NONE;
enum { RESULTS_USUAL = 4, RESULTS_MAX = 4096, N_UNSAID = INT32_MIN };
static struct {
    const char *out, *input, *prompt, *tower, *vocabulary, *given, *format, *loader_memory,
        *checkpoint, *cache, *mpi;
    int64_t n, seed, hold_back, scale;
    bool    no_ema, beside, quiet, json;
} opt = { .n = N_UNSAID, .seed = -1, .loader_memory = LOADER_MEMORY };

static const Option options[] = {
    { "n", OPT_INT, &opt.n, "N", "number of samples; default 4" },
    { "o", OPT_TEXT, &opt.out, "DIR", "folder for the results; default RUN/samples" },
    { "input", OPT_TEXT, &opt.input, "PATH",
      "start from this file or folder instead of the recipe's data" },
    { "scale", OPT_COUNT, &opt.scale, "S",
      "super-resolution of --input: factor of width and height; default 4" },
    { "hold-back", OPT_NATURAL, &opt.hold_back, "N",
      "predict the last N frames of the clips of --input, and compare" },
    { "prompt", OPT_TEXT, &opt.prompt, "TEXT", "text that the results should show" },
    { "text", OPT_TEXT, &opt.tower, "FILE",
      "weights of the text tower for --prompt; default: where the run's are" },
    { "vocab", OPT_TEXT, &opt.vocabulary, "FILE", "its vocab.txt, if it is not beside them" },
    { "given", OPT_TEXT, &opt.given, "FILE",
      "take inputs and noise from a file (docs/user/FORMATS.md)" },
    { "format", OPT_TEXT, &opt.format, "LIST",
      "of single results: png, npy; clips also gif, mp4, webm; audio wav, npy" },
    { "seed", OPT_NATURAL, &opt.seed, "N", "seed of the random numbers; default: the run's" },
    SAMPLER_OPTIONS(sampler),
    { "checkpoint", OPT_TEXT, &opt.checkpoint, "STEP", CHECKPOINT_HELP },
    { "no-ema", OPT_FLAG, &opt.no_ema, NULL, "use the weights themselves, not their average" },
    { "beside", OPT_FLAG, &opt.beside, NULL, "also write samples of the data, to compare with" },
    LOADER_OPTIONS(opt, "the run's"),
    MODEL_OPTIONS(model),
    MPI_OPTION(opt.mpi),
    PROGRESS_OPTIONS(opt),
    { 0 }
};

static Err sample_json(const Recipe *recipe, const SampleReport *r)
{
    JsonOut o;
    json_out_stream(&o, stdout, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_string(&o, "model", recipe->name);
    json_out_int(&o, "step", r->step);
    json_out_bool(&o, "ema", r->averaged);
    json_out_int(&o, "planned_bytes", r->planned_bytes);
    json_out_int(&o, "measured_bytes", r->measured_bytes);
    json_out_number(&o, "seconds", r->seconds);
    if (r->error.pixels) {
        json_out_object_row(&o, "error");
        json_out_number(&o, "mean", r->error.mean);
        json_out_string(&o, "unit", r->error.metres ? "m" : "levels");
        json_out_int(&o, "pixels", r->error.pixels);
        json_out_end(&o);
    }
    json_out_array(&o, "files");
    for (int32_t i = 0; i < r->n_files; i++)
        json_out_string(&o, NULL, r->files[i]);
    json_out_end(&o);
    json_out_end(&o);
    return json_out_done(&o);
}

/* Opens the run's recipe with the sampler's options, and the device. */
static Err sample_model_open(Pool *pool, const char *run, Recipe **recipe, Device **device,
                             int64_t *budget)
{
    const char *path, *sets[SAMPLER_SETS];
    int         n = 0;
    TRY(run_recipe(pool, run, &path));
    TRY(recipe_read(pool, path, model.set.items, model.set.n, recipe));
    TRY(sampler_sets(pool, &sampler, *recipe, sets, &n));
    return model_open(pool, &model, path, sets, n, recipe, device, budget);
}

static Err sample_usage(int n_args)
{
    if (n_args != 1)
        return fail(E_USAGE, "sample takes one run: plimsoll sample RUN -n 4 -o DIR");
    if (opt.n != N_UNSAID && (opt.n < 1 || opt.n > RESULTS_MAX))
        return fail(E_USAGE, "-n takes 1 to %d, not %lld", RESULTS_MAX, (long long)opt.n);
    if (opt.scale > SCALE_MAX)
        return fail(E_USAGE, "--scale takes 1 to %d, not %lld", SCALE_MAX, (long long)opt.scale);
    return opt.given && opt.input ? fail(E_USAGE, "--given holds the inputs; leave out --input")
                                  : OK;
}

/* For people. */
static void sample_print(const Recipe *recipe, const SampleReport *r)
{
    for (int64_t i = 0; r->about && i < r->drawn; i++)
        printf("%3lld: %s\n", (long long)i, r->about[i]);
    for (int32_t i = 0; i < r->n_files; i++)
        printf("%s\n", r->files[i]);
    if (r->error.pixels)
        printf("error: %.2f %s on average over %s pixels; error%s is white from %.4g %s on\n",
               r->error.mean, r->error.metres ? "m" : "levels", count_text(r->error.pixels),
               image_ending, r->error.white, r->error.metres ? "m" : "levels");
    printf("%s, step %lld, %s weights: %lld drawn in %.1f s; ", recipe->name, (long long)r->step,
           r->averaged ? "averaged" : "raw", (long long)r->drawn, r->seconds);
    if (r->measured_bytes)
        printf("%s planned = %s measured\n", count_text(r->planned_bytes),
               count_text(r->measured_bytes));
    else
        printf("%s planned, only for the weights\n", count_text(r->planned_bytes));
}

static Err sample_command(Pool *pool, Comm *comm, int n_args, char **args)
{
    Recipe       *recipe = NULL;
    Device       *device = NULL;
    SampleReport  report;
    SampleOptions o = { .input = opt.input,
                        .prompt = opt.prompt,
                        .tower = opt.tower,
                        .vocabulary = opt.vocabulary,
                        .given = opt.given,
                        .format = opt.format,
                        .tiles = model.batch ? model.batch : 1,
                        .scale = opt.scale,
                        .hold_back = opt.hold_back,
                        .seed = opt.seed,
                        .beside = opt.beside,
                        .weights = opt.no_ema ? WEIGHTS_RAW : WEIGHTS_USUAL,
                        .cache = opt.cache };
    TRY(sample_usage(n_args));
    TRY(loader_memory_read(opt.loader_memory, &o.loader_bytes));
    rank_command_threads(comm, &model);
    Err opened = sample_model_open(pool, args[0], &recipe, &device, &o.budget_bytes);
    TRY(rank_command_share(pool, comm, recipe, device, opened, &comm));
    TRY(checkpoint_option(pool, args[0], opt.checkpoint, &o.checkpoint));
    o.out = opt.out ? opt.out : pool_print(pool, "%s/samples", args[0]);
    if (opt.n != N_UNSAID)
        o.n = opt.n;
    else /* of images to enlarge: all */
        o.n = recipe->model->enlarge && opt.input ? 0 : RESULTS_USUAL;
    o.comm = comm;
    o.quiet = opt.quiet || opt.json || !rank_leads(comm);
    TRY(sample_run(pool, args[0], recipe, device, &o, &report));
    if (!rank_leads(comm))
        return OK;
    if (report.note)
        print_sentence(stderr, "sample: %s", report.note);
    if (report.trained && !opt.quiet)
        print_sentence(stderr,
                       "sample: the run held out no samples, so the inputs are training samples; "
                       "give others with --input");
    if (opt.json)
        return sample_json(recipe, &report);
    sample_print(recipe, &report);
    if (!opt.quiet)
        next_command("export %s -o weights.safetensors", text_word(pool, args[0]));
    return OK;
}

static Err cmd_sample_run(Pool *pool, int n_args, char **args)
{
    return rank_command(pool, opt.mpi, options, sample_command, n_args, args);
}

const Command cmd_sample = { "sample", "RUN [-n N] [-o DIR]",
                             "sample images, clips or audio from a trained run", options,
                             cmd_sample_run };
