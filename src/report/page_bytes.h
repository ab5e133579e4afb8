/* page_bytes.h -- the HTML page, its style and its script, which scripts/embed.cmake turns into
 * arrays (page.c in the build folder) from src/report/page/. */
#ifndef REPORT_PAGE_BYTES_H
#define REPORT_PAGE_BYTES_H

#include <stddef.h>

extern const unsigned char page_html[], page_css[], page_js[];
extern const size_t        page_html_n, page_css_n, page_js_n;

#endif
