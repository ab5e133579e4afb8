/* drawing.c -- implements the Sampler of a model's sampling loop on a session. */
#include "train/drawing.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/prompt.h"
#include "base/terminal.h"
#include "data/raster.h"
#include "device/convert.h"
#include "train/feeds.h"
#include "train/given_numbers.h"
#include "train/rank_run.h"
#include "train/results.h"
#include "train/truth.h"

#include <stdio.h>
#include <string.h>

struct Drawing {
    Pool          *pool; /* for the report's texts */
    Session       *session;
    const Recipe  *recipe;
    DrawingOptions options;
    RankPart       part;         /* the results of this rank */
    Feeds          feeds[3];     /* of drawing_phases */
    float        **wide;         /* per graph output: buffer for its conversion to fp32 */
    double         shown;        /* time of the last progress message */
    int64_t        first;        /* number of the first result */
    Pool          *work;         /* of drawing_again: reset, never freed */
    const char    *truth, *mask; /* feeds that are no inputs of the graph; NULL: none */
    const char    *like;         /* the same: of ModelDef.like */
    SafeFile       given;        /* options.given */
    Err            failed;       /* what the file lacks, if it lacks something, */
    const char    *why;          /* with its sentence */

    void (*wrote)(void *arg, const char *path); /* of drawing_tell_files, or NULL */
    void *wrote_arg;

    const volatile sig_atomic_t *stop; /* NULL: nothing stops it */
    bool                         stopped;
};

enum { BEGIN, STEP, END };
const Phase drawing_phases[3] = { PHASE_SAMPLE_BEGIN, PHASE_SAMPLE, PHASE_SAMPLE_END };

static bool drawing_has(Phase phase)
{
    return phase == drawing_phases[BEGIN] || phase == drawing_phases[STEP] ||
           phase == drawing_phases[END];
}

static Err drawing_run(Sampler *s, Phase phase)
{
    Drawing *d = s->own;
    Session *session = d->session;
    if (s->dry)
        return OK;
    if (d->failed)
        return fail(d->failed, "%s", d->why);
    d->stopped = d->stop && *d->stop;
    if (d->stopped)
        return fail(E_IO, "sampling was stopped by a signal");
    TRY(session_run(session, phase));
    /* device errors are reported here, not by a later read */
    return device_wait(session_engine(session)->device);
}

static void *drawing_feed(Sampler *s, const char *name)
{
    Drawing    *d = s->own;
    FeedBuffer *feed = NULL;
    for (int i = 0; i < 3 && (!feed || feed->apart); i++) { /* what the graph reads comes first */
        FeedBuffer *found = feeds_find(&d->feeds[i], name);
        feed = found ? found : feed;
    }
    REQUIRE(feed); /* the sampling graph must have it */
    return feed->bytes;
}

static const float *drawing_output(Sampler *s, const char *name)
{
    Drawing     *d = s->own;
    const Graph *graph = session_engine(d->session)->graph;
    int32_t      i = 0;
    while (i < graph->n_outputs &&
           (!drawing_has(graph->outputs[i].phase) || strcmp(graph->outputs[i].name, name)))
        i++;
    REQUIRE(i < graph->n_outputs); /* the sampling graph must have it */
    if (s->dry)
        return d->wide[i];
    const Value *value = value_at(graph, graph->outputs[i].value);
    const void  *data = session_output_at(d->session, i); /* other phases may use the name too */
    if (value->type == F32 || !data)
        return data;
    convert_rows(F32, d->wide[i], value->type, data, (size_t)shape_count(value->shape));
    return d->wide[i];
}

/* As the sampling graph uses it: an average is rounded to its parameter's type. */
static const float *drawing_weight(Sampler *s, const char *name)
{
    Drawing *d = s->own;
    Graph   *graph = session_engine(d->session)->graph;
    Param   *p = param_find(graph, name);
    REQUIRE(p);
    int64_t count = shape_count(p->disk);
    Type    type = value_at(graph, p->value)->type;
    float  *disk = NEWN(s->pool, float, count);
    if (session_get_param(d->session, (int32_t)(p - graph->params),
                          d->options.averaged && p->ema >= 0 ? p->ema : p->value, disk))
        return NULL;
    for (int64_t i = 0; type != F32 && i < count; i++) {
        float rounded[1];
        convert_rows(type, rounded, F32, &disk[i], 1);
        convert_rows(F32, &disk[i], type, rounded, 1);
    }
    return disk;
}

/* The state of that name, which the sampling graph must have. */
static int32_t drawing_state(const Drawing *d, const char *name)
{
    const Graph *graph = session_engine(d->session)->graph;
    int32_t      i = 0;
    while (i < graph->n_values && (graph->values[i].producer >= 0 || !graph->values[i].name ||
                                   strcmp(graph->values[i].name, name)))
        i++;
    REQUIRE(i < graph->n_values);
    return i;
}

static Err drawing_state_get(Sampler *s, const char *name, float *to)
{
    Drawing     *d = s->own;
    int32_t      id = drawing_state(d, name);
    const Value *value = value_at(session_engine(d->session)->graph, id);
    size_t       n = (size_t)shape_count(value->shape);
    if (value->type == F32)
        return session_read(d->session, id, to);
    Pool *work = pool_new(s->pool, "state");
    void *bytes = pool_alloc(work, n, (size_t)type_bytes(value->type));
    Err   err = session_read(d->session, id, bytes);
    if (!err)
        convert_rows(F32, to, value->type, bytes, n);
    pool_free(work);
    return err;
}

static Err drawing_state_set(Sampler *s, const char *name, const float *from)
{
    Drawing     *d = s->own;
    int32_t      id = drawing_state(d, name);
    const Value *value = value_at(session_engine(d->session)->graph, id);
    size_t       n = (size_t)shape_count(value->shape);
    if (value->type == F32)
        return session_write(d->session, id, from);
    Pool *work = pool_new(s->pool, "state");
    void *bytes = pool_alloc(work, n, (size_t)type_bytes(value->type));
    convert_rows(value->type, bytes, F32, from, n);
    Err err = session_write(d->session, id, bytes);
    pool_free(work);
    return err;
}

static RandomKey drawing_key(const Drawing *d, const char *name, int64_t index)
{
    return (RandomKey){ (uint64_t)d->options.seed, random_stream(name), (uint32_t)index };
}

/* The numbers of the file, if there is one; a missing one ends the chain at its next run. */
static bool drawing_given(Drawing *d, const char *name, int64_t index, float *to, int64_t n)
{
    if (!d->options.given)
        return false;
    Err err = d->failed ? OK : given_row(&d->given, name, index, to, n);
    if (err) {
        d->failed = err;
        d->why = pool_text(d->pool, err_text());
    }
    return true;
}

/* Where the numbers of the first result begin, each result having the same count of n numbers. */
static uint64_t drawing_first(const Sampler *s, int64_t n)
{
    return (uint64_t)(((const Drawing *)s->own)->first * (n / s->n));
}

static void drawing_normal(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    if (!s->dry && !drawing_given(s->own, name, index, to, n))
        random_normals(drawing_key(s->own, name, index), drawing_first(s, n), n, to);
}

static void drawing_uniform(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    if (!s->dry && !drawing_given(s->own, name, index, to, n))
        random_uniforms(drawing_key(s->own, name, index), drawing_first(s, n), n, to);
}

static void drawing_progress(Sampler *s, int64_t done, int64_t of)
{
    Drawing *d = s->own;
    if (d->options.quiet || !progress_due(&d->shown, done == of))
        return;
    if (terminal_draws())
        progress_show("sampling %lld/%lld", (long long)done, (long long)of);
    else
        fprintf(stderr, "sampling %lld/%lld\n", (long long)done, (long long)of);
    if (done == of)
        progress_end();
}

/* Fills the texts of all results with the prompt's embedding. Captions are checked in the same way:
 * invalid bytes would match no text of the training data. */
static Err drawing_prompt(Drawing *d)
{
    const DrawingOptions *o = &d->options;
    FeedBuffer           *feed = feeds_find(&d->feeds[BEGIN], "text");
    size_t                n = strlen(o->prompt), good = json_utf8_bytes(o->prompt, n);
    if (good < n)
        return fail(E_USAGE, "--prompt is not UTF-8 (byte %zu); write it in UTF-8", good);
    if (!feed)
        return fail(E_USAGE, "--prompt: %s takes no text", d->recipe->model->name);
    int64_t width = shape_count(feed->shape) / d->part.each;
    if (o->text && o->n_text != width)
        return fail(E_USAGE,
                    "--prompt: the text tower gives %lld numbers for a text, and %s takes %lld",
                    (long long)o->n_text, d->recipe->model->name, (long long)width);
    if (!o->text && o->space.encoder && o->space.hash != prompt_hash(width))
        return fail(E_USAGE,
                    "--prompt: the texts of this run went through the stand-in of another version "
                    "of this program, which knew other vectors; train it again");
    for (int64_t i = 0; i < d->part.each; i++) {
        float *to = (float *)feed->bytes + i * width;
        if (o->text)
            memcpy(to, o->text, (size_t)width * sizeof *to);
        else
            prompt_embed(o->prompt, to, width);
    }
    return OK;
}

/* All inputs of the first phase, from the file. */
static Err drawing_inputs_given(Pool *pool, Drawing *d)
{
    const Feeds *feeds = &d->feeds[BEGIN];
    TRY(safetensors_read(pool, d->options.given, &d->given));
    for (int32_t i = 0; i < feeds->n; i++)
        if (!d->options.prompt || strcmp(feeds->list[i].name, "text"))
            TRY(given_input(&d->given, &feeds->list[i]));
    return OK;
}

/* What results are compared with is loaded beside the inputs. */
static void drawing_want_truth(Pool *pool, Drawing *d)
{
    const ModelDef *model = d->recipe->model;
    BatchRest       rest[BATCH_REST_MAX];
    int             n = model->truth ? model->truth(d->recipe->config, d->part.each, rest) : 0;
    for (int i = 0; i < n; i++)
        feeds_add(pool, &d->feeds[BEGIN], rest[i].name, rest[i].type, rest[i].shape);
    if (n > 0)
        d->truth = rest[0].name;
    if (n > 1)
        d->mask = rest[1].name;
}

/* So is what results continue, or are looked at beside. */
static Err drawing_want_like(Pool *pool, Drawing *d)
{
    const ModelDef *model = d->recipe->model;
    if (d->options.beside && (!model->like || d->options.input || d->options.prompt))
        return fail(E_USAGE,
                    "--beside is for results that are drawn from the recipe's data and have "
                    "no input or truth, which is always written; leave it out");
    if (!d->options.beside && !(d->options.input && model->continues))
        return OK;
    BatchRest like = model->like(d->recipe->config, d->part.each);
    feeds_add(pool, &d->feeds[BEGIN], like.name, like.type, like.shape);
    d->like = like.name;
    return OK;
}

/* Opens the inputs of the first phase: held-out samples of the recipe's data, or --input. A prompt
 * replaces texts. */
static Err drawing_inputs(Pool *pool, Drawing *d)
{
    const DrawingOptions *o = &d->options;
    Feeds                *feeds = &d->feeds[BEGIN];
    if (o->prompt)
        TRY(drawing_prompt(d));
    if (o->given)
        return drawing_inputs_given(pool, d);
    feeds->limit = o->loader_bytes;
    feeds->cache = o->cache;
    feeds->quiet = o->quiet;
    feeds->text = o->space;
    feeds->hold_back = o->hold_back;
    if (!o->input || o->hold_back)
        drawing_want_truth(pool, d);
    TRY(drawing_want_like(pool, d));
    TRY(feeds_open_drawn(pool, feeds, d->recipe, o->input, o->prompt ? "text" : NULL));
    if (!feeds->source && o->input && o->prompt)
        return fail(
            E_USAGE,
            "--prompt replaces everything that --input would provide; leave out one of them");
    if (!feeds->source)
        return o->input ? fail(E_USAGE, "--input: %s samples only from noise and takes no input",
                               d->recipe->model->name)
                        : OK;
    feeds->seed = (uint64_t)o->seed;
    return OK;
}

Err drawing_new(Pool *pool, Session *session, const Recipe *recipe, const DrawingOptions *options,
                Drawing **out)
{
    Drawing     *d = *out = NEW(pool, Drawing);
    const Graph *graph = session_engine(session)->graph;
    *d = (Drawing){ .pool = pool,
                    .session = session,
                    .recipe = recipe,
                    .options = *options,
                    .part = rank_part(options->comm, options->n) };
    d->wide = NEWN(pool, float *, graph->n_outputs + 1);
    for (int32_t i = 0; i < graph->n_outputs; i++)
        if (drawing_has(graph->outputs[i].phase))
            d->wide[i] = NEWN(pool, float,
                              shape_count(value_at(graph, graph->outputs[i].value)->shape));
    for (int i = 0; i < 3; i++)
        TRY(feeds_new(pool, session, drawing_phases[i], &d->feeds[i]));
    return options->fed ? OK : drawing_inputs(pool, d);
}

int64_t drawing_bytes(const Drawing *d)
{
    return d->feeds[BEGIN].bytes + d->feeds[STEP].bytes + d->feeds[END].bytes;
}

static Err drawing_about(Drawing *d, SampleReport *report)
{
    const Feeds *feeds = &d->feeds[BEGIN];
    report->trained = feeds->source && !d->options.input && feeds->first < 0 &&
                      !d->recipe->data.holdout_path;
    if (!feeds->source || !feeds->source->about)
        return OK;
    report->about = NEWN(d->pool, const char *, d->options.n);
    for (int64_t i = 0; i < d->options.n; i++) {
        char    buffer[256];
        int64_t id = d->options.input ? i % feeds->source->n_samples : feeds_sample(feeds, i);
        report->about[i] = pool_text(
            d->pool, feeds->source->about(feeds->source, id, buffer, sizeof buffer));
    }
    return OK;
}

static ResultForm drawing_form(const Drawing *d)
{
    const DataConfig *data = &d->recipe->data;
    const DataSource *source = d->feeds[BEGIN].source;
    ResultForm        form = { .formats = d->options.formats,
                               .rate = data->frame_rate > 0 ? data->frame_rate : CLIP_RATE,
                               .low = source ? source->range_low : 0,
                               .high = source ? source->range_high : 0 };
    if (!form.formats && d->options.metres && form.high > form.low)
        form.formats = FORMAT_PNG | FORMAT_NPY;
    return form;
}

static Err drawing_write(Pool *pool, Drawing *d, const char *folder, const SampleResult *result,
                         SampleReport *report)
{
    if (folder)
        TRY(folder_make(folder));
    for (int32_t i = 0; i < d->feeds[BEGIN].n_served; i++) {
        const FeedBuffer *feed = &d->feeds[BEGIN].list[d->feeds[BEGIN].served[i]];
        const char       *path = folder
                                     ? pool_print(pool, "%s/input-%s%s", folder, feed->name, image_ending)
                                     : NULL;
        bool              written = false;
        if (feed->type == F32 && !feed->apart)
            TRY(results_sheet(pool, path, feed->bytes, feed->shape, &written));
        if (written)
            VEC_ADD(pool, report->files, report->n_files, report->cap_files, path);
    }
    ResultForm form = drawing_form(d);
    TRY(results_write(pool, folder, result, &form, report));
    if (d->options.beside) {
        const ModelDef *model = d->recipe->model;
        SampleResult    held;
        model->like_result(pool, d->recipe->config, feeds_find(&d->feeds[BEGIN], d->like)->bytes,
                           d->options.n, &held);
        TRY(beside_write(pool, folder, &held, &form, report));
    }
    if (!d->truth)
        return OK;
    Feeds *feeds = &d->feeds[BEGIN];
    return truth_write(pool, folder, result, feeds_find(feeds, d->truth),
                       d->mask ? feeds_find(feeds, d->mask) : NULL, &form, report);
}

Sampler drawing_sampler(Drawing *d, Pool *pool)
{
    return (Sampler){ .pool = pool,
                      .n = d->part.each,
                      .config = &d->recipe->sampler,
                      .continues = d->like && d->options.input,
                      .own = d,
                      .run = drawing_run,
                      .feed = drawing_feed,
                      .output = drawing_output,
                      .weight = drawing_weight,
                      .state_get = drawing_state_get,
                      .state_set = drawing_state_set,
                      .normal = drawing_normal,
                      .uniform = drawing_uniform,
                      .progress = drawing_progress };
}

void *drawing_input(Drawing *d, const char *name)
{
    FeedBuffer *feed = feeds_find(&d->feeds[BEGIN], name);
    return feed ? feed->bytes : NULL;
}

Err drawing_result(Drawing *d, Pool *pool, int64_t first, SampleResult *result)
{
    Sampler s = drawing_sampler(d, pool);
    d->first = first;
    return d->recipe->model->sample(&s, d->recipe->config, result);
}

int64_t drawing_each(const Comm *comm, int64_t n) { return rank_part(comm, n).each; }

/* Rows of all ranks at rank 0; a dry run only allocates. */
static Err drawing_rows(Pool *pool, Drawing *d, bool dry, const void *mine, int64_t row_bytes,
                        int64_t rows, void **all)
{
    Comm *comm = d->options.comm;
    *all = rank_leads(comm)
               ? pool_alloc(pool, (size_t)(rows * rank_count(comm) + 1), (size_t)row_bytes)
               : NULL;
    return dry ? rank_collect_prepare(comm, rows * row_bytes)
               : rank_collect(comm, mine, rows * row_bytes, *all);
}

/* The results of all ranks, and what they were drawn from, at rank 0. */
static Err drawing_collect(Pool *pool, Drawing *d, bool dry, SampleResult *result, Feeds *feeds)
{
    int64_t per = result->shape.dim[0] / d->part.each, rows = result->shape.dim[0];
    void   *all;
    TRY(drawing_rows(pool, d, dry, result->data,
                     shape_count(result->shape) / rows * (int64_t)sizeof *result->data, rows,
                     &all));
    result->data = all;
    result->shape.dim[0] = per * d->options.n;
    FeedBuffer *list = NEWN(pool, FeedBuffer, feeds->n + 1);
    for (int32_t i = 0; i < feeds->n; i++)
        list[i] = feeds->list[i];
    for (int32_t i = 0; i < feeds->n_served; i++) {
        FeedBuffer *feed = &list[feeds->served[i]];
        rows = feed->shape.dim[0];
        TRY(drawing_rows(pool, d, dry, feed->bytes,
                         shape_count(feed->shape) / rows * type_bytes(feed->type), rows,
                         &feed->bytes));
        feed->shape.dim[0] = rows / d->part.each * d->options.n;
    }
    feeds->list = list;
    return OK;
}

/* folder NULL: a dry run, which only allocates. */
static Err drawing_once(Pool *pool, Drawing *d, const char *folder, SampleReport *report)
{
    const Recipe *recipe = d->recipe;
    Feeds        *feeds = &d->feeds[BEGIN];
    SampleResult  result;
    Sampler       s = drawing_sampler(d, pool);
    int64_t       first = d->first = d->part.first;
    s.dry = !folder;
    if (feeds->source)
        TRY(d->options.input ? feeds_fill_in_order(feeds, first) : feeds_fill(feeds, 0, first));
    double start = clock_now();
    TRY(recipe->model->sample(&s, recipe->config, &result));
    if (d->failed)
        return fail(d->failed, "%s", d->why);
    REQUIRE((int)result.kind == recipe->model->result_kind);
    report->seconds = clock_now() - start;
    Feeds own = *feeds;
    if (rank_count(d->options.comm) > 1)
        TRY(drawing_collect(pool, d, s.dry, &result, feeds));
    Err err = rank_leads(d->options.comm) ? drawing_write(pool, d, folder, &result, report) : OK;
    *feeds = own;
    TRY(err);
    if (d->options.given && folder) {
        const char *path;
        TRY(given_write(pool, folder, &result, &path));
        VEC_ADD(pool, report->files, report->n_files, report->cap_files, path);
    }
    return OK;
}

Err drawing_draw(Drawing *d, const char *folder, SampleReport *report)
{
    TRY(drawing_about(d, report));
    return drawing_once(d->pool, d, folder, report);
}

Err drawing_again(Drawing *d, const char *folder)
{
    SampleReport report = { 0 };
    Err          err = drawing_once(d->work, d, folder, &report);
    for (int32_t i = 0; i < report.n_files && folder && d->wrote && !err; i++)
        d->wrote(d->wrote_arg, report.files[i]);
    pool_reset(d->work);
    return err;
}

void drawing_tell_files(Drawing *d, void (*wrote)(void *arg, const char *path), void *arg)
{
    d->wrote = wrote;
    d->wrote_arg = arg;
}

void drawing_stop_by(Drawing *d, const volatile sig_atomic_t *stop) { d->stop = stop; }
bool drawing_stopped(const Drawing *d) { return d->stopped; }

Err drawing_prepare(Drawing *d)
{
    d->work = pool_new(d->pool, "drawing");
    pool_keep(d->work);
    return drawing_again(d, NULL);
}
