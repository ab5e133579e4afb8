/* search.h -- the moves of a search over schedules. Shared by anneal.c and min_peak.c.
 *
 *   remake   a value idle at a crowded moment is dropped there and made again before its next
 *            reader; inputs of that run that are gone are kept longer or made again in turn
 *   cancel   a second run is taken out, and runs that only served it
 *   swap     cancel one, remake another
 *   shift    a run moves earlier or later: order is free where data allows; with `groups` mostly
 *            together with what it needs or what needs it (groups.c)
 */
#ifndef PLAN_SOLVERS_SEARCH_H
#define PLAN_SOLVERS_SEARCH_H

#include "plan/solvers/solver.h"

typedef struct ScheduleSearch {
    Schedule *s;
    const Task *task;
    uint64_t  random;
    bool      groups;        /* shifts move groups of runs too */
    double    keep;          /* chance that a remake keeps a missing input longer */
    double    cost_limit;    /* a remake that would cost more is not worth finishing */
    int32_t   room;          /* runs that one move may still add */
} ScheduleSearch;

typedef enum MoveKind { MOVE_RECOMPUTE, MOVE_CANCEL, MOVE_SWAP, MOVE_SHIFT, MOVE_KINDS } MoveKind;

void   search_init(ScheduleSearch *x, Pool *pool, const SolverArgs *args);
double search_unit(ScheduleSearch *x);                       /* [0,1) */
int32_t search_below(ScheduleSearch *x, int32_t n);
int32_t search_position(ScheduleSearch *x);                  /* of any run */

/* One move near position (where the load is highest, or anywhere). True if the schedule is changed;
 * on false the caller must undo to its mark. */
bool   search_move(ScheduleSearch *x, MoveKind kind, int32_t position, int64_t budget_bytes);

void   search_keep(Pool *pool, const ScheduleSearch *x, Load load, RunList *best);   /* copy the schedule */
/* past the deadline? */
bool   search_late(const SolverArgs *args, int64_t turn);

/* Take out every second run that the budget can do without, the latest first. False: the deadline
 * ended it. */
bool   search_polish(ScheduleSearch *x, const SolverArgs *args);

/* The parts that exchange.c builds on. */
int32_t search_slot(const Schedule *s, int32_t position);            /* -1: after all runs */
/* The first reader after p of the making at r of value; s->after for a final; -1: none, or read at
 * p. */
int32_t search_next_reader(const Schedule *s, int32_t value, int32_t r, int32_t p);
/* Make value's producer run again before a slot, its inputs kept longer (keep) or made again. */
bool    search_recompute_before(ScheduleSearch *x, int32_t node, int32_t before, bool keep);
bool    search_take_out(ScheduleSearch *x, int32_t slot);    /* a second run and whatever only served it */

/* groups.c: the run at p moves earlier or later, and with it all that must. False: as of
 * search_move. */
bool    search_group(ScheduleSearch *x, int32_t p);

/* exchange.c: exact local search, until nothing improves or `edits` are spent: one remake for the
 * second runs that it makes needless, one second run for cheaper remakes. Within the budget before
 * and after. False: the deadline ended it. */
bool    search_exchange(ScheduleSearch *x, const SolverArgs *args, int64_t edits);

#endif
