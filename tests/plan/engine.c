/* engine.c -- an engine's figures for programs that are made by hand: the highest byte of a phase
 * counts no range without bytes of its own. */
#include "test.h"

#include "plan/engine.h"
#include "plan/make.h"

/* What lies before the first buffer is nobody's: an offset read there shows in the figures. */
static void guard_first(Pool *pool, PlanBuffers *all)
{
    Buffer *room = NEWN(pool, Buffer, all->n_buffers + 1);
    room[0].offset = (int64_t)1 << 40;
    memcpy(room + 1, all->buffers, (size_t)all->n_buffers * sizeof *room);
    all->buffers = room + 1;
}

/* Each pgraph node and value is the graph's of the same index, all in one phase. */
static Engine *engine_of(Pool *pool, const PGraph *pgraph, const Device *device)
{
    Engine *engine = NEW(pool, Engine);
    engine->graph = NEW(pool, Graph);
    engine->device = device;
    engine->graph->pool = pool;
    engine->graph->nodes = NEWN(pool, Node, pgraph->n_nodes);
    engine->graph->values = NEWN(pool, Value, pgraph->n_values);
    engine->graph->n_nodes = pgraph->n_nodes;
    engine->graph->n_values = pgraph->n_values;
    engine->offset = NEWN(pool, int64_t, pgraph->n_values);
    engine->programs = NEW(pool, Program);
    engine->n_programs = 1;
    for (int32_t i = 0; i < pgraph->n_nodes; i++)
        engine->graph->nodes[i].phase = PHASE_MICRO;
    for (int32_t i = 0; i < pgraph->n_values; i++) {
        engine->graph->values[i] = (Value){ .bytes = pgraph->values[i].bytes, .root = i };
        engine->offset[i] = pgraph->values[i].persistent ? engine->persistent_bytes : -1;
        engine->persistent_bytes += pgraph->values[i].persistent ? pgraph->values[i].bytes : 0;
    }
    return engine;
}

static int64_t phase_top(Pool *pool, PGraph *pgraph)
{
    static const Device device = { .name = "test", .kind = DEVICE_CPU, .align = 1 };
    Engine             *engine = engine_of(pool, pgraph, &device);
    Program            *program = engine->programs;
    program->name = "micro";
    program->phases[PHASE_MICRO] = true;
    program->repeat = 1;
    program->pgraph = pgraph;
    program->node_of = NEWN(pool, int32_t, pgraph->n_nodes);
    program->value_of = NEWN(pool, int32_t, pgraph->n_values);
    for (int32_t i = 0; i < pgraph->n_nodes; i++)
        program->node_of[i] = i;
    for (int32_t i = 0; i < pgraph->n_values; i++)
        program->value_of[i] = i;
    CHECK_OK(plan_keep_all(pool, pgraph, &program->plan));
    CHECK_OK(engine_place(pool, engine, program, 0, NULL, NULL));
    guard_first(pool, &program->buffers);
    engine_count(engine, program);
    CHECK_OK(engine_finish(engine, false));
    return engine->phase_bytes[PHASE_MICRO];
}

static void phase_top_of_buffers(void)
{
    Pool   *pool = pool_new(NULL, "test");
    Make    m = make_begin(pool, 1);
    int32_t w = make_value(&m, 64, true), a = make_value(&m, 16, false),
            b = make_value(&m, 8, false);
    make_node(&m, 1, 0, w, -1, a, -1);
    make_node(&m, 1, 4, a, -1, b, -1);
    CHECK_INT(phase_top(pool, m.graph), 64 + 16 + 8 + 4);
    pool_free(pool);
}

static void phase_top_with_value_of_no_bytes(void)
{
    Pool   *pool = pool_new(NULL, "test");
    Make    m = make_begin(pool, 1);
    int32_t w = make_value(&m, 64, true), a = make_value(&m, 16, false),
            empty = make_value(&m, 0, false), b = make_value(&m, 8, false);
    make_node(&m, 1, 0, w, -1, a, -1);
    make_node(&m, 1, 0, a, -1, empty, -1);
    make_node(&m, 1, 0, a, empty, -1, b, -1);
    CHECK_INT(phase_top(pool, m.graph), 64 + 16 + 8);
    pool_free(pool);
}

/* The output lies in the persistent value's bytes, below all buffers. */
static void phase_top_with_bytes_taken_over(void)
{
    Pool   *pool = pool_new(NULL, "test");
    Make    m = make_begin(pool, 1);
    int32_t w = make_value(&m, 64, true), a = make_value(&m, 16, false),
            within = make_value(&m, 64, false);
    int32_t pair[1][2] = { { within, w } };
    make_node(&m, 1, 0, w, -1, a, -1);
    int32_t last = make_node(&m, 1, 0, a, w, -1, within, -1);
    m.graph->nodes[last].inplace = pair;
    m.graph->nodes[last].n_inplace = 1;
    CHECK_INT(phase_top(pool, m.graph), 64 + 16);
    pool_free(pool);
}

int main(void)
{
    RUN(phase_top_of_buffers);
    RUN(phase_top_with_value_of_no_bytes);
    RUN(phase_top_with_bytes_taken_over);
    return test_end();
}
