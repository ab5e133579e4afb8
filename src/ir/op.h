/* op.h -- what an operator is: rules and kernels. ir says the form, ops/ holds the operators.
 *
 * What a gradient rule's nodes read is what must be kept: there is no list of saved tensors.
 */
#ifndef IR_OP_H
#define IR_OP_H

#include "device/device.h"
#include "ir/graph.h"

/* One way to run a node, written into the plan; valid for one library version and thread count. */
typedef struct Choice {
    uint64_t    algo[8];         /* the kernel's own words */
    size_t      workspace_bytes; /* exact */
    const char *name;            /* for reports: "brgconv", "own" */
    bool        builtin;  /* by the own provider although the device prefers another: less workspace */
} Choice;

typedef struct Call {            /* one launch; every pointer was placed by layout/ */
    const Node   *node;
    const Device *device;
    const Choice *choice;
    void        **in, **out;     /* NULL for an absent optional input or unused output */
    void         *workspace;
    void         *prepared;      /* what prepare made */
    const void   *feed;          /* feed nodes: the bytes the host gave for this repeat */
} Call;

typedef struct Kernel Kernel;
struct Kernel {
    Err (*choose)(const Node *, const Device *, Choice *); /* before planning; NULL: no workspace */
    Err (*prepare)(Pool *, Call *);                             /* once per node; may be NULL */
    Err (*run)(const Call *);  /* every step: no allocation, no search */
    /* The same for nodes of one operator that follow one another and need nothing of each other
     * (updates of parameters): to the bit what run of each would do. May be NULL. */
    Err (*run_all)(const Call *const *, int n);
};

typedef struct Cost {
    double flops, bytes;         /* arithmetic and memory traffic of one run */
} Cost;

typedef struct Grad Grad;

/* How an operator runs chunk by chunk (rewrite/chunk.h). A tensor is sliced along its first axis
 * longer than one, so that a chunk is one run of bytes. The promise: chunk i of every output is a
 * function of chunk i of the inputs listed, and of the other inputs whole. */
typedef enum ChunkBy {
    CHUNK_NEVER,
    CHUNK_ELEMENTS,              /* element by element: every input has the output's shape */
    CHUNK_ROWS,                  /* row by row of input 0: the last axis stays whole */
    CHUNK_SAMPLES,               /* sample by sample: along axis 0 */
    CHUNK_CHEAP_SAMPLES,         /* the same, and cheap enough per sample for the rows of a loss */
    CHUNK_MEAN_LOSS,             /* a mean over all elements */
    CHUNK_COUNTED_LOSS,          /* a sum over rows, divided by a count that is the last input */
    CHUNK_CUSTOM,                /* what .fit says */
} ChunkBy;

typedef struct ChunkCall {       /* one chunk's node in the making */
    const Node *node;            /* the whole one */
    int64_t     n;               /* chunks */
    int         axis;            /* that the inputs are sliced along */
    uint32_t   *inputs;          /* which are sliced: .fit may add some */
    void       *attr;            /* a copy of the node's attribute, to be made one chunk's */
} ChunkCall;

typedef struct ChunkDef {
    ChunkBy  by;
    uint32_t inputs;             /* INPUT(i) | ...: sliced; CHUNK_ELEMENTS: all of them */
    bool   (*fit)(const ChunkCall *call);    /* false: not so; NULL: the attribute stays */
} ChunkDef;

#define INPUT(i)   (1u << (i))
#define ALL_INPUTS UINT32_MAX

int   chunk_axis(Shape s);                   /* the first axis longer than one; -1: none */
bool  chunk_divides(Shape s, int64_t n);     /* into n equal chunks along that axis */
Shape chunk_shape(Shape s, int64_t n);

/* What the textbook form of an operator would keep for its gradient and this one does not. */
typedef struct NeverStored {
    const char *what, *reason;               /* what NULL: nothing */
    int64_t   (*bytes)(const Node *node);
} NeverStored;

/* Which measured rate bounds an operator's arithmetic (profile/profile.h). */
typedef enum RateKind { RATE_MATMUL, RATE_CONV, RATE_KINDS } RateKind;

struct OpDef {
    const char *name, *doc;
    int    id;                   /* its place in every table of operators (ops/ops.h) */
    int    attr_bytes;
    int    n_in, n_out;          /* n_in < 0: any number, at least -n_in */
    int    inplace;  /* IN_PLACE_OF(i): output 0 may take over input i's bytes; 0: never */
    bool   view;                 /* output 0 shows input 0's bytes; no kernel runs */
    bool   once;                 /* an effect on state: never a second run */
    Err  (*shape)(Node *);       /* type and shape of every output, by out_set */
    void (*grad)(Grad *);        /* builds the backward nodes; NULL: not differentiable */
    Cost (*cost)(const Node *);  /* a model; a measured profile overrides it */
    int    rate;                 /* RateKind of its arithmetic; RATE_MATMUL unless a convolution */
    /* does the same by another algorithm: a profile that knows only that one judges by it */
    const OpDef *kin;
    ChunkDef    chunk;
    NeverStored never_stored;
    Kernel cpu;
    /* How many lines of column sums of output 0 the node can give beside it (node_partial_sums); NULL or
     * 0: none. */
    int64_t (*partial_sums)(const Node *);
};
/* In place is a permission: graph_take_inplace grants it where nothing else reads the input. */
#define IN_PLACE_OF(i) ((i) + 1)

/* Reading a node inside a rule. */
Shape   in_shape(const Node *n, int i);
Type    in_type(const Node *n, int i);
Shape   out_shape(const Node *n, int i);
Type    out_type(const Node *n, int i);
bool    in_given(const Node *n, int i);          /* false for an absent optional input */
double  in_bytes(const Node *n, int i);          /* 0 if absent */
double  out_bytes(const Node *n, int i);
double  node_bytes(const Node *n);  /* all inputs and outputs once: the least traffic */
double  in_count(const Node *n, int i);
void    out_set(Node *n, int i, Type type, Shape shape);
/* output i is the (persistent) value of that input */
void    out_is_input(Node *n, int i, int input);
void    out_view(Node *n, int64_t offset_bytes, Type type, Shape shape);
void    out_class(Node *n, int i, Class mem_class);
void    in_class(Node *n, int i, Class mem_class);   /* if it was only an activation so far */
#define ATTR(n, T) ((const T *)(n)->attr)

/* Lines: sums of the columns of x (its last axis) over runs of its rows, as rounded to x's type,
 * in fp32; all lines added are the sum over all rows. x's producer gives them beside x where it can:
 * asked for the first time, it gets one more output than its operator names. Else x itself. */
Tensor  node_partial_sums(Tensor x);
float  *call_partial_sums(const Call *call);            /* where to put them; NULL: not asked for */

/* Building the gradient of one node; autodiff/ drives it. */
struct Grad {
    Graph      *graph;
    const Node *node;  /* the forward node; ids stay valid, pointers move as nodes are added */
    Tensor     *dy;              /* per output: its gradient, or none */
    Tensor     *dx;              /* per input: filled by grad_give */
    bool       *wants;           /* per input: is its gradient needed? */
    /* per input: the sum of what it was given before, if a rule may add to it, or none */
    Tensor     *so_far;
    Tensor     *parts;           /* per input: whatever it was given before, or none */
    bool       *summed;          /* per input: dx is that sum with its own share added */
};
Tensor grad_in(const Grad *g, int i);
Tensor grad_out(const Grad *g, int i);
Tensor grad_dy(const Grad *g, int i);
bool   grad_wants(const Grad *g, int i);
void   grad_give(Grad *g, int i, Tensor d);      /* d may be none */
/* For operators that can add to what is there: the sum so far, of the input's shape and that type
 * (fp32 for a weight), or none; and the sum with this node's share, of the same type, which takes
 * its place. */
Tensor grad_so_far(const Grad *g, int i, Type type);
void   grad_give_sum(Grad *g, int i, Tensor sum);
/* For readers that each have a part of the input to themselves: the parts so far, of any type, or
 * none; and the parts with this node's, which take their place. */
Tensor grad_parts(const Grad *g, int i);
void   grad_give_parts(Grad *g, int i, Tensor parts);

#endif
