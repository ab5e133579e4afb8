/* inflate.h -- the inverse of deflate (RFC 1951), for members of zip archives. */
#ifndef BASE_INFLATE_H
#define BASE_INFLATE_H

#include <stddef.h>

/* Fills exactly n_out bytes; reads and writes nothing outside both ranges, whatever the input is.
 * Returns NULL, or what is wrong with the input. */
const char *inflate_bytes(const void *in, size_t n_in, void *out, size_t n_out);

#endif
