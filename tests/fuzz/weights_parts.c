/* weights_parts.c -- fuzz target: an index of weights names files beside it, each once; and a file of given
 * numbers gives a row of them or is refused. The input is used as an index, as its map, and as the header of a
 * safetensors file. */
#include "train/given_numbers.h"
#include "train/weights_parts.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static void index_try(Pool *pool, const char *bytes, size_t n)
{
    const char **files = NULL;
    int          count = 0;
    (void)weights_index_likely((const unsigned char *)bytes, n);
    if (weights_index_parse(pool, "folder/x.index.json", (const unsigned char *)bytes, n, &files,
                            &count))
        REQUIRE(*err_text());
    for (int i = 0; i < count; i++) {
        REQUIRE(!strncmp(files[i], "folder/", 7) && files[i][7] != '.');
        REQUIRE(!strchr(files[i] + 7, '/'));
        for (int k = 0; k < i; k++)
            REQUIRE(strcmp(files[i], files[k]) != 0);
    }
}

static void numbers_try(Pool *pool, const unsigned char *bytes, size_t n)
{
    float          row[12];
    FeedBuffer     feed = { .name = "x", .type = F32, .shape = SHAPE(3, 4), .bytes = row };
    SafeFile       file;
    unsigned char *whole = calloc(1, 8 + n + sizeof row);
    for (int i = 0; i < 8; i++)
        whole[i] = (unsigned char)(n >> 8 * i);
    if (n)
        memcpy(whole + 8, bytes, n);
    if (safetensors_parse(pool, "fuzz", whole, 8 + n + sizeof row, &file) == OK) {
        (void)given_input(&file, &feed);
        for (int64_t i = 0; i < 4; i++)
            (void)given_row(&file, "x", i, row, i % 2 ? 12 : 4);
    }
    free(whole);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    Pool *pool = pool_new(NULL, "fuzz");
    Text  text = { .pool = pool };
    index_try(pool, (const char *)bytes, n);
    text_add(&text, "{\"weight_map\": {");
    if (n)
        text_addn(&text, (const char *)bytes, n);
    text_add(&text, "}}");
    index_try(pool, text.at, text.n);
    numbers_try(pool, bytes, n);
    pool_free(pool);
    return 0;
}
