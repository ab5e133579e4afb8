/* kinds.c -- the table of data kinds, and the choice of one for a run. */
#include "data/kinds.h"

#include "base/text.h"
#include "data/media.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
const DataKind data_kinds[] = {
    { "shapes",           "x",                                     shapes_open,           NULL,
      "drawn images" },
    { "images",           "x",                                     images_open,           "shapes",
      "a folder of PNG or JPEG images" },
    { "clips",            "observed future mask",                  clips_open,
      "moving-shapes",
      "videos, or folders of frames, PNG or JPEG, or range images in .npy or .npz",
      video_endings },
    { "moving-shapes",    "observed future mask",                  moving_open,           NULL,
      "drawn range images of moving objects" },
    { "pairs",            "image image_lq edge latent latent_lq",  pairs_open,
      "drawn-pairs",
      "images, which are degraded; or pairs in gt/ and lq/ (hr/ and lr/); or latents in .npy" },
    { "drawn-pairs",      "image image_lq edge",                   drawn_pairs_open,      NULL,
      "drawn images, which are degraded" },
    { "sets",             "images support",                        sets_open,
      "coloured-sets",
      "a folder of images for each class, an .npz or .npy file, a pickle, or CIFAR's binary files" },
    { "coloured-sets",    "images support",                        coloured_sets_open,    NULL,
      "drawn sets of one colour and form" },
    { "audio",            "tokens target carry",                   audio_open,            "tones",
      "a folder of audio files: WAV, FLAC, Ogg, MP3",
      audio_endings },
    { "tones",            "tokens target carry",                   tones_open,            NULL,
      "synthetic notes" },
    { "captioned-clips",  "clip text",                             captioned_open,
      "captioned-shapes",
      "clips with their captions: videos NAME.mp4, NAME/*.png (or .jpg) or NAME.npy, and NAME.txt",
      video_endings },
    { "captioned-shapes", "clip text",                             captioned_shapes_open, NULL,
      "drawn moving shapes with their captions" },
    { "arrays",           "*",                                     arrays_open,
      "random",
      "NAME.npy for each input, or .npz or .safetensors files with tensors of these names" },
    { "random",           "*",                                     random_inputs_open,    NULL,
      "random numbers, for models whose inputs have their own names" },
};
/* clang-format on */
const int data_kinds_count = sizeof data_kinds / sizeof *data_kinds;

static bool kind_takes_any(const DataKind *kind) { return kind->feeds[0] == '*'; }

static bool kind_has(const DataKind *kind, const char *feed)
{
    size_t n = strlen(feed);
    if (kind_takes_any(kind))
        return true;
    for (const char *at = kind->feeds; (at = strstr(at, feed)); at += n)
        if ((at == kind->feeds || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

static const char *kind_lacks(const DataKind *kind, const DataSpec *spec) /* a feed, or NULL */
{
    for (int i = 0; i < spec->n_feeds; i++)
        if (!kind_has(kind, spec->feeds[i].name))
            return spec->feeds[i].name;
    return NULL;
}

static const DataKind *kind_find(const char *name)
{
    for (int i = 0; i < data_kinds_count; i++)
        if (!strcmp(data_kinds[i].name, name))
            return &data_kinds[i];
    return NULL;
}

static Err kind_unknown(const char *name)
{
    const char *names[32];
    REQUIRE(data_kinds_count <= 32);
    for (int i = 0; i < data_kinds_count; i++)
        names[i] = data_kinds[i].name;
    const char *near = text_nearest(name, names, data_kinds_count);
    if (near)
        return fail(E_USAGE, "data.kind: there is no '%s'; did you mean '%s'?", name, near);
    char list[512] = "";
    for (int i = 0; i < data_kinds_count; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", names[i]);
    return fail(E_USAGE, "data.kind: there is no '%s'; the kinds are %s", name, list);
}

/* The kind that is named, or the first that has the feeds. With a path, a drawn kind is replaced by
 * the one that reads the same inputs from files. */
static Err kind_choose(const DataSpec *spec, const DataKind **out)
{
    const DataKind *kind = NULL;
    if (spec->kind && !(kind = kind_find(spec->kind)))
        return kind_unknown(spec->kind);
    for (int i = 0; !kind && i < data_kinds_count; i++)
        if (!kind_lacks(&data_kinds[i], spec) && kind_takes_any(&data_kinds[i]) == spec->by_name &&
            !data_kinds[i].drawn == !spec->path)
            kind = &data_kinds[i];
    if (!kind)
        for (int i = 0; i < data_kinds_count; i++)
            if (!kind_lacks(&data_kinds[i], spec) && !kind_takes_any(&data_kinds[i]))
                return fail(E_USAGE, "this model needs data from files: name %s with --data DIR",
                            data_kinds[i].help);
    if (!kind)
        return fail(E_USAGE, "no kind of data provides the model's input '%s'",
                    spec->n_feeds ? spec->feeds[0].name : "");
    for (int i = 0; spec->path && !kind->drawn && i < data_kinds_count; i++)
        if (data_kinds[i].drawn && !strcmp(data_kinds[i].drawn, kind->name)) {
            kind = &data_kinds[i];
            break;
        }
    *out = kind;
    return OK;
}

Err data_open(Pool *pool, const DataSpec *spec, DataSource **source)
{
    const DataKind *kind = NULL;
    TRY(kind_choose(spec, &kind));
    const char *missing = kind_lacks(kind, spec);
    if (missing)
        return fail(E_USAGE,
                    "data kind '%s' provides %s; the model also needs '%s', so choose another "
                    "data.kind",
                    kind->name, kind->feeds, missing);
    if (kind->drawn && !spec->path)
        return fail(E_USAGE,
                    "data kind '%s' reads %s: name the folder with --data DIR or data.path, or "
                    "take kind '%s', which needs none",
                    kind->name, kind->help, kind->drawn);
    if (!kind->drawn && spec->samples < 1)
        return fail(E_USAGE, "data.samples must be at least 1");
    TRY(kind->open(pool, spec, source));
    for (int i = 0; i < spec->n_feeds; i++)
        if (spec->feeds[i].whole && !(*source)->load_whole)
            return fail(E_USAGE,
                        "data kind '%s' gives one row for each sample, and the input '%s' %s is "
                        "one tensor for all of them; take data.kind arrays",
                        kind->name, spec->feeds[i].name, shape_text(spec->feeds[i].shape));
    TRY(source_fits(spec, *source));
    (*source)->name = kind->name;
    (*source)->seed = spec->seed;
    if (spec->path)
        (*source)->unread = spec->pattern ? NULL : files_unread(pool, spec->path, kind->media);
    return OK;
}
