/* measure.h -- the times of a recipe's nodes inside real steps, filed into a profile.
 *
 * A node alone, run again and again, finds its inputs in the caches; in a step it does not. So the nodes are
 * timed where they stand: steps run as the plan says, on the recipe's own data, with all learning rates 0.
 */
#ifndef TRAIN_MEASURE_H
#define TRAIN_MEASURE_H

#include "device/device.h"
#include "train/recipe.h"

typedef struct MeasureOptions {
    int64_t budget_bytes;        /* of the arena; 0: keep everything */
    double  seconds;             /* of steps, about; at least MEASURE_STEPS of them */
    void  (*progress)(void *arg, double done, const char *text);
    void   *progress_arg;
} MeasureOptions;

enum { MEASURE_STEPS = 5 };

typedef struct Measured {
    int32_t nodes, calls;        /* timed, and distinct among them */
    double  step_ms;             /* the best step of the same plan that nobody timed node by node */
    double  nodes_ms;            /* sum of the nodes' median times in one step */
    int64_t runtime_bytes;       /* of this process, beside the arena */
} Measured;

Err measure_recipe(Pool *pool, const Recipe *recipe, const Device *device, const MeasureOptions *options,
                   Profile *profile, Measured *measured);

#endif
