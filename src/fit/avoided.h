/* avoided.h -- what a plain implementation would store and this program does not. */
#ifndef FIT_AVOIDED_H
#define FIT_AVOIDED_H

#include "ir/graph.h"

typedef struct Avoided {      /* tensors of one kind and size */
    const char *what, *where; /* "Cauchy matrix"; the module of the first one */
    const char *name;         /* "WHAT of WHERE" */
    const char *reason;
    int64_t     bytes; /* of one */
    int32_t     count;
} Avoided;

/* Sorted by bytes x count, largest first. */
void avoided_find(Pool *pool, const Graph *graph, Avoided **list, int32_t *n);

#endif
