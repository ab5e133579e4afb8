/* layout_order.c -- preorders: which buffer goes first if several could lie equally low.
 *
 * A preorder is named by its keys, each largest first: W lifetime, A area (lifetime x bytes), T
 * largest live sum of its sections, S bytes. WAT, TAW and TWA are MiniMalloc's (Moffitt 2023); the
 * search uses these, greedy placement tries all.
 */
#include "base/random.h"
#include "layout/layout_int.h"

#include <stdlib.h>

const char *const order_names[ORDER_COUNT] = { "TWA", "TAW", "WAT", "AW", "SW", "WS" };

enum { ORDER_KEYS = 3 };
typedef struct OrderKeys {
    double  key[ORDER_KEYS];
    int32_t item;
} OrderKeys;

static int order_compare(const void *a, const void *b)
{
    const OrderKeys *x = a, *y = b;
    for (int k = 0; k < ORDER_KEYS; k++)
        if (x->key[k] != y->key[k])
            return x->key[k] > y->key[k] ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

static double order_key(const Item *item, char letter)
{
    switch (letter) {
    case 'W': return (double)item->width;
    case 'A': return (double)item->width * (double)item->size;
    case 'T': return (double)item->load;
    default: return (double)item->size;
    }
}

/* A seed increases every key by up to a tenth, independently. */
static double order_vary(uint64_t seed, int32_t item, int k)
{
    RandomKey key = { .seed = seed, .stream = (uint32_t)k };
    return seed ? 1 + 0.1 * (double)random_uniform_at(key, (uint64_t)item) : 1;
}

void order_build(const Component *component, const char *keys, uint64_t seed, int32_t *by_rank)
{
    Pool      *temp = pool_new(NULL, "order");
    OrderKeys *list = NEWN(temp, OrderKeys, component->n);
    for (int32_t i = 0; i < component->n; i++) {
        list[i].item = i;
        for (int k = 0; k < ORDER_KEYS && keys[k]; k++)
            list[i].key[k] = order_key(&component->items[i], keys[k]) * order_vary(seed, i, k);
    }
    qsort(list, (size_t)component->n, sizeof *list, order_compare);
    for (int32_t i = 0; i < component->n; i++)
        by_rank[i] = list[i].item;
    pool_free(temp);
}
