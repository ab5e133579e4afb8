/* cmd_compress.c -- `compress`: a WAV file without loss, by the predictions of a SaShiMi run. */
#include "cli/codec_options.h"
#include "cli/model_options.h"

#include "base/file.h"
#include "base/text.h"

#include <string.h>

static ModelOptions model = { .runs = true };
static struct {
    const char *out, *checkpoint, *weights;
    int64_t     block;
    bool        quiet, json;
} opt;

static const Option options[] = {
    { "o", OPT_TEXT, &opt.out, "FILE", "the file to write, e.g. song.plz" },
    WEIGHTS_OPTION(opt.weights),
    { "checkpoint", OPT_TEXT, &opt.checkpoint, "STEP", CHECKPOINT_HELP },
    { "block", OPT_COUNT, &opt.block, "N",
      "steps of a block; default: one per thread, at least 16 x model.length" },
    MODEL_OPTIONS(model),
    PROGRESS_OPTIONS(opt),
    { 0 }
};

static void compress_text(const CodecOptions *o, const Recipe *recipe, const CodecReport *r)
{
    double n = (double)r->samples, payload = 8 * (double)r->payload_bytes;
    printf("%s: %s of ", o->out, count_text(r->file_bytes));
    printf("%s bytes, %.2f %%\n", count_text(r->wav_bytes),
           100 * (double)r->file_bytes / (double)r->wav_bytes);
    printf("payload %.4f bits per sample; the model's nll %.4f (%+.3f %%)\n", payload / n,
           r->nll_bits / n, 100 * (payload / r->nll_bits - 1));
    printf("%s, step %lld, %s weights: %s samples in %.1f s, ", recipe->name, (long long)r->step,
           r->averaged ? "averaged" : "raw", count_text(r->samples), r->seconds);
    printf("%s a second in %lld %s\n", count_text((int64_t)(n / r->seconds)), (long long)r->blocks,
           r->blocks == 1 ? "block" : "blocks");
}

static Err cmd_compress_run(Pool *pool, int n_args, char **args)
{
    Recipe      *recipe;
    Device      *device;
    CodecReport  report;
    CodecOptions o = { .quiet = opt.quiet || opt.json };
    const char  *path;
    if (n_args != 2 || !opt.out)
        return fail(E_USAGE, "compress takes a run, a WAV file and a file to write: plimsoll "
                             "compress RUN song.wav -o song.plz");
    TRY(weights_option(opt.weights, &o.weights));
    TRY(run_recipe(pool, args[0], &path));
    TRY(file_try(opt.out));
    TRY(model_open(pool, &model, path, NULL, 0, &recipe, &device, &o.budget_bytes));
    TRY(checkpoint_option(pool, args[0], opt.checkpoint, &o.checkpoint));
    o.run = args[0];
    o.in = args[1];
    o.out = opt.out;
    o.block_steps = opt.block;
    TRY(codec_compress(pool, recipe, device, &o, &report));
    if (opt.json)
        return codec_json(recipe, &report);
    compress_text(&o, recipe, &report);
    if (!opt.quiet)
        next_command("decompress %s %s -o copy.wav", text_word(pool, o.run),
                     text_word(pool, o.out));
    return OK;
}

const Command cmd_compress = { "compress", "RUN AUDIO.wav -o FILE.plz",
                               "compress a WAV file without loss with a SaShiMi run", options,
                               cmd_compress_run };
