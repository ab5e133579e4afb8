/* task.h -- the graph as the solvers see it: values that can be dropped and recomputed.
 *
 * Persistent values are only a constant here, and `once` and `before` say everything that must not
 * be repeated or reordered. A solver returns a list of task nodes; task_runs turns it into runs of
 * the PGraph.
 *
 * A view that costs nothing and reads nothing but its root is folded into the root: task_runs
 * produces it where it is first needed. Any other view is a value of 0 bytes (`view_of`).
 *
 *  1. Task nodes and values keep the input order: node a < b if a comes first in the PGraph, or in
 *     the order given to task_reorder.
 *  2. Every value has one producer. If a value is written several times, its later writers are once,
 *     and the first one runs before them.
 *  3. `before` and `after`: if x is before y, every run of x comes before every run of y, and x or
 *     y runs once.
 *  4. Who produces or reads a view reads its root, too, and the root comes before its views among
 *     the inputs. A view is dead once its root is dropped or taken over: what reads it later reads
 *     another production.
 */
#ifndef PLAN_SOLVERS_TASK_H
#define PLAN_SOLVERS_TASK_H

#include "plan/plan.h"

typedef struct TaskValue {
    int64_t  bytes;
    int32_t  producer;
    int32_t *readers; /* nodes that read it, without repeats, in input order */
    int32_t  n_readers;
    int32_t  root;    /* PGraph value */
    int32_t  view_of; /* the task value whose bytes it shares, or -1 */
    int32_t *views;   /* task values that share its bytes */
    int32_t  n_views;
    bool     final;
    bool     takable; /* some reader takes over its bytes */
    bool     takes;   /* it takes over the bytes of an input of its producer */
} TaskValue;

typedef struct TaskNode {
    double   cost;
    int64_t  workspace;
    int32_t *in, *out; /* task values, without repeats */
    int32_t  n_in, n_out;
    int32_t *after;  /* nodes whose every run must come later */
    int32_t *before; /* nodes whose every run must come earlier */
    int32_t  n_after, n_before, cap_after, cap_before;
    int32_t  n_takes; /* the bytes of the first n_takes inputs are taken over */
    int32_t  id;      /* PGraph node */
    bool     once;
} TaskNode;

typedef struct Task {
    const PGraph *graph;
    TaskValue    *values;
    TaskNode     *nodes;
    int32_t       n_values, n_nodes;
    int64_t       fixed_bytes; /* persistent */
    double        base_cost;   /* every node once */
    int32_t      *alias_of;    /* [PGraph value] its task value, or -1 (persistent) */
    bool         *folded;      /* [PGraph node] only produces folded views; not a task node */
} Task;

Task *task_new(Pool *pool, const PGraph *graph);
/* The same graph, its nodes numbered in another order in which they can run: a list of all nodes of
 * the task. Solvers take the order of the numbers for the input order. */
Task *task_reorder(Pool *pool, const Task *task, const int32_t *list);

/* [node] the first node of the input order that all its runs must precede; n_nodes: none. */
int32_t *task_deadlines(Pool *pool, const Task *task);

/* The runs of the PGraph for a list of task nodes. */
void task_runs(Pool *pool, const Task *task, const int32_t *list, int32_t n, int32_t **runs,
               int32_t *n_runs);

#endif
