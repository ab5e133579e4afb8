/* explain_pages.h -- what is known about a training step, as text, JSON, Markdown and HTML. */
#ifndef REPORT_EXPLAIN_PAGES_H
#define REPORT_EXPLAIN_PAGES_H

#include "base/json_out.h"
#include "base/text.h"
#include "fit/explained.h"

#include <stdio.h>

/* Tables of at most 100 columns: the balance sheet, which needs no search, and the rest. */
void explain_text_sheet(FILE *to, const Explained *e, bool colour);
void explain_text_rest(FILE *to, const Explained *e, bool colour);

Err  explain_json(FILE *to, const Explained *e); /* docs/user/FORMATS.md */
/* Everything but tensors and timeline, into an open object. */
void explain_json_members(JsonOut *o, const Explained *e);

Err explain_md(Text *to, const Explained *e);           /* a report in Markdown */
Err explain_html(const char *path, const Explained *e); /* one page that opens offline */

#endif
