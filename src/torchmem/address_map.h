/* address_map.h -- recorded addresses to what now stands for them; open addressing, never shrinks.
 */
#ifndef TORCHMEM_ADDRESS_MAP_H
#define TORCHMEM_ADDRESS_MAP_H

#include "base/hash.h"
#include "base/pool.h"

typedef struct AddressSlot {
    int64_t address;
    void   *block; /* NULL: nothing stands for the address now */
    int64_t tag;
    int32_t used;
} AddressSlot;

typedef struct AddressMap {
    Pool        *pool;
    AddressSlot *slots;
    int64_t      n, n_slots;
} AddressMap;

static inline AddressSlot *address_probe(AddressSlot *slots, int64_t n_slots, int64_t address)
{
    uint64_t at = hash_int(HASH_EMPTY, address) % (uint64_t)n_slots;
    while (slots[at].used && slots[at].address != address)
        at = (at + 1) % (uint64_t)n_slots;
    return &slots[at];
}

/* The address' slot, made if need be: all zero then. */
static inline AddressSlot *address_slot(AddressMap *map, int64_t address)
{
    if (2 * (map->n + 1) > map->n_slots) {
        int64_t      n = map->n_slots ? 2 * map->n_slots : 1024;
        AddressSlot *slots = NEWN(map->pool, AddressSlot, n);
        for (int64_t i = 0; i < map->n_slots; i++)
            if (map->slots[i].used)
                *address_probe(slots, n, map->slots[i].address) = map->slots[i];
        map->slots = slots;
        map->n_slots = n;
    }
    AddressSlot *slot = address_probe(map->slots, map->n_slots, address);
    if (!slot->used) {
        *slot = (AddressSlot){ .address = address, .used = 1 };
        map->n++;
    }
    return slot;
}

#endif
