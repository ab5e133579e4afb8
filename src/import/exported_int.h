/* exported_int.h -- what the readers of exported programs share. Not for other rooms. */
#ifndef IMPORT_EXPORTED_INT_H
#define IMPORT_EXPORTED_INT_H

#include "base/json.h"
#include "base/zip.h"
#include "import/exported.h"

typedef struct NameSlot {
    const char *text; /* NULL: free */
    uint64_t    hash;
    const void *item;
} NameSlot;

/* A table from text to a pointer; slots are a power of two. */
typedef struct NameTable {
    NameSlot *slots;
    uint32_t  n, n_slots;
} NameTable;

/* The slot of the text; it is made if it is not there, with item NULL. */
NameSlot       *names_slot(Pool *pool, NameTable *table, const char *text);
const NameSlot *name_slot_find(const NameTable *table, const char *text); /* NULL: absent */

typedef struct ExportedIn {
    Pool     *pool, *temp; /* of the program; freed when it has been read */
    Exported *program;
    NameTable texts; /* of the program, each stored once */
    NameTable exprs; /* parsed expressions by their text */
    NameTable taken; /* names of values so far */
    int32_t   ordinal;
    int       depth; /* of bodies within bodies */
} ExportedIn;

const char *exported_text(ExportedIn *in, const char *text); /* one copy for all */
const char *exported_textn(ExportedIn *in, const char *text, size_t n);
/* {"as_int": n} or {"as_expr": {"expr_str": text, "hint": ...}}; the same for bool and float. */
Err         exported_sym_int(ExportedIn *in, const Json *json, SymInt *out);
Err         exported_sym_float(ExportedIn *in, const Json *json, SymInt *out, double *real);

/* {"tag": value}: the member that is set. */
Err exported_union(const Json *json, const char **tag, const Json **value);

/* The whole graph and its signature (exported_graph.c). */
Err     exported_graph(ExportedIn *in, const Json *graph_module);
/* The source line and the module of a call from its metadata (exported_source.c). */
void    exported_source(ExportedIn *in, const Json *metadata, ExportedCall *call);
/* One element at any address of the file (import_model.c). */
double  exported_float(ExportedType type, const char *p);
int64_t exported_int(ExportedType type, const char *p);
/* Content of parameters, buffers and constants (exported_weights.c). */
Err     exported_weights(ExportedIn *in, const ZipFile *zip, const char *top, const char *model);

#endif
