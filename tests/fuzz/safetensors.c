/* safetensors.c -- fuzz target: the input as a file, and with a valid header length in front of it,
 * so that the fuzzer gets past the first check. Every byte of every tensor is read. */
#include "base/safetensors.h"

#include <stdlib.h>
#include <string.h>

static void fuzz_file(const unsigned char *bytes, size_t n)
{
    Pool    *pool = pool_new(NULL, "fuzz");
    SafeFile file;
    if (safetensors_parse(pool, "fuzz", bytes, n, &file) == OK) {
        volatile unsigned char sum = 0;
        size_t                 total = 0;
        for (int i = 0; i < file.n; i++) {
            const unsigned char *data = file.tensors[i].data;
            for (size_t b = 0; b < file.tensors[i].n_bytes; b++)
                sum = (unsigned char)(sum + data[b]);
            total += file.tensors[i].n_bytes;
            REQUIRE(safetensors_find(&file, file.tensors[i].name) == &file.tensors[i]);
        }
        REQUIRE(total <= n - 8);
    }
    pool_free(pool);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    fuzz_file(bytes, n);
    const unsigned char *end = n ? memrchr(bytes, '}', n) : NULL;
    size_t               header = end ? (size_t)(end - bytes) + 1 : n;
    unsigned char       *copy = malloc(n + 8);
    for (int i = 0; i < 8; i++)
        copy[i] = (unsigned char)((uint64_t)header >> 8 * i);
    if (n)
        memcpy(copy + 8, bytes, n);
    fuzz_file(copy, n + 8);
    free(copy);
    return 0;
}
