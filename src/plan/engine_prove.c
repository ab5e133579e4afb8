/* engine_prove.c -- lower bounds for an engine's plans, program by program (plan/prove.h). */
#include "plan/engine.h"

#include "plan/prove.h"

Err engine_prove(Pool *pool, const Engine *engine, int64_t budget_bytes, double limit_s,
                 EngineProof *proof)
{
    *proof = (EngineProof){ .reached = true };
    for (int i = 0; i < engine->n_programs; i++) {
        const Program *program = &engine->programs[i];
        int64_t        untouched = engine_untouched_bytes(engine, program, false);
        ProveOptions   how = { .budget_bytes = budget_bytes > untouched ? budget_bytes - untouched
                                                                        : 1,
                               .time_limit_s = limit_s,
                               .any_only = true };
        Proof          one;
        double         min_cost = 0;
        for (int32_t j = 0; j < program->pgraph->n_nodes; j++)
            min_cost += program->pgraph->nodes[j].cost;
        /* The bounds ignore the host. If copies may replace recomputation, the only safe bound is
         * to run each node once. */
        if (program->meter.n_recomputes && program->arena_bytes <= budget_bytes &&
            engine->device->to_host <= 0) {
            TRY(plan_prove(pool, program->pgraph, program->plan, &how, &one));
            min_cost = one.any_cost;
            if (one.any_bytes + untouched > proof->bytes)
                proof->bytes = one.any_bytes + untouched;
        } else if (program->bound_bytes > proof->bytes) {
            proof->bytes = program->bound_bytes;
        }
        if (!program_in_step(program)) /* phases between steps count for bytes, not for the time of
                                         * a step */
            continue;
        proof->cost_ns += (double)program->repeat * min_cost;
        proof->reached &= program->meter.cost <= min_cost * (1 + 1e-9);
    }
    return OK;
}
