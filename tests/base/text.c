/* Tests of base/text and base/err: growing text, sizes in and out, nearest word, the sentence. */
#include "base/text.h"

#include "test.h"

static void grows(void)
{
    Pool *pool = pool_new(NULL, "test");
    Text  text = { .pool = pool };
    for (int i = 0; i < 5000; i++)
        text_add(&text, "%d,", i % 10);
    CHECK_INT(text.n, 10000);
    CHECK_INT(strlen(text.at), 10000);
    text_addn(&text, "a\0b", 3);
    CHECK_INT(text.n, 10003);
    CHECK(text.at[10001] == '\0' && text.at[10002] == 'b' && text.at[10003] == '\0');
    text_add(&text, "%s", "");
    CHECK_INT(text.n, 10003);
    Text empty = { .pool = pool };
    text_addn(&empty, "", 0);
    CHECK_TEXT(empty.at, "");
    pool_free(pool);
}

/* Broken between words, never wider than 100 columns unless one word is; the margin holds. */
static void sentences_wrap(void)
{
    char  page[4096], long_word[151];
    FILE *to = fmemopen(page, sizeof page, "w");
    memset(long_word, 'w', 150);
    long_word[150] = '\0';
    print_sentence(to, "%s", "");
    print_sentence(to, "short");
    print_sentence(to, "  %s.",
                   "one two three four five six seven eight nine ten eleven twelve thirteen "
                   "fourteen fifteen seventeen");
    print_sentence(to, "    %s and more", long_word);
    fclose(to);
    const char *lines[] = { "",
                            "short",
                            "  one two three four five six seven eight nine ten eleven twelve "
                            "thirteen fourteen fifteen",
                            "    seventeen.",
                            NULL,
                            "      and more" };
    char       *at = page;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char *end = strchr(at, '\n');
        CHECK(end != NULL);
        *end = '\0';
        if (lines[i])
            CHECK_TEXT(at, lines[i]);
        else
            CHECK_INT(strlen(at), 154);
        at = end + 1;
    }
    CHECK_TEXT(at, "");
}

/* What is too long for the first line continues beside the name. */
static void rows_wrap(void)
{
    char  page[4096] = "";
    FILE *to = fmemopen(page, sizeof page, "w");
    print_row(to, 10, "short", "as it is");
    print_row(to, 10, "long",
              "one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
              "fifteen");
    fclose(to);
    CHECK_TEXT(page, "  short      as it is\n"
                     "  long       one two three four five six seven eight nine ten eleven twelve "
                     "thirteen fourteen\n"
                     "             fifteen\n");
}

static void bytes_out(void)
{
    static const struct {
        int64_t     bytes;
        const char *text;
    } cases[] = {
        { 0, "0 B" },
        { 1, "1 B" },
        { 1023, "1023 B" },
        { 1024, "1.00 KiB" },
        { 1536, "1.50 KiB" },
        { 10 * 1024, "10.0 KiB" },
        { 100 * 1024, "100 KiB" },
        { 1048575, "1.00 MiB" },
        { (int64_t)10 << 30, "10.0 GiB" },
        { 9996000000, "9.31 GiB" },
        { -2048, "-2.00 KiB" },
        { INT64_MAX, "8192 PiB" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_TEXT(bytes_text(cases[i].bytes), cases[i].text);
    CHECK_TEXT(bytes_exact(1), "1 byte");
    CHECK_TEXT(bytes_exact(1023), "1023 bytes");
    CHECK_TEXT(bytes_exact(1536), "1.50 KiB (1536 bytes)");
    CHECK_TEXT(bytes_exact(INT64_MAX), "8192 PiB (9223372036854775807 bytes)");
    CHECK_TEXT(count_text(0), "0");
    CHECK_TEXT(count_text(999), "999");
    CHECK_TEXT(count_text(1000), "1,000");
    CHECK_TEXT(count_text(204223297), "204,223,297");
    CHECK_TEXT(count_text(-1000), "-1,000");
    CHECK_TEXT(count_text(-100), "-100");
    CHECK_TEXT(count_text(INT64_MIN), "-9,223,372,036,854,775,808");
    CHECK_TEXT(span_text(0), "0:00");
    CHECK_TEXT(span_text(9.9), "0:09");
    CHECK_TEXT(span_text(3599.9), "59:59");
    CHECK_TEXT(span_text(2 * 3600 + 119), "2:01:59");
    CHECK_TEXT(span_text(1e30), "277777777777:46:40");
    CHECK_TEXT(span_text(-1), "0:00");
    const char *first = count_text(1); /* eight may be used in one sentence */
    for (int i = 2; i <= 8; i++)
        count_text(i);
    CHECK_TEXT(first, "1");
}

static void bytes_in(void)
{
    static const struct {
        const char *text;
        int64_t     bytes;
    } good[] = {
        { "16GiB", (int64_t)16 << 30 },
        { "24GB", 24000000000 },
        { "512MiB", 512 << 20 },
        { "1.5K", 1536 },
        { "0", 0 },
        { "123", 123 },
        { "123B", 123 },
        { "2 TiB", (int64_t)2 << 40 },
        { "16gib", (int64_t)16 << 30 },
        { "80%", 800 },
        { "10%", 100 },
        { "0.01%", 1 },
        { "33.3%", 333 },
        { "85.05%", 851 },
        { "0.1%", 1 },
        { "1152921504606846977", 1152921504606846977 },
        { "200%", 2000 },
        { "100 %", 1000 },
        { "1e9", 1000000000 },
        { "3TB", 3000000000000 },
    };
    int64_t bytes;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        bytes = -1;
        CHECK_OK(bytes_read(good[i].text, 1000, &bytes));
        CHECK_INT(bytes, good[i].bytes);
    }
    static const char *const bad[] = { "",       "x",   "GiB",           "-1",     "1XB",
                                       "16GiBs", "nan", "inf",           "0x10",   "1e30",
                                       "1..5",   "5%%", "9999999999GiB", "16 G iB" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (!CHECK_INT(bytes_read(bad[i], 1000, &bytes), E_USAGE))
            fprintf(stderr, "  '%s' was taken as %lld\n", bad[i], (long long)bytes);
    CHECK_INT(bytes_read("80%", 0, &bytes), E_USAGE);
    CHECK_TEXT(err_text(), "'80%': a percentage needs a device whose memory is known");
    CHECK_INT(bytes_read("5QB", 0, &bytes), E_USAGE);
    CHECK_TEXT(err_text(), "'5QB': unknown unit 'QB'; write 16GiB, 24GB, 512MiB or 80%");
}

static void words(void)
{
    Pool *pool = pool_new(NULL, "test");
    CHECK_TEXT(text_word(pool, "runs/a-1.b_c"), "runs/a-1.b_c");
    CHECK_TEXT(text_word(pool, "caf\xc3\xa9"), "caf\xc3\xa9");
    CHECK_TEXT(text_word(pool, "it's a run"), "'it'\\''s a run'");
    CHECK_TEXT(text_word(pool, "~/$x"), "'~/$x'");
    CHECK_TEXT(text_word(pool, ""), "''");
    pool_free(pool);
}

static void nearest(void)
{
    static const char *const words[] = { "batch", "budget", "precision", "patch" };
    CHECK_TEXT(text_nearest("bacth", words, 4), "batch");
    CHECK_TEXT(text_nearest("Budget", words, 4), "budget");
    CHECK_TEXT(text_nearest("presicion", words, 4), "precision");
    CHECK(!text_nearest("zzzzzzzz", words, 4));
    CHECK(!text_nearest("batch", words, 0));
    char longest[200];
    memset(longest, 'x', sizeof longest);
    longest[199] = '\0';
    CHECK(!text_nearest(longest, words, 4));
}

static void sentences(void)
{
    CHECK_INT(fail(E_BUDGET, "no plan fits %d", 8), E_BUDGET);
    CHECK_TEXT(err_text(), "no plan fits 8");
    CHECK_INT(fail(E_IO, "again: %s", err_text()), E_IO);
    CHECK_TEXT(err_text(), "again: no plan fits 8");
    CHECK_INT(err_exit_code(OK), 0);
    CHECK_INT(err_exit_code(E_USAGE), 2);
    CHECK_INT(err_exit_code(E_BUDGET), 3);
    CHECK_INT(err_exit_code(E_IO), 1);
    CHECK_INT(err_exit_code((Err)99), 1);
    (void)fail(E_IO, "cannot read %s", "a\nb\t\x1b[1m\x7f.png"); /* a name may hold anything */
    CHECK_TEXT(err_text(), "cannot read a?b??[1m?.png");
}

int main(void)
{
    RUN(grows);
    RUN(sentences_wrap);
    RUN(rows_wrap);
    RUN(bytes_out);
    RUN(bytes_in);
    RUN(words);
    RUN(nearest);
    RUN(sentences);
    return test_end();
}
