/* model_options.c -- opening the recipe and device a command works on. */
#include "cli/model_options.h"

#include "base/text.h"

Err model_open(Pool *pool, const ModelOptions *o, const char *name, const char *const *more, int n, Recipe **recipe,
               Device **device, int64_t *budget_bytes)
{
    const char **sets = NEWN(pool, const char *, o->set.n + n + 2);
    int          n_sets = 0;
    for (int i = 0; i < o->set.n; i++)
        sets[n_sets++] = o->set.items[i];
    if (o->batch)
        sets[n_sets++] = pool_print(pool, "batch=%lld", (long long)o->batch);
    if (o->precision)
        sets[n_sets++] = pool_print(pool, "precision=%s", o->precision);
    for (int i = 0; i < n; i++)
        sets[n_sets++] = more[i];
    TRY(recipe_read(pool, name, sets, n_sets, recipe));
    TRY(device_cpu(pool, &(DeviceOptions){ .threads = (int)o->threads, .blas = o->backend }, device));
    *budget_bytes = 0;
    return o->budget ? bytes_read(o->budget, (*device)->memory_bytes, budget_bytes) : OK;
}
