/* data.c -- opens data as a run does and writes what the model would get, for comparison by
 * tests/py/test_media.py and tests/py/test_sets.py.
 *
 *   compare_data FOLDER OUT FEED:TYPE:DIM,DIM... [key=value ...]
 *
 * Keys: kind, cache, pattern, rate, channels, levels, frame_rate, from, seconds, part, low, high,
 * range_channel, array, memory, draws. Writes OUT/FEED, all samples one after another (each `draws`
 * times), and prints their number, what is said of them, and a line about each. On failure it prints
 * the sentence alone and exits with the error's code. */
#include "base/file.h"
#include "base/text.h"
#include "data/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEEDS = 8 };

typedef struct Asked {
    DataSpec spec;
    DataFeed feeds[FEEDS];
    int64_t  draws;
} Asked;

static void feed_add(Asked *a, char *text)
{
    DataFeed *f = &a->feeds[a->spec.n_feeds++];
    f->name = strtok(text, ":");
    const char *type = strtok(NULL, ":");
    f->type = !strcmp(type, "F32") ? F32 : !strcmp(type, "I32") ? I32 : U8;
    for (char *d = strtok(NULL, ","); d; d = strtok(NULL, ","))
        f->shape.dim[f->shape.rank++] = atoll(d);
}

static void key_add(Asked *a, const char *key, const char *value)
{
    DataSpec *s = &a->spec;
    const struct {
        const char  *key;
        const char **text;
        int64_t     *whole;
        double      *number;
    } keys[] = {
        { "kind", &s->kind, NULL, NULL },
        { "cache", &s->cache, NULL, NULL },
        { "pattern", &s->pattern, NULL, NULL },
        { "array", &s->array, NULL, NULL },
        { "rate", NULL, &s->rate, NULL },
        { "channels", NULL, &s->channels, NULL },
        { "levels", NULL, &s->levels, NULL },
        { "range_channel", NULL, &s->range_channel, NULL },
        { "memory", NULL, &s->memory, NULL },
        { "draws", NULL, &a->draws, NULL },
        { "low", NULL, NULL, &s->range_low },
        { "high", NULL, NULL, &s->range_high },
        { "from", NULL, NULL, &s->from },
        { "seconds", NULL, NULL, &s->seconds },
        { "frame_rate", NULL, NULL, &s->frame_rate },
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(key, keys[i].key)) {
            if (keys[i].text)
                *keys[i].text = value;
            else if (keys[i].whole)
                *keys[i].whole = atoll(value);
            else
                *keys[i].number = atof(value);
            return;
        }
    REQUIRE(!strcmp(key, "excerpt"));
    s->any_excerpt = !strcmp(value, "any");
}

static Err samples_write(Pool *pool, const Asked *a, const DataSource *source, const char *out)
{
    void  *to[FEEDS];
    FILE  *files[FEEDS];
    size_t bytes[FEEDS];
    Work   work = { .n = source->work_bytes + 64 };
    char   room[4096];
    Err    err = OK;
    work.at = pool_alloc(pool, work.n, 1);
    for (int i = 0; i < a->spec.n_feeds; i++) {
        bytes[i] = (size_t)(shape_count(a->feeds[i].shape) * type_bytes(a->feeds[i].type));
        to[i] = pool_alloc(pool, bytes[i], 1);
        files[i] = fopen(pool_print(pool, "%s/%s", out, a->feeds[i].name), "w");
        REQUIRE(files[i]);
    }
    for (int64_t n = 0; n < source->n_samples * a->draws && !err; n++) {
        int64_t id = n % source->n_samples;
        work.used = 0;
        err = source->load(source, id, n, to, &work);
        for (int i = 0; i < a->spec.n_feeds && !err; i++)
            fwrite(to[i], 1, bytes[i], files[i]);
        if (!err && source->about && n == id)
            printf("%s\n", source->about(source, id, room, sizeof room));
    }
    for (int i = 0; i < a->spec.n_feeds; i++)
        fclose(files[i]);
    return err;
}

static Err asked_run(Pool *pool, Asked *a, const char *out)
{
    DataSource *source;
    a->spec.feeds = a->feeds;
    TRY(folder_make(out));
    TRY(data_open(pool, &a->spec, &source));
    printf("%lld\n%s\n", (long long)source->n_samples, source->detail ? source->detail : "");
    return samples_write(pool, a, source, out);
}

int main(int argc, char **argv)
{
    Pool *pool = pool_new(NULL, "compare");
    Asked a = { .spec = { .quiet = true, .range_channel = -1, .path = argv[1] }, .draws = 1 };
    REQUIRE(argc > 3);
    for (int i = 3; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        if (equals) {
            *equals = '\0';
            key_add(&a, argv[i], equals + 1);
        } else {
            feed_add(&a, argv[i]);
        }
    }
    Err err = asked_run(pool, &a, argv[2]);
    if (err)
        fprintf(stderr, "%s\n", err_text());
    pool_free(pool);
    return err_exit_code(err);
}
