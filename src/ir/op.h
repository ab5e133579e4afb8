/* op.h -- what an operator is: rules and kernels. ir defines the form, ops/ holds the operators.
 *
 * There is no list of saved tensors: a value must be kept if a node of a gradient rule reads it.
 */
#ifndef IR_OP_H
#define IR_OP_H

#include "device/device.h"
#include "ir/graph.h"

/* A node's algorithm, written into the plan; valid for one library version and thread count. */
typedef struct Choice {
    uint64_t    algo[8];         /* private to the kernel */
    size_t      workspace_bytes; /* exact */
    const char *name;            /* for reports: "brgconv", "builtin" */
    bool        builtin;         /* the builtin backend runs it although the device prefers another,
                                  * because it needs less workspace */
} Choice;

typedef struct Call { /* one launch; every pointer was placed by layout/ */
    const Node   *node;
    const Device *device;
    const Choice *choice;
    void        **in, **out; /* NULL for an absent optional input or unused output */
    void         *workspace;
    void         *prepared; /* the result of prepare */
    const void   *feed;     /* feed nodes: the bytes the host gave for this repeat */
} Call;

typedef struct Kernel Kernel;
struct Kernel {
    Err (*choose)(const Node *, const Device *, Choice *); /* before planning; NULL: no workspace */
    Err (*prepare)(Pool *, Call *);                        /* once per node; may be NULL */
    Err (*run)(const Call *);                              /* every step; allocates nothing */
    /* Runs consecutive, independent nodes of one operator (updates of parameters) together, with
     * the same bits as run of each. May be NULL. */
    Err (*run_all)(const Call *const *, int n);
};

typedef struct Cost {
    double flops, bytes; /* arithmetic and memory traffic of one run */
} Cost;

typedef struct Grad Grad;

/* How an operator runs chunk by chunk (rewrite/chunk.h). A tensor is sliced along its first axis
 * longer than one, so that a chunk is contiguous. The promise: chunk i of every output depends only
 * on chunk i of the inputs listed and on the other inputs whole. */
typedef enum ChunkBy {
    CHUNK_NEVER,
    CHUNK_ELEMENTS,      /* element by element: every input has the output's shape */
    CHUNK_ROWS,          /* row by row of input 0: the last axis stays whole */
    CHUNK_SAMPLES,       /* sample by sample: along axis 0 */
    CHUNK_CHEAP_SAMPLES, /* the same, and cheap enough per sample for the rows of a loss */
    CHUNK_MEAN_LOSS,     /* a mean over all elements */
    CHUNK_COUNTED_LOSS,  /* a sum over rows, divided by a count that is the last input */
    CHUNK_CUSTOM,        /* as .fit decides */
} ChunkBy;

typedef struct ChunkCall { /* the node of one chunk, being built */
    const Node *node;      /* the whole node */
    int64_t     n;         /* chunks */
    int         axis;      /* along which the inputs are sliced */
    uint32_t   *inputs;    /* which are sliced: .fit may add some */
    void       *attr;      /* a copy of the node's attribute, which .fit adapts to a chunk */
} ChunkCall;

typedef struct ChunkDef {
    ChunkBy  by;
    /* INPUT(i) | ...: sliced; CHUNK_ELEMENTS: all of them; CHUNK_CUSTOM, 0: .fit adds them */
    uint32_t inputs;
    bool (*fit)(const ChunkCall *call); /* false: no; NULL: the attribute is unchanged */
} ChunkDef;

#define INPUT(i)   (1u << (i))
#define ALL_INPUTS UINT32_MAX

int   chunk_axis(Shape s);               /* the first axis longer than one; -1: none */
bool  chunk_divides(Shape s, int64_t n); /* into n equal chunks along that axis */
Shape chunk_shape(Shape s, int64_t n);

/* What the textbook form of an operator would keep for its gradient and this form does not. */
typedef struct NeverStored {
    const char *what, *reason; /* what NULL: nothing */
    int64_t (*bytes)(const Node *node);
} NeverStored;

/* Which measured rate bounds an operator's arithmetic (profile/profile.h). */
typedef enum RateKind { RATE_MATMUL, RATE_CONV, RATE_KINDS } RateKind;

struct OpDef {
    const char *name, *doc;
    int         id; /* its place in every table of operators (ops/ops.h) */
    int         attr_bytes;
    int         n_in, n_out; /* n_in < 0: any number, at least -n_in */
    int         inplace;     /* IN_PLACE_OF(i): output 0 may take input i's bytes; 0: never */
    /* the same where it depends on the node; NULL: it does not */
    bool (*may_take)(const Node *, int input);
    bool view;  /* output 0 shares input 0's bytes; no kernel runs */
    bool once;  /* has an effect on state: never recomputed */
    bool sends; /* starts a transfer between ranks (PNode.wire) */
    int  joins; /* waits for the transfer that output input joins - 1; 0: none */
    /* bytes that each rank gives to each other one, at most: in that transfer, or, if it starts
     * none, as a record that the node itself waits for. NULL: it gives nothing */
    int64_t (*gives)(const Node *);
    Err (*shape)(Node *);       /* type and shape of every output, by out_set */
    void (*grad)(Grad *);       /* builds the backward nodes; NULL: not differentiable */
    Cost (*cost)(const Node *); /* a model; a measured profile overrides it */
    int          rate;          /* RateKind of its arithmetic; RATE_MATMUL unless a convolution */
    /* computes the same by another algorithm: its times stand in where a profile lacks this
     * one's */
    const OpDef *kin;
    ChunkDef     chunk;
    bool         makes_batch; /* axis 0 of its result counts samples: input data, random numbers */
    NeverStored  never_stored;
    /* What reports call the operator's own algorithm where another operator computes the same by
     * another; NULL: the kernel's choice says it. */
    const char  *algorithm;
    Kernel       cpu;
    /* How many partial column sums of output 0 the node can write beside it (node_partial_sums);
     * NULL or 0: none. */
    int64_t (*partial_sums)(const Node *);
};
/* graph_take_inplace makes use of it where nothing else reads the input. */
#define IN_PLACE_OF(i) ((i) + 1)

/* Reading a node inside a rule. */
Shape  in_shape(const Node *n, int i);
Type   in_type(const Node *n, int i);
Shape  out_shape(const Node *n, int i);
Type   out_type(const Node *n, int i);
bool   in_given(const Node *n, int i); /* false for an absent optional input */
double in_bytes(const Node *n, int i); /* 0 if absent */
double out_bytes(const Node *n, int i);
double node_bytes(const Node *n); /* all inputs and outputs once: minimum traffic */
double in_count(const Node *n, int i);
void   out_set(Node *n, int i, Type type, Shape shape);
/* output i is the (persistent) value of that input */
void   out_is_input(Node *n, int i, int input);
void   out_view(Node *n, int64_t offset_bytes, Type type, Shape shape);
void   out_class(Node *n, int i, Class mem_class);
void   in_class(Node *n, int i, Class mem_class); /* if it is an activation so far */
#define ATTR(n, T) ((const T *)(n)->attr)

/* Partial column sums: fp32 sums of the columns of x (its last axis), as rounded to x's type, over
 * blocks of rows; together they add up to the sum over all rows. Where x's producer can write them,
 * it gets one more output than its operator has, and that is returned. Otherwise x itself is. */
Tensor node_partial_sums(Tensor x);
float *call_partial_sums(const Call *call); /* where to write them; NULL: not asked for */

/* Building the gradient of one node; called by autodiff/. */
struct Grad {
    Graph      *graph;
    const Node *node;   /* the forward node; ids stay valid, pointers move as nodes are added */
    Tensor     *dy;     /* per output: its gradient, or none */
    Tensor     *dx;     /* per input: filled by grad_give */
    bool       *wants;  /* per input: is its gradient needed? */
    Tensor     *so_far; /* per input: the sum so far, if a rule may add to it, or none */
    Tensor     *parts;  /* per input: the gradient so far in any form, or none */
    bool       *summed; /* per input: dx includes the gradient so far */
};
Tensor grad_in(const Grad *g, int i);
Tensor grad_out(const Grad *g, int i);
Tensor grad_dy(const Grad *g, int i);
bool   grad_wants(const Grad *g, int i);
void   grad_give(Grad *g, int i, Tensor d); /* d may be none */
/* For operators that can add to an existing gradient: the sum so far, of the input's shape and that
 * type (fp32 for a weight), or none; and the new sum, of the same type, which replaces it. */
Tensor grad_so_far(const Grad *g, int i, Type type);
void   grad_give_sum(Grad *g, int i, Tensor sum);
/* For readers that each read a slice of the input of their own: the slices so far, of any type, or
 * none; and the slices with this node's added, which replace them. */
Tensor grad_parts(const Grad *g, int i);
void   grad_give_parts(Grad *g, int i, Tensor parts);

#endif
