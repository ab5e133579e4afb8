/* phases.c -- runs validation and sampling between training steps. */
#include "train/phases.h"

#include "base/file.h"
#include "base/int_math.h"
#include "base/text.h"
#include "train/rank_run.h"
#include "ops/optimizer/optim.h"
#include "train/drawing.h"
#include "train/feeds.h"

#include <stdio.h>

/* Validation draws its random numbers at a step number that training never uses. */
enum { VALIDATION_STEP = -1 };

struct Phases {
    const Recipe        *recipe;
    const TrainingGraph *graph;
    Session             *session;
    Feeds                held;
    Drawing             *drawing; /* NULL: no sampling */
    const char          *folder;
    Comm                *comm;   /* the ranks that share the work; NULL: there is one */
    float               *losses; /* of validation: by round and rank */
    int32_t              counters[COUNTER_WORDS];

    const volatile sig_atomic_t *stop; /* NULL: nothing stops them */
    bool                         stopped;
};

/* Removes incomplete files: a run that was killed while it sampled may have left one in any of the
 * folders. */
static void phases_tidy(Pool *pool, const char *folder)
{
    Pool  *work = pool_new(pool, "tidy");
    char **names;
    int    n;
    if (folder_exists(folder) && !folder_list(work, folder, &names, &n))
        for (int i = 0; i < n; i++)
            folder_tidy(pool_print(work, "%s/%s", folder, names[i]));
    pool_free(work);
}

/* Each rank validates every so-many-th batch. All run the phase as often, for it may gather. */
static int64_t phases_rounds(const Phases *p)
{
    return ceil_div(recipe_validation(p->recipe).batches, rank_count(p->comm));
}

Err phases_open(Pool *pool, Session *session, const Recipe *recipe, const TrainingGraph *graph,
                const char *out, const Feeds *training, int64_t loader_bytes, Phases **phases)
{
    bool    quiet = training->quiet;
    Phases *p = *phases = NEW(pool, Phases);
    *p = (Phases){ .recipe = recipe,
                   .graph = graph,
                   .session = session,
                   .comm = session_engine(session)->device->comm };
    p->losses = NEWN(pool, float, phases_rounds(p) * rank_count(p->comm) + 1);
    if (recipe->validate.every > 0) {
        TRY(feeds_new(pool, session, PHASE_VALIDATE, &p->held));
        p->held.limit = loader_bytes;
        p->held.cache = training->cache;
        p->held.quiet = quiet;
        p->held.text = training->source ? training->source->text : training->text;
        TRY(feeds_open_held(pool, &p->held, recipe));
        if (recipe->data.holdout_path && p->held.source && !quiet)
            print_sentence(stderr, "data: validated on %s samples from %s",
                           count_text(p->held.source->n_samples), recipe->data.holdout_path);
    }
    if (recipe->sample.every > 0 && out) {
        p->folder = pool_print(pool, "%s/samples", out);
        if (rank_leads(p->comm))
            phases_tidy(pool, p->folder);
        TRY(drawing_new(
            pool, session, recipe,
            &(DrawingOptions){
                .n = recipe->sample.n,
                .seed = recipe->seed,
                .averaged = true,
                .cache = training->cache,
                .loader_bytes = loader_bytes ? int_max(loader_bytes - p->held.bytes, 1) : 0,
                .quiet = quiet,
                .comm = p->comm },
            &p->drawing));
        TRY(drawing_prepare(p->drawing));
    }
    return session_read(session, graph->train.counters.id, p->counters);
}

int64_t phases_bytes(const Phases *p)
{
    return p->held.bytes + (p->drawing ? drawing_bytes(p->drawing) : 0);
}

void phases_stop_by(Phases *p, const volatile sig_atomic_t *stop)
{
    p->stop = stop;
    if (p->drawing)
        drawing_stop_by(p->drawing, stop);
}

void phases_tell_files(Phases *p, void (*wrote)(void *arg, const char *path), void *arg)
{
    if (p->drawing)
        drawing_tell_files(p->drawing, wrote, arg);
}

bool phases_stopped(const Phases *p)
{
    return p->stopped || (p->drawing && drawing_stopped(p->drawing));
}

bool phase_due(const EveryConfig *every, int64_t step)
{
    return every->every > 0 && step % every->every == 0;
}

/* The loss of one batch is added to the sum in the session; the first one begins it. */
static Err phases_validate_batch(Phases *p, int64_t batch)
{
    p->counters[COUNTER_STEP] = VALIDATION_STEP;
    p->counters[COUNTER_MICRO] = (int32_t)batch;
    p->stopped = p->stop && *p->stop;
    if (p->stopped)
        return fail(E_IO, "validation was stopped by a signal");
    TRY(session_write(p->session, p->graph->train.counters.id, p->counters));
    TRY(feeds_fill(&p->held, batch, batch * recipe_validation(p->recipe).batch));
    return session_run(p->session, PHASE_VALIDATE);
}

/* The batches of several ranks, each by itself; then added in their order. */
static Err phases_validate_shared(Phases *p, float *sum)
{
    int64_t batches = recipe_validation(p->recipe).batches;
    int     ranks = comm_ranks(p->comm);
    int32_t loss = p->graph->train.loss.id;
    *sum = 0;
    for (int64_t round = 0; round < phases_rounds(p); round++) {
        float   mine = 0, *all = p->losses + round * ranks;
        int64_t batch = int_min(round * ranks + comm_rank(p->comm), batches - 1);
        TRY(session_write(p->session, loss, &mine));
        TRY(phases_validate_batch(p, batch));
        TRY(session_read(p->session, loss, &mine));
        TRY(comm_all(p->comm, &mine, sizeof mine, all));
    }
    for (int64_t i = 0; i < batches; i++)
        *sum = i ? *sum + p->losses[i] : p->losses[i];
    return OK;
}

Err phases_validate(Phases *p, double *loss)
{
    float sum;
    if (rank_count(p->comm) > 1) {
        TRY(phases_validate_shared(p, &sum));
    } else {
        for (int64_t i = 0; i < recipe_validation(p->recipe).batches; i++)
            TRY(phases_validate_batch(p, i));
        TRY(session_read(p->session, p->graph->train.loss.id, &sum));
    }
    *loss = (double)sum;
    return OK;
}

Err phases_sample(Phases *p, int64_t step)
{
    char folder[FILE_PATH_MAX];
    if (!p->drawing)
        return OK;
    /* as in a session that only samples */
    p->counters[COUNTER_STEP] = p->counters[COUNTER_MICRO] = 0;
    TRY(session_write(p->session, p->graph->train.counters.id, p->counters));
    snprintf(folder, sizeof folder, "%s/%06lld", p->folder, (long long)step);
    return drawing_again(p->drawing, folder);
}
