/* measure.h -- the times of a recipe's nodes inside real steps, filed into a profile.
 *
 * A node alone, run again and again, finds its inputs in the caches; in a step it does not. So the
 * nodes are timed where they stand: steps run as the plan says, on the recipe's own data, with all
 * learning rates near 0. */
#ifndef TRAIN_MEASURE_H
#define TRAIN_MEASURE_H

#include "plan/engine.h"
#include "recipe/recipe.h"

/* A session that can be stepped with next to no learning. */
typedef struct Stopwatch Stopwatch;

/* plan may be NULL: keep everything. A budget of STOPWATCH_MIN is met by the plan that needs the
 * least. */
enum { STOPWATCH_MIN = 1 };
Err stopwatch_new(Pool *pool, const Recipe *recipe, const Device *device, const EngineOptions *plan,
                  Stopwatch **stopwatch);
Err stopwatch_step(Stopwatch *stopwatch, double *ms);        /* one plain step */
const Engine *stopwatch_engine(const Stopwatch *stopwatch);

enum {
    MEASURE_MIN = 5, MEASURE_MAX = 15,        /* steps that are timed node by node */
    MEASURE_ROW = 5,                             /* steps that a GPU takes without a pause */
    MEASURE_EFFORT = 1000,                       /* of a plan that is only there to be timed */
};

/* A plain step, then one with a clock at every node, so that both see the same weather; at most
 * MEASURE_MAX. */
Err stopwatch_sample(Stopwatch *stopwatch);

typedef struct MeasureOptions {
    int64_t budget_bytes;        /* of the arena; 0: keep everything */
    double  seconds;             /* of steps, about, within the bounds above */
    void  (*progress)(void *arg, double done, const char *text);
    void   *progress_arg;
} MeasureOptions;

typedef struct Measured {
    int32_t nodes, calls;        /* timed, and distinct among them */
    double  step_ms;             /* the best plain step; on a GPU, the median of a row */
    double  nodes_ms;            /* sum of the nodes' median times in one step */
    int64_t runtime_bytes;       /* of this process, beside the arena */
} Measured;

/* Adds what was sampled so far to the profile; runtime_bytes is left 0. */
void stopwatch_file(Pool *pool, const Stopwatch *stopwatch, Profile *profile, Measured *measured);

/* How the least plan fares beside the one that keeps everything, by their best steps so far; the
 * times of the latter must have been filed and made ready. */
void stopwatch_file_tight(Pool *pool, const Stopwatch *kept, const Stopwatch *least,
                          Profile *profile);

/* A step by a profile that may have been taken after the plan was made. */
double stopwatch_predict_ms(const Stopwatch *stopwatch, const Profile *profile);

/* Adds the times of the recipe's nodes to the profile. */
Err measure_recipe(Pool *pool, const Recipe *recipe, const Device *device,
                   const MeasureOptions *options, Profile *profile, Measured *measured);

#endif
