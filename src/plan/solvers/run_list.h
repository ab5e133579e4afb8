/* run_list.h -- a list of runs that can be edited and is always metered exactly.
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
 * those sums by position.
 *
 * Positions are not counted through: runs lie in chunks of SCHEDULE_CHUNK places, filled from the
 * left, so that an edit moves a few neighbours and not the whole list. Position = chunk * places +
 * place; a later run has a larger position. A run keeps its slot while it is in the list, whatever
 * moves. Each chunk knows its net bytes and its highest prefix; the peak is one pass over chunks.
 *
 *   chunk      0                1                2
 *   places     a b c d . . . .  e f g h i j . .  k l m . . . . .
 *
 * Edits are journalled: schedule_undo takes back everything since schedule_mark.
 */
#ifndef PLAN_SOLVERS_RUN_LIST_H
#define PLAN_SOLVERS_RUN_LIST_H

#include "plan/solvers/task.h"

#define ENDS_NEVER INT32_MIN

enum {
    SCHEDULE_MAX_RUNS = 14,          /* productions of one node; beyond it an insertion is refused */
    SCHEDULE_CHUNK = 32              /* places */
};

typedef struct Productions {             /* of one node: slots of its runs, in order of position */
    int32_t n;
    int32_t slot[SCHEDULE_MAX_RUNS + 1];
} Productions;

typedef struct Ends {                /* of one value: where each making's bytes end, by slot */
    int32_t slot[SCHEDULE_MAX_RUNS + 1];   /* its last reader, itself if none; ~slot: a reader that
                                            * takes them over; ENDS_NEVER: a final */
} Ends;

typedef struct Edit {
    int32_t node;
    int32_t slot;            /* inserted: of the run; removed: of the run after it, -1: the end */
    bool    inserted;
} Edit;

typedef struct RunChunk {
    int32_t n;               /* runs in it */
    bool    stale;           /* net and high must be summed again */
    int64_t net;             /* bytes that begin less bytes that end */
    int64_t high;            /* most bytes at a run, from the bytes live before the chunk */
} RunChunk;

typedef struct Schedule {
    const Task *task;
    Pool       *pool;
    RunChunk      *chunks;
    int32_t    *slot_at;     /* [position] slot of the run */
    int32_t    *node_at;     /* [position] */
    int64_t    *begin;       /* [position] bytes that become live with this run, less those taken
                              * over */
    int64_t    *end;         /* [position] bytes whose last reader this run is */
    int32_t    *position;    /* [slot] */
    int32_t    *free_slots;
    int32_t     n;           /* runs */
    int32_t     n_chunks, cap_chunks;
    int32_t     after;       /* a position after all others: n_chunks * SCHEDULE_CHUNK */
    int32_t     n_free, n_slots, cap_slots;
    Productions    *productions;     /* [node] */
    Ends       *ends;        /* [value] as they are in begin and end */
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

void      schedule_list(const Schedule *s, int32_t *list);            /* the other way: n nodes */

/* False, and nothing changed, if the list would no longer be valid. */
bool schedule_insert(Schedule *s, int32_t node, int32_t before);   /* a slot, or -1: at the end */
bool schedule_remove(Schedule *s, int32_t slot);

int32_t schedule_mark(const Schedule *s);
void    schedule_undo(Schedule *s, int32_t mark);
void    schedule_commit(Schedule *s);                               /* forget the journal */

Load    schedule_load(Schedule *s, int64_t budget_bytes);

/* Is there a run at position? The nearest runs after and before it: `after` or -1 if there is
 * none. */
static inline bool schedule_has(const Schedule *s, int32_t position)
{
    return position % SCHEDULE_CHUNK < s->chunks[position / SCHEDULE_CHUNK].n;
}
int32_t schedule_next(const Schedule *s, int32_t position);
int32_t schedule_previous(const Schedule *s, int32_t position);

/* Position of the latest making of value before position, or -1. */
int32_t schedule_production(const Schedule *s, int32_t value, int32_t position);
/* Last reader of the making that the next reader at or after position would use; -1: none made yet.
 * *taken: that making's bytes are taken over before position. */
int32_t schedule_last_reader(const Schedule *s, int32_t value, int32_t position, bool *taken);

#endif
