/* session_weights.c -- starting values of persistent values, and parameters in disk order.
 *
 * The arena may hold a parameter with its axes in another order than its file does (convolutions:
 * taps first, output channels last). Everything outside the arena uses the file's order. */
#include "exec/session_int.h"
#include "exec/session_ranks.h"

#include "base/int_math.h"
#include "base/random.h"
#include "device/convert.h"
#include "ops/optimizer/optim.h"

#include <stdlib.h>
#include <string.h>

/* A parameter's elements in both orders. Axes that are neighbours in both are joined. Elements are
 * copied in runs along the arena's last axis, the runs in the file's order: each cache line of the
 * arena is accessed once, and each of the file is completed before the next. */
typedef struct ParamOrders {
    int64_t width, step; /* the arena's last axis: its length, its stride in the file */
    int64_t run;         /* elements of a run; the last run of the axis may be shorter */
    int64_t n, n_rest;   /* runs in all, and per position on the last axis */
    int     rank;        /* the other axes, in the file's order, fastest first */
    int64_t dim[MAX_RANK], arena[MAX_RANK], disk[MAX_RANK];
} ParamOrders;

typedef struct ParamRun {
    int64_t arena, disk, n; /* its first element in both orders, its length */
} ParamRun;

enum {
    RUN_ACROSS = 16, /* elements: a cache line of fp32 */
    RUN_ALONG = 4096 /* elements, where they are contiguous in the file too */
};

/* The arena's axes, neighbours joined, slowest first, each with the first file axis it stands
 * for. */
static int orders_axes(const Param *param, Shape shape, int64_t *dim, int *disk_axis)
{
    int n = 0;
    for (int a = 0; a < shape.rank; a++) {
        if (a && param->axis[a] == param->axis[a - 1] + 1) {
            dim[n - 1] *= shape.dim[a];
        } else {
            dim[n] = shape.dim[a];
            disk_axis[n++] = param->axis[a];
        }
    }
    return n;
}

static ParamOrders orders_of(const Param *param, Shape shape)
{
    ParamOrders o = { .width = 1, .step = 1 };
    int64_t     dim[MAX_RANK], arena[MAX_RANK], arena_stride = 1, disk_stride = 1;
    int         disk_axis[MAX_RANK], n = orders_axes(param, shape, dim, disk_axis);
    for (int a = n - 1; a >= 0; a--) {
        arena[a] = arena_stride;
        arena_stride *= dim[a];
    }
    for (int at = shape.rank - 1; at >= 0; at--) /* the file's axes, fastest first */
        for (int a = 0; a < n; a++) {
            if (disk_axis[a] != at)
                continue;
            if (a == n - 1) {
                o.width = dim[a];
                o.step = disk_stride;
            } else {
                o.dim[o.rank] = dim[a];
                o.arena[o.rank] = arena[a];
                o.disk[o.rank++] = disk_stride;
            }
            disk_stride *= dim[a];
        }
    o.run = o.step == 1 ? RUN_ALONG : RUN_ACROSS;
    o.n_rest = o.width ? shape_count(shape) / o.width : 0;
    o.n = ceil_div(o.width, o.run) * o.n_rest;
    return o;
}

static ParamRun orders_run(const ParamOrders *o, int64_t i)
{
    int64_t  place = i / o->n_rest * o->run, rest = i % o->n_rest;
    ParamRun r = { place, place * o->step, o->width - place < o->run ? o->width - place : o->run };
    for (int a = 0; a < o->rank; a++) {
        int64_t index = rest % o->dim[a];
        rest /= o->dim[a];
        r.arena += index * o->arena[a];
        r.disk += index * o->disk[a];
    }
    return r;
}

/* Elements that one thread draws at a time. Smaller parameters are drawn by one thread. */
enum { DRAW_CHUNK = 1 << 16 };

/* From disk order and fp32 to the arena's order and this type. */
static void param_from_disk(const Param *param, Type type, Shape shape, const void *disk, void *to)
{
    ParamOrders o = orders_of(param, shape);
#pragma omp parallel for schedule(static) /* no "if": that would allocate another team */
    for (int64_t i = 0; i < o.n; i++) {
        ParamRun    r = orders_run(&o, i);
        float       row[RUN_ALONG]; /* the file's bytes need not be aligned */
        const char *from = (const char *)disk + r.disk * (int64_t)sizeof *row;
        if (o.step == 1)
            memcpy(row, from, (size_t)r.n * sizeof *row);
        else
            for (int64_t j = 0; j < r.n; j++)
                memcpy(&row[j], from + j * o.step * (int64_t)sizeof *row, sizeof *row);
        convert_rows(type, (char *)to + r.arena * type_bytes(type), F32, row, (size_t)r.n);
    }
}

static Shape param_shape(const Graph *graph, const Param *param)
{
    return value_at(graph, param->value)->shape;
}

static Err weights_put(Session *session, const Param *param, int32_t id, const void *disk)
{
    const Graph *graph = session_engine(session)->graph;
    const Value *value = value_at(graph, id);
    if (param_shards(graph, param, id)) {
        float *all = session_shard_buffer(session);
        param_from_disk(param, F32, param_shape(graph, param), disk, all);
        return session_put_shard(session, param, id, all);
    }
    void *to = session_host_buffer(session, id);
    param_from_disk(param, value->type, value->shape, disk, to);
    return session_has_host_buffer(session) ? session_write(session, id, to) : OK;
}

Err session_put_param(Session *session, int32_t index, int32_t id, const void *disk)
{
    const Param *param = &session_engine(session)->graph->params[index];
    TRY(weights_put(session, param, id, disk));
    return id == param->master ? weights_put(session, param, param->value, disk) : OK;
}

Err session_set_param(Session *session, int32_t index, const float *disk)
{
    const Param *param = &session_engine(session)->graph->params[index];
    return session_put_param(session, index, param->master >= 0 ? param->master : param->value,
                             disk);
}

void param_to_disk(const Param *param, const Value *value, const void *from, float *disk)
{
    ParamOrders o = orders_of(param, value->shape);
#pragma omp parallel for schedule(static) /* no "if": that would allocate another team */
    for (int64_t i = 0; i < o.n; i++) {
        ParamRun     r = orders_run(&o, i);
        float        buffer[RUN_ALONG];
        const float *row = row_load(value->type, from, r.arena, r.n, buffer);
        if (o.step == 1)
            memcpy(disk + r.disk, row, (size_t)r.n * sizeof *row);
        else
            for (int64_t j = 0; j < r.n; j++)
                disk[r.disk + j * o.step] = row[j];
    }
}

static Err weights_collect(Session *session, int rank, const Param *param, int32_t id, float *disk)
{
    const Graph *graph = session_engine(session)->graph;
    Value        whole = { .shape = param_shape(graph, param), .type = value_at(graph, id)->type };
    const void  *all;
    TRY(session_collect(session, param, id, rank, &all));
    if (all)
        param_to_disk(param, &whole, all, disk);
    return OK;
}

Err session_get_param(Session *session, int32_t index, int32_t id, float *disk)
{
    return session_get_param_at(session, -1, index, id, disk);
}

Err session_get_param_at(Session *session, int rank, int32_t index, int32_t id, float *disk)
{
    const Graph *graph = session_engine(session)->graph;
    if (param_shards(graph, &graph->params[index], id))
        return weights_collect(session, rank, &graph->params[index], id, disk);
    void *from = session_host_buffer(session, id);
    if (session_has_host_buffer(session))
        TRY(session_read(session, id, from));
    param_to_disk(&graph->params[index], value_at(graph, id), from, disk);
    return OK;
}

/* A standard normal within two deviations: those beyond are drawn again, each by itself. */
static float normal_within(RandomKey key, uint64_t element, float first)
{
    while (fabsf(first) > 2) {
        key.step++;
        first = random_normal_at(key, element);
    }
    return first;
}

/* Uniform in [-scale, scale], or normal with deviation `scale`; drawn by all threads. */
static void init_random(const Param *param, uint64_t seed, float *data)
{
    int64_t   count = shape_count(param->disk);
    RandomKey key = { .seed = seed, .stream = random_stream(param->name) };
    float     scale = param->init.scale;
    bool      uniform = param->init.kind == INIT_UNIFORM;
    bool      truncated = param->init.kind == INIT_TRUNCATED;
#pragma omp parallel for schedule(static) if (count > DRAW_CHUNK)
    for (int64_t from = 0; from < count; from += DRAW_CHUNK) {
        int64_t n = count - from < DRAW_CHUNK ? count - from : DRAW_CHUNK;
        float  *at = data + from;
        if (uniform)
            random_uniforms(key, (uint64_t)from, n, at);
        else
            random_normals(key, (uint64_t)from, n, at);
        for (int64_t i = 0; truncated && i < n; i++)
            at[i] = normal_within(key, (uint64_t)(from + i), at[i]);
        for (int64_t i = 0; i < n; i++)
            at[i] = scale * (uniform ? 2 * at[i] - 1 : at[i]);
    }
}

void param_start(const Param *param, uint64_t seed, float *data)
{
    int64_t count = shape_count(param->disk);
    switch (param->init.kind) {
    case INIT_ZEROS: memset(data, 0, (size_t)count * sizeof *data); break;
    case INIT_ONES:
    case INIT_CONSTANT:
        for (int64_t i = 0; i < count; i++)
            data[i] = param->init.kind == INIT_ONES ? 1 : param->init.scale;
        break;
    case INIT_UNIFORM:
    case INIT_NORMAL:
    case INIT_TRUNCATED: init_random(param, seed, data); break;
    case INIT_CUSTOM: param->init.custom(data, param->disk, seed, param->init.arg); break;
    }
}

Err session_init_state(Session *session, uint64_t seed)
{
    const Graph *graph = session_engine(session)->graph;
    for (int32_t i = 0; i < graph->n_constants; i++) {
        const Constant *constant = &graph->constants[i];
        const Value    *value = value_at(graph, constant->value);
        void           *to = session_host_buffer(session, constant->value);
        if (constant->data)
            memcpy(to, constant->data, (size_t)value->bytes);
        else
            memset(to, 0, (size_t)value->bytes);
        if (!strcmp(value->name, "run.counters")) {
            ((int32_t *)to)[COUNTER_SEED_LOW] = (int32_t)(uint32_t)seed;
            ((int32_t *)to)[COUNTER_SEED_HIGH] = (int32_t)(uint32_t)(seed >> 32);
        } else if (!strcmp(value->name, "optimizer.progress")) {
            ((float *)to)[PROGRESS_SCALE] = graph->compute == F16 ? 65536.0f : 1.0f;
            ((float *)to)[PROGRESS_FINITE] = 1;
        }
        if (session_has_host_buffer(session))
            TRY(session_write(session, constant->value, to));
    }
    return OK;
}

Err session_init(Session *session, uint64_t seed)
{
    const Graph *graph = session_engine(session)->graph;
    TRY(session_init_state(session, seed));
    for (int32_t i = 0; i < graph->n_params; i++) {
        const Param *param = &graph->params[i];
        float       *data = malloc((size_t)shape_count(param->disk) * sizeof *data);
        if (!data)
            return fail(E_DEVICE, "no host memory for the %lld starting values of %s",
                        (long long)shape_count(param->disk), param->name);
        param_start(param, seed, data);
        Err err = session_set_param(session, i, data);
        if (!err && param->ema >= 0) /* the EMA starts as a copy */
            err = session_put_param(session, i, param->ema, data);
        free(data);
        TRY(err);
    }
    return OK;
}
