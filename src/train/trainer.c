/* trainer.c -- the training loop. */
#include "train/trainer.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/int_math.h"
#include "base/terminal.h"
#include "base/text.h"
#include "ops/optimizer/optim.h"
#include "train/checkpoint.h"
#include "train/dump.h"
#include "train/events.h"
#include "train/feeds.h"
#include "fit/fit.h"
#include "train/log.h"
#include "train/phases.h"
#include "train/random_file.h"
#include "train/rank_run.h"
#include "train/ranks.h"
#include "train/run_file.h"
#include "train/signals.h"
#include "train/weights.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_TIMES = 512, /* step times kept, for the median */
    PACE_STEPS = 50  /* newest step times used to predict the time left */
};
/* An fp16 run ends after so many bad steps in a row. A single one may be a batch with numbers
 * beyond 65504: its update is skipped, and the next may succeed. */
enum { FP16_PATIENCE = 8 };

typedef struct Trainer {
    const Recipe       *asked;  /* the recipe as given */
    const Recipe       *recipe; /* as run: a plan may change levers */
    const TrainOptions *options;
    Comm               *comm;
    int64_t             rank, ranks;
    RankCheck          *check;
    bool                stop, save; /* several ranks: signals of any, as all know of them */
    FitResult           fit;
    TrainingGraph       graph;
    Session            *session;
    Feeds               feeds;
    Phases             *phases;
    Dump               *dump; /* of the next step; NULL: none is asked for, or it is written */
    Saver              *saver;
    Pool               *held; /* holds the lock on the run's folder */
    RunLog              log;
    Events              events;
    int64_t             memory_bytes; /* measured so far, as logged */
    RunState            state;
    int64_t             saved;       /* step of the last whole checkpoint; -1: none */
    double              saved_at;    /* clock_now() of the last attempt, or of the first step */
    bool                is_best;     /* the last step has the lowest validation loss so far */
    int64_t             best_before; /* the best step that is on the disk, if is_best; 0: none */
    bool                begun; /* a step has begun: values of the checkpoint may have changed */
    int32_t             counters[COUNTER_WORDS]; /* for the next step */
    float               rates[RATE_GROUPS + 2];
    float               progress[PROGRESS_WORDS]; /* after the last step */
    bool                changes_early;            /* a micro-batch already changes saved state */
    int                 bad_steps;                /* in a row */
    int64_t             ahead; /* number + 1 of the micro-batch already staged; 0: none */
    float               times_ms[MAX_TIMES];
    int64_t             n_times;
} Trainer;

static Err train_save(Trainer *t)
{
    char why[512];
    bool was_best = t->is_best;
    t->saved_at = clock_now();
    t->is_best = false;
    /* first: the log must not end before the checkpoint */
    Err log_err = log_flush(&t->log, true);
    log_err = log_err ? log_err : events_flush(&t->events, true);
    snprintf(why, sizeof why, "%s", log_err ? err_text() : "");
    Err err = saver_save(t->saver, &t->state);
    if (err && was_best) /* the one before stays the best; the next validation may take its place */
        t->state.best_step = t->best_before;
    TRY(err);
    t->saved = t->state.step;
    progress_clear();
    if (saver_note(t->saver) && !t->options->quiet)
        fprintf(stderr, "an old checkpoint stays: %s\n", saver_note(t->saver));
    return log_err ? fail(log_err, "%s", why) : OK;
}

/* A save between steps. What cannot be written now, on a full disk for example, is tried again at
 * the next save; the steps in between are worth more than an early end. */
static Err train_save_between(Trainer *t)
{
    Err err = train_save(t);
    if (err != E_IO)
        return err;
    if (!t->rank)
        fprintf(stderr, "%s%s; the run goes on and tries again at the next save\n",
                t->saved == t->state.step ? "" : "not saved: ", err_text());
    return OK;
}

/* The save that ends the run. */
static Err train_save_last(Trainer *t)
{
    char why[512];
    Err  err = train_save(t);
    if (!err)
        return OK;
    snprintf(why, sizeof why, "%s", err_text());
    if (t->saved < 0)
        return fail(err, "%s; there is no whole checkpoint", why);
    return fail(err, "%s; the last whole checkpoint is that of step %lld", why,
                (long long)t->saved);
}

/* Checks that the folder holds no run yet. */
static Err train_check_new(Pool *pool, const char *out)
{
    int64_t step;
    if (folder_exists(out) && !checkpoint_newest(pool, out, &step))
        return fail(E_USAGE,
                    "%s already holds a run at step %lld; continue it with --resume %s, or name "
                    "another folder",
                    out, (long long)step, text_word(pool, out));
    return OK;
}

/* Checks, before the long planning, what would fail only after it. Changes nothing. */
static Err train_check_out(Pool *pool, const Trainer *t)
{
    const TrainOptions *o = t->options;
    int64_t             step;
    if (!o->out)
        return OK;
    if (o->resume)
        return checkpoint_newest(pool, o->out, &step);
    if (t->rank)
        return OK; /* rank 0 writes */
    TRY(folder_try(o->out));
    return train_check_new(pool, o->out);
}

/* What the weights are before the first step. Frozen weights that are random stay so. */
static void train_say_weights(Pool *pool, const Trainer *t)
{
    const Graph    *graph = t->graph.graph;
    const ModelDef *model = t->recipe->model;
    int64_t         all = 0, frozen = 0;
    const char     *warning = model->warning ? model->warning(pool, t->recipe->config) : NULL;
    for (int32_t i = 0; i < graph->n_params; i++) {
        int64_t n = shape_count(graph->params[i].disk);
        all += n;
        frozen += graph->params[i].frozen && graph->params[i].init.kind != INIT_CUSTOM ? n : 0;
    }
    if (t->options->init)
        print_sentence(stderr, "weights: from %s", t->options->init);
    else if (!model->others) /* a model's file has its own weights */
        print_sentence(stderr, "weights: all %s parameters random, seed %lld", count_text(all),
                       (long long)t->recipe->seed);
    if (frozen && !t->options->init && !model->others)
        print_sentence(stderr,
                       "warning: %s parameters are frozen and random, so they stay random: give "
                       "pretrained weights with --init FILE --init-partial",
                       count_text(frozen));
    if (warning)
        print_sentence(stderr, "warning: %s", warning);
}

/* Notes the options of this run and its texts' encoder. */
static Err train_note_start(const Trainer *t)
{
    const TrainOptions *o = t->options;
    RunFile             file = o->started ? *o->started : (RunFile){ 0 };
    if (t->feeds.source) {
        file.encoder = t->feeds.source->encoder;
        file.text_hash = t->feeds.source->text_hash;
    }
    return run_file_write(o->out, &file);
}

/* A new run of no steps only writes its starting weights: it reads no data. */
static bool train_reads_data(const Trainer *t) { return t->recipe->steps || t->options->resume; }

static Err train_open_data(Pool *pool, Trainer *t)
{
    const TrainOptions *o = t->options;
    if (!train_reads_data(t))
        return OK;
    if (o->given) {
        int64_t rows, accumulate = t->recipe->accumulate, needed = t->recipe->steps * accumulate;
        TRY(feeds_from_file(pool, &t->feeds, o->given, &rows));
        if (rows < needed)
            return fail(E_USAGE,
                        "%s has inputs for %lld micro-batches, but %lld steps need %lld; ask for "
                        "--steps %lld",
                        o->given, (long long)rows, (long long)t->recipe->steps, (long long)needed,
                        (long long)(rows / accumulate));
    } else {
        t->feeds.limit = o->loader_bytes;
        t->feeds.cache = o->cache;
        t->feeds.quiet = o->quiet;
        TRY(feeds_open(pool, &t->feeds, t->recipe, NULL, NULL));
        if (t->feeds.source && t->feeds.source->note && !o->quiet)
            fprintf(stderr, "data: %s\n", t->feeds.source->note);
        else if (t->feeds.source && !o->quiet)
            fprintf(stderr, "data: %s, %s samples%s%s%s%s%s\n", t->feeds.source->name,
                    count_text(t->feeds.source->n_samples),
                    t->recipe->data.path ? " from " : ", generated by the program",
                    t->recipe->data.path ? t->recipe->data.path : "",
                    t->feeds.held ? pool_print(pool, ", %s held out", count_text(t->feeds.held))
                                  : "",
                    t->feeds.source->detail ? ": " : "",
                    t->feeds.source->detail ? t->feeds.source->detail : "");
        if (t->feeds.source && t->feeds.source->unread && !o->quiet)
            fprintf(stderr, "data: %s\n", t->feeds.source->unread);
    }
    return OK;
}

/* The file that --init names: a run means its newest checkpoint. */
static Err init_file(Pool *pool, const char *init, const char **path)
{
    int64_t step;
    *path = init;
    if (!folder_exists(init))
        return checkpoint_intact(pool, init);
    if (file_exists(pool_print(pool, "%s/_METADATA", init)) ||
        file_exists(pool_print(pool, "%s/_CHECKPOINT_METADATA", init)))
        return fail(E_USAGE,
                    "%s is a checkpoint of Orbax, which is not read; in Python, "
                    "flax.serialization.to_bytes(tree) makes the bytes of a file that is",
                    init);
    if (!file_exists(pool_print(pool, "%s/recipe.yaml", init)))
        return fail(E_USAGE, "%s is a folder, and no run; name the file of weights in it", init);
    TRY(checkpoint_newest(pool, init, &step));
    return checkpoint_file(pool, init, &step, path);
}

static Err train_open(Pool *pool, Trainer *t)
{
    const TrainOptions *o = t->options;
    TRY(train_open_data(pool, t));
    if (o->init) {
        const ModelDef *model = t->recipe->model;
        const char     *note;
        OtherTensor    *others = NULL;
        int32_t         n = 0;
        if (model->others)
            TRY(model->others(pool, t->recipe->config, &others, &n));
        WeightsFrom from = { .partial = o->init_partial,
                             .average = o->init_average,
                             .others = others,
                             .n_others = n,
                             .unread = model->unread };
        TRY(init_file(pool, o->init, &from.path));
        TRY(weights_load_from(pool, t->session, &from, &note));
        if (note && !o->quiet)
            fprintf(stderr, "init: %s\n", note);
    }
    if (!o->quiet && !o->resume)
        train_say_weights(pool, t);
    int64_t samples = t->feeds.source ? t->feeds.source->n_samples : 0;
    t->state.seed = t->recipe->seed;
    double rates[2] = { t->recipe->optimizer.lr, t->recipe->optimizer.lr };
    if (t->graph.n_groups > 1)
        rates[0] = t->recipe->optimizer.slow_lr;
    t->state.plateau = plateau_start(t->recipe, rates, t->graph.n_groups);
    if (!o->out)
        return OK;
    if (!o->resume && !t->rank)
        TRY(folder_make(o->out));
    if (!t->rank)
        TRY(folder_lock(t->held, o->out));
    if (o->resume) {
        int64_t     step;
        const char *note;
        TRY(checkpoint_newest(pool, o->out, &step));
        TRY(checkpoint_load(pool, t->session, o->out, step, &t->state, &note));
        step = t->saved = t->state.step;
        if (note)
            fprintf(stderr, "resume: %s\n", note);
        if (t->state.samples && samples && t->state.samples != samples && !o->quiet)
            fprintf(stderr,
                    "data: %s samples now, %s at step %lld: the run continues differently "
                    "than it would have with those\n",
                    count_text(samples), count_text(t->state.samples), (long long)step);
        if (t->state.seed != t->recipe->seed)
            return fail(E_USAGE,
                        "%s was begun with seed %lld; with seed %lld it would not be the same run. "
                        "Leave out --seed, or start another run with --init",
                        o->out, (long long)t->state.seed, (long long)t->recipe->seed);
    } else if (!t->rank) {
        TRY(train_check_new(pool, o->out));
    }
    t->state.samples = samples;
    if (t->rank)
        return saver_new_follower(pool, t->session, &t->saver);
    TRY(saver_new(pool, t->session, o->out, t->recipe->save.keep, &t->saver));
    if (t->state.step >= t->recipe->steps && o->resume && !t->state.due)
        return OK; /* no step to do: change no file */
    TRY(recipe_write(t->asked, pool_print(pool, "%s/recipe.yaml", o->out)));
    TRY(train_note_start(t));
    TRY(fit_write(pool_print(pool, "%s/plan.json", o->out), t->asked, &t->fit));
    /* a step that was not validated yet has no log entry yet */
    int64_t logged = t->state.step - (t->state.due == DUE_VALIDATE);
    TRY(log_open(pool, &t->log, o->out, o->resume ? logged : -1));
    return events_open(pool, &t->events, o->out, o->resume ? logged : -1,
                       t->state.due == DUE_NOTHING);
}

/* Batch-norm statistics and carried states change with every micro-batch, all else only in the
 * update. */
static bool train_changes_early(const TrainingGraph *g)
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

/* Stages the first micro-batch of the next step while a GPU runs this one. An error here is
 * ignored: that step fails with it when it loads the micro-batch again. */
static void train_feed_ahead(Trainer *t)
{
    const Recipe *recipe = t->recipe;
    int64_t       micro = recipe->accumulate + t->rank,
            number = t->state.step * recipe->accumulate + micro;
    if (!session_engine(t->session)->device->api || t->state.step + 1 >= recipe->steps)
        return;
    if (!feeds_fill(&t->feeds, number, t->state.drawn + micro * recipe->batch) &&
        !session_stage(t->session, PHASE_MICRO))
        t->ahead = number + 1;
}

/* In fp16, a gradient overflow is not an error while the loss scale can still be lowered. */
static bool train_is_bad(const Trainer *t, double loss)
{
    bool lost = t->progress[PROGRESS_FINITE] <= 0;
    return !isfinite(loss) ||
           (lost && (recipe_type(t->recipe) != F16 || t->progress[PROGRESS_SCALE] <= 1));
}

/* The weights are unchanged. Runs the last micro-batch again to find the first tensor that is not
 * finite. */
static Err train_not_finite(Trainer *t, double loss)
{
    bool        half = recipe_type(t->recipe) == F16;
    const char *what = isfinite(loss) ? "gradient" : "loss", *in_a_row = "";
    char        count[32];
    if (half) {
        snprintf(count, sizeof count, ", the %dth in a row", FP16_PATIENCE);
        in_a_row = count;
    }
    t->ahead = 0;
    /* The update changed nothing: what was good before the step can be saved, unless statistics or
     * carried states took up numbers that are not finite. */
    t->begun = t->changes_early && t->saver && !saver_finite(t->saver);
    TRY(train_feed(t, t->recipe->accumulate - t->ranks + t->rank));
    const char *where = session_first_nonfinite(t->session, PHASE_MICRO);
    return fail(E_NUMBER,
                "the %s is not finite at step %lld%s; the first tensor that is not is %s. The "
                "weights are as they were before this step; a lower learning rate or clipping "
                "usually helps%s",
                what, (long long)t->state.step + 1, in_a_row,
                where            ? where
                : isfinite(loss) ? "the gradient's norm, of which no single number is too large"
                                 : "the loss itself",
                half ? ", or bf16, which holds larger numbers than fp16" : "");
}

/* Sets the learning rates and the EMA's decay for step number `step`. */
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
    TRY(train_feed(t, t->rank));
    t->begun = t->changes_early;
    TRY(session_write(t->session, g->rates.id, t->rates));
    for (int64_t micro = t->rank; micro < recipe->accumulate; micro += t->ranks) {
        counters[COUNTER_MICRO] = (int32_t)micro;
        TRY(session_write(t->session, g->counters.id, counters));
        if (micro != t->rank)
            TRY(train_feed(t, micro));
        TRY(session_run(t->session, PHASE_MICRO));
    }
    if (t->dump)
        TRY(dump_outputs(t->dump));
    t->begun = true;
    TRY(session_run(t->session, PHASE_UPDATE)); /* changes nothing if the step is not finite */
    train_feed_ahead(t);
    TRY(session_read(t->session, g->loss.id, &loss_now));
    TRY(session_read(t->session, g->progress.id, t->progress));
    *loss = (double)loss_now;
    if (t->dump)
        TRY(dump_write(t->dump, t->options->dump, loss_now));
    t->dump = NULL;
    t->bad_steps = train_is_bad(t, *loss) ? t->bad_steps + 1 : 0;
    if (t->bad_steps >= (recipe_type(recipe) == F16 ? FP16_PATIENCE : 1))
        return train_not_finite(t, *loss);
    t->state.step++;
    t->state.drawn += recipe->accumulate * recipe->batch;
    t->begun = false; /* the step is complete and can be saved */
    return OK;
}

/* Runs validation if it is due, and updates the schedule. Comes before the step's log entry. */
static Err train_validate(Trainer *t, double loss, TrainResult *result, bool *done)
{
    const ScheduleConfig *schedule = &t->recipe->schedule;
    *done = t->phases && phase_due(&t->recipe->validate, t->state.step);
    if (*done) {
        TRY(phases_validate(t->phases, &result->validation_last));
        result->validations++;
        if (t->recipe->save.best &&
            (!t->state.best_step || result->validation_last < t->state.best_loss)) {
            t->best_before = t->is_best ? t->best_before : t->state.best_step;
            t->state.best_step = t->state.step;
            t->state.best_loss = result->validation_last;
            t->is_best = true;
        }
    }
    if (t->state.plateau.on && schedule->watch == WATCH_LOSS)
        plateau_step(&t->state.plateau, schedule, loss);
    else if (t->state.plateau.on && *done)
        plateau_look(&t->state.plateau, schedule, result->validation_last);
    return OK;
}

static int64_t train_measured(const Trainer *t)
{
    int64_t max = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        if (session_measured_bytes(t->session, (Phase)phase) > max)
            max = session_measured_bytes(t->session, (Phase)phase);
    return max;
}

static void train_log(Trainer *t, double loss, double ms, const double *validation)
{
    int64_t memory = train_measured(t);
    LogLine line = { .step = t->state.step,
                     .loss = loss,
                     .lr = (double)t->rates[RATE_GROUPS + t->graph.n_groups - 1],
                     .grad_norm = t->graph.train.measures_norm ? (double)t->progress[PROGRESS_NORM]
                                                               : NAN,
                     .ms = ms,
                     .validation = validation,
                     .memory_bytes = memory > t->memory_bytes ? memory : 0 };
    Scalar  scalars[5] = { { "loss", loss }, { "learning_rate", line.lr }, { "step_ms", ms } };
    int     n = 3;
    if (!t->log.path)
        return;
    t->memory_bytes = memory > t->memory_bytes ? memory : t->memory_bytes;
    log_add(&t->log, &line);
    if (t->graph.train.measures_norm)
        scalars[n++] = (Scalar){ "gradient_norm", line.grad_norm };
    if (validation)
        scalars[n++] = (Scalar){ "validation/loss", *validation };
    events_scalars(&t->events, t->state.step, scalars, n);
}

/* What TensorBoard lacks of the samples is only said: the files are there. */
static void train_sampled(void *arg, const char *path)
{
    Trainer *t = arg;
    if (!events_sample(&t->events, t->state.step, path) || t->options->quiet)
        return;
    progress_clear();
    fprintf(stderr, "not shown in TensorBoard: %s\n", err_text());
}

/* The mean time of the newest steps, without the very first, which includes page faults. */
static double train_pace(const Trainer *t)
{
    int64_t n = t->n_times > PACE_STEPS ? PACE_STEPS : t->n_times > 1 ? t->n_times - 1 : t->n_times;
    double  sum = 0;
    for (int64_t i = t->n_times - n; i < t->n_times; i++)
        sum += (double)t->times_ms[i % MAX_TIMES];
    return n ? sum / (double)n : t->state.ms;
}

enum { SHOWN_MAX = 255 };

typedef struct ShownStep { /* one step as a line; parts that do not fit are left out */
    char text[SHOWN_MAX + 1];
    int  n, room;
} ShownStep;

__attribute__((format(printf, 2, 3))) static bool shown_add(ShownStep *line, const char *fmt, ...)
{
    char    part[64];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(part, sizeof part, fmt, args);
    va_end(args);
    if (n >= (int)sizeof part || line->n + n > line->room || line->n + n > SHOWN_MAX)
        return false;
    strcpy(line->text + line->n, part);
    line->n += n;
    return true;
}

static void train_show(const Trainer *t, double loss, const double *validation, bool last)
{
    bool        terminal = terminal_draws();
    ShownStep   line = { .room = terminal ? terminal_width() - 1 : SHOWN_MAX };
    double      ms = train_pace(t);
    int64_t     left = t->recipe->steps - t->state.step;
    const char *used = bytes_text(train_measured(t)),
               *planned = bytes_text(session_engine(t->session)->arena_bytes);
    if (t->options->quiet ||
        (!terminal && !last && !validation && t->state.step % 50 && t->state.step != 1))
        return;
    shown_add(&line, "step %lld/%lld", (long long)t->state.step, (long long)t->recipe->steps);
    shown_add(&line, "  loss %.5f", loss);
    if (validation)
        shown_add(&line, "  validation %.5f", *validation);
    shown_add(&line, "  %.1f ms/step", ms);
    shown_add(&line, "  %s left", span_text((double)left * ms / 1000));
    if (!shown_add(&line, "  memory %s of %s planned", used, planned) &&
        !shown_add(&line, "  %s of %s", used, planned))
        shown_add(&line, "  %s", planned);
    if (!terminal)
        fprintf(stderr, "%s\n", line.text);
    else
        progress_show("%s", line.text);
    if (last || validation)
        progress_end();
}

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double train_median(Trainer *t) /* without the first steps of this call */
{
    int64_t n = t->n_times < MAX_TIMES ? t->n_times : MAX_TIMES,
            skip = t->n_times > 8 && t->n_times < MAX_TIMES ? 3 : 0;
    if (n <= skip)
        return 0;
    qsort(t->times_ms + skip, (size_t)(n - skip), sizeof *t->times_ms, compare_floats);
    return (double)t->times_ms[skip + (n - skip) / 2];
}

/* If a sample can no longer be read or a result cannot be written, the run ends. Its steps so far
 * are saved. */
static Err train_save_failed(Trainer *t, Err err)
{
    char why[512];
    snprintf(why, sizeof why, "%s", err_text());
    if (train_save(t) && t->saved != t->state.step)
        return t->saved < 0 ? fail(err, "%s", why)
                            : fail(err, "%s; the last whole checkpoint is that of step %lld", why,
                                   (long long)t->saved);
    return fail(err, "%s; step %lld is saved: correct this and continue with --resume %s", why,
                (long long)t->state.step, text_word(t->held, t->options->out));
}

static bool disk_is_full(void)
{
    int error = file_error();
    return error == ENOSPC || error == EDQUOT;
}

/* The run ends after this step: of several ranks, all at the same. */
static bool train_stopping(const Trainer *t)
{
    return comm_ranks(t->comm) == 1 ? signals_stop != 0 : t->stop;
}

/* Does what is due after a step. If it fails, the state records how far it came and is saved. The
 * resumed run does the rest before its first step, and so gives the same bits and files as a run in
 * which nothing failed. */
static Err train_after(Trainer *t, TrainResult *result)
{
    RunState *s = &t->state;
    if (s->due == DUE_VALIDATE) {
        bool validated;
        TRY(train_validate(t, s->loss, result, &validated));
        const double *validation = validated ? &result->validation_last : NULL;
        s->due = DUE_SAMPLE;
        train_log(t, s->loss, s->ms, validation);
        train_show(t, s->loss, validation, s->step == t->recipe->steps || train_stopping(t));
    }
    if (s->due == DUE_SAMPLE && t->phases && phase_due(&t->recipe->sample, s->step)) {
        file_error(); /* forgets earlier ones */
        Err err = phases_sample(t->phases, s->step);
        if (err == E_IO && disk_is_full()) {
            progress_clear();
            fprintf(stderr, "no samples of step %lld: %s; the run goes on\n", (long long)s->step,
                    err_text());
        } else if (err)
            return err;
    }
    s->due = DUE_NOTHING;
    return OK;
}

/* A signal cut validation or sampling short: the rest is due when the run is resumed. */
static bool train_was_stopped(const Trainer *t)
{
    return train_stopping(t) && t->phases && phases_stopped(t->phases);
}

/* By what this rank alone knows: its signals and its clock. */
static bool train_save_wanted(const Trainer *t)
{
    const EveryConfig *save = &t->recipe->save;
    return signals_save || (save->minutes > 0 && clock_now() - t->saved_at >= 60 * save->minutes);
}

static bool train_save_due(const Trainer *t)
{
    bool wanted = comm_ranks(t->comm) == 1 ? train_save_wanted(t) : t->save;
    return wanted || t->is_best || phase_due(&t->recipe->save, t->state.step);
}

static Err train_agree(Trainer *t)
{
    t->stop = signals_stop;
    t->save = train_save_wanted(t);
    comm_step(t->comm, t->state.step + 1);
    return ranks_signals(t->comm, &t->stop, &t->save);
}

static Err train_steps(Trainer *t, TrainResult *result)
{
    double loss = 0;
    t->saved_at = clock_now();
    TRY(train_agree(t));
    while (t->state.step < t->recipe->steps && !train_stopping(t)) {
        double start = clock_now();
        TRY(train_step(t, &loss));
        double ms = (clock_now() - start) * 1000;
        if (!result->steps++)
            result->loss_first = loss;
        result->loss_last = loss;
        t->times_ms[t->n_times++ % MAX_TIMES] = (float)ms;
        t->state.due = DUE_VALIDATE;
        t->state.loss = loss;
        t->state.ms = ms;
        TRY(train_after(t, result));
        TRY(ranks_check(t->check, t->state.step));
        TRY(train_agree(t));
        if (t->saver && train_save_due(t)) {
            signals_save = 0;
            TRY(train_save_between(t));
        }
    }
    return OK;
}

static Err train_loop(Trainer *t, TrainResult *result)
{
    bool was_due = t->state.due != DUE_NOTHING;
    Err  err = OK;
    if (was_due) {
        train_rates(t, t->state.step - 1); /* for its log entry */
        err = session_read(t->session, t->graph.train.progress.id, t->progress);
        err = err ? err : train_after(t, result);
    }
    err = err ? err : train_steps(t, result);
    if (err && train_was_stopped(t))
        err = OK;
    bool unsaved = t->saved != t->state.step || (was_due && !result->steps);
    if (err && err != E_NUMBER && comm_ranks(t->comm) > 1)
        return err; /* of this rank alone: the others are in the step and cannot save with it */
    if (err && !t->begun && t->saver && unsaved && t->state.step)
        return train_save_failed(t, err);
    /* A new run of no steps is saved too: its starting weights can be sampled, and a run that was
     * stopped before its first step can be resumed. */
    if (!err && t->saver && unsaved)
        err = train_save_last(t);
    err = err ? err : log_flush(&t->log, true);
    return err ? err : events_flush(&t->events, true);
}

static Err train_phases(Pool *pool, Trainer *t)
{
    const TrainOptions *o = t->options;
    bool                sample = t->recipe->sample.every > 0;
    if (o->given || !train_reads_data(t) || (!sample && !t->recipe->validate.every))
        return OK;
    if (sample && !o->out && !o->quiet)
        fprintf(stderr, "nothing is sampled: samples are written to RUN, and --out is none\n");
    int64_t left = o->loader_bytes ? int_max(o->loader_bytes - t->feeds.bytes, 1) : 0;
    TRY(phases_open(pool, t->session, t->recipe, &t->graph, o->out, o->cache, left, o->quiet,
                    &t->phases));
    phases_tell_files(t->phases, train_sampled, t);
    return OK;
}

/* After the phases, which need their memory, while prefetching only saves time. */
static Err train_prefetch(Pool *pool, Trainer *t)
{
    if (t->options->given || !train_reads_data(t))
        return OK;
    if (t->feeds.limit && t->phases)
        t->feeds.limit = int_max(t->feeds.limit - phases_bytes(t->phases), 1);
    return feeds_prefetch(pool, &t->feeds);
}

/* Uses the given plan, else that of the resumed run, else makes a new one. A run that was planned for
 * another number of ranks is planned again for these. */
static Err train_make_plan(Pool *pool, Trainer *t, const Device *device)
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
    if (!o->plan && fit_ranks(pool, path) != t->ranks)
        return fit_again(pool, path, t->asked, device, given, &t->fit);
    return fit_read(pool, path, t->asked, device, given, &t->fit);
}

static Err train_plan(Pool *pool, Trainer *t, const Device *device)
{
    const TrainOptions *o = t->options;
    Err                 err = OK;
    if (t->ranks > 1 && o->dump)
        return fail(E_USAGE, "--dump writes what one process computes; leave it out, or run it "
                             "with one rank");
    TRY(rank_recipe(pool, t->asked, t->comm, o->shard, o->bucket, &t->asked));
    if (!t->rank)
        err = train_make_plan(pool, t, device);
    return rank_share_plan(pool, t->comm, err, t->asked, device, o->given != NULL, &t->fit);
}

/* Everything that is read, planned and allocated before step 1. */
static Err train_prepare(Pool *pool, Trainer *t, const Device *device)
{
    const TrainOptions *options = t->options;
    const Recipe       *recipe;
    TRY(train_check_out(pool, t));
    TRY(train_plan(pool, t, device));
    recipe = t->recipe = t->fit.recipe;
    t->graph = t->fit.graph;
    TRY(session_new(pool, t->fit.engine, &t->session));
    TRY((options->resume ? session_init_state : session_init)(t->session, (uint64_t)recipe->seed));
    TRY(feeds_new(pool, t->session, PHASE_MICRO, &t->feeds));
    TRY(train_open(pool, t));
    TRY(train_phases(pool, t));
    if (options->dump)
        TRY(dump_new(pool, t->session, &t->dump));
    TRY(session_prepare(t->session));
    t->changes_early = train_changes_early(&t->graph);
    TRY(session_read(t->session, t->graph.train.counters.id, t->counters));
    TRY(session_read(t->session, t->graph.train.rates.id, t->rates));
    if (options->dump_random)
        TRY(random_file_write(recipe, options->dump_random));
    return ranks_check_new(pool, t->comm, t->session, options->check_ranks, &t->check);
}

static Err train_all(Pool *pool, Trainer *t, const Device *device, TrainResult *result)
{
    const TrainOptions *options = t->options;
    Err                 ready = train_prepare(pool, t, device);
    RankFacts           facts = { .recipe = t->asked,
                                  .device = device,
                                  .fit = &t->fit,
                                  .feeds = ready || !train_reads_data(t) ? NULL : &t->feeds };
    TRY(ranks_agree(pool, t->comm, &facts, ready));
    TRY(train_prefetch(pool, t));
    const Engine *engine = t->fit.engine;
    const Recipe *recipe = t->recipe;
    if (!options->quiet)
        fprintf(stderr, "plan: %s%s%s, predicted %.1f ms/step by %s\n",
                bytes_text(engine->arena_bytes), engine->host_bytes ? " and on the host " : "",
                engine->host_bytes ? bytes_text(engine->host_bytes) : "",
                engine_step_ns(engine, recipe_rounds(recipe)) * engine_pace(engine) * 1e-6,
                engine_time_source(engine));

    if (!options->quiet && options->out && t->log.path)
        fprintf(stderr, "curves and samples: plimsoll watch %s\n", text_word(pool, options->out));

    SignalsBefore before;
    signals_steps_begin(
        &before, options->quiet ? NULL
                 : options->out ? "\nstopping: this step is finished and saved; ^C again "
                                  "ends at once and keeps the last checkpoint\n"
                                : "\nstopping: this step is finished; ^C again ends at once\n");
    if (t->phases && comm_ranks(t->comm) == 1)
        phases_stop_by(t->phases, &signals_stop);
    Err err = train_loop(t, result);
    signals_steps_end(&before);

    result->step = t->state.step;
    result->step_ms = train_median(t);
    result->planned_bytes = engine->arena_bytes;
    result->recomputed = engine->recomputed;
    result->batch = recipe->batch;
    result->accumulate = recipe->accumulate;
    result->slowdown = t->fit.default_ns > 0 ? t->fit.step_ns / t->fit.default_ns : 1;
    result->predicted_ms = engine_step_ns(engine, recipe_rounds(recipe)) * engine_pace(engine) *
                           1e-6;
    result->time_source = engine_time_source(engine);
    result->runtime_bytes = device_runtime_bytes(device, engine->arena_bytes);
    result->stated_bytes = device->runtime_bytes;
    result->loader_limit = options->loader_bytes;
    result->loader_bytes = t->feeds.bytes + (t->phases ? phases_bytes(t->phases) : 0);
    result->interrupted = train_stopping(t) && (t->state.step < recipe->steps || t->state.due);
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
    *t = (Trainer){ .asked = recipe,
                    .options = options,
                    .comm = options->comm,
                    .held = pool_new(pool, "held"),
                    .saved = -1 };
    if (!t->comm)
        TRY(comm_one(pool, &t->comm));
    t->rank = comm_rank(t->comm);
    t->ranks = comm_ranks(t->comm);
    *result = (TrainResult){ 0 };
    SignalsBefore before;
    signals_begin(&before);
    Err err = train_all(pool, t, device, result);
    signals_end(&before);
    pool_free(t->held); /* releases the folder now, not with the caller's pool */
    return err;
}
