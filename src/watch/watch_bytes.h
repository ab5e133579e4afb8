/* watch_bytes.h -- the page of `watch`, which scripts/embed.cmake turns into arrays (watch_page.c in
 * the build folder) from src/watch/page/. Its style begins with that of report's page. */
#ifndef WATCH_WATCH_BYTES_H
#define WATCH_WATCH_BYTES_H

#include <stddef.h>

extern const unsigned char watch_html[], watch_css[], watch_js[];
extern const size_t        watch_html_n, watch_css_n, watch_js_n;

#endif
