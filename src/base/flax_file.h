/* flax_file.h -- tensors of files that flax.serialization wrote (to_bytes, msgpack_serialize).
 *
 * Such a file is a tree of MessagePack maps with arrays at its leaves. A tensor's name is the keys
 * that lead to it, with '.' between: params.Dense_0.kernel. Arrays beyond 1 GiB are stored in chunks.
 * Nothing of the file is executed; what is no array is left out.
 */
#ifndef BASE_FLAX_FILE_H
#define BASE_FLAX_FILE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/pool.h"
#include "base/safetensors.h"

typedef struct FlaxTensor {
    SafeTensor  tensor; /* data NULL if it is wrong */
    const char *wrong;  /* why it cannot be read, as the end of a sentence; NULL: it can */
} FlaxTensor;

typedef struct FlaxFile {
    const char *path;
    int32_t     n, cap;
    FlaxTensor *tensors; /* in the order of the file */
} FlaxFile;

/* Does the file begin as one that Flax wrote? */
bool flax_likely(const void *bytes, size_t n);

Err flax_read(Pool *pool, const char *path, FlaxFile *out);
Err flax_parse(Pool *pool, const char *name, const void *bytes, size_t n, FlaxFile *out);

/* Names with '.' become a tree again. E_FORMAT if a name is both a tensor and the start of others. */
Err flax_write(const char *path, const SafeTensor *tensors, int n);

#endif
