/* run_list.h -- a list of runs that can be edited and is always metered exactly.
 *
 * This is the state of every search. A schedule is the order in which task nodes run, repeats
 * included; the rest follows: a reader reads the latest production of its input, and the bytes of a
 * production are freed after its last reader. So the list is all there is to decide, and edits can
 * reach any plan.
 *
 *   position   0    1    2    3    4    5    6
 *   run        a    b    c    d    b'   e    f        b' is a second production of b
 *   b               |=========|    |=========|        d is the last reader of the first production
 *
 * An edit changes the bytes that begin at one run or end after one run. `begin` and `end` hold
 * those sums by position.
 *
 * Positions have gaps: runs lie in chunks of SCHEDULE_CHUNK places, filled from the left, so that
 * an edit moves a few neighbours and not the whole list. Position = chunk * places + place; a later
 * run has a larger position. A run keeps its slot while it is in the list, whatever moves. Each
 * chunk knows its net bytes and its highest prefix; the peak is one pass over chunks.
 *
 *   chunk      0                1                2
 *   places     a b c d . . . .  e f g h i j . .  k l m . . . . .
 *
 * Edits are journalled: schedule_undo reverts everything since schedule_mark.
 */
#ifndef PLAN_SOLVERS_RUN_LIST_H
#define PLAN_SOLVERS_RUN_LIST_H

#include "plan/solvers/task.h"

#define ENDS_NEVER INT32_MIN

enum {
    SCHEDULE_MAX_RUNS = 14, /* productions of one node; a further insertion is refused */
    SCHEDULE_CHUNK = 32     /* places */
};

typedef struct Productions { /* of one node: slots of its runs, in order of position */
    int32_t n;
    int32_t slot[SCHEDULE_MAX_RUNS + 1];
} Productions;

typedef struct Ends {                    /* of one value: where the bytes of each production end, by
                                      * slot */
    int32_t slot[SCHEDULE_MAX_RUNS + 1]; /* its last reader, or its own run if none; ~slot: a
                                            * reader that takes the bytes over, or the next
                                            * production if a view is read beyond it; ENDS_NEVER: a
                                            * final */
} Ends;

typedef struct Edit {
    int32_t node;
    int32_t slot; /* inserted: slot of the run; removed: slot of the run after it, -1:
                              * the end */
    bool    inserted;
} Edit;

typedef struct RunChunk {
    int32_t n;     /* runs in it */
    bool    stale; /* all that follows, and `load` of its runs, are out of date */
    int64_t net;   /* bytes that begin less bytes that end */
    int64_t high;  /* the most bytes at a run, above those live before the chunk */
    int64_t over;  /* the last answer of chunk_over, and the room that it was asked for */
    int64_t over_room;
} RunChunk;

typedef struct Schedule {
    const Task  *task;
    Pool        *pool;
    RunChunk    *chunks;
    int32_t     *slot_at; /* [position] slot of the run */
    int32_t     *node_at; /* [position] */
    int64_t     *begin;   /* [position] bytes that become live with this run, less those taken
                              * over */
    int64_t     *end;     /* [position] bytes that this run is the last to read */
    int64_t     *load;    /* [position] bytes at this run above those live before its chunk, unless
                              * that is stale */
    int64_t     *workspace; /* [node] */
    int32_t     *position;  /* [slot] */
    int32_t     *free_slots;
    int32_t      n; /* runs */
    int32_t      n_chunks, cap_chunks;
    int32_t      after; /* the position after all others: n_chunks * SCHEDULE_CHUNK */
    int32_t      n_free, n_slots, cap_slots;
    Productions *productions; /* [node] */
    Ends        *ends;        /* [value] as counted in begin and end */
    double       cost;
    Edit        *journal;
    int32_t      n_journal, cap_journal;
    int64_t      n_edits; /* runs inserted or removed so far: the cost of a search */
} Schedule;

typedef struct Load { /* what a pass over the schedule finds for a budget */
    int64_t peak_bytes;
    double  excess; /* sum over the runs of bytes above the budget */
    int32_t peak_position;
} Load;

Schedule *schedule_new(Pool *pool, const Task *task);                /* each node once, in input
                                                                     * order */
void      schedule_set(Schedule *s, const int32_t *list, int32_t n); /* replaces the list; must be
                                                                     * valid */

void schedule_list(const Schedule *s, int32_t *list); /* copies the n nodes to
                                                                       * list */

/* False, with nothing changed, if the list would become invalid. */
bool schedule_insert(Schedule *s, int32_t node, int32_t before); /* before: a slot, or -1 for the
                                                                    * end */
bool schedule_remove(Schedule *s, int32_t slot);

int32_t schedule_mark(const Schedule *s);
void    schedule_undo(Schedule *s, int32_t mark);
void    schedule_commit(Schedule *s); /* clears the journal */

Load schedule_load(Schedule *s, int64_t budget_bytes);

/* Is there a run at a position? schedule_next and schedule_previous: the nearest runs after and
 * before it; `after` or -1 if there is none. */
static inline bool schedule_has(const Schedule *s, int32_t position)
{
    return position % SCHEDULE_CHUNK < s->chunks[position / SCHEDULE_CHUNK].n;
}
int32_t schedule_next(const Schedule *s, int32_t position);
int32_t schedule_previous(const Schedule *s, int32_t position);

/* Position of the latest production of value before position, or -1. */
int32_t schedule_production(const Schedule *s, int32_t value, int32_t position);
/* Last reader of the production that a reader at position would use; -1: not produced yet. *taken:
 * the bytes of that production are taken over before position. */
int32_t schedule_last_reader(const Schedule *s, int32_t value, int32_t position, bool *taken);

#endif
