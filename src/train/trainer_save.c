/* trainer_save.c -- when the training loop saves, and what it does if it cannot. */
#include "train/trainer_int.h"

#include "base/clock.h"
#include "base/terminal.h"
#include "base/text.h"
#include "train/signals.h"

#include <stdio.h>

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
        print_sentence(stderr, "an old checkpoint was not removed: %s", saver_note(t->saver));
    return log_err ? fail(log_err, "%s", why) : OK;
}

/* A save between steps. What cannot be written now, on a full disk for example, is tried again at
 * the next save; the steps in between are worth more than an early end. */
Err train_save_between(Trainer *t)
{
    Err err = train_save(t);
    if (err != E_IO)
        return err;
    if (!t->rank)
        print_sentence(stderr, "%s%s; the run continues and tries again at the next save",
                       t->saved == t->state.step ? "" : "not saved: ", err_text());
    return OK;
}

/* The save that ends the run. */
Err train_save_last(Trainer *t)
{
    char why[512];
    Err  err = train_save(t);
    if (!err)
        return OK;
    snprintf(why, sizeof why, "%s", err_text());
    if (t->saved < 0)
        return fail(err, "%s; there is no complete checkpoint", why);
    return fail(err, "%s; the last complete checkpoint is that of step %lld", why,
                (long long)t->saved);
}

/* If a sample can no longer be read or a result cannot be written, the run ends. Its steps so far
 * are saved. */
Err train_save_failed(Trainer *t, Err err)
{
    char why[512];
    snprintf(why, sizeof why, "%s", err_text());
    if (train_save(t) && t->saved != t->state.step)
        return t->saved < 0 ? fail(err, "%s", why)
                            : fail(err, "%s; the last complete checkpoint is that of step %lld",
                                   why, (long long)t->saved);
    return fail(err, "%s; step %lld is saved: correct this and continue with --resume %s", why,
                (long long)t->state.step, text_word(t->held, t->options->out));
}

/* By what this rank alone knows: its signals and its clock. */
bool train_save_wanted(const Trainer *t)
{
    const EveryConfig *save = &t->recipe->save;
    return signals_save || (save->minutes > 0 && clock_now() - t->saved_at >= 60 * save->minutes);
}

bool train_save_due(const Trainer *t)
{
    bool wanted = comm_ranks(t->comm) == 1 ? train_save_wanted(t) : t->save;
    return wanted || t->is_best || phase_due(&t->recipe->save, t->state.step);
}
