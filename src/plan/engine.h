/* engine.h -- graph + device -> everything that is decided before the first step.
 *
 * An Engine is the graph with its algorithms chosen, its programs planned and every byte placed.
 * `explain` reports it, exec/ runs it. The programs share one arena:
 *
 *      0            persistent_bytes                          arena_bytes
 *      | parameters, state, constants | buffers of one program at a time |
 *
 * A device with memory of its own has a second arena on the host: host-resident state below, slots
 * for one program's saved values above.
 *
 * Phases that hand values to each other (micro and update, if gradients are not accumulated) form
 * one program; every other phase is a program of its own.
 */
#ifndef PLAN_ENGINE_H
#define PLAN_ENGINE_H

#include "base/json_out.h"
#include "profile/profile.h"
#include "ir/op.h"
#include "plan/plan.h"
#include "plan/plan_buffers.h"

typedef struct Program {
    const char  *name; /* of its first phase: "micro" also if update is joined to it */
    bool         phases[PHASE_COUNT];
    PGraph      *pgraph;
    int32_t     *node_of;  /* pgraph node -> graph node */
    int32_t     *value_of; /* pgraph value -> graph value, always a root */
    Plan        *plan;
    PlanMeter    meter;
    PlanBuffers  buffers; /* offsets count from persistent_bytes */
    LayoutResult layout;
    /* host slots of saved values; offsets count from host_persistent_bytes */
    PlanBuffers  slots;
    int64_t      host_bytes; /* end of the slots, with the state below them; 0: no slots */
    int64_t      live_bytes; /* persistent bytes included */
    int64_t      arena_bytes;
    int64_t      bound_bytes; /* no plan of this program needs less */
    int64_t      repeat;      /* runs per step; of a phase between steps: runs each time */
} Program;

/* part of every step, not a phase between steps (contract 2) */
bool program_in_step(const Program *program);

typedef struct EngineOptions {
    int64_t  budget_bytes; /* limits the arena; 0: everything kept */
    int64_t  effort;       /* of the planner (plan.h) */
    double   time_limit_s;
    bool     hasty; /* of the planner: any plan, soon */
    uint64_t seed;
    void (*progress)(void *arg, double done, const char *text);
    void   *progress_arg;
    int64_t accumulate; /* micro-batches per step; 0: one */
    int64_t validate;   /* batches per validation; 0: one */
    /* algorithms with more workspace give way to leaner ones; 0: no limit (a numeric lever) */
    int64_t max_workspace;
    bool    guards;     /* tests: GUARD_BYTES on both sides of every buffer */
    bool    no_inplace; /* tests: no output takes over an input's bytes */
    bool    draft;      /* one of several to choose from: engine_finish is called for the chosen */
} EngineOptions;

enum { GUARD_BYTES = 256 }; /* a multiple of every device's alignment */

typedef struct Engine {
    Graph        *graph;
    const Device *device;
    Choice       *choices;              /* per node */
    double       *node_ns;              /* per node: predicted time of one run */
    double        basis_ns[TIME_BASES]; /* each node once, by how its time was found */
    Program      *programs;
    int           n_programs;
    int64_t      *offset;           /* per value: of persistent roots in the arena; -1: another
                                  * value */
    int64_t       persistent_bytes; /* where the programs' buffers begin */
    int64_t      *host_offset; /* per value: of host-resident roots in the host arena; -1: another
                                  * value */
    /* of the host arena: where slots begin, and its end; 0: none */
    int64_t       host_persistent_bytes, host_bytes;
    int64_t       phase_bytes[PHASE_COUNT]; /* end of the highest buffer that the phase's nodes
                                                * use */
    int64_t       live_bytes, arena_bytes;  /* the largest over the programs */
    int64_t       keep_all_bytes;           /* of the arena with everything kept */
    int64_t       bound_bytes;              /* no plan needs less */
    /* sum of node times of one step: each program as often as it repeats */
    double        cost_ns, keep_all_ns;
    int32_t       recomputed; /* recomputed nodes, over all programs */
    int32_t       offloaded;  /* offloaded values that are not state, over all programs */
    int32_t       leaner;     /* nodes with a leaner algorithm than the preferred one */
    int           peak_program;
    bool          cut; /* a time limit ended the search */
    bool          guards;
    /* the device with the builtin backend, for choices marked `builtin` */
    Device        builtin_device;
} Engine;

/* The predicted time of one step; its source ("profile NAME", "roofline of profile NAME" or
 * "roofline"); the share of the time that rests on each basis. */
double      engine_step_ns(const Engine *engine, int64_t accumulate);
/* The predicted time from a plan's sum of node times and its arena; a tight arena is slower
 * (docs/TIME.md). Plans are compared by their sums; reports show the prediction. */
double      engine_forecast_ns(const Engine *engine, double sum_ns, int64_t arena_bytes);
double      engine_saved(const Engine *engine); /* share of keep_all_bytes that the plan does not
                                                  * need */
/* A factor on predicted times that are shown, never on those that plans are chosen by
 * (profile/pace.h). */
double      engine_pace(const Engine *engine);
const char *engine_time_source(const Engine *engine);
double      engine_time_share(const Engine *engine, TimeBasis basis);
/* E_BUDGET: the message gives the smallest arena found, and *engine is the plan that has it. Asking
 * for that budget succeeds. */
Err         engine_new(Pool *pool, Graph *graph, const Device *device, const EngineOptions *options,
                       Engine **engine);

/* What running and showing an engine needs, and choosing it does not: buffers moved apart on a GPU
 * (layout_spread; not those whose offsets were given), and phase_bytes. */
Err engine_finish(Engine *engine, bool spread);

/* What one rank of several moves in a step, and how much of that time it waits (engine_ranks.c). */
typedef struct EngineMoving {
    int64_t bytes;               /* that it sends; it receives as many */
    double  moving_ns, waits_ns; /* as predicted and shown: scaled by engine_pace */
} EngineMoving;

EngineMoving engine_moving(const Engine *engine, int64_t rounds); /* micro-batches of a rank */

/* Host bytes left for slots; 0: no limit; 1, too little for any slot, if state takes it all. */
int64_t engine_slots_budget(const Engine *engine);

/* Are both arenas within their budgets: the device's (0: none), and what may be pinned on the
 * host? */
bool engine_fits(const Engine *engine, int64_t budget_bytes);
/* For what runs with everything kept: E_BUDGET where its arena is larger than the budget (0: none).
 * what: what needs it; remedy NULL: only a larger budget helps. */
Err engine_within(const Engine *engine, int64_t budget_bytes, const char *what, const char *remedy);

/* Lower bounds for every plan of this graph with these algorithms, in any order and with any
 * recomputation (plan/prove.h): the time of a step within the budget, and the bytes. limit_s limits
 * the integer program, if CBC is installed. */
typedef struct EngineProof {
    double  cost_ns;
    int64_t bytes;
    bool    reached; /* the engine's plans meet cost_ns */
} EngineProof;

Err engine_prove(Pool *pool, const Engine *engine, int64_t budget_bytes, double limit_s,
                 EngineProof *proof);

/* The device that runs a node: the device itself, or the one with the builtin backend. */
const Device *engine_device(const Engine *engine, int32_t node);

/* Writes the plan as members of an open JSON object: device, choices, phases with steps and
 * offsets, figures. engine_read makes an engine from such an object and trusts nothing in it: both
 * checkers check steps and offsets again, and the figures must agree. E_PLAN: the plan was made for
 * another graph, device, library or thread count. */
void engine_write(JsonOut *o, const Engine *engine, int64_t budget_bytes);
Err  engine_read(Pool *pool, const Json *root, Graph *graph, const Device *device,
                 const EngineOptions *options, Engine **engine);

/* For engine*.c and phase_file.c. engine_begin: algorithms chosen, state placed, programs not yet
 * planned; builtin: nodes that run on the builtin backend, or NULL. engine_place: checks a
 * program's plan and places it, or checks the offsets given. engine_count: adds it to the engine's
 * figures. engine_untouched_bytes: persistent values in the arena that a program does not use,
 * padded to the alignment or not. */
Err     engine_begin(Pool *pool, Graph *graph, const Device *device, const EngineOptions *options,
                     const bool *builtin, Engine **engine);
Err     engine_place(Pool *pool, Engine *engine, Program *program, int64_t budget_bytes,
                     const int64_t *offsets, const int64_t *slots);
void    engine_count(Engine *engine, Program *program);
int64_t engine_untouched_bytes(const Engine *engine, const Program *program, bool padded);

/* The planner's view of some phases of a graph (plan/from_graph.c). */
Err pgraph_from_graph(Pool *pool, const Graph *graph, const bool *phases, const Choice *choices,
                      const double *node_ns, const Device *device, Program *program);

#endif
