/* sample.c -- `plimsoll sample`: loads a run's weights into a sampling session and draws. */
#include "train/sample.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/prompt.h"
#include "base/text.h"
#include "train/checkpoint.h"
#include "train/enlarge.h"
#include "train/rank_run.h"
#include "train/ranks.h"
#include "train/results.h"
#include "train/run_file.h"
#include "train/text_encoder.h"

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
    int64_t n = enlarges(recipe, o) ? o->tiles : drawing_each(o->comm, o->n); /* at once */
    if (!enlarges(recipe, o)) {
        graph->drawn_here = n;
        graph->drawn_all = o->n;
    }
    recipe->model->sample_graph(graph, recipe->config, &recipe->sampler, n);
    TRY(graph_check(graph));
    TRY(engine_new(pool, graph, device, NULL, &engine));
    TRY(engine_within(engine, o->budget_bytes,
                      pool_print(pool, "sampling %lld at once", (long long)n),
                      n == 1                ? NULL
                      : enlarges(recipe, o) ? "use a smaller --batch"
                                            : "use a smaller -n"));
    TRY(session_new(pool, engine, session));
    return session_init_state(*session, seed); /* the checkpoint sets all weights, or fails */
}

static Err sample_checkpoint(Pool *pool, Session *session, const char *run, const Recipe *recipe,
                             const SampleOptions *o, SampleReport *report)
{
    WeightsRead read = { .step = o->checkpoint,
                         .kind = o->weights,
                         .length = recipe_number(recipe, "length", 0) };
    TRY(checkpoint_weights(pool, session, run, &read));
    if (read.note && !o->quiet)
        print_sentence(stderr, "sample: %s", read.note);
    report->step = read.step;
    report->averaged = read.averaged;
    return OK;
}

/* The tower that the run's texts went through: the one that is named, or that the run names. */
static Err prompt_tower(Pool *pool, const char *run, const SampleOptions *o, const TextSpace *space,
                        TextEncoderFiles *files)
{
    *files = (TextEncoderFiles){ o->tower, o->vocabulary };
    if (!files->weights)
        *files = (TextEncoderFiles){ space->weights,
                                     o->vocabulary ? o->vocabulary : space->vocabulary };
    if (!files->weights)
        return fail(
            E_USAGE,
            "--prompt: the texts of %s were embedded by %s; name its weights by --text FILE", run,
            space->encoder);
    if (!o->tower && !file_exists(files->weights))
        return fail(E_USAGE,
                    "--prompt: the texts of %s were embedded by %s with %s, which is not there any "
                    "more; name the file by --text FILE",
                    run, space->encoder, files->weights);
    (void)pool;
    return OK;
}

/* Embeds the prompt as the run's texts were; another encoder's embedding would be noise to it. */
static Err prompt_text(Pool *pool, const char *run, const Device *device, const SampleOptions *o,
                       DrawingOptions *to)
{
    const TextSpace *space = &to->space;
    TextEncoderFiles files;
    TextEncoder     *encoder;
    bool             cut, named = o->tower || o->vocabulary, stand_in;
    stand_in = !space->encoder || !strcmp(space->encoder, TEXT_STAND_IN);
    if (named && (!o->prompt || stand_in))
        return fail(E_USAGE, "--text and --vocab are for --prompt of a run whose texts a text "
                             "tower embedded (plimsoll encode); leave them out");
    if (!o->prompt || stand_in)
        return OK;
    if (!strcmp(space->encoder, TEXT_FROM_FILES))
        return fail(E_USAGE,
                    "--prompt: the texts of %s were embedded by another program (NAME.text.npy, "
                    "hash %016" PRIx64 "); give clips with NAME.text.npy of the same encoder by "
                    "--input DIR, or embed the training data by plimsoll encode",
                    run, space->hash);
    TRY(prompt_tower(pool, run, o, space, &files));
    Pool *work = pool_new(pool, "tower");
    TRY(text_encoder_open(work, device, &files, o->budget_bytes, &encoder));
    if (encoder->hash != space->hash || strcmp(encoder->name, space->encoder))
        return fail(E_USAGE,
                    "%s holds %s with hash %016" PRIx64 ", and the texts of %s were embedded by %s "
                    "with hash %016" PRIx64 "; name that one's file by --text",
                    files.weights, encoder->name, encoder->hash, run, space->encoder, space->hash);
    to->n_text = shape_count(encoder->shape);
    float *text = NEWN(pool, float, to->n_text);
    TRY(text_encode(encoder, o->prompt, text, &cut));
    if (cut && !o->quiet)
        print_sentence(stderr, "sample: the prompt has more than %lld tokens; the rest is not read",
                       (long long)encoder->tower.tokens);
    pool_free(work);
    to->text = text;
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
static Err sample_ask(const Recipe *recipe, const SampleOptions *o, int *formats)
{
    const ModelDef *model = recipe->model;
    *formats = 0;
    if (!model->sample)
        return fail(E_USAGE, "the system %s cannot be sampled", model->name);
    if (o->hold_back)
        TRY(sample_hold_back(recipe, o));
    if (o->given && rank_count(o->comm) > 1)
        return fail(E_USAGE, "--given holds the numbers of all results at once; start one process");
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
    if (rank_leads(o->comm)) {
        TRY(folder_make(o->out)); /* fails before hours of drawing, not after */
        folder_tidy(o->out);
    }
    if (o->comm)
        TRY(ranks_agree_step(o->comm, report->step));
    if (!enlarges(recipe, o))
        return drawing_draw(drawing, o->out, report);
    EnlargeOptions images = { .input = o->input,
                              .folder = o->out,
                              .n = o->n,
                              .comm = o->comm,
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
                               .beside = o->beside,
                               .n = enlarges(recipe, o) ? o->tiles : o->n,
                               .fed = enlarges(recipe, o),
                               .seed = o->seed >= 0 ? o->seed : recipe->seed,
                               .cache = o->cache,
                               .loader_bytes = o->loader_bytes,
                               .comm = enlarges(recipe, o) ? NULL : o->comm,
                               .quiet = o->quiet };
    Session       *session;
    *report = (SampleReport){ 0 };
    TRY(sample_ask(recipe, o, &options.formats));
    TRY(folder_hold(pool, run));
    TRY(run_text(pool, run, &options.space));
    TRY(prompt_text(pool, run, device, o, &options));
    TRY(sample_open(pool, recipe, device, o, (uint64_t)options.seed, &session));
    TRY(sample_checkpoint(pool, session, run, recipe, o, report));
    if (!options.cache)
        TRY(run_cache(pool, run, &options.cache));
    TRY(sample_draw(pool, session, recipe, o, &options, report));
    return sample_measured(session, report);
}
