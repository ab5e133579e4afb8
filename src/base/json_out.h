/* json_out.h -- writing JSON as it is made, to a stream, a Text or a FileOut.
 *
 *   JsonOut o;
 *   json_out_stream(&o, stdout, JSON_PRETTY);
 *   json_out_object(&o, NULL);
 *   json_out_int(&o, "peak_bytes", 42);
 *   json_out_row(&o, "shape");              an array or object kept on one line
 *   json_out_int(&o, NULL, 3);
 *   json_out_end(&o);
 *   json_out_end(&o);
 *   TRY(json_out_done(&o));
 *
 * Inside an object every value has a key, elsewhere the key is NULL; else the program stops.
 * Doubles are written in the shortest form of at most 17 digits that reads back as the same bits,
 * always with a '.' or 'e', so that a number stays a number and an int an int. NaN and infinities,
 * which JSON lacks, become the texts "NaN", "Infinity" and "-Infinity" (as in torch.export files).
 * Bytes that are not UTF-8 become U+FFFD, so the output is always valid.
 */
#ifndef BASE_JSON_OUT_H
#define BASE_JSON_OUT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

typedef enum JsonStyle { JSON_COMPACT, JSON_PRETTY } JsonStyle; /* pretty: two spaces a level */

typedef struct JsonOut {
    void (*put)(void *to, const char *bytes, size_t n);
    void         *to;
    bool          pretty, done;
    int           depth;                /* containers now open */
    int           row;                  /* depth at which the outermost row began, or 0 */
    unsigned char open[JSON_MAX_DEPTH]; /* per depth: object or array, empty or not */
} JsonOut;

void json_out_text(JsonOut *o, Text *to, JsonStyle style);
void json_out_stream(JsonOut *o, FILE *to, JsonStyle style);
void json_out_file(JsonOut *o, FileOut *to, JsonStyle style);

void json_out_object(JsonOut *o, const char *key);
void json_out_array(JsonOut *o, const char *key);
void json_out_row(JsonOut *o, const char *key);        /* an array, all of it on one line */
void json_out_object_row(JsonOut *o, const char *key); /* an object, all of it on one line */
void json_out_end(JsonOut *o);                         /* closes the innermost of these */

void json_out_null(JsonOut *o, const char *key);
void json_out_bool(JsonOut *o, const char *key, bool value);
void json_out_int(JsonOut *o, const char *key, int64_t value);
void json_out_number(JsonOut *o, const char *key, double value);
void json_out_string(JsonOut *o, const char *key, const char *value); /* NULL: null */
void json_out_value(JsonOut *o, const char *key, const Json *value);  /* a whole tree */

Err json_out_done(JsonOut *o); /* ends the last line; says whether all was written */

/* The double as json_out_number writes it; room for 32 bytes. */
int json_number_text(char *room, double value);

#endif
