/* sample.c -- what a model's sampling loop may use, filled from a run. */
#include "train/sample.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "device/convert.h"
#include "train/checkpoint.h"
#include "train/feeds.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct Drawing {
    Session     *session;
    const Recipe *recipe;
    Feeds        feeds[3];       /* of begin, step and end */
    float      **wide;           /* per graph output that is not fp32: its numbers as fp32 */
    uint64_t     seed;
    double       shown;          /* time of the last word */
    bool         quiet;
} Drawing;

enum { BEGIN, STEP, END };
static const Part drawing_parts[3] = { PART_SAMPLE_BEGIN, PART_SAMPLE, PART_SAMPLE_END };

static Err drawing_run(Sampler *s, Part part)
{
    Session *session = ((Drawing *)s->own)->session;
    TRY(session_run(session, part));
    return device_wait(session_engine(session)->device);     /* faults come out here, not in a later read */
}

static void *drawing_feed(Sampler *s, const char *name)
{
    Drawing    *d = s->own;
    FeedBuffer *feed = NULL;
    for (int i = 0; i < 3 && !feed; i++)
        feed = feeds_find(&d->feeds[i], name);
    REQUIRE(feed);                           /* the sampling graph has a feed of that name */
    return feed->bytes;
}

static const float *drawing_output(Sampler *s, const char *name)
{
    Drawing     *d = s->own;
    const Graph *graph = session_engine(d->session)->graph;
    int32_t      i = 0;
    while (i < graph->n_outputs && strcmp(graph->outputs[i].name, name))
        i++;
    REQUIRE(i < graph->n_outputs);           /* the sampling graph has an output of that name */
    const Value *value = value_at(graph, graph->outputs[i].value);
    const void  *data = session_output(d->session, name);
    if (value->type == F32 || !data)
        return data;
    convert_rows(F32, d->wide[i], value->type, data, (size_t)shape_count(value->shape));
    return d->wide[i];
}

static const float *drawing_weight(Sampler *s, const char *name)
{
    Drawing *d = s->own;
    Graph   *graph = session_engine(d->session)->graph;
    Param   *p = param_find(graph, name);
    REQUIRE(p);
    float *disk = NEWN(s->pool, float, shape_count(p->disk));
    return session_get_param(d->session, (int32_t)(p - graph->params), p->value, disk) ? NULL : disk;
}

static RandomKey drawing_key(const Drawing *d, const char *name, int64_t index)
{
    return (RandomKey){ d->seed, random_stream(name), (uint32_t)index };
}

static void drawing_normal(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    random_normals(drawing_key(s->own, name, index), 0, n, to);
}

static void drawing_uniform(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    random_uniforms(drawing_key(s->own, name, index), 0, n, to);
}

static void drawing_progress(Sampler *s, int64_t done, int64_t of)
{
    Drawing *d = s->own;
    double   now = clock_now();
    bool     terminal = isatty(2), last = done == of;
    if (d->quiet || (!last && now - d->shown < (terminal ? 0.1 : 5)))
        return;
    d->shown = now;
    fprintf(stderr, "%ssampling %lld/%lld%s", terminal ? "\r" : "", (long long)done, (long long)of,
            terminal && !last ? "   " : "\n");
}

/* What the first part starts from: the data, or what is given. A prompt takes the place of texts. */
static Err drawing_inputs(Pool *pool, Drawing *d, const SampleOptions *o, SampleReport *report)
{
    Feeds *feeds = &d->feeds[BEGIN];
    TRY(feeds_open(pool, feeds, d->recipe, o->input, o->prompt ? "text" : NULL));
    if (o->prompt && !feeds_find(feeds, "text"))
        return fail(E_USAGE, "--prompt: %s takes no text", d->recipe->model->name);
    if (!feeds->source)
        return o->input ? fail(E_USAGE, "--input: %s draws from nothing, so it takes no input", d->recipe->model->name) : OK;
    feeds->seed = d->seed;
    TRY(o->input ? feeds_fill_in_order(feeds, 0) : feeds_fill(feeds, 0, 0));
    if (!feeds->source->about)
        return OK;
    report->about = NEWN(pool, const char *, o->n);
    for (int64_t i = 0; i < o->n; i++) {
        char    room[256];
        int64_t id = o->input ? i % feeds->source->n_samples : source_order(feeds->source, feeds->seed, i);
        report->about[i] = pool_text(pool, feeds->source->about(feeds->source, id, room, sizeof room));
    }
    return OK;
}

static Err drawing_open(Pool *pool, Drawing *d, const Device *device, const SampleOptions *o)
{
    const ModelDef *model = d->recipe->model;
    Engine         *engine;
    TRY(recipe_suits(d->recipe, device));
    Graph          *graph = graph_new(pool, recipe_type(d->recipe));
    model->sample_graph(graph, d->recipe->config, &d->recipe->sampler, o->n);
    TRY(graph_check(graph));
    TRY(engine_new(pool, graph, device, NULL, &engine));
    if (o->budget_bytes && engine->arena_bytes > o->budget_bytes)
        return fail(E_BUDGET, "sampling %lld at once needs %s, the budget is %s; take a smaller -n", (long long)o->n,
                    bytes_text(engine->arena_bytes), bytes_text(o->budget_bytes));
    TRY(session_new(pool, engine, &d->session));
    TRY(session_init(d->session, d->seed));
    d->wide = NEWN(pool, float *, graph->n_outputs + 1);
    for (int32_t i = 0; i < graph->n_outputs; i++)
        d->wide[i] = NEWN(pool, float, shape_count(value_at(graph, graph->outputs[i].value)->shape));
    for (int i = 0; i < 3; i++)
        TRY(feeds_new(pool, d->session, drawing_parts[i], &d->feeds[i]));
    return OK;
}

static Err drawing_checkpoint(Pool *pool, Drawing *d, const char *run, const SampleOptions *o, SampleReport *report)
{
    report->step = o->checkpoint;
    if (report->step < 0)
        TRY(checkpoint_newest(pool, run, &report->step));
    else if (!file_exists(pool_print(pool, "%s/step-%06lld.json", run, (long long)report->step)))
        return fail(E_IO, "%s holds no whole checkpoint of step %lld", run, (long long)report->step);
    return checkpoint_weights(pool, d->session, run, report->step, o->raw, &report->averaged);
}

static Err drawing_write(Pool *pool, Drawing *d, const SampleOptions *o, const SampleResult *result, SampleReport *report)
{
    TRY(folder_make(o->out));
    for (int32_t i = 0; i < d->feeds[BEGIN].n_served; i++) {
        const FeedBuffer *feed = &d->feeds[BEGIN].list[d->feeds[BEGIN].served[i]];
        const char       *path = pool_print(pool, "%s/input-%s.png", o->out, feed->name);
        bool              written = false;
        if (feed->type == F32)
            TRY(results_sheet(pool, path, feed->bytes, feed->shape, &written));
        if (written)
            VEC_ADD(pool, report->files, report->n_files, report->cap_files, path);
    }
    return results_write(pool, o->out, result, report);
}

Err sample_run(Pool *pool, const char *run, const Recipe *recipe, const Device *device, const SampleOptions *o,
               SampleReport *report)
{
    Drawing *d = NEW(pool, Drawing);
    *d = (Drawing){ .recipe = recipe, .quiet = o->quiet, .seed = (uint64_t)(o->seed >= 0 ? o->seed : recipe->seed) };
    *report = (SampleReport){ 0 };
    if (!recipe->model->sample)
        return fail(E_USAGE, "the system %s cannot be sampled", recipe->model->name);
    TRY(drawing_open(pool, d, device, o));
    TRY(drawing_checkpoint(pool, d, run, o, report));
    TRY(drawing_inputs(pool, d, o, report));

    Sampler s = { .pool = pool, .n = o->n, .config = &recipe->sampler, .prompt = o->prompt, .own = d, .run = drawing_run,
                  .feed = drawing_feed, .output = drawing_output, .weight = drawing_weight, .normal = drawing_normal,
                  .uniform = drawing_uniform, .progress = drawing_progress };
    SampleResult result;
    double       start = clock_now();
    TRY(recipe->model->sample(&s, recipe->config, &result));
    report->seconds = clock_now() - start;
    report->planned_bytes = session_engine(d->session)->arena_bytes;
    for (int i = 0; i < 3; i++) {
        int64_t measured = session_measured_bytes(d->session, drawing_parts[i]);
        int64_t planned = session_planned_bytes(d->session, drawing_parts[i]);
        if (measured && measured != planned)
            return fail(E_PLAN, "phase %s used %lld bytes where %lld were planned (this is a bug; please report it)",
                        part_name(drawing_parts[i]), (long long)measured, (long long)planned);
        report->measured_bytes = measured > report->measured_bytes ? measured : report->measured_bytes;
    }
    return drawing_write(pool, d, o, &result, report);
}
