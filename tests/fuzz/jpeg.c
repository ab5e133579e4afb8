/* jpeg.c -- fuzz target: any bytes are an error, or an image that decodes within the workspace that
 * jpeg_parse asks for. The input is used as a file, and as changes to good files. */
#include "data/jpeg.h"

#include "../data/jpeg_files.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ROOM = 4 << 20 }; /* larger images would only be slower */

static void try_bytes(const unsigned char *bytes, size_t n)
{
    unsigned char *copy = malloc(n ? n : 1);
    ImageInfo      info;
    Raster         r;
    if (n)
        memcpy(copy, bytes, n);
    if (jpeg_parse("fuzz", copy, n, &info) == OK && info.room <= MAX_ROOM) {
        Work work = { .at = malloc(info.room), .n = info.room };
        if (jpeg_decode("fuzz", copy, n, &work, &r) == OK)
            REQUIRE(r.width == info.width && r.height == info.height && r.depth == 8 &&
                    r.channels == info.channels);
        free(work.at);
    }
    free(copy);
}

/* A good file with some bytes changed: of three input bytes, two give the index, one the value. */
static void try_edits(const struct JpegFile *f, const unsigned char *edits, size_t n)
{
    unsigned char *copy = malloc(f->n);
    memcpy(copy, f->at, f->n);
    for (; n >= 3; n -= 3, edits += 3)
        copy[((size_t)edits[0] << 8 | edits[1]) % f->n] = edits[2];
    try_bytes(copy, f->n);
    free(copy);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    try_bytes(bytes, n);
    if (n)
        try_edits(&jpeg_files[bytes[0] % JPEG_FILES], bytes + 1, n - 1);
    return 0;
}
