/* engine.c -- chooses algorithms, plans each program, places every byte. */
#include "plan/engine.h"

#include "linalg/linalg.h"

#include "base/int_math.h"
#include "base/text.h"
#include "ops/ops.h"
#include "profile/node_time.h"

#include <stdio.h>
#include <math.h>
#include <string.h>

static bool phase_in_step(Phase phase) { return phase == PHASE_MICRO || phase == PHASE_UPDATE; }

bool program_in_step(const Program *program)
{
    return program->phases[PHASE_MICRO] || program->phases[PHASE_UPDATE];
}

static Err engine_choose(Engine *engine)
{
    Graph   *graph = engine->graph;
    uint64_t identity = graph_identity(graph);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const Node *node = &graph->nodes[i];
        if (node->op->view)
            continue;
        const Kernel *kernel = op_kernel(node->op, engine->device);
        if (!kernel->run && !engine->device->described)
            return fail(E_DEVICE, "%s cannot run on %s (%s)", node->op->name, engine->device->name,
                        node_text(graph, i));
        if (kernel->choose && device_has_kernels(engine->device))
            TRY(kernel->choose(node, engine->device, &engine->choices[i]));
        TimeBasis basis;
        engine->node_ns[i] = node_time(engine->device, node, &engine->choices[i], identity, &basis);
        if (phase_in_step(node->phase))
            engine->basis_ns[basis] += engine->node_ns[i];
        engine->node_ns[i] += node_wire(engine->device, node).waits;
    }
    return OK;
}

static void engine_place_persistent(Engine *engine)
{
    Graph  *graph = engine->graph;
    int64_t at = 0, guard = engine->guards ? GUARD_BYTES : 0;
    for (int32_t i = 0; i < graph->n_values; i++) {
        Value *value = value_at(graph, i);
        engine->offset[i] = engine->host_offset[i] = -1;
        if (!value->persistent || value->root != i)
            continue;
        if (value->host_resident && engine->device->to_host > 0) {
            engine->host_offset[i] = align_up(engine->host_bytes, engine->device->align);
            engine->host_bytes = engine->host_offset[i] + value->bytes;
            continue;
        }
        at = align_up(at + guard, engine->device->align);
        engine->offset[i] = at;
        at += value->bytes + guard;
    }
    engine->persistent_bytes = align_up(at, engine->device->align);
    engine->host_persistent_bytes = align_up(engine->host_bytes, engine->device->align);
}

static bool engine_phases_joined(const Graph *graph, Phase a, Phase b)
{
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const Node *node = &graph->nodes[i];
        for (int j = 0; node->phase == b && j < node->n_in; j++) {
            const Value *value = node->in[j] >= 0 ? value_at(graph, node->in[j]) : NULL;
            if (value && value->producer >= 0 && graph->nodes[value->producer].phase == a)
                return true;
        }
    }
    return false;
}

/* Where the bytes of a live range end in the arena; 0: it has none. node: whose workspace it may be. */
static int64_t engine_range_end(const Engine *engine, const Program *program,
                                const LiveRange *range, const PNode *node)
{
    int64_t bytes = range->value >= 0 ? program->pgraph->values[range->value].bytes
                                      : node->workspace;
    if (range->within >= 0)
        return engine->offset[program->value_of[range->within]] + bytes;
    if (range->buffer < 0)
        return 0;
    return engine->persistent_bytes + program->buffers.buffers[range->buffer].offset +
           (engine->guards ? GUARD_BYTES : 0) + bytes;
}

/* For each phase: the end of the highest buffer that its nodes use. */
static void engine_phase_tops(Pool *pool, Engine *engine, const Program *program)
{
    const PGraph      *pgraph = program->pgraph;
    const PlanBuffers *all = &program->buffers;
    int64_t           *end = NEWN(pool, int64_t, pgraph->n_values);
    int64_t            workspace_end = 0;
    int32_t            next = 0; /* next live range */

    for (int32_t i = 0; i < pgraph->n_values; i++)
        if (pgraph->values[i].persistent)
            end[i] = engine->offset[program->value_of[i]] + pgraph->values[i].bytes;
    for (int32_t s = 0; s < program->plan->n_steps; s++) {
        if (program->plan->steps[s].kind != STEP_RUN)
            continue;
        const PNode *node = &pgraph->nodes[program->plan->steps[s].id];
        int64_t     *top =
            &engine->phase_bytes[engine->graph->nodes[program->node_of[program->plan->steps[s].id]]
                                     .phase];
        /* First the ranges that begin before the run, such as loaded values, for the inputs. Then
         * those that begin with it: outputs, which may take over inputs, and workspace. */
        for (int32_t upto = s - 1; upto <= s; upto++) {
            for (workspace_end = 0; next < all->n_ranges && all->ranges[next].first_step <= upto;
                 next++) {
                const LiveRange *range = &all->ranges[next];
                int64_t         *last = range->value >= 0 ? &end[range->value] : &workspace_end;
                *last = engine_range_end(engine, program, range, node);
            }
            for (int32_t i = 0; upto < s && i < node->n_in; i++)
                *top = int_max(*top, end[node->in[i]]);
        }
        for (int32_t i = 0; i < node->n_out; i++)
            *top = int_max(*top, end[node->out[i]]);
        *top = int_max(*top, workspace_end);
    }
}

/* Takes offsets from a file unchanged; layout_check then checks them. */
static Err engine_set_offsets(const Program *program, const PlanBuffers *all,
                              const int64_t *offsets, LayoutResult *layout)
{
    *layout = (LayoutResult){ 0 };
    for (int32_t i = 0; i < all->n_buffers; i++) {
        if (offsets[i] < 0 || offsets[i] > INT64_MAX / 2)
            return fail(E_PLAN, "phase %s places a buffer at offset %lld, which is out of range",
                        program->name, (long long)offsets[i]);
        all->buffers[i].offset = offsets[i];
        if (offsets[i] + all->buffers[i].size > layout->arena_bytes)
            layout->arena_bytes = offsets[i] + all->buffers[i].size;
    }
    return OK;
}

/* The host arena: a slot for each value from its save to its free_host. */
static Err engine_place_slots(Pool *pool, const Engine *engine, Program *program,
                              const int64_t *offsets)
{
    PlanBuffers *slots = &program->slots;
    LayoutResult layout = { 0 };
    TRY(plan_slots(pool, program->pgraph, program->plan, slots));
    for (int32_t i = 0; i < slots->n_buffers; i++)
        slots->buffers[i].align = engine->device->align;
    if (offsets)
        TRY(engine_set_offsets(program, slots, offsets, &layout));
    else if (slots->n_buffers)
        TRY(layout_solve(pool, slots->buffers, slots->n_buffers,
                         &(LayoutOptions){ .max_nodes = PLACE_NODES, .remember = true }, &layout));
    TRY(layout_check(slots->buffers, slots->n_buffers, layout.arena_bytes));
    program->host_bytes = slots->n_buffers ? engine->host_persistent_bytes + layout.arena_bytes : 0;
    return OK;
}

/* The smallest arena that a search finds. If that exceeds the capacity, and the bound does not rule
 * it out, a second search looks for the capacity itself, as the planner did: what the planner could
 * place is placed here too. */
static Err engine_layout(Pool *pool, Program *program, int64_t capacity)
{
    int32_t       n = program->buffers.n_buffers;
    Buffer       *buffers = program->buffers.buffers;
    LayoutOptions how = { .max_nodes = PLACE_NODES, .remember = true };
    TRY(layout_solve(pool, buffers, n, &how, &program->layout));
    if (capacity <= 0 || program->layout.arena_bytes <= capacity ||
        program->layout.bound_bytes > capacity)
        return OK;
    Buffer      *again = NEWN(pool, Buffer, n);
    LayoutResult result;
    memcpy(again, buffers, (size_t)n * sizeof *again);
    how.capacity = capacity;
    Err err = layout_solve(pool, again, n, &how, &result);
    if (!err) {
        memcpy(buffers, again, (size_t)n * sizeof *again);
        program->layout = result;
    }
    return err == E_BUDGET ? OK : err; /* not a failure: the caller compares sizes */
}

Err engine_place(Pool *pool, Engine *engine, Program *program, int64_t budget_bytes,
                 const int64_t *offsets, const int64_t *slots)
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
    TRY(offsets ? engine_set_offsets(program, &program->buffers, offsets, &program->layout)
                : engine_layout(pool, program, budget_bytes - engine->persistent_bytes));
    TRY(layout_check(buffers, program->buffers.n_buffers, program->layout.arena_bytes));
    program->arena_bytes = engine->persistent_bytes + program->layout.arena_bytes;
    program->plan->arena_bytes = program->arena_bytes;
    return engine_place_slots(pool, engine, program, slots);
}

/* Persistent values that this program does not use are in the arena too. */
int64_t engine_untouched_bytes(const Engine *engine, const Program *program, bool padded)
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

void engine_count(Engine *engine, Program *program)
{
    program->live_bytes = program->meter.live_bytes +
                          engine_untouched_bytes(engine, program, false);
    program->bound_bytes = plan_bound_bytes(program->pgraph) +
                           engine_untouched_bytes(engine, program, false);
    if (program_in_step(program))
        engine->cost_ns += (double)program->repeat * program->meter.cost;
    engine->recomputed += program->meter.n_recomputes;
    engine->offloaded += program->slots.n_ranges;
    engine->cut |= program->plan->cut;
    if (program->arena_bytes > engine->arena_bytes) {
        engine->arena_bytes = program->arena_bytes;
        engine->peak_program = (int)(program - engine->programs);
    }
    if (program->live_bytes > engine->live_bytes)
        engine->live_bytes = program->live_bytes;
    if (program->host_bytes > engine->host_bytes)
        engine->host_bytes = program->host_bytes;
    if (program->bound_bytes > engine->bound_bytes)
        engine->bound_bytes = program->bound_bytes;
}

Err engine_finish(Engine *engine, bool spread)
{
    for (int i = 0; i < engine->n_programs; i++) {
        Program     *program = &engine->programs[i];
        PlanBuffers *all = &program->buffers;
        Pool        *temp = pool_new(NULL, "engine_finish");
        Err          err = OK;
        if (spread && engine->device->kind == DEVICE_CUDA) { /* two lanes run concurrently */
            layout_spread(temp, all->buffers, all->n_buffers, program->layout.arena_bytes);
            err = layout_check(all->buffers, all->n_buffers, program->layout.arena_bytes);
        }
        engine_phase_tops(temp, engine, program);
        pool_free(temp);
        TRY(err);
    }
    return OK;
}

int64_t engine_slots_budget(const Engine *engine)
{
    int64_t left = engine->device->host_bytes - engine->host_persistent_bytes;
    return !engine->device->host_bytes ? 0 : left > 0 ? left : 1;
}

/* The arena that engine_solve asks the planner for: the room above parameters and state, less this
 * percentage of it, in this order. */
static const int engine_shrink_percent[] = { 0, 4, 12, 24, 40 };

/* If a plan leaves more than 1 / ENGINE_SPARE of the room unused, a smaller budget is tried. */
enum { ENGINE_SPARE = 20 };

/* The planner's cheapest plan within the budget. If the plan leaves much of the arena unused,
 * cheaper plans fitted by live bytes but could not be placed. The planner is then asked for smaller
 * arenas, until an answer is cheaper. */
static Err engine_solve(Pool *pool, Engine *engine, const EngineOptions *options, Program *program)
{
    int64_t room = options->budget_bytes - engine->persistent_bytes,
            untouched = engine_untouched_bytes(engine, program, true);
    PlanOptions how = {
        .effort = options->effort,
        .hasty = options->hasty,
        .time_limit_s = options->time_limit_s,
        .seed = options->seed,
        .layout = true,
        .host_budget_bytes = engine_slots_budget(engine),
        .progress = options->progress,
        .progress_arg = options->progress_arg,
    };
    Pool       *temp = pool_new(pool, "engine_solve");
    PlanSearch *search = plan_search_new(temp, program->pgraph, &how);
    bool        refused = false;
    for (size_t i = 0; i < sizeof engine_shrink_percent / sizeof *engine_shrink_percent; i++) {
        Plan   *plan;
        int64_t budget = options->budget_bytes - untouched - room / 100 * engine_shrink_percent[i];
        Err     err = plan_search_within(pool, search, budget < 1 ? 1 : budget, &plan);
        if (err && err != E_BUDGET)
            return err;
        refused |= i == 0 && err;
        bool cheaper = i > 0 && !err && plan->cost < program->plan->cost;
        if (i == 0 || cheaper)
            program->plan = plan;
        if (err || cheaper ||
            options->budget_bytes - untouched - plan->arena_bytes < room / ENGINE_SPARE)
            break;
    }
    pool_free(temp);
    /* The plan with the smallest peak is placed as low as possible, not just within the budget: a
     * refusal then names the same minimum every time. */
    return engine_place(pool, engine, program, refused ? 0 : options->budget_bytes, NULL, NULL);
}

/* Everything kept if that fits the budget, else the planner's cheapest plan. A program that cannot
 * fit keeps its plan with the smallest arena, and engine_new says what the whole needs. */
static Err engine_program(Pool *pool, Engine *engine, const EngineOptions *options,
                          Program *program)
{
    int64_t budget = options->budget_bytes;
    TRY(plan_keep_all(pool, program->pgraph, &program->plan));
    TRY(engine_place(pool, engine, program, 0, NULL, NULL));
    if (program_in_step(program))
        engine->keep_all_ns += (double)program->repeat * program->meter.cost;
    if (program->arena_bytes > engine->keep_all_bytes)
        engine->keep_all_bytes = program->arena_bytes;

    if (budget && program->arena_bytes > budget)
        TRY(engine_solve(pool, engine, options, program));
    program->plan->budget_bytes = budget;
    engine_count(engine, program);
    return OK;
}

const Device *engine_device(const Engine *engine, int32_t node)
{
    return engine->choices[node].builtin ? &engine->builtin_device : engine->device;
}

/* A leaner algorithm that was not measured is assumed to be slower by this factor: workspace
 * usually buys time. */
static const double lean_slower = 1.25;

/* If the preferred algorithm needs more workspace than allowed, or `builtin` selects the node, the
 * builtin backend's leanest algorithm replaces it, provided it needs less. */
static Err engine_lean(Engine *engine, int64_t max_workspace, const bool *builtin)
{
    uint64_t identity = graph_identity(engine->graph);
    for (int32_t i = 0; i < engine->graph->n_nodes; i++) {
        const Node   *node = &engine->graph->nodes[i];
        const Kernel *kernel = node->op->view ? NULL : op_kernel(node->op, engine->device);
        Choice       *choice = &engine->choices[i], lean = { 0 };
        bool          large = max_workspace && choice->workspace_bytes > (size_t)max_workspace;
        bool          wanted = builtin ? builtin[i] : large;
        if (!wanted || !kernel || !kernel->choose || engine->device->kind != DEVICE_CPU)
            continue;
        TRY(kernel->choose(node, &engine->builtin_device, &lean));
        if (lean.workspace_bytes >= choice->workspace_bytes && !builtin)
            continue;
        TimeBasis basis;
        *choice = lean;
        choice->builtin = true;
        engine->node_ns[i] = node_time(engine->device, node, choice, identity, &basis);
        if (basis != TIME_MEASURED)
            engine->node_ns[i] *= lean_slower;
        engine->leaner++;
    }
    return OK;
}

/* Each phase is planned alone, except that micro and update form one program if gradients pass
 * between them without being accumulated. */
static Err engine_list_programs(Pool *pool, Engine *engine, const EngineOptions *options)
{
    bool present[PHASE_COUNT] = { false };
    for (int32_t i = 0; i < engine->graph->n_nodes; i++)
        present[engine->graph->nodes[i].phase] = true;
    bool joined = engine_phases_joined(engine->graph, PHASE_MICRO, PHASE_UPDATE);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        if (!present[phase] || (phase == PHASE_UPDATE && joined))
            continue;
        Program *program = &engine->programs[engine->n_programs++];
        program->phases[phase] = true;
        program->name = phase_public_name((Phase)phase);
        int64_t repeat = phase == PHASE_MICRO      ? options->accumulate
                         : phase == PHASE_VALIDATE ? options->validate
                                                   : 1;
        program->repeat = repeat > 1 ? repeat : 1;
        if (phase == PHASE_MICRO && joined)
            program->phases[PHASE_UPDATE] = true;
        TRY(pgraph_from_graph(pool, engine->graph, program->phases, engine->choices,
                              engine->node_ns, engine->device, program));
    }
    return OK;
}

Err engine_begin(Pool *pool, Graph *graph, const Device *device, const EngineOptions *options,
                 const bool *builtin, Engine **out)
{
    TRY(graph_check(graph));
    Engine *engine = *out = NEW(pool, Engine);
    engine->graph = graph;
    engine->device = device;
    engine->builtin_device = *device;
    engine->builtin_device.backend = backend_lean();
    engine->guards = options->guards;
    engine->choices = NEWN(pool, Choice, graph->n_nodes);
    engine->node_ns = NEWN(pool, double, graph->n_nodes);
    engine->offset = NEWN(pool, int64_t, graph->n_values);
    engine->host_offset = NEWN(pool, int64_t, graph->n_values);
    engine->programs = NEWN(pool, Program, PHASE_COUNT);
    if (!options->no_inplace)
        graph_take_inplace(graph);
    TRY(engine_choose(engine));
    TRY(engine_lean(engine, options->max_workspace, builtin));
    engine_place_persistent(engine);
    engine->arena_bytes = engine->persistent_bytes;
    return engine_list_programs(pool, engine, options);
}

Err engine_new(Pool *pool, Graph *graph, const Device *device, const EngineOptions *options,
               Engine **out)
{
    static const EngineOptions defaults = { 0 };
    if (!options)
        options = &defaults;
    TRY(engine_begin(pool, graph, device, options, NULL, out));
    Engine *engine = *out;
    for (int i = 0; i < engine->n_programs; i++)
        TRY(engine_program(pool, engine, options, &engine->programs[i]));
    if (!options->draft)
        TRY(engine_finish(engine, true));
    if (options->budget_bytes && engine->arena_bytes > options->budget_bytes)
        return fail(E_BUDGET,
                    "no plan fits %s: this model needs at least %s, of which %s are parameters "
                    "and state (lower bound: %s). Use that minimum as the budget, or choose a "
                    "smaller --batch",
                    bytes_exact(options->budget_bytes), bytes_exact(engine->arena_bytes),
                    bytes_text(engine->persistent_bytes), bytes_text(engine->bound_bytes));
    if (!engine_fits(engine, 0))
        return fail(E_BUDGET,
                    "state and copies on the host need %s there, and the limit is %s; raise "
                    "--host-budget",
                    bytes_exact(engine->host_bytes), bytes_exact(device->host_bytes));
    return OK;
}

bool engine_fits(const Engine *engine, int64_t budget_bytes)
{
    int64_t host = engine->device->host_bytes;
    return (!budget_bytes || engine->arena_bytes <= budget_bytes) &&
           (!host || engine->host_bytes <= host);
}

Err engine_within(const Engine *engine, int64_t budget_bytes, const char *what, const char *remedy)
{
    if (!budget_bytes || engine->arena_bytes <= budget_bytes)
        return OK;
    return fail(E_BUDGET, "%s needs %s, and the budget is %s; %s", what,
                bytes_exact(engine->arena_bytes), bytes_exact(budget_bytes),
                remedy ? remedy : "raise the budget to that");
}

static double engine_saved_by(const Engine *engine, int64_t arena_bytes)
{
    double all = (double)engine->keep_all_bytes;
    return all > 0 ? fmax(1 - (double)arena_bytes / all, 0) : 0;
}

double engine_saved(const Engine *engine) { return engine_saved_by(engine, engine->arena_bytes); }

double engine_forecast_ns(const Engine *engine, double sum_ns, int64_t arena_bytes)
{
    const Profile *profile = engine->device->profile;
    return profile ? sum_ns * profile_tight(profile, graph_identity(engine->graph),
                                            engine_saved_by(engine, arena_bytes))
                   : sum_ns;
}

double engine_step_ns(const Engine *engine, int64_t accumulate)
{
    double ns = 0;
    for (int i = 0; i < engine->n_programs; i++)
        if (program_in_step(&engine->programs[i]))
            ns += engine->programs[i].meter.cost *
                  (engine->programs[i].phases[PHASE_MICRO] ? (double)accumulate : 1);
    return engine_forecast_ns(engine, ns, engine->arena_bytes);
}

/* Of what the nodes of a step do: convolutions may run at another pace than products. */
double engine_pace(const Engine *engine)
{
    const Profile *profile = engine->device->profile;
    double         plain = 0, paced = 0;
    if (!profile || profile->pace <= 0)
        return 1;
    if (engine->device->wire) /* times of transfers were divided by it (node_time.c) */
        return profile->pace;
    for (int p = 0; p < engine->n_programs; p++) {
        const Program *program = &engine->programs[p];
        for (int32_t i = 0; i < engine->graph->n_nodes && program_in_step(program); i++) {
            const Node *node = &engine->graph->nodes[i];
            if (node->op->view || !program->phases[node->phase])
                continue;
            double ns = engine->node_ns[i] *
                        (node->phase == PHASE_MICRO ? (double)program->repeat : 1);
            plain += ns;
            paced += ns * node_pace(engine->device, node);
        }
    }
    return plain > 0 ? paced / plain : profile->pace;
}

const char *engine_time_source(const Engine *engine)
{
    const Profile *profile = engine->device->profile;
    if (!profile)
        return "roofline";
    if (profile->pace > 0)
        return "roofline scaled to this machine";
    bool measured = engine->basis_ns[TIME_MEASURED] + engine->basis_ns[TIME_FAMILY] > 0;
    return pool_print(engine->graph->pool, "%sprofile %s", measured ? "" : "roofline of ",
                      profile->name);
}

double engine_time_share(const Engine *engine, TimeBasis basis)
{
    double all = 0;
    for (int i = 0; i < TIME_BASES; i++)
        all += engine->basis_ns[i];
    return all > 0 ? engine->basis_ns[basis] / all : 0;
}
