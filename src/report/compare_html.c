/* compare_html.c -- the table of `compare` as one file that opens offline. */
#include "report/compare_pages.h"

#include "base/text.h"
#include "report/html.h"
#include "report/machine.h"

static void page_cell(FileOut *out, const CompareCell *cell)
{
    static const char *const kinds[] = { "good", "fair", "bad", "" };
    const char              *kind = kinds[cell->verdict];
    file_out_print(out, "<td class=\"%s\">", kind);
    switch (cell->verdict) {
    case VERDICT_FITS: file_out_print(out, "yes"); break;
    case VERDICT_NO: file_out_print(out, "no"); break;
    case VERDICT_UNKNOWN: file_out_print(out, "?"); break;
    default:
        if (cell->planned)
            file_out_print(out, "%+.1f %%%s", more_percent(cell->slowdown), cell->cut ? "*" : "");
        else
            file_out_print(out, "re-plan");
    }
    file_out_print(out, "</td>");
}

static void page_row(FileOut *out, const Comparison *c, const CompareRow *r)
{
    file_out_print(out, "<tr><td class=\"name\">");
    html_text(out, r->name);
    if (r->error) {
        file_out_print(out, "</td><td class=\"name\" colspan=\"%d\">", 4 + (int)c->n_budgets);
        html_text(out, r->error);
        file_out_print(out, "</td></tr>\n");
        return;
    }
    file_out_print(out, "</td><td>%s</td><td>%lld × %lld</td><td>%s</td><td>%s</td>",
                   count_text(r->parameters), (long long)r->batch, (long long)r->accumulate,
                   bytes_text(r->peak_bytes),
                   r->minimum_bytes ? bytes_text(r->minimum_bytes) : "?");
    for (int32_t b = 0; b < c->n_budgets; b++)
        page_cell(out, &r->cells[b]);
    file_out_print(out, "</tr>\n");
}

Err compare_html(Pool *pool, const char *path, const Comparison *c)
{
    FileOut    *out = NEW(pool, FileOut);
    const char *planned_only = planned_only_text(pool, c->device);
    TRY(file_out_init(out, path));
    html_head(out, "Which variant fits which budget", "plimsoll compare");
    html_header(out, "Which variant fits which budget");
    file_out_print(out, "<p id=\"about\">On ");
    html_text(out, device_text(pool, c->device));
    if (planned_only) {
        file_out_print(out, "; it is ");
        html_text(out, planned_only);
    }
    file_out_print(
        out,
        ".</p></header>\n<main>\n<section><div class=\"scroll\"><table class=\"variants\"><tr><th "
        "class=\"name\">variant</th><th>parameters</th><th>batch</th><th>peak</th>"
        "<th>minimum</th>");
    for (int32_t b = 0; b < c->n_budgets; b++)
        file_out_print(out, compare_share(c, b) ? "<th>%skept</th>" : "<th>%s</th>",
                       compare_share(c, b) ? c->shares[b] : bytes_text(c->budgets[b]));
    file_out_print(out, "</tr>\n");
    for (int32_t i = 0; i < c->n_rows; i++)
        page_row(out, c, &c->rows[i]);
    file_out_print(out,
                   "</table></div>\n<p class=\"note\">peak: everything kept; minimum: the "
                   "smallest budget found; yes: fits with everything kept; +N %%: fits "
                   "re-planned, that much slower by %s; no: no plan was found; *: the search "
                   "was cut short</p></section>\n",
                   c->time_source ? c->time_source : "roofline");
    html_end(out);
    return file_out_done(out, OK);
}
