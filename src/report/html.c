/* html.c -- pages in the style of explain's, without its script. */
#include "report/html.h"

#include "report/page_bytes.h"

#include <string.h>

void html_text(FileOut *out, const char *text)
{
    for (const char *c = text; *c; c++)
        file_out_print(out, strchr("<&>\"", *c) ? "&#%d;" : "%c", *c);
}

void html_head(FileOut *out, const char *name, const char *what)
{
    file_out_print(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                        "<title>");
    html_text(out, name);
    file_out_print(out, " - %s</title>\n<style>\n", what);
    file_out_add(out, page_css, page_css_n);
    file_out_print(
        out,
        "\ntable { border-collapse: collapse; width: 100%%; }\n"
        "th, td { text-align: right; padding: 4px 10px; border-bottom: 1px solid "
        "var(--line); white-space: nowrap; }\n"
        "th { color: var(--soft); font-weight: 500; }\n"
        "th.name, td.name { text-align: left; white-space: normal; overflow-wrap: anywhere; "
        "min-width: 150px; }\n"
        ".scroll { max-height: none; }\n"
        ".plot { width: 100%%; height: auto; background: var(--plot); }\n"
        ".plot text { fill: var(--soft); font-size: 13px; }\n"
        ".plot .grid { stroke: var(--line); }\n"
        ".reserved, .front { fill: none; stroke: var(--accent); stroke-width: 2; }\n"
        ".point { fill: var(--accent); stroke: var(--surface); stroke-width: 1.5; }\n"
        ".point.chosen { fill: var(--bad); }\n"
        "tr.chosen td { font-weight: 650; color: var(--bad); }\n"
        ".limit { stroke: var(--fair); stroke-dasharray: 5 4; stroke-width: 1.5; }\n"
        ".plot text.limit { fill: var(--fair); stroke: none; }\n"
        ".allocated { fill: var(--accent); opacity: .25; }\n"
        "td.good { background: var(--good-bg); color: var(--good); }\n"
        "td.fair { background: var(--fair-bg); color: var(--fair); }\n"
        "td.bad { background: var(--bad-bg); color: var(--bad); }\n"
        "code { overflow-wrap: anywhere; }\n"
        ".plot.narrow { display: none; }\n"
        "@media (max-width: 600px) {\n"
        "  .plot.wide { display: none; } .plot.narrow { display: block; }\n"
        "  th, td { padding: 4px 5px; font-size: 13px; }\n"
        "  .variants tr > :is(:nth-child(2), :nth-child(3)):not([colspan]) { display: none; }\n"
        "  th.name, td.name { min-width: 64px; overflow-wrap: break-word; }\n"
        "}\n"
        "</style>\n<script>document.documentElement.dataset.theme = "
        "matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';"
        "</script>\n</head>\n<body>\n");
}

void html_header(FileOut *out, const char *name)
{
    file_out_print(out, "<header><div class=\"bar\"><svg class=\"mark\" viewBox=\"0 0 32 32\" "
                        "aria-hidden=\"true\"><circle cx=\"16\" cy=\"16\" r=\"11\"/><path "
                        "d=\"M1 16h30\"/></svg><h1>");
    html_text(out, name);
    file_out_print(out, "</h1></div>\n");
}

void html_tile(FileOut *out, const char *label, const char *value, const char *more)
{
    file_out_print(out,
                   "<div class=\"tile\"><div class=\"label\">%s</div><div class=\"value\">%s</div>"
                   "<div class=\"more\">",
                   label, value);
    html_text(out, more);
    file_out_print(out, "</div></div>\n");
}

void html_end(FileOut *out) { file_out_print(out, "</main>\n</body>\n</html>\n"); }
