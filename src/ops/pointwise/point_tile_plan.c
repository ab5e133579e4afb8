/* point_tile_plan.c -- from a pointwise program to boxes of points and actions on rows. */
#include "ops/pointwise/point_tile.h"

#include <string.h>

enum {
    REGISTER_BYTES = 24 << 10, /* of all registers together: they share the first cache with rows of
                                * operands and results */
    MIN_TILE = 128,
    MAX_TILE = 8192,
    SERIAL_POINTS = 8192 /* fewer points are not worth a team of threads */
};

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

static int16_t place_add(TilePlan *t, TilePlaceKind kind, int of)
{
    REQUIRE(t->n_places < MAX_PLACES);
    t->place[t->n_places] = (TilePlace){ (uint8_t)kind, (int16_t)of };
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
    const TilePlace *place = &l->t->place[l->place[step]];
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
void tile_plan(TilePlan *t, TileRoom *room, const Node *n, int threads, int taken)
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
