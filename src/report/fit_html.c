/* fit_html.c -- one file that opens offline: the plan in figures, what it changes, and bytes against
 * time. It has no script to wait for. */
#include "report/fit_pages.h"

#include "base/text.h"
#include "report/html.h"
#include "report/machine.h"

#include <math.h>
#include <stdlib.h>

enum {
    WIDE = 1000,
    NARROW = 360,
    PLOT_H = 320,
    LEFT = 66,
    RIGHT = 20,
    TOP = 26,
    BOTTOM = 44,
    LABEL = 110
};

typedef struct FitPage {
    Pool            *pool;
    FileOut         *out;
    const FitResult *fit;
    int64_t          budget_bytes;
    const FitPoint  *points;
    int              n_points;
} FitPage;

static double more_than_kept(const FitPage *p, double step_ns)
{
    return p->fit->default_ns > 0 ? more_percent(step_ns / p->fit->default_ns) : 0;
}

static void page_header(const FitPage *p)
{
    const FitResult *r = p->fit;
    const Engine    *engine = r->engine;
    const char      *chip = r->fits ? "good" : "bad";
    html_header(p->out, r->recipe->name);
    file_out_print(p->out, "<p id=\"about\">Batch %lld × %lld, %s, on ",
                   (long long)r->recipe->batch, (long long)r->recipe->accumulate,
                   recipe_precisions[r->recipe->precision]);
    html_text(p->out, device_text(p->pool, engine->device));
    file_out_print(p->out, "; ");
    html_text(p->out,
              runtime_text(p->pool, engine->device, device_runtime_bytes(engine->device, 0)));
    file_out_print(p->out, ".</p>\n<div id=\"tiles\">\n");
    html_tile(p->out, "Budget", bytes_text(p->budget_bytes),
              pool_print(p->pool, "%s bytes", count_text(p->budget_bytes)));
    html_tile(
        p->out, r->fits ? "This plan" : "Smallest found", bytes_text(engine->arena_bytes),
        pool_print(p->pool, "%s bytes, every buffer placed", count_text(engine->arena_bytes)));
    html_tile(p->out, "Everything kept", bytes_text(r->default_bytes),
              pool_print(p->pool, "%s a step", step_text(p->pool, r->default_ns)));
    html_tile(p->out, "Step time", step_text(p->pool, r->step_ns),
              pool_print(p->pool, "%+.1f %% against everything kept, predicted",
                         more_than_kept(p, r->step_ns)));
    if (engine->host_bytes)
        html_tile(p->out, "On the host", bytes_text(engine->host_bytes), "pinned");
    file_out_print(p->out,
                   "</div>\n<div id=\"budgets\"><span class=\"chip %s\">%s</span>%s</div></header>"
                   "\n<main>\n",
                   chip, r->fits ? "fits" : "no plan was found",
                   r->cut ? "<span class=\"chip fair\">the search was cut short</span>" : "");
}

static void page_changes(const FitPage *p)
{
    const FitResult *r = p->fit;
    file_out_print(p->out, "<section><div class=\"head\"><h2>What changes</h2></div>");
    if (r->n_changes)
        file_out_print(p->out, "<div class=\"scroll\"><table><tr><th class=\"name\">lever</th><th "
                               "class=\"name\">from</th><th class=\"name\">to</th><th "
                               "class=\"name\">numbers</th></tr>\n");
    else
        file_out_print(p->out, "<p>Nothing is changed, nothing is recomputed.</p>");
    for (int i = 0; i < r->n_changes; i++) {
        const FitChange *c = &r->changes[i];
        const char      *cells[] = { c->what, c->from, c->to,
                                c->exact ? "changes no number" : "rounding may change" };
        file_out_print(p->out, "<tr>");
        for (int k = 0; k < 4; k++) {
            file_out_print(p->out, "<td class=\"name\">");
            html_text(p->out, cells[k]);
            file_out_print(p->out, "</td>");
        }
        file_out_print(p->out, "</tr>\n");
    }
    file_out_print(p->out, r->n_changes ? "</table></div>\n" : "\n");
    for (int i = 0; i < r->n_notes; i++) {
        file_out_print(p->out, "<p class=\"note\">");
        html_text(p->out, r->notes[i]);
        file_out_print(p->out, "</p>\n");
    }
    file_out_print(p->out, "</section>\n");
}

/* ---- bytes against time ---- */

typedef struct PlotRange {
    int    width, lines; /* about so many in the grid */
    double max_bytes, low_ns, high_ns;
} PlotRange;

static double plot_x(const PlotRange *range, double bytes)
{
    return LEFT + bytes / range->max_bytes * (range->width - LEFT - RIGHT);
}

static double plot_y(const PlotRange *range, double ns)
{
    return PLOT_H - BOTTOM -
           (ns - range->low_ns) / (range->high_ns - range->low_ns) * (PLOT_H - TOP - BOTTOM);
}

static PlotRange plot_range(const FitPage *p, int width)
{
    PlotRange range = { width, width == WIDE ? 5 : 3, (double)p->budget_bytes, INFINITY, 0 };
    for (int i = 0; i < p->n_points; i++) {
        range.max_bytes = fmax(range.max_bytes, (double)p->points[i].peak_bytes);
        range.low_ns = fmin(range.low_ns, p->points[i].step_ns);
        range.high_ns = fmax(range.high_ns, p->points[i].step_ns);
    }
    if (range.max_bytes > 1.5 * (double)p->points[0].peak_bytes) /* a budget far above the curve */
        range.max_bytes = (double)p->points[0].peak_bytes;
    range.max_bytes *= 1.04;
    double room = fmax(0.06 * (range.high_ns - range.low_ns), 0.01 * range.high_ns);
    range.low_ns -= room;
    range.high_ns += room;
    return range;
}

/* The step of 1, 2 or 5 times a power of ten that divides a span into about n. */
static double round_step(double span, int n)
{
    double rough = span / n, power = pow(10, floor(log10(rough)));
    double steps = rough / power;
    return power * (steps <= 1 ? 1 : steps <= 2 ? 2 : steps <= 5 ? 5 : 10);
}

static void plot_bytes_axis(const FitPage *p, const PlotRange *range)
{
    double unit = pow(1024, floor(log2(range->max_bytes) / 10));
    double step = unit * round_step(range->max_bytes / unit, range->lines);
    for (double bytes = 0; bytes <= range->max_bytes; bytes += step)
        file_out_print(p->out,
                       "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/><text "
                       "x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                       plot_x(range, bytes), plot_x(range, bytes), TOP, PLOT_H - BOTTOM,
                       plot_x(range, bytes), PLOT_H - BOTTOM + 18, bytes_text((int64_t)bytes));
    file_out_print(p->out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">arena</text>\n",
                   (LEFT + range->width - RIGHT) / 2, PLOT_H - 6);
}

/* In percent of the time with everything kept. */
static void plot_time_axis(const FitPage *p, const PlotRange *range)
{
    double low = more_than_kept(p, range->low_ns), high = more_than_kept(p, range->high_ns);
    if (!(high > low))
        return;
    double step = round_step(high - low, 5);
    int    digits = step < 1 ? (int)ceil(-log10(step) - 1e-9) : 0;
    for (int k = (int)ceil(low / step); k * step <= high; k++) {
        double      y = plot_y(range, p->fit->default_ns * (1 + k * step / 100));
        const char *mark = k ? pool_print(p->pool, "%+.*f %%", digits, k * step) : "0 %";
        file_out_print(p->out,
                       "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text "
                       "x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                       LEFT, range->width - RIGHT, y, y, LEFT - 8, y + 4, mark);
    }
    file_out_print(p->out,
                   "<text x=\"4\" y=\"14\">time of a step, against everything kept</text>\n");
}

static bool is_chosen(const FitPage *p, const FitPoint *point)
{
    return point->peak_bytes == p->fit->engine->arena_bytes;
}

static void plot_points(const FitPage *p, const PlotRange *range)
{
    double limit = plot_x(range, (double)p->budget_bytes);
    if (limit < range->width - RIGHT) {
        bool right = limit > range->width - RIGHT - LABEL;
        file_out_print(p->out,
                       "<line class=\"limit\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/><text "
                       "class=\"limit\" x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">budget %s</text>\n",
                       limit, limit, TOP, PLOT_H - BOTTOM, limit + (right ? -6 : 6),
                       right ? PLOT_H - BOTTOM - 8 : TOP + 12, right ? "end" : "start",
                       bytes_text(p->budget_bytes));
    }
    file_out_print(p->out, "<path class=\"front\" d=\"");
    for (int i = 0; i < p->n_points; i++)
        file_out_print(p->out, i ? "H%.1fV%.1f" : "M%.1f,%.1f",
                       plot_x(range, (double)p->points[i].peak_bytes),
                       plot_y(range, p->points[i].step_ns));
    file_out_print(p->out, "\"/>\n");
    for (int i = 0; i < p->n_points; i++) {
        const FitPoint *point = &p->points[i];
        bool            chosen = is_chosen(p, point);
        file_out_print(p->out,
                       "<circle class=\"point%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\"><title>%s, time "
                       "%+.1f %%, micro-batch %lld × %lld, %d nodes recomputed</title></circle>\n",
                       chosen ? " chosen" : "", plot_x(range, (double)point->peak_bytes),
                       plot_y(range, point->step_ns), chosen ? "7" : "5",
                       bytes_text(point->peak_bytes), more_than_kept(p, point->step_ns),
                       (long long)point->batch, (long long)point->accumulate, point->recomputed);
    }
}

static void page_table(const FitPage *p)
{
    file_out_print(p->out, "<div class=\"scroll\"><table><tr><th>arena</th><th>step</th><th>time"
                           "</th><th>micro-batch</th><th>recomputed</th></tr>\n");
    for (int i = 0; i < p->n_points; i++) {
        const FitPoint *point = &p->points[i];
        file_out_print(
            p->out,
            "<tr%s><td>%s</td><td>%s</td><td>%+.1f %%</td><td>%lld × %lld</td><td>%d</td>"
            "</tr>\n",
            is_chosen(p, point) ? " class=\"chosen\"" : "", bytes_text(point->peak_bytes),
            step_text(p->pool, point->step_ns), more_than_kept(p, point->step_ns),
            (long long)point->batch, (long long)point->accumulate, point->recomputed);
    }
    file_out_print(p->out, "</table></div>\n");
}

/* Phones get a plot of their own: text in the wide one would be too small to read there. */
static void page_plot(const FitPage *p, int width)
{
    PlotRange range = plot_range(p, width);
    file_out_print(p->out,
                   "<svg class=\"plot %s\" viewBox=\"0 0 %d %d\" role=\"img\" "
                   "aria-label=\"Arena against time of a step\">\n",
                   width == WIDE ? "wide" : "narrow", width, PLOT_H);
    plot_bytes_axis(p, &range);
    plot_time_axis(p, &range);
    plot_points(p, &range);
    file_out_print(p->out, "</svg>\n");
}

static void page_curve(const FitPage *p)
{
    if (p->n_points < 1)
        return;
    file_out_print(p->out, "<section><div class=\"head\"><h2>Bytes against time</h2><span "
                           "class=\"note\">plans that no other plan found beats in both</span>"
                           "</div>\n");
    page_plot(p, WIDE);
    page_plot(p, NARROW);
    page_table(p);
    file_out_print(p->out, "</section>\n");
}

Err fit_html(Pool *pool, const char *path, const FitResult *fit, int64_t budget_bytes,
             const FitPoint *points, int n_points)
{
    FitPage p = { pool, NEW(pool, FileOut), fit, budget_bytes, points, n_points };
    TRY(file_out_init(p.out, path));
    html_head(p.out, fit->recipe->name, "a plan within its budget");
    page_header(&p);
    page_changes(&p);
    page_curve(&p);
    file_out_print(p.out, "<footer>Times by ");
    html_text(p.out, time_text(pool, fit->engine));
    file_out_print(p.out, ".</footer>\n");
    html_end(p.out);
    return file_out_done(p.out, OK);
}
