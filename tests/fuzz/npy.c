/* npy.c -- fuzz target: the input as an .npy file, and with a valid magic, version and header
 * length in front of it. */
#include "base/npy.h"

#include <stdlib.h>
#include <string.h>

static void fuzz_file(const unsigned char *bytes, size_t n)
{
    Npy array;
    if (npy_parse("fuzz", bytes, n, &array) == OK) {
        volatile unsigned char sum = 0;
        for (size_t i = 0; i < array.n_bytes; i++)
            sum = (unsigned char)(sum + ((const unsigned char *)array.data)[i]);
        REQUIRE(array.n_bytes == (size_t)array.count * npy_type_bytes(array.type));
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    fuzz_file(bytes, n);
    const unsigned char *end = n ? memchr(bytes, '}', n) : NULL;
    size_t               header = end ? (size_t)(end - bytes) + 1 : n;
    unsigned char       *copy = malloc(n + 12);
    memcpy(copy, "\x93NUMPY\x02", 8);
    for (int i = 0; i < 4; i++)
        copy[8 + i] = (unsigned char)(header >> 8 * i);
    if (n)
        memcpy(copy + 12, bytes, n);
    fuzz_file(copy, n + 12);
    free(copy);
    return 0;
}
