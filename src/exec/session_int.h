/* session_int.h -- a session's insides: session_build.c makes them, session.c runs them,
 * session_look.c and weights.c look in. */
#ifndef EXEC_SESSION_INT_H
#define EXEC_SESSION_INT_H

#include "exec/copies.h"
#include "exec/lanes.h"
#include "exec/session.h"
#include "ir/op.h"

typedef struct Launch {          /* one step of a plan: a run, a copy that begins, or its wait */
    Err   (*run)(const Call *);  /* NULL: not a run */
    Err   (*run_all)(const Call *const *, int n);    /* NULL: one by one */
    Call    call;
    Copy   *copy;
    bool    joins;               /* the copy's wait */
    Phase    phase;
    int32_t feed;                /* index into feeds, or -1 */
    int32_t first_end, n_ends;   /* into ends: what this launch was handed */
} Launch;

typedef struct Feed {
    const char *name;
    Phase        phase;
    const void *data;
    /* where the device copies from: a fixed place, so that it can be recorded */
    void       *staged;
    int64_t     bytes;
} Feed;

typedef struct Watch {
    int32_t value;
    void   *copy;
} Watch;

struct Session {
    Pool         *pool;
    const Engine *engine;
    /* the engine's, which may lie in a pool that is freed before this session's */
    const Device *device;
    Arena        *arena;
    Launch       *launches[PHASE_COUNT];      /* of the program that holds the part, in plan order */
    const Call  **calls[PHASE_COUNT];         /* theirs, side by side for run_all */
    /* what running the part means: see session_program */
    int32_t       from[PHASE_COUNT], to[PHASE_COUNT];
    Extent       *extents;
    int32_t       n_extents, cap_extents;
    Feed         *feeds;
    int32_t       n_feeds, cap_feeds;
    Watch        *watches;
    int32_t       n_watches, cap_watches;
    void        **outputs;       /* per graph output */
    void        **read;          /* per graph output, on devices the host cannot read: its copy */
    void         *room;          /* there too: the largest persistent value, on its way in or out */
    void         *cuda_graph[PHASE_COUNT];
    bool          one_lane;      /* of CUDA graphs still to be made */
    /* launch after which the staged feeds have been read, or -1 */
    int32_t       last_feed[PHASE_COUNT];
    void         *read_feeds[PHASE_COUNT];    /* the device's event of that place, or NULL */
    bool          ready[PHASE_COUNT];         /* its inputs were taken before it runs */
    int64_t       measured[PHASE_COUNT];
    char         *host;          /* the host arena, or NULL */
    Copies        copies;
};

/* Host bytes for all of a persistent value: its own in the arena where the host can touch them,
 * else one shared room (session_is_staged) that session_read and session_write copy from and to. */
void *session_room(Session *session, int32_t value);
bool  session_is_staged(const Session *session);

/* Points every feed launch of the part at its bytes. */
Err     session_give(Session *session, Phase phase);
/* How many launches from i on go in one: only operators without workspace or new buffers have
 * run_all, so no drop between them matters. */
int32_t session_together(const Session *session, Phase phase, int32_t i);
Err     session_move(Session *session, Phase phase, const Launch *launch);   /* one that is no run */
/* What this part began and a later one waits for. */
Err     session_settle(Session *session, Phase phase);

#endif
