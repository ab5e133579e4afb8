/* hlo_int.h -- what the readers of StableHLO text share. Not for other rooms.
 *
 * The text ends in '\0'; a cursor is a pointer into it. */
#ifndef IMPORT_HLO_INT_H
#define IMPORT_HLO_INT_H

#include "import/exported_int.h"

enum { HLO_RANK = 64 };

typedef struct HloType {
    ExportedType type;
    int          bits; /* of an integer; negative: signed; 0: no integer */
    int          rank;
    int64_t      size[HLO_RANK], count;
} HloType;

typedef struct HloFunc {
    const char *name, *params, *body; /* after '(' and after '{' */
} HloFunc;

typedef struct HloKnown { /* a scalar integer that the reader can follow, for counts of loops */
    bool    known;
    int64_t value;
} HloKnown;

typedef struct Hlo {
    ExportedIn *in;
    NameTable   funcs; /* to HloFunc */
    NameTable   locs;  /* "#loc7" to the text in its parentheses */
    HloKnown   *known; /* by value */
    int32_t     n_known, cap_known;
    int32_t     n_entered; /* functions and loops, each time */
    int         depth;
} Hlo;

/* One statement: what stands between its name and its types. */
typedef struct HloStatement {
    const char  *target;
    int32_t     *operand;
    int32_t      n_operands, cap_operands;
    ExportedArg *args;
    int32_t      n_args, cap_args;
    const char  *callee;
    HloType     *types; /* of the results, or of the operands where no arrow stands */
    int32_t      n_types, cap_types;
} HloStatement;

Err hlo_fail(const Hlo *h, const char *at, const char *what);

/* ---- the text (hlo_text.c) ---- */
const char *hlo_skip(const char *p);                    /* white space and comments */
bool        hlo_next(const char **p, const char *word); /* skips it if it stands here */
size_t      hlo_name_length(const char *p);             /* letters, digits and _ . $ - */
const char *hlo_string_end(const char *p); /* after the closing quote; p stands at the first */
/* After the bracket that closes the one at p; NULL: none does. Strings are skipped. */
const char *hlo_close(const char *p);
Err         hlo_type(Hlo *h, const char **p, HloType *type);
Err         hlo_int(Hlo *h, const char **p, int64_t *value);
/* dense<...> without its type: as many elements as there are, or one for all. */
Err         hlo_dense(Hlo *h, const char **p, const HloType *type, ExportedArg *out);
/* [1, [2, 3]], in one row */
Err         hlo_list(Hlo *h, const char **p, ExportedArg *out);
ExportedArg hlo_arg(Hlo *h, const char *name, const int64_t *values, int32_t n);
/* params['Dense_0']['kernel'] to "Dense_0.kernel"; *root is "params". */
const char *hlo_path(Hlo *h, const char *text, size_t n, const char **root);
/* The user's line, from what stands in loc(...). */
void        hlo_source(Hlo *h, const char *loc, size_t n, ExportedCall *call, int depth);

/* ---- attributes (hlo_args.c) ---- */
/* Operands, attributes and types of the statement whose name has been read. */
typedef Err (*HloFind)(void *scope, const char *name, size_t n, int32_t *value);
Err hlo_statement(Hlo *h, const char **p, HloFind find, void *scope, HloStatement *s);
const ExportedArg *hlo_statement_arg(const HloStatement *s, const char *name);

#endif
