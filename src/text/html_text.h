/* html_text.h -- what Python's html.unescape does: "&lt;", "&#60;" and "&lt" become "<". */
#ifndef TEXT_HTML_TEXT_H
#define TEXT_HTML_TEXT_H

#include "base/err.h"
#include "base/text.h"

typedef struct HtmlName { /* "lt;"; some may also be written without the semicolon: "lt" */
    const char *name;
    size_t      n;
    const char *text; /* UTF-8 */
} HtmlName;

typedef struct HtmlNames {
    HtmlName *list; /* in the order of their bytes */
    int32_t   n, cap;
} HtmlNames;

/* From lines "lt; 3c": a name and its characters. `file` is what messages call it. */
Err html_names_parse(Pool *pool, const char *file, const char *text, size_t n, HtmlNames *out);

/* Appends the text with its references replaced. */
void html_unescape(const HtmlNames *names, const char *text, size_t n, Text *out);

#endif
