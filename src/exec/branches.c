/* branches.c -- queues by operator, waits by the bytes that launches share. */
#include "exec/branches.h"

struct Branches {
    const Device *device;
    Branch       *at;
    int32_t       n;
    void        **marks;                     /* per launch; NULL: none waits for it */
    void         *start, *ends[DEVICE_QUEUES];
    bool          begun[DEVICE_QUEUES];      /* the queue is part of the recording */
    int           queue;
};

static bool overlap(const Touched *a, const Touched *b)
{
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static bool must_wait(const Branch *later, const Branch *earlier)
{
    for (int32_t i = 0; i < later->n_touched; i++)
        for (int32_t j = 0; j < earlier->n_touched; j++)
            if ((later->touched[i].written || earlier->touched[j].written) &&
                overlap(&later->touched[i], &earlier->touched[j]))
                return true;
    return false;
}

/* Whoever wrote last what this launch reads. */
static int queue_of_maker(const Branch *branches, int32_t id)
{
    const Branch *b = &branches[id];
    for (int32_t e = id - 1; e >= 0; e--)
        for (int32_t i = 0; i < b->n_touched; i++)
            for (int32_t j = 0; j < branches[e].n_touched; j++)
                if (!b->touched[i].written && branches[e].touched[j].written &&
                    overlap(&b->touched[i], &branches[e].touched[j]))
                    return branches[e].queue;
    return 0;
}

static int queue_of(const Branch *branches, int32_t id)
{
    switch (branches[id].beside) {
    case BESIDE_FIRST:  return 1;
    case BESIDE_SECOND: return 2;
    case BESIDE_MAKER:  return queue_of_maker(branches, id);
    default:            return 0;
    }
}

/* The last launch of queue r that launch i, of queue q, must wait for and has not yet, or -1. What
 * came before the last one that stood alone (on queue 0) is done where that is. */
static int32_t wait_for(const Branch *branches, int32_t i, int q, int r, int32_t known,
                        int32_t stood)
{
    int32_t done = known > stood ? known : stood;
    for (int32_t e = i - 1; e > done; e--)
        if (branches[e].queue == r &&
            (branches[i].alone || must_wait(&branches[i], &branches[e])))
            return e;
    return r == 0 && q != 0 && stood > known ? stood : -1;
}

bool branches_plan(Branch *branches, int32_t n)
{
    int32_t known[DEVICE_QUEUES][DEVICE_QUEUES];     /* [of][other]: the last it has waited for */
    int32_t stood = -1;                              /* the last that stood alone */
    bool    any = false;
    for (int q = 0; q < DEVICE_QUEUES; q++)
        for (int r = 0; r < DEVICE_QUEUES; r++)
            known[q][r] = -1;
    for (int32_t i = 0; i < n; i++) {
        Branch *b = &branches[i];
        int     q = b->queue = b->alone ? 0 : queue_of(branches, i);
        any |= q > 0;
        for (int r = 0; r < DEVICE_QUEUES; r++) {
            b->after[r] = r == q ? -1 : wait_for(branches, i, q, r, known[q][r], stood);
            if (b->after[r] < 0)
                continue;
            known[q][r] = b->after[r];
            branches[b->after[r]].awaited = true;
        }
        stood = b->alone ? i : stood;
    }
    return any;
}

static void branches_free(void *arg)
{
    Branches           *b = arg;
    const DeviceQueues *queues = b->device->queues;
    for (int32_t i = 0; i < b->n; i++)
        if (b->marks[i])
            queues->mark_free(b->device, b->marks[i]);
    if (b->start)
        queues->mark_free(b->device, b->start);
    for (int q = 0; q < DEVICE_QUEUES; q++)
        if (b->ends[q])
            queues->mark_free(b->device, b->ends[q]);
}

Err branches_new(Pool *pool, const Device *device, Branch *branches, int32_t n, Branches **out)
{
    const DeviceQueues *queues = device->queues;
    *out = NULL;
    if (!queues || !queues->take_queue || !branches_plan(branches, n))
        return OK;
    Branches *b = NEW(pool, Branches);
    *b = (Branches){ .device = device, .at = branches, .n = n, .marks = NEWN(pool, void *, n) };
    pool_at_free(pool, branches_free, b);
    TRY(queues->mark_new(device, &b->start));
    for (int q = 1; q < DEVICE_QUEUES; q++)
        TRY(queues->mark_new(device, &b->ends[q]));
    for (int32_t i = 0; i < n; i++)
        if (branches[i].awaited)
            TRY(queues->mark_new(device, &b->marks[i]));
    *out = b;
    return OK;
}

static Err branches_take(Branches *b, int queue)
{
    const DeviceQueues *queues = b->device->queues;
    if (!b->begun[0])                        /* the place from which the others lead off */
        TRY(queues->mark_set(b->device, b->start));
    b->begun[0] = true;
    if (queue != b->queue)
        TRY(queues->take_queue(b->device, queue));
    b->queue = queue;
    if (!b->begun[queue])
        TRY(queues->join(b->device, b->start));
    b->begun[queue] = true;
    return OK;
}

Err branches_before(Branches *b, int32_t launch)
{
    if (!b)
        return OK;
    TRY(branches_take(b, b->at[launch].queue));
    for (int q = 0; q < DEVICE_QUEUES; q++)
        if (b->at[launch].after[q] >= 0)
            TRY(b->device->queues->join(b->device, b->marks[b->at[launch].after[q]]));
    return OK;
}

Err branches_after(Branches *b, int32_t launch)
{
    return b && b->marks[launch] ? b->device->queues->mark_set(b->device, b->marks[launch]) : OK;
}

Err branches_join(Branches *b)
{
    if (!b)
        return OK;
    for (int q = 1; q < DEVICE_QUEUES; q++)
        if (b->begun[q]) {
            TRY(branches_take(b, q));
            TRY(b->device->queues->mark_set(b->device, b->ends[q]));
        }
    TRY(branches_take(b, 0));
    for (int q = 1; q < DEVICE_QUEUES; q++)
        if (b->begun[q])
            TRY(b->device->queues->join(b->device, b->ends[q]));
    return OK;
}
