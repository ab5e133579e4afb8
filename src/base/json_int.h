/* json_int.h -- what json.c and yaml.c share: making the tree of json.h. Not for other rooms.
 *
 * Values of open containers wait on one stack; closing a container moves its values from the top of
 * the stack to their final place. Temporary memory is freed when the parse ends.
 */
#ifndef BASE_JSON_INT_H
#define BASE_JSON_INT_H

#include "base/json.h"

/* One per text; a pointer to it stands before every container's values. */
typedef struct JsonSource {
    const char *name;
    Err         wrong; /* code of json_fail */
} JsonSource;

typedef struct JsonWaiting {
    const char *key, *key_at; /* interned; where it stands in the text, for errors */
    Json        value;
} JsonWaiting;

typedef struct JsonKey { /* a key of the file; members point at its text */
    uint32_t hash, n;
    uint32_t last_object; /* serial of the last closed object that had it */
    char     text[];
} JsonKey;

typedef struct JsonBuild {
    Pool        *pool, *temp;
    JsonSource  *source;
    const char  *start, *end; /* the whole text */
    JsonWaiting *stack;
    uint32_t     n, cap;
    JsonKey    **keys; /* open addressing; n_slots is a power of two */
    uint32_t     n_keys, n_slots, n_objects;
    char        *block; /* small allocations come from here */
    size_t       left, block_bytes;
} JsonBuild;

void json_build_init(JsonBuild *b, Pool *pool, Pool *temp, const char *name, Err wrong,
                     const char *bytes, size_t n);
Err  json_build_fail(const JsonBuild *b, const char *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4))); /* "name:line:column: ..." */

void json_build_push(JsonBuild *b, const char *key, const char *key_at, Json value);
/* What was pushed since the stack held `first` values becomes one container; out has its kind. */
Err  json_build_close(JsonBuild *b, uint32_t first, Json *out);

const Json *json_build_root(JsonBuild *b, Json value);
const char *json_build_text(JsonBuild *b, const char *bytes, size_t n); /* a copy */
const char *json_build_key(JsonBuild *b, const char *bytes, size_t n);  /* one copy per file */

/* Reads a "text" whose opening quote is at *at, with JSON's escapes; *at then follows it. */
Err json_build_quoted(JsonBuild *b, const char **at, bool is_key, const char **text, uint32_t *n);
/* Digits of JSON's number grammar (a leading '+' or '.', or a last '.', do no harm) as int or
 * number; they were read at `at`, which matters if they are a copy. */
Err json_build_number(JsonBuild *b, const char *at, const char *bytes, size_t n, Json *out);

uint32_t json_key_hash(const char *bytes, size_t n);
uint32_t json_index_slots(uint32_t n_members); /* slots of an object's index; 0: none */

#endif
