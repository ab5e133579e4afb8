/* msgpack.h -- MessagePack as a tree: https://github.com/msgpack/msgpack/blob/master/spec.md
 *
 *   MsgPack root;
 *   TRY(msgpack_parse(pool, "state.msgpack", bytes, n, &root));
 *   const MsgPack *params = msgpack_get(&root, "params");
 *
 * Texts, bytes and extensions are given as they lie in the input, without a copy. A tree takes
 * memory in proportion to the input's bytes; more than MSGPACK_DEPTH levels are refused.
 */
#ifndef BASE_MSGPACK_H
#define BASE_MSGPACK_H

#include <stdbool.h>

#include "base/err.h"
#include "base/pool.h"

enum { MSGPACK_DEPTH = 64 };

typedef enum MsgKind {
    MSG_NIL,
    MSG_BOOL,   /* integer: 0 or 1 */
    MSG_INT,    /* integer */
    MSG_NUMBER, /* number; also whole numbers beyond int64 */
    MSG_TEXT,   /* bytes; may hold anything, no '\0' behind them */
    MSG_BYTES,  /* bytes */
    MSG_EXT,    /* bytes, of type `ext` */
    MSG_ARRAY,  /* items */
    MSG_MAP     /* items: key, value, key, value, ... */
} MsgKind;

typedef struct MsgPack MsgPack;
struct MsgPack {
    MsgKind kind;
    int     ext;
    size_t  n; /* bytes; items (of a map: twice its entries) */
    union {
        int64_t              integer;
        double               number;
        const unsigned char *bytes;
        const MsgPack       *items;
    };
};

/* One value that takes all bytes. Errors are E_FORMAT and name `name`. */
Err msgpack_parse(Pool *pool, const char *name, const void *bytes, size_t n, MsgPack *out);

bool           msgpack_is_text(const MsgPack *value, const char *text); /* or bytes */
const MsgPack *msgpack_get(const MsgPack *map, const char *key);        /* NULL: absent, no map */

/* Writing: each puts what begins a value at `to` (at most MSGPACK_HEAD bytes) and returns its
 * length; the bytes, items or entries follow. */
enum { MSGPACK_HEAD = 16 };
size_t msgpack_head(unsigned char *to, MsgKind kind, size_t n); /* not MSG_EXT, numbers, bools */
size_t msgpack_ext(unsigned char *to, int type, size_t n);
size_t msgpack_int(unsigned char *to, uint64_t integer);

#endif
