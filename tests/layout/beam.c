/* beam.c -- dense layouts that need many partial layouts side by side: few distinct times, or
 * places left empty. Without beam.c none of them is placed with these nodes. */
#include "test.h"

#include "cut_layouts.h"

static const CutFamily *family(const char *name)
{
    for (int f = 0; f < CUT_FAMILIES; f++)
        if (strcmp(cut_families[f].name, name) == 0)
            return &cut_families[f];
    return NULL;
}

static void placed(const char *name, uint64_t seed, int n, int64_t align, int64_t max_nodes)
{
    Pool         *pool = pool_new(NULL, "test");
    Buffer       *b = NEWN(pool, Buffer, n + 4);
    LayoutResult  result;
    LayoutOptions how = { .capacity = (int64_t)CUT_SIDE * CUT_UNIT, .max_nodes = max_nodes };
    n = cut_layout(family(name), seed, n, b);
    for (int i = 0; i < n && align > 1; i++) { /* sizes that are padded */
        b[i].align = align;
        b[i].size -= i % 7;
    }
    CHECK_OK(layout_solve(pool, b, n, &how, &result));
    CHECK_OK(layout_check(b, n, how.capacity));
    printf("%s, %d buffers: %lld nodes\n", name, n, (long long)result.n_nodes);
    pool_free(pool);
}

static void few_times(void)
{
    placed("steps", 1003, 366, 1, 700000);
    placed("columns", 1003, 188, 1, 700000);
}

static void empty_places(void) { placed("holes", 1004, 455, 1, 700000); }

static void aligned(void) { placed("steps", 1003, 366, CUT_UNIT, 700000); }

int main(void)
{
    RUN(few_times);
    RUN(empty_places);
    RUN(aligned);
    return test_end();
}
