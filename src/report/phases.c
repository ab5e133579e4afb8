/* phases.c -- the phases of a step and of what is done between steps, each with its own peak.
 *
 * A phase is one of first, micro, update, validate, sample, save. Programs are how the planner
 * groups them: one may hold two phases (a step of one micro-batch updates at once), and a sampler's
 * three parts are one phase.
 */
#include "report/explain.h"

#include <string.h>

/* The part whose run a step belongs to: a copy or a drop goes with the run it comes before, at the
 * end with the last one. */
static void phases_parts(const Engine *engine, const Program *p, uint8_t *part_of)
{
    uint8_t part = PART_COUNT;
    for (int32_t s = p->plan->n_steps - 1; s >= 0; s--) {
        if (p->plan->steps[s].kind == STEP_RUN)
            part = (uint8_t)engine->graph->nodes[p->node_of[p->plan->steps[s].id]].part;
        part_of[s] = part;
    }
    for (int32_t s = 1; s < p->plan->n_steps; s++)
        if (part_of[s] == PART_COUNT)
            part_of[s] = part_of[s - 1];
}

static Phase *phase_named(Phase *phases, int32_t *n, Phase like)
{
    for (int32_t i = 0; i < *n; i++)
        if (!strcmp(phases[i].name, like.name))
            return &phases[i];
    phases[*n] = like;
    return &phases[(*n)++];
}

/* The highest byte the phase's runs are given, and what is live at its own peak instant, the first
 * step with the most. */
static void phase_part(Pool *pool, const Engine *engine, const Program *p, const uint8_t *part_of,
                       Part part, Phase *phase)
{
    int32_t at = -1;
    int64_t elsewhere = p->live_bytes - p->meter.live_bytes;
    for (int32_t s = 0; s < p->plan->n_steps; s++) {
        StepKind kind = p->plan->steps[s].kind;
        if (part_of[s] != part || (kind != STEP_RUN && kind != STEP_LOAD))
            continue;                        /* nothing else adds bytes */
        phase->steps += kind == STEP_RUN;
        if (p->meter.curve[s] + elsewhere > phase->live_bytes) {
            phase->live_bytes = p->meter.curve[s] + elsewhere;
            at = s;
        }
    }
    if (at >= 0) {
        Sheet sheet;
        sheet_at(pool, engine, p, at, &sheet);
        memcpy(phase->classes, sheet.classes, sizeof phase->classes);
    }
    if (engine->part_bytes[part] > phase->peak_bytes)
        phase->peak_bytes = engine->part_bytes[part];
}

void phases_find(Pool *pool, const Recipe *recipe, const Engine *engine, Phase **list, int32_t *n)
{
    Pool  *scratch = pool_new(NULL, "phases");
    Phase *phases = *list = NEWN(pool, Phase, PART_COUNT + 1);
    *n = 0;
    for (int i = 0; i < engine->n_programs; i++) {
        const Program *p = &engine->programs[i];
        bool           validate = p->parts[PART_VALIDATE];
        int64_t        every = program_in_step(p) ? 1
                               : validate         ? recipe->validate.every
                                                  : recipe->sample.every;
        int64_t        repeat = p->parts[PART_MICRO] ? recipe->accumulate
                                : validate           ? recipe->validate.batches
                                                     : 1;
        uint8_t       *part_of = NEWN(scratch, uint8_t, p->plan->n_steps + 1);
        phases_parts(engine, p, part_of);
        for (int part = 0; part < PART_COUNT; part++)
            if (p->parts[part])
                phase_part(scratch, engine, p, part_of, (Part)part,
                           phase_named(phases, n, (Phase){ .name = part_phase((Part)part),
                                                           .repeat = repeat, .every = every }));
    }
    /* A checkpoint is written from what stays in the arena; its buffer on the host is outside. */
    Phase *save = phase_named(phases, n, (Phase){ .name = "save", .every = recipe->save.every,
                                                  .peak_bytes = engine->persistent_bytes });
    for (int32_t i = 0; i < engine->graph->n_values; i++)
        if (engine->offset[i] >= 0) {
            save->classes[value_at(engine->graph, i)->class] += value_at(engine->graph, i)->bytes;
            save->live_bytes += value_at(engine->graph, i)->bytes;
        }
    /* A phase may leave the upper end of the state alone: it lies there all the same. */
    for (int32_t i = 0; i < *n; i++)
        if (phases[i].peak_bytes < phases[i].live_bytes)
            phases[i].peak_bytes = phases[i].live_bytes;
    pool_free(scratch);
}
