/* measure.h -- measures the times of a recipe's nodes inside real steps, for a profile.
 *
 * A node that runs alone in a loop finds its inputs in the caches; in a step it does not. So nodes
 * are timed within steps, run as planned, on the recipe's data, with all learning rates near 0. */
#ifndef TRAIN_MEASURE_H
#define TRAIN_MEASURE_H

#include "plan/engine.h"
#include "recipe/recipe.h"

/* A session whose steps hardly change the weights. */
typedef struct Stopwatch Stopwatch;

/* plan NULL: everything kept. With STOPWATCH_MIN as the budget, the plan with the smallest arena is
 * used. */
enum { STOPWATCH_MIN = 1 };
Err stopwatch_new(Pool *pool, const Recipe *recipe, const Device *device, const EngineOptions *plan,
                  Stopwatch **stopwatch);
Err stopwatch_step(Stopwatch *stopwatch, double *ms); /* one step without node times */
const Engine *stopwatch_engine(const Stopwatch *stopwatch);

enum {
    MEASURE_MIN = 5,
    MEASURE_MAX = 15,      /* steps that are timed node by node */
    MEASURE_ROW = 5,       /* steps in a row without a pause, on a GPU */
    MEASURE_EFFORT = 1000, /* of planning, for a plan that is only timed */
    MEASURE_TRIES = 3,     /* while other programs are in the way */
    MEASURE_APART = 2,     /* a step and the sum of its nodes differ by less on a quiet machine */
};

/* A plain step, then one with node times, so that both see the same load from other programs; at
 * most MEASURE_MAX times. */
Err stopwatch_sample(Stopwatch *stopwatch);

typedef struct MeasureOptions {
    int64_t budget_bytes; /* of the arena; 0: everything kept */
    double  seconds;      /* approximate time for all steps, within the bounds above */
    void (*progress)(void *arg, double done, const char *text);
    void *progress_arg;
} MeasureOptions;

typedef struct Measured {
    int32_t nodes, calls;  /* nodes timed, and distinct calls among them */
    double  step_ms;       /* the best plain step; on a GPU, the median of steps in a row */
    double  nodes_ms;      /* sum of the nodes' median times in one step */
    int64_t runtime_bytes; /* of this process, outside the arena */
    bool    disturbed;     /* by other programs, in every try */
} Measured;

/* Is the step so far from the sum of its nodes that one of them was disturbed? */
bool measured_apart(const Measured *measured);

double median_of(float *values, int64_t n); /* n above 0; puts them in order */

/* Adds the samples so far to the profile; runtime_bytes is left 0. */
void stopwatch_file(Pool *pool, const Stopwatch *stopwatch, Profile *profile, Measured *measured);

/* Adds the Tightness of the plan with the smallest arena against everything kept, by their best
 * steps so far. The node times of `kept` must be in the profile, and the profile ready. */
void stopwatch_file_tight(Pool *pool, const Stopwatch *kept, const Stopwatch *tight,
                          Profile *profile);

/* The predicted time of a step by a profile, which may be newer than the plan. */
double stopwatch_predict_ms(const Stopwatch *stopwatch, const Profile *profile);

/* Adds the times of the recipe's nodes to the profile. Times that other programs disturbed are
 * measured again; if that does not help they are added all the same, and *measured says so. */
Err measure_recipe(Pool *pool, const Recipe *recipe, const Device *device,
                   const MeasureOptions *options, Profile *profile, Measured *measured);

#endif
