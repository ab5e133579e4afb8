/* classes.c -- fuzz target: the text files that data lies beside: miniImageNet's lines of names and classes,
 * captions, and patterns of file names. Every image that is listed is one that was looked at. */
#include "data/sets.h"

#include "base/file.h"
#include "data/image.h"
#include "data/pattern.h"
#include "data/source.h"
#include "data/text_space.h"

#include <stdlib.h>
#include <string.h>

static const char list[] = "fuzz_classes.csv";

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    static const unsigned char pixel[3];
    Pool                      *pool = pool_new(NULL, "fuzz");
    SetClasses                 classes;
    const char                *caption;
    REQUIRE(image_write("fuzz_a.png", pixel, 1, 1, 3) == OK);
    REQUIRE(file_write(list, n ? (const char *)bytes : "", n) == OK);
    if (set_classes_read(pool, &(DataSpec){ .kind = "sets", .path = list }, &classes) == OK)
        for (int32_t i = 0; i < classes.n; i++) {
            REQUIRE(*classes.list[i].name && classes.list[i].n > 0);
            for (int32_t k = 0; k < classes.list[i].n; k++)
                REQUIRE(file_exists(classes.list[i].items[k].path));
        }
    if (caption_read(pool, list, &caption) == OK)
        REQUIRE(*caption);
    /* a pattern, and behind a zero a path */
    char  *copy = pool_textn(pool, (const char *)bytes, n);
    size_t half = strlen(copy);
    (void)pattern_matches(copy, half < n ? copy + half + 1 : copy);
    pool_free(pool);
    REQUIRE(file_remove(list) == OK && file_remove("fuzz_a.png") == OK);
    return 0;
}
