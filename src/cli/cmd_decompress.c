/* cmd_decompress.c -- `decompress`: the WAV file that `compress` was given, byte for byte. */
#include "cli/codec_options.h"
#include "cli/model_options.h"

#include "base/file.h"
#include "base/text.h"

static ModelOptions model = { .runs = true };
static struct {
    const char *out, *checkpoint;
    bool        quiet, json;
} opt;

static const Option options[] = {
    { "o", OPT_TEXT, &opt.out, "FILE", "the WAV file to write" },
    { "checkpoint", OPT_TEXT, &opt.checkpoint, "STEP",
      "checkpoint: its step, or best; default: the one the file names" },
    MODEL_OPTIONS(model),
    PROGRESS_OPTIONS(opt),
    { 0 }
};

static Err cmd_decompress_run(Pool *pool, int n_args, char **args)
{
    Recipe      *recipe;
    Device      *device;
    CodecReport  r;
    CodedAudio   audio;
    CodecOptions o = { .quiet = opt.quiet || opt.json };
    const char  *path;
    if (n_args != 2 || !opt.out)
        return fail(E_USAGE, "decompress takes a run, a compressed file and a file to write: "
                             "plimsoll decompress RUN song.plz -o song.wav");
    TRY(run_recipe(pool, args[0], &path));
    TRY(codec_look(pool, args[1], &audio));
    TRY(file_try(opt.out));
    model.threads = model.threads ? model.threads : audio.threads;
    TRY(model_open(pool, &model, path, NULL, 0, &recipe, &device, &o.budget_bytes));
    TRY(checkpoint_option(pool, args[0], opt.checkpoint, &o.checkpoint));
    o.run = args[0];
    o.in = args[1];
    o.out = opt.out;
    TRY(codec_decompress(pool, recipe, device, &o, &r));
    if (opt.json)
        return codec_json(recipe, &r);
    printf("%s: %s bytes; %s samples in %.1f s, ", o.out, count_text(r.wav_bytes),
           count_text(r.samples), r.seconds);
    printf("%s a second in %lld %s\n", count_text((int64_t)((double)r.samples / r.seconds)),
           (long long)r.blocks, r.blocks == 1 ? "block" : "blocks");
    if (!opt.quiet)
        next_command("evaluate %s --data %s", text_word(pool, args[0]), text_word(pool, o.out));
    return OK;
}

const Command cmd_decompress = { "decompress", "RUN FILE.plz -o AUDIO.wav",
                                 "restore a WAV file that compress read", options,
                                 cmd_decompress_run };
