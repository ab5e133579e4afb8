/* trainer.c -- every small recipe learns: after a few steps its loss is clearly below that of the
 * untrained weights, on the same samples and noise. Also checks what a run reports. */
#include "folder.h"
#include "test.h"

#include "base/file.h"
#include "train/trainer.h"

#include <stdlib.h>

enum { MAX_SETS = 6 };

typedef struct Lesson {
    const char *recipe;
    int         steps, last;    /* the mean loss of the `last` last steps is used */
    double      max;            /* of that mean, as a share of the untrained loss */
    const char *sets[MAX_SETS]; /* settings that make it smaller */
} Lesson;

/* Mean loss over the last steps of the run in `folder`. */
static double mean_loss(Pool *pool, const char *folder, int last)
{
    char  *text;
    size_t size;
    double sum = 0;
    int    lines = 0, n = 0;
    CHECK_OK(file_read(pool, pool_print(pool, "%s/log.jsonl", folder), &text, &size));
    for (const char *at = text; (at = strstr(at, "\"loss\": ")); at++)
        lines++;
    for (const char *at = text; (at = strstr(at, "\"loss\": ")); at++)
        if (n++ >= lines - last)
            sum += strtod(at + 8, NULL);
    return sum / last;
}

static double run_mean(const Lesson *l, const char *rate)
{
    Pool       *pool = pool_new(NULL, "lesson");
    Recipe     *recipe;
    Device     *device;
    TrainResult result;
    const char *sets[MAX_SETS + 3],
        *folder = pool_print(pool, "lesson-%s-%s", l->recipe, rate ? "still" : "run");
    int n = 0;
    for (int i = 0; i < MAX_SETS && l->sets[i]; i++)
        sets[n++] = l->sets[i];
    sets[n++] = pool_print(pool, "steps=%d", l->steps);
    if (rate) {
        sets[n++] = pool_print(pool, "optimizer.lr=%s", rate);
        sets[n++] = pool_print(pool, "optimizer.slow_lr=%s", rate);
    }
    CHECK_OK(recipe_read(pool, pool_print(pool, SOURCE_DIR "/recipes/%s.yaml", l->recipe), sets, n,
                         &recipe));
    recipe->save.every = 0;
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 2 }, &device));
    folder_clear(pool, folder);
    CHECK_OK(
        train_run(pool, recipe, device, &(TrainOptions){ .out = folder, .quiet = true }, &result));
    CHECK_INT(result.steps, l->steps);
    CHECK_INT(result.measured_bytes, result.planned_bytes);
    double mean = mean_loss(pool, folder, l->last);
    pool_free(pool);
    return mean;
}

static void each_recipe_learns(void)
{
    static const Lesson lessons[] = {
        { "unet-small", 30, 10, 0.7, { "accumulate=1" } },
        { "dit3d-small", 30, 10, 0.5, { "schedule.warmup=5" } },
        { "dit3d-wrap-small", 30, 10, 0.9, { "schedule.warmup=5" } },
        { "lag-small", 60, 10, 0.6, { "schedule.warmup=5" } },
        { "sashimi-small", 30, 5, 0.9, { "schedule.warmup=2", "batch=2" } },
        { "stdiff-small", 10, 4, 0.8, { "schedule.warmup=2", "accumulate=1" } },
        { "stablesr-vae-small",
          20,
          5,
          0.9,
          { "schedule.warmup=2", "batch=2", "model.vae_channels=8" } },
        { "stablesr-small",
          30,
          5,
          0.95,
          { "schedule.warmup=2", "batch=1", "model.vae_channels=8" } },
    };
    for (size_t i = 0; i < sizeof lessons / sizeof *lessons; i++) {
        double still = run_mean(&lessons[i], "0"), run = run_mean(&lessons[i], NULL);
        printf("%-20s untrained %.4f, after %d steps %.4f: %.2f of it\n", lessons[i].recipe, still,
               lessons[i].steps, run, run / still);
        CHECK(run < lessons[i].max * still);
    }
}

int main(void)
{
    RUN(each_recipe_learns);
    return test_end();
}
