/* exported_names.c -- tables by name while a program is read: texts stored once, values found. */
#include "import/exported_int.h"

#include <string.h>

#include "base/hash.h"

enum { FIRST_NAMES = 64 };

static NameSlot *names_place(const NameTable *table, const char *text, size_t n, uint64_t hash)
{
    uint32_t i = (uint32_t)(hash ^ hash >> 32) & (table->n_slots - 1);
    for (; table->slots[i].text; i = (i + 1) & (table->n_slots - 1))
        if (table->slots[i].hash == hash && !strncmp(table->slots[i].text, text, n) &&
            !table->slots[i].text[n])
            break;
    return &table->slots[i];
}

static void names_grow(Pool *pool, NameTable *table)
{
    NameTable wide = { .n = table->n,
                       .n_slots = table->n_slots ? 2 * table->n_slots : FIRST_NAMES };
    wide.slots = NEWN(pool, NameSlot, wide.n_slots);
    for (uint32_t i = 0; i < table->n_slots; i++) {
        const NameSlot *old = &table->slots[i];
        if (old->text)
            *names_place(&wide, old->text, strlen(old->text), old->hash) = *old;
    }
    *table = wide;
}

NameSlot *names_slot(Pool *pool, NameTable *table, const char *text)
{
    if (2 * (table->n + 1) > table->n_slots)
        names_grow(pool, table);
    size_t    n = strlen(text);
    uint64_t  hash = hash_bytes(HASH_EMPTY, text, n);
    NameSlot *slot = names_place(table, text, n, hash);
    if (!slot->text) {
        *slot = (NameSlot){ .text = text, .hash = hash };
        table->n++;
    }
    return slot;
}

const NameSlot *name_slot_find(const NameTable *table, const char *text)
{
    if (!table->n)
        return NULL;
    size_t          n = strlen(text);
    const NameSlot *slot = names_place(table, text, n, hash_bytes(HASH_EMPTY, text, n));
    return slot->text ? slot : NULL;
}

const char *exported_textn(ExportedIn *in, const char *text, size_t n)
{
    NameTable *table = &in->texts;
    if (2 * (table->n + 1) > table->n_slots)
        names_grow(in->temp, table);
    uint64_t  hash = hash_bytes(HASH_EMPTY, text, n);
    NameSlot *slot = names_place(table, text, n, hash);
    if (!slot->text) {
        *slot = (NameSlot){ .text = pool_textn(in->pool, text, n), .hash = hash };
        table->n++;
    }
    return slot->text;
}

const char *exported_text(ExportedIn *in, const char *text)
{
    return exported_textn(in, text, strlen(text));
}
