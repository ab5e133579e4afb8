/* utf8.c -- writes UTF-8, reads hexadecimal numbers. */
#include "base/utf8.h"

int utf8_put(uint32_t c, char to[4])
{
    int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    if (!more) {
        to[0] = (char)c;
        return 1;
    }
    to[0] = (char)(0xf0u << (3 - more) | c >> 6 * more);
    for (int i = 1; i <= more; i++)
        to[i] = (char)(0x80 | (c >> 6 * (more - i) & 0x3f));
    return more + 1;
}

int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

int64_t hex_number(const char *p, const char *end, int n)
{
    int64_t number = 0;
    if (end - p < n)
        return -1;
    for (int i = 0; i < n; i++) {
        int digit = hex_digit(p[i]);
        if (digit < 0)
            return -1;
        number = number << 4 | digit;
    }
    return number;
}
