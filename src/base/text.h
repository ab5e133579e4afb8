/* text.h -- text that grows, and numbers as people write them.
 *
 * A Text lives in its pool. Sizes are said in binary units ("9.3 GiB"); budgets are read as users
 * write them ("16GiB", "24GB", "512MiB", "80%").
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/err.h"
#include "base/pool.h"

#include <stdio.h>

typedef struct Text {
    Pool  *pool;
    char  *at;     /* always ends in '\0' once something was added; NULL before */
    size_t n, cap; /* bytes without and with room */
} Text;

void text_add(Text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void text_addn(Text *text, const char *bytes, size_t n);

/* A sentence for people and a line end, broken between words after 100 columns, or where a
 * narrower terminal ends; its leading spaces are the margin. */
void print_sentence(FILE *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A row of a list: the name in a column, then a sentence, broken likewise beside that column. */
void print_row(FILE *to, int width, const char *name, const char *text);

const char *bytes_text(int64_t bytes);  /* "9.31 GiB"; one of 8 static buffers per thread */
const char *bytes_exact(int64_t bytes); /* "9.31 GiB (9999999999 bytes)"; likewise */
const char *count_text(int64_t count);  /* "204,223,297"; likewise */
const char *span_text(double seconds);  /* "0:09", "12:34", "2:01:59"; likewise */
Err bytes_read(const char *text, int64_t whole, int64_t *bytes); /* whole: what 100% means, or 0 */

/* Puts single quotes around the path; one inside it is written as `quote`. */
const char *text_quoted(Pool *pool, const char *path, const char *quote);
/* A path as a word of a command line, quoted where the shell would interpret it. */
const char *text_word(Pool *pool, const char *path);

/* The candidate nearest to word (edit distance), for "did you mean"; NULL if none is near. */
const char *text_nearest(const char *word, const char *const *candidates, int n);

#endif
