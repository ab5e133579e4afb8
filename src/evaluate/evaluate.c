/* evaluate.c -- loads a run's weights, runs its loss over samples and timesteps, and draws. */
#include "evaluate/evaluate.h"

#include "base/checksum.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/terminal.h"
#include "base/text.h"
#include "evaluate/noise_inputs.h"
#include "evaluate/results_compare.h"
#include "models/layers.h"
#include "ops/ops.h"
#include "ops/optimizer/optim.h"
#include "train/checkpoint.h"
#include "train/drawing.h"
#include "train/run_file.h"
#include "train/rank_run.h"
#include "train/ranks.h"
#include "train/weights_hash.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    EVALUATION_STEP = -1, /* a step of no training */
    IGNORED = -100        /* targets that do not count */
};

typedef struct Evaluating {
    Pool                  *pool;
    const EvaluateOptions *o;
    const char            *run;
    Recipe                *recipe; /* its validation describes this evaluation */
    Session               *session;
    bool                   given;    /* noise and timesteps are inputs */
    int32_t                counters; /* value id of the step's counters, if they are not */
    NoiseInputs            noise;
    Feeds                  feeds;
    Drawing               *drawing; /* NULL: results are not compared */
    ImageSums              images;
    ClipSums               clips;
    Checksum               data;
    Evaluation            *out;
    double                *sums, *weights; /* per timestep */
    float                 *found;          /* losses of this rank's batch, per timestep */
    double                 started, shown;
    int64_t                done, work; /* runs of the loss and samples drawn */
} Evaluating;

/* ---- the graph ---- */

static bool graph_feeds(const Graph *graph, const char *name)
{
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op == &op_feed && !strcmp(ATTR(&graph->nodes[i], FeedAttr)->name, name))
            return true;
    return false;
}

/* Does the loss read the truth that a result of this system is compared with? */
static bool truth_known(const Recipe *recipe, const Graph *graph)
{
    bool images = graph_feeds(graph, "image") && graph_feeds(graph, "image_lq"),
         clips = graph_feeds(graph, "observed") && graph_feeds(graph, "future");
    return recipe->model->sample && (images || clips);
}

static Err evaluate_graph(Evaluating *e, const Device *device, bool *draws, Graph **out)
{
    const Recipe *recipe = e->recipe;
    BuildOptions  build = { .subpixel = recipe_for(e->pool, recipe, device)->levers.subpixel,
                            .given_noise = e->given,
                            .own_context = true };
    Graph        *graph = *out = graph_new_with(e->pool, recipe_type(recipe), &build);
    graph->phase = PHASE_VALIDATE;
    if (!e->given)
        e->counters = graph_counters(graph).id;
    else
        TRY(noise_inputs_find(e->pool, recipe, &build, &e->noise));
    Tensor loss = recipe->model->loss(graph, recipe->config, e->o->batch, 1);
    graph->n_outputs = 0; /* nobody reads the prediction */
    graph->module = 0;
    if (tensor_ok(loss))
        graph_output(loss, "loss");
    *draws = e->o->draw != 0 && truth_known(recipe, graph);
    if (*draws)
        recipe->model->sample_graph(graph, recipe->config, &recipe->sampler, e->o->batch);
    return graph_check(graph);
}

static Err evaluate_open(Evaluating *e, const Device *device, bool *draws)
{
    Graph  *graph;
    Engine *engine;
    TRY(recipe_suits(e->recipe, device));
    TRY(evaluate_graph(e, device, draws, &graph));
    TRY(engine_new(e->pool, graph, device, NULL, &engine));
    TRY(engine_within(engine, e->o->budget_bytes,
                      pool_print(e->pool, "evaluating %lld at once", (long long)e->o->batch),
                      e->o->batch > 1 ? "use a smaller --batch" : NULL));
    TRY(session_new(e->pool, engine, &e->session));
    e->out->planned_bytes = engine->arena_bytes;
    return session_init_state(e->session, (uint64_t)e->recipe->seed);
}

static Err evaluate_weights(Evaluating *e, const char *run)
{
    WeightsRead read = { .step = e->o->checkpoint,
                         .kind = e->o->weights,
                         .length = recipe_number(e->recipe, "length", 0) };
    TRY(checkpoint_weights(e->pool, e->session, run, &read));
    e->out->step = read.step;
    e->out->averaged = read.averaged;
    if (read.note && !e->o->quiet)
        print_sentence(stderr, "evaluate: %s", read.note);
    return weights_hash(e->pool, e->session, &e->out->weights);
}

/* ---- the data ---- */

static Err feeds_prepare(Evaluating *e, Feeds *feeds)
{
    TRY(feeds_new(e->pool, e->session, PHASE_VALIDATE, feeds));
    feeds->aside = e->noise.names;
    feeds->limit = e->o->loader_bytes;
    feeds->cache = e->o->cache;
    feeds->quiet = e->o->quiet;
    return run_text(e->pool, e->run, &feeds->text);
}

/* Range images are scaled as in training: where the recipe leaves the metres to the data, these are
 * the training data's. */
static Err ranges_as_trained(Evaluating *e)
{
    DataConfig *data = &e->recipe->data;
    Feeds       training;
    if (data->range_high > data->range_low || !data->holdout_path ||
        !feeds_find(&e->feeds, "future"))
        return OK;
    TRY(feeds_prepare(e, &training));
    Err err = feeds_open(e->pool, &training, e->recipe);
    if (err)
        return fail(err,
                    "the scale of range images comes from the training data, which cannot be read "
                    "(%s); give it with --set data.range_low=M --set data.range_high=M",
                    pool_text(e->pool, err_text()));
    data->range_low = training.source->range_low;
    data->range_high = training.source->range_high;
    return OK;
}

static Err data_open_held(Evaluating *e, const char *run)
{
    const EvaluateOptions *o = e->o;
    Evaluation            *out = e->out;
    DataConfig            *data = &e->recipe->data;
    if (!data->holdout_path && data->path && data->holdout <= 0 && !e->recipe->validate.every)
        return fail(E_USAGE, "%s was trained on all of %s; give other samples with --data TEST",
                    run, data->path);
    e->recipe->validate = (EveryConfig){ .every = 1,
                                         .batch = o->batch,
                                         .batches = (o->n ? o->n : EVALUATE_SAMPLES) / o->batch };
    TRY(feeds_prepare(e, &e->feeds));
    TRY(ranges_as_trained(e));
    TRY(feeds_open_held(e->pool, &e->feeds, e->recipe));
    const DataSource *source = e->feeds.source;
    if (!source)
        return fail(E_USAGE, "the system %s has no input that data can provide",
                    e->recipe->model->name);
    out->of = source->n_samples - e->feeds.first;
    out->samples = o->n && o->n < out->of ? o->n : out->of;
    out->kind = source->name;
    out->data = data->holdout_path ? data->holdout_path : data->path;
    if (!out->data)
        out->of = 0;
    if (o->n > out->samples)
        return fail(E_USAGE, "-n %lld: there are %lld samples; leave it out for all of them",
                    (long long)o->n, (long long)out->samples);
    if (out->samples % o->batch)
        return fail(E_USAGE,
                    "--batch %lld does not divide %lld samples; add -n %lld, or use --batch 1",
                    (long long)o->batch, (long long)out->samples,
                    (long long)int_max(out->samples / o->batch * o->batch, o->batch));
    return OK;
}

/* What the model is given, sample by sample. */
static void data_hash(Evaluating *e)
{
    const Feeds *feeds = &e->feeds;
    for (int64_t row = 0; row < e->o->batch; row++)
        for (int32_t i = 0; i < feeds->n_served; i++) {
            const FeedBuffer *feed = &feeds->list[feeds->served[i]];
            size_t            n = (size_t)(shape_count(feed->shape) / feed->shape.dim[0] *
                                type_bytes(feed->type));
            checksum_add(&e->data, feed->name, strlen(feed->name) + 1);
            checksum_add(&e->data, (const char *)feed->bytes + (size_t)row * n, n);
        }
}

/* ---- the loss ---- */

static void progress(Evaluating *e)
{
    bool last = ++e->done == e->work;
    if (e->o->quiet || !progress_due(&e->shown, last))
        return;
    double left = (e->shown - e->started) / (double)e->done * (double)(e->work - e->done);
    if (terminal_draws())
        progress_show("evaluating %lld/%lld, %s left", (long long)e->done, (long long)e->work,
                      span_text(left));
    else
        fprintf(stderr, "evaluating %lld/%lld\n", (long long)e->done, (long long)e->work);
    if (last)
        progress_end();
}

/* What the loss is a mean over: valid pixels, targets that count, or samples. */
static double loss_weight(Evaluating *e)
{
    const FeedBuffer *mask = feeds_find(&e->feeds, "mask"),
                     *target = feeds_find(&e->feeds, "target");
    int64_t count = 0;
    if (e->recipe->model->named_inputs || (!mask && !target))
        return (double)e->o->batch;
    int64_t n = shape_count(mask ? mask->shape : target->shape);
    for (int64_t i = 0; i < n; i++)
        count += mask ? ((const uint8_t *)mask->bytes)[i] != 0
                      : ((const int32_t *)target->bytes)[i] != IGNORED;
    return (double)count;
}

static void times_set(Evaluating *e, int64_t t)
{
    for (int32_t i = 0; i < e->noise.n; i++) {
        FeedBuffer *feed = e->noise.list[i].times ? feeds_find(&e->feeds, e->noise.list[i].name)
                                                  : NULL;
        for (int64_t k = 0; feed && k < shape_count(feed->shape); k++)
            ((int32_t *)feed->bytes)[k] = (int32_t)t;
    }
}

static Err counters_set(Evaluating *e, int64_t batch)
{
    int32_t words[COUNTER_WORDS];
    if (e->given)
        return OK;
    TRY(session_read(e->session, e->counters, words));
    words[COUNTER_STEP] = EVALUATION_STEP;
    words[COUNTER_MICRO] = (int32_t)batch;
    return session_write(e->session, e->counters, words);
}

/* The loss of samples first .. first + batch - 1 at every timestep. */
static Err batch_losses(Evaluating *e, int64_t first)
{
    const EvaluateOptions *o = e->o;
    Evaluation            *out = e->out;
    int64_t                runs = int_max(out->n_times, 1);
    for (int32_t i = 0; i < e->noise.n; i++)
        noise_fill(&e->noise, e->noise.list[i].name, first, o->batch,
                   feeds_find(&e->feeds, e->noise.list[i].name)->bytes);
    TRY(counters_set(e, first / o->batch));
    for (int64_t k = 0; k < runs; k++) {
        if (out->n_times)
            times_set(e, out->times[k]);
        TRY(session_run(e->session, PHASE_VALIDATE));
        const float *loss = session_output(e->session, "loss");
        if (!loss)
            return fail(E_DEVICE, "the loss could not be read from the device");
        e->found[k] = *loss;
        progress(e);
    }
    return OK;
}

/* Adds up what was found; the batch is still in the feeds. */
static Err batch_count(Evaluating *e, int64_t first, const float *found)
{
    Evaluation *out = e->out;
    int64_t     runs = int_max(out->n_times, 1);
    double      weight = loss_weight(e), mean = 0;
    for (int64_t k = 0; k < runs; k++) {
        if (!isfinite(found[k]))
            return fail(E_NUMBER,
                        "the loss of sample %lld is not finite; the weights or the sample are "
                        "damaged",
                        (long long)first);
        e->sums[k] += weight * (double)found[k];
        e->weights[k] += weight;
        mean += (double)found[k] / (double)runs;
    }
    if (out->list) {
        const DataSource *source = e->feeds.source;
        char              room[256];
        const char       *about = source->about
                                      ? source->about(source, e->feeds.first + first, room, sizeof room)
                                      : NULL;
        out->list[first] = (EvaluatedSample){ about ? pool_text(e->pool, about) : NULL, mean };
    }
    return OK;
}

/* ---- results ---- */

static const void *row_of(Evaluating *e, const char *name, int64_t row)
{
    const FeedBuffer *feed = feeds_find(&e->feeds, name);
    return feed ? (const char *)feed->bytes +
                      shape_count(feed->shape) / feed->shape.dim[0] * row * type_bytes(feed->type)
                : NULL;
}

static Err batch_compare(Evaluating *e, const SampleResult *result, int64_t first)
{
    Shape one = shape_drop(result->shape, 0);
    for (int64_t row = 0; row < e->o->batch; row++) {
        bool     clip = result->kind == RESULT_CLIPS;
        TruthRow r = { .shape = one,
                       .result = result->data + row * shape_count(one),
                       .truth = row_of(e, clip ? "future" : "image", row),
                       .input = clip ? NULL : row_of(e, "image_lq", row),
                       .mask = clip ? row_of(e, "mask", row) : NULL };
        if (clip)
            clips_compare(&r, &e->clips);
        else
            TRY(images_compare(e->pool, &r, first + row, e->o->pairs, &e->images));
    }
    return OK;
}

/* Draws from the same samples: inputs of the same name are those of the loss, others are noise. */
static Err batch_draw(Evaluating *e, Pool *work, int64_t first, SampleResult *result)
{
    const Graph *graph = session_engine(e->session)->graph;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const Node *node = &graph->nodes[i];
        if (node->op != &op_feed || node->phase != PHASE_SAMPLE_BEGIN)
            continue;
        const char       *name = ATTR(node, FeedAttr)->name;
        const FeedBuffer *feed = feeds_find(&e->feeds, name);
        void             *to = drawing_input(e->drawing, name);
        if (feed)
            memcpy(to, feed->bytes, (size_t)out_bytes(node, 0));
        else
            noise_fill(&e->noise, name, first, e->o->batch, to);
    }
    Err err = drawing_result(e->drawing, work, first, result);
    progress(e);
    return err;
}

/* ---- the ranks ---- */

/* A batch of another rank, which rank 0 counts as if it were its own. */
typedef struct RankBatch {
    float       *found;  /* per timestep */
    void       **feeds;  /* per served feed */
    SampleResult result; /* if the batch was drawn */
} RankBatch;

static int64_t feed_bytes(const FeedBuffer *feed)
{
    return shape_count(feed->shape) * type_bytes(feed->type);
}

static Err collect(Evaluating *e, Pool *work, const void *mine, int64_t bytes, void **all)
{
    int ranks = rank_count(e->o->comm);
    *all = rank_leads(e->o->comm) ? pool_alloc(work, (size_t)ranks, (size_t)bytes + 1) : NULL;
    return rank_collect(e->o->comm, mine, bytes, *all);
}

/* The batches of all ranks at rank 0. */
static Err collect_batches(Evaluating *e, Pool *work, bool drawn, const SampleResult *result,
                           RankBatch *batches)
{
    int64_t runs = int_max(e->out->n_times, 1), bytes = runs * (int64_t)sizeof(float);
    int     ranks = rank_count(e->o->comm);
    Feeds  *feeds = &e->feeds;
    void   *all;
    TRY(collect(e, work, e->found, bytes, &all));
    for (int r = 0; r < ranks && all; r++)
        batches[r] = (RankBatch){ .found = (float *)((char *)all + r * bytes),
                                  .feeds = NEWN(work, void *, feeds->n_served + 1),
                                  .result = *result };
    for (int32_t i = 0; i < feeds->n_served; i++) {
        const FeedBuffer *feed = &feeds->list[feeds->served[i]];
        TRY(collect(e, work, feed->bytes, feed_bytes(feed), &all));
        for (int r = 0; r < ranks && all; r++)
            batches[r].feeds[i] = (char *)all + r * feed_bytes(feed);
    }
    if (!drawn)
        return OK;
    int64_t count = shape_count(result->shape);
    TRY(collect(e, work, result->data, count * (int64_t)sizeof *result->data, &all));
    for (int r = 0; r < ranks && all; r++)
        batches[r].result.data = (float *)all + r * count;
    return OK;
}

static Err count_batch(Evaluating *e, const RankBatch *b, int64_t first, bool drawn)
{
    for (int32_t i = 0; i < e->feeds.n_served; i++) {
        FeedBuffer *feed = &e->feeds.list[e->feeds.served[i]];
        if (b->feeds[i] != feed->bytes)
            memcpy(feed->bytes, b->feeds[i], (size_t)feed_bytes(feed));
    }
    data_hash(e);
    TRY(batch_count(e, first, b->found));
    if (!drawn)
        return OK;
    e->out->drawn += e->o->batch;
    return batch_compare(e, &b->result, first);
}

/* Each rank does one batch of the round. The last round may have too few: then some do the last batch
 * too, which is not counted. draw: so many samples are drawn. */
static Err evaluate_round(Evaluating *e, Pool *work, int64_t round, int64_t draw)
{
    int64_t      batch = e->o->batch, batches = e->out->samples / batch;
    int          ranks = rank_count(e->o->comm);
    int64_t      from = round * ranks;
    int64_t      first = int_min(from + rank_number(e->o->comm), batches - 1) * batch;
    bool         drawn = from * batch < draw; /* by all, if by the first */
    SampleResult result = { 0 };
    RankBatch   *list = NEWN(work, RankBatch, ranks);
    TRY(feeds_fill(&e->feeds, first / batch, first));
    TRY(batch_losses(e, first));
    if (drawn)
        TRY(batch_draw(e, work, first, &result));
    TRY(collect_batches(e, work, drawn, &result, list));
    for (int r = 0; r < ranks && from + r < batches && rank_leads(e->o->comm); r++)
        TRY(count_batch(e, &list[r], (from + r) * batch, (from + r) * batch < draw));
    return OK;
}

static Err evaluate_all(Evaluating *e)
{
    int64_t batch = e->o->batch, runs = int_max(e->out->n_times, 1);
    int64_t draw = !e->drawing      ? 0
                   : e->o->draw < 0 ? e->out->samples
                                    : int_min(e->o->draw, e->out->samples);
    int64_t rounds = ceil_div(e->out->samples / batch, rank_count(e->o->comm));
    e->work = rounds * runs + ceil_div(ceil_div(draw, batch), rank_count(e->o->comm));
    e->started = clock_now();
    for (int64_t round = 0; round < rounds; round++) {
        Pool *work = pool_new(e->pool, "round");
        Err   err = evaluate_round(e, work, round, draw);
        pool_free(work);
        TRY(err);
    }
    e->out->seconds = clock_now() - e->started;
    return OK;
}

/* ---- the whole ---- */

static Err evaluate_measured(Evaluating *e)
{
    const Phase phases[] = { PHASE_VALIDATE, PHASE_SAMPLE_BEGIN, PHASE_SAMPLE, PHASE_SAMPLE_END };
    for (int i = 0; i < 4; i++) {
        int64_t measured = session_measured_bytes(e->session, phases[i]);
        int64_t planned = session_planned_bytes(e->session, phases[i]);
        if (measured && measured != planned)
            return fail(E_PLAN,
                        "phase %s used %lld bytes where %lld were planned (this is a bug; please "
                        "report it)",
                        phase_name(phases[i]), (long long)measured, (long long)planned);
        e->out->measured_bytes = int_max(e->out->measured_bytes, measured);
    }
    return OK;
}

static Err evaluate_times(Evaluating *e)
{
    Evaluation *out = e->out;
    int64_t     all = recipe_number(e->recipe, "timesteps", 0), asked = e->o->timesteps;
    bool        timed = e->given && all > 0 && noise_has_times(&e->noise);
    if (asked && !timed)
        return fail(E_USAGE, "--timesteps: the loss of %s has no timesteps; leave it out",
                    e->recipe->name);
    if (asked > all)
        return fail(E_USAGE, "--timesteps %lld: %s has only %lld", (long long)asked,
                    e->recipe->name, (long long)all);
    if (timed)
        out->n_times = int_min(asked ? asked : EVALUATE_TIMESTEPS, all);
    int64_t n = int_max(out->n_times, 1);
    out->times = NEWN(e->pool, int64_t, n);
    out->losses = NEWN(e->pool, double, n);
    e->sums = NEWN(e->pool, double, n);
    e->weights = NEWN(e->pool, double, n);
    e->found = NEWN(e->pool, float, n);
    for (int64_t k = 0; k < out->n_times; k++)
        out->times[k] = respaced_time(all, n, k);
    if (e->o->batch == 1)
        out->list = NEWN(e->pool, EvaluatedSample, out->samples);
    return OK;
}

static void evaluate_means(Evaluating *e)
{
    Evaluation *out = e->out;
    int64_t     n = int_max(out->n_times, 1);
    for (int64_t k = 0; k < n; k++) {
        out->losses[k] = e->weights[k] > 0 ? e->sums[k] / e->weights[k] : NAN;
        out->loss += out->losses[k] / (double)n;
    }
    out->bits = feeds_find(&e->feeds, "target") && feeds_find(&e->feeds, "tokens")
                    ? out->loss / log(2)
                    : NAN;
    out->fingerprint = checksum_end(&e->data);
    images_means(&e->images, out);
    if (e->drawing && e->clips.pixels)
        clips_means(&e->clips, e->feeds.source->range_low, e->feeds.source->range_high, out);
}

Err evaluate_run(Pool *pool, const char *run, const Recipe *recipe, const Device *device,
                 const EvaluateOptions *options, Evaluation *out)
{
    EvaluateOptions o = *options;
    Evaluating      e = { .pool = pool,
                          .o = &o,
                          .run = run,
                          .recipe = recipe_copy(pool, recipe),
                          .given = !recipe->model->named_inputs,
                          .data = checksum_begin(),
                          .out = out };
    bool            draws;
    *out = (Evaluation){ .bits = NAN };
    if (o.seed >= 0)
        e.recipe->seed = o.seed;
    if (o.data)
        e.recipe->data.holdout_path = o.data;
    TRY(folder_hold(pool, run));
    if (!o.cache)
        TRY(run_cache(pool, run, &o.cache));
    TRY(evaluate_open(&e, device, &draws));
    if (o.pairs && !(draws && graph_feeds(session_engine(e.session)->graph, "image")))
        return fail(E_USAGE,
                    "--pairs: there are no images to write, because the results of %s are not "
                    "compared with true images%s",
                    recipe->model->name, o.draw ? "" : " by --draw 0");
    TRY(evaluate_weights(&e, run));
    TRY(data_open_held(&e, run));
    if (o.comm)
        TRY(ranks_agree_step(o.comm, out->step));
    if (draws)
        TRY(drawing_new(
            pool, e.session, e.recipe,
            &(DrawingOptions){ .n = o.batch, .seed = e.recipe->seed, .fed = true, .quiet = true },
            &e.drawing));
    if (o.pairs && rank_leads(o.comm))
        TRY(folder_make(o.pairs));
    TRY(evaluate_times(&e));
    TRY(evaluate_all(&e));
    if (!rank_leads(o.comm))
        return OK;
    evaluate_means(&e);
    return evaluate_measured(&e);
}
