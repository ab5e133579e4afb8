/* phase_file.c -- phases of plan.json: the steps of the programs, by the phases of the contract.
 *
 * A phase in the file is a range of steps of one program. Most programs are one phase. If gradients
 * are not accumulated, micro and update are planned as one program: its steps before the first run
 * of the update are `micro`, the rest is `update`, as exec/ runs them. A value that lives on from
 * one to the other is simply not dropped between them.
 *
 *   program     | run drop run run drop | run drop run |
 *   phases      |        micro          |    update    |      offsets: of the buffers begun in each
 */
#include "plan/phase_file.h"

#include "plan/plan_file.h"

#include <string.h>

enum { MAX_PHASES = 2 };

typedef struct PhaseRange { /* steps [from, to) of a program */
    const char *name;
    Phase       phase;
    int32_t     from, to;
} PhaseRange;

static bool phase_joined(const Program *program)
{
    return program->phases[PHASE_MICRO] && program->phases[PHASE_UPDATE];
}

static Phase phase_of_step(const Engine *engine, const Program *program, int32_t step)
{
    return engine->graph->nodes[program->node_of[program->plan->steps[step].id]].phase;
}

static int phase_ranges(const Engine *engine, const Program *program, PhaseRange ranges[MAX_PHASES])
{
    int32_t n = program->plan->n_steps, split = 0;
    int     phase = 0;
    while (!program->phases[phase])
        phase++;
    ranges[0] = (PhaseRange){ phase_public_name((Phase)phase), (Phase)phase, 0, n };
    if (!phase_joined(program))
        return 1;
    while (split < n && (program->plan->steps[split].kind != STEP_RUN ||
                         phase_of_step(engine, program, split) != PHASE_UPDATE))
        split++;
    ranges[0].to = split;
    ranges[1] = (PhaseRange){ phase_public_name(PHASE_UPDATE), PHASE_UPDATE, split, n };
    return 2;
}

/* ---- the figures of a phase ---- */

static int64_t range_live_bytes(const Program *program, PhaseRange range)
{
    int64_t peak = 0;
    for (int32_t s = range.from; s < range.to; s++)
        peak = program->meter.curve[s] > peak ? program->meter.curve[s] : peak;
    return peak + program->live_bytes - program->meter.live_bytes;
}

/* The highest end of the buffers that are live during the phase. */
static int64_t range_arena_bytes(const Engine *engine, const Program *program, PhaseRange range)
{
    int64_t top = 0;
    for (int32_t i = 0; i < program->buffers.n_buffers; i++) {
        const Buffer *b = &program->buffers.buffers[i];
        if (b->lower < range.to && b->upper > range.from && b->offset + b->size > top)
            top = b->offset + b->size;
    }
    return engine->persistent_bytes + top;
}

/* The index of the first buffer that begins at or after a step; buffers are in order of their first
 * steps. */
static int32_t first_buffer(const PlanBuffers *all, int32_t step)
{
    int32_t i = 0;
    while (i < all->n_buffers && all->buffers[i].lower < step)
        i++;
    return i;
}

static double range_cost(const Engine *engine, const Program *program, PhaseRange range,
                         double whole, bool base)
{
    double micro = 0;
    if (!phase_joined(program))
        return whole;
    for (int32_t s = 0; !base && s < (range.phase == PHASE_UPDATE ? range.from : range.to); s++)
        if (program->plan->steps[s].kind == STEP_RUN)
            micro += program->pgraph->nodes[program->plan->steps[s].id].cost;
    for (int32_t i = 0; base && i < program->pgraph->n_nodes; i++)
        if (engine->graph->nodes[program->node_of[i]].phase == PHASE_MICRO)
            micro += program->pgraph->nodes[i].cost;
    return range.phase == PHASE_UPDATE ? whole - micro : micro;
}

/* ---- out ---- */

static void offsets_write(JsonOut *o, const char *key, const PlanBuffers *all, PhaseRange range)
{
    json_out_row(o, key); /* in the order in which the steps begin the buffers */
    for (int32_t i = first_buffer(all, range.from); i < first_buffer(all, range.to); i++)
        json_out_int(o, NULL, all->buffers[i].offset);
    json_out_end(o);
}

static void phase_write(JsonOut *o, const Engine *engine, const Program *program, PhaseRange range)
{
    json_out_object(o, NULL);
    json_out_string(o, "name", phase_name(range.phase));
    json_out_int(o, "repeat", program->repeat);
    json_out_int(o, "live_bytes", range_live_bytes(program, range));
    json_out_int(o, "arena_bytes", range_arena_bytes(engine, program, range));
    json_out_int(o, "bound_bytes", program->bound_bytes);
    json_out_number(o, "cost", range_cost(engine, program, range, program->meter.cost, false));
    json_out_number(o, "base_cost",
                    range_cost(engine, program, range, pgraph_base_cost(program->pgraph), true));
    offsets_write(o, "offsets", &program->buffers, range);
    if (program->slots.n_buffers) {
        json_out_int(o, "host_bytes", program->host_bytes);
        offsets_write(o, "host_offsets", &program->slots, range);
    }
    plan_steps_write(o, program->pgraph, program->plan, range.from, range.to);
    json_out_end(o);
}

void phases_write(JsonOut *o, const Engine *engine)
{
    json_out_array(o, "phases");
    for (int i = 0; i < engine->n_programs; i++) {
        PhaseRange ranges[MAX_PHASES];
        int        n = phase_ranges(engine, &engine->programs[i], ranges);
        for (int k = 0; k < n; k++)
            phase_write(o, engine, &engine->programs[i], ranges[k]);
    }
    json_out_end(o);
}

/* ---- in ---- */

Err figure_read(const Json *object, const char *key, int64_t here)
{
    int64_t there;
    TRY(json_need_int(object, key, &there));
    if (there != here)
        return fail(E_PLAN,
                    "%s says %s %lld, its steps need %lld; the file was changed or is damaged",
                    json_name(object), key, (long long)there, (long long)here);
    return OK;
}

static Err offsets_read(const Json *phase, const char *key, const PlanBuffers *all,
                        PhaseRange range, int64_t *offsets)
{
    const Json *list = NULL;
    int32_t     first = first_buffer(all, range.from), n = first_buffer(all, range.to) - first;
    if (n == 0 && !json_get(phase, key))
        return OK;
    TRY(json_need_array(phase, key, &list));
    if (list->n != (uint32_t)n)
        return json_fail(phase, list, "%u %s are given for %d buffers", list->n, key, n);
    for (uint32_t i = 0; i < list->n; i++)
        TRY(json_item_int(list, i, &offsets[first + (int32_t)i]));
    return OK;
}

/* Does the step copy a value to the host or back? */
static bool step_offloads(const Program *program, Step step)
{
    return step.kind != STEP_RUN && step.kind != STEP_DROP &&
           !program->pgraph->values[step.id].gathered;
}

/* The item must be this phase of the program; its steps are added to the program's. */
static Err steps_read(Pool *pool, const Json *item, const Engine *engine, Program *program,
                      Phase phase)
{
    const Json *steps;
    const char *name;
    int64_t     repeat;
    int32_t     from = program->plan->n_steps;
    TRY(json_need_text(item, "name", &name));
    TRY(json_need_int(item, "repeat", &repeat));
    TRY(json_need_array(item, "steps", &steps));
    if (strcmp(name, phase_name(phase)) || repeat != program->repeat)
        return fail(E_PLAN, "%s has a phase %s run %lld times where this step has %s, %lld times",
                    json_name(item), name, (long long)repeat, phase_name(phase),
                    (long long)program->repeat);
    TRY(plan_steps_read(pool, steps, program->pgraph, program->plan));
    for (int32_t i = from; i < program->plan->n_steps; i++)
        if (step_offloads(program, program->plan->steps[i]) && engine->device->to_host <= 0)
            return fail(E_PLAN, "%s offloads a value to the host, but %s has no memory of its own",
                        json_name(item), engine->device->name);
    return OK;
}

static Err program_read(Pool *pool, const Json *phases, Engine *engine, Program *program,
                        int64_t budget_bytes)
{
    PhaseRange ranges[MAX_PHASES];
    Plan      *plan = program->plan = NEW(pool, Plan);
    int        n = phase_ranges(engine, program, ranges);
    int32_t    split = 0;
    for (int k = 0; k < n; k++) {
        split = plan->n_steps;
        TRY(steps_read(pool, &phases[k], engine, program, ranges[k].phase));
    }
    phase_ranges(engine, program, ranges);
    if (n > 1 && ranges[1].from != split)
        return fail(E_PLAN, "%s: the phase update begins at step %d, its first run is at step %d",
                    json_name(&phases[1]), split, ranges[1].from);
    TRY(plan_check(program->pgraph, plan, 0));
    TRY(plan_buffers(pool, program->pgraph, plan, &program->buffers));
    TRY(plan_slots(pool, program->pgraph, plan, &program->slots));
    int64_t *offsets = NEWN(pool, int64_t, program->buffers.n_buffers + 1);
    int64_t *slots = NEWN(pool, int64_t, program->slots.n_buffers + 1);
    for (int k = 0; k < n; k++) {
        TRY(offsets_read(&phases[k], "offsets", &program->buffers, ranges[k], offsets));
        TRY(offsets_read(&phases[k], "host_offsets", &program->slots, ranges[k], slots));
    }
    plan->budget_bytes = budget_bytes;
    plan->base_cost = pgraph_base_cost(program->pgraph);
    plan->bound_bytes = plan_bound_bytes(program->pgraph);
    TRY(engine_place(pool, engine, program, 0, offsets, slots));
    plan->live_bytes = program->meter.live_bytes;
    plan->cost = program->meter.cost;
    engine_count(engine, program);
    if (program_in_step(program))
        engine->keep_all_ns += (double)program->repeat * plan->base_cost;
    for (int k = 0; k < n; k++) {
        int64_t host = 0;
        TRY(figure_read(&phases[k], "live_bytes", range_live_bytes(program, ranges[k])));
        TRY(json_maybe_int(&phases[k], "host_bytes", &host));
        if (host != program->host_bytes)
            TRY(figure_read(&phases[k], "host_bytes", program->host_bytes));
        TRY(figure_read(&phases[k], "arena_bytes", range_arena_bytes(engine, program, ranges[k])));
    }
    return OK;
}

Err phases_read(Pool *pool, const Json *root, Engine *engine, int64_t budget_bytes)
{
    const Json *phases;
    uint32_t    n = 0;
    TRY(json_need_array(root, "phases", &phases));
    for (uint32_t i = 0; i < phases->n; i++) {
        const char *name = NULL;
        if (phases->items[i].kind != JSON_OBJECT)
            return json_fail(phases, &phases->items[i], "a phase must be an object, not %s",
                             json_kind_text(&phases->items[i]));
        TRY(json_maybe_text(&phases->items[i], "name", &name));
        if (name && !strcmp(name, "micro+update"))
            return fail(E_PLAN,
                        "%s is a plan of an earlier version, which wrote micro and update "
                        "as one phase; make a new one with plimsoll fit (a run continues with "
                        "train --resume RUN --budget B)",
                        json_name(root));
    }
    for (int i = 0; i < engine->n_programs; i++)
        n += phase_joined(&engine->programs[i]) ? 2 : 1;
    if (phases->n != n)
        return json_fail(root, phases, "%u phases are given, this step has %u", phases->n, n);
    for (int i = 0, at = 0; i < engine->n_programs; i++) {
        TRY(program_read(pool, &phases->items[at], engine, &engine->programs[i], budget_bytes));
        at += phase_joined(&engine->programs[i]) ? 2 : 1;
    }
    return OK;
}
