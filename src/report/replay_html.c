/* replay_html.c -- one file that opens offline: settings, memory over the events, fragmentation,
 * what was live. It has the style of explain's page and needs no script to be read. */
#include "report/replay_pages.h"

#include "base/text.h"
#include "report/html.h"

enum { PLOT_WIDTH = 1200, PLOT_HEIGHT = 240 };

static void html_check(FileOut *out, const ReplayDifference *c)
{
    if (c->equal && c->ends_equal)
        file_out_print(out,
                       "<span class=\"chip good\">The model reproduces the recording: all %s "
                       "events and every block</span>",
                       count_text(c->n_events));
    else
        file_out_print(out,
                       "<span class=\"chip fair\">The model reproduces %s of %s events; from "
                       "there on the figures are estimates</span>",
                       count_text(c->n_equal), count_text(c->n_events));
}

static void html_summary(FileOut *out, const char *recording, const ReplayAll *all)
{
    const ReplayRun *recorded = &all->runs[0], *best = recorded;
    for (int32_t i = 1; i < all->n_runs; i++)
        if (all->runs[i].oom_event < 0 &&
            replay_saved(all, &all->runs[i]) > replay_saved(all, best))
            best = &all->runs[i];
    html_header(out, recording);
    file_out_print(out, "<p id=\"about\">Device %d, recorded with ", all->snap->device);
    html_text(out, replay_name(recorded));
    file_out_print(out, "</p>\n<div id=\"tiles\">\n");
    html_tile(out, "Reserved peak",
              bytes_text(recorded->stats.of[STAT_RESERVED_BYTES][STAT_ALL].peak), "what must fit");
    html_tile(out, "Allocated peak",
              bytes_text(recorded->stats.of[STAT_ALLOCATED_BYTES][STAT_ALL].peak),
              "handed out to tensors");
    html_tile(out, "Reserved and not allocated", bytes_text(recorded->unused_bytes),
              "at the reserved peak");
    html_tile(out, "Saved by the best setting", bytes_text(replay_saved(all, best)),
              best == recorded ? "none saves memory" : "of the reserved peak");
    file_out_print(out, "</div>\n<div id=\"budgets\">");
    html_check(out, &all->check);
    file_out_print(out, "</div></header>\n<main>\n");
}

static const char *html_outcome(const ReplayAll *all, const ReplayRun *run)
{
    if (run->oom_event >= 0)
        return "<span class=\"chip bad\">out of memory</span>";
    if (run->n_avoided_ooms)
        return "<span class=\"chip good\">avoids the failure</span>";
    if (run->n_recorded_ooms && all->capacity_bytes)
        return "<span class=\"chip bad\">out of memory</span>";
    return "";
}

static void html_runs(FileOut *out, const ReplayAll *all)
{
    file_out_print(out, "<section id=\"settings\"><div class=\"head\"><h2>Settings</h2></div>"
                        "<div class=\"scroll\"><table><tr><th "
                        "class=\"name\">PYTORCH_CUDA_ALLOC_CONF</th><th>reserved "
                        "peak</th><th>allocated peak</th><th>saved</th><th>unused at the peak</th>"
                        "<th>retries</th><th></th></tr>\n");
    for (int32_t i = 0; i < all->n_runs; i++) {
        const ReplayRun *run = &all->runs[i];
        int64_t          saved = replay_saved(all, run);
        file_out_print(out, "<tr><td class=\"name mono\">");
        html_text(out, replay_name(run));
        file_out_print(out,
                       "%s</td><td>%s</td><td>%s</td><td>%s%s</td><td>%s</td><td>%lld</td>"
                       "<td>%s</td></tr>\n",
                       i ? "" : " (as recorded)",
                       bytes_text(run->stats.of[STAT_RESERVED_BYTES][STAT_ALL].peak),
                       bytes_text(run->stats.of[STAT_ALLOCATED_BYTES][STAT_ALL].peak),
                       saved < 0 ? "-" : "", i ? bytes_text(saved < 0 ? -saved : saved) : "",
                       bytes_text(run->unused_bytes), (long long)run->stats.num_alloc_retries,
                       html_outcome(all, run));
    }
    file_out_print(out, "</table></div></section>\n");
}

static void html_line(FileOut *out, const int64_t *line, double most)
{
    int64_t before = 0;
    for (int i = 0; i < REPLAY_POINTS; i++) {
        int64_t bytes = line[i] ? line[i] : before; /* fewer events than points */
        file_out_print(out, " %.1f,%.1f", (double)i * PLOT_WIDTH / (REPLAY_POINTS - 1),
                       PLOT_HEIGHT - (double)bytes / most * PLOT_HEIGHT);
        before = bytes;
    }
}

static void html_plot(FileOut *out, const ReplayRun *run, double most)
{
    file_out_print(out, "<p class=\"mono\">");
    html_text(out, replay_name(run));
    file_out_print(out,
                   "</p><svg class=\"plot\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"Memory "
                   "over the events\"><polygon class=\"allocated\" points=\"0,%d",
                   PLOT_WIDTH, PLOT_HEIGHT, PLOT_HEIGHT);
    html_line(out, run->allocated_line, most);
    file_out_print(out, " %d,%d\"/><polyline class=\"reserved\" points=\"", PLOT_WIDTH,
                   PLOT_HEIGHT);
    html_line(out, run->reserved_line, most);
    file_out_print(out, "\"/></svg>\n");
}

static void html_plots(FileOut *out, const ReplayAll *all)
{
    double most = 1;
    for (int32_t i = 0; i < all->n_runs; i++) {
        double peak = (double)all->runs[i].stats.of[STAT_RESERVED_BYTES][STAT_ALL].peak;
        most = peak > most ? peak : most;
    }
    file_out_print(
        out,
        "<section id=\"events\"><div class=\"head\"><h2>Memory over the events</h2><span "
        "class=\"note\">line: reserved, area: allocated, height: %s</span></div>\n",
        bytes_text((int64_t)most));
    for (int32_t i = 0; i < all->n_runs; i++)
        html_plot(out, &all->runs[i], most);
    file_out_print(out, "</section>\n");
}

static void html_gaps(FileOut *out, const ReplayRun *run)
{
    file_out_print(
        out,
        "<section id=\"gaps\"><div class=\"head\"><h2>Where fragmentation sits</h2><span "
        "class=\"note\">at the reserved peak, event %d: %s reserved and not allocated"
        "</span></div><div class=\"scroll\"><table><tr><th>segment</th><th "
        "class=\"name\">pool</th><th>size"
        "</th><th>free</th><th>gaps</th><th>largest gap</th><th>at offset</th></tr>\n",
        run->reserved_peak_event, bytes_text(run->unused_bytes));
    for (int32_t i = 0; i < run->n_gaps; i++) {
        const ReplayGap *gap = &run->gaps[i];
        file_out_print(out,
                       "<tr><td>%d</td><td class=\"name\">%s%s</td><td>%s</td><td>%s</td><td>%d"
                       "</td><td>%s</td><td>%lld</td></tr>\n",
                       gap->segment, gap->small ? "small" : "large",
                       gap->expandable ? ", expandable" : "", bytes_text(gap->segment_bytes),
                       bytes_text(gap->segment_free_bytes), gap->n_gaps,
                       bytes_text(gap->largest_bytes), (long long)gap->offset);
    }
    file_out_print(out, "</table></div></section>\n");
}

static void html_lines(FileOut *out, const ReplayRun *run)
{
    file_out_print(out,
                   "<section id=\"live\"><div class=\"head\"><h2>Live at the allocated peak</h2>"
                   "<span class=\"note\">event %d, %s blocks</span></div><div "
                   "class=\"scroll\"><table><tr><th>bytes</th>"
                   "<th>blocks</th><th>largest</th><th class=\"name\">line</th></tr>\n",
                   run->allocated_peak_event, count_text(run->n_live));
    for (int32_t i = 0; i < run->n_lines; i++) {
        const ReplayLine *line = &run->lines[i];
        file_out_print(out, "<tr><td>%s</td><td>%d</td><td>%s</td><td class=\"name mono\">",
                       bytes_text(line->bytes), line->n, bytes_text(line->largest_bytes));
        html_text(out, *line->line ? line->line : "(not recorded)");
        file_out_print(out, "</td></tr>\n");
    }
    file_out_print(out, "</table></div></section>\n");
}

Err replay_html(Pool *pool, const char *path, const char *recording, const ReplayAll *all)
{
    FileOut *out = NEW(pool, FileOut);
    TRY(file_out_init(out, path));
    html_head(out, recording, "PyTorch's allocator replayed");
    html_summary(out, recording, all);
    html_runs(out, all);
    html_plots(out, all);
    html_gaps(out, &all->runs[0]);
    html_lines(out, &all->runs[0]);
    html_end(out);
    return file_out_done(out, OK);
}
