/* Tests of base/utf8: the first and the last character of each length, and hexadecimal numbers. */
#include "test.h"

#include "base/utf8.h"

#include <string.h>

static void lengths(void)
{
    static const struct {
        uint32_t    c;
        const char *bytes;
    } rows[] = {
        { 0x24, "$" },
        { 0x7f, "\x7f" },
        { 0x80, "\xc2\x80" },
        { 0x7ff, "\xdf\xbf" },
        { 0x800, "\xe0\xa0\x80" },
        { 0x20ac, "\xe2\x82\xac" },
        { 0xffff, "\xef\xbf\xbf" },
        { 0x10000, "\xf0\x90\x80\x80" },
        { 0x10ffff, "\xf4\x8f\xbf\xbf" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char to[5] = { 0 };
        CHECK_INT(utf8_put(rows[i].c, to), (int)strlen(rows[i].bytes));
        CHECK_TEXT(to, rows[i].bytes);
    }
}

static void hexadecimal(void)
{
    const char *text = "00aFg";
    CHECK_INT(hex_number(text, text + 5, 4), 0xaf);
    CHECK_INT(hex_number(text, text + 5, 5), -1); /* g */
    CHECK_INT(hex_number(text, text + 3, 4), -1); /* the text ends early */
    CHECK_INT(hex_digit('9'), 9);
    CHECK_INT(hex_digit('F'), 15);
    CHECK_INT(hex_digit(':'), -1);
    CHECK_INT(hex_digit('@'), -1);
    CHECK_INT(hex_digit('`'), -1);
    CHECK_INT(hex_digit('G'), -1);
}

int main(void)
{
    RUN(lengths);
    RUN(hexadecimal);
    return test_end();
}
