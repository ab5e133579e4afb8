/* pointwise_cpu.c -- pointwise programs on the CPU, tile by tile.
 *
 * A tile is a box of points whose registers stay in the first cache. For each tile operands are
 * loaded as rows of fp32 or int32, every step is one vector loop over such rows, and results are
 * stored or added to sums. Rows that lie in memory as they are needed are used there.
 *
 * Boxes are contiguous ranges of points, except where an operand is transposed: then they span its
 * fastest axis too, so that a cache line that was fetched is used at once.
 *
 * Sums: a row of a tile in fp32, in fixed lanes; sums of tiles in double, in the order of tiles.
 * Each thread has a range of one axis. Where that axis is summed, each thread has sums of its own,
 * which are added in the order of threads. So the same number of threads gives the same bits.
 */
#include "ops/parallel.h"
#include "ops/pointwise/point_tile.h"

#include <string.h>

Err pointwise_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    TilePlan t;
    TileRoom room;
    tile_plan(&t, &room, n, device->threads, -1);
    choice->workspace_bytes = (size_t)t.sum_bytes;
    return OK;
}

#define COPY_OF(pool, T, from, n) memcpy(NEWN(pool, T, (n) + 1), from, (size_t)(n) * sizeof(T))

Err pointwise_prepare_cpu(Pool *pool, Call *call)
{
    TilePlan *t = NEW(pool, TilePlan);
    TileRoom  room;
    int       taken = -1;
    for (int i = 0; i < call->node->n_in; i++)
        if (call->in[i] == call->out[0])
            taken = i;
    tile_plan(t, &room, call->node, call->device->threads, taken);
    t->place = COPY_OF(pool, TilePlace, t->place, t->n_places);
    t->action = COPY_OF(pool, Action, t->action, t->n_actions);
    t->number = COPY_OF(pool, int16_t, t->number, t->n_numbers);
    t->number_place = COPY_OF(pool, int16_t, t->number_place, t->n_numbers);
    call->prepared = t;
    return OK;
}

typedef struct Worker {
    const Call          *call;
    const TilePlan      *t;
    const PointwiseAttr *p;
    int                  thread;
    char                *registers;
    void                *at[MAX_PLACES];
    uint32_t             number[POINT_STEPS_MAX];
} Worker;

/* The numbers that are the same for all points. */
static void worker_numbers(Worker *w)
{
    const TilePlan *t = w->t;
    for (int i = 0; i < t->n_numbers; i++) {
        int              at = t->number[i];
        const PointStep *s = &w->p->step[at];
        uint32_t        *x = w->number;
        int              n = point_op_operands(s->op);
        if (s->op == POINT_INPUT)
            x[at] = element_bits(t->in_type[s->a], w->call->in[s->a]);
        else if (s->op == POINT_CONSTANT)
            memcpy(&x[at], &s->value, 4);
        else
            point_fn(s->op, w->p->step[s->a].integer,
                     0)(1, &x[at], &x[s->a], n > 1 ? &x[s->b] : NULL, n > 2 ? &x[s->c] : NULL);
        w->at[t->number_place[i]] = &x[at];
    }
}

static void worker_begin(Worker *w, const Call *call, int thread, char *registers)
{
    const TilePlan *t = call->prepared;
    w->call = call;
    w->t = t;
    w->p = ATTR(call->node, PointwiseAttr);
    w->thread = thread;
    w->registers = registers;
    for (int i = 0; i < t->n_places; i++)
        if (t->place[i].kind == PLACE_REGISTER)
            w->at[i] = registers + (int64_t)t->place[i].of * t->tile * 4;
    worker_numbers(w);
}

static int64_t offset_of(const TilePlan *t, const int64_t *stride, const int64_t *from)
{
    int64_t offset = 0;
    for (int a = 0; a < t->rank; a++)
        offset += from[a] * stride[a];
    return offset;
}

static void worker_action(Worker *w, const Action *action, const Box *box)
{
    const TilePlan *t = w->t;
    const Call     *call = w->call;
    int             of = action->of;
    switch ((ActionKind)action->kind) {
    case ACTION_STEP:
        action->fn(box->points, w->at[action->d], w->at[action->a], w->at[action->b],
                   w->at[action->c]);
        break;
    case ACTION_LOAD:
        if (of < 0) {
            run_fill(w->at[action->d], *(const uint32_t *)w->at[action->a], box->points);
            break;
        }
        box_load(t, box->n, of, 0, w->at[action->d],
                 (const char *)call->in[of] +
                     offset_of(t, t->stride[of], box->from) * type_bytes(t->in_type[of]));
        break;
    case ACTION_STORE: {
        Type type = w->p->result[of].type;
        if (call->out[of])
            box_store(t, box->n, t->out_stride[of], type, 0,
                      (char *)call->out[of] + box->first * type_bytes(type), w->at[action->a]);
        break;
    }
    case ACTION_REDUCE: {
        const PointResult *r = &w->p->result[of];
        Sum               *sums = (Sum *)call->workspace + t->at[of];
        if (t->copies[of] > 1)
            sums += w->thread * t->count[of];
        box_reduce(t, box->n, t->out_stride[of], r->reduce, w->p->step[r->step].integer, 0,
                   sums + offset_of(t, t->out_stride[of], box->from), w->at[action->a]);
        break;
    }
    }
}

static void worker_box(Worker *w, const Box *box)
{
    const TilePlan *t = w->t;
    for (int i = 0; i < t->n_places; i++)
        if (t->place[i].kind == PLACE_OPERAND)
            w->at[i] = (char *)w->call->in[t->place[i].of] + box->first * 4;
        else if (t->place[i].kind == PLACE_RESULT)
            w->at[i] = (char *)w->call->out[t->place[i].of] + box->first * 4;
    for (int i = 0; i < t->n_actions; i++)
        worker_action(w, &t->action[i], box);
}

static void box_at(const TilePlan *t, const int64_t *cell, Box *box)
{
    int64_t stride = 1;
    box->points = 1;
    box->first = 0;
    for (int a = t->rank - 1; a >= 0; a--) {
        int64_t left = t->dim[a] - cell[a] * t->box[a];
        box->from[a] = cell[a] * t->box[a];
        box->n[a] = left < t->box[a] ? left : t->box[a];
        box->points *= box->n[a];
        box->first += box->from[a] * stride;
        stride *= t->dim[a];
    }
}

/* The cells of the grid from..to along the axis `split` (-1: numbered through), in order. */
static void worker_cells(Worker *w, int split, int64_t from, int64_t to)
{
    const TilePlan *t = w->t;
    int64_t         cell[POINT_RANK] = { 0 }, count = to - from, rest = from;
    Box             box;
    if (split >= 0) {
        cell[split] = from;
        for (int a = 0; a < t->rank; a++)
            count *= a == split ? 1 : t->grid[a];
    } else
        for (int a = t->rank - 1; a >= 0; a--) {
            cell[a] = rest % t->grid[a];
            rest /= t->grid[a];
        }
    for (int64_t i = 0; i < count; i++) {
        box_at(t, cell, &box);
        worker_box(w, &box);
        for (int a = t->rank - 1; a >= 0; a--) {
            if (++cell[a] < (a == split ? to : t->grid[a]))
                break;
            cell[a] = a == split ? from : 0;
        }
    }
}

static void sums_start(const Worker *w, int64_t from, int64_t to, int r)
{
    const PointResult *result = &w->p->result[r];
    Sum               *sums = (Sum *)w->call->workspace + w->t->at[r];
    Sum                start = sum_start(result->reduce, w->p->step[result->step].integer);
    for (int64_t i = from; i < to; i++)
        sums[i] = start;
}

static void sums_end(const Worker *w, int64_t from, int64_t to, int r)
{
    enum { BLOCK = 256 };
    const TilePlan    *t = w->t;
    const PointResult *result = &w->p->result[r];
    bool               integer = w->p->step[result->step].integer;
    Sum               *sums = (Sum *)w->call->workspace + t->at[r];
    char              *out = w->call->out[r];
    uint32_t           row[BLOCK];
    for (int64_t i = from; i < to; i += BLOCK) {
        int64_t m = to - i < BLOCK ? to - i : BLOCK;
        for (int64_t j = 0; j < m; j++) {
            Sum s = sums[i + j];
            for (int64_t copy = 1; copy < t->copies[r]; copy++)
                sum_join(&s, sums[copy * t->count[r] + i + j], result->reduce, integer);
            float x = (float)(s.f * (double)result->scale);
            if (integer)
                row[j] = (uint32_t)s.i;
            else
                memcpy(&row[j], &x, 4);
        }
        run_store(result->type, out + i * type_bytes(result->type), row, m);
    }
}

static void worker_run(Worker *w, int thread, int threads)
{
    const TilePlan *t = w->t;
    int64_t         from, to, cells = 1;
    if (!t->reduces) {
        for (int a = 0; a < t->rank; a++)
            cells *= t->grid[a];
        parallel_range(cells, 1, thread, threads, &from, &to);
        if (from < to)
            worker_cells(w, -1, from, to);
        return;
    }
    for (int r = 0; r < t->n_results; r++)
        if (t->copies[r]) {
            parallel_range(t->count[r] * t->copies[r], 8, thread, threads, &from, &to);
            sums_start(w, from, to, r);
        }
#pragma omp barrier
    parallel_range(t->grid[t->split], 1, thread, threads, &from, &to);
    if (from < to)
        worker_cells(w, t->split, from, to);
#pragma omp barrier
    for (int r = 0; r < t->n_results; r++)
        if (t->copies[r] && w->call->out[r]) {
            parallel_range(t->count[r], 64, thread, threads, &from, &to);
            sums_end(w, from, to, r);
        }
}

/* Registers are on the thread's stack. */
static void worker_thread(const Call *call, int thread, int threads)
{
    const TilePlan *t = call->prepared;
    char            bytes[(int64_t)t->n_registers * t->tile * 4 + 64];
    Worker          w;
    worker_begin(&w, call, thread, bytes + (64 - (uintptr_t)bytes % 64) % 64);
    worker_run(&w, thread, threads);
}

Err pointwise_cpu(const Call *call)
{
    const TilePlan *t = call->prepared;
    if (t->threads == 1) {
        worker_thread(call, 0, 1);
        return OK;
    }
#pragma omp parallel num_threads(t->threads)
    worker_thread(call, omp_get_thread_num(), t->threads);
    return OK;
}
