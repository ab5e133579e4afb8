/* lower.h -- from an exported program to a graph of our operators, one call after another.
 *
 * Each value of the program becomes an Operand: a view of a graph tensor, or a constant that is known
 * on the host. A call whose operands are all constants is computed on the host, in double or int64,
 * and leaves no node: positions, masks and tables. Everything else is built by a function found in
 * a table by the call's target.
 *
 * Calls that write in place are made functional on the way. A value that is a view of another
 * remembers the call that made it; when the viewed value has been written to since, that call is
 * lowered again.
 */
#ifndef IMPORT_LOWER_H
#define IMPORT_LOWER_H

#include "import/exported.h"
#include "import/import_model.h"
#include "import/view.h"

typedef struct HostArray { /* elements of a constant */
    bool     integer;
    double  *f;
    int64_t *i;
    int64_t  n;
} HostArray;

typedef struct Operand {
    bool             set;
    View             view; /* on the host: base is none, and strides are those of `host` */
    const HostArray *host; /* a constant; NULL: a graph tensor */
    ExportedType     type;
} Operand;

typedef struct Alias { /* how a value hangs together with others */
    int32_t root;      /* the value whose elements it shows: itself, unless a view */
    int32_t parent;    /* the value that it is a direct view of; -1: none */
    int32_t version;   /* of the root, when this view was made */
    int32_t written;   /* root: how often it was written to */
    int32_t same;      /* the value that this one is another name of; -1: none */
} Alias;

typedef struct Lower Lower;

typedef Err (*LowerFn)(Lower *l);

typedef struct LowerDef {
    const char *target;
    LowerFn     lower;
    int         with; /* for functions that serve several targets */
    bool        view; /* output i is a view of argument `self` or `input` */
} LowerDef;

extern const LowerDef lower_pointwise[], lower_views[], lower_create[], lower_products[],
    lower_norms[], lower_attention[], lower_reduces[], lower_indices[], lower_randoms[],
    lower_samples[], lower_shifts[], lower_specials[], lower_rnns[], lower_experts[],
    lower_losses[], lower_matrices[], lower_orders[], lower_bags[], lower_linalg[],
    lower_composed[], lower_stablehlo[];

typedef enum PairMode {
    PAIR_SAME,  /* each part of the result follows from the same part of the operands */
    PAIR_SCALE, /* real operands are factors of both parts */
    PAIR_PICK,  /* each complex operand has a part of its own */
} PairMode;

typedef struct ComplexPair { /* of complex numbers, that the call being lowered reads and gives */
    bool     on;
    PairMode mode;
    int      give; /* 0: real, 1: imaginary */
    uint32_t pick; /* PAIR_PICK: the part of the next complex operand is the lowest bit */
} ComplexPair;

struct Lower {
    Pool               *pool;
    Graph              *graph;
    Exported           *program;
    const ImportConfig *config;
    Operand            *items; /* by value; of complex ones, the real parts */
    Operand            *imag;  /* the imaginary parts */
    ComplexPair         parts;
    Alias              *alias;
    const ExportedCall *call; /* that is being lowered */
    const LowerDef     *def;
    /* The calls that read value v: uses[first_use[v]] up to uses[first_use[v + 1]], in order. */
    const int32_t      *first_use, *uses;
    /* By value: the persistent tensor of an input that calls write to; TENSOR_NONE: of no such. */
    int32_t            *kept;
    /* By value: nothing but complex numbers follows from it, so it stays fp32 in every precision, as they
     * do. */
    const bool         *wide;
    bool                wide_call; /* the results of the call being lowered are such, or complex */
    bool                all;     /* for all samples of a micro-batch before its split (lower_all) */
    Lower              *whole;   /* what lower_all has lowered so far; NULL: nothing */
    uint64_t            numbers; /* hash of the whole numbers that the call was given */
    uint64_t           *node_numbers; /* the same by node; of nodes that no call made: 0 */
    int32_t             n_noted, cap_noted;
};

/* ---- arguments of the call being lowered ---- */
const ExportedArg *arg(const Lower *l, const char *name);
bool               arg_given(const Lower *l, const char *name); /* there, and not None */
Err                arg_int(Lower *l, const char *name, int64_t otherwise, int64_t *value);
Err                arg_float(Lower *l, const char *name, double otherwise, double *value);
bool               arg_bool(const Lower *l, const char *name, bool otherwise);
const char        *arg_text(const Lower *l, const char *name, const char *otherwise);
/* A list of whole numbers, into `values`, at most VIEW_RANK; one number counts as a list. *n is 0 if
 * the argument is not given. */
Err                arg_ints(Lower *l, const char *name, int64_t *values, int *n);
/* n numbers: the list, one number for all, or the default. */
Err                arg_fill(Lower *l, const char *name, int n, int64_t otherwise, int64_t *values);
/* Axis of a tensor of this rank; negative ones count from the end. */
Err                arg_axis(Lower *l, const char *name, int rank, int64_t otherwise, int *axis);
/* A list of axes, each at most once. */
Err                arg_axes(Lower *l, const char *name, int rank, int *axes, int *n);
Err                arg_item(Lower *l, const char *name, Operand *item); /* a tensor or a number */
Err                arg_items(Lower *l, const char *name, Operand *items, int max, int *n);
/* The tensor as a view in the graph; a constant becomes one. It must be given. */
Err                arg_view(Lower *l, const char *name, View *view);
/* The parameter's or constant's tensor of this 1-D argument, or none. */
Err                arg_vector(Lower *l, const char *name, Tensor *t);

/* ---- results ---- */
Dims         out_dims(Lower *l, int i, Err *err); /* as the file says, under the present symbols */
ExportedType out_type_of(const Lower *l, int i);
Err          give(Lower *l, int i, Operand item);
Err          give_view(Lower *l, int i, View view); /* checked against the file's size */
/* A tensor whose axes lie in this order (NULL: the file's), of the file's dims. */
Err          give_tensor(Lower *l, int i, Tensor t, const int *order);
/* "aten.conv2d: ... (unet.py:214)": not supported */
Err          refuse(const Lower *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A value's sizes under the present symbols: at most VIEW_RANK, and DIMS_MAX elements. */
Err dims_eval(Lower *l, const ExportedValue *value, Dims *dims);

/* ---- items ---- */
Operand item_none(const Lower *l); /* not set: an argument that is not given */
Operand item_of(const Lower *l, View view, ExportedType type);
Operand item_number(Lower *l, double value);
Operand item_integer(Lower *l, int64_t value);
Operand item_host(Lower *l, ExportedType type, Dims dims,
                  HostArray **array); /* contiguous, zeros */
Operand item_compressed(Operand item);
Operand item_with(Operand item, View view); /* the same elements under another view */
Err     item_view(Lower *l, const Operand *item, View *view); /* in the graph */
Err     item_int(const Operand *item, int64_t *value);        /* a constant of one element */
double  host_f(const Operand *item, int64_t at);              /* element at this offset */
int64_t host_i(const Operand *item, int64_t at);
bool    type_floats(ExportedType type);
bool    type_supported(ExportedType type);
/* Storage type of a value of the file in this graph. */
Type    store_type(const Lower *l, ExportedType type);

/* Walks the offsets of a view in the file's order of elements. */
typedef struct HostWalk {
    const View *view;
    int64_t     index[VIEW_RANK], at, left;
} HostWalk;
HostWalk host_walk(const View *view);
bool     host_step(HostWalk *walk, int64_t *at); /* false: done */

/* ---- elementwise, on the host or in the graph (formula.c) ---- */
#include "ops/pointwise/pointwise.h"

typedef struct Formula {
    Lower    *l;
    Operand   in[POINT_INPUTS];
    int       n_in, n_steps;
    PointStep step[POINT_STEPS];
    bool      full, missing; /* more steps than there is room for; an operand that is not given */
} Formula;

Formula formula(Lower *l);
int     formula_input(Formula *f, Operand item);
int     formula_number(Formula *f, double value);
int     formula_integer(Formula *f, int64_t value);
int     formula_step(Formula *f, PointOp op, int a, int b, int c);
int     formula_float(Formula *f, int a); /* converted unless it is one */
int     formula_as(Formula *f, int a, ExportedType type);
#define F1(f, op, a)       formula_step((f), POINT_##op, (a), -1, -1)
#define F2(f, op, a, b)    formula_step((f), POINT_##op, (a), (b), -1)
#define F3(f, op, a, b, c) formula_step((f), POINT_##op, (a), (b), (c))
int formula_power(Formula *f, int x, double p); /* |x|^p */
/* x^(1/p), the root of a sum of powers: at 0 its gradient is 0, as that of PyTorch's norms is. */
int formula_norm(Formula *f, int x, double p);
int formula_root(Formula *f, int x); /* p = 2 */
/* The result under broadcasting, of this type of the file. */
Err formula_item(Formula *f, int result, ExportedType type, Operand *item);
Err formula_give(Formula *f, int result, int i); /* as output i */
Err formula_dims(Formula *f, Dims *dims);        /* of the operands, broadcast */
/* Reduced over axes (bit i) of `dims`, which are left out of the result. */
Err formula_reduce(Formula *f, int result, PointReduce how, uint32_t axes, double scale,
                   ExportedType type, Operand *item);

/* ---- contents of the file's tensors, in their own order of axes (weight_elements.c) ---- */
void weight_floats(const ExportedWeight *w, float *to); /* of complex ones, pairs */
/* imag: of complex ones, the imaginary parts; else NULL. */
void weight_arrays(const ExportedWeight *w, HostArray *to, HostArray *imag);

Err lower_volume_sampled(Lower *l); /* a volume at given points (lower_grid.c) */

/* ---- the data (input_range.c) ---- */
/* What an integer input must be below, by what the program does with it; 0: it is no integer. */
int32_t input_below(Lower *l, int32_t value);

/* ---- complex numbers, as a real and an imaginary operand (lower_complex.c) ---- */
extern const LowerDef lower_complexes[], lower_ffts[];

typedef struct ComplexParts {
    Operand re, im;
    bool    real; /* im is zero */
} ComplexParts;

bool            type_complex(ExportedType type);
ExportedType    type_part(ExportedType type); /* of each part; of a real type: itself */
/* Does the call read or give complex numbers? */
bool            complex_call(const Lower *l, const ExportedCall *call);
const LowerDef *complex_find(const char *target);
/* What an operand is for the present part. */
Operand         complex_part(Lower *l, int32_t value);
Operand         complex_part_of_number(Lower *l, Operand number);
int             complex_part_read(const Lower *l);
Operand        *complex_slot(Lower *l, int32_t value); /* where the present part is kept */
Err             complex_arg(Lower *l, const char *name, ComplexParts *x);
Err             complex_give(Lower *l, int i, Operand re, Operand im);
/* (..., 2): a view where both parts lie side by side in one tensor. */
Err             complex_pairs(Lower *l, const ComplexParts *x, Operand *pairs);

/* ---- what is written for the next step (lower_state.c) ---- */
void        kept_find(Lower *l);
Err         kept_begin(Lower *l, const ExportedInput *in, Operand *item); /* in: its tensor */
Err         kept_buffer(Lower *l, const ExportedInput *in, Dims dims, Operand *item);
Err         kept_store(Lower *l);
const char *kept_first(const Lower *l); /* NULL: nothing is */

/* ---- random numbers (lower_random.c) ---- */
uint32_t random_stream_of(const Lower *l); /* of the call: its place in the file */
/* Notes that the call draws these, by the name of its value unless they have their own. order NULL:
 * they lie in the file's order of axes. */
void     note_drawn(Lower *l, Drawn drawn, Dims dims, const int *order);
/* Dropout; layer: which one of several in the call, from 1 on, or 0. */
Err      lower_dropped(Lower *l, Operand item, double p, int layer, Operand *out);

/* ---- the walk (lower.c) ---- */
/* All calls of the program, for the present values of its symbols. On failure the sentence lists
 * every call that is not supported, with counts and lines. */
Err             lower_program(Pool *pool, Graph *graph, const ImportConfig *config, Lower **out);
Err             lower_output(Lower *l, int32_t value, Operand *item); /* a value after the walk */
const LowerDef *lower_find(const char *target);                       /* NULL: not known */
/* An earlier call that computed the same, whose results still stand (lower_repeated.c), or NULL. */
const ExportedCall *lower_repeated(const Lower *l, const ExportedCall *call);
/* Does the value follow from the inputs alone: not from parameters, random numbers, or something
 * written in place? */
bool                lower_from_inputs(Lower *l, int32_t value);
/* The same value for the whole micro-batch before its split, from inputs that hold all of it. */
Err                 lower_all(Lower *l, int32_t value, Operand *item);
/* How many targets of the micro-batch before its split are not `ignore`, at least 1, divided by the
 * number of slices: [1] fp32. None: the loss counts them itself. `mine`: the targets of this slice;
 * `value`: the same in the program. */
Err  lower_target_count(Lower *l, Operand mine, int32_t value, int64_t ignore, Tensor *count);
Err  target_count(Lower *l, Operand targets, int64_t ignore, Tensor *count); /* of all of these */
/* Node source, module and scope of a call. */
void lower_place(Lower *l, const ExportedCall *call);
/* Is the call's result another name of its first argument's elements? *writes: and changes them. */
bool lower_shows_or_writes(const Lower *l, const ExportedCall *call, bool *writes);
Err  lower_input(Lower *l, int32_t input, Operand *item); /* import_model.c */
bool lower_is_statistic(const Lower *l, int32_t value);   /* of a batch norm; likewise */
void import_set_batch(const ImportConfig *config, Symbol *symbol, int64_t batch);
Err  import_symbol(const ImportConfig *config, Symbol **symbol); /* the batch; NULL: fixed */
/* Positions along an axis, as a constant that broadcasts. */
Operand lower_positions(Lower *l, int rank, int axis, int64_t n);
Err     lower_reshape(Lower *l, Operand item, Dims dims, Operand *out);
/* ---- parts that several calls use ---- */
Err     lower_cast(Lower *l, Operand item); /* given as the call's type */
/* x (..., in) times w (in, out), given; w is a parameter's whole tensor under these dims. */
Err     lower_linear(Lower *l, View x, View w, Dims dims);
bool    lower_is_param(const Lower *l, const View *v);
typedef struct Letters { /* "bhd" */
    int  n;
    char at[VIEW_RANK + 1];
} Letters;
typedef struct Attend { /* softmax(scale q k^T + mask) v along the last two axes */
    View    q, k, v;
    Operand mask; /* added to the scaled scores; of truth values: which count; or not set */
    bool    causal;
    double  scale; /* 0: 1 / sqrt(width) */
    double  dropout;
} Attend;
/* The drawn numbers of dropout are those of the present call. */
Err lower_attend(Lower *l, const Attend *a, View *out);
/* Two operands whose axes have these letters; every letter of one alone is in the result. */
Err einsum_pair(Lower *l, const Operand *items, const Letters *in, const Letters *out,
                Operand *sum);
/* a (..., m, k) times b (..., k, n) under broadcasting. */
Err lower_matmul(Lower *l, View a, View b, View *out);
/* Elements of an axis by index: the index's axes stand in its place. */
Err lower_take(Lower *l, Operand x, int axis, Operand index, Dims dims, Operand *out);
Err lower_join(Lower *l, const Operand *items, int n, int axis, Operand *out); /* along an axis */
/* ComplexPair of these extents, which cover the axis. */
Err lower_slices(Lower *l, Operand item, int axis, const int64_t *extent, int n, Operand *out);
/* The same for any view: by the index of every element that it shows (lower.c). */
Err lower_write_by_index(Lower *l, const ExportedCall *call, Operand whole, Operand part,
                         Operand *out);
/* The viewed value `whole`, with the elements that the call shows replaced by `part`. */
Err lower_write_view(Lower *l, const ExportedCall *call, Operand whole, Operand part, Operand *out);

#endif
