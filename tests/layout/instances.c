/* instances.c -- published hard instances (google/minimalloc), solved to the capacity in their
 * names.
 *
 * In A, B and E the capacity equals the largest live sum: only a perfect packing passes. The number
 * of search nodes is limited, so that a weaker search fails here instead of just taking longer.
 * Instances that are not in ../shared are skipped.
 */
#include "test.h"

#include "base/clock.h"
#include "layout/layout.h"

#include <unistd.h>

static void instance(const char *name, int64_t capacity, int64_t max_nodes)
{
    Pool        *pool = pool_new(NULL, "test");
    const char  *path = pool_print(pool, "%s/../shared/instances/layout/%s.%lld.csv", SOURCE_DIR,
                                   name, (long long)capacity);
    LayoutFile   file;
    LayoutResult result;
    if (access(path, R_OK) != 0) {
        SKIP(pool_print(pool, "%s is not there", path));
    } else {
        CHECK_OK(layout_read(pool, path, &file));
        LayoutOptions options = { .capacity = capacity, .max_nodes = max_nodes };
        double        start = clock_now();
        CHECK_OK(layout_solve(pool, file.buffers, file.n, &options, &result));
        printf("%s: %d buffers, arena %lld, bound %lld, %lld nodes, %.2f s\n", name, file.n,
               (long long)result.arena_bytes, (long long)result.bound_bytes,
               (long long)result.n_nodes, clock_now() - start);
        CHECK_OK(layout_check(file.buffers, file.n, capacity));
    }
    pool_free(pool);
}

int main(void)
{
    test_name = "instances";
    instance("input", 12, 100);
    instance("A", 1048576, 1000000);
    instance("B", 1048576, 1000000);
    instance("C", 1048576, 1000000);
    instance("D", 1048576, 1000000);
    instance("E", 1048576, 1000000);
    return test_end();
}
