/* cifar.c -- fuzz target: CIFAR's binary records. A file of any length is refused, or every set of it loads
 * with levels in [-1,1]. The input is repeated to whole records, with some bytes more or fewer. */
#include "data/source.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>

enum { SIDE = 8, SET = 3, FLOATS = SET * SIDE * SIDE * 3, MAX_BYTES = 40000 };

static void try_file(const char *path)
{
    Pool       *pool = pool_new(NULL, "fuzz");
    DataFeed    feed = { "images", F32, SHAPE(SET, SIDE, SIDE, 3) };
    DataSource *source;
    if (data_open(pool, &(DataSpec){ .kind = "sets", .path = path, .feeds = &feed, .n_feeds = 1 },
                  &source) == OK) {
        float images[FLOATS];
        void *to[] = { images };
        for (int64_t id = 0; id < source->n_samples; id++) {
            Work work = { .at = pool_alloc(pool, source->work_bytes + 64, 1),
                          .n = source->work_bytes + 64 };
            REQUIRE(source->load(source, id, id, to, &work) == OK);
            for (int i = 0; i < FLOATS; i++)
                REQUIRE(images[i] >= -1 && images[i] <= 1);
        }
    }
    pool_free(pool);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    const char path[] = "fuzz_cifar.bin";
    char      *file = malloc(MAX_BYTES);
    REQUIRE(file_write(path, n ? (const char *)bytes : "", n) == OK);
    try_file(path);
    if (n > 2) { /* records of 3,073 or 3,074 bytes */
        size_t records = 1 + bytes[0] % 12, record = 3073 + bytes[1] % 2, more = bytes[2] % 4,
               size = records * record + (more == 1) - (more == 2);
        for (size_t i = 0; i < size; i++)
            file[i] = (char)bytes[3 + (n > 3 ? i % (n - 3) : (size_t)0) - (n == 3)];
        REQUIRE(file_write(path, file, size) == OK);
        try_file(path);
    }
    REQUIRE(file_remove(path) == OK);
    free(file);
    return 0;
}
