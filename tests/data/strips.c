/* strips.c -- images written and read row by row: every kind of pixel comes back, also the second
 * time; what is damaged is said. */
#include "test.h"

#include "base/file.h"
#include "data/image.h"
#include "data/strips.h"

#include <stdlib.h>
#include <string.h>

enum { HEIGHT = 23, WIDTH = 31, MAX_SAMPLES = HEIGHT * WIDTH * 4 };

static uint16_t pixels[MAX_SAMPLES];

static const void *sample_row(const ImageForm *form, int64_t y)
{
    static uint8_t row[WIDTH * 4];
    int64_t        n = form->width * form->channels;
    for (int64_t i = 0; i < n; i++)
        row[i] = (uint8_t)(pixels[y * n + i] >> 8);
    return form->depth == 16 ? (const void *)(pixels + y * n) : row;
}

static void image_make(Pool *pool, const char *path, const ImageForm *form)
{
    ImageOut *out;
    CHECK_OK(image_out_open(pool, path, form, &out));
    for (int64_t y = 0; y < form->height; y++)
        CHECK_OK(image_out_row(out, sample_row(form, y)));
    CHECK_OK(image_out_done(out, OK));
}

static void image_same(Strips *strips, const ImageForm *form)
{
    static float row[WIDTH * 4];
    int64_t      n = form->width * form->channels, wrong = 0;
    for (int64_t y = 0; y < form->height; y++) {
        CHECK_OK(strips_row(strips, row));
        for (int64_t i = 0; i < n; i++) {
            uint16_t x = pixels[y * n + i];
            wrong += row[i] != (form->depth == 16 ? (float)x * (1.0f / 65535)
                                                  : (float)(x >> 8) * (1.0f / 255));
        }
    }
    CHECK_INT(wrong, 0);
}

static void every_kind(void)
{
    const char *path = "strips_test.png";
    if (strcmp(image_ending, ".png")) {
        SKIP("built without libpng");
        return;
    }
    for (int i = 0; i < MAX_SAMPLES; i++)
        pixels[i] = (uint16_t)rand();
    for (int channels = 1; channels <= 4; channels++)
        for (int depth = 8; depth <= 16; depth += 8) {
            Pool     *pool = pool_new(NULL, "strips");
            ImageForm form = { HEIGHT, WIDTH, channels, depth };
            Strips   *strips;
            image_make(pool, path, &form);
            CHECK_OK(strips_open(pool, path, 1, &strips));
            const StripsForm *f = strips_form(strips);
            CHECK_INT(f->height, HEIGHT);
            CHECK_INT(f->width, WIDTH);
            CHECK_INT(f->channels, channels);
            CHECK_INT(f->depth, depth);
            CHECK_INT(f->alpha, channels % 2 == 0);
            CHECK_INT((int64_t)f->whole_bytes, 0);
            image_same(strips, &form);
            CHECK_OK(strips_again(strips));
            image_same(strips, &form);
            CHECK_OK(strips_again(strips)); /* from the middle, too */
            CHECK_OK(strips_row(strips, (float[WIDTH * 4]){ 0 }));
            CHECK_OK(strips_again(strips));
            image_same(strips, &form);
            pool_free(pool);
        }
    remove(path);
}

static void refused(void)
{
    const char *path = "strips_test_bad.png";
    Pool       *pool = pool_new(NULL, "strips");
    ImageForm   form = { HEIGHT, WIDTH, 3, 8 };
    ImageOut   *out;
    Strips     *strips;
    char       *bytes;
    size_t      n;
    float       row[WIDTH * 4];
    Err         err = OK;
    if (strcmp(image_ending, ".png"))
        return;
    image_make(pool, path, &form);
    CHECK_OK(file_read(pool, path, &bytes, &n));
    bytes[n / 2] ^= 64; /* in the pixels */
    CHECK_OK(strips_open_bytes(pool, path, (unsigned char *)bytes, n, 0, &strips));
    for (int64_t y = 0; y < HEIGHT && !err; y++)
        err = strips_row(strips, row);
    CHECK_INT(err, E_FORMAT);
    CHECK(strstr(err_text(), "strips_test_bad.png is a damaged PNG") != NULL);
    CHECK_INT(strips_open_bytes(pool, path, (unsigned char *)bytes, n / 2, 0, &strips), E_FORMAT);
    CHECK_INT(strips_open_bytes(pool, path, (unsigned char *)bytes, 0, 0, &strips), E_FORMAT);
    CHECK_INT(image_out_open(pool, path, &(ImageForm){ 1, 1, 5, 8 }, &out), E_USAGE);
    CHECK_INT(image_out_open(pool, "no/such/folder/x.png", &form, &out), E_IO);
    remove(path);
    CHECK_OK(image_out_open(pool, path, &form, &out)); /* given up: nothing stays */
    CHECK_OK(image_out_row(out, sample_row(&form, 0)));
    CHECK_INT(image_out_done(out, E_NUMBER), E_NUMBER);
    CHECK(!file_exists(path));
    pool_free(pool);
}

int main(void)
{
    RUN(every_kind);
    RUN(refused);
    return test_end();
}
