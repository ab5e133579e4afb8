/* json.h -- JSON text as a compact tree; YAML recipes (base/yaml.h) give the same tree.
 *
 * The tree lives in the pool it was read into and is never changed afterwards:
 *
 *   const Json *root, *nodes;
 *   TRY(json_read(pool, "graph.json", 0, &root));
 *   TRY(json_need_array(root, "nodes", &nodes));
 *   for (uint32_t i = 0; i < nodes->n; i++) {
 *       int64_t id;
 *       TRY(json_need_int(&nodes->items[i], "id", &id));
 *   }
 *
 *  1. A value is 16 bytes; items of an array and members of an object lie side by side, in the
 *     order of the file. Keys are stored once per file, however often they occur.
 *  2. Text is valid UTF-8 without '\0', and ends in one.
 *  3. Whole numbers within int64 are exact; every other number is the nearest double.
 *  4. No object has the same key twice.
 *  5. Every value knows its line; the value of a member has the line of its key.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>

#include "base/err.h"
#include "base/pool.h"

typedef enum JsonKind {
    JSON_NULL,
    JSON_BOOL,
    JSON_INT,
    JSON_NUMBER,
    JSON_TEXT,
    JSON_ARRAY,
    JSON_OBJECT
} JsonKind;

typedef struct Json       Json;
typedef struct JsonMember JsonMember;

struct Json {
    unsigned kind : 4; /* a JsonKind */
    unsigned line : 28;
    uint32_t n; /* bytes of a text, items of an array, members of an object */
    union {
        bool              truth;
        int64_t           integer;
        double            number;
        const char       *text;
        const Json       *items;
        const JsonMember *members;
    };
};

struct JsonMember {
    const char *key;
    Json        value;
};

enum {
    JSON_ALLOW_NAN = 1,  /* also read bare NaN, Infinity and -Infinity, as Python writes them */
    JSON_MAX_DEPTH = 512 /* arrays and objects within each other */
};

/* name is what errors call the text: "name:line:column: ...", code E_FORMAT. */
Err json_parse(Pool *pool, const char *name, const char *bytes, size_t n, int flags,
               const Json **out);
Err json_read(Pool *pool, const char *path, int flags, const Json **out);

const Json *json_get(const Json *object, const char *key); /* NULL: absent, or not an object */
const char *json_kind_text(const Json *value);             /* "a text", "an object", ... */
const char *json_name(const Json *container);              /* the name given to json_parse */

/* Each fails with one sentence naming file, line and key if the member is absent or of another
 * kind. Numbers are finite. A number such as 1e5 that is whole, up to 2^53, is an int too. */
Err json_need_int(const Json *object, const char *key, int64_t *out);
Err json_need_number(const Json *object, const char *key, double *out);
Err json_need_bool(const Json *object, const char *key, bool *out);
Err json_need_text(const Json *object, const char *key, const char **out);
Err json_need_array(const Json *object, const char *key, const Json **out);
Err json_need_object(const Json *object, const char *key, const Json **out);

/* The same, but *out keeps what it had if the member is absent. */
Err json_maybe_int(const Json *object, const char *key, int64_t *out);
Err json_maybe_number(const Json *object, const char *key, double *out);
Err json_maybe_bool(const Json *object, const char *key, bool *out);
Err json_maybe_text(const Json *object, const char *key, const char **out);
Err json_maybe_array(const Json *object, const char *key, const Json **out);
Err json_maybe_object(const Json *object, const char *key, const Json **out);

/* The same for one value of an array: "name:line: item 3 of the array must be ..., not ...". */
Err json_item_int(const Json *array, uint32_t i, int64_t *out);
Err json_item_number(const Json *array, uint32_t i, double *out);
Err json_item_text(const Json *array, uint32_t i, const char **out);

/* "recipes/x.yaml:12: unknown key 'bacth', did you mean 'batch'?" */
Err json_check_keys(const Json *object, const char *const *known, int n_known);

/* "name:line: " and the sentence, with the line of value (one of container's own, or NULL: the
 * container itself). The code is E_FORMAT for a JSON file, E_USAGE for a recipe. */
Err json_fail(const Json *container, const Json *value, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Bytes of the UTF-8 character at p; 0 if there is none. */
int    json_utf8(const char *p, const char *end);
/* How many of n bytes are text in UTF-8, up to the first that is not; 0 bytes are none. */
size_t json_utf8_bytes(const char *text, size_t n);

#endif
