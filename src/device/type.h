/* type.h -- element types. Arithmetic is always fp32; the 2-byte types are for storage. */
#ifndef DEVICE_TYPE_H
#define DEVICE_TYPE_H

#include <stdint.h>
#include <string.h>

/*        name  word    bytes */
/* clang-format off */
#define TYPE_LIST(X)        \
    X(F32,  "f32",  4)      \
    X(BF16, "bf16", 2)      \
    X(F16,  "f16",  2)      \
    X(I32,  "i32",  4)      \
    X(U8,   "u8",   1)
/* clang-format on */

typedef enum Type {
#define X(name, word, bytes) name,
    TYPE_LIST(X)
#undef X
        TYPE_COUNT
} Type;

static inline int type_bytes(Type type)
{
    static const int bytes[] = {
#define X(name, word, size) size,
        TYPE_LIST(X)
#undef X
    };
    return bytes[type];
}

static inline const char *type_name(Type type)
{
    static const char *const names[] = {
#define X(name, word, size) word,
        TYPE_LIST(X)
#undef X
    };
    return names[type];
}

static inline int type_is_float(Type type) { return type <= F16; }

#endif
