/* session.h -- an engine with its arena: set weights, run phases, read results.
 *
 * session_new allocates the arena and resolves every pointer of every step. session_run is then a
 * loop over launches that allocates nothing. On a device with CUDA graphs, the launches of a phase
 * are captured on its first run and launched as one graph from then on. The plan's saves and loads
 * run on the device's copy queues, beside the kernels. The meter notes the highest end of every
 * pointer given to a kernel; it knows nothing of the plan, and the two must agree to the byte. */
#ifndef EXEC_SESSION_H
#define EXEC_SESSION_H

#include "plan/engine.h"

typedef struct Session Session;

Err session_new(Pool *pool, const Engine *engine, Session **session);

/* Starting values (exec/session_weights.c): parameters by their init rules, constants, state and
 * copies of parameters. */
Err  session_init(Session *session, uint64_t seed);
/* The starting values of one parameter, in disk order. */
void param_start(const Param *param, uint64_t seed, float *disk);
/* The same without parameters and their copies, for callers that set all of those next. */
Err  session_init_state(Session *session, uint64_t seed);
/* A parameter in disk order and fp32; its master copy is set with it. */
Err  session_set_param(Session *session, int32_t param, const float *disk);
/* The same for one value of the parameter's shape: its EMA, a moment, or its master copy (the
 * parameter is then rounded from it). disk need not be aligned. */
Err  session_put_param(Session *session, int32_t param, int32_t value, const void *disk);
Err  session_get_param(Session *session, int32_t param, int32_t value, float *disk);
/* The same for one rank only, which saves transfers where the value is divided among ranks. All
 * ranks call both for such a value. */
Err  session_get_param_at(Session *session, int rank, int32_t param, int32_t value, float *disk);
/* From the bytes of such a value, in arena order and its own type. */
void param_to_disk(const Param *param, const Value *value, const void *arena, float *disk);

/* All bytes of a persistent value. */
Err   session_read(Session *session, int32_t value, void *to);
Err   session_write(Session *session, int32_t value, const void *from);
/* The value's bytes themselves; only where the arena is in host memory. */
void *session_bytes(Session *session, int32_t value);
/* Host bytes of an input, owned by the caller: for one phase, or for every phase with an input of
 * that name. */
Err   session_feed_phase(Session *session, Phase phase, const char *name, const void *data);
Err   session_feed(Session *session, const char *name, const void *data);

/* Captures every phase whose inputs are all set, before any of them has run, so that the device's
 * memory is in use and can be counted. Does nothing on a device without CUDA graphs. */
Err session_prepare(Session *session);

/* Stages the phase's inputs now instead of when it runs. An earlier run may still be under way, and
 * the host need not wait for it. */
Err session_stage(Session *session, Phase phase);

/* Runs one phase. Where micro and update are one program (gradients not accumulated), run both, in
 * this order: the plan may put some updates before the last gradients. */
Err session_run(Session *session, Phase phase);

/* Benchmarks and tests: captures without branches, every launch after the one before it. The
 * results are the same to the bit. */
void session_one_lane(Session *session);

/* Bytes of a graph output (ir/graph.h) on the host, valid after its phase has run and until the
 * next run. NULL if the graph has no output of that name or the device failed. */
const void *session_output(Session *session, const char *name);
const void *session_output_at(Session *session, int32_t output); /* by its index in the graph */

/* Runs the phase once and writes the time of each node, by the device's clock where it has one. A
 * recomputed node has the time of its last run. For benchmarks and profiles. */
Err session_profile(Session *session, Phase phase, double *ns);
/* Runs the phase once and returns how long its kernels waited for copies to and from the host. */
Err session_copy_wait_ns(Session *session, Phase phase, double *ns);

/* Runs the phase again and checks every float it writes. Returns the first tensor that is not
 * finite, with its place among the phase's steps, or NULL. Of several ranks, all call it. Slow, and
 * may allocate: for diagnosis only. */
const char *session_first_nonfinite(Session *session, Phase phase, int32_t *place);

/* The highest end given to a kernel; 0: the phase never ran. */
int64_t       session_measured_bytes(const Session *session, Phase phase);
int64_t       session_planned_bytes(const Session *session, Phase phase); /* by the layout */
/* The same for the host arena, over all phases. */
int64_t       session_measured_host_bytes(const Session *session);
const Arena  *session_arena(const Session *session);
const Engine *session_engine(const Session *session);

/* To compare with other programs: from now on, copies the value's bytes out right after every node
 * that produces it. Slow; a phase is no longer launched as a CUDA graph. */
Err session_watch(Session *session, int32_t value, void *copy);

#endif
