/* engine_prove.c -- how far from the best possible are an engine's plans? Bounds of plan/prove.h,
 * program by program. */
#include "plan/engine.h"

#include "plan/prove.h"

/* Persistent values that a program never touches are in its arena too. */
static int64_t untouched_bytes(const Engine *engine, const Program *program)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < engine->graph->n_values; i++)
        if (engine->offset[i] >= 0)
            bytes += value_at(engine->graph, i)->bytes;
    for (int32_t i = 0; i < program->pgraph->n_values; i++)
        if (program->pgraph->values[i].persistent)
            bytes -= program->pgraph->values[i].bytes;
    return bytes;
}

Err engine_prove(Pool *pool, const Engine *engine, int64_t budget_bytes, double limit_s,
                 EngineProof *proof)
{
    *proof = (EngineProof){ .reached = true };
    for (int i = 0; i < engine->n_programs; i++) {
        const Program *program = &engine->programs[i];
        int64_t        aside = untouched_bytes(engine, program);
        ProveOptions how = { .budget_bytes = budget_bytes > aside ? budget_bytes - aside : 1,
                             .time_limit_s = limit_s,
                             .any_only = true };
        Proof          one;
        double         min_cost = 0;
        for (int32_t j = 0; j < program->pgraph->n_nodes; j++)
            min_cost += program->pgraph->nodes[j].cost;
        /* The bounds know no host: where copies may replace recomputation, running every node once
         * is all that is sure. */
        if (program->meter.n_recomputes && program->arena_bytes <= budget_bytes &&
            engine->device->to_host <= 0) {
            TRY(plan_prove(pool, program->pgraph, program->plan, &how, &one));
            min_cost = one.any_cost;
            if (one.any_bytes + aside > proof->bytes)
                proof->bytes = one.any_bytes + aside;
        } else if (program->bound_bytes > proof->bytes) {
            proof->bytes = program->bound_bytes;
        }
        if (!program_in_step(program))  /* validating, sampling: bytes, but no time of a step */
            continue;
        proof->cost_ns += (double)program->repeat * min_cost;
        proof->reached &= program->meter.cost <= min_cost * (1 + 1e-9);
    }
    return OK;
}
