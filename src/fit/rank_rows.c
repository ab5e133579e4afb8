/* rank_rows.c -- what one rank of several needs and how long a step takes, at each level of
 * division. */
#include "fit/explained.h"

RankRow rank_row(const Engine *engine, const Recipe *recipe)
{
    int64_t rounds = recipe_rounds(recipe);
    RankRow row = { .shard = recipe->levers.shard,
                    .peak_bytes = engine->arena_bytes,
                    .step_ms = engine_step_ns(engine, rounds) * engine_pace(engine) * 1e-6,
                    .moving = engine_moving(engine, rounds) };
    for (int32_t i = 0; i < engine->graph->n_values; i++)
        if (engine->offset[i] >= 0)
            row.state_bytes[value_at(engine->graph, i)->mem_class] +=
                value_at(engine->graph, i)->bytes;
    return row;
}

static Err rank_row_at(const Recipe *recipe, const Device *device, int shard, RankRow *row)
{
    Pool         *pool = pool_new(NULL, "level");
    Recipe       *copy = recipe_copy(pool, recipe);
    TrainingGraph graph;
    Engine       *engine;
    copy->levers.shard = shard;
    Err err = recipe_graph(pool, copy, false, &graph);
    err = err ? err : engine_new(pool, graph.graph, device, NULL, &engine);
    if (!err)
        *row = rank_row(engine, copy);
    pool_free(pool);
    return err;
}

Err rank_rows_find(Pool *pool, const Recipe *recipe, const Device *device, RankRow **list, int *n)
{
    *n = 0;
    if (recipe->levers.ranks <= 1)
        return OK;
    *list = NEWN(pool, RankRow, SHARD_MAX + 1);
    for (int shard = 0; shard <= SHARD_MAX; shard++)
        TRY(rank_row_at(recipe, device, shard, &(*list)[(*n)++]));
    return OK;
}
