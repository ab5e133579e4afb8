/* layout.c -- how many dense layouts the default effort places: rectangles cut into 150 to 500
 * buffers (tests/cut_layouts.h), each at its bound.
 *
 *   bench_layout [COUNT [FIRST [FAMILY]]]     COUNT of each family, 10 by default, from another
 *                                             seed, of one family only
 */
#include "cut_layouts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double cpu_now(void) { return (double)clock() / CLOCKS_PER_SEC; }

int main(int n_args, char **args)
{
    int count = n_args > 1 ? atoi(args[1]) : 10, first = n_args > 2 ? atoi(args[2]) : 0;
    for (int f = 0; f < CUT_FAMILIES; f++) {
        int    placed = 0;
        double start = cpu_now(), longest = 0;
        if (n_args > 3 && strcmp(args[3], cut_families[f].name) != 0)
            continue;
        for (int i = first; i < first + count; i++) {
            Pool         *pool = pool_new(NULL, "bench");
            int           n = 150 + (7919 * i + 131 * f) % 351;
            Buffer       *b = NEWN(pool, Buffer, n + 4);
            LayoutResult  result;
            LayoutOptions how = { .capacity = (int64_t)CUT_SIDE * CUT_UNIT };
            double        from = cpu_now();
            n = cut_layout(&cut_families[f], (uint64_t)i + 1, n, b);
            placed += layout_solve(pool, b, n, &how, &result) == OK &&
                      layout_check(b, n, how.capacity) == OK;
            longest = cpu_now() - from > longest ? cpu_now() - from : longest;
            pool_free(pool);
        }
        printf("%-9s %3d of %3d placed, longest %5.1f s of CPU, all %6.1f s\n",
               cut_families[f].name, placed, count, longest, cpu_now() - start);
    }
    return 0;
}
