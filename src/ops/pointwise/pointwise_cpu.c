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
#include "device/convert.h"
#include "ops/parallel.h"
#include "ops/pointwise/point_steps.h"
#include "ops/pointwise/pointwise_int.h"

#include <math.h>
#include <string.h>

enum {
    MAX_PLACES = POINT_STEPS_MAX + POINT_INPUTS_MAX + POINT_RESULTS,
    MAX_ACTIONS = POINT_STEPS_MAX + POINT_INPUTS_MAX + POINT_RESULTS,
    REGISTER_BYTES = 24 << 10, /* of all registers together: they share the first cache with rows of
                                * operands and results */
    MIN_TILE = 128,
    MAX_TILE = 8192,
    SERIAL_POINTS = 8192, /* fewer points are not worth a team of threads */
};

/* Where a step's row is: places are numbered registers first, then rows of operands and results
 * that are used in memory, then single numbers. */
typedef enum PlaceKind { PLACE_REGISTER, PLACE_OPERAND, PLACE_RESULT, PLACE_NUMBER } PlaceKind;

typedef struct Place {
    uint8_t kind; /* PlaceKind */
    int16_t of;   /* register, operand, result or step */
} Place;

typedef enum ActionKind { ACTION_LOAD, ACTION_STEP, ACTION_STORE, ACTION_REDUCE } ActionKind;

typedef struct Action {
    uint8_t  kind;       /* ActionKind */
    int16_t  of;         /* operand, step or result */
    int16_t  d, a, b, c; /* places */
    PointFn *fn;
} Action;

typedef struct TilePlan {
    int     rank, n_in, n_results, threads;
    int64_t dim[POINT_RANK]; /* axes that belong together are one */
    int64_t box[POINT_RANK]; /* of a tile */
    int64_t grid[POINT_RANK];
    int64_t points, tile; /* of the space; of a tile, at most */
    int64_t stride[POINT_INPUTS_MAX][POINT_RANK];
    int64_t out_stride[POINT_RESULTS][POINT_RANK]; /* 0: reduced */
    Type    in_type[POINT_INPUTS_MAX];
    bool    flat; /* boxes are contiguous ranges of points */

    bool    reduces;
    int     split; /* the axis that is divided among threads, if it reduces */
    int64_t count[POINT_RESULTS], copies[POINT_RESULTS], at[POINT_RESULTS]; /* of sums */
    int64_t sum_bytes;

    int      n_places, n_registers, n_actions, n_numbers;
    Place   *place;
    Action  *action;
    /* steps that are the same for all points, in order, and the place of each */
    int16_t *number, *number_place;
} TilePlan;

typedef struct TileRoom { /* room for any plan */
    Place   place[MAX_PLACES];
    Action  action[MAX_ACTIONS];
    int16_t number[POINT_STEPS_MAX], number_place[POINT_STEPS_MAX];
} TileRoom;

/* ---- the space ---- */

static void plan_axes(TilePlan *t, const PointwiseAttr *p)
{
    PointSpace space;
    point_space(p, &space);
    t->rank = space.rank;
    t->points = space.points;
    memcpy(t->dim, space.dim, sizeof t->dim);
    memcpy(t->stride, space.stride, sizeof t->stride);
    memcpy(t->out_stride, space.out_stride, sizeof t->out_stride);
    memcpy(t->count, space.count, sizeof t->count);
    for (int r = 0; r < p->n_results; r++)
        t->reduces |= p->result[r].reduce != POINT_STORED;
}

/* An axis in whose direction a transposed operand lies, or -1. It is worth boxes of their own where
 * the operand is larger than a cache. */
static int transposed_axis(const TilePlan *t)
{
    int inner = t->rank - 1;
    if (t->dim[inner] < 4 || t->points < 4096)
        return -1;
    for (int i = 0; i < t->n_in; i++) {
        int best = -1;
        if (t->stride[i][inner] < 8)
            continue;
        for (int a = 0; a < inner; a++)
            if (t->stride[i][a] > 0 && t->stride[i][a] < t->stride[i][inner] && t->dim[a] >= 4 &&
                (best < 0 || t->stride[i][a] < t->stride[i][best]))
                best = a;
        if (best >= 0)
            return best;
    }
    return -1;
}

static void plan_boxes(TilePlan *t, int64_t tile)
{
    int across = transposed_axis(t);
    for (int a = 0; a < t->rank; a++)
        t->box[a] = 1;
    t->flat = across < 0;
    if (t->flat) { /* whole inner axes, and a range of the next */
        int64_t left = tile;
        for (int a = t->rank - 1; a >= 0 && left > 1; a--) {
            t->box[a] = t->dim[a] < left ? t->dim[a] : left;
            if (t->box[a] < t->dim[a])
                break;
            left /= t->dim[a];
        }
    } else {
        int inner = t->rank - 1;
        t->box[inner] = t->dim[inner] < 64 ? t->dim[inner] : 64;
        t->box[across] = tile / t->box[inner] < t->dim[across] ? tile / t->box[inner]
                                                               : t->dim[across];
        if (t->box[across] > 64)
            t->box[across] = 64;
    }
    t->tile = 1;
    for (int a = 0; a < t->rank; a++) {
        t->grid[a] = (t->dim[a] + t->box[a] - 1) / t->box[a];
        t->tile *= t->box[a];
    }
}

/* Threads divide an axis that every sum keeps, if one is long enough: then each sum has one owner. */
static void plan_split(TilePlan *t, const PointwiseAttr *p)
{
    int best = -1, kept_best = -1;
    for (int a = 0; a < t->rank; a++) {
        bool kept = true;
        for (int r = 0; r < p->n_results; r++)
            kept &= p->result[r].reduce == POINT_STORED || t->out_stride[r][a] > 0;
        if (kept && t->grid[a] >= t->threads && kept_best < 0)
            kept_best = a;
        if (best < 0 || (t->grid[best] < 4 * t->threads && t->grid[a] > t->grid[best]))
            best = a;
    }
    t->split = kept_best >= 0 ? kept_best : best;
    int64_t at = 0;
    for (int r = 0; r < p->n_results; r++) {
        if (p->result[r].reduce == POINT_STORED)
            continue;
        t->copies[r] = t->out_stride[r][t->split] > 0 || t->dim[t->split] == 1 ? 1 : t->threads;
        t->at[r] = at;
        at += t->copies[r] * t->count[r];
    }
    t->sum_bytes = at * (int64_t)sizeof(double);
}

/* ---- the program ---- */

typedef struct Lowering {
    TilePlan            *t;
    const PointwiseAttr *p;
    int                  taken;                      /* operand whose bytes result 0 takes, or -1 */
    int16_t              place[POINT_STEPS_MAX];     /* of each step, or -1 */
    int                  last_use[POINT_STEPS_MAX];  /* number of the last step that reads it */
    bool                 free[POINT_STEPS_MAX];      /* registers */
    bool                 is_number[POINT_STEPS_MAX]; /* steps that are the same for all points */
    int                  end;                        /* number of the action after all steps */
    bool                 copies;                     /* a result is an operand */
} Lowering;

static bool contiguous(const TilePlan *t, int i)
{
    int64_t next = 1;
    for (int a = t->rank - 1; a >= 0; a--) {
        if (t->dim[a] > 1 && t->stride[i][a] != next)
            return false;
        next *= t->dim[a];
    }
    return true;
}

static bool one_number(const TilePlan *t, int i)
{
    for (int a = 0; a < t->rank; a++)
        if (t->stride[i][a] > 0)
            return false;
    return true;
}

static int16_t place_add(TilePlan *t, PlaceKind kind, int of)
{
    REQUIRE(t->n_places < MAX_PLACES);
    t->place[t->n_places] = (Place){ (uint8_t)kind, (int16_t)of };
    return (int16_t)t->n_places++;
}

static int16_t register_take(Lowering *l)
{
    TilePlan *t = l->t;
    for (int i = 0; i < t->n_places; i++)
        if (t->place[i].kind == PLACE_REGISTER && l->free[t->place[i].of]) {
            l->free[t->place[i].of] = false;
            return (int16_t)i;
        }
    l->free[t->n_registers] = false;
    return place_add(t, PLACE_REGISTER, t->n_registers++);
}

static void register_give(Lowering *l, int step, int now)
{
    const Place *place = &l->t->place[l->place[step]];
    if (place->kind == PLACE_REGISTER && l->last_use[step] <= now)
        l->free[place->of] = true;
}

static void action_add(TilePlan *t, Action action)
{
    REQUIRE(t->n_actions < MAX_ACTIONS);
    t->action[t->n_actions++] = action;
}

/* An operand's row: in memory as it is, or loaded into a register. */
static void lower_input(Lowering *l, int step)
{
    TilePlan *t = l->t;
    int       i = l->p->step[step].a;
    bool      as_is = t->in_type[i] == F32 || t->in_type[i] == I32;
    if (t->flat && as_is && contiguous(t, i)) {
        l->place[step] = place_add(t, PLACE_OPERAND, i);
        return;
    }
    l->place[step] = register_take(l);
    action_add(t, (Action){ .kind = ACTION_LOAD, .of = (int16_t)i, .d = l->place[step] });
}

/* A result that the step may write where it belongs: stored as it is, by nothing but this step. */
static int direct_result(const Lowering *l, int step)
{
    const PointwiseAttr *p = l->p;
    if (!l->t->flat)
        return -1;
    for (int r = 0; r < p->n_results; r++) {
        const PointResult *result = &p->result[r];
        bool               as_is = result->type == F32 || result->type == I32;
        if (result->step != step || result->reduce != POINT_STORED || !as_is)
            continue;
        /* what takes an operand's bytes is written after the operand was read */
        if (r == 0 && l->taken >= 0 && (step != p->n_steps - 1 || l->copies))
            continue;
        return r;
    }
    return -1;
}

/* Stores and reductions of a step, as soon as it has been computed. */
static void lower_results(Lowering *l, int step, bool at_end)
{
    TilePlan *t = l->t;
    int direct = t->place[l->place[step]].kind == PLACE_RESULT ? t->place[l->place[step]].of : -1;
    for (int r = 0; r < l->p->n_results; r++) {
        const PointResult *result = &l->p->result[r];
        bool               late = r == 0 && l->taken >= 0;
        if (result->step != step || r == direct || late != at_end)
            continue;
        action_add(t,
                   (Action){ .kind = result->reduce == POINT_STORED ? ACTION_STORE : ACTION_REDUCE,
                             .of = (int16_t)r,
                             .a = l->place[step] });
    }
}

static void lower_step(Lowering *l, int step)
{
    TilePlan        *t = l->t;
    const PointStep *s = &l->p->step[step];
    int              n = point_op_operands(s->op), reads[] = { s->a, s->b, s->c };
    unsigned         numbers = 0;
    for (int k = 0; k < n; k++) {
        if (l->place[reads[k]] < 0)
            lower_input(l, reads[k]);
        numbers |= (unsigned)l->is_number[reads[k]] << k;
    }
    int16_t a = l->place[s->a];
    if (s->op == POINT_SELECT && (numbers & 1)) { /* one condition for all points: as a row */
        a = register_take(l);
        action_add(t, (Action){ .kind = ACTION_LOAD, .of = -1, .d = a, .a = l->place[s->a] });
        l->free[t->place[a].of] = true;
    }
    for (int k = 0; k < n; k++)
        register_give(l, reads[k], step); /* the result may take their place */
    int direct = direct_result(l, step);
    l->place[step] = direct >= 0 ? place_add(t, PLACE_RESULT, direct) : register_take(l);
    action_add(t, (Action){ .kind = ACTION_STEP,
                            .of = (int16_t)step,
                            .d = l->place[step],
                            .a = a,
                            .b = n > 1 ? l->place[s->b] : a,
                            .c = n > 2 ? l->place[s->c] : a,
                            .fn = point_fn(s->op, l->p->step[s->a].integer, numbers) });
    lower_results(l, step, false);
    if (l->last_use[step] < step) /* a result, and nothing else */
        l->last_use[step] = step;
    register_give(l, step, step);
}

/* Steps that are the same for all points are computed once, as rows of one. */
static void lower_numbers(Lowering *l)
{
    TilePlan            *t = l->t;
    const PointwiseAttr *p = l->p;
    for (int i = 0; i < p->n_steps; i++) {
        const PointStep *s = &p->step[i];
        int              n = point_op_operands(s->op), reads[] = { s->a, s->b, s->c };
        bool             number = s->op != POINT_INPUT || one_number(t, s->a);
        for (int k = 0; k < n; k++)
            number &= l->is_number[reads[k]];
        l->is_number[i] = number;
        if (!number)
            continue;
        l->place[i] = place_add(t, PLACE_NUMBER, i);
        t->number_place[t->n_numbers] = l->place[i];
        t->number[t->n_numbers++] = (int16_t)i;
    }
}

static void lower_program(TilePlan *t, const PointwiseAttr *p, int taken)
{
    Lowering  lowering = { .t = t, .p = p, .taken = taken, .end = p->n_steps };
    Lowering *l = &lowering;
    t->n_places = t->n_registers = t->n_actions = t->n_numbers = 0;
    for (int i = 0; i < p->n_steps; i++) {
        const PointStep *s = &p->step[i];
        int              n = point_op_operands(s->op), reads[] = { s->a, s->b, s->c };
        l->place[i] = -1;
        l->last_use[i] = -1;
        for (int k = 0; k < n; k++)
            l->last_use[reads[k]] = i;
    }
    if (taken >= 0)
        l->last_use[p->result[0].step] = l->end;
    for (int r = 0; r < p->n_results; r++) /* a result that is an operand or a number */
        if (p->step[p->result[r].step].op == POINT_INPUT) {
            l->last_use[p->result[r].step] = l->end;
            l->copies = true;
        }
    lower_numbers(l);
    for (int i = 0; i < p->n_steps; i++)
        if (p->step[i].op != POINT_INPUT && !l->is_number[i])
            lower_step(l, i);
    for (int i = 0; i < p->n_steps; i++) {
        bool result = false;
        for (int r = 0; r < p->n_results; r++)
            result |= p->result[r].step == i;
        if (!result)
            continue;
        if (l->is_number[i]) { /* one number everywhere: as a row */
            int16_t row = register_take(l);
            action_add(t, (Action){ .kind = ACTION_LOAD, .of = -1, .d = row, .a = l->place[i] });
            l->place[i] = row;
            lower_results(l, i, false);
        } else if (p->step[i].op == POINT_INPUT) {
            if (l->place[i] < 0)
                lower_input(l, i);
            lower_results(l, i, false);
        }
    }
    if (taken >= 0)
        lower_results(l, p->result[0].step, true);
}

/* The same for every run of a node: of the addresses, only whether result 0 takes an operand's
 * bytes matters, and not for the tiles. */
static void tile_plan(TilePlan *t, TileRoom *room, const Node *n, int threads, int taken)
{
    const PointwiseAttr *p = ATTR(n, PointwiseAttr);
    memset(t, 0, sizeof *t);
    t->place = room->place;
    t->action = room->action;
    t->number = room->number;
    t->number_place = room->number_place;
    t->n_in = p->n_in;
    t->n_results = p->n_results;
    for (int i = 0; i < p->n_in; i++)
        t->in_type[i] = in_type(n, i);
    plan_axes(t, p);
    t->threads = t->points < SERIAL_POINTS ? 1 : threads;
    t->flat = transposed_axis(t) < 0;
    lower_program(t, p, -1);
    int64_t tile = REGISTER_BYTES / 4 / (t->n_registers ? t->n_registers : 1) / 64 * 64;
    int64_t share = (t->points / (4 * t->threads) + 63) / 64 * 64;
    tile = tile > share && t->threads > 1 ? share : tile;
    tile = tile < MIN_TILE ? MIN_TILE : tile > MAX_TILE ? MAX_TILE : tile;
    plan_boxes(t, tile);
    if (t->reduces)
        plan_split(t, p);
    if (taken >= 0)
        lower_program(t, p, taken);
}

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
    t->place = COPY_OF(pool, Place, t->place, t->n_places);
    t->action = COPY_OF(pool, Action, t->action, t->n_actions);
    t->number = COPY_OF(pool, int16_t, t->number, t->n_numbers);
    t->number_place = COPY_OF(pool, int16_t, t->number_place, t->n_numbers);
    call->prepared = t;
    return OK;
}

/* ---- one tile ---- */

typedef struct Box {
    int64_t from[POINT_RANK], n[POINT_RANK];
    int64_t points, first; /* of the space: the box's first point */
} Box;

static inline float element_f(Type type, const char *p)
{
    float x;
    if (type == F32)
        memcpy(&x, p, 4);
    else
        convert_rows(F32, &x, type, p, 1);
    return x;
}

static inline int32_t element_i(Type type, const char *p)
{
    int32_t x;
    if (type == U8)
        return *(const uint8_t *)p;
    memcpy(&x, p, 4);
    return x;
}

/* A run of n elements that lie next to each other. */
static void run_load(Type type, void *d, const char *src, int64_t n)
{
    if (type == F32 || type == I32)
        memcpy(d, src, (size_t)n * 4);
    else if (type == U8) {
        int32_t       *to = d;
        const uint8_t *from = (const uint8_t *)src;
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i];
    } else
        convert_rows(F32, d, type, src, (size_t)n);
}

static void run_fill(void *d, uint32_t bits, int64_t n)
{
    uint32_t *to = d;
    for (int64_t i = 0; i < n; i++)
        to[i] = bits;
}

static uint32_t element_bits(Type type, const char *src)
{
    uint32_t bits;
    if (type_is_float(type)) {
        float x = element_f(type, src);
        memcpy(&bits, &x, 4);
    } else
        bits = (uint32_t)element_i(type, src);
    return bits;
}

typedef uint32_t Eight __attribute__((vector_size(32)));
typedef uint16_t EightShort __attribute__((vector_size(16)));

static inline void eight_load(Type type, Eight *to, const char *src)
{
    EightShort narrow;
    if (type == BF16) {
        memcpy(&narrow, src, sizeof narrow);
        *to = __builtin_convertvector(narrow, Eight) << 16;
    } else
        memcpy(to, src, sizeof *to);
}

/* An 8 x 8 square: line i of the source, `stride` bytes apart, becomes column i. */
static inline void square_load(Type type, uint32_t *d, int64_t across, const char *src,
                               int64_t stride)
{
    Eight a[8], b[8];
    for (int i = 0; i < 8; i++)
        eight_load(type, &a[i], src + i * stride);
    for (int i = 0; i < 8; i += 2) {
        b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = i; k < i + 2; k++) {
            a[k] = __builtin_shufflevector(b[k], b[k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            a[k + 2] = __builtin_shufflevector(b[k], b[k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int k = 0; k < 4; k++) {
        b[k] = __builtin_shufflevector(a[k], a[k + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        b[k + 4] = __builtin_shufflevector(a[k], a[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    for (int k = 0; k < 8; k++)
        memcpy(d + k * across, &b[k], sizeof b[k]);
}

static void grid_part(Type type, uint32_t *d, int64_t row, const char *src, int64_t rows,
                      int64_t across, int64_t n, int64_t stride)
{
    int64_t size = type_bytes(type);
    if (type == F32 || type == I32) {
        const uint32_t *from = (const uint32_t *)src;
        for (int64_t i = 0; i < n; i++)
            for (int64_t r = 0; r < rows; r++)
                d[r * row + i] = from[r * across + i * stride];
    } else
        for (int64_t i = 0; i < n; i++)
            for (int64_t r = 0; r < rows; r++)
                d[r * row + i] = element_bits(type, src + (r * across + i * stride) * size);
}

/* rows x n elements: element (r, i) is at r * across + i * stride. Rows that lie side by side are
 * transposed by squares: each cache line is read once. */
static void grid_load(Type type, uint32_t *d, const char *src, int64_t rows, int64_t across,
                      int64_t n, int64_t stride)
{
    int64_t size = type_bytes(type), r = 0, i = 0;
    bool    squares = across == 1 && (type == F32 || type == I32 || type == BF16);
    for (; squares && i + 8 <= n; i += 8)
        for (r = 0; r + 8 <= rows; r += 8)
            square_load(type, d + r * n + i, n, src + (r + i * stride) * size, stride * size);
    r = i ? rows / 8 * 8 : 0; /* the squares are rows 0 .. r, columns 0 .. i */
    if (r < rows)
        grid_part(type, d + r * n, n, src + r * across * size, rows - r, across, i ? i : n, stride);
    if (i && i < n)
        grid_part(type, d + i, n, src + i * stride * size, rows, across, n - i, stride);
}

/* The elements of an operand in a box, from axis a on, as one row. */
static void box_load(const TilePlan *t, const int64_t *n, int i, int a, uint32_t *d,
                     const char *src)
{
    const int64_t *stride = t->stride[i];
    int64_t        run = 1, zeros = 1;
    int            size = type_bytes(t->in_type[i]);
    bool           joined = true, same = true;
    for (int b = t->rank - 1; b >= a; b--) {
        joined &= n[b] == 1 || stride[b] == run;
        same &= n[b] == 1 || stride[b] == 0;
        run *= n[b];
        zeros *= n[b];
    }
    if (joined)
        run_load(t->in_type[i], d, src, run);
    else if (same)
        run_fill(d, element_bits(t->in_type[i], src), zeros);
    else if (a == t->rank - 1)
        grid_load(t->in_type[i], d, src, 1, 0, n[a], stride[a]);
    else if (a == t->rank - 2 && stride[a] > 0 && stride[a + 1] > 1)
        grid_load(t->in_type[i], d, src, n[a], stride[a], n[a + 1], stride[a + 1]);
    else {
        int64_t inner = run / n[a];
        if (stride[a] == 0) { /* once, and then copies, each twice as long */
            box_load(t, n, i, a + 1, d, src);
            for (int64_t have = inner; have < run;) {
                int64_t more = run - have < have ? run - have : have;
                memcpy(d + have, d, (size_t)more * 4);
                have += more;
            }
            return;
        }
        for (int64_t k = 0; k < n[a]; k++)
            box_load(t, n, i, a + 1, d + k * inner, src + k * stride[a] * size);
    }
}

static void run_store(Type type, char *d, const void *row, int64_t n)
{
    if (type == F32 || type == I32)
        memcpy(d, row, (size_t)n * 4);
    else if (type == U8) {
        const int32_t *from = row;
        for (int64_t i = 0; i < n; i++)
            d[i] = (char)from[i];
    } else
        convert_rows(type, d, F32, row, (size_t)n);
}

static void box_store(const TilePlan *t, const int64_t *n, const int64_t *stride, Type type, int a,
                      char *d, const uint32_t *row)
{
    int64_t run = 1;
    bool    joined = true;
    for (int b = t->rank - 1; b >= a; b--) {
        joined &= n[b] == 1 || stride[b] == run;
        run *= n[b];
    }
    if (joined) {
        run_store(type, d, row, run);
        return;
    }
    for (int64_t k = 0; k < n[a]; k++)
        box_store(t, n, stride, type, a + 1, d + k * stride[a] * type_bytes(type),
                  row + k * (run / n[a]));
}

/* ---- sums ---- */

typedef union Sum {
    double  f;
    int64_t i;
} Sum;

static double row_sum(const float *x, int64_t n)
{
    enum { LANES = 32 };
    float   lane[LANES] = { 0 };
    int64_t i = 0;
    if (n < LANES) {
        for (; i < n; i++)
            lane[0] += x[i];
        return (double)lane[0];
    }
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += x[i + j];
    for (int j = 0; i < n; i++, j++)
        lane[j] += x[i];
    double sum = 0;
    for (int j = 0; j < LANES; j++)
        sum += (double)lane[j];
    return sum;
}

static inline float larger(float x, float y) { return x > y || x != x ? x : y; }
static inline float smaller(float x, float y) { return x < y || x != x ? x : y; }

static float row_extreme(const float *x, int64_t n, bool max)
{
    enum { LANES = 16 };
    float   lane[LANES];
    int64_t i = 0;
    for (int j = 0; j < LANES; j++)
        lane[j] = max ? -INFINITY : INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] = max ? larger(x[i + j], lane[j]) : smaller(x[i + j], lane[j]);
    for (int j = 0; i < n; i++, j++)
        lane[j] = max ? larger(x[i], lane[j]) : smaller(x[i], lane[j]);
    for (int j = 1; j < LANES; j++)
        lane[0] = max ? larger(lane[j], lane[0]) : smaller(lane[j], lane[0]);
    return lane[0];
}

static void sum_join(Sum *to, Sum x, PointReduce how, bool integer)
{
    if (integer)
        to->i = how == POINT_SUM    ? to->i + x.i
                : how == POINT_AMAX ? (x.i > to->i ? x.i : to->i)
                                    : (x.i < to->i ? x.i : to->i);
    else if (how == POINT_SUM)
        to->f += x.f;
    else if (x.f != x.f || (how == POINT_AMAX ? x.f > to->f : x.f < to->f))
        to->f = x.f;
}

static Sum sum_start(PointReduce how, bool integer)
{
    Sum s;
    if (integer)
        s.i = how == POINT_SUM ? 0 : how == POINT_AMAX ? INT32_MIN : INT32_MAX;
    else
        s.f = how == POINT_SUM ? 0 : how == POINT_AMAX ? (double)-INFINITY : (double)INFINITY;
    return s;
}

/* A row that becomes one number. */
static void reduce_row(Sum *to, const void *row, int64_t n, PointReduce how, bool integer)
{
    Sum s = sum_start(how, integer);
    if (integer) {
        const int32_t *x = row;
        for (int64_t i = 0; i < n; i++)
            sum_join(&s, (Sum){ .i = x[i] }, how, true);
    } else if (how == POINT_SUM)
        s.f = row_sum(row, n);
    else
        s.f = (double)row_extreme(row, n, how == POINT_AMAX);
    sum_join(to, s, how, integer);
}

/* `rows` rows of n that become one: column by column, in fp32 over the rows of a tile. */
static void reduce_columns(Sum *to, const void *row, int64_t rows, int64_t n, PointReduce how,
                           bool integer)
{
    enum { BLOCK = 64 };
    const float   *x = row;
    const int32_t *xi = row;
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t m = n - at < BLOCK ? n - at : BLOCK;
        float   sum[BLOCK];
        if (integer || how != POINT_SUM) {
            for (int64_t r = 0; r < rows; r++)
                for (int64_t i = at; i < at + m; i++)
                    sum_join(&to[i],
                             integer ? (Sum){ .i = xi[r * n + i] }
                                     : (Sum){ .f = (double)x[r * n + i] },
                             how, integer);
            continue;
        }
        for (int64_t i = 0; i < m; i++)
            sum[i] = x[at + i];
        for (int64_t r = 1; r < rows; r++)
            for (int64_t i = 0; i < m; i++)
                sum[i] += x[r * n + at + i];
        for (int64_t i = 0; i < m; i++)
            to[at + i].f += (double)sum[i];
    }
}

static void box_reduce(const TilePlan *t, const int64_t *n, const int64_t *stride, PointReduce how,
                       bool integer, int a, Sum *to, const uint32_t *row)
{
    int64_t run = 1, inner = 1; /* inner: without axis a */
    bool    gone = true, kept = true;
    for (int b = t->rank - 1; b >= a; b--) {
        gone &= n[b] == 1 || stride[b] == 0;
        if (b > a)
            kept &= n[b] == 1 || stride[b] == inner;
        if (b > a)
            inner *= n[b];
        run *= n[b];
    }
    if (gone)
        reduce_row(to, row, run, how, integer);
    else if (kept && stride[a] == 0)
        reduce_columns(to, row, n[a], inner, how, integer);
    else if (kept && (n[a] == 1 || stride[a] == inner))
        reduce_columns(to, row, 1, run, how, integer);
    else
        for (int64_t k = 0; k < n[a]; k++)
            box_reduce(t, n, stride, how, integer, a + 1, to + k * stride[a], row + k * inner);
}

/* ---- the loop ---- */

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
