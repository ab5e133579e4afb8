/* schedule.h -- a list of runs that can be edited and is always metered exactly.
 *
 * The state of every search. A schedule is the order in which task nodes run, repeats included; the
 * rest follows: a reader reads the latest making of its input before it, and a making dies after
 * its last reader. So there is nothing to decide but the list, and any plan can be reached by
 * edits.
 *
 *   position   0    1    2    3    4    5    6
 *   run        a    b    c    d    b'   e    f        b' is a second making of b
 *   b               |=========|    |=========|        d is the last reader of the first making
 *
 * An edit changes the bytes that begin at one run or end after one run. `begin` and `end` hold
 * those sums by position, so that an edit costs a shift of the arrays and the readers of a few
 * values, and the peak is one pass over them.
 *
 * Edits are journalled: schedule_undo takes back everything since schedule_mark.
 */
#ifndef PLAN_SOLVERS_SCHEDULE_H
#define PLAN_SOLVERS_SCHEDULE_H

#include "plan/solvers/task.h"

enum { SCHEDULE_MAX_RUNS = 14 };     /* makings of one node; beyond it an insertion is refused */

typedef struct Makings {             /* of one node: slots of its runs, in order of position */
    int32_t n;
    int32_t slot[SCHEDULE_MAX_RUNS + 1];
} Makings;

typedef struct Edit {
    int32_t node, position;
    bool    inserted;
} Edit;

typedef struct Schedule {
    const Task *task;
    Pool       *pool;
    int32_t    *slot_at;     /* [position] slot of the run */
    int32_t    *node_at;     /* [position] */
    int64_t    *begin;       /* [position] bytes that become live with this run, less those taken
                              * over */
    int64_t    *end;         /* [position] bytes whose last reader this run is */
    int64_t    *workspace;   /* [position] */
    int32_t    *position;    /* [slot] */
    int32_t    *free_slots;
    int32_t     n, cap, n_free, n_slots;
    Makings    *makings;     /* [node] */
    double      cost;
    Edit       *journal;
    int32_t     n_journal, cap_journal;
    int64_t     n_edits;     /* runs put in or taken out, ever: what a search costs */
} Schedule;

typedef struct Load {                /* what a pass over the schedule sees for a budget */
    int64_t peak_bytes;
    double  excess;                  /* sum over the runs of the bytes above the budget */
    int32_t peak_position;
} Load;

Schedule *schedule_new(Pool *pool, const Task *task);               /* every node once, input
                                                                     * order */
void      schedule_set(Schedule *s, const int32_t *list, int32_t n);/* another list, known valid */

/* False, and nothing changed, if the list would no longer be valid. */
bool schedule_insert(Schedule *s, int32_t node, int32_t position);  /* before the run at position */
bool schedule_remove(Schedule *s, int32_t position);

int32_t schedule_mark(const Schedule *s);
void    schedule_undo(Schedule *s, int32_t mark);
void    schedule_commit(Schedule *s);                               /* forget the journal */

Load    schedule_load(const Schedule *s, int64_t budget_bytes);

/* Position of the latest making of value before position, or -1. */
int32_t schedule_making(const Schedule *s, int32_t value, int32_t position);
/* Last reader of the making that the next reader at or after position would use; -1: none made yet.
 * *taken: that making's bytes are taken over before position. */
int32_t schedule_last_reader(const Schedule *s, int32_t value, int32_t position, bool *taken);

#endif
