/* trainer.c -- the loop over steps. */
#include "train/trainer.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "ops/optimizer/optim.h"
#include "train/checkpoint.h"
#include "train/feeds.h"
#include "fit/fit.h"
#include "train/log.h"
#include "train/phases.h"
#include "train/weights.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_TIMES = 512,             /* newest step times kept for the median */
    PACE_STEPS = 50              /* of these, for the time that is left */
};
/* Steps in a row that go wrong before an fp16 run ends. One may be a batch that goes beyond 65504:
 * its update is left out, and the next may do. */
enum { FP16_PATIENCE = 8 };         /* the sentence says 8th */

typedef struct Trainer {
    const Recipe       *asked;   /* the recipe as it was given */
    const Recipe       *recipe;  /* as it is run: a plan may move its levers */
    const TrainOptions *options;
    FitResult           fit;
    TrainingGraph       graph;
    Session            *session;
    Feeds               feeds;
    Phases             *phases;
    Saver              *saver;
    Pool               *held;            /* the lock on the run's folder */
    RunLog              log;
    RunState            state;
    bool                begun;       /* the step after it: what a checkpoint holds may have moved */
    int32_t             counters[COUNTER_WORDS];     /* what the next step is given */
    float               rates[RATE_GROUPS + 2];
    float               progress[PROGRESS_WORDS];    /* as the last step left it */
    bool                moves_early;
    int                 went_wrong;  /* steps in a row */
    int64_t             ahead;       /* micro-batch of the run that is at its place already, + 1 */
    float               times_ms[MAX_TIMES];
    int64_t             n_times;
} Trainer;

static volatile sig_atomic_t train_stop;

static void train_on_signal(int number)
{
    (void)number;
    train_stop = 1;
}

/* What ends a run well. A terminal that is closed hangs up, unless nohup says otherwise. */
static const int train_signals[] = { SIGINT, SIGTERM, SIGHUP };
enum { N_SIGNALS = sizeof train_signals / sizeof *train_signals };

static void signals_take(struct sigaction before[N_SIGNALS])
{
    struct sigaction stop = { .sa_handler = train_on_signal, .sa_flags = SA_RESTART };
    train_stop = 0;                          /* an earlier run of the process may have set it */
    for (int i = 0; i < N_SIGNALS; i++) {
        sigaction(train_signals[i], NULL, &before[i]);
        if (train_signals[i] != SIGHUP || before[i].sa_handler != SIG_IGN)
            sigaction(train_signals[i], &stop, NULL);
    }
}

static void signals_give_back(const struct sigaction before[N_SIGNALS])
{
    for (int i = 0; i < N_SIGNALS; i++)
        sigaction(train_signals[i], &before[i], NULL);
}

static Err train_save(Trainer *t)
{
    TRY(log_flush(&t->log));         /* it reaches at least as far as the checkpoint */
    return saver_save(t->saver, &t->state);
}

/* A new run may go there. */
static Err train_free(Pool *pool, const char *out)
{
    int64_t step;
    if (folder_exists(out) && !checkpoint_newest(pool, out, &step))
        return fail(E_USAGE,
                    "%s already holds a run at step %lld; continue it with --resume %s, or name "
                    "another folder",
                    out, (long long)step, text_word(pool, out));
    return OK;
}

/* What would stop a run only after it was planned; nothing is changed yet. */
static Err train_try(Pool *pool, const TrainOptions *o)
{
    int64_t step;
    if (!o->out)
        return OK;
    if (o->resume)
        return checkpoint_newest(pool, o->out, &step);
    TRY(folder_try(o->out));
    return train_free(pool, o->out);
}

static Err train_open(Pool *pool, Trainer *t)
{
    const TrainOptions *o = t->options;
    if (o->given) {
        int64_t rows, accumulate = t->recipe->accumulate, needed = t->recipe->steps * accumulate;
        TRY(feeds_from_file(pool, &t->feeds, o->given, &rows));
        if (rows < needed)
            return fail(E_USAGE,
                        "%s has inputs for %lld micro-batches, and %lld steps take %lld; ask for "
                        "--steps %lld",
                        o->given, (long long)rows, (long long)t->recipe->steps, (long long)needed,
                        (long long)(rows / accumulate));
    } else {
        TRY(feeds_open(pool, &t->feeds, t->recipe, NULL, NULL));
        TRY(feeds_prefetch(pool, &t->feeds));
        if (t->feeds.source && !o->quiet)
            fprintf(stderr, "data: %s, %s samples%s%s%s\n", t->feeds.source->name,
                    count_text(t->feeds.source->n_samples),
                    t->recipe->data.path ? " from " : ", drawn by the program",
                    t->recipe->data.path ? t->recipe->data.path : "",
                    t->feeds.held ? pool_print(pool, ", %s held out", count_text(t->feeds.held))
                                  : "");
        if (t->feeds.source && t->feeds.source->unread && !o->quiet)
            fprintf(stderr, "data: %s\n", t->feeds.source->unread);
    }
    if (o->init) {
        const char *said;
        TRY(checkpoint_intact(pool, o->init));
        TRY(weights_load(pool, t->session, o->init, o->init_partial, &said));
        if (said && !o->quiet)
            fprintf(stderr, "init: %s\n", said);
    }
    int64_t samples = t->feeds.source ? t->feeds.source->n_samples : 0;
    t->state.seed = t->recipe->seed;
    double rates[2] = { t->recipe->optimizer.lr, t->recipe->optimizer.lr };
    if (t->graph.n_groups > 1)
        rates[0] = t->recipe->optimizer.slow_lr;
    t->state.plateau = plateau_start(t->recipe, rates, t->graph.n_groups);
    if (!o->out)
        return OK;
    if (!o->resume)
        TRY(folder_make(o->out));
    TRY(folder_lock(t->held, o->out));
    if (o->resume) {
        int64_t step;
        TRY(checkpoint_newest(pool, o->out, &step));
        TRY(checkpoint_load(pool, t->session, o->out, step, &t->state));
        if (t->state.samples && samples && t->state.samples != samples && !o->quiet)
            fprintf(stderr, "data: %s samples now, %s at step %lld: what follows is not what the "
                    "run would have been with those\n", count_text(samples),
                    count_text(t->state.samples), (long long)step);
        if (t->state.seed != t->recipe->seed)
            return fail(E_USAGE,
                        "%s was begun with seed %lld; with seed %lld it would not be the same run. "
                        "Leave out --seed, or begin another with --init",
                        o->out, (long long)t->state.seed, (long long)t->recipe->seed);
    } else {
        TRY(train_free(pool, o->out));
    }
    t->state.samples = samples;
    TRY(saver_new(pool, t->session, o->out, t->recipe->save.keep, &t->saver));
    if (t->state.step >= t->recipe->steps && o->resume && !t->state.due)
        return OK;                                           /* what does nothing changes nothing */
    TRY(recipe_write(t->asked, pool_print(pool, "%s/recipe.yaml", o->out)));
    TRY(fit_write(pool_print(pool, "%s/plan.json", o->out), t->asked, &t->fit));
    /* a step that was not looked at yet has its line to come */
    int64_t logged = t->state.step - (t->state.due == DUE_LOOK);
    return log_open(pool, &t->log, o->out, o->resume ? logged : -1);
}

/* Batch-norm statistics and carried states move with every micro-batch, the rest by the update. */
static bool train_moves_early(const TrainingGraph *g)
{
    const Graph *graph = g->graph;
    for (int32_t i = 0; i < graph->n_constants; i++) {
        int32_t id = graph->constants[i].value;
        if (graph->constants[i].saved && value_at(graph, id)->mem_class == CLASS_CONSTANTS &&
            id != g->train.progress.id)
            return true;
    }
    return false;
}

static Err train_feed(Trainer *t, int64_t micro)
{
    const Recipe *recipe = t->recipe;
    int64_t       number = t->state.step * recipe->accumulate + micro;
    if (t->ahead == number + 1)
        return OK;
    t->ahead = 0;
    return feeds_fill(&t->feeds, number, t->state.drawn + micro * recipe->batch);
}

/* The first micro-batch of the next step comes to its place while a GPU is at this one. What goes
 * wrong is told when that step asks for it again. */
static void train_feed_ahead(Trainer *t)
{
    const Recipe *recipe = t->recipe;
    int64_t       micro = recipe->accumulate, number = t->state.step * micro + micro;
    if (!session_engine(t->session)->device->api || t->state.step + 1 >= recipe->steps)
        return;
    if (!feeds_fill(&t->feeds, number, t->state.drawn + micro * recipe->batch) &&
        !session_stage(t->session, PHASE_MICRO))
        t->ahead = number + 1;
}

/* A gradient beyond fp16 is what the loss scale is for, until the scale cannot get smaller. */
static bool train_went_wrong(const Trainer *t, double loss)
{
    bool lost = t->progress[PROGRESS_FINITE] <= 0;
    return !isfinite(loss) ||
           (lost && (recipe_type(t->recipe) != F16 || t->progress[PROGRESS_SCALE] <= 1));
}

/* The weights have not moved. Runs the last micro-batch again to find where it began. */
static Err train_not_finite(Trainer *t, double loss)
{
    bool        half = recipe_type(t->recipe) == F16;
    const char *what = isfinite(loss) ? "gradient" : "loss";
    t->ahead = 0;
    TRY(train_feed(t, t->recipe->accumulate - 1));
    const char *where = session_first_nonfinite(t->session, PHASE_MICRO);
    return fail(E_NUMBER,
                "the %s is not finite at step %lld%s; the first tensor that is not is %s. The "
                "weights are as they were before this step; a lower learning rate or clipping "
                "usually helps%s",
                what, (long long)t->state.step + 1, half ? ", the 8th in a row" : "",
                where           ? where
                : isfinite(loss) ? "the gradient's norm, of which no single number is too large"
                                 : "the loss itself",
                half ? ", or bf16, which holds larger numbers than fp16" : "");
}

/* Of the step after so many. */
static void train_rates(Trainer *t, int64_t step)
{
    double factor = schedule_factor(t->recipe, step);
    t->rates[RATE_EMA_DECAY] = (float)ema_decay(t->recipe, step);
    for (int i = 0; i < t->graph.n_groups; i++)
        t->rates[RATE_GROUPS + i] = (float)((t->state.plateau.on ? t->state.plateau.rates[i]
                                                                 : (double)t->graph.groups[i].lr) *
                                            factor);
}

static Err train_step(Trainer *t, double *loss)
{
    const Recipe *recipe = t->recipe;
    TrainGraph   *g = &t->graph.train;
    int32_t      *counters = t->counters;
    float         loss_now;

    counters[COUNTER_STEP] = (int32_t)t->state.step;
    train_rates(t, t->state.step);
    t->begun = false;
    TRY(train_feed(t, 0));
    t->begun = t->moves_early;
    TRY(session_write(t->session, g->rates.id, t->rates));
    for (int64_t micro = 0; micro < recipe->accumulate; micro++) {
        counters[COUNTER_MICRO] = (int32_t)micro;
        TRY(session_write(t->session, g->counters.id, counters));
        if (micro)
            TRY(train_feed(t, micro));
        TRY(session_run(t->session, PHASE_MICRO));
    }
    t->begun = true;
    TRY(session_run(t->session, PHASE_UPDATE));       /* which skips a step that is not finite */
    train_feed_ahead(t);
    TRY(session_read(t->session, g->loss.id, &loss_now));
    TRY(session_read(t->session, g->progress.id, t->progress));
    *loss = (double)loss_now;
    t->went_wrong = train_went_wrong(t, *loss) ? t->went_wrong + 1 : 0;
    if (t->went_wrong >= (recipe_type(recipe) == F16 ? FP16_PATIENCE : 1))
        return train_not_finite(t, *loss);
    t->state.step++;
    t->state.drawn += recipe->accumulate * recipe->batch;
    t->begun = false;                /* all of a step: it can be saved */
    return OK;
}

/* What is due after a step, before its line of the log: looking at held-out samples, and what
 * follows from it. */
static Err train_validate(Trainer *t, double loss, TrainResult *result, bool *done)
{
    const ScheduleConfig *schedule = &t->recipe->schedule;
    *done = t->phases && phase_due(&t->recipe->validate, t->state.step);
    if (*done) {
        TRY(phases_validate(t->phases, &result->validation_last));
        result->validations++;
    }
    if (t->state.plateau.on && schedule->watch == WATCH_LOSS)
        plateau_step(&t->state.plateau, schedule, loss);
    else if (t->state.plateau.on && *done)
        plateau_look(&t->state.plateau, schedule, result->validation_last);
    return OK;
}

static Err train_log(Trainer *t, double loss, double ms, const double *validation)
{
    bool measured = t->graph.train.measures_norm;
    if (!t->log.to)
        return OK;
    return log_add(&t->log,
                   &(LogLine){ .step = t->state.step,
                               .loss = loss,
                               .lr = (double)t->rates[RATE_GROUPS + t->graph.n_groups - 1],
                               .grad_norm = measured ? (double)t->progress[PROGRESS_NORM] : NAN,
                               .ms = ms,
                               .validation = validation });
}

static int64_t train_measured(const Trainer *t)
{
    int64_t most = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        if (session_measured_bytes(t->session, (Phase)phase) > most)
            most = session_measured_bytes(t->session, (Phase)phase);
    return most;
}

/* Mean of the newest steps: one alone says little of those to come. Without the very first, which
 * touches everything for the first time. */
static double train_pace(const Trainer *t)
{
    int64_t n = t->n_times > PACE_STEPS ? PACE_STEPS : t->n_times > 1 ? t->n_times - 1 : t->n_times;
    double  sum = 0;
    for (int64_t i = t->n_times - n; i < t->n_times; i++)
        sum += (double)t->times_ms[i % MAX_TIMES];
    return n ? sum / (double)n : t->state.ms;
}

static void train_show(const Trainer *t, double loss, const double *validation, bool last)
{
    bool   terminal = isatty(2);
    char   word[48] = "";
    double ms = train_pace(t);
    if (t->options->quiet ||
        (!terminal && !last && !validation && t->state.step % 50 && t->state.step != 1))
        return;
    if (validation)
        snprintf(word, sizeof word, "  validation %.5f", *validation);
    int64_t left = t->recipe->steps - t->state.step;
    fprintf(stderr,
            "%sstep %lld/%lld  loss %.5f%s  %.1f ms/step  %s left  memory %s of %s planned%s",
            terminal ? "\r" : "", (long long)t->state.step, (long long)t->recipe->steps, loss, word,
            ms, span_text((double)left * ms / 1000), bytes_text(train_measured(t)),
            bytes_text(session_engine(t->session)->arena_bytes),
            terminal && !last && !validation ? "   " : "\n");
}

static int order_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double train_median(Trainer *t)       /* without the first steps of this call */
{
    int64_t n = t->n_times < MAX_TIMES ? t->n_times : MAX_TIMES,
            skip = t->n_times > 8 && t->n_times < MAX_TIMES ? 3 : 0;
    if (n <= skip)
        return 0;
    qsort(t->times_ms + skip, (size_t)(n - skip), sizeof *t->times_ms, order_floats);
    return (double)t->times_ms[skip + (n - skip) / 2];
}

/* A sample that cannot be read any more, or results that cannot be written, end a run; the steps
 * before stay. */
static Err train_rescue(Trainer *t, Err err)
{
    char why[512];
    snprintf(why, sizeof why, "%s", err_text());
    if (train_save(t))
        return fail(err, "%s", why);
    return fail(err, "%s; step %lld is saved: mend it and go on with --resume %s", why,
                (long long)t->state.step, text_word(t->held, t->options->out));
}

/* What is due after a step. Where it fails the state says how far it came, and is saved: the run
 * that goes on makes up for the rest before its first step, and so has the bits and the files of
 * one in which nothing failed. */
static Err train_after(Trainer *t, TrainResult *result)
{
    RunState *s = &t->state;
    if (s->due == DUE_LOOK) {
        bool looked;
        TRY(train_validate(t, s->loss, result, &looked));
        const double *validation = looked ? &result->validation_last : NULL;
        s->due = DUE_DRAW;
        TRY(train_log(t, s->loss, s->ms, validation));
        train_show(t, s->loss, validation, s->step == t->recipe->steps || train_stop);
    }
    if (s->due == DUE_DRAW && t->phases && phase_due(&t->recipe->sample, s->step))
        TRY(phases_sample(t->phases, s->step));
    s->due = DUE_NOTHING;
    return OK;
}

static Err train_loop(Trainer *t, TrainResult *result)
{
    int64_t saved = t->state.due ? -1 : t->state.step;
    Err     err = OK;
    double  loss = 0;
    if (t->state.due) {
        train_rates(t, t->state.step - 1);           /* for its line of the log */
        err = session_read(t->session, t->graph.train.progress.id, t->progress);
        err = err ? err : train_after(t, result);
    }
    while (!err && t->state.step < t->recipe->steps && !train_stop) {
        double start = clock_now();
        err = train_step(t, &loss);
        double ms = (clock_now() - start) * 1000;
        if (err)
            break;
        if (!result->steps++)
            result->loss_first = loss;
        result->loss_last = loss;
        t->times_ms[t->n_times++ % MAX_TIMES] = (float)ms;
        t->state.due = DUE_LOOK;
        t->state.loss = loss;
        t->state.ms = ms;
        err = train_after(t, result);
        if (!err && t->saver && phase_due(&t->recipe->save, t->state.step)) {
            err = train_save(t);
            saved = t->state.step;
        }
    }
    if (err && !t->begun && t->saver && saved != t->state.step)
        return train_rescue(t, err);
    /* A new run of no steps keeps its start: weights that were given can be sampled, and a run
     * that was stopped before its first step can go on. */
    bool start = !t->options->resume && !t->state.step;
    if (!err && t->saver && (start || saved != t->state.step))
        err = train_save(t);
    return err ? err : log_flush(&t->log);
}

static Err train_phases(Pool *pool, Trainer *t)
{
    const TrainOptions *o = t->options;
    bool                sample = t->recipe->sample.every > 0;
    if (o->given || (!sample && !t->recipe->validate.every))
        return OK;
    if (sample && !o->out && !o->quiet)
        fprintf(stderr, "nothing is sampled: without --out RUN there is nowhere to put it\n");
    return phases_open(pool, t->session, t->recipe, &t->graph, o->out, o->quiet, &t->phases);
}

/* The plan that was asked for, that of the run which goes on, or a new one. */
static Err train_plan(Pool *pool, Trainer *t, const Device *device)
{
    const TrainOptions *o = t->options;
    const char         *path = o->plan;
    bool                given = o->given != NULL;
    if (!path && o->resume && !o->budget_bytes) {
        path = pool_print(pool, "%s/plan.json", o->out);
        path = file_exists(path) ? path : NULL;
    }
    if (!path)
        return fit_run(pool, t->asked, device,
                       &(FitOptions){ .budget_bytes = o->budget_bytes,
                                      .allow = o->allow,
                                      .given_noise = given },
                       &t->fit);
    return fit_read(pool, path, t->asked, device, given, &t->fit);
}

static Err train_whole(Pool *pool, Trainer *t, const Device *device, TrainResult *result)
{
    const TrainOptions *options = t->options;
    const Recipe       *recipe;
    TRY(train_try(pool, options));
    TRY(train_plan(pool, t, device));
    const Engine *engine = t->fit.engine;
    recipe = t->recipe = t->fit.recipe;
    t->graph = t->fit.graph;
    TRY(session_new(pool, engine, &t->session));
    TRY((options->resume ? session_init_state : session_init)(t->session, (uint64_t)recipe->seed));
    TRY(feeds_new(pool, t->session, PHASE_MICRO, &t->feeds));
    TRY(train_open(pool, t));
    TRY(train_phases(pool, t));
    TRY(session_prepare(t->session));
    t->moves_early = train_moves_early(&t->graph);
    TRY(session_read(t->session, t->graph.train.counters.id, t->counters));
    TRY(session_read(t->session, t->graph.train.rates.id, t->rates));
    if (!options->quiet)
        fprintf(stderr, "plan: %s%s%s, predicted %.1f ms/step by %s\n",
                bytes_text(engine->arena_bytes), engine->host_bytes ? " and on the host " : "",
                engine->host_bytes ? bytes_text(engine->host_bytes) : "",
                engine_step_ns(engine, recipe->accumulate) * 1e-6, engine_time_source(engine));

    struct sigaction before[N_SIGNALS];
    signals_take(before);
    Err err = train_loop(t, result);
    signals_give_back(before);

    result->step = t->state.step;
    result->step_ms = train_median(t);
    result->planned_bytes = engine->arena_bytes;
    result->recomputed = engine->recomputed;
    result->batch = recipe->batch;
    result->accumulate = recipe->accumulate;
    result->slowdown = t->fit.default_ns > 0 ? t->fit.step_ns / t->fit.default_ns : 1;
    result->predicted_ms = engine_step_ns(engine, recipe->accumulate) * 1e-6;
    result->time_source = engine_time_source(engine);
    result->runtime_bytes = device_runtime_bytes(device, engine->arena_bytes);
    result->stated_bytes = device->runtime_bytes;
    result->loader_bytes = t->feeds.bytes + (t->phases ? phases_bytes(t->phases) : 0);
    result->interrupted = train_stop && t->state.step < recipe->steps;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        int64_t measured = session_measured_bytes(t->session, (Phase)phase);
        result->phase_planned[phase] = session_planned_bytes(t->session, (Phase)phase);
        result->phase_measured[phase] = measured;
        if (measured && measured != session_planned_bytes(t->session, (Phase)phase) && !err)
            err = fail(E_PLAN,
                       "phase %s used %lld bytes where %lld were planned (this is a bug; please "
                       "report it)",
                       phase_name((Phase)phase), (long long)measured,
                       (long long)session_planned_bytes(t->session, (Phase)phase));
        if (measured > result->measured_bytes)
            result->measured_bytes = measured;
    }
    result->host_planned_bytes = engine->host_bytes;
    result->host_measured_bytes = session_measured_host_bytes(t->session);
    if (!err && result->steps && result->host_measured_bytes != engine->host_bytes)
        err = fail(E_PLAN,
                   "%lld bytes were used on the host where %lld were planned (this is a bug; "
                   "please report it)",
                   (long long)result->host_measured_bytes, (long long)engine->host_bytes);
    return err;
}

Err train_run(Pool *pool, const Recipe *recipe, const Device *device, const TrainOptions *options,
              TrainResult *result)
{
    Trainer *t = NEW(pool, Trainer);
    *t = (Trainer){ .asked = recipe, .options = options, .held = pool_new(pool, "held") };
    *result = (TrainResult){ 0 };
    /* a reader of the progress that has gone is no reason to stop */
    struct sigaction ignore = { .sa_handler = SIG_IGN }, before;
    sigaction(SIGPIPE, &ignore, &before);
    Err err = train_whole(pool, t, device, result);
    sigaction(SIGPIPE, &before, NULL);
    pool_free(t->held);  /* the folder is free again, whatever the caller's pool does */
    return err;
}
