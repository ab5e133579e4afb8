/* pickle.h -- reads Python's pickles (protocols 0 to 5) and executes nothing.
 *
 * A pickle is a program for a small stack machine that may call any Python function. This reader
 * runs the stack machine only: what would be a call becomes a value that says which function was
 * to be called, with which arguments. What such a value means is up to who reads the tree.
 *
 *   PickleTree tree;
 *   TRY(pickle_parse(pool, "model.pt(data.pkl)", bytes, n, &tree));
 *   const Pickle *weights = pickle_get(tree.root, "state_dict");
 *
 *  1. Equal objects of the pickle are one value here, however often they are referred to; a list
 *     may contain itself. Who walks the tree must not follow it without end.
 *  2. Texts are valid UTF-8 without '\0' and end in one. Where Python's text is not (surrogates,
 *     the 8-bit texts of protocols 0 to 2), it is a PICKLE_BYTES.
 *  3. A tree takes memory in proportion to the pickle's bytes. Unknown opcodes, extension codes and
 *     buffers outside of the pickle are refused.
 */
#ifndef BASE_PICKLE_H
#define BASE_PICKLE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/pool.h"

typedef enum PickleKind {
    PICKLE_NONE,
    PICKLE_BOOL,      /* integer: 0 or 1 */
    PICKLE_INT,       /* integer */
    PICKLE_BIG,       /* bytes: a whole number beyond int64, little endian, two's complement */
    PICKLE_FLOAT,     /* number */
    PICKLE_BYTES,     /* bytes */
    PICKLE_TEXT,      /* bytes, and a '\0' behind them */
    PICKLE_TUPLE,     /* items */
    PICKLE_LIST,      /* items */
    PICKLE_SET,       /* items */
    PICKLE_DICT,      /* items: key, value, key, value, ... in the order of insertion */
    PICKLE_GLOBAL,    /* bytes: "module name", for example "torch._utils _rebuild_tensor_v2" */
    PICKLE_CALL,      /* call */
    PICKLE_PERSISTENT /* items[0]: the id of an object that is stored elsewhere */
} PickleKind;

typedef struct Pickle     Pickle;
typedef struct PickleCall PickleCall;

struct Pickle {
    PickleKind kind;
    uint32_t   n, cap; /* bytes, items (of a dict: twice its entries) */
    union {
        int64_t        integer;
        double         number;
        const char    *bytes;
        const Pickle **items;
        PickleCall    *call;
    };
};

/* callable(*args), or the object of class `callable` made with args; then filled. */
struct PickleCall {
    const Pickle *callable, *args, *state; /* state: NULL if the object is given none */
    const Pickle *list, *dict; /* what was appended or set, as a list and a dict; NULL: nothing */
};

typedef struct PickleTree {
    const Pickle  *root;
    size_t         bytes;      /* length of the pickle; others may follow it */
    const Pickle **persistent; /* every PICKLE_PERSISTENT, in the order of the pickle */
    int32_t        n_persistent;
} PickleTree;

/* One pickle at the start of the bytes. Errors are E_FORMAT and name `name`. */
Err pickle_parse(Pool *pool, const char *name, const void *bytes, size_t n, PickleTree *out);

bool pickle_is_global(const Pickle *value, const char *name); /* "module name" */
bool pickle_is_text(const Pickle *value, const char *text);

/* A dict, or an object that was filled like one (OrderedDict): its entries; else NULL. */
const Pickle *pickle_dict(const Pickle *value);
const Pickle *pickle_get(const Pickle *value, const char *key); /* NULL: absent, or no dict */
/* Items of a tuple or list; else NULL. */
const Pickle *pickle_item(const Pickle *value, uint32_t i);

#endif
