/* train_sizes.h -- a recipe's training graph at other sizes: sizes that must build, sizes that must
 * be refused with a message, and counts of parameters. */
#ifndef TESTS_TRAIN_SIZES_H
#define TESTS_TRAIN_SIZES_H

#include "test.h"

#include "recipe/recipe.h"

#include <string.h>

static inline Err sizes_build(Pool *pool, const char *name, const char *const *sets, int n,
                              bool given_noise, TrainingGraph *train)
{
    Recipe *recipe;
    TRY(recipe_read(pool, pool_print(pool, SOURCE_DIR "/recipes/%s.yaml", name), sets, n, &recipe));
    return recipe_graph(pool, recipe, given_noise, train);
}

enum { SIZES_MAX = 5 }; /* settings of one odd size */

static inline void sizes_odd(Pool *pool, const char *name, const char *const odd[][SIZES_MAX],
                             size_t n_odd)
{
    for (size_t i = 0; i < n_odd; i++) {
        TrainingGraph train;
        int           n = 0;
        while (n < SIZES_MAX && odd[i][n])
            n++;
        test_name = odd[i][0];
        CHECK_OK(sizes_build(pool, name, odd[i], n, false, &train));
    }
}

typedef struct WrongSize {
    const char *set, *says;
} WrongSize;

static inline void sizes_wrong(Pool *pool, const char *name, const WrongSize *wrong, size_t n_wrong)
{
    for (size_t i = 0; i < n_wrong; i++) {
        TrainingGraph train;
        const char   *set[] = { wrong[i].set };
        test_name = wrong[i].set;
        Err err = sizes_build(pool, name, set, 1, false, &train);
        CHECK(err != OK);
        if (err && !CHECK(strstr(err_text(), wrong[i].says) != NULL))
            fprintf(stderr, "  said: %s\n", err_text());
    }
}

/* The number of elements of parameters whose name starts with `start` and contains `inner`. */
static inline int64_t sizes_count(const Graph *graph, const char *start, const char *inner)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < graph->n_params; i++)
        if (!strncmp(graph->params[i].name, start, strlen(start)) &&
            strstr(graph->params[i].name, inner))
            sum += shape_count(graph->params[i].disk);
    return sum;
}

#endif
