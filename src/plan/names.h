/* names.h -- ids of a file to indices: a hash table in a pool. Only for this room. */
#ifndef PLAN_NAMES_H
#define PLAN_NAMES_H

#include "base/json.h"
#include "base/json_out.h"

typedef struct NameIndex {
    const char **name;  /* [slot] NULL: free */
    int32_t     *index; /* [slot] */
    uint32_t     mask;
} NameIndex;

void    names_init(NameIndex *names, Pool *pool, int32_t max_names);
bool    names_add(NameIndex *names, const char *name, int32_t index); /* false: already present */
int32_t names_find(const NameIndex *names, const char *name);         /* -1: absent */

/* An id in a file is a text or a whole number. what: "value" or "node", for the message. */
Err  names_id(Pool *pool, const Json *container, const Json *id, const char *what,
              const char **name);
void names_write(JsonOut *o, const char *key, const char *name, bool number); /* as it was read */

#endif
