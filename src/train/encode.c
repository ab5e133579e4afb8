/* encode.c -- embeds captions, the empty text and images, and writes what training reads. */
#include "train/encode.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/npy.h"
#include "base/prompt.h"
#include "base/terminal.h"
#include "base/text.h"
#include "data/image.h"
#include "ops/elementwise/basic.h"
#include "ops/ops.h"
#include "train/checkpoint.h"
#include "train/feeds.h"
#include "train/text_encoder.h"
#include "train/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Encoding {
    Pool                *pool;
    const EncodeOptions *o;
    const Recipe        *recipe;
    const Device        *device;
    EncodeReport        *out;
    double               shown;
} Encoding;

static void encode_progress(Encoding *e, const char *what, int64_t done, int64_t of)
{
    if (e->o->quiet || !progress_due(&e->shown, done == of))
        return;
    if (terminal_draws())
        progress_show("%s %lld/%lld", what, (long long)done, (long long)of);
    else
        fprintf(stderr, "%s %lld/%lld\n", what, (long long)done, (long long)of);
    if (done == of)
        progress_end();
}

static void encode_measured(Encoding *e, Session *session)
{
    e->out->planned_bytes = int_max(session_planned_bytes(session, PHASE_SAMPLE_BEGIN),
                                    e->out->planned_bytes);
    e->out->measured_bytes = int_max(session_measured_bytes(session, PHASE_SAMPLE_BEGIN),
                                     e->out->measured_bytes);
}

/* ---- texts ---- */

/* The numbers of one text that the model reads; 0: it reads none. */
static Err text_width(const Encoding *e, int64_t *width)
{
    Graph *graph = graph_new(e->pool, F32);
    *width = 0;
    e->recipe->model->loss(graph, e->recipe->config, 1, 1);
    TRY(graph_check(graph));
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op == &op_feed &&
            !strcmp(ATTR(&graph->nodes[i], FeedAttr)->name, "text"))
            *width = shape_count(out_shape(&graph->nodes[i], 0));
    return OK;
}

static Err tower_open(Pool *pool, Encoding *e, TextEncoder **encoder)
{
    TextEncoderFiles files = { e->o->tower ? e->o->tower : e->o->init, e->o->vocabulary };
    char             whole[FILE_PATH_MAX];
    if (!files.weights)
        return fail(E_USAGE, "encode needs the weights of the text tower: give their file by "
                             "--init FILE");
    TRY(text_encoder_open(pool, e->device, &files, e->o->budget_bytes, encoder));
    TextSpace *space = &e->out->text;
    *space = (TextSpace){ .encoder = (*encoder)->name, .hash = (*encoder)->hash };
    space->weights = pool_text(
        e->pool, realpath((*encoder)->files.weights, whole) ? whole : (*encoder)->files.weights);
    if ((*encoder)->files.vocabulary)
        space->vocabulary = pool_text(e->pool, realpath((*encoder)->files.vocabulary, whole)
                                                   ? whole
                                                   : (*encoder)->files.vocabulary);
    e->out->tower_params = (*encoder)->params;
    return OK;
}

typedef struct Caption {
    const char *text, *to; /* to: the path of its embedding */
} Caption;

static Err captions_read(Encoding *e, const char *folder, Caption **out)
{
    char  **names;
    int     n;
    int32_t cap = 0, count = 0;
    *out = NULL;
    TRY(folder_needed(folder));
    TRY(folder_list(e->pool, folder, &names, &n));
    for (int i = 0; i < n; i++) {
        Caption     caption;
        const char *path = pool_print(e->pool, "%s/%s", folder, names[i]);
        if (!name_ends(names[i], ".txt") || folder_exists(path))
            continue;
        TRY(caption_read(e->pool, path, &caption.text));
        caption.to = pool_print(e->pool, "%s/%.*s.text.npy", e->out->texts,
                                (int)(strlen(names[i]) - strlen(".txt")), names[i]);
        VEC_ADD(e->pool, *out, count, cap, caption);
    }
    e->out->captions = count;
    return count ? OK : fail(E_FORMAT, "%s holds no captions (NAME.txt beside each clip)", folder);
}

/* Old embeddings go first: a folder with those of two towers must never be whole. */
static Err captions_clear(const Encoding *e, const Caption *list)
{
    TRY(folder_make(e->out->texts));
    TRY(file_remove(pool_print(e->pool, "%s/text.json", e->out->texts)));
    for (int64_t i = 0; i < e->out->captions; i++)
        TRY(file_remove(list[i].to));
    return text_space_write(e->out->texts, &e->out->text);
}

static Err encode_captions(Encoding *e, int64_t width)
{
    const char  *folder = e->recipe->data.path;
    Pool        *work = pool_new(e->pool, "tower");
    TextEncoder *encoder;
    Caption     *list;
    if (!folder)
        return fail(E_USAGE, "encode needs the folder with the captions: --data DIR");
    e->out->texts = e->o->out ? e->o->out : folder;
    TRY(captions_read(e, folder, &list));
    TRY(tower_open(work, e, &encoder));
    int64_t n = shape_count(encoder->shape);
    if (n != width)
        return fail(E_USAGE,
                    "%s gives %lld numbers for a text, and %s takes %lld; give another "
                    "text tower",
                    encoder->files.weights, (long long)n, e->recipe->name, (long long)width);
    TRY(captions_clear(e, list));
    float *to = NEWN(work, float, n);
    for (int64_t i = 0; i < e->out->captions; i++) {
        bool cut;
        TRY(text_encode(encoder, list[i].text, to, &cut));
        TRY(npy_write(list[i].to, NPY_F4, 1, &n, to));
        e->out->cut += cut;
        encode_progress(e, "embedding captions", i + 1, e->out->captions);
    }
    encode_measured(e, encoder->session);
    pool_free(work);
    return OK;
}

/* The embedding of the empty text, which is all that this model ever reads. */
static Err encode_context(Encoding *e)
{
    Shape        want = e->recipe->model->context(e->recipe->config);
    const char  *path = e->o->tower ? e->o->tower : e->o->init;
    Pool        *work = pool_new(e->pool, "tower");
    TextEncoder *encoder;
    bool         cut, holds;
    TRY(text_encoder_holds(work, path, &holds));
    if (!holds && !e->o->tower) {
        e->out->without = pool_print(e->pool, "%s holds no text tower, so no context.npy is made",
                                     path);
        return OK;
    }
    TRY(tower_open(work, e, &encoder));
    if (!shape_same(encoder->shape, want))
        return fail(E_USAGE,
                    "%s gives an embedding of %s, and model.context is %s; give another "
                    "text tower",
                    path, shape_text(encoder->shape), shape_text(want));
    float  *to = NEWN(work, float, shape_count(want));
    int64_t shape[2] = { want.dim[0], want.dim[1] };
    e->out->context = pool_print(e->pool, "%s/context.npy", e->o->out);
    TRY(folder_make(e->o->out));
    TRY(text_encode(encoder, "", to, &cut));
    TRY(npy_write(e->out->context, NPY_F4, 2, shape, to));
    encode_measured(e, encoder->session);
    pool_free(work);
    return OK;
}

/* ---- images ---- */

static const char *const latent_names[] = { "latent", "latent_lq" };
static const char *const latent_noise[] = { "encode.latent", "encode.latent_lq", NULL };
enum { LATENTS = 2 };

typedef struct ImageEncoding {
    Session     *session;
    Feeds        feeds;
    const char **names; /* of the results, by sample */
} ImageEncoding;

static Err images_session(Pool *pool, Encoding *e, Session **session)
{
    Engine     *engine;
    const char *note;
    Graph      *graph = graph_new(pool, recipe_type(e->recipe));
    TRY(recipe_suits(e->recipe, e->device));
    e->recipe->model->encode_graph(graph, e->recipe->config, e->o->batch);
    TRY(graph_check(graph));
    TRY(engine_new(pool, graph, e->device, NULL, &engine));
    TRY(engine_within(engine, e->o->budget_bytes,
                      pool_print(pool, "encoding %lld at once", (long long)e->o->batch),
                      e->o->batch > 1 ? "use a smaller --batch" : NULL));
    TRY(session_new(pool, engine, session));
    TRY(session_init_state(*session, 0));
    WeightsFrom from = { .part = true };
    TRY(checkpoint_given(pool, e->o->init, &from.path, &e->out->older));
    return weights_load_from(pool, *session, &from, &note);
}

static int name_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* How many bytes of all samples' paths are the folder that they have in common. */
static size_t folder_shared(const DataSource *source, const char *const *paths)
{
    const char *slash = strrchr(paths[0], '/');
    size_t      n = slash ? (size_t)(slash - paths[0]) + 1 : 0;
    for (int64_t i = 1; i < source->n_samples; i++)
        while (n && (strncmp(paths[0], paths[i], n) || paths[0][n - 1] != '/'))
            n--;
    return n;
}

/* Two files of one name would be one result. */
static Err names_differ(Pool *pool, const Encoding *e, const ImageEncoding *images)
{
    int64_t      n = images->feeds.source->n_samples;
    const char **sorted = NEWN(pool, const char *, n);
    memcpy(sorted, images->names, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, name_order);
    for (int64_t i = 0; i + 1 < n; i++)
        if (!strcmp(sorted[i], sorted[i + 1]))
            return fail(E_USAGE, "%s holds two images that would both be written as %s; rename one",
                        e->recipe->data.path, sorted[i]);
    return OK;
}

/* Names of the results: the files', with '-' for the folders between; of generated images numbers. */
static Err images_names(Pool *pool, Encoding *e, ImageEncoding *images)
{
    const DataSource *source = images->feeds.source;
    int64_t           n = source->n_samples;
    size_t            shared = 0;
    bool              files = e->recipe->data.path && source->about;
    images->names = NEWN(pool, const char *, n);
    for (int64_t i = 0; i < n; i++) {
        char room[FILE_PATH_MAX];
        images->names[i] = files ? pool_text(pool, source->about(source, i, room, sizeof room))
                                 : pool_print(pool, "%06lld", (long long)i);
    }
    if (files)
        shared = folder_shared(source, images->names);
    for (int64_t i = 0; files && i < n; i++) {
        const char *from = images->names[i] + shared, *dot = strrchr(from, '.');
        char       *name = pool_textn(pool, from, dot ? (size_t)(dot - from) : strlen(from));
        for (char *c = name; *c; c++)
            *c = *c == '/' ? '-' : *c;
        images->names[i] = name;
    }
    return names_differ(pool, e, images);
}

static Err images_data(Pool *pool, Encoding *e, ImageEncoding *images)
{
    Recipe *all = recipe_copy(pool, e->recipe); /* all samples: nothing is held out */
    Feeds  *feeds = &images->feeds;
    all->data.holdout = 0;
    all->data.holdout_path = NULL;
    all->validate.every = 0;
    all->accumulate = 1;
    all->seed = e->o->seed >= 0 ? e->o->seed : all->seed;
    TRY(feeds_new(pool, images->session, PHASE_SAMPLE_BEGIN, feeds));
    feeds_add(pool, feeds, "edge", F32, feeds_find(feeds, "image")->shape);
    feeds->aside = latent_noise;
    feeds->limit = e->o->loader_bytes;
    feeds->cache = e->o->cache;
    feeds->quiet = e->o->quiet;
    TRY(feeds_open(pool, feeds, all));
    return images_names(pool, e, images);
}

/* (l,l,4) as computed -> (4,l,l) as the original stores them. */
static Err latent_write(Pool *pool, const char *path, const float *from, Shape shape)
{
    int64_t c = shape.dim[2], cells = shape.dim[0] * shape.dim[1];
    int64_t sizes[3] = { c, shape.dim[0], shape.dim[1] };
    float  *to = NEWN(pool, float, (c * cells));
    for (int64_t i = 0; i < c * cells; i++)
        to[i % c * cells + i / c] = from[i];
    return npy_write(path, NPY_F4, 3, sizes, to);
}

static Err edge_write(Pool *pool, const char *path, const float *edge, Shape shape)
{
    int64_t        pixels = shape.dim[0] * shape.dim[1];
    unsigned char *grey = NEWN(pool, unsigned char, pixels);
    for (int64_t i = 0; i < pixels; i++)
        grey[i] = edge[i * shape.dim[2]] > 0 ? 255 : 0;
    return image_write(path, grey, shape.dim[0], shape.dim[1], 1);
}

/* Row `row` of what was just computed, as files. The edges come last: with them the image counts. */
static Err image_files(Pool *pool, const Encoding *e, ImageEncoding *images, int64_t row,
                       const char *name)
{
    const Graph *graph = session_engine(images->session)->graph;
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        Shape        shape = shape_drop(value_at(graph, graph->outputs[i].value)->shape, 0);
        const float *all = session_output_at(images->session, i);
        if (!all)
            return fail(E_DEVICE, "the latents could not be read from the device");
        TRY(latent_write(pool,
                         pool_print(pool, "%s/%s/%s.npy", e->o->out, graph->outputs[i].name, name),
                         all + row * shape_count(shape), shape));
    }
    const FeedBuffer *edge = feeds_find(&images->feeds, "edge");
    Shape             shape = shape_drop(edge->shape, 0);
    return edge_write(pool, pool_print(pool, "%s/edge/%s%s", e->o->out, name, image_ending),
                      (const float *)edge->bytes + row * shape_count(shape), shape);
}

/* Noise by sample number, whatever the batch is. */
static void noise_set(const Encoding *e, ImageEncoding *images, int64_t first)
{
    for (int k = 0; k < LATENTS; k++) {
        FeedBuffer *feed = feeds_find(&images->feeds, latent_noise[k]);
        int64_t     n = shape_count(feed->shape);
        RandomKey   key = { .seed = (uint64_t)(e->o->seed >= 0 ? e->o->seed : e->recipe->seed),
                            .stream = random_stream(latent_noise[k]) };
        random_normals(key, (uint64_t)(first * (n / e->o->batch)), n, feed->bytes);
    }
}

static Err images_folders(const Encoding *e)
{
    for (int k = 0; k < LATENTS; k++)
        TRY(folder_make(pool_print(e->pool, "%s/%s", e->o->out, latent_names[k])));
    return folder_make(pool_print(e->pool, "%s/edge", e->o->out));
}

static Err encode_images(Encoding *e)
{
    Pool         *work = pool_new(e->pool, "images");
    ImageEncoding images = { 0 };
    TRY(images_session(work, e, &images.session));
    TRY(images_data(work, e, &images));
    TRY(images_folders(e));
    int64_t n = images.feeds.source->n_samples, all = n * e->o->crops;
    for (int64_t first = 0; first < all; first += e->o->batch) {
        TRY(feeds_fill_in_order(&images.feeds, first));
        noise_set(e, &images, first);
        TRY(session_run(images.session, PHASE_SAMPLE_BEGIN));
        for (int64_t row = 0; row < e->o->batch && first + row < all; row++) {
            Pool       *one = pool_new(work, "image");
            int64_t     at = first + row;
            const char *name = images.names[at % n];
            if (e->o->crops > 1)
                name = pool_print(one, "%s-%03lld", name, (long long)(at / n));
            TRY(image_files(one, e, &images, row, name));
            pool_free(one);
        }
        encode_progress(e, "encoding images", int_min(first + e->o->batch, all), all);
    }
    e->out->images = n;
    e->out->latents = all;
    encode_measured(e, images.session);
    pool_free(work);
    return OK;
}

/* ---- the whole ---- */

Err encode_run(Pool *pool, const Recipe *recipe, const Device *device, const EncodeOptions *o,
               EncodeReport *report)
{
    const ModelDef *model = recipe->model;
    Encoding        e = { pool, o, recipe, device, report, 0 };
    int64_t         width = 0;
    bool            data = recipe->data.path || recipe->data.kind;
    *report = (EncodeReport){ 0 };
    double start = clock_now();
    if (!model->named_inputs)
        TRY(text_width(&e, &width));
    if (!width && !model->encode_graph)
        return fail(E_USAGE,
                    "%s reads neither texts nor latents, so there is nothing to encode: train it "
                    "on its data as they are",
                    recipe->name);
    if (width)
        TRY(encode_captions(&e, width));
    if (!model->encode_graph) {
        report->seconds = clock_now() - start;
        return OK;
    }
    if (!o->init || !o->out)
        return fail(E_USAGE,
                    "encode takes weights and a folder here: plimsoll encode %s --init "
                    "FILE --data DIR -o DIR",
                    recipe->name);
    if (recipe->data.path && !strcmp(recipe->data.path, o->out))
        return fail(E_USAGE, "-o %s is the folder of the images; name another one", o->out);
    if (model->context)
        TRY(encode_context(&e));
    if (data)
        TRY(encode_images(&e));
    else if (!report->context)
        return fail(E_USAGE, "%s; name images with --data DIR to encode these", report->without);
    report->seconds = clock_now() - start;
    return OK;
}
