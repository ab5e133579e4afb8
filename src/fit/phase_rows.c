/* phase_rows.c -- the phases of a step, and those between steps, each with its own peak.
 *
 * A phase is one of first, micro, update, validate, sample, save. The planner groups phases into
 * programs: a program may hold two (without accumulation the update belongs to the micro-batch),
 * and the three programs of a sampler are one phase.
 */
#include "fit/explained.h"

#include <string.h>

/* The phase of every step. A copy or a drop belongs to the run that follows it, at the end to the
 * last run. */
static void phases_listed(const Engine *engine, const Program *p, uint8_t *phase_of)
{
    uint8_t phase = PHASE_COUNT;
    for (int32_t s = p->plan->n_steps - 1; s >= 0; s--) {
        if (p->plan->steps[s].kind == STEP_RUN)
            phase = (uint8_t)engine->graph->nodes[p->node_of[p->plan->steps[s].id]].phase;
        phase_of[s] = phase;
    }
    for (int32_t s = 1; s < p->plan->n_steps; s++)
        if (phase_of[s] == PHASE_COUNT)
            phase_of[s] = phase_of[s - 1];
}

static PhaseRow *phase_named(PhaseRow *phases, int32_t *n, PhaseRow like)
{
    for (int32_t i = 0; i < *n; i++)
        if (!strcmp(phases[i].name, like.name))
            return &phases[i];
    phases[*n] = like;
    return &phases[(*n)++];
}

/* The highest byte that the phase's runs use, and what is live at its own peak step, the first step
 * with the largest live sum. */
static void phase_measure(Pool *pool, const Engine *engine, const Program *p,
                          const uint8_t *phase_of, Phase phase, PhaseRow *row)
{
    int32_t at = -1;
    int64_t elsewhere = p->live_bytes - p->meter.live_bytes;
    for (int32_t s = 0; s < p->plan->n_steps; s++) {
        StepKind kind = p->plan->steps[s].kind;
        if (phase_of[s] != phase || (kind != STEP_RUN && kind != STEP_LOAD))
            continue; /* other steps add no bytes */
        row->steps += kind == STEP_RUN;
        if (p->meter.curve[s] + elsewhere > row->live_bytes) {
            row->live_bytes = p->meter.curve[s] + elsewhere;
            at = s;
        }
    }
    if (at >= 0) {
        Sheet sheet;
        sheet_at(pool, engine, p, at, &sheet);
        memcpy(row->classes, sheet.classes, sizeof row->classes);
    }
    if (engine->phase_bytes[phase] > row->peak_bytes)
        row->peak_bytes = engine->phase_bytes[phase];
}

void phases_find(Pool *pool, const Recipe *recipe, const Engine *engine, PhaseRow **list,
                 int32_t *n)
{
    Pool     *own = pool_new(NULL, "phases");
    PhaseRow *phases = *list = NEWN(pool, PhaseRow, PHASE_COUNT + 1);
    *n = 0;
    for (int i = 0; i < engine->n_programs; i++) {
        const Program *p = &engine->programs[i];
        bool           validate = p->phases[PHASE_VALIDATE];
        int64_t        every = program_in_step(p) ? 1
                               : validate         ? recipe->validate.every
                                                  : recipe->sample.every;
        int64_t        repeat = p->phases[PHASE_MICRO] ? recipe_rounds(recipe)
                                : validate             ? recipe->validate.batches
                                                       : 1;
        uint8_t       *phase_of = NEWN(own, uint8_t, p->plan->n_steps + 1);
        phases_listed(engine, p, phase_of);
        for (int phase = 0; phase < PHASE_COUNT; phase++)
            if (p->phases[phase])
                phase_measure(own, engine, p, phase_of, (Phase)phase,
                              phase_named(phases, n,
                                          (PhaseRow){ .name = phase_public_name((Phase)phase),
                                                      .repeat = repeat,
                                                      .every = every }));
    }
    /* A checkpoint is written from the persistent values; its host buffer is outside the arena. */
    PhaseRow *save = phase_named(phases, n,
                                 (PhaseRow){ .name = "save",
                                             .every = recipe->save.every,
                                             .peak_bytes = engine->persistent_bytes });
    for (int32_t i = 0; i < engine->graph->n_values; i++)
        if (engine->offset[i] >= 0) {
            save->classes[value_at(engine->graph, i)->mem_class] +=
                value_at(engine->graph, i)->bytes;
            save->live_bytes += value_at(engine->graph, i)->bytes;
        }
    /* State counts even where a phase does not touch the upper end of it. */
    for (int32_t i = 0; i < *n; i++)
        if (phases[i].peak_bytes < phases[i].live_bytes)
            phases[i].peak_bytes = phases[i].live_bytes;
    pool_free(own);
}
