/* measure.c -- runs steps and measures the time of every node. */
#include "train/measure.h"

#include "base/clock.h"
#include "exec/session.h"
#include "ops/optimizer/optim.h"
#include "profile/node_time.h"
#include "profile/quiet.h"
#include "train/feeds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct Stopwatch {
    const Recipe *recipe;
    TrainingGraph graph;
    Engine       *engine;
    Session      *session;
    Feeds         feeds;
    int64_t       micro;   /* micro-batches run so far */
    double       *ns;      /* per node, in the last timed step; 0: did not run */
    float        *samples; /* per node: MEASURE_MAX times */
    int           n_samples;
    double        plain_ms[MEASURE_MAX]; /* of the plain steps between the timed ones */
    double        best_ms;               /* of all plain steps */
    double        row_ms;                /* on a GPU: median of plain steps in a row; 0: none */
    bool          filled;                /* all steps use the same micro-batch */
};

Err stopwatch_new(Pool *pool, const Recipe *recipe, const Device *device, const EngineOptions *plan,
                  Stopwatch **out)
{
    Stopwatch *s = NEW(pool, Stopwatch);
    s->recipe = recipe_for(pool, recipe, device);
    TRY(recipe_suits(recipe, device));
    TRY(recipe_graph(pool, s->recipe, false, &s->graph));
    Err err = engine_new(pool, s->graph.graph, device, plan, &s->engine);
    if (err && !(err == E_BUDGET && plan && plan->budget_bytes == STOPWATCH_MIN))
        return err;
    s->best_ms = INFINITY;
    TRY(session_new(pool, s->engine, &s->session));
    TRY(session_init(s->session, (uint64_t)recipe->seed));
    TRY(feeds_new(pool, s->session, PHASE_MICRO, &s->feeds));
    TRY(feeds_open(pool, &s->feeds, recipe));
    s->filled = device->kind == DEVICE_CUDA;
    TRY(s->filled ? feeds_fill(&s->feeds, 0, 0) : feeds_prefetch(pool, &s->feeds));
    s->ns = NEWN(pool, double, s->graph.graph->n_nodes + 1);
    s->samples = NEWN(pool, float, ((int64_t)s->graph.graph->n_nodes + 1) * MEASURE_MAX);
    *out = s;
    return OK;
}

const Engine *stopwatch_engine(const Stopwatch *s) { return s->engine; }

/* The learning rate is small but not 0. Otherwise, where gates start at 0 (DiT), gradients would
 * stay 0, and a GPU multiplies zeros with less power and at a higher clock (DiT3D-XL on an H200: 63
 * ms instead of 70). */
static Err stopwatch_rates(Stopwatch *s)
{
    float rates[RATE_GROUPS + 2] = { 0 };
    rates[RATE_EMA_DECAY] = 0.9999f;
    for (int i = 0; i < s->graph.n_groups; i++)
        rates[RATE_GROUPS + i] = 1e-5f;
    return session_write(s->session, s->graph.train.rates.id, rates);
}

/* timed: measures every node; a node of phase `micro` has the time of its last micro-batch. On the
 * CPU, loading samples takes processor time and is included. A GPU must not wait for samples, or
 * the wait would count as kernel time. */
static Err stopwatch_run(Stopwatch *s, bool timed)
{
    int32_t counters[COUNTER_WORDS] = { 0 };
    TRY(stopwatch_rates(s));
    for (int64_t i = 0; i < s->recipe->accumulate; i++, s->micro++) {
        counters[COUNTER_STEP] = (int32_t)(s->micro / s->recipe->accumulate);
        counters[COUNTER_MICRO] = (int32_t)i;
        TRY(session_write(s->session, s->graph.train.counters.id, counters));
        if (!s->filled)
            TRY(feeds_fill(&s->feeds, s->micro, s->micro * s->recipe->batch));
        TRY(timed ? session_profile(s->session, PHASE_MICRO, s->ns)
                  : session_run(s->session, PHASE_MICRO));
    }
    return timed ? session_profile(s->session, PHASE_UPDATE, s->ns)
                 : session_run(s->session, PHASE_UPDATE);
}

Err stopwatch_step(Stopwatch *s, double *ms)
{
    double start = clock_now();
    TRY(stopwatch_run(s, false));
    TRY(device_wait(s->engine->device));
    *ms = (clock_now() - start) * 1e3;
    s->best_ms = fmin(s->best_ms, *ms);
    return OK;
}

Err stopwatch_sample(Stopwatch *s)
{
    REQUIRE(s->n_samples < MEASURE_MAX);
    TRY(stopwatch_step(s, &s->plain_ms[s->n_samples]));
    TRY(stopwatch_run(s, true));
    for (int64_t i = 0; i < s->graph.graph->n_nodes; i++)
        s->samples[i * MEASURE_MAX + s->n_samples] = (float)s->ns[i];
    s->n_samples++;
    return OK;
}

static int order_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

double median_of(float *values, int64_t n)
{
    qsort(values, (size_t)n, sizeof *values, order_floats);
    return n % 2 ? (double)values[n / 2] : ((double)values[n / 2 - 1] + (double)values[n / 2]) / 2;
}

/* Steps without a pause, as in training: under continuous load a GPU draws more power and has a
 * lower clock than with a synchronisation after each step (DiT3D-XL on an H200: 69 ms against 63),
 * and the host is ahead of it. */
static Err measure_row(Stopwatch *s, double seconds)
{
    float  row[MEASURE_MAX];
    int    n = 0;
    double begin = clock_now(), start;
    while (n < MEASURE_MAX && (n < MEASURE_MIN || clock_now() - begin < seconds)) {
        start = clock_now();
        for (int i = 0; i < MEASURE_ROW; i++)
            TRY(stopwatch_run(s, false));
        TRY(device_wait(s->engine->device));
        row[n++] = (float)((clock_now() - start) * 1e3 / MEASURE_ROW);
    }
    s->row_ms = median_of(row, n);
    return OK;
}

static Err measure_steps(Stopwatch *s, const MeasureOptions *o)
{
    double begin = clock_now(), ms;
    TRY(stopwatch_step(s, &ms)); /* warm-up: page faults, generated kernels */
    while (s->n_samples < MEASURE_MAX &&
           (s->n_samples < MEASURE_MIN || clock_now() - begin < o->seconds)) {
        TRY(stopwatch_sample(s));
        if (o->progress) {
            double done = (clock_now() - begin) / (o->seconds > 0 ? o->seconds : 1);
            o->progress(o->progress_arg, done < 0.99 ? done : 0.99, s->recipe->name);
        }
    }
    return s->filled ? measure_row(s, o->seconds) : OK;
}

static int call_order(const void *a, const void *b)
{
    const OpTime *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

/* A node's time is the median of its samples, which a single interruption does not change. The
 * times are then scaled so that they sum to the best plain step (on a GPU, to the median of steps
 * in a row): this includes the time between nodes and excludes the overhead of measuring. Equal
 * nodes share one time, their mean, so that sums stay right. */
void stopwatch_file(Pool *pool, const Stopwatch *s, Profile *profile, Measured *m)
{
    const Graph *graph = s->graph.graph;
    Pool        *work = pool_new(pool, "calls");
    OpTime      *calls = NEWN(work, OpTime, graph->n_nodes + 1);
    uint64_t     identity = graph_identity(graph);
    *m = (Measured){ .step_ms = s->row_ms > 0 ? s->row_ms : INFINITY };
    for (int i = 0; i < s->n_samples && s->row_ms <= 0; i++)
        m->step_ms = fmin(m->step_ms, s->plain_ms[i]);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const Node *node = &graph->nodes[i];
        if (s->ns[i] <= 0) /* a view, or a phase that training does not run */
            continue;
        float times[MEASURE_MAX];
        memcpy(times, s->samples + (int64_t)i * MEASURE_MAX, sizeof times);
        OpTime call = node_call(s->engine->device, node, &s->engine->choices[i], identity);
        call.ns = fmax(1, median_of(times, s->n_samples));
        m->nodes_ms += call.ns * 1e-6 *
                       (node->phase == PHASE_MICRO ? (double)s->recipe->accumulate : 1);
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
    pool_free(work);
}

/* The sum of the profile's times over the plan's runs. */
static double nodes_ms(const Stopwatch *s, const Profile *profile)
{
    const Engine *engine = s->engine;
    Device        timed = *engine->device;
    uint64_t      identity = graph_identity(engine->graph);
    double        ns = 0;
    TimeBasis     basis;
    timed.profile = profile;
    for (int i = 0; i < engine->n_programs; i++) {
        const Program *program = &engine->programs[i];
        double         times = program->phases[PHASE_MICRO] ? (double)s->recipe->accumulate : 1;
        for (int32_t at = 0; program_in_step(program) && at < program->plan->n_steps; at++) {
            Step step = program->plan->steps[at];
            if (step.kind != STEP_RUN)
                continue;
            int32_t node = program->node_of[step.id];
            ns += times * node_time(&timed, &engine->graph->nodes[node], &engine->choices[node],
                                    identity, &basis);
        }
    }
    return ns * 1e-6;
}

double stopwatch_predict_ms(const Stopwatch *s, const Profile *profile)
{
    return nodes_ms(s, profile) *
           profile_tight(profile, graph_identity(s->engine->graph), engine_saved(s->engine));
}

void stopwatch_file_tight(Pool *pool, const Stopwatch *kept, const Stopwatch *tight,
                          Profile *profile)
{
    double measured = tight->best_ms / kept->best_ms;
    double summed = nodes_ms(tight, profile) / nodes_ms(kept, profile);
    if (engine_saved(tight->engine) > 0)
        profile_add_tight(pool, profile,
                          (Tightness){ graph_identity(tight->engine->graph),
                                       engine_saved(tight->engine), measured / summed });
}

/* Alternates steps of the plan with the smallest arena and of the one that keeps everything. */
static Err measure_tight(Pool *pool, Pool *work, Stopwatch *kept, Profile *profile)
{
    EngineOptions options = { .budget_bytes = STOPWATCH_MIN, .effort = MEASURE_EFFORT };
    Stopwatch    *tight;
    double        ms;
    TRY(stopwatch_new(work, kept->recipe, kept->engine->device, &options, &tight));
    for (int i = 0; i < MEASURE_MIN; i++) {
        TRY(stopwatch_step(kept, &ms));
        TRY(stopwatch_step(tight, &ms));
    }
    profile_ready(pool, profile);
    stopwatch_file_tight(pool, kept, tight, profile);
    return OK;
}

bool measured_apart(const Measured *m)
{
    return m->step_ms > MEASURE_APART * m->nodes_ms || m->nodes_ms > MEASURE_APART * m->step_ms;
}

/* Files what was measured. Where other programs were in the way, measures again, a few times. */
static Err measure_quietly(Pool *pool, Stopwatch *s, const MeasureOptions *o, Profile *profile,
                           Measured *m)
{
    for (int i = 0; i < MEASURE_TRIES; i++) {
        Quiet quiet = quiet_begin();
        s->n_samples = 0;
        TRY(measure_steps(s, o));
        stopwatch_file(pool, s, profile, m);
        bool busy = !s->filled && !quiet_end(quiet, s->engine->device->threads);
        m->disturbed = busy || measured_apart(m);
        if (!m->disturbed)
            break;
    }
    return OK;
}

Err measure_recipe(Pool *pool, const Recipe *recipe, const Device *device,
                   const MeasureOptions *options, Profile *profile, Measured *measured)
{
    Pool      *work = pool_new(pool, "measure");
    Stopwatch *s;
    *measured = (Measured){ 0 };
    Err err = stopwatch_new(work, recipe, device,
                            &(EngineOptions){ .budget_bytes = options->budget_bytes }, &s);
    err = err ? err : measure_quietly(pool, s, options, profile, measured);
    if (!err) {
        measured->runtime_bytes = device_runtime_bytes(device, s->engine->arena_bytes);
        if (!options->budget_bytes && device->kind == DEVICE_CPU) /* GPU caches are too small */
            err = measure_tight(pool, work, s, profile);
    }
    pool_free(work);
    return err;
}
