/* sample.c -- `plimsoll sample`: loads a run's weights into a sampling session and draws. */
#include "train/sample.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/prompt.h"
#include "base/text.h"
#include "train/checkpoint.h"
#include "train/enlarge.h"
#include "train/lengths.h"
#include "train/results.h"
#include "train/run_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool enlarges(const Recipe *recipe, const SampleOptions *o)
{
    return recipe->model->enlarge && o->input;
}

static Err sample_open(Pool *pool, const Recipe *recipe, const Device *device,
                       const SampleOptions *o, uint64_t seed, Session **session)
{
    Engine *engine;
    TRY(recipe_suits(recipe, device));
    const Levers *levers = &recipe_for(pool, recipe, device)->levers;
    Graph        *graph = graph_new_with(
               pool, recipe_type(recipe),
               &(BuildOptions){ .subpixel = levers->subpixel, .given_noise = o->given != NULL });
    int64_t n = enlarges(recipe, o) ? o->tiles : o->n; /* at once */
    recipe->model->sample_graph(graph, recipe->config, &recipe->sampler, n);
    TRY(graph_check(graph));
    TRY(engine_new(pool, graph, device, NULL, &engine));
    if (o->budget_bytes && engine->arena_bytes > o->budget_bytes)
        return fail(E_BUDGET, "sampling %lld at once needs %s (%lld bytes), the budget is %s; %s",
                    (long long)n, bytes_text(engine->arena_bytes), (long long)engine->arena_bytes,
                    bytes_text(o->budget_bytes),
                    n == 1                ? "give it at least that"
                    : enlarges(recipe, o) ? "take a smaller --batch"
                                          : "take a smaller -n");
    TRY(session_new(pool, engine, session));
    return session_init_state(*session, seed); /* the checkpoint sets all weights, or fails */
}

static Err sample_load(Pool *pool, Session *session, const char *run, const Recipe *recipe,
                       const SampleOptions *o, SampleReport *report)
{
    CheckpointWish wish = { .raw = o->raw, .only = o->checkpoint >= 0 };
    const char    *note;
    TRY(checkpoint_weights(pool, session, run, &report->step, &wish, &report->averaged, &note));
    if (note && !o->quiet)
        fprintf(stderr, "sample: %s\n", note);
    return lengths_as_trained(pool, run, report->step, recipe_number(recipe, "length", 0));
}

static Err sample_checkpoint(Pool *pool, Session *session, const char *run, const Recipe *recipe,
                             const SampleOptions *o, SampleReport *report)
{
    int64_t newest;
    report->step = o->checkpoint;
    if (report->step >= 0) {
        if (!file_exists(pool_print(pool, "%s/step-%06lld.json", run, (long long)report->step)))
            return fail(E_IO, "%s holds no complete checkpoint of step %lld", run,
                        (long long)report->step);
        return sample_load(pool, session, run, recipe, o, report);
    }
    TRY(checkpoint_newest(pool, run, &report->step));
    for (;;) {
        Err err = sample_load(pool, session, run, recipe, o, report);
        if (!err)
            return OK;
        /* a run in progress may just have removed this checkpoint; it has a newer one then */
        const char *why = pool_text(pool, err_text());
        if (checkpoint_newest(pool, run, &newest) || newest <= report->step)
            return fail(err, "%s", why);
        report->step = newest;
    }
}

/* A prompt goes through the stand-in; a run whose texts went through another encoder would take it
 * for noise. */
static Err sample_encoder(Pool *pool, const char *run)
{
    RunFile file;
    TRY(run_file_read(pool, run, &file));
    if (file.encoder && strcmp(file.encoder, TEXT_STAND_IN))
        return fail(E_USAGE,
                    "--prompt: the texts of %s were embedded by another encoder (NAME.text.npy, "
                    "hash %016" PRIx64 "), and this program has only its stand-in; give clips with "
                    "NAME.text.npy of the same encoder by --input DIR",
                    run, file.text_hash);
    return OK;
}

static Err sample_hold_back(const Recipe *recipe, const SampleOptions *o)
{
    if (recipe->model->result_kind != RESULT_CLIPS || !recipe->model->truth)
        return fail(E_USAGE, "--hold-back: %s does not continue clips; leave it out",
                    recipe->model->name);
    return o->input ? OK
                    : fail(E_USAGE, "--hold-back is for --input: in the run's own data, the "
                                    "following frames are known");
}

/* What can be said before anything is read or planned. */
static Err sample_ask(Pool *pool, const char *run, const Recipe *recipe, const SampleOptions *o,
                      int *formats)
{
    const ModelDef *model = recipe->model;
    *formats = 0;
    if (!model->sample)
        return fail(E_USAGE, "the system %s cannot be sampled", model->name);
    if (o->prompt)
        TRY(sample_encoder(pool, run));
    if (o->hold_back)
        TRY(sample_hold_back(recipe, o));
    if (o->format)
        TRY(formats_read(o->format, (ResultKind)model->result_kind, model->name, formats));
    if (o->scale && !enlarges(recipe, o))
        return fail(E_USAGE, "--scale is for super-resolution of --input");
    return enlarges(recipe, o) && *formats && *formats != FORMAT_PNG
               ? fail(E_USAGE, "--format: enlarged images are written as png, row by row")
               : OK;
}

static Err sample_draw(Pool *pool, Session *session, const Recipe *recipe, const SampleOptions *o,
                       const DrawingOptions *options, SampleReport *report)
{
    Drawing *drawing;
    report->drawn = o->n;
    TRY(drawing_new(pool, session, recipe, options, &drawing));
    TRY(folder_make(o->out)); /* fails before hours of drawing, not after */
    folder_tidy(o->out);
    if (!enlarges(recipe, o))
        return drawing_draw(drawing, o->out, report);
    EnlargeOptions images = { .input = o->input,
                              .folder = o->out,
                              .n = o->n,
                              .scale = o->scale ? o->scale : SCALE_USUAL,
                              .memory = o->loader_bytes };
    double         start = clock_now();
    TRY(enlarge_images(pool, drawing, recipe, &images, report));
    report->seconds = clock_now() - start;
    return OK;
}

static Err sample_measured(const Session *session, SampleReport *report)
{
    report->planned_bytes = session_engine(session)->arena_bytes;
    for (int i = 0; i < 3; i++) {
        int64_t measured = session_measured_bytes(session, drawing_phases[i]);
        int64_t planned = session_planned_bytes(session, drawing_phases[i]);
        if (measured && measured != planned)
            return fail(E_PLAN,
                        "phase %s used %lld bytes where %lld were planned (this is a bug; please "
                        "report it)",
                        phase_name(drawing_phases[i]), (long long)measured, (long long)planned);
        report->measured_bytes = measured > report->measured_bytes ? measured
                                                                   : report->measured_bytes;
    }
    return OK;
}

Err sample_run(Pool *pool, const char *run, const Recipe *recipe, const Device *device,
               const SampleOptions *o, SampleReport *report)
{
    DrawingOptions options = { .input = o->input,
                               .prompt = o->prompt,
                               .given = o->given,
                               .hold_back = o->hold_back,
                               .metres = true,
                               .n = enlarges(recipe, o) ? o->tiles : o->n,
                               .fed = enlarges(recipe, o),
                               .seed = o->seed >= 0 ? o->seed : recipe->seed,
                               .cache = o->cache,
                               .loader_bytes = o->loader_bytes,
                               .quiet = o->quiet };
    Session       *session;
    *report = (SampleReport){ 0 };
    TRY(sample_ask(pool, run, recipe, o, &options.formats));
    TRY(folder_hold(pool, run));
    TRY(sample_open(pool, recipe, device, o, (uint64_t)options.seed, &session));
    TRY(sample_checkpoint(pool, session, run, recipe, o, report));
    if (!options.cache)
        TRY(run_cache(pool, run, &options.cache));
    TRY(sample_draw(pool, session, recipe, o, &options, report));
    return sample_measured(session, report);
}
