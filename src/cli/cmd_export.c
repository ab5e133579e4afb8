/* cmd_export.c -- `export`: a run's weights as a file that the original program loads. */
#include "cli/model_options.h"

#include "base/file.h"
#include "base/text.h"
#include "train/export.h"

static TextList sets;
static struct {
    const char *out, *checkpoint;
    bool        ema, half;
} opt;

static const Option options[] = {
    { "o", OPT_TEXT, &opt.out, "FILE", "the file to write, e.g. weights.safetensors" },
    { "ema", OPT_FLAG, &opt.ema, NULL, "write the averaged weights; default: the raw ones" },
    { "fp16", OPT_FLAG, &opt.half, NULL, "write parameters in fp16; default: fp32" },
    { "checkpoint", OPT_TEXT, &opt.checkpoint, "STEP", CHECKPOINT_HELP },
    { "set", OPT_LIST, &sets, "KEY=VALUE",
      "override a recipe key, e.g. model.file=PATH; may be repeated" },
    { 0 }
};

static Err cmd_export_run(Pool *pool, int n_args, char **args)
{
    Recipe      *recipe;
    ExportReport r;
    const char  *path;
    int64_t      step;
    if (n_args != 1 || !opt.out)
        return fail(E_USAGE,
                    "export takes a run and a file: plimsoll export RUN -o weights.safetensors");
    TRY(run_recipe(pool, args[0], &path));
    TRY(file_try(opt.out));
    TRY(recipe_read(pool, path, sets.items, sets.n, &recipe));
    TRY(checkpoint_option(pool, args[0], opt.checkpoint, &step));
    ExportOptions how = { opt.out, step, opt.ema, opt.half };
    TRY(export_weights(pool, args[0], recipe, &how, &r));
    if (r.note)
        fprintf(stderr, "export: %s\n", r.note);
    print_sentence(stdout, "%s, step %lld: %d parameters and %d other tensors, %s, in %s",
                   recipe->name, (long long)r.step, r.params, r.tensors - r.params,
                   bytes_text(r.bytes), opt.out);
    if (r.left_out)
        print_sentence(stderr, "%s is left out: the model's file has its size but no contents",
                       r.left_out);
    next_command("train %s --init %s --out RUN2", text_word(pool, path), text_word(pool, opt.out));
    return OK;
}

const Command cmd_export = { "export", "RUN -o FILE [--ema] [--fp16]",
                             "write a run's weights under the original names", options,
                             cmd_export_run };
