/* team_of_one.c -- parallel loops of one thread without libgomp.
 *
 * libgomp makes a team for every parallel loop and keeps only teams of two and more: with one
 * thread it allocates and frees one each time, thousands of times a step. Such a loop is run here by
 * a plain call. The linker sends GOMP_parallel, which GCC emits for every `omp parallel`, to this
 * file (--wrap, CMakeLists.txt). Outside of a team libgomp answers thread 0 of 1, and barriers do
 * nothing, so the loops need no change. */
#include "device/team_of_one.h"

#if defined(__GNUC__) && !defined(__clang__) && defined(_OPENMP)
#include <omp.h>

void __wrap_GOMP_parallel(void (*run)(void *), void *data, unsigned threads, unsigned flags)
{
    if (!threads)
        threads = (unsigned)omp_get_max_threads();
    /* within another team the answers above would be that team's */
    if (threads == 1 && omp_get_level() == 0)
        run(data);
    else
        __real_GOMP_parallel(run, data, threads, flags);
}
#endif
