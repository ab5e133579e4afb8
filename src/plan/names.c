/* names.c -- a hash table with open addressing and FNV-1a; at most half full. */
#include "plan/names.h"

#include <stdlib.h>
#include <string.h>

void names_init(NameIndex *names, Pool *pool, int32_t max_names)
{
    uint32_t size = 16;
    while (size < 2 * (uint32_t)max_names)
        size *= 2;
    names->name = NEWN(pool, const char *, size);
    names->index = NEWN(pool, int32_t, size);
    names->mask = size - 1;
}

static uint32_t names_slot(const NameIndex *names, const char *name)
{
    uint32_t hash = 2166136261u;
    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    uint32_t slot = hash & names->mask;
    while (names->name[slot] && strcmp(names->name[slot], name))
        slot = (slot + 1) & names->mask;
    return slot;
}

bool names_add(NameIndex *names, const char *name, int32_t index)
{
    uint32_t slot = names_slot(names, name);
    if (names->name[slot])
        return false;
    names->name[slot] = name;
    names->index[slot] = index;
    return true;
}

int32_t names_find(const NameIndex *names, const char *name)
{
    uint32_t slot = names_slot(names, name);
    return names->name[slot] ? names->index[slot] : -1;
}

Err names_id(Pool *pool, const Json *container, const Json *id, const char *what, const char **name)
{
    if (id && id->kind == JSON_TEXT)
        *name = id->text;
    else if (id && id->kind == JSON_INT)
        *name = pool_print(pool, "%lld", (long long)id->integer);
    else
        return json_fail(container, id, "the id of a %s must be a text or a whole number, not %s",
                         what, id ? json_kind_text(id) : "absent");
    return OK;
}

void names_write(JsonOut *o, const char *key, const char *name, bool number)
{
    if (number)
        json_out_int(o, key, strtoll(name, NULL, 10));
    else
        json_out_string(o, key, name);
}
