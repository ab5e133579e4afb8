/* explained.c -- gathers what is known about a training step; report/explain_*.c show it. */
#include "fit/explained.h"

#include "ops/ops.h"

#include <string.h>

static void explain_batch(Pool *pool, Explained *e)
{
    const Graph *graph = e->sheet->engine->graph;
    BatchRest    rest[BATCH_REST_MAX];
    int32_t      cap = 0;
    int          n_rest = e->recipe->model->batch_rest
                              ? e->recipe->model->batch_rest(e->recipe->config, e->recipe->batch, rest)
                              : 0;
    REQUIRE(n_rest <= BATCH_REST_MAX);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const Node *node = &graph->nodes[i];
        if (node->op != &op_feed || node->phase != PHASE_MICRO)
            continue;
        const Value *v = value_at(graph, node->out[0]);
        VEC_ADD(pool, e->batch, e->n_batch, cap,
                (BatchItem){ v->name, v->type, v->shape, v->bytes, NULL, true });
    }
    for (int i = 0; i < n_rest; i++)
        VEC_ADD(pool, e->batch, e->n_batch, cap,
                (BatchItem){ rest[i].name, rest[i].type, rest[i].shape,
                             shape_count(rest[i].shape) * type_bytes(rest[i].type), rest[i].view_of,
                             rest[i].view_of != NULL });
    for (int32_t i = 0; i < e->n_batch; i++)
        e->batch_bytes += e->batch[i].bytes;
}

static void numeric_add(Pool *pool, Explained *e, int32_t *cap, const char *what,
                        const char *choice)
{
    for (int32_t i = 0; i < e->n_numeric; i++)
        if (!strcmp(e->numeric[i].what, what) && !strcmp(e->numeric[i].choice, choice)) {
            e->numeric[i].nodes++;
            return;
        }
    VEC_ADD(pool, e->numeric, e->n_numeric, *cap, (Numeric){ what, choice, 1 });
}

static void explain_numeric(Pool *pool, Explained *e)
{
    const Engine *engine = e->sheet->engine;
    int32_t       cap = 0;
    numeric_add(pool, e, &cap, "precision", recipe_precisions[e->recipe->precision]);
    numeric_add(pool, e, &cap, "micro-batch",
                pool_print(pool, "%lld x %lld", (long long)e->recipe->batch,
                           (long long)e->recipe->accumulate));
    e->numeric[0].nodes = e->numeric[1].nodes = 0;
    for (int32_t i = 0; i < engine->graph->n_nodes; i++) {
        const OpDef *op = engine->graph->nodes[i].op;
        const char  *name = engine->choices[i].name;
        const char  *kernel = name ? name : "builtin";
        if (op->algorithm)
            numeric_add(pool, e, &cap, op->name,
                        pool_print(pool, "%s (%s)", op->algorithm, kernel));
        else if (name)
            numeric_add(pool, e, &cap, op->name, name);
    }
}

/* What a plan changes against everything kept, in words. */
static const char *minimum_text(Pool *pool, const Recipe *asked, const FitResult *r)
{
    Text text = { .pool = pool };
    if (r->recipe->batch != asked->batch)
        text_add(&text, "micro-batches of %lld", (long long)r->recipe->batch);
    if (r->recipe->levers.host > asked->levers.host)
        text_add(&text, "%s%s on the host", text.n ? ", " : "",
                 r->recipe->levers.host == HOST_EMA ? "EMA" : "state");
    for (int i = 0; i < r->n_changes; i++)
        if (strcmp(r->changes[i].what, "micro-batch"))
            text_add(&text, "%s%s %s", text.n ? ", " : "", r->changes[i].what, r->changes[i].to);
    return text.n ? text.at : "everything kept";
}

static void minimum_take(Pool *pool, Explained *e, const FitResult *r)
{
    if (e->minimum_bytes && r->engine->arena_bytes >= e->minimum_bytes)
        return;
    e->minimum_bytes = r->engine->arena_bytes;
    e->minimum_how = minimum_text(pool, e->recipe, r);
}

/* The minimum with the recipe's own micro-batches, where the search for larger batches starts
 * (budgets_replan). */
static void minimum_take_whole(Explained *e, const FitResult *r)
{
    if (r->recipe->batch != e->recipe->batch ||
        (e->whole_minimum_bytes && r->engine->arena_bytes >= e->whole_minimum_bytes))
        return;
    e->whole_minimum_bytes = r->engine->arena_bytes;
    e->whole_host = r->recipe->levers.host;
}

/* Plans the recipe with its levers for the smallest arena and takes it if it is smaller than the
 * minimum so far. *room: does the host have room for host-resident state? */
static Err minimum_try(Pool *pool, Explained *e, const Recipe *recipe,
                       const ExplainOptions *options, bool *room)
{
    Pool      *own = pool_new(NULL, "minimum");
    FitResult *r = NEW(own, FitResult);
    FitOptions how = { .budget_bytes = 1,
                       .effort = options->effort ? options->effort : EXPLAIN_EFFORT,
                       .time_limit_s = options->time_limit_s };
    Err        err = fit_plan(own, recipe, e->device, &how, r);
    *room = r->engine && engine_fits(r->engine, 0);
    if (err == E_BUDGET && *room) {
        minimum_take(pool, e, r);
        minimum_take_whole(e, r);
    }
    pool_free(own);
    return err == E_BUDGET ? OK : err;
}

/* Tries the recipe as it is and, on a GPU, with as much state on the host as there is room for. */
static Err minimum_host_resident(Pool *pool, Explained *e, const Recipe *recipe,
                                 const ExplainOptions *options)
{
    bool room;
    TRY(minimum_try(pool, e, recipe, options, &room));
    room = e->device->to_host <= 0;
    for (int host = HOST_STATE; host > recipe->levers.host && !room; host--) {
        Recipe *host_resident = recipe_copy(pool, recipe);
        host_resident->levers.host = host;
        TRY(minimum_try(pool, e, host_resident, options, &room));
    }
    return OK;
}

/* Tries the recipe as it is and, where nothing forbids it, with micro-batches of one sample: what
 * `fit` may do without being asked. */
static Err explain_minimum(Pool *pool, Explained *e, const ExplainOptions *options)
{
    TRY(minimum_host_resident(pool, e, e->recipe, options));
    if (options->no_split || e->recipe->batch == 1 || recipe_no_split(e->recipe) ||
        graph_has(e->sheet->engine->graph, &op_batchnorm))
        return OK;
    Recipe *split = recipe_copy(pool, e->recipe);
    TRY(recipe_split(split, split->batch));
    return minimum_host_resident(pool, e, split, options);
}

static void note_add(Pool *pool, Explained *e, int32_t *cap, const char *text)
{
    if (text)
        VEC_ADD(pool, e->notes, e->n_notes, *cap, text);
}

/* "frozen: 3 tensors with 1,024 numbers (a.weight, a.bias and 1 more)" */
static const char *note_frozen(Pool *pool, const Graph *graph)
{
    enum { NAMED = 3 };
    Text    names = { .pool = pool };
    int64_t numbers = 0, n = 0;
    for (int32_t i = 0; i < graph->n_params; i++) {
        const Param *p = &graph->params[i];
        if (!p->frozen)
            continue;
        numbers += shape_count(p->disk);
        if (n++ < NAMED)
            text_add(&names, "%s%s", n > 1 ? ", " : "", p->name);
    }
    if (n > NAMED)
        text_add(&names, " and %s more", count_text(n - NAMED));
    return n ? pool_print(pool, "frozen: %s tensor%s with %s numbers (%s)", count_text(n),
                          n == 1 ? "" : "s", count_text(numbers), names.at)
             : NULL;
}

/* What the user of a model that was read from a file cannot see in it. */
static void explain_notes(Pool *pool, Explained *e, const Graph *graph)
{
    const Recipe *recipe = e->recipe;
    const char   *whole = recipe_no_split(recipe);
    int32_t       cap = 0;
    if (!recipe->model->named_inputs)
        return;
    note_add(pool, e, &cap, note_frozen(pool, graph));
    if (whole)
        note_add(pool, e, &cap, pool_print(pool, "a micro-batch is not split: %s", whole));
    else if (graph_has(graph, &op_batchnorm))
        note_add(pool, e, &cap,
                 "a micro-batch is split only with --allow batchnorm-split: batch norm would take "
                 "its statistics from fewer samples");
    if (recipe->model->note)
        note_add(pool, e, &cap, recipe->model->note(pool, recipe->config));
}

Err explained_sheet(Pool *pool, const Recipe *recipe, const Device *device,
                    const ExplainOptions *options, Explained **out)
{
    Explained    *e = NEW(pool, Explained);
    TrainingGraph graph;
    Engine       *engine;
    e->recipe = recipe = recipe_for(pool, recipe, device);
    e->device = device;
    e->budget_bytes = options->budget_bytes;
    TRY(recipe_graph(pool, recipe, false, &graph));
    TRY(engine_new(pool, graph.graph, device, NULL, &engine));
    TRY(sheet_new(pool, engine, &e->sheet));
    e->step_ms = engine_step_ns(engine, recipe_rounds(recipe)) * 1e-6;
    e->runtime_bytes = device_runtime_bytes(device, 0);
    avoided_find(pool, graph.graph, &e->avoided, &e->n_avoided);
    explain_batch(pool, e);
    explain_numeric(pool, e);
    explain_notes(pool, e, graph.graph);
    phases_find(pool, recipe, engine, &e->phases, &e->n_phases);
    bottlenecks_find(pool, e->sheet, &e->bottlenecks, &e->n_bottlenecks);
    TRY(rank_rows_find(pool, recipe, device, &e->rank_rows, &e->n_rank_rows));
    *out = e;
    return OK;
}

Err explained_minimum(Pool *pool, Explained *e, const ExplainOptions *options)
{
    if (options->effort >= 0)
        TRY(explain_minimum(pool, e, options));
    budgets_find(pool, e, options->batches);
    return OK;
}

Err explained_new(Pool *pool, const Recipe *recipe, const Device *device,
                  const ExplainOptions *options, Explained **out)
{
    TRY(explained_sheet(pool, recipe, device, options, out));
    return explained_minimum(pool, *out, options);
}

Err explained_plan(Pool *pool, Explained *e)
{
    if (!e->fit)
        return OK;
    TRY(sheet_new(pool, e->fit->engine, &e->fit_sheet));
    phases_find(pool, e->fit->recipe, e->fit->engine, &e->fit_phases, &e->n_fit_phases);
    if (e->minimum_bytes)
        minimum_take(pool, e, e->fit);
    budgets_update(e);
    return OK;
}

const char *live_name(const Sheet *sheet, const LiveBuffer *buffer)
{
    const Graph *graph = sheet->engine->graph;
    return buffer->value >= 0
               ? value_text(graph, buffer->value)
               : pool_print(graph->pool, "%s (workspace)", node_text(graph, buffer->node));
}

const char *live_until(const Sheet *sheet, const LiveBuffer *buffer)
{
    const Plan *plan = sheet->program->plan;
    int32_t     step = buffer->last_step;
    if (step >= plan->n_steps)
        return NULL;
    while (step > 0 && plan->steps[step].kind != STEP_RUN)
        step--;
    return node_text(sheet->engine->graph, sheet->program->node_of[plan->steps[step].id]);
}
