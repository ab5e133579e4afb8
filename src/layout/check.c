/* check.c -- judges a layout, plainly: each buffer against every buffer alive when it is born.
 *
 * Shares nothing with the solver, not even a header. O(n x live).
 */
#include "layout/layout.h"

#include <stdlib.h>

static int check_compare(const void *a, const void *b)
{
    const Buffer *x = *(const Buffer *const *)a, *y = *(const Buffer *const *)b;
    return x->lower < y->lower ? -1 : x->lower > y->lower;
}

static Err check_alone(const Buffer *b, int i, int64_t capacity)
{
    if (b->lower >= b->upper || b->size <= 0)
        return fail(E_PLAN, "buffer %d has %lld bytes in times [%lld, %lld); both must be positive",
                    i, (long long)b->size, (long long)b->lower, (long long)b->upper);
    if (b->offset < 0)
        return fail(E_PLAN, "buffer %d lies at offset %lld, below 0", i, (long long)b->offset);
    if (b->align > 1 && b->offset % b->align != 0)
        return fail(E_PLAN, "buffer %d lies at offset %lld, which is not a multiple of its "
                    "alignment %lld", i, (long long)b->offset, (long long)b->align);
    if (b->offset > INT64_MAX - b->size)
        return fail(E_PLAN, "buffer %d lies at offset %lld with %lld bytes: it ends beyond 2^63", i,
                    (long long)b->offset, (long long)b->size);
    if (capacity >= 0 && b->offset + b->size > capacity)
        return fail(E_PLAN, "buffer %d takes bytes [%lld, %lld), beyond the capacity of %lld", i,
                    (long long)b->offset, (long long)(b->offset + b->size), (long long)capacity);
    return OK;
}

static Err check_pair(const Buffer *buffers, const Buffer *a, const Buffer *b)
{
    if (a->lower >= b->upper || b->lower >= a->upper ||
        a->offset >= b->offset + b->size || b->offset >= a->offset + a->size)
        return OK;
    int i = (int)(a - buffers), j = (int)(b - buffers);
    return fail(E_PLAN, "buffers %d and %d overlap: %d takes bytes [%lld, %lld) in times [%lld, "
                "%lld), %d takes bytes [%lld, %lld) in times [%lld, %lld)", i, j,
                i, (long long)a->offset, (long long)(a->offset + a->size),
                (long long)a->lower, (long long)a->upper,
                j, (long long)b->offset, (long long)(b->offset + b->size),
                (long long)b->lower, (long long)b->upper);
}

Err layout_check(const Buffer *buffers, int n, int64_t capacity)
{
    for (int i = 0; i < n; i++)
        TRY(check_alone(&buffers[i], i, capacity));

    Pool          *pool = pool_new(NULL, "layout check");
    const Buffer **born = NEWN(pool, const Buffer *, n), **live = NEWN(pool, const Buffer *, n);
    int            n_live = 0;
    Err            err = OK;
    for (int i = 0; i < n; i++)
        born[i] = &buffers[i];
    qsort(born, (size_t)n, sizeof *born, check_compare);
    for (int i = 0; i < n && !err; i++) {
        int kept = 0;
        for (int k = 0; k < n_live && !err; k++)
            if (live[k]->upper > born[i]->lower) {       /* still alive */
                err = check_pair(buffers, live[k], born[i]);
                live[kept++] = live[k];
            }
        live[kept] = born[i];
        n_live = kept + 1;
    }
    pool_free(pool);
    return err;
}
