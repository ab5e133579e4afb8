/* random_inputs.c -- inputs of any name and shape, drawn by the program, so that a model needs no
 * data to be timed: floats from N(0,1), integers below the bound that the feed has, masks of ones.
 * Element e of sample s is a function of (seed, input, s, e). */
#include "data/kinds.h"

#include "base/text.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static bool is_mask(const DataFeed *feed)
{
    for (const char *at = feed->name; *at && feed->type != F32; at++)
        if (!strncasecmp(at, "mask", 4))
            return true;
    return false;
}

static uint32_t feed_bound(const DataFeed *feed)
{
    return feed->below > 0 ? (uint32_t)feed->below : feed->type == U8 ? 2 : 1000;
}

static void draw_feed(const DataSource *source, const DataFeed *feed, int64_t id, void *to)
{
    RandomKey key = sample_key(source, feed->name, id);
    int64_t   n = shape_count(feed->shape);
    bool      ones = is_mask(feed);
    uint32_t  bound = feed_bound(feed);
    if (feed->type == F32) {
        random_normals(key, 0, n, to);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint32_t x = ones ? 1 : random_below_at(key, (uint64_t)i, bound);
        if (feed->type == U8)
            ((uint8_t *)to)[i] = (uint8_t)x;
        else
            ((int32_t *)to)[i] = (int32_t)x;
    }
}

static Err random_load(const DataSource *source, int64_t id, int64_t draw, void *const *to,
                       Work *work)
{
    const DataSpec *spec = source->own;
    (void)draw;
    (void)work;
    for (int i = 0; i < spec->n_feeds; i++)
        if (!spec->feeds[i].whole)
            draw_feed(source, &spec->feeds[i], id, to[i]);
    return OK;
}

static Err random_load_whole(const DataSource *source, void *const *to)
{
    const DataSpec *spec = source->own;
    for (int i = 0; i < spec->n_feeds; i++)
        if (spec->feeds[i].whole)
            draw_feed(source, &spec->feeds[i], 0, to[i]);
    return OK;
}

/* "no data is given, so inputs are drawn: x from N(0,1), ids below 96, mask of ones" */
static const char *random_note(Pool *pool, const DataSpec *spec)
{
    Text text = { .pool = pool };
    text_add(&text, "none is given, so inputs are drawn at random: ");
    for (int i = 0; i < spec->n_feeds; i++) {
        const DataFeed *feed = &spec->feeds[i];
        text_add(&text, "%s%s", i ? ", " : "", feed->name);
        if (feed->type == F32)
            text_add(&text, " from N(0,1)");
        else if (is_mask(feed))
            text_add(&text, " of ones");
        else
            text_add(&text, " below %u", feed_bound(feed));
    }
    text_add(&text, "; --data DIR gives real ones");
    return text.at;
}

Err random_inputs_open(Pool *pool, const DataSpec *spec, DataSource **out)
{
    DataSpec *own = NEW(pool, DataSpec);
    *own = *spec; /* the caller's feeds live as long as the source */
    for (int i = 0; i < spec->n_feeds; i++)
        if (spec->feeds[i].type != F32 && spec->feeds[i].type != I32 && spec->feeds[i].type != U8)
            return fail(E_USAGE, "the input '%s' of type %s cannot be drawn", spec->feeds[i].name,
                        type_name(spec->feeds[i].type));
    *out = NEW(pool, DataSource);
    **out = (DataSource){ .n_samples = spec->samples,
                          .load = random_load,
                          .load_whole = random_load_whole,
                          .note = random_note(pool, spec),
                          .own = own };
    return OK;
}
