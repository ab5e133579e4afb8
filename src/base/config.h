/* config.h -- a struct filled from a recipe: one table says key, kind, place, range and meaning.
 *
 *   typedef struct Dog { int64_t legs; double weight; } Dog;
 *   static const Field dog_fields[] = {
 *       { "legs",   FIELD_INT,    offsetof(Dog, legs),   .low = 0, .high = 8, .help = "how many" },
 *       { "weight", FIELD_NUMBER, offsetof(Dog, weight), .low = 0, .high = 99, .help = "kg" },
 *       { 0 }
 *   };
 *
 * The caller fills in the defaults first. A wrong key or value is E_USAGE; the sentence names file,
 * line, key, what is allowed and the nearest key. `--set a.b=1` goes through the same table.
 */
#ifndef BASE_CONFIG_H
#define BASE_CONFIG_H

#include "base/json.h"
#include "base/json_out.h"

#include <stddef.h>

enum { FIELD_MAX_INTS = 12 };

typedef struct Ints { /* a short list of whole numbers */
    int64_t at[FIELD_MAX_INTS];
    int     n;
} Ints;

enum { FIELD_MAX_TEXTS = 32 };

typedef struct Texts { /* a short list of texts */
    const char *at[FIELD_MAX_TEXTS];
    int         n;
} Texts;

typedef enum FieldKind {
    FIELD_INT,    /* int64_t */
    FIELD_NUMBER, /* double */
    FIELD_BOOL,   /* bool */
    FIELD_TEXT,   /* const char *, NULL if null */
    FIELD_CHOICE, /* int: index into choices */
    FIELD_INTS,   /* Ints; low and high bound each item */
    FIELD_TEXTS,  /* Texts */
    FIELD_GROUP,  /* a struct at offset, described by fields */
} FieldKind;

typedef struct Field Field;
struct Field {
    const char        *key;
    FieldKind          kind;
    size_t             offset;
    double             low, high; /* both 0: any */
    const char *const *choices;   /* CHOICE: ends with NULL */
    const Field       *fields;    /* GROUP */
    const char        *help;
};

/* Fields whose key is absent keep their value. */
Err  config_read(Pool *pool, const Json *map, const Field *fields, void *config);
/* assignment: "a.b=value" */
Err  config_set(Pool *pool, const char *assignment, const Field *fields, void *config);
/* Writes the members of an object that is open. */
void config_write(JsonOut *out, const Field *fields, const void *config);
void config_write_yaml(Text *text, const Field *fields, const void *config, int indent);

#endif
