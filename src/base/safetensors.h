/* safetensors.h -- named tensors in one file: https://github.com/huggingface/safetensors#format
 *
 *   8 bytes        n, length of the header, little endian, at most 100,000,000
 *   n bytes        JSON {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
 *                  "__metadata__": {"text": "text"}}, padded with spaces
 *   the rest       the tensors' bytes, without gap or overlap; offsets count from here
 *
 * Reading maps the file: data pointers are good until the pool is freed, and need not be aligned if
 * the writer did not align them. Writing aligns every tensor to its element size.
 */
#ifndef BASE_SAFETENSORS_H
#define BASE_SAFETENSORS_H

#include "base/err.h"
#include "base/json.h"
#include "base/pool.h"

/*        name     bytes */
/* clang-format off */
#define SAFE_LIST(X)  \
    X(F64,     8)     \
    X(I64,     8)     \
    X(U64,     8)     \
    X(F32,     4)     \
    X(I32,     4)     \
    X(U32,     4)     \
    X(F16,     2)     \
    X(BF16,    2)     \
    X(I16,     2)     \
    X(U16,     2)     \
    X(F8_E4M3, 1)     \
    X(F8_E5M2, 1)     \
    X(I8,      1)     \
    X(U8,      1)     \
    X(BOOL,    1)
/* clang-format on */

typedef enum SafeType {
#define X(name, bytes) SAFE_##name,
    SAFE_LIST(X)
#undef X
        SAFE_COUNT
} SafeType;

typedef struct SafeTensor {
    const char    *name;
    SafeType       type;
    int            rank;
    const int64_t *shape;   /* [rank], none negative */
    const void    *data;    /* may be NULL if n_bytes is 0 */
    size_t         n_bytes; /* reading: known; writing: set by safetensors_header */
} SafeTensor;

typedef struct SafeFile {
    const char       *path;
    int               n;
    const SafeTensor *tensors;  /* sorted by name */
    const Json       *metadata; /* an object whose values are texts, or NULL */
} SafeFile;

Err safetensors_read(Pool *pool, const char *path, SafeFile *out);
Err safetensors_parse(Pool *pool, const char *name, const void *bytes, size_t n, SafeFile *out);
const SafeTensor *safetensors_find(const SafeFile *file, const char *name); /* NULL: absent */

/* metadata: key, value, key, value, ..., NULL; or NULL for none. The file depends only on what is
 * given, not on its order: tensors are laid down by element size, large first, then by name. */
Err safetensors_write(const char *path, const SafeTensor *tensors, int n,
                      const char *const *metadata);

/* For writers that stream (from a device, say): puts tensors in file order, sets n_bytes, and gives
 * the bytes that come before the first tensor's. */
Err safetensors_header(Pool *pool, SafeTensor *tensors, int n, const char *const *metadata,
                       const char **header, size_t *n_header);

size_t      safe_type_bytes(SafeType type);
const char *safe_type_name(SafeType type);

#endif
