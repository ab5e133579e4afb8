/* html.h -- parts of a page that needs no script: head, header, tiles, and text that is only text. */
#ifndef REPORT_HTML_H
#define REPORT_HTML_H

#include "base/file.h"

void html_text(FileOut *out, const char *text); /* escaped */
void html_head(FileOut *out, const char *name, const char *what);
void html_header(FileOut *out, const char *name); /* opens <header>; the mark and the name */
void html_tile(FileOut *out, const char *label, const char *value, const char *more);
void html_end(FileOut *out);

#endif
