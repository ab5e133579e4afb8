/* plimsoll.h -- the planner, the layout solver and a model of PyTorch's allocator as a library.
 *
 *   plimsoll_place       where does each buffer lie, so that the arena is as small as possible?
 *   plimsoll_find_plan   what is kept, recomputed or offloaded, so that a graph runs within a
 *                        budget at the lowest cost?
 *   plimsoll_torch_replay  what does PyTorch's CUDA allocator reserve for a list of requests?
 *
 * docs/user/LIBRARY.md has an example; docs/user/FORMATS.md (graph.json) has the memory rule. The
 * answers are those of `plimsoll layout` and `plimsoll plan`: the same input, seed and effort give
 * the same answer, and each has passed a checker that shares no code with the search. Several
 * threads may call at the same time, but only one may change a given graph. Sizes are in bytes. If
 * host memory runs out, a call returns PLIMSOLL_FAILED.
 */
#ifndef LIB_PLIMSOLL_H
#define LIB_PLIMSOLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PLIMSOLL_API __attribute__((visibility("default")))

typedef enum plimsoll_status { /* equal to the program's exit codes */
                               PLIMSOLL_OK = 0,
                               PLIMSOLL_FAILED = 1, /* a file or a graph is wrong */
                               PLIMSOLL_USAGE = 2,  /* an argument is wrong */
                               PLIMSOLL_DOES_NOT_FIT =
                                   3 /* a valid answer: the smallest that was found */
} plimsoll_status;

typedef struct plimsoll_error {
    char text[1024]; /* one sentence; "" after PLIMSOLL_OK */
} plimsoll_error;

/* The version of the loaded library, such as "0.1.0". In every call error may be NULL. Any other
 * NULL that is not allowed is a wrong argument, never a crash. */
PLIMSOLL_API const char *plimsoll_version(void);

/* ---- buffers with lifetimes ---- */

typedef struct plimsoll_buffer {
    int64_t lower, upper; /* live at every time t with lower <= t < upper */
    int64_t size;         /* more than 0 */
    int64_t align;        /* offset is a multiple of this; 0 or 1: any */
    int64_t offset;       /* the answer; if fixed: given */
    bool    fixed;
} plimsoll_buffer;

typedef struct plimsoll_place_options { /* NULL or zeros: the smallest arena, default effort */
    int64_t  capacity;     /* an arena of this size suffices; 0: as small as possible */
    int64_t  effort;       /* placements tried; 0: about ten seconds, -1: greedy only */
    double   time_limit_s; /* ends the search; 0: no limit */
    uint64_t seed;
} plimsoll_place_options;

typedef struct plimsoll_arena {
    int64_t bytes;       /* the highest end of any buffer */
    int64_t bound_bytes; /* no arena can be smaller */
    bool    proved;      /* no arena smaller than bytes exists */
    bool    cut;         /* the time limit ended the search */
} plimsoll_arena;

/* Fills in every offset. PLIMSOLL_DOES_NOT_FIT: the capacity was not reached, and the offsets are
 * those of the smallest arena found. After any other failure the buffers are unchanged. */
PLIMSOLL_API plimsoll_status plimsoll_place(plimsoll_buffer *buffers, size_t n,
                                            const plimsoll_place_options *options,
                                            plimsoll_arena *arena, plimsoll_error *error);

/* ---- graphs ---- */

/* Values and nodes are numbered from 0 in the order in which they are added. Nodes are added in an
 * order in which they can run. A wrong argument returns -1 and is remembered; plimsoll_find_plan
 * reports the first one, so building needs no checks. */
typedef struct plimsoll_graph plimsoll_graph;

enum {                            /* of a value */
       PLIMSOLL_PERSISTENT = 1,   /* exists before the first node and is always live: a parameter */
       PLIMSOLL_FINAL = 2,        /* must be live at the end */
       PLIMSOLL_HOST_RESIDENT = 4 /* lives on the host: loaded to be read, saved when
                                         * written */
};

PLIMSOLL_API plimsoll_graph *plimsoll_graph_new(void); /* NULL: out of memory */
PLIMSOLL_API plimsoll_status plimsoll_graph_read(const char *path, plimsoll_graph **graph,
                                                 plimsoll_error *error);
PLIMSOLL_API plimsoll_status plimsoll_graph_write(const plimsoll_graph *graph, const char *path,
                                                  plimsoll_error *error);
PLIMSOLL_API void            plimsoll_graph_free(plimsoll_graph *graph);

PLIMSOLL_API int32_t plimsoll_value(plimsoll_graph *graph, int64_t bytes, unsigned flags);
/* A view of a value: it has no bytes of its own and keeps the value's bytes alive. */
PLIMSOLL_API int32_t plimsoll_view(plimsoll_graph *graph, int32_t of, unsigned flags);
/* A node runs exactly once if an output is persistent or also an input; otherwise it may be
 * recomputed. */
PLIMSOLL_API int32_t plimsoll_node(plimsoll_graph *graph, double cost, int64_t workspace,
                                   const int32_t *inputs, int32_t n_inputs, const int32_t *outputs,
                                   int32_t n_outputs);
PLIMSOLL_API void    plimsoll_once(plimsoll_graph *graph, int32_t node); /* never recomputed */
/* The output takes over the input's bytes; the input is dead after the node. */
PLIMSOLL_API void    plimsoll_in_place(plimsoll_graph *graph, int32_t node, int32_t output,
                                       int32_t input);
PLIMSOLL_API void    plimsoll_align(plimsoll_graph *graph, int64_t bytes); /* of offsets; default
                                                                           * 1 */
/* Allows copies to the host and back; in bytes per unit of cost. */
PLIMSOLL_API void    plimsoll_bandwidth(plimsoll_graph *graph, double to_host, double to_device);

PLIMSOLL_API int32_t     plimsoll_values(const plimsoll_graph *graph); /* number of values */
PLIMSOLL_API int32_t     plimsoll_nodes(const plimsoll_graph *graph);
PLIMSOLL_API const char *plimsoll_value_name(const plimsoll_graph *graph, int32_t value);
PLIMSOLL_API const char *plimsoll_node_name(const plimsoll_graph *graph, int32_t node);

/* ---- plans ---- */

typedef struct plimsoll_plan_options { /* NULL or zeros: everything kept */
    int64_t  budget_bytes;      /* limits live_bytes, or arena_bytes if place is set; 0: none */
    int64_t  host_budget_bytes; /* limits copies on the host; 0: none */
    int64_t  effort;            /* moves tried; 0: about ten seconds on two cores */
    double   time_limit_s;      /* ends the search; 0: no limit */
    uint64_t seed;
    bool     place; /* place every value in one arena */
} plimsoll_plan_options;

typedef enum plimsoll_step_kind {
    PLIMSOLL_RUN,      /* run a node, the first time or again */
    PLIMSOLL_DROP,     /* free a value's bytes */
    PLIMSOLL_SAVE,     /* start copying a value to the host */
    PLIMSOLL_LOAD,     /* start copying it back: its bytes are live from here on */
    PLIMSOLL_WAIT,     /* wait until its copy has ended */
    PLIMSOLL_FREE_HOST /* free its bytes on the host */
} plimsoll_step_kind;

typedef struct plimsoll_step {
    plimsoll_step_kind kind;
    int32_t            id; /* node of a run, value of all others */
} plimsoll_step;

typedef struct plimsoll_live_range { /* a live range with its place in the arena */
    int32_t value;                   /* not a view; -1: workspace of a node */
    int32_t node;                    /* that node, or -1 */
    int32_t first_step, last_step;   /* inclusive */
    int64_t offset, bytes;
} plimsoll_live_range;

typedef struct plimsoll_plan { /* read-only; fields are only ever added at the end */
    const plimsoll_step       *steps;
    size_t                     n_steps;
    const plimsoll_live_range *live_ranges; /* if place was set: persistent values first, then by
                                              * first_step; ranges of 0 bytes are left out */
    size_t                     n_live_ranges;
    int64_t                    live_bytes; /* the largest sum of live bytes */
    int64_t arena_bytes;                   /* if place was set: the highest end of any live range */
    int64_t host_bytes;                    /* the largest sum of copies on the host */
    int64_t bound_bytes;                   /* no plan needs less */
    double  cost, base_cost;               /* of all runs and waits; of each node once */
    bool    cut;                           /* the time limit ended the search */
} plimsoll_plan;

/* PLIMSOLL_DOES_NOT_FIT: *plan is the plan with the smallest memory found, and the message names
 * it. After any other failure *plan is NULL. */
PLIMSOLL_API plimsoll_status plimsoll_find_plan(const plimsoll_graph        *graph,
                                                const plimsoll_plan_options *options,
                                                plimsoll_plan **plan, plimsoll_error *error);
PLIMSOLL_API void            plimsoll_plan_free(plimsoll_plan *plan);

/* ---- PyTorch's CUDA caching allocator ---- */

typedef enum plimsoll_torch_action {
    PLIMSOLL_TORCH_ALLOC, /* of bytes, under an id that no live block has */
    PLIMSOLL_TORCH_FREE,  /* of the block with that id */
    PLIMSOLL_TORCH_MARK,  /* torch.cuda.reset_peak_memory_stats() */
    PLIMSOLL_TORCH_EMPTY  /* torch.cuda.empty_cache() */
} plimsoll_torch_action;

typedef struct plimsoll_torch_event {
    int64_t action; /* a plimsoll_torch_action */
    int64_t id;     /* from 0 to the number of events - 1 */
    int64_t bytes;  /* of an alloc, as asked for; more than 0 */
} plimsoll_torch_event;

typedef struct plimsoll_torch_peak { /* from a mark, or the start, to the next */
    int64_t allocated_bytes, reserved_bytes;
    int64_t allocated_event, reserved_event; /* the first event after which it was reached; -1:
                                                at the mark itself */
} plimsoll_torch_peak;

typedef struct plimsoll_torch_block { /* what an alloc was given */
    int64_t segment;                  /* in the order of creation; -1: the event is no alloc */
    int64_t offset, bytes;            /* within the segment; rounded as PyTorch does */
} plimsoll_torch_block;

/* Settings as in PYTORCH_CUDA_ALLOC_CONF; NULL: the defaults. capacity_bytes limits what segments
 * take; 0: no limit. peaks has room for one more than there are marks; blocks, which may be NULL,
 * for one per event. One stream. PLIMSOLL_DOES_NOT_FIT: a request failed, and the message names it;
 * peaks and blocks are filled in up to there. */
PLIMSOLL_API plimsoll_status plimsoll_torch_replay(const char *settings, int64_t capacity_bytes,
                                                   const plimsoll_torch_event *events, size_t n,
                                                   plimsoll_torch_peak  *peaks,
                                                   plimsoll_torch_block *blocks,
                                                   plimsoll_error       *error);

#ifdef __cplusplus
}
#endif
#endif
