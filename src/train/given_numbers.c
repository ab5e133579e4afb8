/* given_numbers.c -- reads inputs and random numbers of a sampling run from a safetensors file. */
#include "train/given_numbers.h"

#include <stdio.h>
#include <string.h>

Err given_input(const SafeFile *file, const FeedBuffer *feed)
{
    const SafeTensor *t = safetensors_find(file, feed->name);
    SafeType          want = feed->type == F32 ? SAFE_F32 : feed->type == I32 ? SAFE_I32 : SAFE_U8;
    bool              same = t && t->type == want && t->rank == feed->shape.rank;
    for (int a = 0; same && a < t->rank; a++)
        same = t->shape[a] == feed->shape.dim[a];
    if (!same)
        return fail(E_USAGE, "%s: %s '%s', %s %s (see -n for the first axis)", file->path,
                    t ? "it has another type or shape of input" : "it has no input", feed->name,
                    safe_type_name(want), shape_text(feed->shape));
    memcpy(feed->bytes, t->data, t->n_bytes);
    return OK;
}

Err given_row(const SafeFile *file, const char *name, int64_t index, float *to, int64_t n)
{
    char full[128];
    snprintf(full, sizeof full, "noise.%s", name);
    const SafeTensor *t = safetensors_find(file, full);
    int64_t           rows = t && t->rank ? t->shape[0] : 0, row = 1;
    for (int a = 1; rows && a < t->rank; a++) /* without rows the others may be of any size */
        row *= t->shape[a];
    if (!t || t->type != SAFE_F32 || row != n || index >= rows)
        return fail(E_USAGE, "%s: '%s' must be F32 with at least %lld rows of %lld numbers%s",
                    file->path, full, (long long)index + 1, (long long)n,
                    t ? "" : ", and the file has no such tensor");
    memcpy(to, (const char *)t->data + (size_t)(index * n) * sizeof *to, (size_t)n * sizeof *to);
    return OK;
}

Err given_write(Pool *pool, const char *folder, const SampleResult *result, const char **path)
{
    SafeTensor samples = { .name = "samples",
                           .type = SAFE_F32,
                           .rank = result->shape.rank,
                           .shape = result->shape.dim,
                           .data = result->data };
    *path = pool_print(pool, "%s/samples.safetensors", folder);
    return safetensors_write(*path, &samples, 1, NULL);
}
