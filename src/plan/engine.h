/* engine.h -- graph + device -> everything decided before the first step.
 *
 * An Engine is the graph with its algorithms chosen, its programs planned and every byte placed.
 * `explain` reports it, exec/ carries it out. Programs share one arena:
 *
 *      0            persistent_bytes                          arena_bytes
 *      | parameters, state, constants | buffers of one program at a time |
 *
 * and one on the host, where the device has a memory of its own (host-resident state below, slots of one
 * program's saved values above).
 *
 * Parts that hand values to each other (micro and update, when gradients are not accumulated) form
 * one program; all others stand alone.
 */
#ifndef PLAN_ENGINE_H
#define PLAN_ENGINE_H

#include "base/json_out.h"
#include "profile/profile.h"
#include "ir/op.h"
#include "plan/plan.h"
#include "plan/plan_buffers.h"

typedef struct Program {
    const char  *name;           /* of its first phase: "micro" also where update is joined to it */
    bool         phases[PHASE_COUNT];
    PGraph      *pgraph;
    int32_t     *node_of;        /* pgraph node -> graph node */
    int32_t     *value_of;       /* pgraph value -> graph value (always a root) */
    Plan        *plan;
    PlanMeter    meter;
    PlanBuffers  buffers;        /* offsets count from persistent_bytes */
    LayoutResult layout;
    /* on the host, for saved values; offsets count from host_persistent_bytes */
    PlanBuffers  slots;
    int64_t      host_bytes;     /* their arena, with the state below it; 0: no slots */
    int64_t      live_bytes;     /* persistent bytes included */
    int64_t      arena_bytes;
    int64_t      bound_bytes;    /* no plan of this program can do with less */
    int64_t      repeat;         /* runs in one step; of a phase between steps: in one go */
} Program;

/* of every step, not a phase between some (contract 2) */
bool program_in_step(const Program *program);

typedef struct EngineOptions {
    int64_t     budget_bytes;    /* of the arena; 0: keep everything */
    int64_t     effort;          /* of the planner, see plan.h */
    double      time_limit_s;
    uint64_t    seed;
    void      (*progress)(void *arg, double done, const char *text);
    void       *progress_arg;
    int64_t     accumulate;      /* micro-batches of a step; 0: one */
    int64_t     validate;        /* batches of a validation; 0: one */
    /* algorithms with more give way to leaner ones; 0: any (a numeric lever) */
    int64_t     max_workspace;
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
    int64_t      *host_offset;   /* per value: of host-resident roots in the host arena; -1 for others */
    /* the host arena: where slots begin, and its top; 0: none */
    int64_t       host_persistent_bytes, host_bytes;
    int64_t       phase_bytes[PHASE_COUNT];    /* highest end of what each part's runs are given */
    int64_t       live_bytes, arena_bytes;   /* the largest over the programs */
    int64_t       keep_all_bytes;    /* arena with everything kept */
    int64_t       bound_bytes;       /* no plan can do with less */
    /* sum of node times of one step: each of its programs as often as it repeats */
    double        cost_ns, keep_all_ns;
    int32_t       recomputed;        /* second runs in all programs */
    int32_t       moved;             /* saved values that are no state, in all programs */
    int32_t       leaner;            /* nodes whose algorithm gave way to one with less workspace */
    int           peak_program;
    bool          cut;               /* a time limit ended the search */
    bool          guards;
    /* as device, with the own matrix products: for choices marked `own` */
    Device        builtin_device;
} Engine;

/* The predicted time of one step, and where it comes from: "profile NAME", "roofline of profile
 * NAME" or "roofline"; the share of the time that rests on each basis. */
double      engine_step_ns(const Engine *engine, int64_t accumulate);
/* The same from the sum of the nodes' times under a plan with such an arena (docs/TIME.md, a tight
 * arena). Plans are compared by their sums, people are told forecasts. */
double      engine_forecast_ns(const Engine *engine, double sum_ns, int64_t arena_bytes);
double      engine_saved(const Engine *engine);  /* of keep_all_bytes: this share is not needed */
const char *engine_time_source(const Engine *engine);
double      engine_time_share(const Engine *engine, TimeBasis basis);
/* E_BUDGET names the least arena that was found, and *engine is the plan that has it; asking for
 * that works. */
Err engine_new(Pool *pool, Graph *graph, const Device *device, const EngineOptions *options,
               Engine **engine);

/* What is left on the host for slots; 1, which is nothing, where state takes it all. 0: no
 * limit. */
int64_t engine_slots_budget(const Engine *engine);

/* Are both arenas within their budgets: the device's (0: none) and what may be pinned on the
 * host? */
bool engine_fits(const Engine *engine, int64_t budget_bytes);

/* What no plan of this graph with these algorithms can go below, whatever its order and
 * recomputations (plan/prove.h): the time of a step within the budget, and the bytes. limit_s: for
 * the integer program, if CBC is there. */
typedef struct EngineProof {
    double  cost_ns;
    int64_t bytes;
    bool    reached;             /* the engine's plans cost no more */
} EngineProof;

Err engine_prove(Pool *pool, const Engine *engine, int64_t budget_bytes, double limit_s,
                 EngineProof *proof);

/* Who runs a node: the device, or the same with its own matrix products. */
const Device *engine_device(const Engine *engine, int32_t node);

/* The plan as members of an open JSON object (device, choices, phases with steps and offsets,
 * figures), and an engine from such an object. Nothing in a file is believed: both checkers judge
 * steps and places again, and figures must come out the same. E_PLAN: it was made for another
 * graph, device, library or thread count. */
void engine_write(JsonOut *o, const Engine *engine, int64_t budget_bytes);
Err engine_read(Pool *pool, const Json *root, Graph *graph, const Device *device,
                const EngineOptions *options, Engine **engine);

/* For engine.c and engine_file.c: an engine with algorithms chosen and state placed, its programs
 * still to be planned; a program's plan judged, placed (or its given offsets judged) and added to
 * the engine's figures. own: nodes that run by the own provider, or NULL. */
Err engine_begin(Pool *pool, Graph *graph, const Device *device, const EngineOptions *options,
                 const bool *builtin, Engine **engine);
Err engine_place(Pool *pool, Engine *engine, Program *program, int64_t budget_bytes,
                 const int64_t *offsets, const int64_t *slots);
void engine_count(Pool *pool, Engine *engine, Program *program);

/* The planner's view of some parts of a graph (plan/from_graph.c). */
Err pgraph_from_graph(Pool *pool, const Graph *graph, const bool *phases, const Choice *choices,
                      const double *node_ns, const Device *device, Program *program);

#endif
