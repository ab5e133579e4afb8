/* cmd_encode.c -- `encode`: computes what frozen networks make of the data, once before training. */
#include "cli/model_options.h"

#include "base/json_out.h"
#include "base/text.h"
#include "train/encode.h"

#include <inttypes.h>

static ModelOptions model = { .runs = true };
static struct {
    const char *init, *data, *out, *text, *vocab, *loader_memory, *cache;
    int64_t     crops, seed;
    bool        quiet, json;
} opt = { .loader_memory = LOADER_MEMORY, .crops = 1, .seed = -1 };

static const Option options[] = {
    { "init", OPT_TEXT, &opt.init, "FILE",
      "weights: the text tower's, the autoencoder's, or a checkpoint of both" },
    { "data", OPT_TEXT, &opt.data, "DIR", "folder with the captions or images" },
    { "o", OPT_TEXT, &opt.out, "DIR", "folder to write to; captions: default DIR of --data" },
    { "text", OPT_TEXT, &opt.text, "FILE", "weights of the text tower, if not in --init" },
    { "vocab", OPT_TEXT, &opt.vocab, "FILE",
      "DistilBERT's vocab.txt, if it is not beside its weights" },
    { "crops", OPT_COUNT, &opt.crops, "N", "random crops of each image; default 1" },
    { "seed", OPT_NATURAL, &opt.seed, "N",
      "seed of crops, degradation and noise; default: the recipe's" },
    { "loader-memory", OPT_TEXT, &opt.loader_memory, "SIZE",
      "limit of the memory that loads data; default 1GiB" },
    { "cache", OPT_TEXT, &opt.cache, "DIR", "folder for decoded files; default: a temporary one" },
    MODEL_OPTIONS(model),
    { "quiet", OPT_FLAG, &opt.quiet, NULL, "no progress" },
    { "json", OPT_FLAG, &opt.json, NULL, "print the result as JSON" },
    { 0 }
};

static Err encode_json(const Recipe *recipe, const EncodeReport *r)
{
    JsonOut o;
    json_out_stream(&o, stdout, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_string(&o, "model", recipe->name);
    json_out_int(&o, "captions", r->captions);
    json_out_int(&o, "images", r->images);
    json_out_int(&o, "latents", r->latents);
    json_out_string(&o, "context", r->context);
    if (r->text.encoder) {
        json_out_object(&o, "text");
        text_space_out(&o, &r->text);
        json_out_end(&o);
    }
    json_out_int(&o, "planned_bytes", r->planned_bytes);
    json_out_int(&o, "measured_bytes", r->measured_bytes);
    json_out_number(&o, "seconds", r->seconds);
    json_out_end(&o);
    return json_out_done(&o);
}

static void encode_print(const EncodeReport *r)
{
    if (r->text.encoder)
        print_sentence(stdout, "text tower: %s, %s parameters, hash %016" PRIx64, r->text.encoder,
                       count_text(r->tower_params), r->text.hash);
    if (r->captions)
        print_sentence(stdout, "%s captions embedded: %s/NAME.text.npy", count_text(r->captions),
                       r->texts);
    if (r->cut)
        print_sentence(stderr,
                       "%s captions have more tokens than the tower reads; their rest is "
                       "left out",
                       count_text(r->cut));
    if (r->context)
        print_sentence(stdout, "the empty text embedded: %s", r->context);
    if (r->without)
        print_sentence(stderr, "%s", r->without);
    if (r->older)
        fprintf(stderr, "init: %s\n", r->older);
    if (r->latents)
        print_sentence(stdout,
                       "%s latents of %s images, with latents of the degraded images and "
                       "edges: %s",
                       count_text(r->latents), count_text(r->images), opt.out);
    print_sentence(stdout, "%s planned = %s measured, %.1f s", count_text(r->planned_bytes),
                   count_text(r->measured_bytes), r->seconds);
}

static void encode_next(Pool *pool, const char *name, const Recipe *recipe, const EncodeReport *r)
{
    const char *word = text_word(pool, name);
    if (r->captions)
        next_command("train %s --data %s%s", word, text_word(pool, recipe->data.path),
                     opt.out ? pool_print(pool, " --set data.texts=%s", text_word(pool, opt.out))
                             : "");
    else if (r->latents)
        next_command("train %s --set model.latents=given --data %s%s --init %s --init-partial",
                     word, text_word(pool, opt.out),
                     r->context
                         ? pool_print(pool, " --set model.context=%s", text_word(pool, r->context))
                         : "",
                     text_word(pool, opt.init));
    else if (r->context)
        next_command("train %s --set model.context=%s --init %s --init-partial", word,
                     text_word(pool, r->context), text_word(pool, opt.init));
}

static Err cmd_encode_run(Pool *pool, int n_args, char **args)
{
    Recipe      *recipe;
    Device      *device;
    EncodeReport report;
    int64_t      budget, loader;
    const char  *more[1];
    int          n = 0;
    if (n_args != 1)
        return fail(E_USAGE, "encode takes one recipe: plimsoll encode MODEL --init FILE --data "
                             "DIR -o DIR");
    TRY(loader_memory_read(opt.loader_memory, &loader));
    if (opt.data)
        more[n++] = pool_print(pool, "data.path=%s", text_quoted(pool, opt.data, "''"));
    TRY(model_open(pool, &model, args[0], more, n, &recipe, &device, &budget));
    EncodeOptions o = { .out = opt.out,
                        .init = opt.init,
                        .tower = opt.text,
                        .vocabulary = opt.vocab,
                        .crops = opt.crops,
                        .batch = model.batch ? model.batch : 1,
                        .seed = opt.seed,
                        .budget_bytes = budget,
                        .loader_bytes = loader,
                        .cache = opt.cache,
                        .quiet = opt.quiet || opt.json };
    TRY(encode_run(pool, recipe, device, &o, &report));
    if (opt.json)
        return encode_json(recipe, &report);
    encode_print(&report);
    if (!opt.quiet)
        encode_next(pool, args[0], recipe, &report);
    return OK;
}

const Command cmd_encode = { "encode", "MODEL --init FILE --data DIR -o DIR",
                             "embed captions, or turn images into latents, before training",
                             options, cmd_encode_run };
