/* sample.c -- `plimsoll sample`: a run's weights in a session of their own, then drawing.h. */
#include "train/sample.h"

#include "base/file.h"
#include "base/text.h"
#include "train/checkpoint.h"
#include "train/drawing.h"

static Err sample_open(Pool *pool, const Recipe *recipe, const Device *device,
                       const SampleOptions *o, uint64_t seed, Session **session)
{
    Engine *engine;
    TRY(recipe_suits(recipe, device));
    Graph  *graph = graph_new(pool, recipe_type(recipe));
    graph->phases = recipe_for(pool, recipe, device)->levers.phases;
    recipe->model->sample_graph(graph, recipe->config, &recipe->sampler, o->n);
    TRY(graph_check(graph));
    TRY(engine_new(pool, graph, device, NULL, &engine));
    if (o->budget_bytes && engine->arena_bytes > o->budget_bytes)
        return fail(E_BUDGET, "sampling %lld at once needs %s (%lld bytes), the budget is %s; %s",
                    (long long)o->n, bytes_text(engine->arena_bytes),
                    (long long)engine->arena_bytes, bytes_text(o->budget_bytes),
                    o->n > 1 ? "take a smaller -n" : "give it at least that");
    TRY(session_new(pool, engine, session));
    return session_init(*session, seed);
}

static Err sample_checkpoint(Pool *pool, Session *session, const char *run, const SampleOptions *o,
                             SampleReport *report)
{
    report->step = o->checkpoint;
    if (report->step < 0)
        TRY(checkpoint_newest(pool, run, &report->step));
    else if (!file_exists(pool_print(pool, "%s/step-%06lld.json", run, (long long)report->step)))
        return fail(E_IO, "%s holds no whole checkpoint of step %lld", run,
                    (long long)report->step);
    return checkpoint_weights(pool, session, run, report->step, o->raw, &report->averaged);
}

Err sample_run(Pool *pool, const char *run, const Recipe *recipe, const Device *device,
               const SampleOptions *o, SampleReport *report)
{
    int64_t  seed = o->seed >= 0 ? o->seed : recipe->seed;
    Session *session;
    Drawing *drawing;
    *report = (SampleReport){ 0 };
    if (!recipe->model->sample)
        return fail(E_USAGE, "the system %s cannot be sampled", recipe->model->name);
    TRY(sample_open(pool, recipe, device, o, (uint64_t)seed, &session));
    TRY(sample_checkpoint(pool, session, run, o, report));
    TRY(drawing_new(
        pool, session, recipe,
        &(DrawingOptions){
            .input = o->input, .prompt = o->prompt, .n = o->n, .seed = seed, .quiet = o->quiet },
        &drawing));
    TRY(folder_make(o->out));        /* before hours of drawing, not after */
    TRY(drawing_draw(drawing, o->out, report));
    report->planned_bytes = session_engine(session)->arena_bytes;
    for (int i = 0; i < 3; i++) {
        int64_t measured = session_measured_bytes(session, drawing_parts[i]);
        int64_t planned = session_planned_bytes(session, drawing_parts[i]);
        if (measured && measured != planned)
            return fail(E_PLAN,
                        "phase %s used %lld bytes where %lld were planned (this is a bug; please "
                        "report it)",
                        part_name(drawing_parts[i]), (long long)measured, (long long)planned);
        report->measured_bytes = measured > report->measured_bytes ? measured
                                                                   : report->measured_bytes;
    }
    return OK;
}
