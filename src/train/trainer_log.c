/* trainer_log.c -- what the training loop writes down of each step: log, TensorBoard, progress. */
#include "train/trainer_int.h"

#include "base/terminal.h"
#include "base/text.h"
#include "train/measure.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PACE_STEPS = 50 }; /* newest step times used to predict the time left */

static int64_t train_measured(const Trainer *t)
{
    int64_t max = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        if (session_measured_bytes(t->session, (Phase)phase) > max)
            max = session_measured_bytes(t->session, (Phase)phase);
    return max;
}

void train_log(Trainer *t, double loss, double ms, const double *validation)
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
void train_sampled(void *arg, const char *path)
{
    Trainer *t = arg;
    if (!events_sample(&t->events, t->state.step, path) || t->options->quiet)
        return;
    progress_clear();
    print_sentence(stderr, "not shown in TensorBoard: %s", err_text());
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

void train_show(const Trainer *t, double loss, const double *validation, bool last)
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

double train_median(Trainer *t) /* without the first steps of this call */
{
    int64_t n = t->n_times < MAX_TIMES ? t->n_times : MAX_TIMES,
            skip = t->n_times > 8 && t->n_times < MAX_TIMES ? 3 : 0;
    if (n <= skip)
        return 0;
    return median_of(t->times_ms + skip, n - skip);
}
