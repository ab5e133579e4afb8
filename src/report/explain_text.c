/* explain_text.c -- the balance sheet on a terminal. */
#include "report/explain.h"

#include "base/text.h"
#include "report/machine.h"

#include <string.h>

enum { ROWS = 12 };              /* of each table; the rest is one row */

static void bar(FILE *to, double share)
{
    int full = (int)(share * 24 + 0.5);
    for (int i = 0; i < 24; i++)
        fputs(i < full ? "#" : i == 0 && share > 0 ? "|" : " ", to);
}

static void row(FILE *to, const char *name, int64_t bytes, int64_t whole)
{
    double share = whole ? (double)bytes / (double)whole : 0;
    int    n = (int)strlen(name);
    fprintf(to, "  %-40s %16s %10s %5.1f%%  ", n > 40 ? name + n - 40 : name, count_text(bytes), bytes_text(bytes),
            100 * share);
    bar(to, share);
    fputs("\n", to);
}

static void rest(FILE *to, int n, int64_t bytes, int64_t whole)
{
    char name[64];
    if (n <= 0)
        return;
    snprintf(name, sizeof name, "(%d more)", n);
    row(to, name, bytes, whole);
}

static void table(FILE *to, const char *title, const SheetRow *rows, int32_t n, const Sheet *s)
{
    int64_t left = s->live_bytes;
    int32_t shown = 0, own = 0;
    fprintf(to, "\n%s\n", title);
    for (int32_t i = 0; i < n; i++)
        own += rows[i].bytes > 0;
    for (; shown < n && shown < ROWS && rows[shown].bytes > 0; shown++) {
        row(to, rows[shown].name, rows[shown].bytes, s->peak_bytes);
        left -= rows[shown].bytes;
    }
    rest(to, own - shown, left, s->peak_bytes);
    row(to, "(gaps)", s->gap_bytes, s->peak_bytes);
    row(to, "= peak", s->peak_bytes, s->peak_bytes);
}

void explain_text(FILE *to, const Explained *e)
{
    const Sheet  *s = e->sheet;
    const Recipe *r = e->recipe;
    const Graph  *graph = s->engine->graph;

    fprintf(to, "%s: %s parameters, %s trained; batch %lld x %lld, %s, on %s\n", r->name,
            count_text(s->parameters), count_text(s->trained), (long long)r->batch, (long long)r->accumulate,
            recipe_precisions[r->precision], device_text(graph->pool, s->engine->device));
    fprintf(to, "One training step needs %s bytes (%s). The peak is in phase %s, at %s.\n", count_text(s->peak_bytes),
            bytes_text(s->peak_bytes), part_name(s->part), node_text(graph, s->node));
    if (!e->budget_bytes && s->engine->device->described)
        fprintf(to, "%s can give an arena of %s: it %s%s.\n", s->engine->device->name,
                bytes_text(s->engine->device->memory_bytes), s->peak_bytes <= s->engine->device->memory_bytes ? "fits" :
                "does not fit", s->peak_bytes <= s->engine->device->memory_bytes ? "" : " with everything kept");
    if (e->budget_bytes)
        fprintf(to, "It %s the budget of %s%s.\n", s->peak_bytes <= e->budget_bytes ? "fits" : "does not fit",
                bytes_text(e->budget_bytes), s->peak_bytes <= e->budget_bytes ? "" : " with everything kept");

    fprintf(to, "\nby class\n");
    for (int c = 0; c < CLASS_COUNT; c++)
        if (s->classes[c])
            row(to, class_name((Class)c), s->classes[c], s->peak_bytes);
    row(to, "(gaps)", s->gap_bytes, s->peak_bytes);
    row(to, "= peak", s->peak_bytes, s->peak_bytes);

    table(to, "by module (own bytes)", s->modules, s->n_modules, s);
    table(to, "by line of the model", s->lines, s->n_lines, s);

    fprintf(to, "\nlargest tensors at the peak\n");
    int64_t left = s->live_bytes;
    int32_t shown = 0;
    for (; shown < s->n_live && shown < ROWS; shown++) {
        const LiveBuffer *b = &s->live[shown];
        const char *name = b->value >= 0 ? value_text(graph, b->value)
                                         : pool_print(graph->pool, "%s (workspace)", node_text(graph, b->node));
        row(to, name, b->bytes, s->peak_bytes);
        left -= b->bytes;
    }
    rest(to, s->n_live - shown, left, s->peak_bytes);
    row(to, "(gaps)", s->gap_bytes, s->peak_bytes);
    row(to, "= peak", s->peak_bytes, s->peak_bytes);

    fprintf(to, "\nby phase\n");
    for (int i = 0; i < s->engine->n_programs; i++)
        row(to, s->engine->programs[i].name, s->engine->programs[i].arena_bytes, s->peak_bytes);
    fprintf(to, "\n%s\n", runtime_text(graph->pool, s->engine->device, e->runtime_bytes));
    fprintf(to, "predicted step time %.1f ms, by %s\n", e->step_ms, time_text(graph->pool, s->engine));
}
