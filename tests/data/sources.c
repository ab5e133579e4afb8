/* sources.c -- every kind of data: its inputs, that a sample depends on its number alone, the order
 * of an epoch, and bad files, each reported with its reason before anything runs. */
#include "test.h"

#include "base/file.h"
#include "base/npy.h"
#include "base/safetensors.h"
#include "data/degrade.h"
#include "data/media.h"
#include "data/png.h"
#include "data/wav.h"
#include "jpeg_files.h"
#include "base/prompt.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static Pool *pool;

typedef struct Opened {
    DataSource *source;
    DataFeed    feeds[8];
    void       *to[8], *again[8];
    int         n;
    Work        work;
} Opened;

static size_t feed_bytes(const DataFeed *f)
{
    return (size_t)(shape_count(f->shape) * type_bytes(f->type));
}

static Err open_spec(Opened *o, DataSpec spec)
{
    spec.feeds = o->feeds;
    spec.n_feeds = o->n;
    TRY(data_open(pool, &spec, &o->source));
    for (int i = 0; i < o->n; i++) {
        o->to[i] = pool_alloc(pool, feed_bytes(&o->feeds[i]), 1);
        o->again[i] = pool_alloc(pool, feed_bytes(&o->feeds[i]), 1);
    }
    o->work = (Work){ .at = pool_alloc(pool, o->source->work_bytes + 64, 1),
                      .n = o->source->work_bytes + 64 };
    return OK;
}

static Err load(Opened *o, int64_t id, int64_t draw)
{
    o->work.used = 0;
    for (int i = 0; i < o->n; i++) /* every byte must be written */
        memset(o->to[i], 0xA5, feed_bytes(&o->feeds[i]));
    return o->source->load(o->source, id, draw, o->to, &o->work);
}

static bool all_within(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(x[i] >= -1 && x[i] <= 1))
            return false;
    return true;
}

/* The same number gives the same bytes again, another number others; fp32 inputs lie in [-1,1]. */
static void check_samples(Opened *o, bool bounded)
{
    int64_t n = o->source->n_samples, others = 0;
    CHECK(n > 0);
    for (int64_t id = 0; id < n && id < 6; id++) {
        CHECK_OK(load(o, id, id));
        for (int i = 0; i < o->n; i++)
            memcpy(o->again[i], o->to[i], feed_bytes(&o->feeds[i]));
        if (n > 1) {
            CHECK_OK(load(o, (id + 1) % n, id));
            others += memcmp(o->to[0], o->again[0], feed_bytes(&o->feeds[0])) != 0;
        }
        memset(o->work.at, 0x5A, o->work.n); /* its old content must not matter */
        CHECK_OK(load(o, id, id));
        for (int i = 0; i < o->n; i++) {
            CHECK(!memcmp(o->again[i], o->to[i], feed_bytes(&o->feeds[i])));
            if (bounded && o->feeds[i].type == F32)
                CHECK(all_within(o->to[i], shape_count(o->feeds[i].shape)));
        }
    }
    CHECK(n == 1 || others > 0);
}

static void order_is_a_permutation(void)
{
    static const int64_t counts[] = { 1, 2, 3, 16, 17, 100, 1000 };
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        DataSource s = { .n_samples = counts[k] };
        int64_t    same = 0;
        for (int epoch = 0; epoch < 3; epoch++) {
            bool *seen = NEWN(pool, bool, counts[k]);
            for (int64_t i = 0; i < counts[k]; i++) {
                int64_t at = source_order(&s, 7, epoch * counts[k] + i);
                CHECK(at >= 0 && at < counts[k] && !seen[at]);
                seen[at] = true;
                same += epoch && at == source_order(&s, 7, i);
            }
        }
        CHECK(counts[k] < 16 || same < counts[k]); /* epochs differ */
    }
}

/* ---- files to read ---- */

static const char *at_path(const char *name) { return pool_print(pool, "sources_test/%s", name); }

static const char *make_png(const char *name, int64_t h, int64_t w, int c, int shade)
{
    unsigned char *pixels = NEWN(pool, unsigned char, (h * w * c));
    const char    *path = at_path(name);
    char          *folder = pool_text(pool, path);
    *strrchr(folder, '/') = '\0';
    for (int64_t i = 0; i < h * w * c; i++)
        pixels[i] = (unsigned char)(shade + i / c % w + 3 * (i % c));
    CHECK_OK(folder_make(folder));
    CHECK_OK(image_write(path, pixels, h, w, c));
    return path;
}

/* 21 x 18 pixels, half of the files progressive. */
static const char *make_jpeg(const char *name, int which)
{
    const struct JpegFile *f = &jpeg_files[1 + which % 2];
    const char            *path = at_path(name);
    char                  *folder = pool_text(pool, path);
    *strrchr(folder, '/') = '\0';
    CHECK_OK(folder_make(folder));
    CHECK_OK(file_write(path, f->at, f->n));
    return path;
}

static void make_npy(const char *name, NpyType type, int rank, const int64_t *shape,
                     const void *data)
{
    char *folder = pool_text(pool, at_path(name));
    *strrchr(folder, '/') = '\0';
    CHECK_OK(folder_make(folder));
    CHECK_OK(npy_write(at_path(name), type, rank, shape, data));
}

static void cut(const char *path, size_t keep)
{
    char  *bytes;
    size_t n;
    CHECK_OK(file_read(pool, path, &bytes, &n));
    CHECK_OK(file_write(path, bytes, keep < n ? keep : n / 2));
}

static void refused(Opened *o, DataSpec spec, Err err, const char *says)
{
    CHECK_INT(open_spec(o, spec), err);
    if (!strstr(err_text(), says)) {
        fprintf(stderr, "  said: %s\n", err_text());
        CHECK(!says);
    }
}

/* ---- kinds ---- */

static void kinds_are_found(void)
{
    Opened o = { .feeds = { { "x", F32, SHAPE(8, 8, 3) } }, .n = 1 };
    refused(&o, (DataSpec){ .kind = "shaps", .samples = 4 }, E_USAGE, "did you mean 'shapes'");
    refused(&o, (DataSpec){ .kind = "qqqqqqqqqq", .samples = 4 }, E_USAGE, "captioned-shapes");
    refused(&o, (DataSpec){ .kind = "tones", .samples = 4 }, E_USAGE, "also needs 'x'");
    refused(&o, (DataSpec){ .kind = "images" }, E_USAGE, "--data DIR");
    refused(&o, (DataSpec){ .kind = "shapes", .path = "sources_test/nowhere" }, E_IO,
            "sources_test/nowhere");
    CHECK_OK(open_spec(&o, (DataSpec){ .samples = 5, .seed = 1 }));
    CHECK_TEXT(o.source->name, "shapes");
    check_samples(&o, true);
    Opened odd = { .feeds = { { "nothing", F32, SHAPE(8) } }, .n = 1 };
    refused(&odd, (DataSpec){ .samples = 4 }, E_USAGE, "'nothing'");
    Opened latent = { .feeds = { { "latent", F32, SHAPE(4, 4, 4) } }, .n = 1 };
    refused(&latent, (DataSpec){ .samples = 4 }, E_USAGE, "--data DIR");
}

/* Inputs with names of their own: drawn within their bounds, masks of ones, whole tensors once. */
static void inputs_at_random(void)
{
    Opened o = { .feeds = { { "noise", F32, SHAPE(50, 40) },
                            { "ids", I32, SHAPE(400), 7 },
                            { "attention_mask", U8, SHAPE(9), 2 },
                            { "on", U8, SHAPE(64), 2 },
                            { "table", I32, SHAPE(5, 3), 4, true } },
                 .n = 5 };
    CHECK_OK(open_spec(&o, (DataSpec){ .samples = 5, .seed = 3, .by_name = true }));
    CHECK_TEXT(o.source->name, "random");
    CHECK(strstr(o.source->note, "noise from N(0,1), ids below 7, attention_mask of ones") != NULL);
    CHECK_OK(load(&o, 2, 0));
    double  sum = 0, squares = 0;
    int64_t seen = 0, on = 0;
    for (int i = 0; i < 2000; i++) {
        double x = (double)((float *)o.to[0])[i];
        sum += x;
        squares += x * x;
    }
    CHECK(fabs(sum / 2000) < 0.1 && fabs(squares / 2000 - 1) < 0.15);
    for (int i = 0; i < 400; i++) {
        int32_t x = ((int32_t *)o.to[1])[i];
        CHECK(x >= 0 && x < 7);
        seen |= 1 << x;
    }
    CHECK_INT(seen, 127);
    for (int i = 0; i < 9; i++)
        CHECK_INT(((uint8_t *)o.to[2])[i], 1);
    for (int i = 0; i < 64; i++)
        on += ((uint8_t *)o.to[3])[i];
    CHECK(on > 8 && on < 56);
    CHECK_INT(((uint8_t *)o.to[4])[0], 0xA5); /* no part of a sample */
    CHECK_OK(o.source->load_whole(o.source, o.to));
    for (int i = 0; i < 15; i++)
        CHECK(((uint32_t *)o.to[4])[i] < 4);
    o.n = 4;
    CHECK_OK(open_spec(&o, (DataSpec){ .samples = 5, .seed = 3, .by_name = true }));
    check_samples(&o, false);
    Opened image = { .feeds = { { "x", F32, SHAPE(8, 8, 3) }, { "w", F32, SHAPE(3), 0, true } },
                     .n = 2 };
    refused(&image, (DataSpec){ .samples = 4, .kind = "shapes" }, E_USAGE, "also needs 'w'");
}

/* Files of several pages that become shorter after they were opened: an error, not a signal. */
static void inputs_cut_short(void)
{
    enum { ROWS = 4096 };
    float  *x = NEWN(pool, float, ROWS * 4);
    double *wide = NEWN(pool, double, ROWS * 4);
    Opened  o = { .feeds = { { "x", F32, SHAPE(4) } }, .n = 1 };
    for (int i = 0; i < ROWS * 4; i++)
        wide[i] = x[i] = (float)i;
    const char *paths[] = { at_path("trimmed/x.npy"), at_path("trimmed2/x.npy"),
                            at_path("trimmed3.safetensors") };
    make_npy("trimmed/x.npy", NPY_F4, 2, (int64_t[]){ ROWS, 4 }, x);
    make_npy("trimmed2/x.npy", NPY_F8, 2, (int64_t[]){ ROWS, 4 }, wide);
    SafeTensor tensor = { "x", SAFE_F32, 2, (int64_t[]){ ROWS, 4 }, x, 0 };
    CHECK_OK(safetensors_write(paths[2], &tensor, 1, NULL));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(open_spec(&o, (DataSpec){ .path = paths[i], .by_name = true }));
        CHECK_OK(load(&o, ROWS - 1, 0));
        CHECK_NEAR(((float *)o.to[0])[3], ROWS * 4 - 1, 0);
        CHECK(truncate(paths[i], 8192) == 0);
        CHECK_INT(load(&o, ROWS - 1, 0), E_IO);
        CHECK(strstr(err_text(), paths[i]) && strstr(err_text(), "changed since the run began"));
    }
}

/* Arrays by the names of the inputs, in every kind of file, converted where that is exact. */
static void inputs_by_name(void)
{
    float    x[3 * 4];
    int64_t  ids[3 * 2], big[3 * 2], far = 70000;
    double   table[6];
    uint8_t  on[3] = { 1, 0, 1 };
    Opened   o = { .feeds = { { "x", F32, SHAPE(4) },
                              { "ids", I32, SHAPE(2), 50 },
                              { "table", F32, SHAPE(2, 3), 0, true },
                              { "on", U8, { 0 } } },
                   .n = 4 };
    DataSpec at = { .path = at_path("named"), .by_name = true };
    for (int i = 0; i < 12; i++)
        x[i] = (float)i + 0.5f;
    for (int i = 0; i < 6; i++) {
        ids[i] = big[i] = 10 * i;
        table[i] = i - 0.25;
    }
    make_npy("named/x.npy", NPY_F4, 2, (int64_t[]){ 3, 4 }, x);
    refused(&o, at, E_USAGE, "nothing for the model's inputs 'ids', 'table', 'on': add ids.npy");
    make_npy("named/ids.npy", NPY_I8, 2, (int64_t[]){ 3, 2 }, ids);
    make_npy("named/table.npy", NPY_F8, 2, (int64_t[]){ 2, 3 }, table);
    make_npy("named/on.npy", NPY_B1, 1, (int64_t[]){ 3 }, on);
    CHECK_OK(open_spec(&o, at));
    CHECK_TEXT(o.source->name, "arrays");
    CHECK_INT(o.source->n_samples, 3);
    CHECK_OK(load(&o, 2, 0));
    CHECK_NEAR(((float *)o.to[0])[3], 11.5, 0);
    CHECK_INT(((int32_t *)o.to[1])[1], 50);
    CHECK_INT(((uint8_t *)o.to[3])[0], 1);
    CHECK_OK(o.source->load_whole(o.source, o.to));
    CHECK_NEAR(((float *)o.to[2])[5], 4.75, 0);
    big[3] = (int64_t)1 << 31; /* only read with its sample */
    make_npy("named/ids.npy", NPY_I8, 2, (int64_t[]){ 3, 2 }, big);
    CHECK_OK(open_spec(&o, at));
    CHECK_OK(load(&o, 0, 0));
    CHECK_INT(load(&o, 1, 0), E_FORMAT);
    CHECK(strstr(err_text(), "ids.npy: 'ids' holds 2147483648 at number 3") != NULL);
    make_npy("named/ids.npy", NPY_I8, 1, (int64_t[]){ 6 }, ids);
    refused(&o, at, E_FORMAT, "'ids' is (6), but the model needs (samples,2)");
    make_npy("named/ids.npy", NPY_F8, 2, (int64_t[]){ 3, 2 }, table);
    refused(&o, at, E_FORMAT, "'ids' holds F64, which does not convert to the model's i32");
    make_npy("named/ids.npy", NPY_I8, 2, (int64_t[]){ 2, 2 }, ids);
    refused(&o, at, E_FORMAT, "'x' has 3 samples");

    /* two shards of safetensors, of 1 and 2 samples */
    SafeTensor one[] = { { "x", SAFE_F32, 2, (int64_t[]){ 1, 4 }, x, 0 },
                         { "on", SAFE_BOOL, 1, (int64_t[]){ 1 }, on, 0 },
                         { "ids", SAFE_I64, 2, (int64_t[]){ 1, 2 }, ids, 0 },
                         { "table", SAFE_F64, 2, (int64_t[]){ 2, 3 }, table, 0 } };
    SafeTensor two[] = { { "x", SAFE_F32, 2, (int64_t[]){ 2, 4 }, x + 4, 0 },
                         { "on", SAFE_BOOL, 1, (int64_t[]){ 2 }, on + 1, 0 },
                         { "ids", SAFE_I64, 2, (int64_t[]){ 2, 2 }, ids + 2, 0 } };
    CHECK_OK(folder_make(at_path("shards")));
    CHECK_OK(safetensors_write(at_path("shards/a-1.safetensors"), one, 4, NULL));
    CHECK_OK(safetensors_write(at_path("shards/a-2.safetensors"), two, 3, NULL));
    at.path = at_path("shards");
    CHECK_OK(open_spec(&o, at));
    CHECK_INT(o.source->n_samples, 3);
    for (int id = 0; id < 3; id++) {
        CHECK_OK(load(&o, id, 0));
        CHECK_NEAR(((float *)o.to[0])[1], (double)x[4 * id + 1], 0);
        CHECK_INT(((int32_t *)o.to[1])[0], ids[2 * id]);
        CHECK_INT(((uint8_t *)o.to[3])[0], on[id]);
    }
    at.path = at_path("shards/a-2.safetensors");
    refused(&o, at, E_USAGE, "inputs 'table'");
    at.path = at_path("nowhere");
    refused(&o, at, E_IO, "there is no folder or file");
    inputs_cut_short();
    Opened alone = { .feeds = { { "n", U8, SHAPE(1), 0 } }, .n = 1 };
    make_npy("alone.npy", NPY_I8, 2, (int64_t[]){ 1, 1 }, &far);
    CHECK_OK(open_spec(&alone, (DataSpec){ .path = at_path("alone.npy"), .by_name = true }));
    CHECK_INT(load(&alone, 0, 0), E_FORMAT);
    CHECK(strstr(err_text(), "only 0 to 255 are supported") != NULL);
}

static void images_of_any_size(void)
{
    Opened o = { .feeds = { { "x", F32, SHAPE(8, 12, 3) } }, .n = 1 };
    make_png("images/b10.png", 8, 12, 1, 0);
    make_png("images/b9.png", 8, 12, 3, 100);
    make_png("images/sub/c.PNG", 30, 5, 3, 100);
    CHECK_OK(file_write(at_path("images/readme.txt"), "x", 1));
    CHECK_OK(open_spec(&o, (DataSpec){ .path = at_path("images") }));
    CHECK_TEXT(o.source->name, "images");
    CHECK_INT(o.source->n_samples, 3);
    check_samples(&o, true);
    CHECK_OK(load(&o, 0, 0)); /* b9 comes before b10 */
    CHECK_NEAR(((float *)o.to[0])[0], 100 / 127.5 - 1, 1e-6);
    CHECK_NEAR(((float *)o.to[0])[4], 104 / 127.5 - 1, 1e-6);
    CHECK_OK(load(&o, 1, 0)); /* grey in three channels */
    CHECK_NEAR(((float *)o.to[0])[5], 1 / 127.5 - 1, 1e-6);
    const char *bad = make_png("images/b99.png", 20, 20, 3, 1);
    cut(bad, 60);
    refused(&o, (DataSpec){ .path = at_path("images") }, E_FORMAT, "b99.png is a truncated PNG");
    CHECK_OK(file_write(bad, "GIF89a..............", 20));
    refused(&o, (DataSpec){ .path = at_path("images") }, E_FORMAT,
            "b99.png is not an image that is read");
    CHECK_OK(file_remove(bad));
    CHECK_OK(folder_make(at_path("empty")));
    refused(&o, (DataSpec){ .path = at_path("empty") }, E_FORMAT, "holds no images (.png, .jpg)");
    Opened wide = { .feeds = { { "x", F32, SHAPE(8, 12, 4) } }, .n = 1 };
    refused(&wide, (DataSpec){ .path = at_path("images") }, E_USAGE, "1 or 3 channels");
}

/* A folder may be called x.png; a link to a parent is not followed; a pipe is refused. */
static void odd_things_in_folders(void)
{
    Opened o = { .feeds = { { "x", F32, SHAPE(8, 8, 3) } }, .n = 1 };
    make_png("odd/x.png/a.png", 8, 8, 3, 1);
    make_png("odd/sub/b.png", 8, 8, 3, 1);
    make_png("elsewhere/c.png", 8, 8, 3, 1);
    CHECK_INT(symlink("..", at_path("odd/sub/up")), 0);
    CHECK_INT(symlink(".", at_path("odd/self")), 0);
    CHECK_INT(symlink("/", at_path("odd/root")), 0);
    CHECK_INT(symlink("turn2", at_path("odd/turn1")), 0);
    CHECK_INT(symlink("turn1", at_path("odd/turn2")), 0);
    CHECK_INT(symlink("../elsewhere", at_path("odd/link")), 0);
    CHECK_OK(open_spec(&o, (DataSpec){ .path = at_path("odd") }));
    CHECK_INT(o.source->n_samples, 3);
    CHECK(o.source->unread == NULL);
    CHECK_INT(mkfifo(at_path("odd/pipe.png"), 0600), 0);
    refused(&o, (DataSpec){ .path = at_path("odd") }, E_IO, "pipe.png: it is a device or pipe");
    CHECK_OK(file_remove(at_path("odd/pipe.png")));
    CHECK_INT(symlink("nowhere", at_path("odd/dangling.png")), 0);
    refused(&o, (DataSpec){ .path = at_path("odd") }, E_IO, "dangling.png");
}

/* Nothing is left out silently: neither deep folders nor cycles of links nor files in other
 * formats. */
static void what_is_passed_over(void)
{
    Opened o = { .feeds = { { "x", F32, SHAPE(8, 8, 3) } }, .n = 1 };
    make_png("deep/1/2/3/4/5/6/7/8/9/10/11/12/a.png", 8, 8, 3, 1);
    make_png("deep/b.png", 8, 8, 3, 1);
    CHECK_OK(open_spec(&o, (DataSpec){ .path = at_path("deep") }));
    CHECK_INT(o.source->n_samples, 2);
    CHECK_OK(folder_make(at_path("deep/left")));
    CHECK_OK(folder_make(at_path("deep/right")));
    CHECK_INT(symlink("../right", at_path("deep/left/over")), 0);
    CHECK_INT(symlink("../left", at_path("deep/right/over")), 0);
    refused(&o, (DataSpec){ .path = at_path("deep") }, E_FORMAT, "links that form a cycle");

    make_png("mixed/a.png", 8, 8, 3, 1);
    CHECK_OK(file_write(at_path("mixed/b.GIF"), "x", 1));
    CHECK_OK(file_write(at_path("mixed/notes.txt"), "x", 1));
    CHECK_OK(open_spec(&o, (DataSpec){ .path = at_path("mixed") }));
    CHECK_INT(o.source->n_samples, 1);
    CHECK(o.source->unread && strstr(o.source->unread, "mixed/b.GIF is in a format that is not"));
    CHECK_OK(file_write(at_path("mixed/c.webp"), "x", 1));
    CHECK_OK(file_remove(at_path("mixed/a.png")));
    refused(&o, (DataSpec){ .path = at_path("mixed") }, E_FORMAT,
            "mixed holds no images (.png, .jpg); ");
    refused(&o, (DataSpec){ .path = at_path("mixed") }, E_FORMAT,
            "mixed/b.GIF and 1 more are in a format that is not read: convert images");
}

/* Every kind that takes PNG files takes JPEG files, and both together. */
static void jpeg_files_are_images(void)
{
    enum { S = 16 };
    Opened images = { .feeds = { { "x", F32, SHAPE(18, 21, 3) } }, .n = 1 };
    make_jpeg("photos/a.jpg", 0);
    make_jpeg("photos/sub/b.JPEG", 1);
    make_jpeg("photos/sub/c.jfif", 0);
    make_png("photos/d.png", 20, 30, 3, 9);
    CHECK_OK(open_spec(&images, (DataSpec){ .path = at_path("photos") }));
    CHECK_INT(images.source->n_samples, 4);
    CHECK(images.source->unread == NULL);
    check_samples(&images, true);
    Opened pairs = {
        .feeds = { { "image", F32, SHAPE(S, S, 3) }, { "image_lq", F32, SHAPE(S, S, 3) } }, .n = 2
    };
    CHECK_OK(open_spec(&pairs, (DataSpec){ .path = at_path("photos") }));
    check_samples(&pairs, true);
    CHECK_OK(open_spec(&pairs, (DataSpec){ .path = at_path("photos/a.jpg"), .as_input = true }));
    check_samples(&pairs, true);
    Opened clips = { .feeds = { { "observed", F32, SHAPE(2, 8, 16, 1) },
                                { "future", F32, SHAPE(1, 8, 16, 1) } },
                     .n = 2 };
    Opened sets = { .feeds = { { "images", F32, SHAPE(3, S, S, 3) } }, .n = 1 };
    Opened captioned = {
        .feeds = { { "clip", F32, SHAPE(3, S, S, 3) }, { "text", F32, SHAPE(768) } }, .n = 2
    };
    for (int i = 0; i < 6; i++)
        make_jpeg(pool_print(pool, "filmed/walk/%d.jpg", i), i);
    CHECK_OK(file_write(at_path("filmed/walk.txt"), "a walk", 6));
    CHECK_OK(open_spec(&clips, (DataSpec){ .path = at_path("filmed") }));
    CHECK_INT(clips.source->n_samples, 2);
    check_samples(&clips, true);
    CHECK_OK(open_spec(&sets, (DataSpec){ .path = at_path("filmed") }));
    CHECK_INT(sets.source->n_samples, 2);
    check_samples(&sets, true);
    CHECK_OK(open_spec(&captioned, (DataSpec){ .path = at_path("filmed") }));
    check_samples(&captioned, false);

    Opened latents = {
        .feeds = { { "edge", F32, SHAPE(S, S, 3) }, { "latent", F32, SHAPE(2, 2, 4) } }, .n = 2
    };
    float z[16] = { 0 };
    make_jpeg("jpeg_latents/edge/a.b.jpeg", 0); /* the name without its ending */
    make_npy("jpeg_latents/latent/a.b.npy", NPY_F4, 3, (int64_t[]){ 4, 2, 2 }, z);
    make_npy("jpeg_latents/latent_lq/a.b.npy", NPY_F4, 3, (int64_t[]){ 4, 2, 2 }, z);
    CHECK_OK(open_spec(&latents, (DataSpec){ .path = at_path("jpeg_latents") }));
    check_samples(&latents, true);

    cut(make_jpeg("photos/sub/e.jpg", 1), 300);
    refused(&images, (DataSpec){ .path = at_path("photos") }, E_FORMAT,
            "e.jpg is a truncated JPEG");
    CHECK_OK(file_remove(at_path("photos/sub/e.jpg")));
    CHECK_OK(open_spec(&images, (DataSpec){ .path = at_path("photos/a.jpg") }));
    cut(at_path("photos/a.jpg"), 300); /* after opening */
    CHECK_INT(load(&images, 0, 0), E_FORMAT);
    CHECK(strstr(err_text(), "a.jpg is a") != NULL);
}

static void a_file_that_changes(void) /* after opening: an error, not a crash */
{
    Opened      o = { .feeds = { { "x", F32, SHAPE(8, 8, 3) } }, .n = 1 };
    const char *path = make_png("changing/a.png", 16, 16, 3, 1);
    CHECK_OK(open_spec(&o, (DataSpec){ .path = at_path("changing") }));
    make_png("changing/a.png", 2000, 2000, 3, 1);
    CHECK_INT(load(&o, 0, 0), E_IO);
    CHECK(strstr(err_text(), "a.png has grown") != NULL);
    make_png("changing/a.png", 16, 16, 3, 1);
    cut(path, 70);
    CHECK_INT(load(&o, 0, 0), E_FORMAT);
    CHECK_OK(file_remove(path));
    CHECK_INT(load(&o, 0, 0), E_IO);
}

/* The same 30 metres, and no return, in every type of array; frame 4 of the range images is the
 * first that the second clip of (2,8,16) and (1,8,16) sees. */
static void every_number_type(Opened *o)
{
    static const struct {
        NpyType type;
        int64_t bytes, far, none;
    } rows[] = {
        { NPY_F2, 2, 0x4f80, 0 }, /* 30 */
        { NPY_I1, 1, 30, -1 },    { NPY_I2, 2, 30, -1 }, { NPY_I4, 4, 30, -1 },
        { NPY_I8, 8, 30, -1 },    { NPY_U1, 1, 30, 0 },  { NPY_U2, 2, 30, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char file[128 * 8];
        for (int64_t k = 0; k < 128; k++)
            memcpy(file + k * rows[i].bytes, k % 2 ? &rows[i].far : &rows[i].none,
                   (size_t)rows[i].bytes);
        make_npy("range/00/4.npy", rows[i].type, 2, (int64_t[]){ 8, 16 }, file);
        CHECK_OK(open_spec(
            o, (DataSpec){ .path = at_path("range"), .range_low = 0, .range_high = 100 }));
        CHECK_OK(load(o, 1, 0));
        CHECK_NEAR(((float *)o->to[0])[0], -1, 0);
        CHECK_NEAR(((float *)o->to[0])[1], floor(255 * 0.3) / 127.5 - 1, 1e-6);
    }
}

static void clips_of_frames(void)
{
    Opened o = { .feeds = { { "observed", F32, SHAPE(2, 8, 16, 1) },
                            { "future", F32, SHAPE(1, 8, 16, 1) },
                            { "mask", U8, SHAPE(1, 8, 16) } },
                 .n = 3 };
    CHECK_OK(open_spec(&o, (DataSpec){ .samples = 9, .seed = 3 }));
    CHECK_TEXT(o.source->name, "moving-shapes");
    check_samples(&o, true);
    int holes = 0;
    CHECK_OK(load(&o, 2, 2));
    for (int i = 0; i < 128; i++) {
        CHECK(((uint8_t *)o.to[2])[i] <= 1);
        holes += !((uint8_t *)o.to[2])[i];
        if (!((uint8_t *)o.to[2])[i])
            CHECK_NEAR(((float *)o.to[1])[i], -1, 0);
    }
    CHECK(holes > 4 && holes < 100);

    float metres[8 * 16];
    for (int f = 0; f < 8; f++) { /* 8 frames, clips of 3: one is left out at each end */
        for (int i = 0; i < 128; i++)
            metres[i] = i % 7 == 0 ? -1 : 10 + (float)f + (float)(i % 16);
        make_npy(pool_print(pool, "range/00/%d.npy", f), NPY_F4, 2, (int64_t[]){ 8, 16 }, metres);
    }
    CHECK_OK(open_spec(&o, (DataSpec){ .path = at_path("range") }));
    CHECK_INT(o.source->n_samples, 2);
    check_samples(&o, true);
    CHECK_OK(load(&o, 0, 0));
    CHECK_INT(((uint8_t *)o.to[2])[7], 0);
    CHECK_INT(((uint8_t *)o.to[2])[8], 1);
    CHECK_NEAR(((float *)o.to[1])[7], -1, 0);
    /* All ranges lie in 10 .. 32 metres; frame 3, place 8 has 10 + 3 + 8. */
    CHECK_NEAR(((float *)o.to[1])[8], floor(255 * (21 - 10) / 22.0) / 127.5 - 1, 1e-6);
    CHECK_OK(
        open_spec(&o, (DataSpec){ .path = at_path("range"), .range_low = 0, .range_high = 100 }));
    CHECK_OK(load(&o, 0, 0));
    CHECK_NEAR(((float *)o.to[1])[8], floor(255 * 0.21) / 127.5 - 1, 1e-6);

    Opened smaller = { .feeds = { { "observed", F32, SHAPE(2, 4, 8, 1) },
                                  { "future", F32, SHAPE(1, 4, 8, 1) },
                                  { "mask", U8, SHAPE(1, 4, 8) } },
                       .n = 3 };
    CHECK_OK(open_spec(&smaller, (DataSpec){ .path = at_path("range") }));
    check_samples(&smaller, true);

    make_npy("range/00/4.npy", NPY_F4, 1, (int64_t[]){ 128 }, metres);
    refused(&o, (DataSpec){ .path = at_path("range") }, E_FORMAT, "4.npy has 1 axes");
    make_npy("range/00/4.npy", NPY_F4, 2, (int64_t[]){ 16, 8 }, metres);
    refused(&o, (DataSpec){ .path = at_path("range") }, E_FORMAT, "4.npy is 16 x 8");
    every_number_type(&o);
    make_npy("range/00/4.npy", NPY_F4, 2, (int64_t[]){ 8, 16 }, metres);
    make_png("range/00/x.png", 8, 16, 1, 0);
    refused(&o, (DataSpec){ .path = at_path("range") }, E_FORMAT, "both images and .npy");
    CHECK_OK(file_remove(at_path("range/00/x.png")));
    make_png("short/1.png", 8, 16, 1, 0);
    refused(&o, (DataSpec){ .path = at_path("short") }, E_FORMAT,
            "the longest of its 1 sequences has 1");
    refused(&o, (DataSpec){ .path = at_path("empty") }, E_FORMAT, "holds no frames");
    CHECK_OK(file_write(at_path("frame.png"), "x", 1));
    refused(&o, (DataSpec){ .path = at_path("frame.png") }, E_IO,
            "frame.png is a file; name its folder instead");
    for (int f = 0; f < 3; f++)
        make_png(pool_print(pool, "short/%d.png", f), 8, 16, 1, 10 * f);
    CHECK_OK(open_spec(&o, (DataSpec){ .path = at_path("short") }));
    check_samples(&o, true);
    CHECK_INT(((uint8_t *)o.to[2])[0], 1);
    CHECK_NEAR(((float *)o.to[1])[1], 21 / 127.5 - 1, 1e-6);
}

static double distance(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += fabs((double)a[i] - (double)b[i]);
    return sum / (double)n;
}

static void pairs_of_images(void)
{
    enum { S = 64 };
    Opened o = { .feeds = { { "image", F32, SHAPE(S, S, 3) },
                            { "image_lq", F32, SHAPE(S, S, 3) },
                            { "edge", F32, SHAPE(S, S, 3) } },
                 .n = 3 };
    CHECK_OK(open_spec(&o, (DataSpec){ .samples = 6, .seed = 3 }));
    check_samples(&o, true);
    for (int id = 0; id < 6; id++) {
        CHECK_OK(load(&o, id, 100 + id));
        double off = distance(o.to[0], o.to[1], S * S * 3);
        CHECK(off > 0.005 && off < 0.5); /* degraded, but the same image */
        int edges = 0;
        for (int i = 0; i < S * S * 3; i++) {
            float e = ((float *)o.to[2])[i];
            CHECK(e == -1 || e == 1);
            edges += e > 0;
        }
        CHECK(edges > 30 && edges < S * S);
    }
    CHECK_OK(load(&o, 0, 1));
    memcpy(o.again[1], o.to[1], feed_bytes(&o.feeds[1]));
    memcpy(o.again[0], o.to[0], feed_bytes(&o.feeds[0]));
    CHECK_OK(load(&o, 0, 2)); /* another draw: the same image, degraded otherwise */
    CHECK(!memcmp(o.again[0], o.to[0], feed_bytes(&o.feeds[0])));
    CHECK(memcmp(o.again[1], o.to[1], feed_bytes(&o.feeds[1])));

    make_png("good/large.png", 90, 130, 3, 1);
    make_png("good/small.png", 20, 30, 3, 1);
    CHECK_OK(open_spec(&o, (DataSpec){ .path = at_path("good"), .seed = 3 }));
    check_samples(&o, true);
    Opened given = {
        .feeds = { { "image_lq", F32, SHAPE(S, S, 3) }, { "edge", F32, SHAPE(S, S, 3) } }, .n = 2
    };
    CHECK_OK(open_spec(&given, (DataSpec){ .path = at_path("good/small.png"), .as_input = true }));
    CHECK_INT(given.source->n_samples, 1);
    check_samples(&given, true);

    Opened latents = { .feeds = { { "edge", F32, SHAPE(S, S, 3) },
                                  { "latent", F32, SHAPE(8, 8, 4) },
                                  { "latent_lq", F32, SHAPE(8, 8, 4) } },
                       .n = 3 };
    float  z[256];
    for (int i = 0; i < 256; i++)
        z[i] = (float)i;
    make_png("latents/edge/a.png", S, S, 1, 0);
    refused(&latents, (DataSpec){ .path = at_path("latents") }, E_FORMAT,
            "latent/a.npy is missing");
    make_npy("latents/latent/a.npy", NPY_F4, 3, (int64_t[]){ 4, 8, 8 }, z);
    make_npy("latents/latent_lq/a.npy", NPY_F4, 3, (int64_t[]){ 4, 4, 16 }, z);
    refused(&latents, (DataSpec){ .path = at_path("latents") }, E_FORMAT,
            "latent_lq/a.npy has 3 axes");
    make_npy("latents/latent_lq/a.npy", NPY_F4, 3, (int64_t[]){ 4, 8, 8 }, z);
    CHECK_OK(open_spec(&latents, (DataSpec){ .path = at_path("latents") }));
    check_samples(&latents, false);
    CHECK_NEAR(((float *)latents.to[1])[5], 64 + 1, 0); /* pixel 1, channel 1: channels come last */
    z[9] = NAN;
    make_npy("latents/latent_lq/a.npy", NPY_F4, 3, (int64_t[]){ 4, 8, 8 }, z);
    CHECK_INT(load(&latents, 0, 0), E_FORMAT);
    refused(&latents, (DataSpec){ .path = at_path("latents") }, E_FORMAT,
            "latent_lq/a.npy: number 9 is not finite");
}

static void sets_of_a_class(void)
{
    Opened o = { .feeds = { { "images", F32, SHAPE(3, 16, 16, 3) } }, .n = 1 };
    CHECK_OK(open_spec(&o, (DataSpec){ .samples = 30, .seed = 3 }));
    CHECK_TEXT(o.source->name, "coloured-sets");
    check_samples(&o, true);

    for (int i = 0; i < 7; i++)
        make_png(pool_print(pool, "classes/dark/%d.png", i), 16, 16, 3, 1 + i);
    for (int i = 0; i < 3; i++)
        make_png(pool_print(pool, "classes/light/%d.png", i), 20, 24, 3, 200 + i);
    make_png("classes/few/1.png", 16, 16, 3, 100);
    CHECK_OK(open_spec(&o, (DataSpec){ .path = at_path("classes"), .seed = 3 }));
    CHECK_INT(o.source->n_samples, 3);
    check_samples(&o, true);
    int64_t used[10] = { 0 };
    char    name[64];
    for (int64_t id = 0; id < 3; id++) {
        CHECK_OK(load(&o, id, id));
        bool light = !strcmp(o.source->about(o.source, id, name, sizeof name), "light");
        for (int k = 0; k < 3; k++) {
            float first = ((float *)o.to[0])[k * 768];
            CHECK((first > 0) == light); /* one class a set */
            if (!light)
                used[lrintf((first + 1) * 127.5f)]++;
        }
    }
    for (int i = 0; i < 8; i++)
        CHECK(used[i] <= 1); /* an image comes once an epoch */
    refused(&o, (DataSpec){ .path = at_path("classes/few") }, E_FORMAT,
            "the largest of 1 classes has 1");

    enum { RECORD = 3073, N = 12 };
    unsigned char *cifar = NEWN(pool, unsigned char, RECORD *N);
    for (int i = 0; i < N; i++) {
        cifar[i * RECORD] = (unsigned char)(i % 2);
        for (int k = 0; k < 3072; k++)
            cifar[i * RECORD + 1 + k] = (unsigned char)(i % 2 ? 200 : k / 1024 * 10);
    }
    CHECK_OK(file_write(at_path("cifar.bin"), cifar, RECORD * N));
    Opened full = { .feeds = { { "support", F32, SHAPE(2, 32, 32, 3) } }, .n = 1 };
    CHECK_OK(open_spec(&full, (DataSpec){ .path = at_path("cifar.bin"), .kind = "coloured-sets" }));
    CHECK_INT(full.source->n_samples, 6);
    CHECK_OK(load(&full, 0, 0));
    CHECK_NEAR(((float *)full.to[0])[2], 20 / 127.5 - 1, 1e-6); /* planes become channels */
    CHECK_OK(load(&full, 5, 0));
    CHECK_NEAR(((float *)full.to[0])[2], 200 / 127.5 - 1, 1e-6);
    CHECK_OK(file_write(at_path("cifar.bin"), cifar, RECORD * N - 1));
    refused(&full, (DataSpec){ .path = at_path("cifar.bin") }, E_FORMAT,
            "not a multiple of a CIFAR record");
}

/* How strongly a frequency is in the first `n` values, at 8,000 a second. */
static double strength(const int32_t *x, int n, double hertz)
{
    double re = 0, im = 0, mean = 0, turn = 2 * acos(-1) * hertz / 8000;
    for (int i = 0; i < n; i++)
        mean += (double)x[i] / n;
    for (int i = 0; i < n; i++) {
        re += (x[i] - mean) * cos(turn * i);
        im += (x[i] - mean) * sin(turn * i);
    }
    return hypot(re, im);
}

/* Melodies: the strongest frequency of a note is one of the scale's, and every note occurs. */
static void tones_have_pitch(void)
{
    enum { NOTE = 500, LONG = 4 * NOTE, NOTES = 5, SAMPLES = 30 };
    static const double scale[NOTES] = { 400, 450, 500, 600, 2000 / 3.0 };
    Opened   o = { .feeds = { { "tokens", I32, SHAPE(LONG) }, { "target", I32, SHAPE(LONG) } },
                   .n = 2 };
    DataSpec spec = { .kind = "tones", .samples = SAMPLES, .levels = 256, .rate = 8000 };
    bool     heard[NOTES] = { false };
    CHECK_OK(open_spec(&o, spec));
    for (int id = 0; id < SAMPLES; id++) {
        double found = 0, most = 0;
        CHECK_OK(load(&o, id, 0));
        for (double hertz = 300; hertz < 1500; hertz += 5) {
            double now = strength(o.to[1], NOTE, hertz);
            found = now > most ? hertz : found;
            most = fmax(most, now);
        }
        int note = 0;
        for (int k = 1; k < NOTES; k++)
            note = fabs(scale[k] - found) < fabs(scale[note] - found) ? k : note;
        CHECK_NEAR(found, scale[note], 6);
        heard[note] = true;
    }
    for (int k = 0; k < NOTES; k++)
        CHECK(heard[k]);
}

static void audio_as_tokens(void)
{
    Opened o = { .feeds = { { "tokens", I32, SHAPE(64) }, { "target", I32, SHAPE(64) } }, .n = 2 };
    int32_t *tokens, *target;
    CHECK_OK(open_spec(&o, (DataSpec){ .samples = 9, .seed = 3, .levels = 256, .channels = 1 }));
    CHECK_TEXT(o.source->name, "tones");
    check_samples(&o, true);
    tokens = o.to[0];
    target = o.to[1];
    CHECK_INT(tokens[0], 128);
    for (int i = 1; i < 64; i++)
        CHECK_INT(tokens[i], target[i - 1]);

    float ramp[2 * 100];
    for (int i = 0; i < 100; i++) {
        ramp[2 * i] = (float)i / 100;
        ramp[2 * i + 1] = -(float)i / 100;
    }
    CHECK_OK(folder_make(at_path("audio")));
    CHECK_OK(wav_write(at_path("audio/a.wav"), ramp, 100, 2, 16000));
    DataSpec stereo = { .path = at_path("audio"), .levels = 256, .channels = 2, .rate = 16000 };
    CHECK_OK(open_spec(&o, stereo));
    CHECK_INT(o.source->n_samples, 3); /* 100 frames, 32 in a chunk */
    check_samples(&o, true);
    CHECK_OK(load(&o, 0, 0));
    tokens = o.to[0];
    target = o.to[1];
    CHECK_INT(target[62], 255); /* the loudest left, then the loudest right */
    CHECK_INT(target[63], 0);
    stereo.keep_rest = true;
    CHECK_OK(open_spec(&o, stereo));
    CHECK_INT(o.source->n_samples, 4);
    CHECK_INT(o.source->counted(o.source, 0), 64);
    CHECK_INT(o.source->counted(o.source, 3), 8);
    CHECK_OK(load(&o, 3, 0));
    tokens = o.to[0];
    target = o.to[1];
    CHECK(target[7] >= 0);
    CHECK_INT(target[8], -100);
    CHECK_INT(target[63], -100);
    CHECK_INT(tokens[8], target[7]);
    CHECK_INT(tokens[9], 128);
    DataSpec mono = {
        .path = at_path("audio"), .levels = 65536, .channels = 1, .rate = 16000, .mu_law = true
    };
    CHECK_OK(open_spec(&o, mono));
    CHECK_OK(load(&o, 0, 0)); /* left and right cancel: silence */
    CHECK_INT(((int32_t *)o.to[0])[0], 32768);
    CHECK_INT(((int32_t *)o.to[1])[5], ((int32_t *)o.to[1])[40]);

    const AudioPlugin *plugin;
    if (media_audio("a.wav", &plugin)) {
        stereo.rate = 8000;
        refused(&o, stereo, E_FORMAT, "a.wav has 16000 samples a second");
        stereo.rate = 16000;
    }
    Opened lengthy = { .feeds = { { "tokens", I32, SHAPE(4096) }, { "target", I32, SHAPE(4096) } },
                       .n = 2 };
    stereo.keep_rest = false;
    refused(&lengthy, stereo, E_FORMAT, "none of its 1 audio files has the 2048 frames");
    refused(&o, (DataSpec){ .path = at_path("empty"), .channels = 1 }, E_FORMAT,
            "holds no audio files (.wav");
    /* 100 stereo frames of floats; frame 91 is 0, then NaN, then infinite */
    unsigned char floats[44 + 800] = { 0 };
    memcpy(floats,
           "RIFF....WAVEfmt \20\0\0\0\3\0\2\0\200>\0\0\0\364\1\0\10\0 \0data "
           "\3\0\0",
           44);
    CHECK_OK(file_write(at_path("audio/a.wav"), floats, sizeof floats));
    CHECK_OK(open_spec(&o, stereo));
    for (int i = 0; i < 2; i++) {
        float odd = i ? -INFINITY : NAN;
        memcpy(floats + 44 + 91 * 8 + 4, &odd, 4);
        CHECK_OK(file_write(at_path("audio/a.wav"), floats, sizeof floats));
        refused(&o, stereo, E_FORMAT, "a.wav: frame 91 is not a finite number");
    }
    CHECK_OK(wav_write(at_path("audio/a.wav"), ramp, 100, 2, 16000));
    cut(at_path("audio/a.wav"), 100);
    refused(&o, stereo, E_FORMAT, "a.wav is a truncated WAV");
    CHECK_OK(file_write(at_path("audio/a.wav"), "RIFX....WAVE", 12));
    refused(&o, stereo, E_FORMAT, "a.wav is not a WAV file");
}

static void clips_with_captions(void)
{
    Opened o = { .feeds = { { "clip", F32, SHAPE(4, 16, 16, 3) }, { "text", F32, SHAPE(768) } },
                 .n = 2 };
    float  text[768];
    char   name[64];
    CHECK_OK(open_spec(&o, (DataSpec){ .samples = 200, .seed = 3 }));
    check_samples(&o, false);
    CHECK_TEXT(o.source->about(o.source, 36, name, sizeof name), "red box");
    CHECK_OK(load(&o, 36, 0));
    prompt_embed("red box", text, 768);
    CHECK(!memcmp(text, o.to[1], sizeof text));
    CHECK(all_within(o.to[0], 4 * 16 * 16 * 3));
    float left[2]; /* position of the red form in the first and the last frame */
    for (int f = 0; f < 2; f++) {
        double sum = 0, at = 0;
        for (int i = 0; i < 256; i++) {
            double red = 1 + (double)((float *)o.to[0])[(f * 3 * 256 + i) * 3];
            sum += red * red;
            at += red * red * (i % 16);
        }
        left[f] = (float)(at / sum);
    }
    CHECK(left[1] > left[0] + 3);

    for (int f = 0; f < 2; f++)
        make_png(pool_print(pool, "captioned/walk/%d.png", f), 20, 12, 3, 50 * f);
    refused(&o, (DataSpec){ .path = at_path("captioned") }, E_FORMAT, "walk.txt is missing");
    CHECK_OK(file_write(at_path("captioned/walk.txt"), " \n", 2));
    refused(&o, (DataSpec){ .path = at_path("captioned") }, E_FORMAT, "walk.txt is empty");
    CHECK_OK(file_write(at_path("captioned/walk.txt"), "a walk\n", 7));
    unsigned char clip[6 * 16 * 16 * 3];
    memset(clip, 255, sizeof clip);
    make_npy("captioned/run.npy", NPY_U1, 4, (int64_t[]){ 6, 16, 16, 3 }, clip);
    refused(&o, (DataSpec){ .path = at_path("captioned") }, E_FORMAT, "run.txt is missing");
    CHECK_OK(file_write(at_path("captioned/run.txt"), "a run", 5));
    CHECK_OK(open_spec(&o, (DataSpec){ .path = at_path("captioned") }));
    CHECK_OK(load(&o, 1, 0)); /* walk: the stand-in embeds its caption */
    CHECK_TEXT(o.source->text.encoder, TEXT_STAND_IN);
    prompt_embed("a walk", text, 768);
    CHECK(!memcmp(text, o.to[1], sizeof text));
    for (int i = 0; i < 768; i++)
        text[i] = (float)i;
    make_npy("captioned/run.text.npy", NPY_F4, 1, (int64_t[]){ 700 }, text);
    refused(&o, (DataSpec){ .path = at_path("captioned") }, E_FORMAT,
            "run.text.npy holds 700 numbers");
    make_npy("captioned/run.text.npy", NPY_F4, 1, (int64_t[]){ 768 }, text);
    refused(&o, (DataSpec){ .path = at_path("captioned") }, E_USAGE,
            "1 of 2 clips have an embedding");
    make_npy("captioned/walk.text.npy", NPY_F4, 1, (int64_t[]){ 768 }, text);
    CHECK_OK(open_spec(&o, (DataSpec){ .path = at_path("captioned") }));
    CHECK_TEXT(o.source->text.encoder, TEXT_FROM_FILES);
    CHECK_INT(o.source->n_samples, 2);
    CHECK_OK(load(&o, 0, 0)); /* run */
    CHECK_TEXT(o.source->about(o.source, 0, name, sizeof name), "a run");
    CHECK_NEAR(((float *)o.to[1])[700], 700, 0);
    CHECK_NEAR(((float *)o.to[0])[700], 1, 0);
    CHECK_OK(load(&o, 1, 0)); /* walk: 12 wide, cut to 16 rows of 20 */
    CHECK(!memcmp(text, o.to[1], sizeof text));
    const float *x = o.to[0];
    CHECK_NEAR(x[0], -1, 0);
    CHECK_NEAR(x[2 * 3], -1, 0);
    CHECK_NEAR(x[3 * 3], 1 / 127.5 - 1, 1e-6);                 /* column 1 of the file */
    CHECK(!memcmp(x + 768, x + 2 * 768, 768 * sizeof(float))); /* the last frame is repeated */
    static float loud[4 * 16 * 16 * 3];
    loud[700] = 1;
    make_npy("captioned/run.npy", NPY_F4, 4, (int64_t[]){ 4, 16, 16, 3 }, loud);
    CHECK_OK(open_spec(&o, (DataSpec){ .path = at_path("captioned") }));
    CHECK_OK(load(&o, 0, 0));
    CHECK_NEAR(((float *)o.to[0])[700], 1, 0);
    loud[700] = NAN; /* after opening: reported when it is loaded */
    make_npy("captioned/run.npy", NPY_F4, 4, (int64_t[]){ 4, 16, 16, 3 }, loud);
    CHECK_INT(load(&o, 0, 0), E_FORMAT);
    CHECK(strstr(err_text(), "run.npy: number 700 is not finite") != NULL);
    refused(&o, (DataSpec){ .path = at_path("captioned") }, E_FORMAT, "number 700 is not finite");
    loud[700] = 255; /* a clip in another scale */
    make_npy("captioned/run.npy", NPY_F4, 4, (int64_t[]){ 4, 16, 16, 3 }, loud);
    refused(&o, (DataSpec){ .path = at_path("captioned") }, E_FORMAT, "run.npy holds 255");
    make_npy("captioned/run.npy", NPY_U1, 4, (int64_t[]){ 6, 16, 16, 3 }, clip);
    CHECK_OK(open_spec(&o, (DataSpec){ .path = at_path("captioned") }));
    make_npy("captioned/run.npy", NPY_U1, 4, (int64_t[]){ 6, 16, 16, 2 }, clip);
    CHECK_INT(load(&o, 0, 0), E_IO); /* two channels now */
    make_npy("captioned/run.npy", NPY_U1, 4, (int64_t[]){ 6, 16, 16, 3 }, clip);
    text[3] = INFINITY;
    make_npy("captioned/run.text.npy", NPY_F4, 1, (int64_t[]){ 768 }, text);
    refused(&o, (DataSpec){ .path = at_path("captioned") }, E_FORMAT,
            "run.text.npy: number 3 is not finite");
    text[3] = 3;
    make_npy("captioned/run.text.npy", NPY_F4, 1, (int64_t[]){ 768 }, text);
    make_npy("captioned/run.npy", NPY_U1, 3, (int64_t[]){ 16, 16, 3 }, clip);
    refused(&o, (DataSpec){ .path = at_path("captioned") }, E_FORMAT, "run.npy has 3 axes");
    refused(&o, (DataSpec){ .path = at_path("empty") }, E_FORMAT, "holds no clips");
}

/* Replaced since the source was opened, by images of more pixels and fewer channels: their file and
 * their levels need less memory, the floats made of them more. */
static void replaced(Opened *o, const char *path, const char *image, int64_t side)
{
    make_png(image, 256, 256, 3, 10);
    make_png("replaced/b/2.png", 256, 256, 3, 20);
    CHECK_OK(file_write(at_path("replaced/b.txt"), "b", 1));
    CHECK_OK(file_write(at_path("replaced/a.txt"), "a", 1));
    CHECK_OK(
        open_spec(o, (DataSpec){ .kind = o->feeds[0].name[0] == 'x' ? "images" : "captioned-clips",
                                 .path = at_path(path) }));
    CHECK_OK(load(o, 0, 0));
    make_png(image, side, side, 1, 10);
    CHECK_INT(load(o, 0, 0), E_IO);
    CHECK(strstr(err_text(), image) && strstr(err_text(), "restart the run"));
    make_png(image, 256, 256, 3, 10);
    CHECK_OK(load(o, 0, 0));
}

static void replaced_images(void)
{
    Opened image = { .n = 1, .feeds = { { "x", F32, SHAPE(8, 8, 3) } } };
    Opened clip = { .n = 1, .feeds = { { "clip", F32, SHAPE(2, 8, 8, 3) } } };
    for (int64_t side = 440; side <= 640; side += 200) {
        replaced(&image, "replaced/a", "replaced/a/1.png", side);
        replaced(&clip, "replaced", "replaced/a/1.png", side);
    }
}

static void memory_of_the_loader(void)
{
    Opened o = { .n = 1, .feeds = { { "x", F32, SHAPE(8, 8, 3) } } };
    make_png("limited/1.png", 64, 64, 3, 10);
    make_png("limited/2.png", 512, 512, 3, 10);
    CHECK_OK(open_spec(&o, (DataSpec){ .kind = "images", .path = at_path("limited") }));
    int64_t need = (int64_t)o.source->work_bytes;
    CHECK_OK(
        open_spec(&o, (DataSpec){ .kind = "images", .path = at_path("limited"), .memory = need }));
    refused(&o, (DataSpec){ .kind = "images", .path = at_path("limited"), .memory = need - 1 },
            E_BUDGET, "loading sources_test/limited/2.png takes");
    CHECK(strstr(err_text(), "--loader-memory") != NULL);
}

int main(void)
{
    pool = pool_new(NULL, "test");
    REQUIRE(system("rm -rf sources_test") == 0);
    RUN(order_is_a_permutation);
    RUN(kinds_are_found);
    RUN(inputs_at_random);
    RUN(inputs_by_name);
    RUN(images_of_any_size);
    RUN(odd_things_in_folders);
    RUN(what_is_passed_over);
    RUN(jpeg_files_are_images);
    RUN(a_file_that_changes);
    RUN(clips_of_frames);
    RUN(pairs_of_images);
    RUN(sets_of_a_class);
    RUN(tones_have_pitch);
    RUN(audio_as_tokens);
    RUN(clips_with_captions);
    RUN(replaced_images);
    RUN(memory_of_the_loader);
    REQUIRE(system("rm -rf sources_test") == 0);
    pool_free(pool);
    return test_end();
}
