/* cmd_sample.c -- `sample`: samples images, clips or audio from a trained run. */
#include "cli/model_options.h"

#include "base/json_out.h"
#include "base/text.h"
#include "train/sample.h"

#include <math.h>

static ModelOptions model = { .runs = true };
static struct {
    const char *out, *input, *prompt, *given, *loader_memory, *checkpoint, *cache;
    int64_t     n, seed, steps, length;
    double      guidance;
    bool        no_ema, quiet, json;
} opt = {
    .n = 4, .seed = -1, .steps = -1, .length = -1, .guidance = NAN, .loader_memory = LOADER_MEMORY
};

static const Option options[] = {
    { "n", OPT_INT, &opt.n, "N", "number of samples; default 4" },
    { "o", OPT_TEXT, &opt.out, "DIR", "folder for the results; default RUN/samples" },
    { "input", OPT_TEXT, &opt.input, "PATH", "start from this instead of the recipe's data" },
    { "prompt", OPT_TEXT, &opt.prompt, "TEXT", "what the results should show, in words" },
    { "given", OPT_TEXT, &opt.given, "FILE",
      "take inputs and noise from here (docs/user/FORMATS.md)" },
    { "seed", OPT_NATURAL, &opt.seed, "N", "seed of the random numbers; default: the run's" },
    { "steps", OPT_NATURAL, &opt.steps, "S", "denoising steps of the sampler" },
    { "length", OPT_COUNT, &opt.length, "N", "audio: values to draw, one after another" },
    { "guidance", OPT_NUMBER, &opt.guidance, "W", "strength of classifier-free guidance; 1: none" },
    { "checkpoint", OPT_TEXT, &opt.checkpoint, "STEP", CHECKPOINT_HELP },
    { "no-ema", OPT_FLAG, &opt.no_ema, NULL, "use the weights themselves, not their average" },
    { "loader-memory", OPT_TEXT, &opt.loader_memory, "SIZE",
      "limit of the memory that loads data; default 1GiB" },
    { "cache", OPT_TEXT, &opt.cache, "DIR",
      "folder for decoded video and audio; default: the run's" },
    MODEL_OPTIONS(model),
    { "quiet", OPT_FLAG, &opt.quiet, NULL, "no progress" },
    { "json", OPT_FLAG, &opt.json, NULL, "print the result as JSON" },
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
    json_out_array(&o, "files");
    for (int32_t i = 0; i < r->n_files; i++)
        json_out_string(&o, NULL, r->files[i]);
    json_out_end(&o);
    json_out_end(&o);
    return json_out_done(&o);
}

/* Each system has one of the two. */
static Err sample_length_or_steps(const Recipe *recipe)
{
    bool recurrent = recipe->sampler.kind == SAMPLER_RECURRENT;
    if (recurrent && opt.steps >= 0)
        return fail(E_USAGE,
                    "--steps: %s draws one value after another and has no denoising steps; "
                    "--length N sets how many values",
                    recipe->model->name);
    if (!recurrent && opt.length > 0)
        return fail(E_USAGE, "--length: %s draws results of its own size; --length is for audio",
                    recipe->model->name);
    return OK;
}

static Err cmd_sample_run(Pool *pool, int n_args, char **args)
{
    Recipe      *recipe;
    Device      *device;
    SampleReport report;
    const char  *more[3], *path;
    int          n = 0;
    int64_t      budget, loader, checkpoint;
    if (n_args != 1)
        return fail(E_USAGE, "sample takes one run: plimsoll sample RUN -n 4 -o DIR");
    if (opt.n < 1 || opt.n > 4096)
        return fail(E_USAGE, "-n takes 1 to 4096, not %lld", (long long)opt.n);
    TRY(loader_memory_read(opt.loader_memory, &loader));
    if (opt.given && opt.input)
        return fail(E_USAGE, "--given holds the inputs; leave out --input");
    TRY(run_recipe(pool, args[0], &path));
    if (opt.steps >= 0)
        more[n++] = pool_print(pool, "sampler.steps=%lld", (long long)opt.steps);
    if (!isnan(opt.guidance))
        more[n++] = pool_print(pool, "sampler.guidance=%.17g", opt.guidance);
    if (opt.length > 0)
        more[n++] = pool_print(pool, "sampler.length=%lld", (long long)opt.length);
    TRY(model_open(pool, &model, path, more, n, &recipe, &device, &budget));
    TRY(sample_length_or_steps(recipe));
    TRY(checkpoint_option(pool, args[0], opt.checkpoint, &checkpoint));
    SampleOptions o = { .out = opt.out ? opt.out : pool_print(pool, "%s/samples", args[0]),
                        .input = opt.input,
                        .prompt = opt.prompt,
                        .given = opt.given,
                        .n = opt.n,
                        .seed = opt.seed,
                        .checkpoint = checkpoint,
                        .raw = opt.no_ema,
                        .budget_bytes = budget,
                        .cache = opt.cache,
                        .loader_bytes = loader,
                        .quiet = opt.quiet || opt.json };
    TRY(sample_run(pool, args[0], recipe, device, &o, &report));
    if (opt.json)
        return sample_json(recipe, &report);
    for (int64_t i = 0; report.about && i < opt.n; i++)
        printf("%3lld: %s\n", (long long)i, report.about[i]);
    for (int32_t i = 0; i < report.n_files; i++)
        printf("%s\n", report.files[i]);
    printf("%s, step %lld, %s weights: %lld drawn in %.1f s; ", recipe->name,
           (long long)report.step, report.averaged ? "averaged" : "raw", (long long)opt.n,
           report.seconds);
    if (report.measured_bytes)
        printf("%s planned = %s measured\n", count_text(report.planned_bytes),
               count_text(report.measured_bytes));
    else
        printf("%s planned, for the weights alone\n", count_text(report.planned_bytes));
    if (!opt.quiet)
        next_command("export %s -o weights.safetensors", text_word(pool, args[0]));
    return OK;
}

const Command cmd_sample = { "sample", "RUN [-n N] [-o DIR]",
                             "sample images, clips or audio from a trained run", options,
                             cmd_sample_run };
