/* replay_text.c -- the settings side by side, fragmentation, and what was live at the peak. */
#include "report/replay_pages.h"

#include "base/text.h"

#include <string.h>

enum { NAME_COLUMNS = 46, LINE_COLUMNS = 66 };

const char *replay_name(const ReplayRun *run) { return *run->name ? run->name : "defaults"; }

int64_t replay_saved(const ReplayAll *all, const ReplayRun *run)
{
    return all->runs[0].stats.of[STAT_RESERVED_BYTES][STAT_ALL].peak -
           run->stats.of[STAT_RESERVED_BYTES][STAT_ALL].peak;
}

static const char *tail(const char *text, size_t columns) /* the end tells more of a path */
{
    size_t n = strlen(text);
    return n > columns ? text + n - columns : text;
}

static const char *saved_text(const ReplayAll *all, const ReplayRun *run)
{
    static char text[4][32];
    static int  next;
    int64_t     saved = replay_saved(all, run);
    char       *to = text[next++ % 4];
    snprintf(to, sizeof text[0], "%s%s", saved < 0 ? "-" : "",
             bytes_text(saved < 0 ? -saved : saved));
    return to;
}

static void text_check(FILE *to, const ReplayAll *all)
{
    const ReplayDifference *c = &all->check;
    print_sentence(to, "Device %d: %s events, %s reserved before the first.", all->snap->device,
                   count_text(c->n_events), bytes_text(all->start_bytes));
    if (all->snap->private_bytes)
        print_sentence(to, "%s in private pools (CUDA graphs, MemPool) are left out.",
                       bytes_text(all->snap->private_bytes));
    if (c->equal && c->ends_equal)
        print_sentence(to, "The model reproduces the recording: every event and every block.");
    else if (c->equal)
        print_sentence(to,
                       "The model reproduces every event, but the state at the end differs: %s.",
                       c->end_text);
    else
        print_sentence(to,
                       "The model reproduces %s of %s events; from there on the figures are "
                       "estimates.",
                       count_text(c->n_equal), count_text(c->n_events));
    if (all->capacity_bytes)
        print_sentence(to, "Segments may take %s%s.", bytes_text(all->capacity_bytes),
                       all->capacity_from_oom ? ", as the recorded failure shows" : "");
}

static void text_runs(FILE *to, const ReplayAll *all)
{
    fprintf(to, "\n%-*s %10s %10s %10s %7s %s\n", NAME_COLUMNS, "settings", "reserved", "allocated",
            "saved", "retries", "");
    for (int32_t i = 0; i < all->n_runs; i++) {
        const ReplayRun *run = &all->runs[i];
        fprintf(to, "%-*s %10s %10s %10s %7lld%s%s\n", NAME_COLUMNS, replay_name(run),
                bytes_text(run->stats.of[STAT_RESERVED_BYTES][STAT_ALL].peak),
                bytes_text(run->stats.of[STAT_ALLOCATED_BYTES][STAT_ALL].peak),
                i ? saved_text(all, run) : "", (long long)run->stats.num_alloc_retries,
                i ? "" : "  as recorded",
                run->oom_event >= 0                           ? "  out of memory"
                : run->n_avoided_ooms && !i                   ? "  not out of memory"
                : run->n_avoided_ooms                         ? "  avoids the failure"
                : run->n_recorded_ooms && all->capacity_bytes ? "  out of memory"
                                                              : "");
    }
    for (int32_t i = 0; i < all->n_runs; i++)
        if (all->runs[i].oom_event >= 0)
            print_sentence(to, "%s: event %d, a request of %s, is not served; figures up to it.",
                           replay_name(&all->runs[i]), all->runs[i].oom_event,
                           bytes_text(all->runs[i].oom_bytes));
}

static void text_gaps(FILE *to, const ReplayRun *run)
{
    fprintf(to, "\nFragmentation at the reserved peak (event %d): %s reserved and not allocated\n",
            run->reserved_peak_event, bytes_text(run->unused_bytes));
    if (!run->n_gaps)
        return;
    fprintf(to, "%8s %-10s %12s %12s %6s %12s %14s\n", "segment", "pool", "size", "free", "gaps",
            "largest", "at offset");
    for (int32_t i = 0; i < run->n_gaps; i++) {
        const ReplayGap *gap = &run->gaps[i];
        fprintf(to, "%8d %-10s %12s %12s %6d %12s %14lld\n", gap->segment,
                gap->expandable ? (gap->small ? "small, exp" : "large, exp")
                : gap->small    ? "small"
                                : "large",
                bytes_text(gap->segment_bytes), bytes_text(gap->segment_free_bytes), gap->n_gaps,
                bytes_text(gap->largest_bytes), (long long)gap->offset);
    }
}

static void text_lines(FILE *to, const ReplayRun *run)
{
    fprintf(to, "\nLive at the allocated peak (event %d): %s blocks\n", run->allocated_peak_event,
            count_text(run->n_live));
    if (!run->n_lines)
        return;
    fprintf(to, "%12s %7s %12s  %s\n", "bytes", "blocks", "largest", "line");
    for (int32_t i = 0; i < run->n_lines; i++) {
        const ReplayLine *line = &run->lines[i];
        fprintf(to, "%12s %7d %12s  %s\n", bytes_text(line->bytes), line->n,
                bytes_text(line->largest_bytes),
                *line->line ? tail(line->line, LINE_COLUMNS) : "(not recorded)");
    }
}

void replay_text(FILE *to, const ReplayAll *all)
{
    text_check(to, all);
    text_runs(to, all);
    text_gaps(to, &all->runs[0]);
    text_lines(to, &all->runs[0]);
}
