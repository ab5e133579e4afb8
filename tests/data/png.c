/* png.c -- PNG files: every depth and colour type is read, damaged files are refused, what is
 * written is read back and allocates nothing in a pool that keeps its memory. */
#include "alloc_count.h"
#include "test.h"

#include "base/file.h"
#include "data/image.h"
#include "data/png.h"
#include "data/strips.h"
#include "crc.h"

#include <stdlib.h>

static Pool *pool;
static Work  work;

static void room(size_t n) { work = (Work){ .at = pool_alloc(pool, n, 1), .n = n }; }

/* A PNG put together here: raw rows in stored deflate blocks. */
typedef struct Hand {
    unsigned char at[1 << 18];
    size_t        n;
} Hand;

static void put32(Hand *h, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        h->at[h->n++] = (unsigned char)(x >> (24 - 8 * i));
}

static void chunk(Hand *h, const char *name, const unsigned char *bytes, size_t n)
{
    put32(h, (uint32_t)n);
    size_t start = h->n;
    memcpy(h->at + h->n, name, 4);
    if (n)
        memcpy(h->at + h->n + 4, bytes, n);
    h->n += n + 4;
    put32(h, crc_of(h->at + start, h->n - start));
}

static void hand_png(Hand *h, uint32_t width, uint32_t height, int depth, int colour,
                     const unsigned char *palette, size_t n_palette, const unsigned char *rows,
                     size_t n)
{
    unsigned char head[13] = { 0 }, data[4096];
    for (int i = 0; i < 4; i++) {
        head[i] = (unsigned char)(width >> (24 - 8 * i));
        head[4 + i] = (unsigned char)(height >> (24 - 8 * i));
    }
    head[8] = (unsigned char)depth;
    head[9] = (unsigned char)colour;
    memcpy(h->at, "\x89PNG\r\n\x1a\n", 8);
    h->n = 8;
    chunk(h, "IHDR", head, 13);
    chunk(h, "tEXt", (const unsigned char *)"about\0nothing", 13);
    if (palette)
        chunk(h, "PLTE", palette, n_palette);
    data[0] = 0x78;
    data[1] = 0x01;
    data[2] = 1;
    data[3] = (unsigned char)n;
    data[4] = (unsigned char)(n >> 8);
    data[5] = (unsigned char)~n;
    data[6] = (unsigned char)(~n >> 8);
    memcpy(data + 7, rows, n);
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < n; i++) {
        a = (a + rows[i]) % 65521;
        b = (b + a) % 65521;
    }
    for (int i = 0; i < 4; i++)
        data[7 + n + (size_t)i] = (unsigned char)((b << 16 | a) >> (24 - 8 * i));
    chunk(h, "IDAT", data, n + 11);
    chunk(h, "IEND", NULL, 0);
}

static Err hand_read(const Hand *h, Raster *r)
{
    work.used = 0;
    return png_decode("by hand", h->at, h->n, &work, r);
}

static void every_kind_is_read(void)
{
    static Hand         h;
    Raster              r;
    const unsigned char grey8[] = { 0, 10, 200, 0, 30, 40 };
    hand_png(&h, 2, 2, 8, 0, NULL, 0, grey8, sizeof grey8);
    CHECK_OK(hand_read(&h, &r));
    CHECK_INT(r.channels, 1);
    CHECK_INT(((const uint8_t *)r.at)[1], 200);
    CHECK_INT(((const uint8_t *)r.at)[2], 30);

    const unsigned char grey16[] = { 0, 0x12, 0x34, 0xff, 0xff };
    hand_png(&h, 2, 1, 16, 0, NULL, 0, grey16, sizeof grey16);
    CHECK_OK(hand_read(&h, &r));
    CHECK_INT(r.depth, 16);
    CHECK_INT(((const uint16_t *)r.at)[0], 0x1234);
    float f[6];
    raster_floats(&r, 0, 0, 1, 2, 3, f);
    CHECK_NEAR(f[0], 0x1234 / 65535.0, 1e-6);
    CHECK_NEAR(f[5], 1, 0);

    const unsigned char grey1[] = { 0, 0xA0 };
    hand_png(&h, 3, 1, 1, 0, NULL, 0, grey1, sizeof grey1);
    CHECK_OK(hand_read(&h, &r));
    CHECK_INT(((const uint8_t *)r.at)[0], 255);
    CHECK_INT(((const uint8_t *)r.at)[1], 0);
    CHECK_INT(((const uint8_t *)r.at)[2], 255);

    const unsigned char palette[] = { 1, 2, 3, 250, 251, 252 }, indexed[] = { 0, 0x40 };
    hand_png(&h, 2, 1, 1, 3, palette, sizeof palette, indexed, sizeof indexed);
    CHECK_OK(hand_read(&h, &r));
    CHECK_INT(r.channels, 3);
    CHECK_INT(((const uint8_t *)r.at)[0], 1);
    CHECK_INT(((const uint8_t *)r.at)[5], 252);

    const unsigned char rgba[] = { 0, 9, 8, 7, 0 }; /* fully transparent: the colour as stored */
    hand_png(&h, 1, 1, 8, 6, NULL, 0, rgba, sizeof rgba);
    CHECK_OK(hand_read(&h, &r));
    CHECK_INT(r.channels, 3);
    CHECK_INT(((const uint8_t *)r.at)[2], 7);

    const unsigned char grey_alpha16[] = { 0, 1, 2, 3, 4 };
    hand_png(&h, 1, 1, 16, 4, NULL, 0, grey_alpha16, sizeof grey_alpha16);
    CHECK_OK(hand_read(&h, &r));
    CHECK_INT(r.channels, 1);
    CHECK_INT(((const uint16_t *)r.at)[0], 0x0102);
}

static void bad_headers(void)
{
    static Hand         h;
    ImageInfo           info;
    const unsigned char row[] = { 0, 1 };
    const struct {
        int depth, colour;
    } wrong[] = { { 3, 0 }, { 4, 2 }, { 16, 3 }, { 8, 1 }, { 8, 7 }, { 0, 0 } };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hand_png(&h, 1, 1, wrong[i].depth, wrong[i].colour, NULL, 0, row, sizeof row);
        CHECK_INT(png_parse("x", h.at, h.n, &info), E_FORMAT);
    }
    hand_png(&h, 0, 1, 8, 0, NULL, 0, row, sizeof row);
    CHECK_INT(png_parse("x", h.at, h.n, &info), E_FORMAT);
    hand_png(&h, 0xFFFFFFFF, 0xFFFFFFFF, 8, 0, NULL, 0, row, sizeof row);
    CHECK_INT(png_parse("x", h.at, h.n, &info), E_FORMAT);
    hand_png(&h, 1, 1, 8, 0, NULL, 0, row, sizeof row);
    CHECK_OK(png_parse("x", h.at, h.n, &info));
    for (size_t n = 0; n < h.n; n++) /* every truncation */
        CHECK_INT(png_parse("x", h.at, n, &info), E_FORMAT);
    h.at[8 + 8 + 14] ^= 1; /* the checksum of the header */
    Raster r;
    CHECK_INT(hand_read(&h, &r), E_FORMAT);
    CHECK(strstr(err_text(), "by hand is a damaged PNG") != NULL);
    hand_png(&h, 4, 1, 8, 0, NULL, 0, row, sizeof row); /* fewer pixels than the header says */
    CHECK_INT(hand_read(&h, &r), E_FORMAT);
    for (int i = 0; i < 2000; i++) { /* a flipped bit anywhere: at worst an error */
        hand_png(&h, 1, 1, 8, 0, NULL, 0, row, sizeof row);
        h.at[(size_t)rand() % h.n] ^= (unsigned char)(1 << rand() % 8);
        if (hand_read(&h, &r) == OK)
            CHECK_INT(r.height * r.width, 1);
    }
}

/* One grey pixel, and in the same stream n bytes more; as libpng would unpack them to drop them. */
static void beyond(Hand *h, size_t n)
{
    enum { BLOCK = 65535, STORED = 5 };
    static unsigned char data[1 << 18];
    const unsigned char  pixel[] = { 0x78, 0x01, 0, 2, 0, 0xfd, 0xff, 0, 7 };
    size_t               used = sizeof pixel, sum = (9 + 8 * n) % 65521;
    hand_png(h, 1, 1, 8, 0, NULL, 0, pixel + 7, 2);
    h->n -= 12 + 12 + 13; /* the end and the pixels, which come anew */
    memset(data, 0, sizeof data);
    memcpy(data, pixel, sizeof pixel);
    for (size_t block; n; n -= block, used += STORED + block) {
        block = n < BLOCK ? n : BLOCK;
        data[used] = block == n;
        data[used + 1] = (unsigned char)block;
        data[used + 2] = (unsigned char)(block >> 8);
        data[used + 3] = (unsigned char)~block;
        data[used + 4] = (unsigned char)(~block >> 8);
    }
    data[used++] = (unsigned char)(sum >> 8); /* Adler's: bytes 0, 7, and zeros */
    data[used++] = (unsigned char)sum;
    data[used++] = 0;
    data[used++] = 8;
    chunk(h, "IDAT", data, used);
    chunk(h, "IEND", NULL, 0);
}

static void bytes_beyond_the_pixels(void)
{
    static Hand h;
    Raster      r;
    Strips     *strips;
    float       pixel;
    beyond(&h, 1000); /* programs leave some */
    CHECK_OK(hand_read(&h, &r));
    beyond(&h, 200000); /* a file that unpacks to a thousand times its size begins like this */
    CHECK_INT(hand_read(&h, &r), E_FORMAT);
    CHECK(strstr(err_text(), "it has data beyond its pixels") != NULL);
    CHECK_OK(strips_open_bytes(pool, "by hand", h.at, h.n, 0, &strips));
    CHECK_INT(strips_row(strips, &pixel), E_FORMAT);
    CHECK(strstr(err_text(), "it has data beyond its pixels") != NULL);
}

/* png_look finds a changed bit in a chunk that pixels need; text may change. */
static void checksums_are_checked(void)
{
    static const unsigned char row[] = { 0, 10, 20, 30 };
    static const char          path[] = "png_test_sum.png";
    ImageInfo                  info;
    Hand                       h;
    hand_png(&h, 1, 1, 8, 2, NULL, 0, row, sizeof row);
    CHECK_OK(file_write(path, h.at, h.n));
    CHECK_OK(png_look(path, &info));
    CHECK_INT(crc_of("123456789", 9), 0xcbf43926);
    for (size_t at = 8; at < h.n; at++) {
        unsigned char was = h.at[at];
        bool          text = at >= 33 + 4 && at < 33 + 12 + 13; /* of the chunk after the header */
        h.at[at] ^= 0x10;
        CHECK_OK(file_write(path, h.at, h.n));
        CHECK_INT(png_look(path, &info), text ? OK : E_FORMAT);
        h.at[at] = was;
    }
    CHECK_OK(file_remove(path));
}

static void written_and_read(void)
{
    static unsigned char pixels[300 * 200 * 3];
    const struct {
        int64_t h, w;
        int     c;
    } sizes[] = { { 1, 1, 1 },     { 1, 1, 3 },     { 7, 300, 3 },
                  { 200, 300, 3 }, { 300, 200, 1 }, { 64, 64, 3 } };
    const char *path = "png_test.png";
    for (int pattern = 0; pattern < 3; pattern++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            size_t n = (size_t)(sizes[k].h * sizes[k].w * sizes[k].c);
            for (size_t i = 0; i < n; i++)
                pixels[i] = (unsigned char)(pattern == 0   ? rand()
                                            : pattern == 1 ? (int)(i / 50)
                                                           : 7);
            CHECK_OK(image_write(path, pixels, sizes[k].h, sizes[k].w, sizes[k].c));
            Raster    r;
            ImageInfo info;
            CHECK_OK(png_look(path, &info));
            CHECK_INT(info.pixels, sizes[k].h * sizes[k].w);
            work.used = 0;
            CHECK_OK(image_open(path, &work, &r));
            CHECK_INT(r.height, sizes[k].h);
            CHECK_INT(r.width, sizes[k].w);
            CHECK_INT(r.channels, sizes[k].c);
            CHECK(!memcmp(r.at, pixels, n));
            CHECK(pattern < 2 || n < 1000 || info.bytes < n / 20);
        }
    CHECK_INT(image_write(path, pixels, 1, 1, 5), E_USAGE);
    CHECK_INT(image_write("no/such/folder/x.png", pixels, 1, 1, 1), E_IO);
    CHECK_INT(png_look("not_there.png", &(ImageInfo){ 0 }), E_IO);
    CHECK(strstr(err_text(), "not_there.png") != NULL);
    remove(path);
}

/* As for results between training steps: once without a path before step 1, then to files. */
static void writing_again_allocates_nothing(void)
{
    enum { SIDE = 97 };
    static unsigned char pixels[SIDE * SIDE * 3];
    const char          *path = "png_test_again.png";
    Pool                *kept = pool_new(pool, "kept");
    pool_keep(kept);
    for (int channels = 1; channels <= 3; channels += 2) {
        memset(pixels, 0, sizeof pixels);
        CHECK_OK(image_write_in(kept, NULL, pixels, SIDE, SIDE, channels));
        long long before = atomic_load(&alloc_calls);
        for (int times = 0; times < 3; times++) {
            for (size_t i = 0; i < sizeof pixels; i++)
                pixels[i] = (unsigned char)(times == 1 ? (int)(i / 50) : rand());
            CHECK_OK(image_write_in(kept, path, pixels, SIDE, SIDE, channels));
        }
        CHECK_INT(atomic_load(&alloc_calls) - before, 0);
        Raster r;
        work.used = 0;
        CHECK_OK(image_open(path, &work, &r));
        CHECK(!memcmp(r.at, pixels, (size_t)(SIDE * SIDE * channels)));
    }
    CHECK_OK(file_remove(path));
    pool_free(kept);
}

/* Without libpng nothing is read, and images are written as PNM. */
static void without_libpng(void)
{
    static const unsigned char pixels[] = { 1, 2, 3, 4, 5, 6 };
    const char                *path = "png_test.pnm";
    char                      *bytes;
    size_t                     n;
    CHECK_OK(image_write(path, pixels, 1, 2, 3));
    CHECK_OK(file_read(pool, path, &bytes, &n));
    CHECK_INT(n, 11 + sizeof pixels);
    CHECK(!memcmp(bytes, "P6\n2 1\n255\n\1\2\3\4\5\6", n));
    CHECK_INT(png_look(path, &(ImageInfo){ 0 }), E_IO);
    CHECK(strstr(err_text(), "built without libpng") != NULL);
    CHECK_OK(file_remove(path));
}

static void sizes_change_as_they_should(void)
{
    static float in[40 * 40 * 3], out[40 * 40 * 3], back[40 * 40 * 3];
    for (int k = 0; k < 3; k++) {
        ResizeKind kind = (ResizeKind)k;
        work.used = 0;
        for (int i = 0; i < 40 * 40 * 3; i++)
            in[i] = 0.3f;
        image_resize(in, 40, 40, 3, out, 13, 7, kind, &work); /* a flat image stays flat */
        for (int i = 0; i < 13 * 7 * 3; i++)
            CHECK_NEAR(out[i], 0.3, 1e-5);
        for (int i = 0; i < 40 * 40; i++)
            in[i] = (float)(i % 40) / 40;
        /* the same size gives the same image */
        image_resize(in, 40, 40, 1, out, 40, 40, kind, &work);
        CHECK(!memcmp(in, out, 1600 * sizeof(float)));
        image_resize(in, 40, 40, 1, out, 20, 20, kind, &work); /* a ramp stays a ramp */
        for (int i = 3; i < 16; i++)
            CHECK_NEAR(out[10 * 20 + i], (2 * i + 0.5) / 40, 0.002);
        image_resize(out, 20, 20, 1, back, 1, 1, kind, &work);
        CHECK_NEAR(back[0], 0.4875, 0.01);
    }
    CHECK_INT(mirror(-1, 5), 1);
    CHECK_INT(mirror(5, 5), 3);
    CHECK_INT(mirror(-13, 3), 1);
    CHECK_INT(mirror(9, 1), 0);
}

int main(void)
{
    pool = pool_new(NULL, "test");
    room(8 << 20);
    if (strcmp(image_ending, ".png")) {
        RUN(without_libpng);
    } else {
        RUN(every_kind_is_read);
        RUN(bad_headers);
        RUN(bytes_beyond_the_pixels);
        RUN(checksums_are_checked);
        RUN(written_and_read);
        RUN(writing_again_allocates_nothing);
    }
    RUN(sizes_change_as_they_should);
    pool_free(pool);
    return test_end();
}
