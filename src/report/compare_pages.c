/* compare_pages.c -- a comparison as text, JSON and Markdown. */
#include "report/compare_pages.h"

#include "report/machine.h"

#include <string.h>

enum { PAGE_BUDGETS = 6, NAME_MAX = 25 }; /* budgets side by side, and columns of a name */

/* "yes"; "+5.7%" for a plan that is that much slower; "re-plan" if none was searched for; "no";
 * "?". */
static const char *cell_text(const CompareCell *cell, char *room, size_t n)
{
    if (cell->verdict == VERDICT_NO)
        return "no";
    if (cell->verdict == VERDICT_UNKNOWN)
        return "?";
    if (cell->verdict == VERDICT_FITS)
        return "yes";
    if (!cell->planned)
        return "re-plan";
    snprintf(room, n, "%+.1f%%%s", 100 * (cell->slowdown - 1), cell->cut ? "*" : "");
    return room;
}

/* "24 GiB", "1.86GiB", "80%kept": seven characters. */
static const char *budget_text(const Comparison *c, int32_t b, char *room, size_t n)
{
    int64_t     bytes = c->budgets[b];
    const char *text = bytes_text(bytes);
    if (compare_share(c, b))
        snprintf(room, n, "%skept", c->shares[b]);
    else if (bytes % ((int64_t)1 << 30) == 0)
        snprintf(room, n, "%lld GiB", (long long)(bytes >> 30));
    else
        snprintf(room, n, strlen(text) > 7 ? "%.*s%s" : "%.*s %s", (int)strcspn(text, " "), text,
                 strchr(text, ' ') + 1);
    return room;
}

static void compare_block(FILE *to, const Comparison *c, int32_t first, int32_t last, bool colour)
{
    static const char *const colours[] = { "\033[32m", "\033[33m", "\033[31m", "\033[0m" };
    char                     room[32];
    fprintf(to, colour ? "\033[1m%-*s %7s %8s %8s" : "%-*s %7s %8s %8s", NAME_MAX, "", "batch",
            "peak", "minimum");
    for (int32_t b = first; b < last; b++)
        fprintf(to, " %7s", budget_text(c, b, room, sizeof room));
    fputs(colour ? "\033[0m\n" : "\n", to);
    for (int32_t i = 0; i < c->n_rows; i++) {
        const CompareRow *r = &c->rows[i];
        char              batch[32];
        int               n = (int)strlen(r->name);
        fprintf(to, "%-*s", NAME_MAX, n > NAME_MAX ? r->name + n - NAME_MAX : r->name);
        if (r->error) {
            fprintf(to, " %.*s%s\n", 70, r->error, strlen(r->error) > 70 ? "..." : "");
            continue;
        }
        snprintf(batch, sizeof batch, "%lldx%lld", (long long)r->batch, (long long)r->accumulate);
        fprintf(to, " %7s %8s %8s", batch, bytes_text(r->peak_bytes),
                r->minimum_bytes ? bytes_text(r->minimum_bytes) : "?");
        for (int32_t b = first; b < last; b++)
            fprintf(to, " %s%7s%s", colour ? colours[r->cells[b].verdict] : "",
                    cell_text(&r->cells[b], room, sizeof room), colour ? "\033[0m" : "");
        fputc('\n', to);
    }
}

void compare_text(FILE *to, const Comparison *c, bool colour)
{
    for (int32_t first = 0; first < c->n_budgets || !first; first += PAGE_BUDGETS) {
        int32_t last = first + PAGE_BUDGETS < c->n_budgets ? first + PAGE_BUDGETS : c->n_budgets;
        compare_block(to, c, first, last, colour);
        fputc('\n', to);
    }
    print_sentence(to,
                   "peak: everything kept; minimum: the smallest budget found (?: time was up); "
                   "yes: fits with everything kept; +N%%: fits re-planned, that much slower by %s "
                   "(* search cut short); no: no plan was found",
                   c->time_source ? c->time_source : "roofline");
    Pool       *pool = pool_new(NULL, "compare");
    const char *planned_only = planned_only_text(pool, c->device);
    if (planned_only)
        print_sentence(to, "%s is %s", c->device->name, planned_only);
    pool_free(pool);
}

Err compare_json(FILE *to, const Comparison *c)
{
    JsonOut o;
    json_out_stream(&o, to, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_string(&o, "format", "plimsoll-compare-1");
    json_out_string(&o, "device", c->device->name);
    json_out_bool(&o, "planned_only", device_planned_only(c->device));
    json_out_string(&o, "time_source", c->time_source);
    json_out_array(&o, "rows");
    for (int32_t i = 0; i < c->n_rows; i++) {
        const CompareRow *r = &c->rows[i];
        json_out_object(&o, NULL);
        json_out_string(&o, "name", r->name);
        json_out_string(&o, "error", r->error);
        if (!r->error) {
            json_out_int(&o, "parameters", r->parameters);
            json_out_int(&o, "trainable", r->trained);
            json_out_int(&o, "batch", r->batch);
            json_out_int(&o, "accumulate", r->accumulate);
            json_out_string(&o, "precision", r->precision);
            json_out_int(&o, "state_bytes", r->state_bytes);
            json_out_int(&o, "peak_bytes", r->peak_bytes);
            json_out_int(&o, "minimum_bytes", r->minimum_bytes);
            json_out_number(&o, "step_ms", r->step_ms);
            json_out_array(&o, "budgets");
            for (int32_t b = 0; b < c->n_budgets; b++) {
                const CompareCell *cell = &r->cells[b];
                json_out_object_row(&o, NULL);
                json_out_int(&o, "budget_bytes", cell->budget_bytes);
                json_out_string(&o, "verdict", verdict_words[cell->verdict]);
                json_out_int(&o, "peak_bytes", cell->peak_bytes);
                if (cell->planned && cell->verdict < VERDICT_NO)
                    json_out_number(&o, "slowdown", cell->slowdown);
                json_out_bool(&o, "cut", cell->cut);
                json_out_end(&o);
            }
            json_out_end(&o);
        }
        json_out_end(&o);
    }
    json_out_end(&o);
    json_out_end(&o);
    return json_out_done(&o);
}

void compare_md(Text *to, const Comparison *c)
{
    char room[32];
    text_add(to, "| variant | parameters | batch | precision | state | peak, everything kept | "
                 "minimum found |");
    for (int32_t b = 0; b < c->n_budgets; b++)
        text_add(to, compare_share(c, b) ? " %skept |" : " %s |",
                 compare_share(c, b) ? c->shares[b] : bytes_text(c->budgets[b]));
    text_add(to, "\n|---|---|---|---|---|---|---|");
    for (int32_t b = 0; b < c->n_budgets; b++)
        text_add(to, "---|");
    text_add(to, "\n");
    for (int32_t i = 0; i < c->n_rows; i++) {
        const CompareRow *r = &c->rows[i];
        if (r->error) {
            text_add(to, "| %s | %s |\n", md_name(to->pool, r->name), md_name(to->pool, r->error));
            continue;
        }
        text_add(to, "| %s | %s | %lld x %lld | %s | %s | %s | %s |", md_name(to->pool, r->name),
                 count_text(r->parameters), (long long)r->batch, (long long)r->accumulate,
                 r->precision, bytes_text(r->state_bytes), bytes_text(r->peak_bytes),
                 bytes_text(r->minimum_bytes));
        for (int32_t b = 0; b < c->n_budgets; b++)
            text_add(to, " %s |", cell_text(&r->cells[b], room, sizeof room));
        text_add(to, "\n");
    }
    text_add(to,
             "\nyes: fits with everything kept; +N%%: fits re-planned, so much slower by %s; "
             "no: no plan was found.\n",
             c->time_source ? c->time_source : "roofline");
}
