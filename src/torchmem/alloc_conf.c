/* alloc_conf.c -- key:value,key:[list] as PyTorch reads it. */
#include "torchmem/alloc_conf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((int64_t)1 << 20)

enum { CONF_WORD = 64 };

const AllocConf alloc_conf_default = { .max_split_bytes = INT64_MAX,
                                       .max_rounding_bytes = 20 * MIB,
                                       .large_segment_bytes = 20 * MIB,
                                       .memory_fraction = 1 };

typedef struct ConfIn {
    const char *text, *at;
    char        word[CONF_WORD];
} ConfIn;

static void conf_spaces(ConfIn *in) { in->at += strspn(in->at, " \t"); }

/* The next word: up to a separator, without spaces. */
static Err conf_word(ConfIn *in)
{
    conf_spaces(in);
    size_t n = strcspn(in->at, ":,[] \t");
    if (!n || n >= sizeof in->word)
        return fail(E_USAGE,
                    "allocator settings '%s': a word is missing or too long at '%s'; write "
                    "key:value,key:value",
                    in->text, in->at);
    memcpy(in->word, in->at, n);
    in->word[n] = '\0';
    in->at += n;
    conf_spaces(in);
    return OK;
}

static Err conf_mark(ConfIn *in, char mark)
{
    if (*in->at != mark)
        return fail(E_USAGE, "allocator settings '%s': '%c' is expected at '%s'", in->text, mark,
                    in->at);
    in->at++;
    conf_spaces(in);
    return OK;
}

static Err conf_wrong(const ConfIn *in, const char *key, const char *takes)
{
    return fail(E_USAGE, "%s takes %s, not '%s'", key, takes, in->word);
}

static Err conf_number(ConfIn *in, const char *key, double *out)
{
    char *end;
    TRY(conf_word(in));
    errno = 0;
    *out = strtod(in->word, &end);
    return *end || errno ? conf_wrong(in, key, "a number") : OK;
}

static Err conf_whole(ConfIn *in, const char *key, int64_t *out)
{
    char *end;
    TRY(conf_word(in));
    errno = 0;
    *out = strtoll(in->word, &end, 10);
    return *end || errno || *out < 0 ? conf_wrong(in, key, "a whole number") : OK;
}

static Err conf_mib(ConfIn *in, const char *key, int64_t least, int64_t *out)
{
    int64_t mib = 0;
    TRY(conf_whole(in, key, &mib));
    if (mib < least || mib > INT64_MAX / MIB)
        return fail(E_USAGE, "%s takes %lld or more (MiB), not '%s'", key, (long long)least,
                    in->word);
    *out = mib * MIB;
    return OK;
}

static Err conf_share(ConfIn *in, const char *key, bool whole, double *out)
{
    TRY(conf_number(in, key, out));
    if (!(*out > 0) || *out > 1 || (*out == 1 && !whole))
        return conf_wrong(in, key,
                          whole ? "a number above 0 and up to 1"
                                : "a number between 0 "
                                  "and 1");
    return OK;
}

static Err conf_truth(ConfIn *in, const char *key, bool *out)
{
    TRY(conf_word(in));
    *out = !strcmp(in->word, "True");
    return *out || !strcmp(in->word, "False") ? OK : conf_wrong(in, key, "True or False");
}

static int conf_log2(int64_t number)
{
    int log = 0;
    while (number >>= 1)
        log++;
    return log;
}

static Err conf_divisions_number(ConfIn *in, int32_t *out)
{
    int64_t number = 0;
    TRY(conf_whole(in, "roundup_power2_divisions", &number));
    if (number > INT32_MAX || (number & (number - 1)))
        return conf_wrong(in, "roundup_power2_divisions", "powers of two");
    *out = (int32_t)number;
    return OK;
}

/* [256:1,512:2,>:8]: b sets the interval [b, 2b) MiB; the first also what is below, '>' what is
 * above the last. */
static Err conf_divisions_list(ConfIn *in, int32_t *divisions)
{
    int last = -1;
    TRY(conf_mark(in, '['));
    for (;;) {
        int32_t number = 0;
        int64_t bound = 0;
        bool    above = *in->at == '>';
        if (above)
            TRY(conf_mark(in, '>'));
        else
            TRY(conf_whole(in, "roundup_power2_divisions", &bound));
        if (!above && (bound < 1 || (bound & (bound - 1))))
            return conf_wrong(in, "roundup_power2_divisions",
                              "bounds that are powers of two (MiB)");
        TRY(conf_mark(in, ':'));
        TRY(conf_divisions_number(in, &number));
        int from = above ? last + 1 : conf_log2(bound), to = above ? CONF_INTERVALS : from + 1;
        if (from >= CONF_INTERVALS && !above)
            from = CONF_INTERVALS - 1, to = CONF_INTERVALS;
        if (last < 0)
            from = 0;
        for (int i = from; i < to; i++)
            divisions[i] = number;
        last = to - 1;
        if (*in->at != ',')
            return conf_mark(in, ']');
        TRY(conf_mark(in, ','));
    }
}

static Err conf_divisions(ConfIn *in, int32_t *divisions)
{
    int32_t all = 0;
    memset(divisions, 0, CONF_INTERVALS * sizeof *divisions);
    if (*in->at == '[')
        return conf_divisions_list(in, divisions);
    TRY(conf_divisions_number(in, &all));
    for (int i = 0; i < CONF_INTERVALS; i++)
        divisions[i] = all;
    return OK;
}

static Err conf_skip(ConfIn *in) /* the value of a key that moves no block */
{
    if (*in->at != '[')
        return conf_word(in);
    in->at += strcspn(in->at, "]");
    return conf_mark(in, ']');
}

static Err conf_backend(ConfIn *in)
{
    TRY(conf_word(in));
    if (strcmp(in->word, "native"))
        return fail(E_USAGE,
                    "backend:%s is not PyTorch's own allocator; only backend:native can be "
                    "replayed",
                    in->word);
    return OK;
}

static Err conf_value(ConfIn *in, const char *key, AllocConf *out)
{
    if (!strcmp(key, "max_split_size_mb"))
        return conf_mib(in, key, 20, &out->max_split_bytes);
    if (!strcmp(key, "max_non_split_rounding_mb"))
        return conf_mib(in, key, 0, &out->max_rounding_bytes);
    if (!strcmp(key, "large_segment_size_mb"))
        return conf_mib(in, key, 11, &out->large_segment_bytes);
    if (!strcmp(key, "garbage_collection_threshold"))
        return conf_share(in, key, false, &out->gc_threshold);
    if (!strcmp(key, "per_process_memory_fraction"))
        return conf_share(in, key, true, &out->memory_fraction);
    if (!strcmp(key, "expandable_segments"))
        return conf_truth(in, key, &out->expandable);
    if (!strcmp(key, "roundup_power2_divisions"))
        return conf_divisions(in, out->roundup_divisions);
    return !strcmp(key, "backend") ? conf_backend(in) : conf_skip(in);
}

Err alloc_conf_read(const char *text, AllocConf *out)
{
    ConfIn in = { .text = text, .at = text };
    *out = alloc_conf_default;
    if (!text)
        return OK;
    conf_spaces(&in);
    while (*in.at) {
        char key[CONF_WORD];
        TRY(conf_word(&in));
        memcpy(key, in.word, sizeof key);
        TRY(conf_mark(&in, ':'));
        TRY(conf_value(&in, key, out));
        if (*in.at)
            TRY(conf_mark(&in, ','));
    }
    return OK;
}
