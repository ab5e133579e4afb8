/* csv.c -- layout.csv in and out: every column order, every mistake with its line and column. */
#include "test.h"

#include "layout/layout.h"

#include <stdlib.h>
#include <unistd.h>

static Pool *pool;

static Err parse(const char *text, LayoutFile *file)
{
    return layout_parse(pool, text, strlen(text), file);
}

static void reads(void)
{
    LayoutFile f;
    CHECK_OK(parse("id,lower,upper,size\na,0,3,4\nb,-2,9,4611686018427387904", &f));
    CHECK_INT(f.n, 2);
    CHECK_TEXT(f.ids[1], "b");
    CHECK_INT(f.buffers[1].lower, -2);
    CHECK_INT(f.buffers[1].upper, 9);
    CHECK_INT(f.buffers[1].size, (int64_t)1 << 62);
    CHECK_INT(f.buffers[1].align, 1);
    CHECK(!f.buffers[1].fixed);

    CHECK_OK(parse("offset,size,id,align,upper,lower\r\n,8,\"x, \"\"y\"\"\nz\",16,5,2\r\n32,8,q "
                   "r,,5,2\r\n\r\n",
                   &f));
    CHECK_INT(f.n, 2);
    CHECK_TEXT(f.ids[0], "x, \"y\"\nz");
    CHECK_INT(f.buffers[0].align, 16);
    CHECK(!f.buffers[0].fixed);
    CHECK_TEXT(f.ids[1], "q r");
    CHECK_INT(f.buffers[1].offset, 32);
    CHECK_INT(f.buffers[1].align, 1);
    CHECK(f.buffers[1].fixed);

    CHECK_OK(parse("\xef\xbb\xbfid,lower,upper,size\n", &f));
    CHECK_INT(f.n, 0);
}

static void refuses(void)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        { "", "the file is empty; its first line must be id,lower,upper,size" },
        { "\n", "line 1: '' is not a column; the columns are id, lower, upper, size and, if "
                "wanted, align and offset" },
        { "id,lower,upper\n", "line 1 lacks the column size; it must name id, lower, upper and "
                              "size" },
        { "id,lower,upper,size,id\n", "line 1 names the column id twice" },
        { "id,lower,upper,size,height\n", "line 1: 'height' is not a column; the columns are id, "
                                          "lower, upper, size and, if wanted, align and offset" },
        { "id,lower,upper,size\na,0,1\n", "line 2 has 3 cells, the first line has 4" },
        { "id,lower,upper,size\na,0,1,2,3\n", "line 2 has 5 cells, the first line has 4" },
        { "id,lower,upper,size\na,0,1,2,3,4,5,6\n", "line 2 has more than 6 cells" },
        { "id,lower,upper,size\n\"a\nb\",0,1,2\nc,0,x,2\n", "line 4, column upper: 'x' is not a "
                                                            "whole number" },
        { "id,lower,upper,size\na,0,1, 2\n", "line 2, column size: ' 2' is not a whole number" },
        { "id,lower,upper,size\na,0,1,2k\n", "line 2, column size: '2k' is not a whole number" },
        { "id,lower,upper,size\na,0,1,+2\n", "line 2, column size: '+2' is not a whole number" },
        { "id,lower,upper,size\na,0,1,\n", "line 2, column size: '' is not a whole number" },
        { "id,lower,upper,size\na,0,1,-\n", "line 2, column size: '-' is not a whole number" },
        { "id,lower,upper,size\na,0,1,0\n", "line 2, column size: 0 is not between 1 and "
                                            "4611686018427387904" },
        { "id,lower,upper,size\na,0,1,99999999999999999999\n",
          "line 2, column size: 99999999999999999999 is not between 1 and 4611686018427387904" },
        { "id,lower,upper,size\na,5,5,1\n", "line 2, column upper: 5 is not above lower, 5" },
        { "id,lower,upper,size\n,0,1,1\n", "line 2, column id: it is empty" },
        { "id,lower,upper,size\na,0,1,1\nb,0,1,1\na,0,1,1\n", "lines 2 and 4, column id: both are "
                                                              "called 'a'" },
        { "id,lower,upper,size\na,0,1,1\n\nb,0,1,1\n", "line 3 is empty" },
        { "id,lower,upper,size,align\na,0,1,1,0\n", "line 2, column align: 0 is not between 1 and "
                                                    "4611686018427387904" },
        { "id,lower,upper,size,offset\na,0,1,1,-1\n", "line 2, column offset: -1 is not between 0 "
                                                      "and 4611686018427387904" },
        { "id,lower,upper,size\n\"a,0,1,1\n", "line 2: a quoted cell is never closed" },
        { "id,lower,upper,size\n\"a\"b,0,1,1\n", "line 2: a quoted cell is followed by more text; "
                                                 "write \"\" for a quote inside quotes" },
        { "id,lower,upper,size\na\"b,0,1,1\n", "line 2: a quote in the middle of a cell; put the "
                                               "cell in quotes" },
        { "id,lower,upper,size\na\rb,0,1,1\n", "line 2: a carriage return in the middle of a "
                                               "cell; put the cell in quotes" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        LayoutFile f;
        CHECK_INT(parse(bad[i].text, &f), E_FORMAT);
        CHECK_TEXT(err_text(), bad[i].says);
    }
    LayoutFile f;
    CHECK_INT(layout_parse(pool, "id,lower,upper,size\na\0b,0,1,1", 30, &f), E_FORMAT);
    CHECK_TEXT(err_text(), "line 2 holds a zero byte: this is not a text file");
}

static void files(void)
{
    static const char *ids[] = { "plain", "with, comma", "with \"quotes\"", "two\nlines",
                                 "\xc3\xa9" };
    Buffer             b[5];
    LayoutFile         f = { ids, b, 5 }, g;
    char              *dir = pool_text(pool, "/tmp/layout_csv_XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
    const char *path = pool_print(pool, "%s/layout.csv", dir);
    for (int aligned = 0; aligned < 2; aligned++) {
        for (int i = 0; i < 5; i++)
            b[i] = (Buffer){ i - 2, i + 7, 100 + i, aligned ? 4 * i : 0, 1000 * i, 0 };
        CHECK_OK(layout_write(path, &f));
        CHECK_OK(layout_read(pool, path, &g));
        CHECK_INT(g.n, 5);
        for (int i = 0; i < g.n; i++) {
            CHECK_TEXT(g.ids[i], ids[i]);
            CHECK_INT(g.buffers[i].lower, b[i].lower);
            CHECK_INT(g.buffers[i].upper, b[i].upper);
            CHECK_INT(g.buffers[i].size, b[i].size);
            CHECK_INT(g.buffers[i].align, b[i].align ? b[i].align : 1);
            CHECK_INT(g.buffers[i].offset, b[i].offset);
            CHECK(g.buffers[i].fixed);
        }
    }
    CHECK_INT(layout_read(pool, dir, &g), E_IO);
    CHECK_INT(layout_read(pool, pool_print(pool, "%s/absent", dir), &g), E_IO);
    CHECK(strstr(err_text(), "cannot read") != NULL);
    CHECK_INT(layout_write(pool_print(pool, "%s/absent/layout.csv", dir), &f), E_IO);

    /* Through a link the target changes and the link stays: /dev/stdout is one. */
    const char *link = pool_print(pool, "%s/link", dir);
    CHECK_OK(layout_write(path, &(LayoutFile){ 0 }));
    CHECK_INT(symlink("layout.csv", link), 0);
    CHECK_OK(layout_write(link, &f));
    CHECK_OK(layout_read(pool, path, &g));
    CHECK_INT(g.n, 5);
    CHECK_INT(unlink(link), 0);

    FILE *out = fopen(path, "w");
    fputs("id,lower,upper,size\na,1,2\n", out);
    fclose(out);
    CHECK_INT(layout_read(pool, path, &g), E_FORMAT);
    CHECK(strstr(err_text(), "layout.csv: line 2 has 3 cells") != NULL);
    remove(path);
    CHECK_INT(rmdir(dir), 0); /* nothing temporary is left */
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(reads);
    RUN(refuses);
    RUN(files);
    pool_free(pool);
    return test_end();
}
