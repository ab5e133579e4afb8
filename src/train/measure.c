/* measure.c -- steps with a clock at every node. */
#include "train/measure.h"

#include "base/clock.h"
#include "exec/session.h"
#include "ops/optim.h"
#include "plan/node_time.h"
#include "train/feeds.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_STEPS = 15 };

typedef struct Stopwatch {
    const Recipe *recipe;
    TrainingGraph graph;
    Engine       *engine;
    Session      *session;
    Feeds         feeds;
    int64_t       micro;             /* micro-batches run so far */
    double       *ns;                /* per node, of the step that runs */
    float        *samples;           /* per node: MAX_STEPS times */
    int           n_samples;
} Stopwatch;

static int order_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double median(float *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, order_floats);
    return n % 2 ? (double)values[n / 2] : ((double)values[n / 2 - 1] + (double)values[n / 2]) / 2;
}

/* One step: with a clock at every node if `timed`. A node of the micro part counts as its last micro-batch's. */
static Err stopwatch_step(Stopwatch *s, bool timed)
{
    int32_t counters[COUNTER_WORDS] = { 0 };
    Tensor  t = s->graph.train.counters;
    for (int64_t i = 0; i < s->recipe->accumulate; i++, s->micro++) {
        counters[COUNTER_STEP] = (int32_t)(s->micro / s->recipe->accumulate);
        counters[COUNTER_MICRO] = (int32_t)i;
        TRY(session_write(s->session, t.id, counters));
        TRY(feeds_fill(&s->feeds, s->micro, s->micro * s->recipe->batch));
        TRY(timed ? session_profile(s->session, PART_MICRO, s->ns) : session_run(s->session, PART_MICRO));
    }
    TRY(timed ? session_profile(s->session, PART_UPDATE, s->ns) : session_run(s->session, PART_UPDATE));
    return OK;
}

static Err stopwatch_new(Pool *pool, const Recipe *recipe, const Device *device, const MeasureOptions *o, Stopwatch *s)
{
    *s = (Stopwatch){ .recipe = recipe };
    TRY(recipe_graph(pool, recipe, false, &s->graph));
    TRY(engine_new(pool, s->graph.graph, device, &(EngineOptions){ .budget_bytes = o->budget_bytes }, &s->engine));
    TRY(session_new(pool, s->engine, &s->session));
    TRY(session_init(s->session, (uint64_t)recipe->seed));
    TRY(feeds_new(pool, s->session, PART_MICRO, &s->feeds));
    TRY(feeds_open(pool, &s->feeds, recipe, NULL, NULL));
    TRY(feeds_prefetch(pool, &s->feeds));
    s->ns = NEWN(pool, double, s->graph.graph->n_nodes + 1);
    s->samples = NEWN(pool, float, (int64_t)(s->graph.graph->n_nodes + 1) * MAX_STEPS);
    return OK;
}

/* Plain and timed steps by turns, so that both see the same weather. The best plain step counts: other
 * programs can only add to it. */
static Err stopwatch_run(Stopwatch *s, const MeasureOptions *o, double *step_ms)
{
    double begin = clock_now();
    *step_ms = INFINITY;
    TRY(stopwatch_step(s, false));                   /* first touches, generated kernels */
    while (s->n_samples < MAX_STEPS && (s->n_samples < MEASURE_STEPS || clock_now() - begin < o->seconds)) {
        double start = clock_now();
        TRY(stopwatch_step(s, false));
        *step_ms = fmin(*step_ms, (clock_now() - start) * 1e3);
        TRY(stopwatch_step(s, true));
        for (int32_t i = 0; i < s->graph.graph->n_nodes; i++)
            s->samples[i * MAX_STEPS + s->n_samples] = (float)s->ns[i];
        s->n_samples++;
        if (o->progress) {
            double done = (clock_now() - begin) / (o->seconds > 0 ? o->seconds : 1);
            o->progress(o->progress_arg, done < 0.99 ? done : 0.99, s->recipe->name);
        }
    }
    return OK;
}

static int call_order(const void *a, const void *b)
{
    const OpTime *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

/* A node's share of the step is the median of its times, which no single interruption moves; the shares are
 * then scaled to the plain step, so that what lies between the nodes is counted and the clocks are not.
 * Equal nodes have one time, their mean: what counts is that sums come out right. */
static void stopwatch_file(Pool *pool, Stopwatch *s, Profile *profile, Measured *m)
{
    const Graph *graph = s->graph.graph;
    OpTime      *calls = NEWN(pool, OpTime, graph->n_nodes + 1);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const Node *node = &graph->nodes[i];
        if (s->ns[i] <= 0)                           /* a view, or a part that training does not run */
            continue;
        OpTime call = node_call(node, &s->engine->choices[i]);
        call.ns = median(s->samples + (int64_t)i * MAX_STEPS, s->n_samples);
        m->nodes_ms += call.ns * 1e-6 * (node->part == PART_MICRO ? (double)s->recipe->accumulate : 1);
        calls[m->nodes++] = call;
    }
    qsort(calls, (size_t)m->nodes, sizeof *calls, call_order);
    for (int32_t i = 0, end; i < m->nodes; i = end, m->calls++) {
        double sum = 0;
        for (end = i; end < m->nodes && calls[end].key == calls[i].key; end++)
            sum += calls[end].ns;
        calls[i].ns = sum / (end - i) * m->step_ms / m->nodes_ms;
        profile_add_op(pool, profile, calls[i]);
    }
}

Err measure_recipe(Pool *pool, const Recipe *recipe, const Device *device, const MeasureOptions *options,
                   Profile *profile, Measured *measured)
{
    Pool     *work = pool_new(pool, "measure");
    Stopwatch s;
    *measured = (Measured){ 0 };
    Err err = stopwatch_new(work, recipe, device, options, &s);
    if (!err)
        err = stopwatch_run(&s, options, &measured->step_ms);
    if (!err) {
        measured->runtime_bytes = device_runtime_bytes(device, s.engine->arena_bytes);
        stopwatch_file(pool, &s, profile, measured);
    }
    pool_free(work);
    return err;
}
