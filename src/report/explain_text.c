/* explain_text.c -- the balance sheet on a terminal: tables of at most 100 columns. */
#include "report/explain_pages.h"

#include "fit/whatif.h"
#include "report/machine.h"
#include "report/rank_pages.h"

#include <string.h>

enum { ROWS = 12 };           /* of each table; the rest is summed in one row */
enum { NAME = 42, BAR = 18 }; /* columns */
enum { PLOT_WIDTH = 84, PLOT_HEIGHT = 6 };

typedef struct TextPage {
    FILE            *to;
    const Explained *e;
    int64_t          whole; /* bytes that are 100 % */
    bool             colour;
} TextPage;

static void title(const TextPage *p, const char *text)
{
    fprintf(p->to, p->colour ? "\n\033[1m%s\033[0m\n" : "\n%s\n", text);
}

/* Shortens a name from the front, because its end says more. */
static const char *last(const char *name, int width)
{
    static _Thread_local char shown[2][96];
    static _Thread_local int  next;
    int                       n = (int)strlen(name);
    if (n <= width)
        return name;
    next = !next;
    snprintf(shown[next], sizeof shown[next], "..%s", name + n - width + 2);
    return shown[next];
}

static void numbers(const TextPage *p, const char *name, int64_t bytes)
{
    double share = p->whole ? (double)bytes / (double)p->whole : 0;
    fprintf(p->to, "  %-*s %17s %10s %5.1f%%  ", NAME, last(name, NAME), count_text(bytes),
            bytes_text(bytes), 100 * share);
}

static void row(const TextPage *p, const char *name, int64_t bytes)
{
    double share = p->whole ? (double)bytes / (double)p->whole : 0;
    int    full = (int)(share * BAR + 0.5);
    numbers(p, name, bytes);
    fputs(p->colour ? "\033[36m" : "", p->to);
    for (int i = 0; i < BAR && i < (full ? full : bytes > 0); i++)
        fputs(full ? "#" : "|", p->to);
    fputs(p->colour ? "\033[0m\n" : "\n", p->to);
}

static void row_text(const TextPage *p, const char *name, int64_t bytes, const char *text)
{
    numbers(p, name, bytes);
    fprintf(p->to, "%s\n", last(text, BAR));
}

static void foot(const TextPage *p, int32_t more, int64_t left)
{
    char name[64];
    snprintf(name, sizeof name, "(%d more)", more);
    if (more > 0)
        row(p, name, left);
    row(p, "(gaps)", p->e->sheet->gap_bytes);
    row(p, "= peak", p->e->sheet->peak_bytes);
}

static void table(const TextPage *p, const char *heading, const SheetRow *rows, int32_t n)
{
    int64_t left = p->e->sheet->live_bytes;
    int32_t shown = 0, own = 0;
    title(p, heading);
    for (int32_t i = 0; i < n; i++)
        own += rows[i].bytes > 0;
    for (; shown < own && shown < ROWS; shown++) {
        row(p, rows[shown].name, rows[shown].bytes);
        left -= rows[shown].bytes;
    }
    foot(p, own - shown, left);
}

static void heading(const TextPage *p)
{
    const Explained *e = p->e;
    const Sheet     *s = e->sheet;
    const Recipe    *r = e->recipe;
    print_sentence(p->to, "%s: %s parameters, %s trained; batch %lld x %lld, %s, on %s", r->name,
                   count_text(s->parameters), count_text(s->trained), (long long)r->batch,
                   (long long)r->accumulate, recipe_precisions[r->precision],
                   device_text(s->engine->graph->pool, e->device));
    fprintf(p->to,
            p->colour ? "One training step needs \033[1m%s bytes (%s)\033[0m with "
                        "everything kept.\n"
                      : "One training step needs %s bytes (%s) with everything kept.\n",
            count_text(s->peak_bytes), bytes_text(s->peak_bytes));
    fprintf(p->to, "The peak is in phase %s, at %s.\n", phase_public_name(s->phase),
            last(node_text(s->engine->graph, s->node), 60));
    for (int32_t i = 0; i < e->n_notes; i++)
        print_sentence(p->to, "%s", e->notes[i]);
}

static void classes(const TextPage *p)
{
    title(p, "by class");
    for (int c = 0; c < CLASS_COUNT; c++)
        if (p->e->sheet->classes[c])
            row(p, class_name((Class)c), p->e->sheet->classes[c]);
    foot(p, 0, 0);
}

static void bottlenecks(const TextPage *p)
{
    int64_t left = p->e->sheet->live_bytes;
    int32_t shown = 0;
    title(p, "bottlenecks: state by class, everything else by shape; the module that holds them");
    for (; shown < p->e->n_bottlenecks && shown < ROWS; shown++) {
        const Bottleneck *b = &p->e->bottlenecks[shown];
        char              name[96];
        snprintf(name, sizeof name, b->each ? "%d. %d x %s" : "%d. %d %s", shown + 1, b->n,
                 b->what);
        row_text(p, name, b->bytes, b->where);
        left -= b->bytes;
    }
    foot(p, p->e->n_bottlenecks - shown, left);
}

static void tensors(const TextPage *p)
{
    const Sheet *s = p->e->sheet;
    int64_t      left = s->live_bytes;
    int32_t      shown = 0;
    title(p, "largest tensors at the peak, and the node that reads each last");
    for (; shown < s->n_live && shown < ROWS; shown++) {
        const char *until = live_until(s, &s->live[shown]);
        row_text(p, live_name(s, &s->live[shown]), s->live[shown].bytes,
                 until ? until : "(persistent)");
        left -= s->live[shown].bytes;
    }
    foot(p, s->n_live - shown, left);
}

static const char *phase_text(const TextPage *p, const PhaseRow *phase)
{
    return phase->every > 1 ? pool_print(p->e->sheet->engine->graph->pool, "%s (every %s steps)",
                                         phase->name, count_text(phase->every))
                            : phase->name;
}

static void phases(const TextPage *p)
{
    title(p, "by phase (highest byte of the arena)");
    for (int32_t i = 0; i < p->e->n_phases; i++)
        row(p, phase_text(p, &p->e->phases[i]), p->e->phases[i].peak_bytes);
}

/* Live bytes at every run of the program with the peak; each column shows the largest of its
 * runs. */
static void over_time(const TextPage *p)
{
    const Program *program = p->e->sheet->program;
    const Graph   *graph = p->e->sheet->engine->graph;
    int64_t        elsewhere = program->live_bytes - program->meter.live_bytes;
    int64_t        highest[PLOT_WIDTH] = { 0 };
    char           kind[PLOT_WIDTH + 1] = { 0 };
    int32_t        runs = 0, at = 0;
    for (int32_t s = 0; s < program->plan->n_steps; s++)
        runs += program->plan->steps[s].kind == STEP_RUN;
    int width = runs < PLOT_WIDTH ? runs : PLOT_WIDTH;
    for (int32_t s = 0; s < program->plan->n_steps; s++) {
        if (program->plan->steps[s].kind != STEP_RUN)
            continue;
        const Node *node = &graph->nodes[program->node_of[program->plan->steps[s].id]];
        int         column = (int)((int64_t)at++ * width / runs);
        int64_t     live = program->meter.curve[s] + elsewhere;
        highest[column] = live > highest[column] ? live : highest[column];
        kind[column] = node->phase == PHASE_UPDATE ? '+' : node->backward ? '=' : '-';
    }
    title(p, pool_print(graph->pool,
                        "over time: live bytes at each of %s runs of %s "
                        "(- forward, = backward, + update)",
                        count_text(runs), program->name));
    for (int level = PLOT_HEIGHT; level > 0; level--) {
        fprintf(p->to, "%12s |", bytes_text(program->live_bytes / PLOT_HEIGHT * level));
        fputs(p->colour ? "\033[36m" : "", p->to);
        int     end = width;
        int64_t half = program->live_bytes / (2 * PLOT_HEIGHT) * (2 * level - 1);
        while (end > 0 && highest[end - 1] < half)
            end--;
        for (int x = 0; x < end; x++)
            fputc(highest[x] >= half ? '#' : ' ', p->to);
        fputs(p->colour ? "\033[0m\n" : "\n", p->to);
    }
    fprintf(p->to, "%12s |%s\n", "", kind);
}

static const char *batch_text(const TextPage *p, int64_t batch)
{
    return batch < 0 ? "-"
           : batch   ? count_text(batch)
                     : pool_text(p->e->sheet->engine->graph->pool, "none");
}

static void budgets(const TextPage *p)
{
    static const char *const words[] = { "fits with everything kept", "fits re-planned",
                                         "no plan found", "only re-planned, if at all" };
    static const char *const colours[] = { "\033[32m", "\033[33m", "\033[31m", "\033[31m" };
    const Explained         *e = p->e;
    bool                     replanned = false;
    for (int32_t i = 0; i < e->n_budgets; i++)
        replanned |= e->budgets[i].largest_replanned >= 0;
    title(p, pool_print(e->sheet->engine->graph->pool, "%-40s %32s%s", "budgets",
                        "largest batch, everything kept", replanned ? "     re-planned" : ""));
    for (int32_t i = 0; i < e->n_budgets; i++) {
        const Budget *b = &e->budgets[i];
        fprintf(p->to, "  %-12s %s%-26s%s %31s", bytes_text(b->asked_bytes),
                p->colour ? colours[b->verdict] : "", words[b->verdict], p->colour ? "\033[0m" : "",
                batch_text(p, b->largest_batch));
        if (replanned)
            fprintf(p->to, "%15s", batch_text(p, b->largest_replanned));
        fputc('\n', p->to);
    }
    if (e->minimum_bytes)
        print_sentence(p->to,
                       "  minimum budget: at most %s bytes (%s): %s; fit searches longer and "
                       "may find less",
                       count_text(e->minimum_bytes + e->device->runtime_bytes),
                       bytes_text(e->minimum_bytes + e->device->runtime_bytes), e->minimum_how);
}

static void plan(const TextPage *p)
{
    const FitResult *r = p->e->fit;
    if (!r)
        return;
    title(p, "the plan");
    print_sentence(p->to, "%s: %s bytes (%s), %+.1f %% of the step's time%s",
                   r->fits ? "It fits" : "Nothing fits; the smallest found is",
                   count_text(r->engine->arena_bytes), bytes_text(r->engine->arena_bytes),
                   more_percent(r->step_ns / (p->e->step_ms * 1e6)),
                   r->cut ? "; the search was cut off" : "");
    changes_print(p->to, r);
    if (!r->n_changes)
        fputs("  nothing is changed, nothing is recomputed\n", p->to);
    for (int i = 0; i < r->n_notes; i++)
        print_sentence(p->to, "%s", r->notes[i]);
    const Sheet *kept = p->e->sheet, *now = p->e->fit_sheet;
    fprintf(p->to, "  %-20s %20s %20s\n", "", "everything kept", "this plan");
    for (int c = 0; c < CLASS_COUNT; c++)
        if (kept->classes[c] || now->classes[c])
            fprintf(p->to, "  %-20s %20s %20s\n", class_name((Class)c),
                    count_text(kept->classes[c]), count_text(now->classes[c]));
    fprintf(p->to, "  %-20s %20s %20s\n", "(gaps)", count_text(kept->gap_bytes),
            count_text(now->gap_bytes));
    fprintf(p->to, "  %-20s %20s %20s\n", "= peak", count_text(kept->peak_bytes),
            count_text(now->peak_bytes));
}

static const char *saved_text(const TextPage *p, int64_t bytes)
{
    return bytes >= 0 ? bytes_text(bytes)
                      : pool_print(p->e->sheet->engine->graph->pool, "-%s", bytes_text(-bytes));
}

static void what_if(const TextPage *p)
{
    if (!p->e->n_what_if)
        return;
    title(p,
          pool_print(p->e->sheet->engine->graph->pool, "%-48s %10s %10s %9s  %s",
                     "what would help, each re-planned", "saves", "peak then", "time", "effort"));
    for (int32_t i = 0; i < p->e->n_what_if; i++) {
        const WhatIf *w = &p->e->what_if[i];
        if (w->failed)
            fprintf(p->to, "  %-46.46s %31s  %s\n", w->name,
                    w->cut ? "(not reached)" : "(not possible)", effort_words[w->effort]);
        else
            fprintf(p->to, "  %-46.46s %10s %10s %+8.1f%%  %s%s\n", w->name,
                    saved_text(p, w->saved_bytes), bytes_text(w->peak_bytes),
                    more_percent(w->slowdown), effort_words[w->effort], w->cut ? " (cut)" : "");
        print_sentence(p->to, "      %s%s%s", w->how, w->note ? "; " : "", w->note ? w->note : "");
    }
    print_sentence(p->to, "immediate: a flag; short: a value of the recipe; long: another model or "
                          "other training; time relative to the recipe as it is");
    title(p, "believed, but not so");
    for (int32_t i = 0; i < p->e->n_beliefs; i++)
        print_sentence(p->to, "- %s %s", p->e->beliefs[i].belief, p->e->beliefs[i].truth);
}

static void avoided(const TextPage *p)
{
    int32_t n = p->e->n_avoided < 6 ? p->e->n_avoided : 6;
    if (!n)
        return;
    title(p, "never stored, though a plain implementation would (bytes of one, and how many)");
    for (int32_t i = 0; i < n; i++)
        fprintf(p->to, "  %-27s %-42s %17s x %d\n", p->e->avoided[i].what,
                last(p->e->avoided[i].where, 42), count_text(p->e->avoided[i].bytes),
                p->e->avoided[i].count);
}

void explain_text_sheet(FILE *to, const Explained *e, bool colour)
{
    const Sheet *s = e->sheet;
    TextPage     p = { to, e, s->peak_bytes, colour };
    heading(&p);
    classes(&p);
    bottlenecks(&p);
    table(&p, "by module (own bytes)", s->modules, s->n_modules);
    table(&p, "by line of the model", s->lines, s->n_lines);
    tensors(&p);
    phases(&p);
    rank_rows_print(to, e);
    over_time(&p);
}

void explain_text_rest(FILE *to, const Explained *e, bool colour)
{
    const Sheet *s = e->sheet;
    TextPage     p = { to, e, s->peak_bytes, colour };
    budgets(&p);
    plan(&p);
    avoided(&p);
    what_if(&p);
    Pool *pool = s->engine->graph->pool;
    fputc('\n', to);
    print_sentence(to, "the batch as the data gives it: %s bytes", count_text(e->batch_bytes));
    print_sentence(to, "%s", runtime_text(pool, e->device, e->runtime_bytes));
    print_sentence(to, "predicted time of a step: %s, by %s",
                   step_text(pool, e->step_ms * 1e6 * engine_pace(s->engine)),
                   time_text(pool, s->engine));
}
