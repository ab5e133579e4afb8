/* engine.c -- choose algorithms, plan each program, place every byte. */
#include "plan/engine.h"

#include "base/text.h"
#include "ops/ops.h"
#include "plan/node_time.h"

#include <stdio.h>
#include <string.h>

enum { LAYOUT_NODES = 50000 };   /* under a second of search where the greedy orders leave a gap */

static Err engine_choose(Engine *engine)
{
    Graph *graph = engine->graph;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const Node *node = &graph->nodes[i];
        if (node->op->view)
            continue;
        const Kernel *kernel = op_kernel(node->op, engine->device);
        if (!kernel->run)
            return fail(E_DEVICE, "%s cannot run on %s (%s)", node->op->name, engine->device->name,
                        node_text(graph, i));
        if (kernel->choose && device_has_kernels(engine->device))
            TRY(kernel->choose(node, engine->device, &engine->choices[i]));
        TimeBasis basis;
        engine->node_ns[i] = node_time(engine->device, node, &engine->choices[i], &basis);
        engine->basis_ns[basis] += engine->node_ns[i];
    }
    return OK;
}

static int64_t align_up(int64_t n, int64_t align)
{
    return (n + align - 1) / align * align;
}

static void engine_place_persistent(Engine *engine)
{
    Graph  *graph = engine->graph;
    int64_t at = 0, guard = engine->guards ? GUARD_BYTES : 0;
    for (int32_t i = 0; i < graph->n_values; i++) {
        Value *value = value_at(graph, i);
        engine->offset[i] = -1;
        if (!value->persistent || value->root != i)
            continue;
        at = align_up(at + guard, engine->device->align);
        engine->offset[i] = at;
        at += value->bytes + guard;
    }
    engine->persistent_bytes = align_up(at, engine->device->align);
}

static bool engine_parts_joined(const Graph *graph, Part a, Part b)
{
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const Node *node = &graph->nodes[i];
        for (int j = 0; node->part == b && j < node->n_in; j++) {
            const Value *value = node->in[j] >= 0 ? value_at(graph, node->in[j]) : NULL;
            if (value && value->maker >= 0 && graph->nodes[value->maker].part == a)
                return true;
        }
    }
    return false;
}

/* The highest end of any buffer that the runs of each part are given. */
static void engine_tops(Pool *pool, Engine *engine, const Program *program)
{
    const PGraph      *pgraph = program->pgraph;
    const PlanBuffers *all = &program->buffers;
    int64_t           *end = NEWN(pool, int64_t, pgraph->n_values);
    int64_t            guard = engine->guards ? GUARD_BYTES : 0, scratch = 0;
    int32_t            next = 0;

    for (int32_t i = 0; i < pgraph->n_values; i++)
        if (pgraph->values[i].persistent)
            end[i] = engine->offset[program->value_of[i]] + pgraph->values[i].bytes;
    for (int32_t s = 0; s < program->plan->n_steps; s++) {
        if (program->plan->steps[s].kind != STEP_RUN)
            continue;
        const PNode *node = &pgraph->nodes[program->plan->steps[s].id];
        int64_t     *top = &engine->part_bytes[engine->graph->nodes[program->node_of[program->plan->steps[s].id]].part];
        for (int32_t i = 0; i < node->n_in; i++)
            *top = end[node->in[i]] > *top ? end[node->in[i]] : *top;
        for (scratch = 0; next < all->n_stays && all->stays[next].first_step <= s; next++) {
            const Stay *stay = &all->stays[next];
            int64_t     at = engine->persistent_bytes + all->buffers[stay->buffer].offset + guard;
            if (stay->value >= 0)
                end[stay->value] = at + pgraph->values[stay->value].bytes;
            else
                scratch = at + node->workspace;
        }
        for (int32_t i = 0; i < node->n_out; i++)
            *top = end[node->out[i]] > *top ? end[node->out[i]] : *top;
        *top = scratch > *top ? scratch : *top;
    }
}

/* Places the program's plan below its persistent values. */
static Err engine_place(Pool *pool, Engine *engine, Program *program)
{
    TRY(plan_check(program->pgraph, program->plan, 0));
    TRY(plan_simulate(pool, program->pgraph, program->plan, &program->meter));
    TRY(plan_buffers(pool, program->pgraph, program->plan, &program->buffers));
    Buffer *buffers = program->buffers.buffers;
    for (int32_t i = 0; i < program->buffers.n_buffers; i++) {
        buffers[i].align = engine->device->align;
        if (engine->guards)
            buffers[i].size += 2 * GUARD_BYTES;
    }
    TRY(layout_solve(pool, buffers, program->buffers.n_buffers, &(LayoutOptions){ .max_nodes = LAYOUT_NODES },
                     &program->layout));
    TRY(layout_check(buffers, program->buffers.n_buffers, program->layout.arena_bytes));
    program->arena_bytes = engine->persistent_bytes + program->layout.arena_bytes;
    program->plan->arena_bytes = program->arena_bytes;
    return OK;
}

/* Persistent values that this program never touches lie in the arena all the same. */
static int64_t engine_elsewhere(const Engine *engine, const Program *program, bool padded)
{
    int64_t align = padded ? engine->device->align : 1, bytes = 0;
    for (int32_t i = 0; i < engine->graph->n_values; i++)
        if (engine->offset[i] >= 0)
            bytes += align_up(value_at(engine->graph, i)->bytes, align);
    for (int32_t i = 0; i < program->pgraph->n_values; i++)
        if (program->pgraph->values[i].persistent)
            bytes -= align_up(program->pgraph->values[i].bytes, align);
    return bytes;
}

/* Everything kept if that fits the budget, else the planner's cheapest plan that does. A program that
 * cannot fit keeps its plan of least arena: engine_new then says what the whole would need. */
static Err engine_program(Pool *pool, Engine *engine, const EngineOptions *options, Program *program)
{
    TRY(pgraph_from_graph(pool, engine->graph, program->parts, engine->choices, engine->node_ns, engine->device->align,
                          program));
    TRY(plan_keep_all(pool, program->pgraph, &program->plan));
    TRY(engine_place(pool, engine, program));
    engine->keep_all_ns += program->meter.cost;
    if (program->arena_bytes > engine->keep_all_bytes)
        engine->keep_all_bytes = program->arena_bytes;

    if (options->budget_bytes && program->arena_bytes > options->budget_bytes) {
        PlanOptions search = {
            .budget_bytes = options->budget_bytes - engine_elsewhere(engine, program, true), .effort = options->effort,
            .time_limit_s = options->time_limit_s, .seed = options->seed, .layout = true,
            .progress = options->progress, .progress_arg = options->progress_arg,
        };
        if (search.budget_bytes < 1)
            search.budget_bytes = 1;
        Err err = plan_solve(pool, program->pgraph, &search, &program->plan);
        if (err && err != E_BUDGET)
            return err;
        TRY(engine_place(pool, engine, program));
    }
    program->live_bytes = program->meter.live_bytes + engine_elsewhere(engine, program, false);
    engine->cost_ns += program->meter.cost;
    engine->recomputed += program->meter.n_recomputes;
    engine_tops(pool, engine, program);
    return OK;
}

Err engine_new(Pool *pool, Graph *graph, const Device *device, const EngineOptions *options, Engine **out)
{
    static const EngineOptions defaults = { 0 };
    if (!options)
        options = &defaults;
    TRY(graph_check(graph));
    Engine *engine = NEW(pool, Engine);
    engine->graph = graph;
    engine->device = device;
    engine->guards = options->guards;
    engine->choices = NEWN(pool, Choice, graph->n_nodes);
    engine->node_ns = NEWN(pool, double, graph->n_nodes);
    engine->offset = NEWN(pool, int64_t, graph->n_values);
    engine->programs = NEWN(pool, Program, PART_COUNT);
    if (!options->no_inplace)
        graph_take_inplace(graph);
    TRY(engine_choose(engine));
    engine_place_persistent(engine);

    bool present[PART_COUNT] = { false };
    for (int32_t i = 0; i < graph->n_nodes; i++)
        present[graph->nodes[i].part] = true;
    bool joined = engine_parts_joined(graph, PART_MICRO, PART_UPDATE);
    engine->arena_bytes = engine->persistent_bytes;
    for (int part = 0; part < PART_COUNT; part++) {
        if (!present[part] || (part == PART_UPDATE && joined))
            continue;
        Program *program = &engine->programs[engine->n_programs];
        program->parts[part] = true;
        program->name = part_name((Part)part);
        if (part == PART_MICRO && joined) {
            program->parts[PART_UPDATE] = true;
            program->name = "micro+update";
        }
        TRY(engine_program(pool, engine, options, program));
        if (program->arena_bytes > engine->arena_bytes) {
            engine->arena_bytes = program->arena_bytes;
            engine->peak_program = engine->n_programs;
        }
        if (program->live_bytes > engine->live_bytes)
            engine->live_bytes = program->live_bytes;
        engine->n_programs++;
    }
    if (options->budget_bytes && engine->arena_bytes > options->budget_bytes)
        return fail(E_BUDGET, "no plan fits %s: this model needs at least %s (%lld bytes) with what may be changed, of which %s "
                    "are parameters and state; ask for that, or for a smaller --batch", bytes_text(options->budget_bytes),
                    bytes_text(engine->arena_bytes), (long long)engine->arena_bytes, bytes_text(engine->persistent_bytes));
    *out = engine;
    return OK;
}

double engine_step_ns(const Engine *engine, int64_t accumulate)
{
    double ns = 0;
    for (int i = 0; i < engine->n_programs; i++)
        ns += engine->programs[i].meter.cost * (engine->programs[i].parts[PART_MICRO] ? (double)accumulate : 1);
    return ns;
}

const char *engine_time_source(const Engine *engine)
{
    const Profile *profile = engine->device->profile;
    if (!profile)
        return "roofline";
    bool measured = engine->basis_ns[TIME_MEASURED] + engine->basis_ns[TIME_FAMILY] > 0;
    return pool_print(engine->graph->pool, "%sprofile %s", measured ? "" : "roofline of ", profile->name);
}

double engine_time_share(const Engine *engine, TimeBasis basis)
{
    double all = 0;
    for (int i = 0; i < TIME_BASES; i++)
        all += engine->basis_ns[i];
    return all > 0 ? engine->basis_ns[basis] / all : 0;
}
