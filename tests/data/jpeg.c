/* jpeg.c -- JPEG files: levels equal to libjpeg-turbo's, unsupported files, damaged files.
 * tests/py/test_jpeg.py compares far more files. */
#include "alloc_count.h"
#include "test.h"

#include "base/file.h"
#include "data/image.h"
#include "data/jpeg.h"
#include "data/png.h"
#include "crc.h"
#include "jpeg_files.h"

#include <stdlib.h>

enum { MAX_ROOM = 1 << 20, MAX_FILE = 2048 }; /* bytes */

static Pool         *pool;
static Work          work;
static unsigned char file[MAX_FILE + 128]; /* a copy to be changed */

static size_t copy(const struct JpegFile *f)
{
    REQUIRE(f->n <= MAX_FILE);
    memcpy(file, f->at, f->n);
    return f->n;
}

/* Decodes a copy that ends where its memory ends, in exactly the workspace that jpeg_parse asks
 * for. */
static Err decode(const unsigned char *bytes, size_t n, Raster *r)
{
    ImageInfo      info;
    unsigned char *own = malloc(n ? n : 1);
    if (n)
        memcpy(own, bytes, n);
    Err err = jpeg_parse("by hand", own, n, &info);
    if (!err) {
        work = (Work){ .at = malloc(info.room), .n = info.room };
        memset(work.at, 0x5A, work.n); /* its old content must not matter */
        long long allocated = atomic_load(&alloc_calls);
        err = jpeg_decode("by hand", own, n, &work, r);
        if (!err) {
            CHECK_INT(atomic_load(&alloc_calls) - allocated, 0);
            size_t size = (size_t)(r->height * r->width * r->channels);
            CHECK_INT(r->height * r->width, info.pixels);
            r->at = memcpy(pool_alloc(pool, size, 1), r->at, size);
        }
        free(work.at);
    }
    free(own);
    return err;
}

static void refused(size_t n, const char *says)
{
    Raster r;
    CHECK_INT(decode(file, n, &r), E_FORMAT);
    CHECK(!strncmp(err_text(), "by hand ", 8));
    if (!strstr(err_text(), says)) {
        fprintf(stderr, "  said: %s\n", err_text());
        CHECK(!says);
    }
}

static size_t find(size_t n, int marker) /* index after the marker */
{
    for (size_t i = 0; i + 1 < n; i++)
        if (file[i] == 0xFF && file[i + 1] == marker)
            return i + 2;
    REQUIRE(!"found");
    return 0;
}

static void levels_equal_libjpegs(void)
{
    for (int i = 0; i < JPEG_FILES; i++) {
        const struct JpegFile *f = &jpeg_files[i];
        Raster                 r;
        CHECK_OK(decode(f->at, f->n, &r));
        CHECK_INT(r.width, f->width);
        CHECK_INT(r.height, f->height);
        CHECK_INT(r.channels, f->channels);
        CHECK_INT(r.depth, 8);
        CHECK_INT(crc_of(r.at, (size_t)(f->width * f->height * f->channels)), f->levels);
    }
}

static void unsupported_files_are_named(void)
{
    static const struct {
        int         marker;
        const char *says;
    } frames[] = {
        { 0xC3, "lossless coding" },     { 0xC5, "hierarchical coding" },
        { 0xC9, "arithmetic coding" },   { 0xCA, "arithmetic coding" },
        { 0xCC, "arithmetic coding" },   { 0xDC, "height after the image" },
        { 0xDE, "hierarchical coding" },
    };
    const struct JpegFile *f = &jpeg_files[1];
    size_t                 n = copy(f), at = find(n, 0xC0);
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        file[at - 1] = (unsigned char)frames[i].marker;
        refused(n, frames[i].says);
        CHECK(strstr(err_text(), "convert it to PNG, or to a plain JPEG") != NULL);
    }
    file[at - 1] = 0xC1; /* extended sequential: decoded in the same way */
    Raster r;
    CHECK_OK(decode(file, n, &r));
    CHECK_INT(crc_of(r.at, (size_t)(f->width * f->height * f->channels)), f->levels);
    file[at + 2] = 12;
    refused(n, "12 bits a sample");
    file[at + 2] = 8;
    file[at + 3] = file[at + 4] = 0;
    refused(n, "height after the image");
    file[at + 4] = 18;
    file[at + 5] = file[at + 6] = 0;
    refused(n, "0 x 18 pixels");
    memset(file + at + 3, 0xFF, 4);
    refused(n, "65535 x 65535 pixels");
    n = copy(f);
    file[at + 9] = 0x32; /* 3 x 2 beside 2 x 1 */
    file[at + 12] = 0x21;
    refused(n, "do not divide each other");
    n = copy(f);
    memmove(file + at + 20, file + at + 17, n - at - 17); /* a fourth colour */
    file[at + 1] = 20;
    file[at + 7] = 4;
    refused(n + 3, "four colours (CMYK)");
}

static void truncated_anywhere(void)
{
    for (int i = 0; i < JPEG_FILES; i++) {
        size_t n = copy(&jpeg_files[i]);
        for (size_t keep = 0; keep < n; keep++) {
            ImageInfo info;
            CHECK_INT(jpeg_parse("x", file, keep, &info), E_FORMAT); /* before decoding */
            CHECK(strstr(err_text(), "x is a truncated JPEG") != NULL);
        }
        for (size_t keep = find(n, 0xDA) + 12; keep < n - 2; keep++) { /* end marker added */
            unsigned char was[2] = { file[keep], file[keep + 1] };
            file[keep] = 0xFF;
            file[keep + 1] = 0xD9;
            Raster r;
            CHECK_INT(decode(file, keep + 2, &r), E_FORMAT);
            memcpy(file + keep, was, 2);
        }
    }
}

static void damaged_anywhere(void) /* an error or an image, never a crash */
{
    for (int i = 0; i < JPEG_FILES; i++)
        for (int k = 0; k < 4000; k++) {
            size_t n = copy(&jpeg_files[i]);
            for (int changes = 1 + rand() % 3; changes; changes--)
                file[2 + (size_t)rand() % (n - 2)] = (unsigned char)rand();
            ImageInfo info;
            Raster    r;
            if (jpeg_parse("x", file, n, &info) == OK && info.room < MAX_ROOM &&
                decode(file, n, &r) != OK)
                CHECK(!strncmp(err_text(), "by hand ", 8));
        }
}

static void contradictions_are_refused(void)
{
    const struct JpegFile *halved = &jpeg_files[1], *progressive = &jpeg_files[2];
    size_t                 n = copy(halved);
    file[find(n, 0xD0) - 1] = 0xD1;
    refused(n, "restart marker is missing or out of order");
    n = copy(halved);
    file[find(n, 0xDB) + 3] = 0;
    refused(n, "a quantisation table has a 0");
    n = copy(halved);
    memset(file + find(n, 0xC4) + 3, 3, 3); /* codes of 1, 2 and 3 bits */
    refused(n, "Huffman table");
    n = copy(halved);
    memmove(file + n + 63, file + n - 2, 2); /* 65 more bytes of data */
    memset(file + n - 2, 0x55, 65);
    refused(n + 65, "go on after its last block");
    n = copy(progressive);
    size_t last = n; /* ends before the tables of its last scan */
    while (file[last - 2] != 0xFF || file[last - 1] != 0xC4)
        last--;
    file[last - 1] = 0xD9;
    refused(last, "its last scans are missing");
}

/* A few stray bytes after a complete image are accepted; libjpeg only warns about them too. */
static void stray_bytes_after_the_image(void)
{
    for (int i = 0; i < JPEG_FILES; i++) {
        size_t n = copy(&jpeg_files[i]);
        Raster r;
        CHECK_OK(decode(file, n, &r));
        size_t         bytes = (size_t)(r.height * r.width * r.channels);
        unsigned char *before = malloc(bytes);
        memcpy(before, r.at, bytes);
        memmove(file + n + 2, file + n - 2, 2);
        memset(file + n - 2, 0x55, 4);
        CHECK_OK(decode(file, n + 4, &r));
        CHECK(!memcmp(before, r.at, bytes));
        free(before);
    }
}

static void any_name_will_do(void) /* the first bytes decide, not the name */
{
    static const char *const names[] = { "jpeg_test.jpg", "jpeg_test.JPEG", "jpeg_test.png" };
    for (int i = 0; i < 3; i++) {
        ImageInfo info;
        Raster    r;
        CHECK_OK(file_write(names[i], jpeg_files[1].at, jpeg_files[1].n));
        CHECK(image_name(names[i]));
        CHECK_OK(image_look(names[i], &info));
        CHECK_INT(info.bytes, jpeg_files[1].n);
        work = (Work){ .at = pool_alloc(pool, image_open_work(&info), 1),
                       .n = image_open_work(&info) };
        CHECK_OK(image_open(names[i], &work, &r));
        CHECK_INT(r.height, 18);
        work = (Work){ .at = work.at, .n = work_size(info.bytes) + info.room / 2 };
        CHECK_INT(image_open(names[i], &work, &r), E_IO);
        CHECK(strstr(err_text(), "has grown to 21 x 18 pixels") != NULL);
        CHECK_OK(file_remove(names[i]));
    }
    CHECK_OK(file_write(names[0], "RIFF....WEBP", 12));
    CHECK_INT(image_look(names[0], &(ImageInfo){ 0 }), E_FORMAT);
    CHECK(strstr(err_text(), "neither as a PNG nor as a JPEG") != NULL);
    CHECK_OK(file_write(names[0], "", 0));
    CHECK_INT(image_look(names[0], &(ImageInfo){ 0 }), E_FORMAT);
    CHECK_OK(file_remove(names[0]));
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(levels_equal_libjpegs);
    RUN(unsupported_files_are_named);
    RUN(truncated_anywhere);
    RUN(damaged_anywhere);
    RUN(contradictions_are_refused);
    RUN(stray_bytes_after_the_image);
    RUN(any_name_will_do);
    pool_free(pool);
    return test_end();
}
