/* utf8.h -- characters as bytes of UTF-8, and the hexadecimal numbers that stand for them. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdint.h>

int     utf8_put(uint32_t c, char to[4]);                  /* how many bytes it has */
int     hex_digit(char c);                                 /* -1: it is none */
int64_t hex_number(const char *p, const char *end, int n); /* of n digits; -1: they are none */

#endif
