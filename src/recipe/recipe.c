/* recipe.c -- the table of a recipe's keys, and the graph that they describe. */
#include "recipe/recipe.h"

#include "ops/ops.h"
#include "rewrite/chunk.h"
#include "rewrite/fuse.h"
#include "base/file.h"
#include "base/int_math.h"
#include "base/shipped.h"
#include "base/yaml.h"
#include "import/exported.h"
#include "linalg/linalg.h"
#include "recipe/recipe_phases.h"

#include <stdio.h>
#include <string.h>

const char *const recipe_precisions[] = { "fp32", "bf16", "fp16", "tf32", NULL };

static const char *const optimizer_kinds[] = { "adamw", "adam", "sgd", NULL };
static const char *const schedule_kinds[] = { "constant", "cosine", "restarts", "plateau", NULL };
static const char *const plateau_watches[] = { "validation", "loss", NULL };
static const char *const ema_rules[] = { "none", "constant", "power", "copy_first", NULL };

/* Adam divides by 1 - beta^n and by sqrt(v) + eps: neither may be 0, though a gradient may. */
#define MAX_BETA 0.999999
#define MIN_EPS  1e-30

static const Field optimizer_fields[] = {
    { "kind", FIELD_CHOICE, offsetof(OptimizerConfig, kind), 0, 0, optimizer_kinds, NULL,
      "update rule" },
    { "lr", FIELD_NUMBER, offsetof(OptimizerConfig, lr), 0, 100, NULL, NULL, "learning rate" },
    { "slow_lr", FIELD_NUMBER, offsetof(OptimizerConfig, slow_lr), 0, 100, NULL, NULL,
      "learning rate of the system's slow parameters" },
    { "beta1", FIELD_NUMBER, offsetof(OptimizerConfig, beta1), 0, MAX_BETA, NULL, NULL,
      "decay of the first moment; sgd: momentum" },
    { "beta2", FIELD_NUMBER, offsetof(OptimizerConfig, beta2), 0, MAX_BETA, NULL, NULL,
      "decay of the second moment" },
    { "eps", FIELD_NUMBER, offsetof(OptimizerConfig, eps), MIN_EPS, 1, NULL, NULL,
      "added to the square root of the second moment" },
    { "decay", FIELD_NUMBER, offsetof(OptimizerConfig, decay), 0, 1, NULL, NULL, "weight decay" },
    { "slow_decay", FIELD_NUMBER, offsetof(OptimizerConfig, slow_decay), 0, 1, NULL, NULL,
      "weight decay of the slow parameters" },
    { "clip", FIELD_NUMBER, offsetof(OptimizerConfig, clip), 0, 1e9, NULL, NULL,
      "largest norm of all gradients together; 0: no clipping" },
    { 0 }
};

static const Field schedule_fields[] = {
    { "kind", FIELD_CHOICE, offsetof(ScheduleConfig, kind), 0, 0, schedule_kinds, NULL,
      "how the learning rate changes over the run" },
    { "warmup", FIELD_INT, offsetof(ScheduleConfig, warmup), 0, 1e12, NULL, NULL,
      "steps of linear warm-up" },
    { "steps", FIELD_INT, offsetof(ScheduleConfig, steps), 0, 1e12, NULL, NULL,
      "cosine: the step at which the rate reaches 0; 0: where the run first ended" },
    { "cycles", FIELD_NUMBER, offsetof(ScheduleConfig, cycles), 0, 1e6, NULL, NULL,
      "cosine: 0.5 or 1: the rate falls to 0 once; n: n times, with restarts" },
    { "period", FIELD_INT, offsetof(ScheduleConfig, period), 1, 1e12, NULL, NULL,
      "restarts: steps of the first wave; plateau: steps of one mean loss" },
    { "growth", FIELD_INT, offsetof(ScheduleConfig, growth), 1, 100, NULL, NULL,
      "restarts: each wave is this many times as long as the one before" },
    { "floor_lr", FIELD_NUMBER, offsetof(ScheduleConfig, floor_lr), 0, 100, NULL, NULL,
      "restarts, plateau: lowest learning rate" },
    { "watch", FIELD_CHOICE, offsetof(ScheduleConfig, watch), 0, 0, plateau_watches, NULL,
      "plateau: the validation loss, or the training loss" },
    { "factor", FIELD_NUMBER, offsetof(ScheduleConfig, factor), 0, 0.999, NULL, NULL,
      "plateau: the rate is multiplied by this" },
    { "patience", FIELD_INT, offsetof(ScheduleConfig, patience), 0, 1e9, NULL, NULL,
      "plateau: checks without improvement before the rate falls" },
    { "cooldown", FIELD_INT, offsetof(ScheduleConfig, cooldown), 0, 1e9, NULL, NULL,
      "plateau: checks to ignore after the rate fell" },
    { "threshold", FIELD_NUMBER, offsetof(ScheduleConfig, threshold), 0, 0.999, NULL, NULL,
      "plateau: relative improvement that counts as better" },
    { 0 }
};

static const Field ema_fields[] = {
    { "rule", FIELD_CHOICE, offsetof(EmaConfig, rule), 0, 0, ema_rules, NULL,
      "how the weights are averaged; none: not at all" },
    { "decay", FIELD_NUMBER, offsetof(EmaConfig, decay), 0, 1, NULL, NULL, "largest decay" },
    { "power", FIELD_NUMBER, offsetof(EmaConfig, power), 0, 10, NULL, NULL,
      "power: the decay is 1 - (1 + step)^-power, up to decay" },
    { 0 }
};

static const char *const data_excerpts[] = { "start", "any", NULL };
static const char *const data_scalings[] = { "chunk", "none", NULL };

static const Field data_fields[] = {
    { "kind", FIELD_TEXT, offsetof(DataConfig, kind), 0, 0, NULL, NULL,
      "kind of data; default: the one that fits the system" },
    { "path", FIELD_TEXT, offsetof(DataConfig, path), 0, 0, NULL, NULL,
      "folder or file with the samples" },
    { "samples", FIELD_INT, offsetof(DataConfig, samples), 1, 1e9, NULL, NULL,
      "generated data: number of samples" },
    { "range_low", FIELD_NUMBER, offsetof(DataConfig, range_low), 0, 1e6, NULL, NULL,
      "range images: metres that become -1" },
    { "range_high", FIELD_NUMBER, offsetof(DataConfig, range_high), 0, 1e6, NULL, NULL,
      "range images: metres that become 1; both 0: taken from the data" },
    { "keep_rest", FIELD_BOOL, offsetof(DataConfig, keep_rest), 0, 0, NULL, NULL,
      "audio: pad the rest of a file instead of dropping it" },
    { "holdout", FIELD_NUMBER, offsetof(DataConfig, holdout), 0, 0.99, NULL, NULL,
      "share of the samples kept for validation" },
    { "holdout_path", FIELD_TEXT, offsetof(DataConfig, holdout_path), 0, 0, NULL, NULL,
      "a separate folder of samples for validation" },
    { "pattern", FIELD_TEXT, offsetof(DataConfig, pattern), 0, 0, NULL, NULL,
      "files to read, such as **/mixture.wav; default: all" },
    { "frame_rate", FIELD_NUMBER, offsetof(DataConfig, frame_rate), 0, 1000, NULL, NULL,
      "video: frames a second; 0: the file's own" },
    { "from", FIELD_NUMBER, offsetof(DataConfig, from), 0, 1e6, NULL, NULL,
      "video: start of the part to use, in seconds" },
    { "seconds", FIELD_NUMBER, offsetof(DataConfig, seconds), 0, 1e6, NULL, NULL,
      "video: length of that part; 0: to the end" },
    { "excerpt", FIELD_CHOICE, offsetof(DataConfig, excerpt), 0, 0, data_excerpts, NULL,
      "clips with captions: the first frames, or any part, drawn anew each time" },
    { "range_channel", FIELD_INT, offsetof(DataConfig, range_channel), -1, 63, NULL, NULL,
      "range images: the channel with metres; -1: there is only one channel" },
    { "array", FIELD_TEXT, offsetof(DataConfig, array), 0, 0, NULL, NULL,
      "array to use in .npz files; default: the only one" },
    { "scaling", FIELD_CHOICE, offsetof(DataConfig, scaling), 0, 0, data_scalings, NULL,
      "audio: chunk: levels span the extremes of each chunk; none: the file's levels" },
    { "texts", FIELD_TEXT, offsetof(DataConfig, texts), 0, 0, NULL, NULL,
      "captions: folder with their embeddings; default: beside them" },
    { 0 }
};

static const char *const sampler_kinds[] = { "ddpm", "ddim", "recurrent", NULL };
static const char *const colour_fixes[] = { "none", "adain", "wavelet", NULL };

static const Field sampler_fields[] = {
    { "kind", FIELD_CHOICE, offsetof(SamplerConfig, kind), 0, 0, sampler_kinds, NULL,
      "how results are sampled; default: the system's own" },
    { "steps", FIELD_INT, offsetof(SamplerConfig, steps), 0, 1e6, NULL, NULL,
      "steps of the sampler; 0: the system's own number" },
    { "length", FIELD_INT, offsetof(SamplerConfig, length), 0, 1e12, NULL, NULL,
      "audio: values to generate; 0: as long as in training" },
    { "eta", FIELD_NUMBER, offsetof(SamplerConfig, eta), 0, 1, NULL, NULL,
      "ddim: share of noise that each step adds" },
    { "guidance", FIELD_NUMBER, offsetof(SamplerConfig, guidance), 0, 1000, NULL, NULL,
      "scale of classifier-free guidance; 1: none" },
    { "temperature", FIELD_NUMBER, offsetof(SamplerConfig, temperature), 0, 100, NULL, NULL,
      "audio: temperature of the choice among mixtures" },
    { "top_p", FIELD_NUMBER, offsetof(SamplerConfig, top_p), 0, 1, NULL, NULL,
      "audio: only the likeliest levels whose probabilities sum to this; 1: all" },
    { "colour", FIELD_CHOICE, offsetof(SamplerConfig, colour), 0, 0, colour_fixes, NULL,
      "stablesr: how colours are matched to those of the input" },
    { "clip", FIELD_BOOL, offsetof(SamplerConfig, clip), 0, 0, NULL, NULL,
      "dit3d: clip the prediction of each step to [-1, 1]" },
    { 0 }
};

static const Field validate_fields[] = {
    { "every", FIELD_INT, offsetof(EveryConfig, every), 0, 1e12, NULL, NULL,
      "steps from one validation to the next; 0: none" },
    { "batches", FIELD_INT, offsetof(EveryConfig, batches), 1, 1e6, NULL, NULL,
      "batches of held-out samples, the same ones every time" },
    { "batch", FIELD_INT, offsetof(EveryConfig, batch), 0, 1e6, NULL, NULL,
      "samples of one batch; 0: as many as in training" },
    { 0 }
};

static const Field sample_fields[] = { { "every", FIELD_INT, offsetof(EveryConfig, every), 0, 1e12,
                                         NULL, NULL,
                                         "steps from one sampling to the next; 0: none" },
                                       { "n", FIELD_INT, offsetof(EveryConfig, n), 1, 4096, NULL,
                                         NULL, "results, sampled as one batch" },
                                       { 0 } };

static const Field save_fields[] = {
    { "minutes", FIELD_NUMBER, offsetof(EveryConfig, minutes), 0, 1e6, NULL, NULL,
      "minutes from one checkpoint to the next; 0: not by time" },
    { "every", FIELD_INT, offsetof(EveryConfig, every), 0, 1e12, NULL, NULL,
      "steps from one checkpoint to the next; 0: not by steps" },
    { "keep", FIELD_INT, offsetof(EveryConfig, keep), 1, 1e6, NULL, NULL,
      "number of newest checkpoints to keep" },
    { "best", FIELD_BOOL, offsetof(EveryConfig, best), 0, 0, NULL, NULL,
      "also save and keep the checkpoint with the lowest validation loss" },
    { 0 }
};

/* clang-format off */
static const Field common_fields[] = {
    { "batch",      FIELD_INT,    offsetof(Recipe, batch),      1, 1e6, NULL, NULL,
      "samples of one micro-batch" },
    { "accumulate", FIELD_INT,    offsetof(Recipe, accumulate), 1, 1e6, NULL, NULL,
      "micro-batches of one step" },
    { "steps",      FIELD_INT,    offsetof(Recipe, steps),      0, 1e12, NULL, NULL,
      "steps of the whole run" },
    { "seed",       FIELD_INT,    offsetof(Recipe, seed),       0, 9e15, NULL, NULL,
      "seed of weights, noise and data order" },
    { "precision",  FIELD_CHOICE, offsetof(Recipe, precision),  0, 0, recipe_precisions, NULL,
      "type of activations and products; tf32 on GPUs only" },
    { "optimizer",  FIELD_GROUP,  offsetof(Recipe, optimizer),  0, 0, NULL, optimizer_fields,
      "how weights are updated" },
    { "schedule",   FIELD_GROUP,  offsetof(Recipe, schedule),   0, 0, NULL, schedule_fields,
      "how the learning rate changes" },
    { "ema",        FIELD_GROUP,  offsetof(Recipe, ema),        0, 0, NULL, ema_fields,
      "exponential moving average of the weights" },
    { "data",       FIELD_GROUP,  offsetof(Recipe, data),       0, 0, NULL, data_fields,
      "where samples come from" },
    { "sampler",    FIELD_GROUP,  offsetof(Recipe, sampler),    0, 0, NULL, sampler_fields,
      "how results are sampled" },
    { "validate",   FIELD_GROUP,  offsetof(Recipe, validate),   0, 0, NULL, validate_fields,
      "loss on held-out samples during training" },
    { "sample",     FIELD_GROUP,  offsetof(Recipe, sample),     0, 0, NULL, sample_fields,
      "results sampled during training" },
    { "save",       FIELD_GROUP,  offsetof(Recipe, save),       0, 0, NULL, save_fields,
      "checkpoints during training" },
    { 0 }
};
/* clang-format on */

Type recipe_type(const Recipe *recipe)
{
    static const Type types[] = { [PRECISION_FP32] = F32,
                                  [PRECISION_BF16] = BF16,
                                  [PRECISION_FP16] = F16,
                                  [PRECISION_TF32] = F32 };
    return types[recipe->precision];
}

bool recipe_tf32(const Recipe *recipe) { return recipe->precision == PRECISION_TF32; }

Err recipe_suits(const Recipe *recipe, const Device *device)
{
    if (recipe_tf32(recipe) && !device->tf32)
        return fail(E_USAGE,
                    "tf32 is how a GPU's tensor cores round fp32 factors, and %s does not; use "
                    "fp32, which is more exact, or a GPU (--device)",
                    device->name);
    if (device->tf32 && !recipe_tf32(recipe) && recipe_type(recipe) == F32)
        return fail(E_USAGE, "the GPU was opened for tf32, and %s is in fp32", recipe->name);
    return OK;
}

/* The system's config directly follows the Recipe, so that one table reaches both. */
const Field *recipe_fields(Pool *pool, const ModelDef *model)
{
    Field *fields = NEWN(pool, Field, sizeof common_fields / sizeof *common_fields + 3);
    fields[0] = (Field){ "system", FIELD_TEXT, offsetof(Recipe, system),
                         .help = "the model with its loss and sampler" };
    fields[1] = (Field){ "model", FIELD_GROUP, sizeof(Recipe), .fields = model->fields,
                         .help = "sizes of the model" };
    fields[2] = (Field){ "name", FIELD_TEXT, offsetof(Recipe, name),
                         .help = "name of the run; default: the file's name" };
    memcpy(fields + 3, common_fields, sizeof common_fields);
    return fields;
}

static Err recipe_model(Pool *pool, const char *path, const Json *map, const ModelDef **model)
{
    const char *system;
    if (map->kind != JSON_OBJECT)
        return fail(E_USAGE,
                    "%s holds no keys; a recipe names at least its system, e.g. system: unet",
                    path);
    TRY(json_need_text(map, "system", &system));
    *model = model_find(system);
    if (*model)
        return OK;
    const char **names = NEWN(pool, const char *, models_count);
    for (int i = 0; i < models_count; i++)
        names[i] = models_all[i]->name;
    const char *near = text_nearest(system, names, models_count);
    Text        text = { .pool = pool };
    for (int i = 0; i < models_count && !near; i++)
        text_add(&text, "%s%s", i ? ", " : "; there are ", names[i]);
    return json_fail(map, json_get(map, "system"), "there is no system '%s'%s%s%s", system,
                     near ? "; did you mean '" : text.at, near ? near : "", near ? "'?" : "");
}

/* Checks that ranges cannot express. Each sentence begins with the wrong key (see recipe_blame). */
static Err recipe_check(const Recipe *recipe)
{
    const ModelDef *model = recipe->model;
    if (model->check)
        TRY(model->check(recipe->config));
    if (model->check_sampler)
        TRY(model->check_sampler(recipe->config, &recipe->sampler));
    if (recipe->schedule.kind == SCHEDULE_PLATEAU && recipe->schedule.watch == WATCH_VALIDATION &&
        !recipe->validate.every)
        return fail(E_USAGE,
                    "schedule.kind: plateau watches the validation's loss, and validate.every "
                    "is 0; set validate.every, or schedule.watch: loss");
    if (recipe->sample.every && !model->sample)
        return fail(E_USAGE,
                    "sample.every is %lld, but the system %s cannot be sampled; leave it at 0",
                    (long long)recipe->sample.every, model->name);
    int64_t times = recipe_number(recipe, "timesteps", INT64_MAX);
    if (recipe->sample.every && recipe->sampler.steps > times)
        return fail(E_USAGE, "sampler.steps: %lld is more than model.timesteps, %lld",
                    (long long)recipe->sampler.steps, (long long)times);
    return OK;
}

#define KEY_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789_."

/* Does the text name the key of an assignment, or the group that it sets? */
static bool set_named(const char *set, const char *text)
{
    size_t n = strcspn(set, "=");
    char   key[64];
    if (n >= sizeof key)
        return false;
    memcpy(key, set, n);
    key[n] = '\0';
    bool word = !strchr(key, '.'); /* "steps" may also be a plain word of the sentence */
    for (const char *at = text; (at = strstr(at, key)); at += n)
        if ((at == text || !strchr(KEY_LETTERS, at[-1])) &&
            (at[n] == '.' || ((!word || at == text) && (!at[n] || !strchr(KEY_LETTERS, at[n])))))
            return true;
    return false;
}

/* Repeats the last error with its place: the last --set whose key it names, else the line of the
 * key that it begins with. */
static Err recipe_blame(Pool *pool, Err err, const char *path, const Json *map,
                        const char *const *sets, int n)
{
    const char *said = pool_text(pool, err_text());
    size_t      key = strspn(said, KEY_LETTERS);
    for (int i = n - 1; i >= 0; i--)
        if (set_named(sets[i], said))
            return fail(err, "--set %s: %s", sets[i], said);
    for (size_t at = 0; at < key;) {
        size_t      n_word = strcspn(said + at, ".: ,");
        const Json *in = json_get(map, pool_textn(pool, said + at, n_word));
        if (in && at + n_word >= key)
            return json_fail(map, in, "%s", said);
        if (!in || in->kind != JSON_OBJECT)
            break;
        map = in;
        at += n_word + 1;
    }
    return fail(err, "%s: %s", path, said); /* a default that does not suit the given keys */
}

Recipe *recipe_defaults(Pool *pool, const ModelDef *model)
{
    Recipe *recipe = pool_alloc(pool, sizeof(Recipe) + model->config_bytes, 1);
    *recipe = (Recipe){
        .model = model,
        .config = recipe + 1,
        .batch = 1,
        .accumulate = 1,
        .steps = 1000,
        .optimizer = { .lr = 1e-4, .slow_lr = 1e-4, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 },
        .schedule = { .cycles = 0.5,
                      .period = 1000,
                      .growth = 2,
                      .factor = 0.1,
                      .patience = 10,
                      .threshold = 1e-4 },
        .ema = { .decay = 0.9999, .power = 0.75 },
        .data = { .samples = 1024, .range_channel = -1 },
        .sampler = { .kind = model->sampler_kind, .guidance = 1, .temperature = 1, .top_p = 1 },
        .validate = { .batches = 4 },
        .sample = { .n = 4 },
        .save = { .minutes = 10, .keep = 2, .best = true },
    };
    memcpy(recipe->config, model->defaults, model->config_bytes);
    return recipe;
}

bool recipe_is_model(const char *name)
{
    size_t n = strlen(name);
    return (n > 4 && !strcmp(name + n - 4, ".pt2")) || hlo_is_file(name);
}

static Err recipe_wrong_data(const char *name)
{
    static const char *const endings[] = { ".npy",  ".npz", ".csv", ".png",  ".jpg",
                                           ".jpeg", ".wav", ".mp3", ".flac", ".ogg",
                                           ".mp4",  ".mov", ".avi", ".gif",  ".webm",
                                           ".mkv",  ".pkl", ".zip", NULL };
    for (size_t i = 0, n = strlen(name); endings[i]; i++) {
        size_t m = strlen(endings[i]);
        if (n > m && !strcmp(name + n - m, endings[i]))
            return fail(E_USAGE,
                        "%s holds data and no model: name a recipe, and the data with --data",
                        name);
    }
    return OK;
}

/* Files that users take for a model, and what to do with each instead. */
static Err recipe_wrong_file(const char *name)
{
    static const struct {
        const char *ending, *answer;
    } known[] = {
        { ".py", "is a program: export its model by torch.export.save(torch.export.export(model, "
                 "inputs), 'model.pt2') and name model.pt2 (docs/user/OWN_MODEL.md)" },
        { ".pt", "holds weights and no model: name a recipe, and the weights with --init" },
        { ".pth", "holds weights and no model: name a recipe, and the weights with --init" },
        { ".ckpt", "holds weights and no model: name a recipe, and the weights with --init" },
        { ".bin", "holds weights and no model: name a recipe, and the weights with --init" },
        { ".msgpack", "holds weights and no model: name a recipe, and the weights with --init" },
        { ".safetensors",
          "holds weights and no model: name a recipe, and the weights with --init" },
        { ".onnx",
          "is an ONNX model, which is not read: export it by torch.export as a .pt2 file" },
    };
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t m = strlen(known[i].ending);
        if (n > m && !strcmp(name + n - m, known[i].ending))
            return fail(E_USAGE, "%s %s", name, known[i].answer);
    }
    return recipe_wrong_data(name);
}

/* A model's file stands for the recipe that names it and leaves the rest at its defaults. */
static Err recipe_text(Pool *pool, const char *name, const char **path, const Json **map)
{
    if (recipe_is_model(name)) {
        Text text = { .pool = pool };
        text_add(&text, "{system: import, optimizer: {decay: 0.01}, model: {file: ");
        text_add(&text, "%s}}", text_quoted(pool, name, "''"));
        *path = name;
        return yaml_parse(pool, name, text.at, text.n, map);
    }
    TRY(recipe_wrong_file(name));
    if (file_exists(pool_print(pool, "%s/recipe.yaml", name)))
        return fail(E_USAGE,
                    "%s is a run: its recipe is %s/recipe.yaml, and plimsoll train --resume %s "
                    "goes on with it",
                    name, name, name);
    TRY(shipped_find(pool, "recipes", ".yaml", "recipe", name, path));
    TRY(yaml_read(pool, *path, map));
    const Json *format = json_get(*map, "format"); /* files of this program, not recipes, have it */
    return !format || format->kind != JSON_TEXT
               ? OK
               : fail(E_USAGE, "%s is a file of the format %s, not a recipe%s", name, format->text,
                      strcmp(format->text, "plimsoll-plan-1") ? ""
                                                              : "; a plan is named with --plan");
}

Err recipe_find(Pool *pool, const char *name)
{
    const Json *map;
    const char *path;
    if (recipe_is_model(name) && !file_exists(name))
        return fail(E_USAGE, "there is no file %s; torch.export.save writes a model's file", name);
    return recipe_text(pool, name, &path, &map);
}

Err recipe_read(Pool *pool, const char *name, const char *const *sets, int n, Recipe **out)
{
    const Json     *map;
    const ModelDef *model;
    const char     *path;
    TRY(recipe_text(pool, name, &path, &map));
    TRY(recipe_model(pool, path, map, &model));

    Recipe      *recipe = recipe_defaults(pool, model);
    const Field *fields = recipe_fields(pool, model);
    recipe->path = path;
    recipe->batch = model->batch ? 0 : recipe->batch; /* 0: as the model's file says */
    TRY(config_read(pool, map, fields, recipe));
    for (int i = 0; i < n; i++)
        TRY(config_set(pool, sets[i], fields, recipe));
    if (!recipe->system || strcmp(recipe->system, model->name))
        return fail(E_USAGE,
                    "--set system=%s: the system cannot be changed; take a recipe of that system",
                    recipe->system ? recipe->system : "");
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path,
               *dot = strrchr(base, '.');
    if (!recipe->name)
        recipe->name = pool_textn(pool, base,
                                  dot && dot > base ? (size_t)(dot - base) : strlen(base));
    *out = recipe;
    Err err = model->open ? model->open(pool, path, recipe->config) : OK;
    if (!err && !recipe->batch)
        err = model->batch(recipe->config, &recipe->batch);
    err = err ? err : recipe_check(recipe);
    return err ? recipe_blame(pool, err, path, map, sets, n) : OK;
}

Recipe *recipe_copy(Pool *pool, const Recipe *recipe)
{
    Recipe *copy = pool_alloc(pool, sizeof(Recipe) + recipe->model->config_bytes, 1);
    memcpy(copy, recipe, sizeof(Recipe) + recipe->model->config_bytes);
    copy->config = copy + 1;
    return copy;
}

static Err recipe_write_in(Pool *pool, Recipe *recipe, const char *path)
{
    Text text = { .pool = pool };
    if (recipe->model->seal)
        TRY(recipe->model->seal(pool, recipe->config));
    text_add(&text, "# The recipe as this run resolved it: every key with its value.\n");
    config_write_yaml(&text, recipe_fields(pool, recipe->model), recipe, 0);
    return file_write(path, text.at, text.n);
}

Err recipe_write(const Recipe *recipe, const char *path)
{
    Pool *pool = pool_new(NULL, "recipe");
    Err   err = recipe_write_in(pool, recipe_copy(pool, recipe), path);
    pool_free(pool);
    return err;
}

Err recipe_set(Pool *pool, Recipe *recipe, const char *assignment)
{
    return config_set(pool, assignment, recipe_fields(pool, recipe->model), recipe);
}

void recipe_json(Pool *pool, const Recipe *recipe, JsonOut *out)
{
    config_write(out, recipe_fields(pool, recipe->model), recipe);
}

static TrainSpec recipe_spec(const Recipe *recipe, TrainingGraph *out)
{
    const OptimizerConfig *o = &recipe->optimizer;
    if (recipe->model->slow_params)
        out->groups[out->n_groups++] = (ParamGroup){ "slow", (float)o->slow_lr,
                                                     (float)o->slow_decay,
                                                     recipe->model->slow_params };
    out->groups[out->n_groups++] = (ParamGroup){ "all", (float)o->lr, (float)o->decay, NULL };
    return (TrainSpec){
        .optimizer = (Optimizer)o->kind,
        .beta1 = (float)o->beta1,
        .beta2 = (float)o->beta2,
        .eps = (float)o->eps,
        .groups = out->groups,
        .n_groups = out->n_groups,
        .clip = (float)o->clip,
        .ema = recipe->ema.rule != EMA_NONE,
        .accumulate = (int)recipe->accumulate,
        .release = recipe->levers.release,
        .host = (HostState)recipe->levers.host,
        .ranks = (int)(recipe->levers.ranks > 1 ? recipe->levers.ranks : 1),
        .shard = recipe->levers.shard,
        .bucket_bytes = recipe->levers.bucket,
    };
}

Validation recipe_validation(const Recipe *recipe)
{
    int64_t split = recipe->levers.split > 1 ? recipe->levers.split : 1;
    int64_t merge = recipe->levers.merge > 1 ? recipe->levers.merge : 1;
    int64_t batch = recipe->validate.batch ? recipe->validate.batch : recipe->batch * split / merge;
    if (batch % split)
        split = 1;
    return (Validation){ .batch = batch / split,
                         .batches = recipe->validate.batches * split,
                         .split = split };
}

int64_t recipe_number(const Recipe *recipe, const char *key, int64_t otherwise)
{
    for (const Field *f = recipe->model->fields; f->key; f++)
        if (!strcmp(f->key, key) && f->kind == FIELD_INT)
            return *(const int64_t *)((const char *)recipe->config + f->offset);
    return otherwise;
}

const char *recipe_no_split(const Recipe *recipe)
{
    return recipe->model->no_split ? recipe->model->no_split(recipe->config) : NULL;
}

int64_t recipe_max_chunks(const Recipe *recipe)
{
    int64_t chunks = recipe->batch < OFFERED_CHUNKS ? recipe->batch : OFFERED_CHUNKS;
    while (recipe->batch % chunks)
        chunks--;
    return chunks;
}

const char *recipe_no_release(const Recipe *recipe)
{
    TrainingGraph unused = { 0 };
    TrainSpec     spec = recipe_spec(recipe, &unused);
    return train_no_release(&spec, recipe_type(recipe));
}

int64_t recipe_rounds(const Recipe *recipe)
{
    int64_t ranks = recipe->levers.ranks;
    return ranks > 1 ? recipe->accumulate / ranks : recipe->accumulate;
}

Err recipe_check_ranks(const Recipe *recipe, int64_t ranks)
{
    int64_t accumulate = ceil_div(recipe->accumulate, ranks) * ranks,
            all = recipe->batch * recipe->accumulate;
    if (recipe->accumulate % ranks == 0)
        return OK;
    if (all % accumulate == 0)
        return fail(E_USAGE,
                    "%lld ranks cannot share the %lld micro-batches of a step evenly; --set "
                    "accumulate=%lld --set batch=%lld keeps the samples of a step",
                    (long long)ranks, (long long)recipe->accumulate, (long long)accumulate,
                    (long long)(all / accumulate));
    return fail(E_USAGE,
                "%lld ranks cannot share the %lld micro-batches of a step evenly; --set "
                "accumulate=%lld makes a larger step of %lld samples",
                (long long)ranks, (long long)recipe->accumulate, (long long)accumulate,
                (long long)(accumulate * recipe->batch));
}

Recipe *recipe_for(Pool *pool, const Recipe *recipe, const Device *device)
{
    Recipe *copy = recipe_copy(pool, recipe);
    copy->levers.subpixel = device->backend && device->backend->subpixel &&
                            type_bytes(recipe_type(copy)) == 2;
    return copy;
}

Err recipe_graph(Pool *pool, const Recipe *recipe, bool given_noise, TrainingGraph *out)
{
    const Levers *levers = &recipe->levers;
    bool          chunks = levers->sample_chunks > 1 || levers->loss_chunks > 1;
    Graph        *graph = graph_new_with(pool, recipe_type(recipe),
                                         &(BuildOptions){ .given_noise = given_noise,
                                                          .stored_attention = levers->stored_attention,
                                                          .subpixel = levers->subpixel,
                                                          .split = levers->split,
                                                          .counts_given = !given_noise && chunks });
    Tensor loss = recipe->model->loss(graph, recipe->config, recipe->batch, recipe->accumulate);
    TRY(graph_check(graph));
    *out = (TrainingGraph){ 0 };
    TRY(graph_fuse(graph, &graph, &loss, &out->fused));
    ChunkSpec spec_chunks = { levers->sample_chunks, levers->loss_chunks };
    TRY(graph_chunk(graph, &spec_chunks, &out->graph, &loss, &out->chunked));
    TrainSpec spec = recipe_spec(recipe, out);
    TRY(autodiff_train(out->graph, loss, &spec, &out->train));
    graph_order_chunks(out->graph);
    return given_noise ? OK : phases_build(recipe, out); /* given inputs: training steps only */
}

static int32_t graph_feeds(const Graph *graph)
{
    int32_t n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        n += graph->nodes[i].op == &op_feed;
    return n;
}

/* A model whose loss ignores some targets is given their count where its micro-batches are split. */
Err recipe_merges(const Recipe *recipe, bool *merges)
{
    Pool         *pool = pool_new(NULL, "merges");
    Recipe       *split = recipe_copy(pool, recipe);
    TrainingGraph one, two;
    split->levers.split = 2;
    Err err = recipe_graph(pool, recipe, false, &one);
    err = err ? err : recipe_graph(pool, split, false, &two);
    *merges = !err && !recipe_no_split(recipe) && graph_feeds(one.graph) == graph_feeds(two.graph);
    pool_free(pool);
    return err;
}
