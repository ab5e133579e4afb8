/* explain_md.c -- a memory report in Markdown: components with shapes and sizes, totals, ranked
 * bottlenecks, recommendations with verified savings, configuration. */
#include "report/explain_pages.h"

#include "fit/whatif.h"
#include "report/curve.h"
#include "report/machine.h"

#include <string.h>

enum { MD_ROWS = 20 };

typedef struct Md {
    Text            *to;
    const Explained *e;
    Pool            *pool;
} Md;

static double md_share(const Md *m, int64_t bytes)
{
    return 100.0 * (double)bytes / (double)m->e->sheet->peak_bytes;
}

static void md_row(const Md *m, const char *name, int64_t bytes)
{
    text_add(m->to, "| %s | %s | %s | %.1f %% |\n", name, count_text(bytes), bytes_text(bytes),
             md_share(m, bytes));
}

static void md_foot(const Md *m)
{
    md_row(m, "(gaps)", m->e->sheet->gap_bytes);
    text_add(m->to, "| **= peak** | **%s** | **%s** | **100 %%** |\n",
             count_text(m->e->sheet->peak_bytes), bytes_text(m->e->sheet->peak_bytes));
}

static void md_summary(const Md *m)
{
    const Explained *e = m->e;
    const Sheet     *s = e->sheet;
    text_add(m->to, "# Memory of one training step: %s\n\n", md_name(m->pool, e->recipe->name));
    text_add(m->to, "%s parameters, %s of them trained; batch %lld x %lld, %s, on %s.\n\n",
             count_text(s->parameters), count_text(s->trained), (long long)e->recipe->batch,
             (long long)e->recipe->accumulate, recipe_precisions[e->recipe->precision],
             md_name(m->pool, device_text(m->pool, e->device)));
    text_add(m->to,
             "With everything kept, one step needs **%s bytes (%s)**. The peak is in phase "
             "%s, at `%s`. ",
             count_text(s->peak_bytes), bytes_text(s->peak_bytes), phase_public_name(s->phase),
             node_text(s->engine->graph, s->node));
    if (e->minimum_bytes)
        text_add(m->to,
                 "The minimum budget is at most %s bytes (%s): %s; "
                 "`plimsoll fit` searches longer. ",
                 count_text(e->minimum_bytes + e->device->runtime_bytes),
                 bytes_text(e->minimum_bytes + e->device->runtime_bytes), e->minimum_how);
    text_add(m->to, "Every number here was computed by `plimsoll explain`; every table of the "
                    "peak adds up to it.\n\n");
    for (int32_t i = 0; i < e->n_notes; i++)
        text_add(m->to, "- %s%s", e->notes[i], i + 1 < e->n_notes ? "\n" : "\n\n");
    text_add(m->to, "Predicted time of a step: %s, by %s.\n\n",
             step_text(m->pool, e->step_ms * 1e6 * engine_pace(s->engine)),
             md_name(m->pool, time_text(m->pool, s->engine)));
}

static const char *md_largest(int64_t batch)
{
    return batch < 0 ? "not searched for" : batch ? count_text(batch) : "none";
}

static void md_budgets(const Md *m)
{
    static const char *const words[] = { "yes, with everything kept", "yes, re-planned",
                                         "no plan was found", "not searched for" };
    text_add(m->to, "## Does it fit?\n\n| budget | fits | largest batch, everything kept | "
                    "largest batch found, re-planned |\n|---|---|---|---|\n");
    for (int32_t i = 0; i < m->e->n_budgets; i++) {
        const Budget *b = &m->e->budgets[i];
        text_add(m->to, "| %s | %s | %s | %s |\n", bytes_text(b->asked_bytes), words[b->verdict],
                 md_largest(b->largest_batch), md_largest(b->largest_replanned));
    }
    text_add(m->to, "\n");
}

static void md_batch(const Md *m)
{
    text_add(m->to, "### The batch as the data gives it\n\n| tensor | shape | bytes | "
                    "|\n|---|---|---|---|\n");
    for (int32_t i = 0; i < m->e->n_batch; i++) {
        const BatchItem *b = &m->e->batch[i];
        text_add(m->to, "| `%s` | %s %s | %s | %s%s |\n", b->name, shape_text(b->shape),
                 type_name(b->type), count_text(b->bytes),
                 b->view_of ? "a view of "
                 : b->read  ? ""
                            : "not read by the step",
                 b->view_of ? b->view_of : "");
    }
    text_add(m->to, "| **total** | | **%s** | |\n\n", count_text(m->e->batch_bytes));
}

/* The largest tensors of a class at the peak, equal ones together. */
static void md_class(const Md *m, Class mem_class, const char *heading)
{
    int shown = 0;
    if (!m->e->sheet->classes[mem_class])
        return;
    text_add(m->to,
             "### %s: %s\n\n| tensors | shape | each | bytes | module "
             "|\n|---|---|---|---|---|\n",
             heading, bytes_text(m->e->sheet->classes[mem_class]));
    int64_t rest = m->e->sheet->classes[mem_class];
    for (int32_t i = 0; i < m->e->n_bottlenecks && shown < MD_ROWS; i++) {
        const Bottleneck *b = &m->e->bottlenecks[i];
        size_t            n = strlen(class_name(mem_class));
        if (!b->each || strncmp(b->what, class_name(mem_class), n) ||
            (b->what[n] && b->what[n] != ' '))
            continue;
        text_add(m->to, "| %d | %s | %s | %s | `%s` |\n", b->n,
                 b->what[n] ? b->what + n + 1 : "workspace", bytes_text(b->each),
                 count_text(b->bytes), b->where);
        rest -= b->bytes;
        shown++;
    }
    if (rest > 0)
        text_add(m->to, "| others | | | %s | |\n", count_text(rest));
    text_add(m->to, "\n");
}

static void md_components(const Md *m)
{
    const Sheet *s = m->e->sheet;
    text_add(m->to, "## Components\n\n");
    md_batch(m);
    text_add(m->to, "### State at the peak\n\n| class | numbers | bytes |\n|---|---|---|\n");
    for (int c = CLASS_PARAMETERS; c <= CLASS_CONSTANTS; c++)
        if (s->classes[c]) /* all state but the parameters is fp32 */
            text_add(m->to, "| %s | %s | %s (%s) |\n", class_name((Class)c),
                     c == CLASS_PARAMETERS  ? count_text(s->parameters)
                     : c == CLASS_CONSTANTS ? ""
                                            : count_text(s->classes[c] / 4),
                     count_text(s->classes[c]), bytes_text(s->classes[c]));
    text_add(m->to, "\n");
    md_class(m, CLASS_INPUTS, "Inputs and noise at the peak");
    md_class(m, CLASS_ACTIVATIONS, "Activations kept for backward");
    md_class(m, CLASS_SKIPS, "Skip connections");
    md_class(m, CLASS_ATTENTION, "Attention");
    md_class(m, CLASS_WORKSPACE, "Workspace of the running call");
    if (!m->e->n_avoided)
        return;
    text_add(m->to, "### Never stored\n\n| what a plain implementation would store | each | how "
                    "many | why not here |\n|---|---|---|---|\n");
    for (int32_t i = 0; i < m->e->n_avoided && i < MD_ROWS; i++)
        text_add(m->to, "| %s | %s | %d | %s |\n", m->e->avoided[i].name,
                 count_text(m->e->avoided[i].bytes), m->e->avoided[i].count,
                 m->e->avoided[i].reason);
    text_add(m->to, "\n");
}

static void md_rows(const Md *m, const char *heading, const char *column, const SheetRow *rows,
                    int32_t n)
{
    int64_t left = m->e->sheet->live_bytes;
    int32_t own = 0, shown = 0;
    text_add(m->to, "## %s\n\n| %s | bytes | | share |\n|---|---|---|---|\n", heading, column);
    for (int32_t i = 0; i < n; i++)
        own += rows[i].bytes > 0;
    for (; shown < own && shown < MD_ROWS; shown++) {
        md_row(m, pool_print(m->pool, "`%s`", rows[shown].name), rows[shown].bytes);
        left -= rows[shown].bytes;
    }
    if (own > shown)
        md_row(m, pool_print(m->pool, "%d more", own - shown), left);
    md_foot(m);
    text_add(m->to, "\n");
}

static void md_totals(const Md *m)
{
    text_add(m->to, "## Totals at the peak\n\n| class | bytes | | share |\n|---|---|---|---|\n");
    for (int c = 0; c < CLASS_COUNT; c++)
        if (m->e->sheet->classes[c])
            md_row(m, class_name((Class)c), m->e->sheet->classes[c]);
    md_foot(m);
    text_add(m->to, "\n| phase | runs | steps from one to the next | highest byte of the arena "
                    "|\n|---|---|---|---|\n");
    for (int32_t i = 0; i < m->e->n_phases; i++)
        text_add(m->to, "| %s | %lld | %s | %s (%s) |\n", m->e->phases[i].name,
                 (long long)m->e->phases[i].repeat,
                 m->e->phases[i].every ? count_text(m->e->phases[i].every) : "end",
                 count_text(m->e->phases[i].peak_bytes), bytes_text(m->e->phases[i].peak_bytes));
    text_add(m->to, "\n");
}

static void md_bottlenecks(const Md *m)
{
    text_add(m->to, "## Bottlenecks, ranked\n\n");
    for (int32_t i = 0; i < m->e->n_bottlenecks && i < 12; i++) {
        const Bottleneck *b = &m->e->bottlenecks[i];
        text_add(m->to, "%d. **%s** in `%s`: %s%s (%.1f %%)\n", i + 1, b->what, b->where,
                 b->each ? pool_print(m->pool, "%d x %s = ", b->n, bytes_text(b->each)) : "",
                 bytes_text(b->bytes), md_share(m, b->bytes));
    }
    text_add(m->to, "\n");
}

static void md_what_if(const Md *m)
{
    const Explained *e = m->e;
    if (!e->n_what_if)
        return;
    text_add(m->to, "## Recommendations, each re-planned\n\n| change | saves | peak then | time | "
                    "effort | how |\n|---|---|---|---|---|---|\n");
    for (int32_t i = 0; i < e->n_what_if; i++) {
        const WhatIf *w = &e->what_if[i];
        const char   *note = w->note ? pool_print(m->pool, " (%s)", w->note) : "";
        if (w->failed)
            text_add(m->to, "| %s | | | | %s | `%s`%s |\n", w->name, effort_words[w->effort],
                     w->how, note);
        else
            text_add(m->to, "| %s | %s%s | %s | %+.1f %% | %s | `%s`%s |\n", w->name,
                     w->saved_bytes < 0 ? "-" : "",
                     bytes_text(w->saved_bytes < 0 ? -w->saved_bytes : w->saved_bytes),
                     bytes_text(w->peak_bytes), more_percent(w->slowdown), effort_words[w->effort],
                     w->how, note);
    }
    text_add(m->to,
             "\nTime by %s. Immediate: a flag; short: a value of the recipe; long: another "
             "model or other training.\n\n",
             md_name(m->pool, time_text(m->pool, e->sheet->engine)));
    text_add(m->to, "## Believed, but not so\n\n");
    for (int32_t i = 0; i < e->n_beliefs; i++)
        text_add(m->to, "- *%s* %s\n", e->beliefs[i].belief, e->beliefs[i].truth);
    text_add(m->to, "\n");
}

/* With --budget or --plan: the plan beside everything kept. */
static void md_plan(const Md *m)
{
    const FitResult *r = m->e->fit;
    const Sheet     *kept = m->e->sheet, *now = m->e->fit_sheet;
    if (!r)
        return;
    text_add(m->to, "## The plan\n\n%s %s bytes (%s), %+.1f %% of the step's time%s.\n\n",
             r->fits ? "It fits:" : "Nothing fits; the smallest found is",
             count_text(now->peak_bytes), bytes_text(now->peak_bytes),
             more_percent(r->step_ns / (m->e->step_ms * 1e6)),
             r->cut ? "; the search was cut off" : "");
    if (r->n_changes)
        text_add(m->to, "| lever | from | to | |\n|---|---|---|---|\n");
    for (int i = 0; i < r->n_changes; i++)
        text_add(m->to, "| %s | %s | %s | %s |\n", r->changes[i].what, r->changes[i].from,
                 r->changes[i].to,
                 r->changes[i].exact ? "changes no number" : "rounding may change");
    text_add(m->to, "\n| class | everything kept | this plan |\n|---|---|---|\n");
    for (int c = 0; c < CLASS_COUNT; c++)
        if (kept->classes[c] || now->classes[c])
            text_add(m->to, "| %s | %s | %s |\n", class_name((Class)c),
                     count_text(kept->classes[c]), count_text(now->classes[c]));
    text_add(m->to, "| (gaps) | %s | %s |\n| **= peak** | **%s** | **%s** |\n\n",
             count_text(kept->gap_bytes), count_text(now->gap_bytes), count_text(kept->peak_bytes),
             count_text(now->peak_bytes));
}

static void md_curve(const Md *m)
{
    if (!m->e->n_curve)
        return;
    text_add(m->to, "## Budget against time\n\nPlans that no other plan found beats in both.\n\n"
                    "| peak | time | micro-batch | recomputed | |\n|---|---|---|---|---|\n");
    for (int i = 0; i < m->e->n_curve; i++) {
        const FitPoint *p = &m->e->curve[i];
        text_add(m->to, "| %s | %+.1f %% | %lld x %lld | %d | %s |\n", bytes_text(p->peak_bytes),
                 more_percent(p->step_ns / (m->e->step_ms * 1e6)), (long long)p->batch,
                 (long long)p->accumulate, p->recomputed, point_text(m->pool, m->e->recipe, p));
    }
    text_add(m->to, "\n");
}

/* The recipe's keys as a flat table. */
static void md_keys(const Md *m, const Json *value, const char *path)
{
    if (value->kind == JSON_OBJECT) {
        for (uint32_t i = 0; i < value->n; i++)
            md_keys(m, &value->members[i].value,
                    *path ? pool_print(m->pool, "%s.%s", path, value->members[i].key)
                          : value->members[i].key);
        return;
    }
    Text    text = { .pool = m->pool };
    JsonOut o;
    if (value->kind == JSON_NULL)
        return;
    json_out_text(&o, &text, JSON_COMPACT);
    json_out_value(&o, NULL, value);
    text_add(m->to, "| `%s` | %s |\n", path, text.at);
}

static Err md_configuration(const Md *m)
{
    Text        text = { .pool = m->pool };
    const Json *root;
    JsonOut     o;
    json_out_text(&o, &text, JSON_COMPACT);
    json_out_object(&o, NULL);
    recipe_json(m->pool, m->e->recipe, &o);
    json_out_end(&o);
    TRY(json_out_done(&o));
    TRY(json_parse(m->pool, "recipe", text.at, text.n, 0, &root));
    text_add(m->to, "## Configuration\n\n| key | value |\n|---|---|\n");
    md_keys(m, root, "");
    return OK;
}

Err explain_md(Text *to, const Explained *e)
{
    Md m = { to, e, to->pool };
    md_summary(&m);
    md_budgets(&m);
    md_components(&m);
    md_totals(&m);
    md_bottlenecks(&m);
    md_plan(&m);
    md_what_if(&m);
    md_curve(&m);
    md_rows(&m, "By module (own bytes)", "module", e->sheet->modules, e->sheet->n_modules);
    md_rows(&m, "By line of the model", "line", e->sheet->lines, e->sheet->n_lines);
    return md_configuration(&m);
}
