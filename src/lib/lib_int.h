/* lib_int.h -- what the files behind plimsoll.h share. */
#ifndef LIB_LIB_INT_H
#define LIB_LIB_INT_H

#include "lib/plimsoll.h"
#include "plan/pgraph.h"

struct plimsoll_graph {
    Pool       *pool;
    PGraph      of;
    int32_t     cap_values, cap_nodes;
    const char *wrong; /* the first wrong argument, as a sentence */
};

/* Turns an error into a status and copies its message to error, which may be NULL. */
plimsoll_status lib_status(Err err, plimsoll_error *error);

/* Every call that allocates has a guard (base/pool.h): the library returns this, it never stops its
 * program. */
Err lib_no_memory(void);

#endif
