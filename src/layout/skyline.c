/* skyline.c -- heights over sections as a tree: raise a range, query a range, both in O(log n).
 *
 * Heights only rise, so nothing is pushed down: a tree node keeps the height raised over its whole
 * range (`all`) and the maximum below it (`high`); a query includes the `all` of the ancestors.
 */
#include "layout/layout_int.h"

Skyline skyline_new(Pool *pool, int32_t n)
{
    int32_t leaves = 1;
    while (leaves < n)
        leaves *= 2;
    size_t n_nodes = 2 * (size_t)leaves;
    return (Skyline){ NEWN(pool, int64_t, n_nodes), NEWN(pool, int64_t, n_nodes), leaves };
}

void skyline_raise(Skyline *skyline, int32_t first, int32_t end, int64_t height)
{
    int64_t *high = skyline->high, *all = skyline->all;
    int32_t  left = first + skyline->n, right = end + skyline->n;
    for (int32_t l = left, r = right; l < r; l /= 2, r /= 2) {
        if (l & 1) {
            all[l] = int_max(all[l], height);
            high[l] = int_max(high[l], height);
            l++;
        }
        if (r & 1) {
            r--;
            all[r] = int_max(all[r], height);
            high[r] = int_max(high[r], height);
        }
    }
    for (int32_t i = left / 2; i; i /= 2)
        high[i] = int_max(high[i], height);
    for (int32_t i = (right - 1) / 2; i; i /= 2)
        high[i] = int_max(high[i], height);
}

int64_t skyline_high(const Skyline *skyline, int32_t first, int32_t end)
{
    const int64_t *high = skyline->high, *all = skyline->all;
    int32_t        left = first + skyline->n, right = end + skyline->n;
    int64_t        height = 0;
    for (int32_t l = left, r = right; l < r; l /= 2, r /= 2) {
        if (l & 1)
            height = int_max(height, high[l++]);
        if (r & 1)
            height = int_max(height, high[--r]);
    }
    for (int32_t i = left / 2; i; i /= 2)
        height = int_max(height, all[i]);
    for (int32_t i = (right - 1) / 2; i; i /= 2)
        height = int_max(height, all[i]);
    return height;
}
