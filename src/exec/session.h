/* session.h -- an engine with its arena: weights in, steps run, numbers out.
 *
 * session_new takes the arena and resolves every pointer of every step; session_run is then a loop
 * over launches that allocates nothing. On a device that can, a part's launches are recorded on its
 * first run and replayed as one from then on. Saves and loads of a plan run on the device's own
 * queues, beside the kernels. The meter notes the highest end of every pointer it hands to a
 * kernel; it knows nothing of the plan, and must agree with it to the byte. */
#ifndef EXEC_SESSION_H
#define EXEC_SESSION_H

#include "plan/engine.h"

typedef struct Session Session;

Err session_new(Pool *pool, const Engine *engine, Session **session);

/* Starting values (exec/session_weights.c): parameters by their init rules, constants, state, copies. */
Err session_init(Session *session, uint64_t seed);
/* All but parameters and their copies: for who sets every one of those next. */
Err session_init_state(Session *session, uint64_t seed);
/* A parameter in disk order and fp32; its master copy is set with it. */
Err session_set_param(Session *session, int32_t param, const float *disk);
/* The same for one value that has the parameter's shape: its EMA, a moment, its master copy (then
 * the parameter is rounded from it). disk need not be aligned. */
Err session_put_param(Session *session, int32_t param, int32_t value, const void *disk);
Err session_get_param(Session *session, int32_t param, int32_t value, float *disk);

/* All bytes of a persistent value. */
Err    session_read(Session *session, int32_t value, void *to);
Err    session_write(Session *session, int32_t value, const void *from);
/* in place: only where the arena is the host's own */
void  *session_bytes(Session *session, int32_t value);
/* Host bytes of an input, kept by the caller: of one part, or of every part that has one of that
 * name. */
Err    session_feed_phase(Session *session, Phase phase, const char *name, const void *data);
Err    session_feed(Session *session, const char *name, const void *data);

/* Records every part that has inputs to run with, before any has run, so that all the device holds
 * is held and can be counted. Nothing where nothing is recorded. */
Err    session_prepare(Session *session);

/* Takes the part's inputs now rather than when it runs: beside a run that is still under way, which
 * the host then need not wait for first. */
Err    session_ready(Session *session, Phase phase);

/* Runs one part. Where micro and update are one program (gradients not accumulated), run both, in
 * this order: the plan may have some updates come before the last gradients. */
Err    session_run(Session *session, Phase phase);

/* Benches and tests: records without branches, every launch after the one before it. The results
 * are the same bits. */
void   session_one_lane(Session *session);

/* Bytes of a graph output (ir/graph.h), on the host, good after its part has run and until the next
 * run; NULL if the graph has none of that name or the device failed. */
const void *session_output(Session *session, const char *name);
const void *session_output_at(Session *session, int32_t output);     /* by its place in the graph */

/* Runs the part once and writes each node's time, of its last run where it runs again; by the
 * device's own clock where it has one. For benches and profiles. */
Err session_profile(Session *session, Phase phase, double *ns);
/* Runs it once; how long its kernels waited for copies to and from the host. */
Err session_waits(Session *session, Phase phase, double *ns);

/* Runs the part again, looking at every float written; the first that is not finite, or NULL. For
 * after the fact: it is slow and may allocate. */
const char *session_first_bad(Session *session, Phase phase);

/* highest end handed out; 0: never ran */
int64_t session_measured_bytes(const Session *session, Phase phase);
int64_t session_planned_bytes(const Session *session, Phase phase);  /* what the layout says for it */
/* the same of the host arena, over all parts */
int64_t session_measured_host_bytes(const Session *session);
const Arena  *session_arena(const Session *session);
const Engine *session_engine(const Session *session);

/* Tests: from now on, copy the value's bytes out right after any run that makes it. */
Err    session_watch(Session *session, int32_t value, void *copy);

#endif
