/* engine.h -- graph + device -> everything decided before the first step.
 *
 * An Engine is the graph with its algorithms chosen, its programs planned and every byte placed.
 * `explain` reports it, exec/ carries it out. Programs share one arena:
 *
 *      0            persistent_bytes                          arena_bytes
 *      | parameters, state, constants | buffers of one program at a time |
 *
 * Parts that hand values to each other (micro and update, when gradients are not accumulated) form
 * one program; all others stand alone.
 */
#ifndef PLAN_ENGINE_H
#define PLAN_ENGINE_H

#include "device/profile.h"
#include "ir/op.h"
#include "plan/plan.h"
#include "plan/plan_buffers.h"

typedef struct Program {
    const char  *name;           /* "micro", "micro+update" */
    bool         parts[PART_COUNT];
    PGraph      *pgraph;
    int32_t     *node_of;        /* pgraph node -> graph node */
    int32_t     *value_of;       /* pgraph value -> graph value (always a root) */
    Plan        *plan;
    PlanMeter    meter;
    PlanBuffers  buffers;        /* offsets count from persistent_bytes */
    LayoutResult layout;
    int64_t      live_bytes;     /* persistent bytes included */
    int64_t      arena_bytes;
} Program;

typedef struct EngineOptions {
    int64_t     budget_bytes;    /* of the arena; 0: keep everything */
    int64_t     effort;          /* of the planner, see plan.h */
    double      time_limit_s;
    uint64_t    seed;
    void      (*progress)(void *arg, double done, const char *text);
    void       *progress_arg;
    bool        guards;          /* tests: GUARD_BYTES on both sides of every buffer */
    bool        no_inplace;      /* tests: nothing takes over an input's bytes */
} EngineOptions;

enum { GUARD_BYTES = 256 };      /* a multiple of every device's alignment */

typedef struct Engine {
    Graph        *graph;
    const Device *device;
    Choice       *choices;       /* per node */
    double       *node_ns;       /* per node: predicted time of one run */
    double        basis_ns[TIME_BASES];      /* all nodes once, by how their times were found */
    Program      *programs;
    int           n_programs;
    int64_t      *offset;        /* per value: of persistent roots in the arena; -1 for others */
    int64_t       persistent_bytes;  /* where the programs' buffers begin */
    int64_t       part_bytes[PART_COUNT];    /* highest end of what each part's runs are given */
    int64_t       live_bytes, arena_bytes;   /* the largest over the programs */
    int64_t       keep_all_bytes;    /* arena with everything kept */
    double        cost_ns, keep_all_ns;      /* predicted time of one run of every program */
    int32_t       recomputed;        /* second runs in all programs */
    int           peak_program;
    bool          guards;
} Engine;

/* E_BUDGET names the least arena that was found; asking for that works. */
Err engine_new(Pool *pool, Graph *graph, const Device *device, const EngineOptions *options, Engine **engine);

/* The predicted time of one step, and where it comes from: "profile NAME", "roofline of profile NAME" or
 * "roofline"; the share of the time that rests on each basis. */
double      engine_step_ns(const Engine *engine, int64_t accumulate);
const char *engine_time_source(const Engine *engine);
double      engine_time_share(const Engine *engine, TimeBasis basis);

/* The planner's view of some parts of a graph (plan/from_graph.c). */
Err pgraph_from_graph(Pool *pool, const Graph *graph, const bool *parts, const Choice *choices,
                      const double *node_ns, int64_t align, Program *program);

#endif
