/* Tests of train/weights_parts: an index of weights names its files once, in the order of their first
 * tensors, however many they are. */
#include "train/weights_parts.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "test.h"

#include <string.h>

static Pool *pool;

static Err parse(const Text *text, const char ***files, int *n)
{
    return weights_index_parse(pool, "weights_parts_test.index.json",
                               (const unsigned char *)text->at, text->n, files, n);
}

static void each_once_in_order(void)
{
    static const char *const names[] = { "weights_parts_b.bin", "weights_parts_a.bin" };
    Text                     text = { .pool = pool };
    const char             **files;
    int                      n;
    for (int i = 0; i < 2; i++)
        CHECK_OK(file_write(names[i], "", 0));
    text_add(&text, "{\"weight_map\": {");
    for (int i = 0; i < 10; i++)
        text_add(&text, "%s\"t%d\": \"%s\"", i ? ", " : "", i, names[i % 3 == 1]);
    text_add(&text, "}}");
    CHECK_OK(parse(&text, &files, &n));
    if (CHECK_INT(n, 2)) {
        CHECK_TEXT(files[0], "./weights_parts_b.bin");
        CHECK_TEXT(files[1], "./weights_parts_a.bin");
    }
    for (int i = 0; i < 2; i++)
        CHECK_OK(file_remove(names[i]));
    CHECK_INT(parse(&text, &files, &n), E_IO);
    CHECK(strstr(err_text(), "weights_parts_b.bin is missing") != NULL);
}

/* Each tensor in a file of its own: the time grows as the names do, not as their square (minutes). */
static void many(void)
{
    enum { MANY = 300000 };
    Text         text = { .pool = pool };
    const char **files;
    int          n;
    double       start = clock_now();
    text_add(&text, "{\"weight_map\": {");
    for (int i = 0; i < MANY; i++)
        text_add(&text, "%s\"%d\": \"f%d\"", i ? "," : "", i, i);
    text_add(&text, "}}");
    CHECK_INT(parse(&text, &files, &n), E_IO);
    CHECK_INT(n, MANY);
    CHECK(clock_now() - start < 20);
}

static void elsewhere(void)
{
    static const char *const names[] = { "../a", "/etc/passwd", ".", "", "a/b" };
    const char             **files;
    int                      n;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Text text = { .pool = pool };
        text_add(&text, "{\"weight_map\": {\"t\": \"%s\"}}", names[i]);
        CHECK_INT(parse(&text, &files, &n), E_FORMAT);
        CHECK(strstr(err_text(), "is not in a file beside it") != NULL);
    }
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(each_once_in_order);
    RUN(many);
    RUN(elsewhere);
    pool_free(pool);
    return test_end();
}
