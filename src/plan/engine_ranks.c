/* engine_ranks.c -- what a plan moves between ranks. */
#include "plan/engine.h"

#include "profile/node_time.h"

static void moving_add(EngineMoving *m, const Engine *engine, int32_t id, int64_t repeat)
{
    const Node *node = &engine->graph->nodes[id];
    NodeWire    wire = node_wire(engine->device, node);
    m->moving_ns += (double)repeat * (wire.transfer + wire.waits);
    m->waits_ns += (double)repeat * wire.waits;
    if (node->op->gives && engine->device->ranks > 1)
        m->bytes += repeat * (engine->device->ranks - 1) * node->op->gives(node);
}

/* A load of a gathered value: the queue's share and what its wait adds. */
static void moving_add_load(EngineMoving *m, const Engine *engine, const Program *program,
                            int32_t value, int64_t repeat)
{
    const PValue *p = &program->pgraph->values[value];
    const Value  *whole = value_at(engine->graph, program->value_of[value]);
    m->moving_ns += (double)repeat * (p->wire + p->stall);
    m->waits_ns += (double)repeat * p->stall;
    m->bytes += repeat * (engine->device->ranks - 1) * whole->gathered->shard *
                type_bytes(whole->type);
}

EngineMoving engine_moving(const Engine *engine, int64_t rounds)
{
    EngineMoving m = { 0 };
    double       pace = engine_pace(engine);
    for (int i = 0; i < engine->n_programs; i++) {
        const Program *program = &engine->programs[i];
        int64_t        repeat = program->phases[PHASE_MICRO] ? rounds : 1;
        if (!program_in_step(program))
            continue;
        m.waits_ns += (double)repeat * program->meter.waited_wire;
        for (int32_t s = 0; s < program->plan->n_steps; s++) {
            Step step = program->plan->steps[s];
            if (step.kind == STEP_RUN)
                moving_add(&m, engine, program->node_of[step.id], repeat);
            else if (step.kind == STEP_LOAD && program->pgraph->values[step.id].gathered)
                moving_add_load(&m, engine, program, step.id, repeat);
        }
    }
    m.moving_ns *= pace;
    m.waits_ns *= pace;
    return m;
}
