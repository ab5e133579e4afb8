/* schedule.c -- the learning rate's curve: its length is its own, not that of the run. */
#include "test.h"

#include "recipe/recipe.h"

static void length(void)
{
    Pool   *pool = pool_new(NULL, "schedule");
    Recipe *straight = recipe_defaults(pool, model_find("unet"));
    straight->steps = 12;
    straight->schedule.kind = SCHEDULE_COSINE;
    straight->schedule.warmup = 2;
    Recipe *half = recipe_copy(pool, straight);
    half->steps = 6; /* stops early, on the same curve */
    half->schedule.steps = 12;
    for (int step = 0; step < 6; step++)
        CHECK_NEAR(schedule_factor(half, step), schedule_factor(straight, step), 0);
    CHECK_INT(schedule_end(half), 12);
    CHECK_INT(schedule_end(straight), 12);
    CHECK_NEAR(schedule_factor(half, 7), 0.5, 1e-12);
    CHECK_NEAR(schedule_factor(half, 12), 0, 0);
    CHECK_NEAR(schedule_factor(half, 20), 0, 0);
    half->schedule.kind = SCHEDULE_CONSTANT;
    CHECK_INT(schedule_end(half), 0);
    pool_free(pool);
}

int main(void)
{
    RUN(length);
    return test_end();
}
