/* sheet.c -- collects the buffers that are live at the peak, and groups them. */
#include "fit/sheet.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static void live_add(Pool *pool, Sheet *sheet, int32_t *cap, LiveBuffer buffer)
{
    sheet->live_bytes += buffer.bytes;
    sheet->classes[buffer.mem_class] += buffer.bytes;
    VEC_ADD(pool, sheet->live, sheet->n_live, *cap, buffer);
}

void sheet_at(Pool *pool, const Engine *engine, const Program *program, int32_t step, Sheet *sheet)
{
    const Graph       *graph = engine->graph;
    const PlanBuffers *all = &program->buffers;
    int32_t            cap = 0;

    *sheet = (Sheet){ .engine = engine, .program = program, .step = step };
    for (int32_t i = 0; i < graph->n_values; i++) {
        const Value *v = value_at(graph, i);
        if (engine->offset[i] >= 0)
            live_add(pool, sheet, &cap,
                     (LiveBuffer){ i, -1, v->mem_class, v->module, v->source, v->bytes, 0,
                                   program->plan->n_steps });
    }
    /* In place, two values share a buffer for one step: the one that begins then counts. */
    int32_t *holder = NEWN(pool, int32_t, all->n_buffers + 1);
    for (int32_t i = 0; i < all->n_buffers; i++)
        holder[i] = -1;
    for (int32_t i = 0; i < all->n_ranges; i++) {
        const LiveRange *range = &all->ranges[i];
        if (range->first_step <= step && step <= range->last_step &&
            (holder[range->buffer] < 0 ||
             range->first_step > all->ranges[holder[range->buffer]].first_step))
            holder[range->buffer] = i;
    }
    for (int32_t b = 0; b < all->n_buffers; b++) {
        if (holder[b] < 0)
            continue;
        const LiveRange *range = &all->ranges[holder[b]];
        if (range->value < 0) {
            const Node *node = &graph->nodes[program->node_of[range->node]];
            live_add(pool, sheet, &cap,
                     (LiveBuffer){ -1, node->id, CLASS_WORKSPACE, node->module, node->source,
                                   program->pgraph->nodes[range->node].workspace, range->first_step,
                                   range->last_step });
        } else {
            int32_t      id = program->value_of[range->value];
            const Value *v = value_at(graph, id);
            live_add(pool, sheet, &cap,
                     (LiveBuffer){ id, v->producer, v->mem_class, v->module, v->source, v->bytes,
                                   range->first_step, range->last_step });
        }
    }
}

static int live_order(const void *a, const void *b)
{
    const LiveBuffer *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x->value > y->value) - (x->value < y->value);
}

static int row_order(const void *a, const void *b)
{
    const SheetRow *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void sheet_modules(Pool *pool, Sheet *sheet)
{
    const Graph *graph = sheet->engine->graph;
    SheetRow    *rows = NEWN(pool, SheetRow, graph->n_modules);
    for (int32_t i = 0; i < graph->n_modules; i++)
        rows[i].name = *graph->modules[i].path ? graph->modules[i].path : "(model)";
    for (int32_t i = 0; i < sheet->n_live; i++) {
        rows[sheet->live[i].module].bytes += sheet->live[i].bytes;
        rows[sheet->live[i].module].n++;
    }
    for (int32_t i = graph->n_modules - 1; i >= 0; i--) { /* children come after their parents */
        rows[i].total += rows[i].bytes;
        if (graph->modules[i].parent >= 0)
            rows[graph->modules[i].parent].total += rows[i].total;
    }
    sheet->modules = NEWN(pool, SheetRow, graph->n_modules);
    for (int32_t i = 0; i < graph->n_modules; i++)
        if (rows[i].total)
            sheet->modules[sheet->n_modules++] = rows[i];
    qsort(sheet->modules, (size_t)sheet->n_modules, sizeof *rows, row_order);
}

static int source_order(const void *a, const void *b)
{
    const LiveBuffer *x = *(const LiveBuffer *const *)a, *y = *(const LiveBuffer *const *)b;
    const char       *fx = x->source.file ? x->source.file : "",
               *fy = y->source.file ? y->source.file : "";
    int order = strcmp(fx, fy);
    return order ? order : (x->source.line > y->source.line) - (x->source.line < y->source.line);
}

static void sheet_lines(Pool *pool, Sheet *sheet)
{
    const LiveBuffer **by_line = NEWN(pool, const LiveBuffer *, sheet->n_live + 1);
    for (int32_t i = 0; i < sheet->n_live; i++)
        by_line[i] = &sheet->live[i];
    qsort(by_line, (size_t)sheet->n_live, sizeof *by_line, source_order);
    sheet->lines = NEWN(pool, SheetRow, sheet->n_live + 1);
    for (int32_t i = 0; i < sheet->n_live; i++) {
        if (!i || source_order(&by_line[i - 1], &by_line[i]))
            sheet->lines[sheet->n_lines++].name =
                by_line[i]->source.file
                    ? pool_print(pool, "%s:%d", by_line[i]->source.file, by_line[i]->source.line)
                    : "(engine)";
        sheet->lines[sheet->n_lines - 1].bytes += by_line[i]->bytes;
        sheet->lines[sheet->n_lines - 1].n++;
    }
    qsort(sheet->lines, (size_t)sheet->n_lines, sizeof *sheet->lines, row_order);
}

Err sheet_new(Pool *pool, const Engine *engine, Sheet **out)
{
    Sheet *sheet = NEW(pool, Sheet);
    REQUIRE(engine->n_programs > 0);
    const Program *peak = &engine->programs[engine->peak_program];
    sheet_at(pool, engine, peak, peak->meter.peak_step, sheet);
    int32_t at = sheet->step; /* a load belongs to the run that follows it */
    while (at + 1 < peak->plan->n_steps && peak->plan->steps[at].kind != STEP_RUN)
        at++;
    while (sheet->program->plan->steps[at].kind != STEP_RUN)
        at--;
    sheet->node = sheet->program->node_of[sheet->program->plan->steps[at].id];
    sheet->phase = engine->graph->nodes[sheet->node].phase;
    sheet->peak_bytes = engine->arena_bytes;
    sheet->gap_bytes = sheet->peak_bytes - sheet->live_bytes;
    REQUIRE(sheet->live_bytes == sheet->program->live_bytes); /* both counts agree */
    qsort(sheet->live, (size_t)sheet->n_live, sizeof *sheet->live, live_order);
    sheet_modules(pool, sheet);
    sheet_lines(pool, sheet);
    for (int32_t i = 0; i < engine->graph->n_params; i++) {
        const Param *param = &engine->graph->params[i];
        sheet->parameters += shape_count(param->disk);
        sheet->parameter_bytes += value_at(engine->graph, param->value)->bytes;
        sheet->trained += param->trained ? shape_count(param->disk) : 0;
    }
    *out = sheet;
    return OK;
}

static const char *sheet_place(const Graph *graph, int32_t module)
{
    const char *path = graph->modules[module].path;
    return *path ? path : "the model";
}

const char *sheet_fullest(Pool *pool, const Engine *engine)
{
    enum { LARGEST = 3 };
    const Graph *graph = engine->graph;
    Text         text = { .pool = pool };
    Sheet       *sheet;
    int32_t      n = 0, more = 0;
    int64_t      more_bytes = 0;
    REQUIRE(sheet_new(pool, engine, &sheet) == OK);
    const Node *node = &graph->nodes[sheet->node];
    text_add(&text, "%s of %s runs with", node->op->name, sheet_place(graph, node->module));
    for (int32_t i = 0; i < sheet->n_live; i++) {
        const LiveBuffer *b = &sheet->live[i];
        if (b->value >= 0 && engine->offset[b->value] >= 0)
            continue; /* parameters and state are named as one sum */
        if (n == LARGEST) {
            more++;
            more_bytes += b->bytes;
            continue;
        }
        text_add(&text, "%s %s of %s (%s)", n++ ? "," : "", bytes_text(b->bytes),
                 sheet_place(graph, b->module),
                 b->value < 0 || b->node < 0 ? "workspace" : graph->nodes[b->node].op->name);
    }
    if (more > 0)
        text_add(&text, ", %s of %d more", bytes_text(more_bytes), more);
    text_add(&text, "%s %s of parameters and state", n ? " and" : "",
             bytes_text(engine->persistent_bytes));
    return text.at;
}
