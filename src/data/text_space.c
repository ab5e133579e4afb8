/* text_space.c -- reads and writes text.json, and captions. */
#include "data/text_space.h"

#include "base/file.h"
#include "base/prompt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_FORMAT "plimsoll-text-1"
enum { HASH_DIGITS = 16, CAPTION_MAX = 1 << 20 }; /* bytes */

bool text_space_same(const TextSpace *a, const TextSpace *b)
{
    if (!a->encoder || !b->encoder)
        return a->encoder == b->encoder;
    return !strcmp(a->encoder, b->encoder) &&
           (a->hash == b->hash || !strcmp(a->encoder, TEXT_FROM_FILES));
}

void text_space_out(JsonOut *o, const TextSpace *space)
{
    char hash[HASH_DIGITS + 1];
    snprintf(hash, sizeof hash, "%016" PRIx64, space->hash);
    json_out_string(o, "encoder", space->encoder);
    json_out_string(o, "hash", hash);
    if (space->weights)
        json_out_string(o, "weights", space->weights);
    if (space->vocabulary)
        json_out_string(o, "vocabulary", space->vocabulary);
}

Err text_space_in(Pool *pool, const Json *object, TextSpace *space)
{
    const char *encoder, *hash, *weights = NULL, *vocabulary = NULL;
    char       *end;
    TRY(json_need_text(object, "encoder", &encoder));
    TRY(json_need_text(object, "hash", &hash));
    TRY(json_maybe_text(object, "weights", &weights));
    TRY(json_maybe_text(object, "vocabulary", &vocabulary));
    *space = (TextSpace){ .encoder = pool_text(pool, encoder),
                          .hash = strtoull(hash, &end, HASH_DIGITS),
                          .weights = weights ? pool_text(pool, weights) : NULL,
                          .vocabulary = vocabulary ? pool_text(pool, vocabulary) : NULL };
    return strlen(hash) == HASH_DIGITS && !*end
               ? OK
               : json_fail(object, json_get(object, "hash"), "'hash' must be %d hexadecimal digits",
                           HASH_DIGITS);
}

Err text_space_read(Pool *pool, const char *folder, TextSpace *space)
{
    const char *path = pool_print(pool, "%s/text.json", folder), *format;
    const Json *root;
    *space = (TextSpace){ 0 };
    if (!file_exists(path))
        return OK;
    TRY(json_read(pool, path, 0, &root));
    TRY(json_need_text(root, "format", &format));
    if (strcmp(format, TEXT_FORMAT))
        return json_fail(root, json_get(root, "format"), "the format is '%s', not " TEXT_FORMAT,
                         format);
    return text_space_in(pool, root, space);
}

Err text_space_write(const char *folder, const TextSpace *space)
{
    char    path[FILE_PATH_MAX];
    FileOut out;
    JsonOut o;
    snprintf(path, sizeof path, "%s/text.json", folder);
    TRY(file_out_init(&out, path));
    json_out_file(&o, &out, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_string(&o, "format", TEXT_FORMAT);
    text_space_out(&o, space);
    json_out_end(&o);
    return file_out_done(&out, json_out_done(&o));
}

Err caption_read(Pool *pool, const char *path, const char **out)
{
    char  *text;
    size_t n;
    TRY(file_read_within(pool, path, CAPTION_MAX, &text, &n));
    size_t good = json_utf8_bytes(text, n);
    if (good < n)
        return fail(E_FORMAT, "%s is not UTF-8 text (byte %zu); save it as UTF-8", path, good);
    if (!strncmp(text, "\xEF\xBB\xBF", 3)) /* a byte order mark */
        text += 3, n -= 3;
    while (n && strchr(" \t\r\n", text[n - 1]))
        text[--n] = '\0';
    *out = text;
    return n ? OK : fail(E_FORMAT, "%s is empty; it should hold the caption", path);
}
