/* exported.h -- a program as torch.export or JAX wrote it: values, calls, inputs, outputs, weights.
 *
 * This is the file's own graph, with the user's names, lines and sizes; nothing is interpreted yet.
 * Regions of autocast and no_grad are already inlined: each call says which region it stands in.
 * Sizes may be expressions of symbols; sym_eval gives their value for one batch size.
 *
 * Everything lives in the pool; texts of the file are not copied where they stand unescaped.
 */
#ifndef IMPORT_EXPORTED_H
#define IMPORT_EXPORTED_H

#include "base/err.h"
#include "base/pool.h"
#include "import/split_proof.h"
#include "models/drawn.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum ExportedType { /* torch's element types; the numbers of the file's schema */
                            EX_UNKNOWN = 0,
                            EX_U8 = 1,
                            EX_I8 = 2,
                            EX_I16 = 3,
                            EX_I32 = 4,
                            EX_I64 = 5,
                            EX_F16 = 6,
                            EX_F32 = 7,
                            EX_F64 = 8,
                            EX_C32 = 9,
                            EX_C64 = 10,
                            EX_C128 = 11,
                            EX_BOOL = 12,
                            EX_BF16 = 13,
                            EX_U16 = 28,
                            EX_TYPES =
                                36 /* 29 to 35: fp8 and wide unsigned types, which are only named */
} ExportedType;

const char *exported_type_name(ExportedType type);  /* "float32" */
int         exported_type_bytes(ExportedType type); /* 0: not known */

/* ---- sizes ---- */

typedef struct SymNode SymNode; /* an expression; see sym_expr.c */

typedef struct SymInt {
    int64_t        value; /* the number; of an expression: its value in the example (the hint) */
    const SymNode *expr;  /* NULL: a plain number */
} SymInt;

typedef struct Symbol {
    const char *name;            /* "s77" */
    int64_t     hint, low, high; /* unbounded: INT64_MIN, INT64_MAX */
    int64_t     value;           /* as set for this build; starts as the hint */
    bool        known;           /* false: no example value is in the file; only the data tell it */
} Symbol;

typedef struct Symbols {
    Symbol *list;
    int32_t n, cap;
} Symbols;

Symbol *symbol_find(const Symbols *symbols, const char *name); /* NULL if there is none */
/* The value under the symbols' present values. E_FORMAT: it is no whole number, or overflows. */
Err     sym_eval(const Symbols *symbols, SymInt size, int64_t *value);
/* The same for numbers that need not be whole, such as 1 / s0. */
Err     sym_eval_number(const Symbols *symbols, SymInt size, double *number);
bool    sym_uses(const Symbols *symbols, SymInt size, const Symbol *symbol);

/* ---- the graph ---- */

typedef struct ExportedValue {
    const char  *name;
    ExportedType type;
    int          rank;     /* -1: not a tensor (a number, or a list) */
    SymInt      *size;     /* by axis */
    int32_t      producer; /* index of the call, or -1: an input */
    bool         requires_grad;
} ExportedValue;

typedef enum ArgKind {
    ARG_NONE,
    ARG_VALUE,  /* values[0]; also a number computed by a call, as a value of rank -1 */
    ARG_VALUES, /* a list of tensors; -1: None in the list */
    ARG_INT,    /* ints[0] */
    ARG_INTS,
    ARG_FLOAT, /* floats[0] */
    ARG_FLOATS,
    ARG_BOOL, /* ints[0] */
    ARG_BOOLS,
    ARG_TEXT, /* text */
    ARG_TYPE, /* ints[0]: an ExportedType */
    ARG_LAYOUT,
    ARG_MEMORY_FORMAT, /* ints[0]: 1 contiguous, 2 channels last, 3 the same 3-D, 4 preserve */
    ARG_DEVICE,        /* text: its kind */
    ARG_COMPLEX,       /* floats[0], floats[1] */
    ARG_OTHER          /* text: the tag of the file */
} ArgKind;

typedef struct ExportedArg {
    const char    *name; /* of the operator's schema; "" if the file has none */
    ArgKind        kind;
    int32_t        n; /* length of the list; 1 if it is none */
    /* Also of ARG_INT(S), ARG_FLOAT(S), ARG_BOOL(S) if a call computed one of the numbers: the
     * values that hold them, -1 for plain ones; NULL if all are plain. */
    const int32_t *values;
    const SymInt  *ints; /* also of ARG_FLOAT(S), if a number is an expression (sym_eval_number) */
    const double  *floats; /* of expressions: the value in the example */
    const char    *text;
} ExportedArg;

typedef struct Region { /* what surrounds a call */
    bool         no_grad;
    bool         autocast; /* a region of autocast, switched on or off by `enabled` */
    bool         enabled;
    ExportedType autocast_type;
    const char  *autocast_device; /* "cuda", as the file has it; NULL: no autocast */
} Region;

typedef struct ExportedCall {
    /* The file's target without "torch.ops.", "torch." and a first underscore; numbers of sizes
     * without "aten.": "aten.conv2d.default", "higher_order.cond", "operator.add", "sym_max",
     * "math.trunc", "sym_size.int". */
    const char        *target;
    const ExportedArg *args;
    const int32_t     *out; /* values; -1: never read */
    int32_t            n_args, n_out;
    int32_t            ordinal; /* its place in the file, which random numbers are keyed by */
    int32_t            region;
    const char        *file; /* "unet.py": innermost line outside torch; NULL: the file has none */
    const char        *path; /* the same file with its folders, as the file has it */
    int                line;
    const char        *text;   /* that line's source text; NULL: none */
    const char        *module; /* path of the innermost module, "" the whole model */
} ExportedCall;

typedef enum ExportedInputKind {
    EX_USER_INPUT,
    EX_PARAMETER,
    EX_BUFFER,
    EX_CONSTANT, /* a tensor that the module holds without naming it */
    EX_NUMBER,   /* a number given as an input: fixed when the file was made */
    EX_OTHER_INPUT
} ExportedInputKind;

typedef struct ExportedInput {
    ExportedInputKind kind;
    int32_t           value; /* -1: not a tensor */
    const char       *name;  /* full name of the parameter or buffer; the user's name of an input */
    bool              persistent;
    ExportedArg       number; /* EX_NUMBER: its kind may also be NONE, BOOL or TEXT */
    int32_t           tied;   /* first input with the same bytes in the file (tied weights), or -1;
                               * calls may read either of them */
} ExportedInput;

typedef enum ExportedOutputKind {
    EX_USER_OUTPUT,
    EX_LOSS_OUTPUT,
    EX_BUFFER_MUTATION,
    EX_PARAMETER_MUTATION,
    EX_INPUT_MUTATION,
    EX_OTHER_OUTPUT
} ExportedOutputKind;

typedef struct ExportedOutput {
    ExportedOutputKind kind;
    ExportedArg        arg;
    const char        *target; /* name of the buffer or input that takes the value */
} ExportedOutput;

/* Content of a parameter, buffer or constant: a strided view of the file's bytes. */
typedef struct ExportedWeight {
    const char    *name;
    ExportedType   type;
    int            rank;
    const int64_t *size, *stride;
    int64_t        offset;  /* elements */
    const void    *storage; /* mapped, any alignment; NULL: the file holds sizes only */
    size_t         storage_bytes;
    int32_t        storage_id; /* equal numbers: one storage, even if it is not in the file */
} ExportedWeight;

typedef struct Exported {
    Pool               *pool;
    const char         *path, *torch_version;
    bool                jax; /* StableHLO text; its targets are "stablehlo.NAME" */
    int                 schema_major, schema_minor;
    Symbols             symbols;
    ExportedValue      *values;
    ExportedCall       *calls;
    ExportedInput      *inputs;
    ExportedOutput     *outputs;
    Region             *regions; /* [0]: none */
    ExportedWeight     *weights; /* sorted by name */
    int32_t             n_values, n_calls, n_inputs, n_outputs, n_regions, n_weights;
    int32_t             cap_values, cap_calls, cap_regions;
    /* Of the graph that was built last: calls in float64 that it computes in float32. */
    int32_t             n_narrowed;
    const ExportedCall *narrowed; /* the first */
    Drawn              *drawn;    /* the random numbers of that graph, in the file's order */
    int32_t             n_drawn, cap_drawn;
    /* A loss whose targets are counted, where the count follows from more than inputs; or NULL. */
    const ExportedCall *uncounted;
    bool                split_tried; /* whether a micro-batch may be split was found out: */
    SplitProof          split;
    /* Values that a split loss divides by: those of the whole micro-batch (split_proof.h). */
    SplitCount         *counts;
    int32_t             n_counts, cap_counts;
    int32_t             own_count; /* a tensor, in the graph that was built last, that lowering
                                    * itself replaces by that of the whole micro-batch; -1: none */
} Exported;

/* Reads and checks the whole file. It stays mapped until the pool is freed. Every tensor that a call
 * reads was made before it; every weight's view lies within its storage. */
Err  exported_read(Pool *pool, const char *path, Exported **program);
/* The program's JSON alone, without an archive around it: it has no weights. */
Err  exported_parse(Pool *pool, const char *name, const char *json, size_t n, Exported **program);
/* StableHLO text, as jax.jit(f).lower(...).as_text(debug_info=True) gives it; it holds no weights.
 * Calls of functions and counted loops are unfolded. A call's tensors are its argument `operands`. */
Err  hlo_read(Pool *pool, const char *path, Exported **program);
Err  hlo_parse(Pool *pool, const char *name, const char *text, Exported **program);
bool hlo_is_file(const char *path); /* by its ending, .mlir or .stablehlo */
const ExportedWeight *exported_weight(const Exported *program, const char *name); /* or NULL */
/* Its elements, the last dimension fastest: in the file if they lie so, else a copy in the pool;
 * any alignment. NULL: the file holds sizes only. */
const void           *exported_elements(Pool *pool, const ExportedWeight *weight);

/* Reading a call's arguments: by the name in the schema; NULL if the file does not give it. */
const ExportedArg *call_arg(const ExportedCall *call, const char *name);

#endif
