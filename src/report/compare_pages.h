/* compare_pages.h -- a comparison as text, JSON and Markdown. */
#ifndef REPORT_COMPARE_PAGES_H
#define REPORT_COMPARE_PAGES_H

#include "base/text.h"
#include "fit/compare.h"

#include <stdio.h>

void compare_text(FILE *to, const Comparison *c, bool colour); /* at most 100 columns */
Err  compare_json(FILE *to, const Comparison *c);              /* docs/user/FORMATS.md */
void compare_md(Text *to, const Comparison *c);

Err compare_html(Pool *pool, const char *path, const Comparison *comparison);

#endif
