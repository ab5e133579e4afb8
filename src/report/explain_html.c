/* explain_html.c -- one file that opens offline: page, style, script and data.
 *
 * The page is src/report/page/, embedded at build time. Its data is one JSON object. Buffers and
 * runs, of which there are tens of thousands, are sent as columns: base64 of numbers in LEB128 (7
 * bits per byte, low bits first), as differences where neighbours are close, with zigzag signs. A
 * buffer takes about 15 bytes. */
#include "report/explain_pages.h"

#include "base/hash.h"
#include "report/page_bytes.h"

#include <string.h>

typedef struct Column { /* numbers to be sent to the page */
    Text    bytes;
    int64_t before; /* the number before, for differences */
} Column;

static void column_add(Column *column, uint64_t number)
{
    do {
        char byte = (char)((number & 127) | (number > 127 ? 128 : 0));
        text_addn(&column->bytes, &byte, 1);
        number >>= 7;
    } while (number);
}

static void column_add_difference(Column *column, int64_t number)
{
    int64_t d = number - column->before;
    column->before = number;
    column_add(column, d < 0 ? ((uint64_t)-d << 1) - 1 : (uint64_t)d << 1);
}

static void column_write(JsonOut *o, const char *key, const Column *column)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *at = (const unsigned char *)column->bytes.at;
    Text                 text = { .pool = column->bytes.pool };
    for (size_t i = 0; i < column->bytes.n; i += 3) {
        size_t   left = column->bytes.n - i;
        uint32_t three = (uint32_t)at[i] << 16;
        three |= left > 1 ? (uint32_t)at[i + 1] << 8 : 0;
        three |= left > 2 ? at[i + 2] : 0u;
        char four[4] = { digits[three >> 18], digits[three >> 12 & 63],
                         left > 1 ? digits[three >> 6 & 63] : '=',
                         left > 2 ? digits[three & 63] : '=' };
        text_addn(&text, four, 4);
    }
    json_out_string(o, key, text.at ? text.at : "");
}

/* Texts that many buffers share are sent once and referred to by index, in the order of first
 * use. */
typedef struct Words {
    Pool        *pool;
    const char **list;
    int32_t      n, cap, *slots, n_slots;
} Words;

static uint64_t words_index(Words *words, const char *word)
{
    if (2 * (words->n + 1) > words->n_slots) {
        words->n_slots = words->n_slots ? 2 * words->n_slots : 256;
        words->slots = NEWN(words->pool, int32_t, words->n_slots);
        for (int32_t i = 0; i < words->n; i++) {
            uint64_t at = hash_text(HASH_EMPTY, words->list[i]) % (uint64_t)words->n_slots;
            while (words->slots[at])
                at = (at + 1) % (uint64_t)words->n_slots;
            words->slots[at] = i + 1;
        }
    }
    uint64_t at = hash_text(HASH_EMPTY, word) % (uint64_t)words->n_slots;
    for (; words->slots[at]; at = (at + 1) % (uint64_t)words->n_slots)
        if (!strcmp(words->list[words->slots[at] - 1], word))
            return (uint64_t)(words->slots[at] - 1);
    VEC_ADD(words->pool, words->list, words->n, words->cap, word);
    words->slots[at] = words->n;
    return (uint64_t)(words->n - 1);
}

static void words_write(JsonOut *o, const char *key, const Words *words)
{
    json_out_row(o, key);
    for (int32_t i = 0; i < words->n; i++)
        json_out_string(o, NULL, words->list[i]);
    json_out_end(o);
}

typedef struct HtmlPage {
    Pool            *pool;
    const Explained *e;
    JsonOut         *o;
    Words            shapes, lines, names;
} HtmlPage;

enum {
    COL_FIRST,
    COL_LENGTH,
    COL_BYTES,
    COL_OFFSET,
    COL_CLASS,
    COL_MODULE,
    COL_NAME,
    COL_LINE,
    COL_SHAPE,
    COLUMNS
};
static const char *const column_names[COLUMNS] = { "first",  "length", "bytes", "offset", "class",
                                                   "module", "name",   "line",  "shape" };

static const char *page_line(HtmlPage *p, Source source)
{
    return source.file ? pool_print(p->pool, "%s:%d", source.file, source.line) : "";
}

/* The name without the module's path, which the page knows. */
static const char *page_short(const Graph *graph, int32_t module, const char *name)
{
    const char *path = graph->modules[module].path;
    size_t      n = strlen(path);
    return n && !strncmp(name, path, n) && name[n] == '.' ? name + n : name;
}

static void page_buffer(HtmlPage *p, Column *columns, const LiveBuffer *b, int64_t offset)
{
    const Graph *graph = p->e->sheet->engine->graph;
    const Value *v = b->value >= 0 ? value_at(graph, b->value) : NULL;
    const char  *shape = v ? pool_print(p->pool, "%s %s", shape_text(v->shape), type_name(v->type))
                           : "";
    const char  *name = v ? value_text(graph, b->value) : node_text(graph, b->node);
    column_add_difference(&columns[COL_FIRST], b->first_step);
    column_add(&columns[COL_LENGTH], (uint64_t)(b->last_step - b->first_step));
    column_add_difference(&columns[COL_BYTES], b->bytes);
    column_add_difference(&columns[COL_OFFSET], offset);
    column_add(&columns[COL_CLASS], (uint64_t)b->mem_class);
    column_add_difference(&columns[COL_MODULE], b->module);
    column_add_difference(&columns[COL_NAME],
                          (int64_t)words_index(&p->names, page_short(graph, b->module, name)));
    column_add_difference(&columns[COL_LINE],
                          (int64_t)words_index(&p->lines, page_line(p, b->source)));
    column_add_difference(&columns[COL_SHAPE], (int64_t)words_index(&p->shapes, shape));
}

static void page_columns(HtmlPage *p, const Column *columns, int32_t n)
{
    json_out_int(p->o, "n", n);
    for (int i = 0; i < COLUMNS; i++)
        column_write(p->o, column_names[i], &columns[i]);
}

static void columns_init(HtmlPage *p, Column *columns)
{
    for (int i = 0; i < COLUMNS; i++)
        columns[i] = (Column){ .bytes = { .pool = p->pool } };
}

/* Live ranges, counted in runs of the plan. Where one value takes over another's bytes, the earlier
 * range ends as the later begins, so that the buffers at a run add up to what the meter counts. */
static void page_buffers(HtmlPage *p, const Program *program, const int32_t *run_of)
{
    const Engine      *engine = p->e->sheet->engine;
    const Graph       *graph = engine->graph;
    const PlanBuffers *all = &program->buffers;
    int32_t           *next = NEWN(p->pool, int32_t, all->n_ranges + 1),
            *open = NEWN(p->pool, int32_t, all->n_buffers + 1);
    Column  columns[COLUMNS];
    int32_t n = 0;
    for (int32_t i = all->n_ranges - 1; i >= 0; i--) {
        int32_t buffer = all->ranges[i].buffer;
        if (buffer < 0)
            continue;
        next[i] = open[buffer] ? all->ranges[open[buffer] - 1].first_step : INT32_MAX;
        open[buffer] = i + 1;
    }
    columns_init(p, columns);
    for (int32_t i = 0; i < all->n_ranges; i++) {
        const LiveRange *range = &all->ranges[i];
        LiveBuffer       b = { .value = -1,
                               .first_step = run_of[range->first_step],
                               .last_step =
                                   run_of[range->last_step < next[i] ? range->last_step : next[i] - 1] };
        if (range->buffer < 0 || b.last_step < b.first_step)
            continue;
        if (range->value < 0) {
            const Node *node = &graph->nodes[program->node_of[range->node]];
            b.node = node->id;
            b.mem_class = CLASS_WORKSPACE;
            b.module = node->module;
            b.source = node->source;
            b.bytes = program->pgraph->nodes[range->node].workspace;
        } else {
            const Value *v = value_at(graph, program->value_of[range->value]);
            b.value = program->value_of[range->value];
            b.mem_class = v->mem_class;
            b.module = v->module;
            b.source = v->source;
            b.bytes = v->bytes;
        }
        page_buffer(p, columns, &b, engine->persistent_bytes + all->buffers[range->buffer].offset);
        n++;
    }
    json_out_object(p->o, "buffers");
    page_columns(p, columns, n);
    json_out_end(p->o);
}

/* Live bytes and time of each run of a plan: what the plan's own curve needs. */
static int32_t page_curve(const Engine *engine, const Program *program, Column *live, Column *ns)
{
    const Plan *plan = program->plan;
    int64_t     elsewhere = program->live_bytes - program->meter.live_bytes;
    int32_t     n = 0;
    for (int32_t s = 0; s < plan->n_steps; s++) {
        if (plan->steps[s].kind != STEP_RUN)
            continue;
        double cost = program->pgraph->nodes[plan->steps[s].id].cost * engine_pace(engine);
        column_add_difference(live, program->meter.curve[s] + elsewhere);
        column_add(ns, cost > 0 ? (uint64_t)(cost + 0.5) : 0);
        n++;
    }
    return n;
}

/* "micro"; "micro and update" where they are planned together. */
static const char *page_phases(HtmlPage *p, const Program *program)
{
    const char *text = NULL;
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        if (program->phases[phase])
            text = text ? pool_print(p->pool, "%s and %s", text, phase_public_name((Phase)phase))
                        : phase_name((Phase)phase);
    return text;
}

static void page_program(HtmlPage *p, const Program *program)
{
    const Graph *graph = p->e->sheet->engine->graph;
    const Plan  *plan = program->plan;
    Column module = { .bytes = { .pool = p->pool } }, name = module, live = module, kind = module,
           ns = module;
    int32_t *run_of = NEWN(p->pool, int32_t, plan->n_steps + 1), n = 0, peak = 0;
    page_curve(p->e->sheet->engine, program, &live, &ns);
    for (int32_t s = 0; s < plan->n_steps; s++) {
        run_of[s] = n > 0 ? n - 1 : 0; /* a drop or copy belongs to the run before it */
        if (plan->steps[s].kind != STEP_RUN)
            continue;
        const Node *node = &graph->nodes[program->node_of[plan->steps[s].id]];
        run_of[s] = n;
        peak = s <= program->meter.peak_step ? n : peak;
        column_add_difference(&module, node->module);
        column_add_difference(
            &name, (int64_t)words_index(
                       &p->names, page_short(graph, node->module, node_text(graph, node->id))));
        column_add(&kind, node->phase == PHASE_UPDATE ? 2 : node->backward);
        n++;
    }
    json_out_object(p->o, NULL);
    json_out_string(p->o, "name", page_phases(p, program));
    json_out_int(p->o, "runs", n);
    json_out_int(p->o, "peakRun", peak);
    json_out_int(p->o, "peakBytes", program->arena_bytes);
    json_out_int(p->o, "liveBytes", program->live_bytes);
    column_write(p->o, "runModule", &module);
    column_write(p->o, "runName", &name);
    column_write(p->o, "runKind", &kind);
    column_write(p->o, "live", &live);
    column_write(p->o, "ns", &ns);
    page_buffers(p, program, run_of);
    json_out_end(p->o);
}

/* The plan within the budget, beside everything kept: one curve for each of its programs. */
static void page_plan(HtmlPage *p)
{
    const Explained *e = p->e;
    const Engine    *engine = e->fit ? e->fit->engine : NULL;
    if (e->budget_bytes > 0)
        json_out_int(p->o, "budgetBytes", e->budget_bytes);
    json_out_array(p->o, "planned");
    for (int i = 0; engine && i < engine->n_programs; i++) {
        Column live = { .bytes = { .pool = p->pool } }, ns = live;
        json_out_object(p->o, NULL);
        json_out_string(p->o, "name", page_phases(p, &engine->programs[i]));
        json_out_int(p->o, "batch", e->fit->recipe->batch);
        json_out_int(p->o, "runs", page_curve(engine, &engine->programs[i], &live, &ns));
        column_write(p->o, "live", &live);
        column_write(p->o, "ns", &ns);
        json_out_end(p->o);
    }
    json_out_end(p->o);
}

static void page_state(HtmlPage *p)
{
    const Engine *engine = p->e->sheet->engine;
    Column        columns[COLUMNS];
    int32_t       n = 0;
    columns_init(p, columns);
    for (int32_t i = 0; i < engine->graph->n_values; i++) {
        const Value *v = value_at(engine->graph, i);
        if (engine->offset[i] < 0)
            continue;
        page_buffer(p, columns,
                    &(LiveBuffer){ i, -1, v->mem_class, v->module, v->source, v->bytes, 0, 0 },
                    engine->offset[i]);
        n++;
    }
    json_out_object(p->o, "state");
    page_columns(p, columns, n);
    json_out_end(p->o);
}

static void page_modules(HtmlPage *p)
{
    const Graph *graph = p->e->sheet->engine->graph;
    json_out_row(p->o, "modules");
    for (int32_t i = 0; i < graph->n_modules; i++)
        json_out_string(p->o, NULL, graph->modules[i].path);
    json_out_end(p->o);
    json_out_row(p->o, "parents");
    for (int32_t i = 0; i < graph->n_modules; i++)
        json_out_int(p->o, NULL, graph->modules[i].parent);
    json_out_end(p->o);
}

/* '<' occurs only inside texts. It is escaped, so that no text can end the script element. */
static void add_json(FileOut *out, const Text *json)
{
    for (size_t i = 0, from = 0; i <= json->n; i++)
        if (i == json->n || json->at[i] == '<') {
            file_out_add(out, json->at + from, i - from);
            if (i < json->n)
                file_out_print(out, "\\u003c");
            from = i + 1;
        }
}

/* The page with {{css}}, {{js}}, {{data}} and {{title}} filled in. */
static void add_page(FileOut *out, const Text *json, const char *heading)
{
    const char *at = (const char *)page_html, *end = at + page_html_n;
    while (at < end) {
        const char *mark = memmem(at, (size_t)(end - at), "{{", 2);
        if (!mark)
            mark = end;
        file_out_add(out, at, (size_t)(mark - at));
        if (mark == end)
            break;
        at = (const char *)memmem(mark, (size_t)(end - mark), "}}", 2) + 2;
        if (!strncmp(mark, "{{css}}", 7))
            file_out_add(out, page_css, page_css_n);
        else if (!strncmp(mark, "{{js}}", 6))
            file_out_add(out, page_js, page_js_n);
        else if (!strncmp(mark, "{{data}}", 8))
            add_json(out, json);
        else
            for (const char *c = heading; *c; c++)
                file_out_print(out, *c == '<' || *c == '&' ? "&#%d;" : "%c", *c);
    }
}

Err explain_html(const char *path, const Explained *e)
{
    Pool    *pool = pool_new(NULL, "page");
    Text     json = { .pool = pool };
    JsonOut  o;
    HtmlPage p = { .pool = pool,
                   .e = e,
                   .o = &o,
                   .shapes = { .pool = pool },
                   .lines = { .pool = pool },
                   .names = { .pool = pool } };
    FileOut *out = NEW(pool, FileOut);

    json_out_text(&o, &json, JSON_COMPACT);
    json_out_object(&o, NULL);
    json_out_object(&o, "explain");
    explain_json_members(&o, e);
    json_out_end(&o);
    page_modules(&p);
    json_out_array(&o, "programs");
    for (int i = 0; i < e->sheet->engine->n_programs; i++)
        page_program(&p, &e->sheet->engine->programs[i]);
    json_out_end(&o);
    page_plan(&p);
    page_state(&p);
    words_write(&o, "names", &p.names);
    words_write(&o, "lines", &p.lines);
    words_write(&o, "shapes", &p.shapes);
    json_out_end(&o);
    Err err = json_out_done(&o);
    if (!err)
        err = file_out_init(out, path);
    if (!err) {
        add_page(out, &json, e->recipe->name);
        err = file_out_done(out, OK);
    }
    pool_free(pool);
    return err;
}
