/* graph.h -- the graph: values, the nodes that produce them, and what each value is for.
 *
 * A Graph is built by models (forward), by autodiff (backward and update) and read by plan, exec
 * and report. Everything lives in the graph's pool; values and nodes are referred to by id.
 *
 *   - A Tensor is a value's handle; it knows its graph, so that builder calls nest.
 *   - A builder that is misused returns a poisoned tensor, which later calls pass along;
 *     graph_check reports the first cause. So model files carry no error handling.
 *   - A value without a producer is persistent: parameters, state, constants; or it is gathered
 *     from the ranks of a run. All others are produced by exactly one node. A node may also write persistent values it reads (an update):
 *     they are then among both its inputs and its outputs, and the node runs once per repeat of its
 *     phase.
 *   - Nodes are in a valid order of execution within their phase.
 */
#ifndef IR_GRAPH_H
#define IR_GRAPH_H

#include "base/err.h"
#include "base/pool.h"
#include "device/type.h"
#include "ir/shape.h"

/* What bytes are for; the words are keys in every report (the memory contract, section 1). */
/* clang-format off */
#define CLASS_LIST(X)                         \
    X(CLASS_PARAMETERS,  "parameters")        \
    X(CLASS_GRADIENTS,   "gradients")         \
    X(CLASS_OPTIMIZER,   "optimizer")         \
    X(CLASS_EMA,         "ema")               \
    X(CLASS_MASTER,      "master")            \
    X(CLASS_CONSTANTS,   "constants")         \
    X(CLASS_INPUTS,      "inputs")            \
    X(CLASS_SKIPS,       "skips")             \
    X(CLASS_ATTENTION,   "attention")         \
    X(CLASS_ACTIVATIONS, "activations")       \
    X(CLASS_WORKSPACE,   "workspace")
/* clang-format on */

typedef enum Class {
#define X(name, word) name,
    CLASS_LIST(X)
#undef X
        CLASS_COUNT
} Class;

const char *class_name(Class mem_class);

/* The phases of a run; each is planned on its own over the same persistent values. */
/* clang-format off */
#define PHASE_LIST(X)                                                             \
    X(PHASE_FIRST,    "first",    "once, before the first step")                  \
    X(PHASE_MICRO,    "micro",    "forward and backward of one micro-batch")      \
    X(PHASE_UPDATE,   "update",   "clipping, optimizer, EMA")                     \
    X(PHASE_VALIDATE, "validate", "forward only, on held-out data")               \
    X(PHASE_SAMPLE_BEGIN, "sample_begin", "a sampler's work before its first step") \
    X(PHASE_SAMPLE,   "sample",   "one step of a sampler")                        \
    X(PHASE_SAMPLE_END, "sample_end", "a sampler's work after its last step")
/* clang-format on */

typedef enum Phase {
#define X(name, word, text) name,
    PHASE_LIST(X)
#undef X
        PHASE_COUNT
} Phase;

const char *phase_name(Phase phase);
const char *phase_public_name(Phase phase); /* "sample" for all three of a sampler's */

typedef struct Graph Graph;
typedef struct OpDef OpDef;

typedef struct Tensor {
    Graph  *graph;
    int32_t id; /* value id, TENSOR_NONE or TENSOR_POISONED */
} Tensor;

enum { TENSOR_NONE = -1, TENSOR_POISONED = -2 };

typedef struct Source { /* the line of a model file that built something */
    const char *file;
    int         line;
} Source;

typedef struct Value {
    const char *name; /* parameters, inputs, constants, state; NULL: named after its node */
    Shape       shape;
    int64_t     bytes;    /* of the elements, unpadded; of the view itself, not of its root */
    int64_t     offset;   /* views: bytes from the root's start */
    int32_t     root;     /* the value whose bytes these are: itself, unless a view */
    int32_t     producer; /* node id, or -1 */
    int32_t     module;   /* index into graph->modules */
    Source      source;
    Type        type;
    Class       mem_class;
    bool        persistent;
    /* persistent, and lives in pinned host memory where the device has a memory of its own; it is
     * staged in for the nodes that use it */
    bool        host_resident;
    /* the whole of a bucket of which each rank keeps a shard: gathered for the nodes that use it,
     * and neither persistent nor produced by a node; else NULL */
    const struct Bucket *gathered;
} Value;

typedef struct Node {
    Graph       *graph;
    const OpDef *op;
    void        *attr;     /* op->attr_bytes, the op's own struct */
    int32_t     *in, *out; /* value ids; in may be TENSOR_NONE for an absent optional input */
    int32_t      n_in, n_out;
    int32_t      id;
    int32_t      module;
    int32_t      inplace; /* input whose bytes output 0 takes over, or -1 (graph_take_inplace) */
    Source       source;
    Phase        phase;
    bool         backward; /* added by autodiff for the backward pass */
    bool         once;     /* has an effect on state: never recomputed */
    /* > 0: chunk index in the section that ends in the loss; chunk i runs before i + 1
     * (rewrite/chunk.h) */
    int32_t      chunk;
} Node;

typedef enum InitKind {
    INIT_ZEROS,
    INIT_ONES,
    INIT_CONSTANT,
    INIT_UNIFORM,
    INIT_NORMAL,
    INIT_TRUNCATED,
    INIT_CUSTOM
} InitKind;

typedef struct Init { /* how a parameter starts; numbers come from base/random.h by its name */
    InitKind kind;
    /* CONSTANT: the value; UNIFORM: (-scale, scale); NORMAL: deviation; TRUNCATED: the same,
     * before values beyond two deviations are drawn again */
    float    scale;
    void (*custom)(float *data, Shape shape, uint64_t seed, const void *arg); /* in disk order */
    const void *arg;
} Init;

typedef struct Param {
    const char *name;           /* as on disk */
    Shape       disk;           /* its shape on disk */
    int         axis[MAX_RANK]; /* axis a in the arena is axis[a] on disk */
    bool        permuted;       /* false: the same bytes as on disk */
    Init        init;
    int32_t     value;                   /* used by forward and backward, in the compute type */
    int32_t     grad, m, v, ema, master; /* -1: has none; filled by autodiff/train_graph.c */
    int32_t     stands; /* the last value that stood in for it (Graph.stand_in), or -1 */
    int32_t     group;  /* of the optimizer */
    int32_t     bucket; /* of Graph.buckets, and its place there; -1: none */
    int32_t     place;
    bool        widens;  /* a file may have fewer columns (axis 1): the rest start as 0 */
    bool        frozen;  /* the recipe asks not to train it */
    bool        trained; /* has a path to the loss and is not frozen */
} Param;

/* Trained parameters whose gradients the ranks of a run exchange together. Their elements lie in a
 * row, each parameter from a multiple of BUCKET_ALIGN on, and are divided among the ranks at
 * borders of blocks: BLOCK_ELEMENTS of one parameter, which a norm sums together. The part of one
 * rank is its shard. What a rank keeps of a bucket has room for the largest shard, so that one plan
 * holds for all ranks. */
enum { BLOCK_ELEMENTS = 1 << 16, BUCKET_ALIGN = 16 };

typedef struct Bucket {
    int      ranks, n;          /* n: parameters */
    int32_t *params;            /* indices into Graph.params */
    int64_t *first;             /* [n] where each begins, in elements */
    int64_t  total;             /* elements of all, padded */
    int64_t *border;            /* [ranks + 1] rank r has border[r] to border[r + 1] */
    int64_t  shard;             /* elements of the largest shard */
    Type     type;              /* of the parameters */
    int32_t  sum;               /* value: this rank's shard of the gradients' sum */
    int32_t  m, v, ema, master; /* values: shards of state; -1: whole on every rank, or none */
    int32_t  own;               /* value: the shard of the parameters; -1: whole on every rank */
    int32_t  whole; /* value: the average, gathered in the phase being built; -1: not yet */
} Bucket;

typedef struct Constant { /* a persistent value with given content, or zeros when data is NULL */
    int32_t     value;
    const void *data;  /* in the graph's pool, value bytes */
    bool        saved; /* in checkpoints (batch-norm statistics, counters) */
    uint64_t    hash;  /* of its name: makes the search among thousands fast */
} Constant;

typedef struct Output { /* a value the host reads after its phase has run */
    const char *name;
    int32_t     value;
    Phase       phase;
} Output;

typedef struct Module {
    const char *path; /* "blocks.3.attn"; "" is the whole model */
    int32_t     parent;
} Module;

/* Which form of the same computation builders choose, beyond what a model says. Fixed while a phase
 * is built. */
typedef struct BuildOptions {
    bool    given_noise;      /* noise and timesteps are fed, to compare with other programs */
    bool    own_context;      /* with given_noise: a model's fixed context is not fed */
    bool    stored_attention; /* attention keeps its probabilities instead of recomputing them */
    bool    subpixel;         /* 3x3 convolutions of upsampled maps read the small map */
    int64_t split;            /* above 1: a recipe's micro-batch is split into so many, and a
                                  * loss that counts its elements must count over all of them */
    bool    counts_given;     /* such a loss is given its count although the micro-batch is whole,
                                  * because it may run in chunks */
} BuildOptions;

struct Graph {
    Pool               *pool;
    Type                compute; /* type of parameters and activations: F32, BF16 or F16 */
    const BuildOptions *build;   /* never NULL */
    Value              *values;
    Node               *nodes;
    Param              *params;
    Constant           *constants;
    Module             *modules;
    Output             *outputs;
    Bucket            **buckets; /* of a graph for several ranks */
    int32_t             n_values, n_nodes, n_params, n_constants, n_modules, n_outputs, n_buckets;
    int32_t cap_values, cap_nodes, cap_params, cap_constants, cap_modules, cap_outputs, cap_buckets;

    /* Where the next node goes. */
    int32_t  module; /* of the innermost scope */
    int32_t *scopes; /* modules to go back to, the innermost scope's last */
    int32_t  n_scopes, cap_scopes;
    Source   source;
    Phase    phase;
    bool     backward;
    int32_t  chunk;
    /* What param_add returns for an existing parameter in the phase being built, e.g. its average.
     * NULL: the parameter itself. */
    Tensor (*stand_in)(Graph *graph, Param *param);
    int32_t gathered_last; /* the newest Bucket.whole, or -1: one is gathered after another */
    /* Sampling phases: results that this rank draws at once, and all ranks together; 0: the same */
    int64_t drawn_here, drawn_all;

    Err  error; /* the first misuse, with its sentence */
    char error_text[512];
};

/* Of a node with so many samples along an axis: how many all ranks have there. Kernels whose choice
 * changes bits are chosen by it, so that a result does not depend on the number of ranks. */
int64_t node_all_samples(const Node *node, int64_t here);

Graph *graph_new(Pool *pool, Type compute); /* builders' defaults */
/* The options are copied into the pool. */
Graph *graph_new_with(Pool *pool, Type compute, const BuildOptions *build);
Err    graph_check(Graph *graph); /* the first misuse, or OK */
Tensor graph_poison(Graph *graph, Err code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Scopes name parameters and modules: scope_open(g, "blocks.%d", i) ... scope_close(g). */
void scope_open(Graph *graph, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void scope_close(Graph *graph);

/* Model files call builders through macros that note the line; layers keep their caller's line. */
static inline Graph *at_line(Graph *graph, const char *file, int line)
{
    graph->source = (Source){ file, line };
    return graph;
}

/* Persistent values. param_add returns an existing parameter of that full name instead of adding a
 * second one, so that a weight used twice, or in two phases, is one weight. The same holds for
 * constants; a phase other than `micro` that needs a constant in another shape (another batch) gets
 * its own. */
Tensor param_add(Graph *graph, const char *name, Shape disk, Init init);
/* fp32 in every precision */
Tensor param_add_f32(Graph *graph, const char *name, Shape disk, Init init);
Tensor param_add_permuted(Graph *graph, const char *name, Shape disk, const int *axis, Init init);
Tensor constant_add(Graph *graph, const char *name, Type type, Shape shape, const void *data,
                    Class mem_class);
Tensor state_add(Graph *graph, const char *name, Type type, Shape shape, Class mem_class,
                 bool saved);
Tensor state_add_from(Graph *graph, const char *name, Type type, Shape shape, const void *start,
                      Class mem_class, bool saved);
Param *param_find(Graph *graph, const char *name); /* by full disk name; NULL if absent */
/* of this value or of one that stands in for it; NULL: none */
Param *param_of(const Graph *graph, int32_t value);
/* From now on each rank keeps its shard of the bucket's parameters. The parameters, and all views of
 * them, become views of a value that is gathered. */
void   graph_divide_params(Graph *graph, Bucket *bucket, const char *name);
/* The bucket whose shards of state this value holds, for this parameter, or of which the parameter
 * itself is divided; NULL: the value has the parameter's own shape. */
const Bucket *param_shards(const Graph *graph, const Param *param, int32_t value);

/* Copies the modules, parameters, constants and state of another graph into an empty one of the
 * same pool; into[v] is the copy of value v of `from`, or TENSOR_NONE. */
void graph_copy_state(Graph *graph, const Graph *from, int32_t *into);

/* One node. Inputs may be TENSOR_NONE where the op allows it. Returns output 0; out may be NULL. */
Tensor node_add(Graph *graph, const OpDef *op, const void *attr, const Tensor *in, int n_in,
                Tensor *out);

#define TENSORS(...)                                                                               \
    (const Tensor[]){ __VA_ARGS__ }, (int)(sizeof((Tensor[]){ __VA_ARGS__ }) / sizeof(Tensor))

/* Reading. */
static inline Value *value_at(const Graph *graph, int32_t id) { return &graph->values[id]; }
/* clang-format off */
static inline bool   tensor_ok(Tensor t)   { return t.id >= 0; }
static inline Tensor tensor_none(Graph *g) { return (Tensor){ g, TENSOR_NONE }; }
/* clang-format on */
Shape                tensor_shape(Tensor t);
Type                 tensor_type(Tensor t);
Tensor               tensor_class(Tensor t, Class mem_class); /* sets its class; returns it */
Tensor               tensor_name(Tensor t, const char *name);
const char *value_text(const Graph *graph, int32_t id); /* a name for people, from the pool */
const char *node_text(const Graph *graph, int32_t id);

/* The host will read t after the current phase has run: it is kept until then. */
void graph_output(Tensor t, const char *name);

/* Lets output 0 of an operator take over its input's bytes where nothing else reads that input. */
void graph_take_inplace(Graph *graph);

bool graph_has(const Graph *graph, const OpDef *op); /* is there a node of it? */

#endif
