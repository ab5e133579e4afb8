/* run_list.c -- after any edits, and after undoing them, the figures that a schedule keeps up to date
 * are those of the same list counted from the beginning. */
#include "test.h"

#include "plan/families.h"
#include "plan/solvers/search.h"

enum { RUN_LIST_MOVES = 3000, RUN_LIST_BUDGETS = 4 };

/* The loads for several budgets, next to those of a schedule that is made from the same list. */
static bool is_as_new(Pool *pool, Schedule *edited, int64_t peak)
{
    Schedule *fresh = schedule_new(pool, edited->task);
    int32_t  *list = NEWN(pool, int32_t, edited->n + 1);
    bool      same = true;
    schedule_list(edited, list);
    schedule_set(fresh, list, edited->n);
    for (int64_t k = 0; k < RUN_LIST_BUDGETS; k++) {
        int64_t budget = peak / RUN_LIST_BUDGETS * k;
        Load    now = schedule_load(edited, budget), then = schedule_load(fresh, budget);
        same &= now.peak_bytes == then.peak_bytes && now.excess == then.excess;
        same &= edited->node_at[now.peak_position] == fresh->node_at[then.peak_position];
    }
    return same;
}

static void edits_agree(const PGraph *graph, uint64_t seed)
{
    Pool          *pool = pool_new(NULL, "edits");
    Task          *task = task_new(pool, graph);
    SolverArgs     args = { .task = task, .seed = seed };
    ScheduleSearch x;
    int            changed = 0, same = 0, n = 0;
    search_init(&x, pool, &args);
    int64_t peak = schedule_load(x.s, 0).peak_bytes;
    for (int32_t turn = 0; turn < RUN_LIST_MOVES; turn++) {
        Pool   *temp = pool_new(pool, "turn");
        int32_t mark = schedule_mark(x.s);
        x.groups = turn % 2;
        if (search_move(&x, (MoveKind)(turn % MOVE_KINDS), search_position(&x), peak / 2))
            changed++;
        else
            schedule_undo(x.s, mark);
        if (turn % 3 == 0)
            schedule_undo(x.s, mark);
        else
            schedule_commit(x.s);
        if (turn % 10 == 0) {
            same += is_as_new(temp, x.s, peak);
            n++;
        }
        pool_free(temp);
    }
    CHECK_INT(same, n);
    CHECK(changed > RUN_LIST_MOVES / 10);
    pool_free(pool);
}

static void every_family(void)
{
    for (int i = 0; i < N_FAMILIES; i++) {
        Pool *pool = pool_new(NULL, "family");
        edits_agree(families[i].build(pool, families[i].medium, 7), (uint64_t)i + 1);
        pool_free(pool);
    }
}

int main(void)
{
    RUN(every_family);
    return test_end();
}
