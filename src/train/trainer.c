/* trainer.c -- the training loop: steps, and what is due after each. */
#include "train/trainer_int.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/terminal.h"
#include "base/text.h"
#include "comm/agree.h"
#include "comm/queue.h"
#include "train/signals.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

/* An fp16 run ends after so many bad steps in a row. A single one may be a batch with numbers
 * beyond 65504: its update is skipped, and the next may succeed. */
enum { FP16_PATIENCE = 8 };

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
    int32_t     place;
    const char *where = session_first_nonfinite(t->session, PHASE_MICRO, &place);
    TRY(ranks_first_found(t->held, t->comm, place, &where));
    return fail(E_NUMBER,
                "the %s is not finite at step %lld%s; the first tensor that is not is %s. The "
                "weights are as they were before this step; a lower learning rate or clipping "
                "usually helps%s",
                what, (long long)t->state.step + 1, in_a_row,
                where            ? where
                : isfinite(loss) ? "the gradient norm, although no single gradient is too large"
                                 : "the loss itself",
                half ? ", or bf16, which has a larger range than fp16" : "");
}

/* Sets the learning rates and the EMA's decay for step number `step`. */
void train_rates(Trainer *t, int64_t step)
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

static bool disk_is_full(void)
{
    int error = file_error();
    return error == ENOSPC || error == EDQUOT;
}

/* The run ends after this step: of several ranks, all at the same. */
bool train_stopping(const Trainer *t)
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
            print_sentence(stderr, "no samples of step %lld: %s; the run continues",
                           (long long)s->step, err_text());
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
        double start = clock_now(), waited = comm_waited(t->comm);
        TRY(train_step(t, &loss));
        double ms = (clock_now() - start) * 1000;
        t->waited_ms += result->steps ? (comm_waited(t->comm) - waited) * 1000 : 0;
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
        err = train_save_failed(t, err);
    if (err)
        return comm_ranks(t->comm) > 1 ? comm_refuse(t->comm, err, "%s", err_text()) : err;
    /* A new run of no steps is saved too: its starting weights can be sampled, and a run that was
     * stopped before its first step can be resumed. */
    if (t->saver && unsaved)
        err = train_save_last(t);
    err = err ? err : log_flush(&t->log, true);
    return err ? err : events_flush(&t->events, true);
}

static double train_predicted_ms(const Trainer *t)
{
    const Engine *engine = t->fit.engine;
    return engine_step_ns(engine, recipe_rounds(t->recipe)) * engine_pace(engine) * 1e-6;
}

static void train_say_plan(Pool *pool, const Trainer *t)
{
    const Engine       *engine = t->fit.engine;
    const TrainOptions *options = t->options;
    if (options->quiet)
        return;
    print_sentence(stderr, "plan: %s%s%s, predicted %.1f ms/step by %s",
                   bytes_text(engine->arena_bytes), engine->host_bytes ? " and on the host " : "",
                   engine->host_bytes ? bytes_text(engine->host_bytes) : "", train_predicted_ms(t),
                   engine_time_source(engine));
    if (options->out && t->log.path)
        print_sentence(stderr, "curves and samples: plimsoll watch %s",
                       text_word(pool, options->out));
}

static Err train_under_signals(Trainer *t, TrainResult *result)
{
    const TrainOptions *options = t->options;
    SignalsBefore       before;
    signals_steps_begin(&before,
                        options->quiet ? NULL
                        : options->out
                            ? "\nstopping: this step is finished and saved; ^C again "
                              "ends at once and keeps the last checkpoint\n"
                            : "\nstopping: this step is finished; ^C again ends at once\n",
                        t->ranks > 1 ? LAUNCHER_SECONDS : 0);
    if (t->phases && comm_ranks(t->comm) == 1)
        phases_stop_by(t->phases, &signals_stop);
    Err err = train_loop(t, result);
    signals_steps_end(&before);
    return err;
}

static void train_result(Trainer *t, const Device *device, TrainResult *result)
{
    const Engine *engine = t->fit.engine;
    const Recipe *recipe = t->recipe;
    result->step = t->state.step;
    result->step_ms = train_median(t);
    result->planned_bytes = engine->arena_bytes;
    result->recomputed = engine->recomputed;
    result->batch = recipe->batch;
    result->accumulate = recipe->accumulate;
    result->slowdown = t->fit.default_ns > 0 ? t->fit.step_ns / t->fit.default_ns : 1;
    result->predicted_ms = train_predicted_ms(t);
    result->time_source = engine_time_source(engine);
    result->ranks = t->ranks;
    result->moving = engine_moving(engine, recipe_rounds(recipe));
    result->by = comm_queue_text(t->comm);
    result->waited_ms = result->steps > 1 ? t->waited_ms / (double)(result->steps - 1) : 0;
    result->runtime_bytes = device_runtime_bytes(device, engine->arena_bytes);
    result->stated_bytes = device->runtime_bytes;
    result->loader_limit = t->options->loader_bytes;
    result->loader_bytes = t->feeds.bytes + (t->phases ? phases_bytes(t->phases) : 0);
    result->interrupted = train_stopping(t) && (t->state.step < recipe->steps || t->state.due);
}

/* What was measured of each phase that ran, which must be what was planned. err: of the run so
 * far. */
static Err train_result_bytes(const Trainer *t, Err err, TrainResult *result)
{
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        int64_t measured = session_measured_bytes(t->session, (Phase)phase);
        int64_t planned = session_planned_bytes(t->session, (Phase)phase);
        result->phase_planned[phase] = planned;
        result->phase_measured[phase] = measured;
        if (measured && measured != planned && !err)
            err = fail(E_PLAN,
                       "phase %s used %lld bytes where %lld were planned (this is a bug; please "
                       "report it)",
                       phase_name((Phase)phase), (long long)measured, (long long)planned);
        if (measured > result->measured_bytes)
            result->measured_bytes = measured;
    }
    return err;
}

static Err train_result_host(const Trainer *t, Err err, TrainResult *result)
{
    int64_t planned = t->fit.engine->host_bytes;
    result->host_planned_bytes = planned;
    result->host_measured_bytes = session_measured_host_bytes(t->session);
    if (!err && result->steps && result->host_measured_bytes != planned)
        err = fail(E_PLAN,
                   "%lld bytes were used on the host where %lld were planned (this is a bug; "
                   "please report it)",
                   (long long)result->host_measured_bytes, (long long)planned);
    return err;
}

static Err train_all(Pool *pool, Trainer *t, const Device *device, TrainResult *result)
{
    Err       ready = train_prepare(pool, t, device);
    RankFacts facts = { .recipe = t->asked,
                        .device = device,
                        .fit = &t->fit,
                        .feeds = ready || !train_reads_data(t) ? NULL : &t->feeds };
    TRY(ranks_agree(pool, t->comm, &facts, ready));
    TRY(ranks_check_start(t->check));
    TRY(train_prefetch(pool, t));
    train_say_plan(pool, t);
    Err err = train_under_signals(t, result);
    train_result(t, device, result);
    err = train_result_bytes(t, err, result);
    return train_result_host(t, err, result);
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
