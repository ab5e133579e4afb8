/* events.c -- event files: their bytes, what a resumed run keeps, a torn file, a full disk, and that
 * nothing is allocated. tests/py/tensorboard_reads.py gives whole runs to TensorBoard's reader. */
#include "alloc_count.h"
#include "folder.h"
#include "test.h"

#include "base/crc32.h"
#include "base/text.h"
#include "data/raster.h"
#include "train/events.h"
#include "train/records.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static Pool      *pool;
static const char run[] = "events_test", tensorboard[] = "events_test/tensorboard";

static void known_checks(void)
{
    unsigned char head[RECORD_HEAD];
    CHECK_INT(crc32c_add(0, "123456789", 9), 0xE3069283); /* RFC 3720's check value */
    CHECK_INT(crc32c_add(crc32c_add(0, "1234", 4), "56789", 5), 0xE3069283);
    CHECK_INT(crc32_add(0, "123456789", 9), 0xCBF43926);
    record_head(head, 24); /* the first 12 bytes of a TensorFlow event file */
    CHECK(!memcmp(head, "\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12));
}

static void clear(void)
{
    folder_clear(pool, run);
    CHECK_OK(folder_make(run));
}

static void add(int64_t from, int64_t to, int64_t step, bool sampled)
{
    Pool  *own = pool_new(pool, "run");
    Events e;
    CHECK_OK(events_open(own, &e, run, step, sampled));
    for (int64_t i = from; i <= to; i++)
        events_scalars(&e, i, (Scalar[]){ { "loss", 0.5 }, { "lr", 1e-3 } }, 2);
    CHECK_OK(events_flush(&e, true));
    pool_free(own);
}

/* "1 2 s2 3": the steps of all files in order, s for samples; '!' after a torn file. */
static const char *steps(void)
{
    Text   text = { .pool = pool };
    char **names;
    int    n_names;
    text_addn(&text, "", 0);
    CHECK_OK(folder_list(pool, tensorboard, &names, &n_names));
    for (int i = 0; i < n_names; i++) {
        char     *bytes;
        size_t    n, at = 0;
        Record    record;
        EventHead head;
        CHECK_OK(file_read(pool, pool_print(pool, "%s/%s", tensorboard, names[i]), &bytes, &n));
        while (record_next((unsigned char *)bytes, n, &at, &record)) {
            CHECK(event_head(&record, &head));
            if (head.tag)
                text_add(&text, "%s%s%lld", text.n ? " " : "", *head.tag == 's' ? "s" : "",
                         (long long)head.step);
        }
        if (at < n)
            text_add(&text, "!");
    }
    return text.at ? text.at : "";
}

static void going_on(void)
{
    clear();
    add(1, 5, -1, true);
    CHECK_TEXT(steps(), "1 2 3 4 5");
    add(4, 6, 3, true);
    CHECK_TEXT(steps(), "1 2 3 4 5 6");
    add(7, 8, 6, true);
    CHECK_TEXT(steps(), "1 2 3 4 5 6 7 8");
    add(1, 1, 0, true); /* nothing is kept */
    CHECK_TEXT(steps(), "1");
    add(1, 2, -1, true);
    CHECK_TEXT(steps(), "1 2");
}

static void torn(void)
{
    char **names;
    int    n;
    clear();
    add(1, 3, -1, true);
    CHECK_OK(folder_list(pool, tensorboard, &names, &n));
    CHECK_INT(n, 1);
    const char *path = pool_print(pool, "%s/%s", tensorboard, names[0]);
    char       *bytes;
    size_t      size;
    CHECK_OK(file_read(pool, path, &bytes, &size));
    CHECK_OK(file_write(path, bytes, size - 3)); /* killed within a record */
    CHECK_TEXT(steps(), "1 2!");
    add(3, 4, 3, true);
    CHECK_TEXT(steps(), "1 2 3 4");
    bytes[20] ^= 1; /* damaged at its beginning: it is removed */
    CHECK_OK(file_write(path, bytes, size));
    add(5, 5, 4, true);
    CHECK_TEXT(steps(), "3 4 5");
}

/* Samples of the last step are kept if they were all drawn, else they come again. */
static void samples(void)
{
    static unsigned char pixels[12 * 8 * 3];
    const char          *path = pool_print(pool, "%s/samples%s", run, image_ending),
               *one = pool_print(pool, "%s/sample-003%s", run, image_ending);
    if (strcmp(image_ending, ".png")) {
        SKIP("built without libpng");
        return;
    }
    clear();
    CHECK_OK(image_write(path, pixels, 12, 8, 3));
    CHECK_OK(image_write(one, pixels, 12, 8, 3));
    Pool  *own = pool_new(pool, "run");
    Events e;
    CHECK_OK(events_open(own, &e, run, -1, true));
    CHECK_OK(events_sample(&e, 1, path)); /* once, so that stdio and libc are warm */
    long long before = alloc_calls;
    for (int64_t i = 2; i < 200; i++) {
        events_scalars(&e, i, (Scalar[]){ { "loss", 0.5 } }, 1);
        CHECK_OK(events_sample(&e, i, path));
        CHECK_OK(events_sample(&e, i, one)); /* the sheet has it */
    }
    CHECK_INT(alloc_calls - before, 0);
    pool_free(own);
    const char *all = steps();
    CHECK(!strncmp(all, "s1 2 s2 3 s3 ", 13) && strchr(all, '!') == NULL);
    add(4, 4, 3, false);
    CHECK_TEXT(steps(), "s1 2 s2 3 4");
    add(3, 3, 2, true);
    CHECK_TEXT(steps(), "s1 2 s2 3");
}

/* On a full disk, here a limit on the size of files, scalars wait and half a sample is taken back. */
static void full_disk(void)
{
    static unsigned char pixels[64 * 64 * 3];
    const char          *path = pool_print(pool, "%s/samples%s", run, image_ending);
    struct rlimit        before, little;
    Events               e;
    clear();
    for (uint32_t i = 0, noise = 1; i < sizeof pixels; i++)
        pixels[i] = (unsigned char)((noise = noise * 1664525u + 1013904223u) >> 24);
    CHECK_OK(image_write(path, pixels, 64, 64, 3));
    Pool *own = pool_new(pool, "run");
    CHECK_OK(events_open(own, &e, run, -1, true));
    signal(SIGXFSZ, SIG_IGN);
    CHECK_INT(getrlimit(RLIMIT_FSIZE, &before), 0);
    little = (struct rlimit){ 4096, before.rlim_max };
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &little), 0);
    if (!strcmp(image_ending, ".png"))
        CHECK_INT(events_sample(&e, 1, path), E_IO);
    for (int64_t i = 1; i <= 200; i++)
        events_scalars(&e, i, (Scalar[]){ { "loss", 0.5 } }, 1);
    CHECK_INT(events_flush(&e, true), E_IO);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &before), 0);
    CHECK_OK(events_flush(&e, true));
    pool_free(own);
    const char *all = steps();
    CHECK(!strncmp(all, "1 2 3 ", 6) && !strcmp(all + strlen(all) - 8, " 199 200"));
}

static void links(void)
{
    Events e;
    clear();
    CHECK_OK(folder_make("events_test_mine"));
    rename(tensorboard, "events_test/before");
    CHECK_INT(symlink("../events_test_mine", tensorboard), 0);
    Pool *own = pool_new(pool, "run");
    CHECK_OK(folder_lock(own, run));
    CHECK_INT(events_open(own, &e, run, -1, true), E_IO);
    CHECK(strstr(err_text(), "link") != NULL);
    pool_free(own);
    unlink(tensorboard);
    rename("events_test/before", tensorboard);
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(known_checks);
    RUN(going_on);
    RUN(torn);
    RUN(samples);
    RUN(full_disk);
    RUN(links);
    pool_free(pool);
    return test_end();
}
