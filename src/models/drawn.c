/* drawn.c -- the random numbers of a step, computed on the host. */
#include "models/drawn.h"

int64_t drawn_count(const Drawn *d)
{
    int64_t n = 1;
    for (int a = 0; a < d->rank; a++)
        n *= d->dim[a];
    return n;
}

static float drawn_float(const Drawn *d, RandomKey key, uint64_t element)
{
    if (d->kind == DRAWN_NORMAL)
        return random_normal_at(key, element);
    float u = random_uniform_at(key, element);
    if (d->kind == DRAWN_UNIFORM)
        return u;
    return u < d->rate ? 0.0f : 1 / (1 - d->rate);
}

void drawn_fill(const Drawn *d, uint64_t seed, uint32_t step, uint32_t micro, void *out)
{
    RandomKey key = { .seed = seed, .stream = d->stream, .step = step };
    int64_t   n = drawn_count(d), stride[DRAWN_RANK], index[DRAWN_RANK] = { 0 };
    uint64_t  first = (uint64_t)micro * (uint64_t)n;
    int64_t   each = 1;
    for (int a = d->rank - 1; a >= 0; a--) {
        stride[a] = each;
        each *= d->dim[a];
    }
    for (int64_t i = 0; i < n; i++) { /* in memory's order */
        int64_t at = 0;
        for (int a = 0; a < d->rank; a++)
            at += index[a] * stride[d->order[a]];
        if (d->kind == DRAWN_INTS)
            ((int32_t *)out)[at] = (int32_t)(d->low +
                                             random_below_at(key, first + (uint64_t)i, d->below));
        else
            ((float *)out)[at] = drawn_float(d, key, first + (uint64_t)i);
        for (int a = d->rank - 1; a >= 0 && ++index[a] == d->dim[d->order[a]]; a--)
            index[a] = 0;
    }
}
