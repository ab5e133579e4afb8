/* feeds.c -- fills input buffers from a data source or a given file. */
#include "train/feeds_int.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "ops/elementwise/basic.h"
#include "ops/ops.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* Inputs computed here: the number of targets that count in all micro-batches of a step, and the
 * number of elements set in `mask` over the whole micro-batch before its split. */
static const char DENOMINATOR[] = "denominator";
static const char MASK_COUNT[] = "mask_count";
/* 0 where a row starts without a carried state; the data sets it at the start of a file. */
static const char CARRY[] = "carry";

enum { FEEDS_MAX = 64 };

size_t feed_bytes(const FeedBuffer *feed)
{
    return (size_t)(shape_count(feed->shape) * type_bytes(feed->type));
}

Err feeds_new(Pool *pool, Session *session, Phase phase, Feeds *feeds)
{
    const Graph *graph = session_engine(session)->graph;
    *feeds = (Feeds){ .session = session, .phase = phase, .share = 1, .split = 1, .first = -1 };
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const Node *node = &graph->nodes[i];
        if (node->op != &op_feed || node->phase != phase)
            continue;
        FeedBuffer feed = { .name = ATTR(node, FeedAttr)->name,
                            .type = out_type(node, 0),
                            .shape = out_shape(node, 0),
                            .below = ATTR(node, FeedAttr)->below,
                            .whole = ATTR(node, FeedAttr)->whole };
        if (*ATTR(node, FeedAttr)->all_of) {
            feed.all_of = ATTR(node, FeedAttr)->all_of;
        } else {
            feed.bytes = pool_alloc(pool, feed_bytes(&feed), 1);
            feeds->bytes += (int64_t)out_bytes(node, 0);
            TRY(session_feed_phase(session, phase, feed.name, feed.bytes));
        }
        VEC_ADD(pool, feeds->list, feeds->n, feeds->cap, feed);
    }
    return OK;
}

void feeds_add(Pool *pool, Feeds *feeds, const char *name, Type type, Shape shape)
{
    FeedBuffer feed = { .name = name, .type = type, .shape = shape, .apart = true };
    feed.bytes = pool_alloc(pool, feed_bytes(&feed), 1);
    feeds->bytes += (int64_t)feed_bytes(&feed);
    VEC_ADD(pool, feeds->list, feeds->n, feeds->cap, feed);
}

FeedBuffer *feeds_find(Feeds *feeds, const char *name)
{
    for (int32_t i = 0; i < feeds->n; i++)
        if (!strcmp(feeds->list[i].name, name))
            return &feeds->list[i];
    return NULL;
}

static void given_close(void *fd) { close((int)(intptr_t)fd); }

/* Only the head is mapped, and only here: rows are read as they are needed, so that a file that is
 * cut short in mid-run is an error and not a signal. */
Err feeds_from_file(Pool *pool, Feeds *feeds, const char *path, int64_t *n_rows)
{
    Pool    *work = pool_new(pool, "given");
    MapFile  map;
    SafeFile file;
    size_t   n;
    TRY(file_open_plain(path, &feeds->given_fd, &n));
    pool_at_free(pool, given_close, (void *)(intptr_t)feeds->given_fd);
    feeds->given_path = pool_text(pool, path);
    TRY(file_map(work, path, &map));
    TRY(safetensors_parse(work, map.path, map.bytes, map.n, &file));
    *n_rows = INT64_MAX;
    for (int32_t i = 0; i < feeds->n; i++) {
        FeedBuffer       *feed = &feeds->list[i];
        const SafeTensor *t = safetensors_find(&file, feed->name);
        SafeType want = feed->type == F32 ? SAFE_F32 : feed->type == I32 ? SAFE_I32 : SAFE_U8;
        if (!t)
            return fail(E_USAGE, "%s has no input '%s' %s", path, feed->name,
                        shape_text(feed->shape));
        bool same = t->rank == feed->shape.rank + 1 && t->type == want;
        for (int a = 0; same && a < feed->shape.rank; a++)
            same = t->shape[a + 1] == feed->shape.dim[a];
        if (!same)
            return fail(E_USAGE, "%s: input '%s' must be %s of shape (micro-batches,) + %s", path,
                        feed->name, safe_type_name(want), shape_text(feed->shape));
        feed->given = true;
        feed->given_rows = t->shape[0];
        feed->given_at = t->n_bytes ? (size_t)((const unsigned char *)t->data - map.bytes) : 0;
        if (t->shape[0] < *n_rows)
            *n_rows = t->shape[0];
    }
    pool_free(work);
    return OK;
}

/* ---- from the data ---- */

static bool model_chose(const Recipe *recipe, const char *key, const char *word)
{
    for (const Field *f = recipe->model->fields; f->key; f++)
        if (!strcmp(f->key, key) && f->kind == FIELD_CHOICE)
            return !strcmp(f->choices[*(const int *)((const char *)recipe->config + f->offset)],
                           word);
    return false;
}

static int64_t feeds_rows(const Feeds *feeds) /* samples of a micro-batch, after the split */
{
    return feeds->n_served ? feeds->list[feeds->served[0]].shape.dim[0] : 0;
}

/* Sets *from to the first held-out sample. They are a share of the samples at the end, rounded to
 * whole files or sequences if that is about as many. A recipe that validates on files without
 * naming a share holds out one in twenty; a single sample then serves for both. Generated samples
 * are unlimited, so none are taken from training. */
static Err held_from(const Recipe *recipe, const DataSource *source, int64_t *from)
{
    const DataConfig *data = &recipe->data;
    bool              unsaid = data->holdout <= 0;
    double            share = !unsaid ? data->holdout
                              : data->path && !data->holdout_path && recipe->validate.every ? 0.05
                                                                                            : 0;
    int64_t           n = source->n_samples, held = llround(share * (double)n);
    *from = n;
    if (share <= 0 || (unsaid && n == 1))
        return OK;
    held = held < 1 ? 1 : held;
    if (held >= n)
        return fail(E_USAGE,
                    "data.holdout: %g of %lld samples leaves none to train on; use a "
                    "smaller share",
                    share, (long long)n);
    *from = n - held;
    if (!source->group)
        return OK;
    int64_t start = source->group(source, *from);
    if (start == 0) /* the first file stays in training, if there is a second */
        for (start = *from; start < n && source->group(source, start) == 0; start++) {
        }
    /* a whole file of more than twice the share is divided instead */
    *from = start < n && n - start <= 2 * held ? start : *from;
    return OK;
}

static Err feeds_load_whole(Feeds *feeds)
{
    void *to[FEEDS_MAX] = { 0 };
    for (int32_t i = feeds->n_served; i < feeds->n_served + feeds->n_whole; i++)
        to[i] = feeds->list[feeds->served[i]].bytes;
    return feeds->source->load_whole(feeds->source, to);
}

typedef enum FeedsUse { USE_TRAINING, USE_HELD, USE_DRAWN } FeedsUse;

/* Which samples of the source are used, those from number `from` on being held out. all_held: so are
 * all. */
static void feeds_range(Feeds *feeds, FeedsUse use, bool all_held, int64_t from)
{
    int64_t n = feeds->source->n_samples;
    if (use == USE_HELD)
        feeds->first = all_held || from == n ? 0 : from;
    else if (use == USE_DRAWN)
        feeds->first = all_held || from == n ? -1 : from;
    feeds->shuffled = use == USE_DRAWN;
}

/* Embeddings of another encoder would be noise to the model. */
static Err texts_suit(const Feeds *feeds, const DataSpec *spec, const DataSource *source)
{
    const TextSpace *run = &feeds->text, *here = &source->text;
    if (!run->encoder || !here->encoder || text_space_same(run, here))
        return OK;
    return fail(E_USAGE,
                "the texts of %s are embedded by %s (hash %016" PRIx64
                "), those that the run is trained on by %s (hash %016" PRIx64
                "); embed them by the same encoder (plimsoll encode)",
                spec->path ? spec->path : "the generated samples", here->encoder, here->hash,
                run->encoder, run->hash);
}

/* What of the recipe says how its data are read. input: a file or folder in place of the recipe's;
 * apart: the held-out samples have a folder of their own. */
static DataSpec feeds_spec(const Feeds *feeds, const Recipe *recipe, const char *input, bool apart)
{
    const DataConfig *data = &recipe->data;
    return (DataSpec){
        .kind = data->kind,
        .path = input   ? input
                : apart ? data->holdout_path
                        : data->path,
        .samples = data->samples,
        .seed = feeds->seed,
        .n_feeds = feeds->n_served + feeds->n_whole,
        .by_name = feeds->named,
        .as_input = input != NULL,
        .hold_back = feeds->hold_back,
        .range_low = data->range_low,
        .range_high = data->range_high,
        .keep_rest = data->keep_rest,
        .unscaled = data->scaling == SCALING_NONE,
        .levels = (int64_t)1 << recipe_number(recipe, "bits", 8),
        .channels = recipe_number(recipe, "channels", 1),
        .rate = recipe_number(recipe, "rate", 0),
        .mu_law = model_chose(recipe, "encoding", "mu_law"),
        .memory = feeds->limit ? feeds->limit - feeds->bytes : 0,
        .pattern = data->pattern,
        .cache = feeds->cache,
        .quiet = feeds->quiet,
        .frame_rate = data->frame_rate,
        .from = data->from,
        .seconds = data->seconds,
        .any_excerpt = data->excerpt == EXCERPT_ANY && !input,
        .range_channel = data->range_channel,
        .array = data->array,
        .texts = input || apart ? NULL : data->texts,
    };
}

/* Opens the data for the inputs in `wanted`. */
static Err feeds_source(Pool *pool, Feeds *feeds, const Recipe *recipe, const char *input,
                        FeedsUse use, const DataFeed *wanted)
{
    const DataConfig *data = &recipe->data;
    bool              apart = use != USE_TRAINING && data->holdout_path && !input;
    int64_t           rows = feeds_rows(feeds) * feeds->share, from;
    DataSource       *source;
    DataSpec          spec = feeds_spec(feeds, recipe, input, apart);
    spec.feeds = wanted;
    if (feeds->limit && spec.memory <= 0)
        return fail(E_BUDGET,
                    "the buffers of one micro-batch take %s on the host, and --loader-memory is "
                    "%s; allow more",
                    bytes_text(feeds->bytes), bytes_text(feeds->limit));
    /* generated: none need be taken from training */
    bool more = use != USE_TRAINING && !spec.path && data->holdout <= 0;
    if (more)
        spec.samples += use == USE_HELD ? rows : data->samples;
    TRY(data_open(pool, &spec, &source));
    TRY(texts_suit(feeds, &spec, source));
    if (!feeds->named && feeds_find(feeds, DENOMINATOR) && !source->counted)
        return fail(E_USAGE,
                    "data kind '%s' cannot count the targets of a step; set accumulate to 1",
                    source->name);
    from = source->n_samples;
    if (!input && !apart)
        TRY(held_from(recipe, source, &from));
    feeds->source = source;
    if (use == USE_TRAINING) {
        feeds->held = source->n_samples - from;
        source->n_samples = from;
    } else {
        feeds_range(feeds, use, apart, more ? data->samples : from);
    }
    feeds->work = (Work){ .at = pool_alloc(pool, source->work_bytes + 64, 1),
                          .n = source->work_bytes + 64 };
    feeds->bytes += (int64_t)feeds->work.n;
    return feeds->n_whole ? feeds_load_whole(feeds) : OK;
}

static bool feed_computed(const Feeds *feeds, const FeedBuffer *feed)
{
    return !feeds->named && (!strcmp(feed->name, DENOMINATOR) || !strcmp(feed->name, MASK_COUNT));
}

static bool feed_aside(const Feeds *feeds, const char *name)
{
    for (const char *const *at = feeds->aside; at && *at; at++)
        if (!strcmp(*at, name))
            return true;
    return false;
}

/* Asks for input i of the list. */
static Err feeds_want(Pool *pool, Feeds *feeds, int32_t i, DataFeed *wanted)
{
    FeedBuffer *feed = &feeds->list[i];
    int32_t     at = feeds->n_served + feeds->n_whole;
    wanted[at] = (DataFeed){ feed->name, feed->type,
                             feed->whole ? feed->shape : shape_drop(feed->shape, 0), feed->below,
                             feed->whole };
    feeds->served[at] = i;
    if (feed->whole) {
        feeds->n_whole++;
        return OK;
    }
    feeds->n_served++;
    if (feed->shape.dim[0] != feeds_rows(feeds))
        return fail(E_USAGE, "input '%s' %s must have one row for each of %lld samples", feed->name,
                    shape_text(feed->shape), (long long)feeds_rows(feeds));
    if (feeds->split > 1) {
        feed->bytes = pool_alloc(pool, (size_t)feeds->split * feed_bytes(feed), 1);
        feeds->bytes += (feeds->split - 1) * (int64_t)feed_bytes(feed);
    }
    return OK;
}

static Err feeds_serve(Pool *pool, Feeds *feeds, const Recipe *recipe, const char *input,
                       const char *except, FeedsUse use)
{
    DataFeed *wanted = NEWN(pool, DataFeed, feeds->n + 1);
    feeds->served = NEWN(pool, int32_t, feeds->n + 1);
    feeds->seed = (uint64_t)recipe->seed;
    feeds->named = recipe->model->named_inputs;
    if (feeds->n > FEEDS_MAX)
        return fail(E_USAGE, "the model has %d inputs; at most %d are supported", feeds->n,
                    FEEDS_MAX);
    for (int whole = 0; whole < 2; whole++)
        for (int32_t i = 0; i < feeds->n; i++) {
            const FeedBuffer *feed = &feeds->list[i];
            if (feed->whole == (whole != 0) && !feed->all_of && !feed_computed(feeds, feed) &&
                !feed_aside(feeds, feed->name) && !(except && !strcmp(feed->name, except)))
                TRY(feeds_want(pool, feeds, i, wanted));
        }
    feeds->follow = !input && !feeds->named && feeds_find(feeds, CARRY);
    return feeds->n_served + feeds->n_whole ? feeds_source(pool, feeds, recipe, input, use, wanted)
                                            : OK;
}

Err feeds_open(Pool *pool, Feeds *feeds, const Recipe *recipe)
{
    feeds->share = recipe->accumulate;
    feeds->ranks = recipe->levers.ranks;
    feeds->split = recipe->levers.split > 1 ? recipe->levers.split : 1;
    return feeds_serve(pool, feeds, recipe, NULL, NULL, USE_TRAINING);
}

Err feeds_open_drawn(Pool *pool, Feeds *feeds, const Recipe *recipe, const char *input,
                     const char *except)
{
    return feeds_serve(pool, feeds, recipe, input, except, USE_DRAWN);
}

Err feeds_open_held(Pool *pool, Feeds *feeds, const Recipe *recipe)
{
    Validation v = recipe_validation(recipe);
    feeds->share = v.batches;
    feeds->split = v.split;
    return feeds_serve(pool, feeds, recipe, NULL, NULL, USE_HELD);
}

int64_t feeds_sample(const Feeds *feeds, int64_t place)
{
    if (feeds->follow) { /* each row reads all of the data, from its own starting point */
        int64_t rows = feeds_rows(feeds), n = feeds->source->n_samples;
        return (place % rows * n / rows + place / rows) % n;
    }
    if (feeds->first < 0)
        return source_order(feeds->source, feeds->seed, place);
    int64_t held = feeds->source->n_samples - feeds->first;
    if (feeds->shuffled)
        place = shuffled(held, feeds->seed, (uint64_t)(place / held), place % held);
    return feeds->first + place % held;
}

int64_t feeds_stride(const Feeds *feeds)
{
    int64_t ranks = feeds->ranks > 1 ? feeds->ranks : 1, split = feeds->split;
    return split % ranks == 0 ? 1 : ranks % split == 0 ? ranks / split : 0;
}

int64_t feeds_rows_loaded(const Feeds *feeds) { return feeds->split * feeds_rows(feeds); }

Err feeds_load_row(const Feeds *feeds, void *const *into, int64_t drawn, int64_t row, bool in_order,
                   Work work)
{
    const DataSource *source = feeds->source;
    int64_t id = in_order ? (drawn + row) % source->n_samples : feeds_sample(feeds, drawn + row);
    void   *to[FEEDS_MAX] = { 0 };
    for (int32_t i = 0; i < feeds->n_served; i++) {
        const FeedBuffer *feed = &feeds->list[feeds->served[i]];
        to[i] = (char *)(into ? into[i] : feed->bytes) +
                (size_t)row * (feed_bytes(feed) / (size_t)feed->shape.dim[0]);
    }
    TRY(source->load(source, id, drawn + row, to, &work));
    for (int32_t i = 0; feeds->follow && drawn + row < feeds_rows(feeds) && i < feeds->n_served;
         i++)
        if (!strcmp(feeds->list[feeds->served[i]].name, CARRY))
            *(float *)to[i] = 0; /* first micro-batch of the run: nothing to carry */
    return OK;
}

Err feeds_load(const Feeds *feeds, int64_t drawn, bool in_order)
{
    for (int64_t row = 0; row < feeds_rows_loaded(feeds); row++)
        TRY(feeds_load_row(feeds, NULL, drawn, row, in_order,
                           (Work){ .at = feeds->work.at, .n = feeds->work.n }));
    return OK;
}

/* ---- filling ---- */

static void feeds_count(Feeds *feeds, int64_t micro_batch, int64_t drawn)
{
    FeedBuffer *feed = feeds->named ? NULL : feeds_find(feeds, DENOMINATOR);
    int64_t rows = feeds_rows(feeds), first = drawn - micro_batch % feeds->share * rows, count = 0;
    for (int64_t i = 0; feed && i < feeds->share * rows; i++)
        count += feeds->source->counted(feeds->source, feeds_sample(feeds, first + i));
    if (feed)
        *(float *)feed->bytes = (float)count;
}

static void feeds_count_mask(Feeds *feeds)
{
    FeedBuffer *feed = feeds_find(feeds, MASK_COUNT), *mask = feeds_find(feeds, "mask");
    int64_t     count = 0;
    if (!feed || feeds->named)
        return;
    REQUIRE(mask && mask->type == U8); /* a model with this feed has the mask */
    for (size_t i = 0; i < (size_t)feeds->split * feed_bytes(mask); i++)
        count += ((const uint8_t *)mask->bytes)[i] != 0;
    *(float *)feed->bytes = (float)(count > 1 ? count : 1);
}

/* Points the session at slice i of what was loaded, and at all of it where that is read. */
static Err feeds_use_slice(Feeds *feeds, int64_t slice)
{
    for (int32_t i = 0; i < feeds->n_served; i++) {
        const FeedBuffer *feed = &feeds->list[feeds->served[i]];
        if (feed->apart)
            continue;
        TRY(session_feed_phase(feeds->session, feeds->phase, feed->name,
                               (const char *)feed->bytes + (size_t)slice * feed_bytes(feed)));
    }
    for (int32_t i = 0; i < feeds->n; i++)
        if (feeds->list[i].all_of)
            TRY(session_feed_phase(feeds->session, feeds->phase, feeds->list[i].name,
                                   feeds_find(feeds, feeds->list[i].all_of)->bytes));
    return OK;
}

Err feeds_fill(Feeds *feeds, int64_t micro_batch, int64_t drawn)
{
    for (int32_t i = 0; i < feeds->n; i++) {
        FeedBuffer *feed = &feeds->list[i];
        size_t      bytes = feed_bytes(feed);
        if (!feed->given)
            continue;
        REQUIRE(micro_batch < feed->given_rows); /* the caller knows the file's n_rows */
        TRY(file_read_at(feeds->given_fd, feeds->given_path,
                         feed->given_at + (size_t)micro_batch * bytes, feed->bytes, bytes));
    }
    if (!feeds->source || !feeds->n_served)
        return OK;
    feeds_count(feeds, micro_batch, drawn);
    int64_t slice = micro_batch % feeds->split, whole = micro_batch / feeds->split;
    if (slice == 0 || (feeds->ranks > 1 && feeds->loaded != whole + 1)) {
        int64_t first = drawn - slice * feeds_rows(feeds);
        feeds->loaded = 0;
        TRY(feeds->prefetcher ? prefetch_take(feeds, first) : feeds_load(feeds, first, false));
        feeds_count_mask(feeds);
        feeds->loaded = whole + 1;
    }
    return feeds_use_slice(feeds, slice);
}

Err feeds_fill_in_order(Feeds *feeds, int64_t first)
{
    return feeds->source ? feeds_load(feeds, first, true) : OK;
}

static uint64_t feeds_hash(const Feeds *feeds, uint64_t hash)
{
    for (int32_t i = 0; i < feeds->n; i++)
        if (feeds->list[i].bytes)
            hash = hash_words(hash, feeds->list[i].bytes, feed_bytes(&feeds->list[i]));
    return hash;
}

Err feeds_digest(Feeds *feeds, uint64_t *digest)
{
    uint64_t hash = hash_int(HASH_EMPTY, feeds->source ? feeds->source->n_samples : 0);
    if (feeds->source)
        hash = hash_int(hash, (int64_t)feeds->source->text.hash);
    TRY(feeds_fill(feeds, 0, 0));
    hash = feeds_hash(feeds, hash);
    if (feeds->source) {
        TRY(feeds_fill(feeds, 0, feeds->source->n_samples / 2));
        hash = feeds_hash(feeds, hash);
    }
    *digest = hash;
    return OK;
}
