/* random_file.c -- writes the random numbers of a run. */
#include "train/random_file.h"

#include "base/safetensors.h"
#include "base/text.h"

enum { RANDOM_MAX_GIB = 4 }; /* the file is made in memory */

static Err random_size(const Recipe *recipe, const Drawn *list, int32_t n, int64_t rows)
{
    double bytes = 0;
    for (int32_t i = 0; i < n; i++)
        bytes += 4.0 * (double)drawn_count(&list[i]) * (double)rows;
    if (bytes <= RANDOM_MAX_GIB * 1073741824.0)
        return OK;
    return fail(E_USAGE,
                "--dump-random: the random numbers of %lld steps would take %s; the limit is "
                "%d GiB, so ask for fewer --steps",
                (long long)recipe->steps, bytes_text((int64_t)bytes), RANDOM_MAX_GIB);
}

static SafeTensor random_tensor(Pool *pool, const Recipe *recipe, const Drawn *d, int64_t rows)
{
    int64_t *shape = NEWN(pool, int64_t, d->rank + 1), count = drawn_count(d);
    char    *data = pool_alloc(pool, (size_t)(4 * count * rows), 1);
    shape[0] = rows;
    for (int a = 0; a < d->rank; a++)
        shape[a + 1] = d->dim[a];
    for (int64_t row = 0; row < rows; row++)
        drawn_fill(d, (uint64_t)recipe->seed, (uint32_t)(row / recipe->accumulate),
                   (uint32_t)(row % recipe->accumulate), data + 4 * count * row);
    return (SafeTensor){ .name = d->name,
                         .type = d->kind == DRAWN_INTS ? SAFE_I32 : SAFE_F32,
                         .rank = d->rank + 1,
                         .shape = shape,
                         .data = data };
}

static Err random_write(Pool *pool, const Recipe *recipe, const char *path)
{
    const Drawn *list;
    int32_t      n;
    int64_t      rows = recipe->steps * recipe->accumulate;
    if (!recipe->model->drawn)
        return fail(E_USAGE,
                    "--dump-random is for models of torch.export (.pt2), and %s is not one",
                    recipe->name);
    TRY(recipe->model->drawn(pool, recipe->config, recipe->batch, &list, &n));
    TRY(random_size(recipe, list, n, rows));
    SafeTensor *tensors = NEWN(pool, SafeTensor, n + 1);
    for (int32_t i = 0; i < n; i++)
        tensors[i] = random_tensor(pool, recipe, &list[i], rows);
    return safetensors_write(path, tensors, n, NULL);
}

Err random_file_write(const Recipe *recipe, const char *path)
{
    Pool *pool = pool_new(NULL, "random numbers");
    Err   err = random_write(pool, recipe, path);
    pool_free(pool);
    return err;
}
