/* plimsoll.h -- the planner and the layout as a library: two questions and their answers.
 *
 *   plimsoll_place       where does each buffer lie, so that the arena is smallest?
 *   plimsoll_find_plan   what is kept, run again or copied away, so that a graph runs within a
 *                        budget at the least cost?
 *
 * docs/LIBRARY.md has an example, docs/FORMATS.md (graph.json) the memory rule. Answers are those
 * of `plimsoll layout` and `plimsoll plan`: the same input, seed and effort give the same answer,
 * and each has passed a checker that shares no code with the search. Calls may come from several
 * threads at once, as long as each graph is changed by one of them alone. Sizes are bytes. Running
 * out of memory on the host ends the program.
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

typedef enum plimsoll_status {   /* the program's exit codes */
    PLIMSOLL_OK = 0,
    PLIMSOLL_FAILED = 1,         /* a file or a graph that is not what it should be */
    PLIMSOLL_USAGE = 2,          /* an argument that no call takes */
    PLIMSOLL_DOES_NOT_FIT = 3    /* an answer: the least that was found is there */
} plimsoll_status;

typedef struct plimsoll_error {
    char text[1024];             /* one sentence; "" after PLIMSOLL_OK */
} plimsoll_error;

/* Of the library that is loaded, such as "0.1.0". In every call error may be NULL. Any other NULL
 * that is not allowed is a wrong argument, never a crash. */
PLIMSOLL_API const char *plimsoll_version(void);

/* ---- buffers with lifetimes ---- */

typedef struct plimsoll_buffer {
    int64_t lower, upper;        /* alive at every time t with lower <= t < upper */
    int64_t size;                /* more than 0 */
    int64_t align;               /* offset is a multiple of this; 0 or 1: any */
    int64_t offset;              /* the answer; where fixed: given */
    bool    fixed;
} plimsoll_buffer;

typedef struct plimsoll_place_options {  /* NULL or zeros: the smallest arena, default effort */
    int64_t  capacity;           /* an arena of this size will do; 0: as small as possible */
    int64_t  effort;             /* places tried; 0: about ten seconds, -1: none, greedy only */
    double   time_limit_s;       /* ends the search; 0: no limit */
    uint64_t seed;
} plimsoll_place_options;

typedef struct plimsoll_arena {
    int64_t bytes;               /* the highest end of any buffer */
    int64_t bound_bytes;         /* no arena can be smaller */
    bool    proved;              /* none smaller than bytes exists */
    bool    cut;                 /* the time limit ended the search */
} plimsoll_arena;

/* Fills in every offset. PLIMSOLL_DOES_NOT_FIT: the capacity was not reached, and the offsets are
 * those of the smallest arena found. After any other failure buffers are as they were. */
PLIMSOLL_API plimsoll_status plimsoll_place(plimsoll_buffer *buffers, size_t n,
                                            const plimsoll_place_options *options,
                                            plimsoll_arena *arena, plimsoll_error *error);

/* ---- graphs ---- */

/* Values and nodes have numbers from 0 in the order in which they are added. Nodes are added in an
 * order in which they can run. An argument that makes no sense is remembered, -1 returned, and
 * plimsoll_find_plan says the first of them: building needs no checks. */
typedef struct plimsoll_graph plimsoll_graph;

enum {                           /* of a value */
    PLIMSOLL_PERSISTENT = 1,     /* there before the first node, and always: a parameter */
    PLIMSOLL_FINAL = 2,          /* wanted at the end */
    PLIMSOLL_HOST_RESIDENT = 4          /* at home on the host: loaded to be read, saved when written */
};

PLIMSOLL_API plimsoll_graph *plimsoll_graph_new(void);
PLIMSOLL_API plimsoll_status plimsoll_graph_read(const char *path, plimsoll_graph **graph,
                                                 plimsoll_error *error);
PLIMSOLL_API plimsoll_status plimsoll_graph_write(const plimsoll_graph *graph, const char *path,
                                                  plimsoll_error *error);
PLIMSOLL_API void plimsoll_graph_free(plimsoll_graph *graph);

PLIMSOLL_API int32_t plimsoll_value(plimsoll_graph *graph, int64_t bytes, unsigned flags);
/* Another look at a value's bytes: it has none of its own and keeps them alive. */
PLIMSOLL_API int32_t plimsoll_view(plimsoll_graph *graph, int32_t of, unsigned flags);
/* It runs exactly once where an output is persistent or also an input; else it may run again. */
PLIMSOLL_API int32_t plimsoll_node(plimsoll_graph *graph, double cost, int64_t workspace,
                                   const int32_t *inputs, int32_t n_inputs,
                                   const int32_t *outputs, int32_t n_outputs);
PLIMSOLL_API void plimsoll_once(plimsoll_graph *graph, int32_t node);     /* never run again */
/* The output takes over the input's bytes, and the input is dead after the node. */
PLIMSOLL_API void plimsoll_in_place(plimsoll_graph *graph, int32_t node, int32_t output,
                                    int32_t input);
PLIMSOLL_API void plimsoll_align(plimsoll_graph *graph, int64_t bytes);   /* of offsets; else 1 */
/* Values may be copied to the host and back, so many bytes to a unit of cost. */
PLIMSOLL_API void plimsoll_bandwidth(plimsoll_graph *graph, double to_host, double to_device);

PLIMSOLL_API int32_t     plimsoll_values(const plimsoll_graph *graph);    /* how many */
PLIMSOLL_API int32_t     plimsoll_nodes(const plimsoll_graph *graph);
PLIMSOLL_API const char *plimsoll_value_name(const plimsoll_graph *graph, int32_t value);
PLIMSOLL_API const char *plimsoll_node_name(const plimsoll_graph *graph, int32_t node);

/* ---- plans ---- */

typedef struct plimsoll_plan_options {   /* NULL or zeros: everything kept */
    int64_t  budget_bytes;       /* of live_bytes, or of arena_bytes where place is set; 0: none */
    int64_t  host_budget_bytes;  /* of copies on the host; 0: none */
    int64_t  effort;             /* moves tried; 0: about ten seconds on two cores */
    double   time_limit_s;       /* ends the search; 0: no limit */
    uint64_t seed;
    bool     place;              /* give every value its place in one arena */
} plimsoll_plan_options;

typedef enum plimsoll_step_kind {
    PLIMSOLL_RUN,                /* a node, the first time or again */
    PLIMSOLL_DROP,               /* a value's bytes are free again */
    PLIMSOLL_SAVE,               /* begin to copy a value to the host */
    PLIMSOLL_LOAD,               /* begin to copy it back: its bytes are taken from here on */
    PLIMSOLL_WAIT,               /* until its copy has ended */
    PLIMSOLL_FREE_HOST           /* its bytes on the host are free again */
} plimsoll_step_kind;

typedef struct plimsoll_step {
    plimsoll_step_kind kind;
    int32_t            id;       /* of a run: the node; else the value */
} plimsoll_step;

typedef struct plimsoll_live_range {   /* bytes of the arena that a value has for a while */
    int32_t value;               /* no view; -1: workspace of a node */
    int32_t node;                /* that node, or -1 */
    int32_t first_step, last_step;       /* both included */
    int64_t offset, bytes;
} plimsoll_live_range;

typedef struct plimsoll_plan {   /* to be read; fields are only ever added at the end */
    const plimsoll_step *steps;
    size_t               n_steps;
    const plimsoll_live_range *live_ranges;  /* where place was set: persistent values first, then by
                                  * first_step; nothing of 0 bytes */
    size_t               n_live_ranges;
    int64_t              live_bytes;     /* the largest sum of what is there at once */
    int64_t              arena_bytes;    /* where place was set: the highest end of any stay */
    int64_t              host_bytes;     /* the largest sum of copies on the host */
    int64_t              bound_bytes;    /* no plan can do with less */
    double               cost, base_cost;        /* of all runs and waits; of each node once */
    bool                 cut;            /* the time limit ended the search */
} plimsoll_plan;

/* PLIMSOLL_DOES_NOT_FIT: *plan is the plan of least memory found, and the sentence names it. After
 * any other failure *plan is NULL. */
PLIMSOLL_API plimsoll_status plimsoll_find_plan(const plimsoll_graph *graph,
                                                const plimsoll_plan_options *options,
                                                plimsoll_plan **plan, plimsoll_error *error);
PLIMSOLL_API void plimsoll_plan_free(plimsoll_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
