/* search.h -- the moves of a search over schedules. Shared by anneal.c and min_peak.c.
 *
 *   recompute   a value that is idle at a crowded moment is dropped there and recomputed before its
 *               next reader; inputs of that run that are gone are kept longer or recomputed in turn
 *   cancel      a second run is removed, with the runs that only served it
 *   swap        cancel one, recompute another
 *   shift       a run moves earlier or later, as far as data allows; with `groups` mostly together
 *               with what it needs or what needs it (groups.c)
 */
#ifndef PLAN_SOLVERS_SEARCH_H
#define PLAN_SOLVERS_SEARCH_H

#include "plan/solvers/solver.h"

typedef struct ScheduleSearch {
    Schedule   *s;
    const Task *task;
    uint64_t    random;
    bool        groups;     /* shifts may move groups of runs */
    double      keep;       /* probability that a recompute keeps a missing input longer */
    double      cost_limit; /* a recompute that would cost more is abandoned */
    int32_t     room;       /* runs that the current move may still add */
} ScheduleSearch;

typedef enum MoveKind { MOVE_RECOMPUTE, MOVE_CANCEL, MOVE_SWAP, MOVE_SHIFT, MOVE_KINDS } MoveKind;

void    search_init(ScheduleSearch *x, Pool *pool, const SolverArgs *args);
double  search_unit(ScheduleSearch *x); /* [0,1) */
int32_t search_below(ScheduleSearch *x, int32_t n);
int32_t search_position(ScheduleSearch *x); /* a random run */

/* One move near position (the highest load, or anywhere). True if the schedule was changed; on
 * false the caller must undo to its mark. */
bool search_move(ScheduleSearch *x, MoveKind kind, int32_t position, int64_t budget_bytes);

void search_keep(Pool *pool, const ScheduleSearch *x, Load load, RunList *best); /* copies the
                                                                                      * schedule */
/* past the deadline? The clock is read every 64th turn */
bool search_late(const SolverArgs *args, int64_t turn);

/* Removes every second run that the budget does not need, the latest first. False: the deadline
 * ended it. */
bool search_polish(ScheduleSearch *x, const SolverArgs *args);

/* What improve.c builds on. */
int32_t search_slot(const Schedule *s, int32_t position); /* -1: after all runs */
/* The first reader after p of the production of value at r; s->after for a final; -1: none, or it
 * is read at p. */
int32_t search_next_reader(const Schedule *s, int32_t value, int32_t r, int32_t p);
/* Runs a node again before a slot, with its inputs kept longer (keep) or recomputed. */
bool    search_recompute_before(ScheduleSearch *x, int32_t node, int32_t before, bool keep);
bool    search_take_out(ScheduleSearch *x, int32_t slot); /* removes a second run and whatever
                                                              * only served it */

/* groups.c: moves the run at p earlier or later, with all runs that must move with it. False: as
 * for search_move. */
bool search_group(ScheduleSearch *x, int32_t p);

/* improve.c: exact local search, until nothing improves or `edits` are spent: one more recompute
 * for the second runs that it makes needless, or one second run for cheaper recomputes. The
 * schedule is within the budget before and after. False: the deadline ended it. */
bool search_exchange(ScheduleSearch *x, const SolverArgs *args, int64_t edits);

#endif
