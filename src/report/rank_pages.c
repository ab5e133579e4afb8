/* rank_pages.c -- one rank of several, as text and as JSON. */
#include "report/rank_pages.h"

#include "base/text.h"
#include "profile/rank_device.h"
#include "report/machine.h"

static Ranks ranks_of(const Device *device) { return (Ranks){ device->ranks, device->per_node }; }

static const char *wire_text(Pool *pool, const Device *device)
{
    return device->wire->assumed
               ? pool_print(pool, "the wire profile %s is assumed; --wire names another",
                            device->wire->name)
               : pool_print(pool, "by the wire profile %s", device->wire->name);
}

const char *rank_text(Pool *pool, const Engine *engine, const Recipe *recipe)
{
    const Device *device = engine->device;
    int64_t rounds = recipe_rounds(recipe), held = wire_held_bytes(device->wire, ranks_of(device));
    EngineMoving m = engine_moving(engine, rounds);
    return pool_print(pool,
                      "One rank of %d, %d on each machine, runs %lld of the %lld micro-batches of "
                      "a step and sends %s a step: that takes %s, of which it waits %s (%s); the "
                      "library that moves them holds about %s more outside the arena",
                      device->ranks, device->per_node, (long long)rounds,
                      (long long)recipe->accumulate, bytes_text(m.bytes),
                      step_text(pool, m.moving_ns), step_text(pool, m.waits_ns),
                      wire_text(pool, device), bytes_text(held));
}

static int64_t row_state(const RankRow *row)
{
    return row->state_bytes[CLASS_OPTIMIZER] + row->state_bytes[CLASS_EMA] +
           row->state_bytes[CLASS_MASTER];
}

void rank_rows_print(FILE *to, const Explained *e)
{
    Pool *pool = e->sheet->engine->graph->pool;
    if (!e->n_rank_rows)
        return;
    fprintf(to, "\n%-10s %11s %11s %11s %11s %11s %11s %11s\n", "--shard", "peak", "parameters",
            "gradients", "state", "step", "moving", "waiting");
    for (int i = 0; i < e->n_rank_rows; i++) {
        const RankRow *row = &e->rank_rows[i];
        fprintf(to, "  %d%-7s %11s", row->shard, row->shard == e->recipe->levers.shard ? " <" : "",
                bytes_text(row->peak_bytes));
        fprintf(to, " %11s", bytes_text(row->state_bytes[CLASS_PARAMETERS]));
        fprintf(to, " %11s", bytes_text(row->state_bytes[CLASS_GRADIENTS]));
        fprintf(to, " %11s", bytes_text(row_state(row)));
        fprintf(to, " %11s %11s %11s\n", step_text(pool, row->step_ms * 1e6),
                step_text(pool, row->moving.moving_ns), step_text(pool, row->moving.waits_ns));
    }
    print_sentence(to, "%s", rank_text(pool, e->sheet->engine, e->recipe));
}

static void moving_json(JsonOut *o, EngineMoving m)
{
    json_out_int(o, "sent_bytes", m.bytes);
    json_out_number(o, "moving_ms", m.moving_ns * 1e-6);
    json_out_number(o, "waiting_ms", m.waits_ns * 1e-6);
}

static void rank_row_json(JsonOut *o, const RankRow *row)
{
    json_out_object_row(o, NULL);
    json_out_int(o, "shard", row->shard);
    json_out_int(o, "peak_bytes", row->peak_bytes);
    json_out_object_row(o, "state");
    for (int c = 0; c < CLASS_COUNT; c++)
        if (row->state_bytes[c])
            json_out_int(o, class_name((Class)c), row->state_bytes[c]);
    json_out_end(o);
    json_out_number(o, "step_ms", row->step_ms);
    moving_json(o, row->moving);
    json_out_end(o);
}

void rank_json(JsonOut *o, const Engine *engine, const Recipe *recipe, const RankRow *rows,
               int n_rows)
{
    const Device *device = engine->device;
    int64_t       rounds = recipe_rounds(recipe);
    if (recipe->levers.ranks <= 1)
        return;
    json_out_object(o, "ranks");
    json_out_int(o, "ranks", device->ranks);
    json_out_int(o, "per_node", device->per_node);
    json_out_int(o, "rounds", rounds);
    json_out_int(o, "shard", recipe->levers.shard);
    json_out_int(o, "buckets", engine->graph->n_buckets);
    json_out_string(o, "wire", device->wire->name);
    json_out_bool(o, "wire_assumed", device->wire->assumed);
    json_out_int(o, "held_bytes", wire_held_bytes(device->wire, ranks_of(device)));
    moving_json(o, engine_moving(engine, rounds));
    if (rows) {
        json_out_array(o, "levels");
        for (int i = 0; i < n_rows; i++)
            rank_row_json(o, &rows[i]);
        json_out_end(o);
    }
    json_out_end(o);
}
