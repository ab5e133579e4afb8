/* session_int.h -- a session's insides: session_build.c makes them, session.c runs them,
 * session_inspect.c and session_weights.c read them. */
#ifndef EXEC_SESSION_INT_H
#define EXEC_SESSION_INT_H

#include "exec/copies.h"
#include "exec/lanes.h"
#include "exec/session.h"
#include "ir/op.h"

typedef struct Launch {       /* one step of a plan: a run, the start of a copy, or its wait */
    Err (*run)(const Call *); /* NULL: not a run */
    Err (*run_all)(const Call *const *, int n); /* several calls as one; NULL: not possible */
    Call    call;
    Copy   *copy;  /* NULL: a run */
    bool    joins; /* the copy's wait */
    Phase   phase;
    int32_t feed;                    /* index into feeds, or -1 */
    int32_t first_extent, n_extents; /* into extents: the bytes given to this launch */
} Launch;

typedef struct Feed {
    const char *name;
    Phase       phase;
    const void *data;
    void       *staged; /* copied to the device from here: a CUDA graph needs a fixed
                                  * address */
    int64_t     bytes;
} Feed;

typedef struct Watch {
    int32_t value;
    void   *copy;
} Watch;

struct Session {
    Pool         *pool;
    const Engine *engine;
    /* the engine's device: the engine's pool may be freed before the session's */
    const Device *device;
    Arena        *arena;
    Launch       *launches[PHASE_COUNT]; /* of the phase's program, in plan order */
    const Call  **calls[PHASE_COUNT];    /* their calls as an array, for run_all */
    /* the launches of the phase: see session_build_program */
    int32_t       from[PHASE_COUNT], to[PHASE_COUNT];
    Extent       *extents;
    int32_t       n_extents, cap_extents;
    Feed         *feeds;
    int32_t       n_feeds, cap_feeds;
    Watch        *watches;
    int32_t       n_watches, cap_watches;
    void        **outputs; /* per graph output */
    /* on devices whose memory the host cannot read, else NULL: */
    void        **read;        /* per graph output: its copy on the host */
    void         *host_buffer; /* large enough for any persistent value, on its way in or out */
    void         *cuda_graph[PHASE_COUNT];
    bool          one_lane; /* in CUDA graphs captured from now on */
    /* launch after which the staged feeds have been read, or -1 */
    int32_t       last_feed[PHASE_COUNT];
    void         *read_feeds[PHASE_COUNT]; /* event set after last_feed, or NULL */
    bool          staged[PHASE_COUNT];     /* by session_stage, for the next run */
    int64_t       measured[PHASE_COUNT];
    char         *host; /* the host arena, or NULL */
    Copies        copies;
    float        *whole; /* all elements of a parameter whose state is divided among ranks */
};

/* Host bytes for a persistent value: its own bytes in the arena where the host can access them,
 * else the session's one buffer, from and to which session_read and session_write copy. */
void *session_host_buffer(Session *session, int32_t value);
bool  session_has_host_buffer(const Session *session);
/* Where a persistent value lies, on the device or in the host arena. */
void *session_place(const Session *session, int32_t value);
/* session_read and session_write of some of its bytes. */
Err   session_read_at(Session *session, int32_t value, int64_t at, void *to, int64_t bytes);
Err session_write_at(Session *session, int32_t value, int64_t at, const void *from, int64_t bytes);

/* Points every feed launch of the phase at its bytes. */
Err     session_stage_feeds(Session *session, Phase phase);
/* How many launches from i on run as one. Only operators without workspace and without new buffers
 * have run_all, so drops between them do not matter. */
int32_t session_group(const Session *session, Phase phase, int32_t i);
/* Runs a launch that begins or joins a copy. */
Err     session_copy_step(Session *session, Phase phase, const Launch *launch);
/* Joins the copies that this phase began and a later one waits for. */
Err     session_join_pending(Session *session, Phase phase);

#endif
