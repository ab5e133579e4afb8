/* weights.c -- what persistent values hold before the first step, and parameters in disk order.
 *
 * The arena may hold a parameter with its axes in another order than its file does (convolutions:
 * taps first, output channels last); everything outside the arena uses the file's order. */
#include "exec/session_int.h"

#include "base/random.h"
#include "device/convert.h"
#include "ops/optim.h"

#include <stdlib.h>
#include <string.h>

/* Runs the statements for every element in [first, last) of the arena's order, with its index in
 * both. */
#define EACH_ELEMENT(param, shape, first, last, disk_at, arena_at, ...)                            \
    do {                                                                                           \
        int64_t stride_[MAX_RANK], index_[MAX_RANK], disk_stride_ = 1, disk_at = 0, rest_ = first; \
        for (int a_ = (param)->disk.rank - 1; a_ >= 0; a_--) {                                     \
            for (int b_ = 0; b_ < (param)->disk.rank; b_++)                                        \
                if ((param)->axis[b_] == a_)                                                       \
                    stride_[b_] = disk_stride_;                                                    \
            disk_stride_ *= (param)->disk.dim[a_];                                                 \
        }                                                                                          \
        for (int a_ = (shape).rank - 1; a_ >= 0; a_--) {                                           \
            index_[a_] = rest_ % (shape).dim[a_];                                                  \
            rest_ /= (shape).dim[a_];                                                              \
            disk_at += index_[a_] * stride_[a_];                                                   \
        }                                                                                          \
        for (int64_t arena_at = first; arena_at < last; arena_at++) {                              \
            __VA_ARGS__                                                                            \
            for (int a_ = (shape).rank - 1; a_ >= 0; a_--) {                                       \
                disk_at += stride_[a_];                                                            \
                if (++index_[a_] < (shape).dim[a_])                                                \
                    break;                                                                         \
                disk_at -= stride_[a_] * (shape).dim[a_];                                          \
                index_[a_] = 0;                                                                    \
            }                                                                                      \
        }                                                                                          \
    } while (0)

/* elements filled or moved by one thread at a time: large models start sooner */
enum { PIECE = 1 << 16 };

static void weights_store(Type type, void *to, int64_t at, float x)
{
    convert_rows(type, (char *)to + at * type_bytes(type), F32, &x, 1);
}

static Err weights_put(Session *session, const Param *param, int32_t id, const void *disk)
{
    const Value *value = value_at(session_engine(session)->graph, id);
    void        *to = session_room(session, id);
    int64_t      count = shape_count(value->shape);
#pragma omp parallel for schedule(static) if (count > PIECE)
    for (int64_t first = 0; first < count; first += PIECE) {
        int64_t last = first + PIECE < count ? first + PIECE : count;
        EACH_ELEMENT(param, value->shape, first, last, from, at, {
            float x;
            memcpy(&x, (const char *)disk + from * (int64_t)sizeof x, sizeof x);
            weights_store(value->type, to, at, x);
        });
    }
    return session_is_staged(session) ? session_write(session, id, to) : OK;
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

Err session_get_param(Session *session, int32_t index, int32_t id, float *disk)
{
    const Graph *graph = session_engine(session)->graph;
    const Param *param = &graph->params[index];
    const Value *value = value_at(graph, id);
    void        *from = session_room(session, id);
    float        buffer[1];

    if (session_is_staged(session))
        TRY(session_read(session, id, from));
    int64_t count = shape_count(value->shape);
    EACH_ELEMENT(param, value->shape, 0, count, to, at, {
        disk[to] = *row_load(value->type, from, at, 1, buffer);
    });
    return OK;
}

static void init_fill(const Param *param, uint64_t seed, float *data)
{
    int64_t   count = shape_count(param->disk);
    RandomKey key = { .seed = seed, .stream = random_stream(param->name) };
    float     scale = param->init.scale;
    switch (param->init.kind) {
    case INIT_ZEROS:
        memset(data, 0, (size_t)count * sizeof *data);
        break;
    case INIT_ONES:
    case INIT_CONSTANT:
        for (int64_t i = 0; i < count; i++)
            data[i] = param->init.kind == INIT_ONES ? 1 : scale;
        break;
    case INIT_UNIFORM:
#pragma omp parallel for schedule(static) if (count > PIECE)
        for (int64_t i = 0; i < count; i++)
            data[i] = scale * (2 * random_uniform_at(key, (uint64_t)i) - 1);
        break;
    case INIT_NORMAL:
#pragma omp parallel for schedule(static) if (count > PIECE)
        for (int64_t i = 0; i < count; i++)
            data[i] = scale * random_normal_at(key, (uint64_t)i);
        break;
    case INIT_CUSTOM:
        param->init.custom(data, param->disk, seed, param->init.arg);
        break;
    }
}

Err session_init(Session *session, uint64_t seed)
{
    const Graph *graph = session_engine(session)->graph;
    for (int32_t i = 0; i < graph->n_constants; i++) {
        const Constant *constant = &graph->constants[i];
        const Value    *value = value_at(graph, constant->value);
        void           *to = session_room(session, constant->value);
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
        if (session_is_staged(session))
            TRY(session_write(session, constant->value, to));
    }
    for (int32_t i = 0; i < graph->n_params; i++) {
        const Param *param = &graph->params[i];
        float       *data = malloc((size_t)shape_count(param->disk) * sizeof *data);
        if (!data)
            return fail(E_DEVICE, "out of host memory while initialising %s", param->name);
        init_fill(param, seed, data);
        Err err = session_set_param(session, i, data);
        if (!err && param->ema >= 0)         /* the average starts as a copy */
            err = session_put_param(session, i, param->ema, data);
        free(data);
        TRY(err);
    }
    return OK;
}
