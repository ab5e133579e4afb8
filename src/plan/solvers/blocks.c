/* blocks.c -- checkpointing for graphs of equal blocks: what to drop is decided by class of value.
 *
 * Values are alike if their producers are alike: same cost, sizes and edges a few steps around. For
 * each class c a number x[c] says how many of its values, from the first block on, are dropped in
 * their longest idle window and recomputed for their next reader, with whatever else is missing. So
 * x[c] = k for all classes inside a block is per-block checkpointing of k blocks (Chen et al.
 * 2016); other x are selective. Early blocks come first: their second runs happen when memory is
 * empty again.
 *
 * Two climbs, each evaluated on the exact schedule: class after class, always the one that removes
 * most bytes above the budget for its cost; and whole blocks, every class but those that connect
 * blocks. Then every x[c] is lowered as far as the budget allows, the most expensive class first.
 */
#include "plan/solvers/recomputation.h"
#include "plan/solvers/search.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCKS_ROUNDS = 3, BLOCKS_CLASSES = 48 };

typedef struct ValueClass {
    int32_t *values; /* in input order */
    int32_t  n, cap;
    uint64_t hash;
    int32_t  x;      /* how many of them are dropped */
    double   weight; /* bytes * length of its idle windows */
} ValueClass;

typedef struct Blocks {
    const SolverArgs *args;
    Pool             *pool; /* temporary */
    Schedule         *s;
    ValueClass       *classes;
    int32_t           n_classes, cap_classes;
    Recomputation     r;    /* window: the run before the longest idle time across the peak */
    int64_t           left; /* evaluations left */
} Blocks;

static uint64_t blocks_mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

/* Hash of each node and its surroundings, BLOCKS_ROUNDS steps out (after Weisfeiler and Leman
 * 1968). */
static uint64_t *blocks_hashes(Pool *pool, const Task *task)
{
    uint64_t *now = NEWN(pool, uint64_t, task->n_nodes + 1),
             *next = NEWN(pool, uint64_t, task->n_nodes + 1);
    for (int32_t n = 0; n < task->n_nodes; n++) {
        const TaskNode *t = &task->nodes[n];
        uint64_t        cost;
        memcpy(&cost, &t->cost, sizeof cost);
        now[n] = blocks_mix(blocks_mix(cost, (uint64_t)t->workspace), (uint64_t)t->n_in);
        for (int32_t i = 0; i < t->n_out; i++)
            now[n] = blocks_mix(now[n], (uint64_t)task->values[t->out[i]].bytes + 1);
    }
    for (int round = 0; round < BLOCKS_ROUNDS; round++) {
        for (int32_t n = 0; n < task->n_nodes; n++) {
            const TaskNode *t = &task->nodes[n];
            uint64_t        around = 0; /* a sum, so that the order of readers does not matter */
            for (int32_t i = 0; i < t->n_in; i++)
                around += blocks_mix(1, now[task->values[t->in[i]].producer]);
            for (int32_t i = 0; i < t->n_out; i++) {
                const TaskValue *v = &task->values[t->out[i]];
                for (int32_t r = 0; r < v->n_readers && r < 16; r++)
                    around += blocks_mix(2, now[v->readers[r]]);
            }
            next[n] = blocks_mix(now[n], around);
        }
        uint64_t *swap = now;
        now = next;
        next = swap;
    }
    return now;
}

static int blocks_by_weight(const void *a, const void *b)
{
    const ValueClass *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->values[0] - y->values[0];
}

static void blocks_classify(Blocks *b)
{
    const Task *task = b->args->task;
    uint64_t   *hash = blocks_hashes(b->pool, task);
    /* the peak with everything kept */
    int32_t     size = 64, peak = b->s->node_at[schedule_load(b->s, 0).peak_position];
    while (size < 2 * task->n_values)
        size *= 2;
    int32_t *table = NEWN(b->pool, int32_t, size); /* class + 1 */
    for (int32_t v = 0; v < task->n_values; v++) {
        const TaskValue *value = &task->values[v];
        int32_t          from = value->producer, longest = 0, until = 0;
        b->r.window[v] = -1;
        for (int32_t r = 0; r < value->n_readers; r++) {
            if (value->readers[r] - from > longest) {
                longest = value->readers[r] - from;
                until = value->readers[r];
                b->r.window[v] = from;
            }
            from = value->readers[r];
        }
        if (value->bytes == 0 || longest < 2 || task->nodes[value->producer].once ||
            b->r.window[v] >= peak || until <= peak || /* only values that are idle at the peak
                                                             * help */
            recomputation_pins(&b->r, v, b->r.window[v])) {
            b->r.window[v] = -1;
            continue;
        }
        int32_t index = 0;
        while (task->nodes[value->producer].out[index] != v)
            index++;
        uint64_t key = blocks_mix(hash[value->producer], (uint64_t)index + 77);
        uint64_t slot = key & (uint64_t)(size - 1);
        while (table[slot] && b->classes[table[slot] - 1].hash != key)
            slot = (slot + 1) & (uint64_t)(size - 1);
        if (!table[slot]) {
            ValueClass fresh = { .hash = key };
            VEC_ADD(b->pool, b->classes, b->n_classes, b->cap_classes, fresh);
            table[slot] = b->n_classes;
        }
        ValueClass *value_class = &b->classes[table[slot] - 1];
        VEC_ADD(b->pool, value_class->values, value_class->n, value_class->cap, v);
        value_class->weight += (double)value->bytes * longest;
    }
    if (b->n_classes > 0)
        qsort(b->classes, (size_t)b->n_classes, sizeof *b->classes, blocks_by_weight);
    if (b->n_classes > BLOCKS_CLASSES)
        b->n_classes = BLOCKS_CLASSES;
}

/* Makes the list of runs for the numbers x. */
static bool blocks_list(Blocks *b)
{
    const Task *task = b->args->task;
    memset(b->r.dropped, 0, sizeof *b->r.dropped * (size_t)task->n_values);
    for (int32_t c = 0; c < b->n_classes; c++) {
        for (int32_t i = 0; i < b->classes[c].x; i++)
            b->r.dropped[b->classes[c].values[i]] = true;
    }
    return recomputation_list(&b->r);
}

static bool blocks_evaluate(Blocks *b, Load *load)
{
    b->left = search_late(b->args, 0) ? 0 : b->left - 1;
    if (!blocks_list(b))
        return false;
    schedule_set(b->s, b->r.runs, b->r.n);
    *load = schedule_load(b->s, b->args->budget_bytes);
    return true;
}

static void blocks_keep(Blocks *b, Pool *pool, Load load, RunList *out)
{
    RunList list = {
        .node = b->r.runs, .n = b->r.n, .cost = b->s->cost, .peak_bytes = load.peak_bytes
    };
    run_list_keep(pool, out, &list, b->args->budget_bytes);
}

/* Finds the smallest x[c] in [low, high] that is within the budget; high is known to be. */
static void blocks_lower(Blocks *b, Pool *pool, ValueClass *value_class, int32_t low, RunList *out)
{
    int32_t high = value_class->x;
    Load    load;
    while (low < high && b->left > 0) {
        value_class->x = (low + high) / 2;
        if (blocks_evaluate(b, &load) && load.excess <= 0) {
            blocks_keep(b, pool, load, out);
            high = value_class->x;
        } else {
            low = value_class->x + 1;
        }
    }
    value_class->x = high;
}

/* Drops class after class until the budget holds. */
static void blocks_climb(Blocks *b, Pool *pool, RunList *out)
{
    Load now;
    if (!blocks_evaluate(b, &now))
        return;
    while (now.excess > 0 && b->left > 0) {
        double  base = b->s->cost, best = 0;
        int32_t pick = -1;
        Load    pick_load = now;
        double  before = now.excess;
        for (int32_t c = 0; c < b->n_classes && b->left > 0; c++) {
            ValueClass *value_class = &b->classes[c];
            int32_t     old = value_class->x;
            Load        load;
            if (old == value_class->n)
                continue;
            value_class->x = value_class->n;
            if (blocks_evaluate(b, &load) && load.excess < before) {
                double price = b->s->cost - base + 1e-9 * b->args->task->base_cost;
                double gain = (before - load.excess) / price;
                if (gain > best) {
                    best = gain;
                    pick = c;
                    pick_load = load;
                }
            }
            value_class->x = old;
        }
        if (pick < 0)
            return;
        int32_t old = b->classes[pick].x;
        b->classes[pick].x = b->classes[pick].n;
        now = pick_load;
        if (!blocks_evaluate(b, &now))
            return;
        if (now.excess <= 0) {
            blocks_keep(b, pool, now, out);
            blocks_lower(b, pool, &b->classes[pick], old + 1, out);
        }
    }
}

/* Keeps what need not be dropped after all; the heaviest classes are first in the list. */
static void blocks_descend(Blocks *b, Pool *pool, RunList *out)
{
    for (int32_t c = b->n_classes - 1; c >= 0 && b->left > 0; c--) {
        if (b->classes[c].x > 0)
            blocks_lower(b, pool, &b->classes[c], 0, out);
    }
}

/* Whole blocks: k of every class, except classes that make the rest cheaper when they are kept. */
static void blocks_whole(Blocks *b, Pool *pool, RunList *out)
{
    Load   load;
    double cost;
    for (int32_t c = 0; c < b->n_classes; c++)
        b->classes[c].x = b->classes[c].n;
    cost = blocks_evaluate(b, &load) ? b->s->cost : 1e300;
    for (int32_t c = 0; c < b->n_classes && b->left > 0; c++) {
        int32_t old = b->classes[c].x;
        b->classes[c].x = 0;
        bool   good = blocks_evaluate(b, &load);
        double saved = good ? cost - b->s->cost : 0;
        if (good && (load.excess <= 0 || saved > 0.02 * b->args->task->base_cost)) {
            cost = b->s->cost;
            if (load.excess <= 0)
                blocks_keep(b, pool, load, out);
        } else {
            b->classes[c].x = old;
        }
    }
    if (!blocks_evaluate(b, &load) || load.excess > 0)
        return;
    blocks_keep(b, pool, load, out);
    int32_t  low = 0, high = 0;
    int32_t *full = NEWN(b->pool, int32_t, b->n_classes + 1);
    for (int32_t c = 0; c < b->n_classes; c++) {
        full[c] = b->classes[c].x;
        high = full[c] > high ? full[c] : high;
    }
    while (low < high && b->left > 0) {
        int32_t k = (low + high) / 2;
        for (int32_t c = 0; c < b->n_classes; c++)
            b->classes[c].x = full[c] < k ? full[c] : k;
        if (blocks_evaluate(b, &load) && load.excess <= 0) {
            blocks_keep(b, pool, load, out);
            high = k;
        } else {
            low = k + 1;
        }
    }
    for (int32_t c = 0; c < b->n_classes; c++)
        b->classes[c].x = full[c] < high ? full[c] : high;
}

void solve_blocks(Pool *pool, const SolverArgs *args, RunList *out)
{
    Pool  *temp = pool_new(NULL, "blocks");
    Blocks b = {
        .args = args,
        .pool = temp,
        .s = schedule_new(temp, args->task),
        .left = args->effort,
    };
    *out = (RunList){ 0 };
    recomputation_init(&b.r, temp, args->task);
    blocks_classify(&b);
    blocks_climb(&b, pool, out);
    if (out->node)
        blocks_descend(&b, pool, out);
    b.left = search_late(args, 0) ? 0 : args->effort / 2;
    blocks_whole(&b, pool, out);
    if (out->node)
        blocks_descend(&b, pool, out);
    pool_free(temp);
}
