/* spade_cpu.c -- norm(h) * (1 + gamma) + beta on the CPU, the norm's two sweeps with maps beside h.
 *
 * Rows are single pixels here (no folding): a packed map has twice the columns of h.
 */
#include "ops/norm/groupnorm.h"

#include "device/convert.h"
#include "ops/norm/norm_cpu.h"
#include "ops/parallel.h"

/* Stages: 0 h, 1 dy or y, 2 dh, 3-4 gamma (and beta), 5-6 their gradient. */
enum {
    SPADE_H,
    SPADE_Y,
    SPADE_DH,
    SPADE_MAP,
    SPADE_DMAP = 5,
    SPADE_STAGES = 7,
    SPADE_FORWARD_STAGES = 5
};

static NormPlan spade_plan(const Node *n, const GroupnormAttr *attr, const Device *device)
{
    Shape   h = in_shape(n, 0);
    int64_t channels = dim(h, -1), pixels = shape_count(h) / h.dim[0] / channels;
    return norm_plan(h.dim[0], pixels, channels, attr->groups, false, device->threads);
}

static NormNeeds spade_needs(const Node *n, bool backward)
{
    return (NormNeeds){ .totals = backward,
                        .stages = backward ? SPADE_STAGES : SPADE_FORWARD_STAGES,
                        .type = in_type(n, 0) };
}

Err spade_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    NormPlan plan = spade_plan(n, ATTR(n, GroupnormAttr), device);
    choice->workspace_bytes = norm_work_bytes(&plan, spade_needs(n, false));
    return OK;
}

Err spade_cpu(const Call *call)
{
    const Node          *n = call->node;
    const GroupnormAttr *attr = ATTR(n, GroupnormAttr);
    NormPlan             plan = spade_plan(n, attr, call->device);
    NormWork             work = norm_work(&plan, spade_needs(n, false), call->workspace);
    Type                 type = in_type(n, 0), type_w = in_given(n, 1) ? in_type(n, 1) : F32;
    int64_t              channels = plan.channels, pitch = attr->packed ? 2 * channels : channels;

#pragma omp parallel num_threads(plan.threads)
    {
        int    t = omp_get_thread_num();
        float *mean = norm_vector(&plan, &work, t, 0), *rstd = norm_vector(&plan, &work, t, 1);
        float *weight = norm_vector(&plan, &work, t, 2), *bias = norm_vector(&plan, &work, t, 3);
        norm_statistics(&plan, &work, type, call->in[0], (double)attr->eps, call->out[1]);
        norm_spread_affine(&plan, type_w, call->in[1], 1, weight);
        norm_spread_affine(&plan, type_w, call->in[2], 0, bias);
        for (NormSpan p = norm_span_first(&plan, t); p.count; p = norm_span_next(&plan, p)) {
            norm_spread_statistics(&plan, call->out[1], p.sample, mean, rstd);
            for (NormBlock b = { 0 }; norm_block_next(&plan, &p, &b);) {
                int64_t      count = b.rows * channels, map = b.first / channels * pitch;
                const float *h = row_load(type, call->in[0], b.first, count,
                                          norm_stage(&plan, &work, t, SPADE_H));
                float       *stage = norm_stage(&plan, &work, t, SPADE_MAP), *below = stage + count;
                const float *gamma = row_load(type, call->in[3], map, b.rows * pitch, stage);
                const float *beta = gamma + channels;
                if (!attr->packed)
                    beta = row_load(type, call->in[4], map, count, below);
                float *y = row_open(type, call->out[0], b.first,
                                    norm_stage(&plan, &work, t, SPADE_Y));
                for (int64_t r = 0; r < b.rows; r++)
#pragma omp simd
                    for (int64_t c = 0; c < channels; c++) {
                        int64_t i = r * channels + c, j = r * pitch + c;
                        float   z = (h[i] - mean[c]) * rstd[c] * weight[c] + bias[c];
                        y[i] = z * (1 + gamma[j]) + beta[j];
                    }
                row_store(type, call->out[0], b.first, count, y);
            }
        }
    }
    return OK;
}

Err spade_grad_choose_cpu(const Node *n, const Device *device, Choice *choice)
{
    NormPlan plan = spade_plan(n, &ATTR(n, GroupnormGradAttr)->of, device);
    choice->workspace_bytes = norm_work_bytes(&plan, spade_needs(n, true));
    return OK;
}

/* One block on its way through: what is read, fp32. */
typedef struct SpadeRows {
    const float *h, *dy, *gamma;
    int64_t      count, map; /* elements of h; the first element of the map */
} SpadeRows;

static SpadeRows spade_load(const Call *call, const NormPlan *plan, const NormWork *work,
                            const NormBlock *b, int64_t pitch, int thread)
{
    Type      type = in_type(call->node, 0);
    SpadeRows rows = { .count = b->rows * b->cols, .map = b->first / plan->channels * pitch };
    rows.h = row_load(type, call->in[0], b->first, rows.count,
                      norm_stage(plan, work, thread, SPADE_H));
    rows.dy = row_load(type, call->in[5], b->first, rows.count,
                       norm_stage(plan, work, thread, SPADE_Y));
    rows.gamma = row_load(type, call->in[4], rows.map, b->rows * pitch,
                          norm_stage(plan, work, thread, SPADE_MAP));
    return rows;
}

/* First sweep: sums of dn = dy (1 + gamma) and dn * xhat per channel. */
static void spade_sums(const NormBlock *b, const SpadeRows *rows, int64_t pitch, const float *mean,
                       const float *rstd, float *restrict one, float *restrict two)
{
    for (int64_t c = 0; c < b->cols; c++)
        one[c] = two[c] = 0;
    for (int64_t r = 0; r < b->rows; r++)
#pragma omp simd
        for (int64_t c = 0; c < b->cols; c++) {
            int64_t i = r * b->cols + c;
            float   dn = rows->dy[i] * (1 + rows->gamma[r * pitch + c]);
            one[c] += dn;
            two[c] += dn * (rows->h[i] - mean[c]) * rstd[c];
        }
}

Err spade_grad_cpu(const Call *call)
{
    const Node *n = call->node;
    bool        packed = ATTR(n, GroupnormGradAttr)->of.packed;
    NormPlan    plan = spade_plan(n, &ATTR(n, GroupnormGradAttr)->of, call->device);
    NormWork    work = norm_work(&plan, spade_needs(n, true), call->workspace);
    Type        type = in_type(n, 0), type_w = in_given(n, 2) ? in_type(n, 2) : F32;
    int64_t     channels = plan.channels, pitch = packed ? 2 * channels : channels;
    bool        sums = call->out[0] || call->out[1] || call->out[2];

#pragma omp parallel num_threads(plan.threads)
    {
        int    t = omp_get_thread_num();
        float *mean = norm_vector(&plan, &work, t, 0), *rstd = norm_vector(&plan, &work, t, 1);
        float *weight = norm_vector(&plan, &work, t, 2), *bias = norm_vector(&plan, &work, t, 3);
        float *one = norm_vector(&plan, &work, t, 4), *two = norm_vector(&plan, &work, t, 5);
        norm_spread_affine(&plan, type_w, call->in[2], 1, weight);
        norm_spread_affine(&plan, type_w, call->in[3], 0, bias);
        for (NormSpan p = norm_span_first(&plan, t); sums && p.count;
             p = norm_span_next(&plan, p)) {
            norm_spread_statistics(&plan, call->in[1], p.sample, mean, rstd);
            for (NormBlock b = { 0 }; norm_block_next(&plan, &p, &b);) {
                SpadeRows rows = spade_load(call, &plan, &work, &b, pitch, t);
                spade_sums(&b, &rows, pitch, mean, rstd, one, two);
                norm_add_sums(&plan, &work, &p, &b, one, two);
            }
        }
        if (sums) {
            norm_totals(&plan, &work);
            norm_affine_grads(&plan, &work, call->out[1], call->out[2]);
        }
        bool maps = call->out[0] || call->out[3];
        for (NormSpan p = norm_span_first(&plan, t); maps && p.count;
             p = norm_span_next(&plan, p)) {
            norm_spread_statistics(&plan, call->in[1], p.sample, mean, rstd);
            if (call->out[0])
                norm_spread_means(&plan, &work, p.sample, weight, one, two);
            for (NormBlock b = { 0 }; norm_block_next(&plan, &p, &b);) {
                SpadeRows rows = spade_load(call, &plan, &work, &b, pitch, t);
                if (call->out[3]) { /* first: dh may take dy's bytes */
                    float *dmap = row_open(type, call->out[3], rows.map,
                                           norm_stage(&plan, &work, t, SPADE_DMAP));
                    for (int64_t r = 0; r < b.rows; r++) {
#pragma omp simd
                        for (int64_t c = 0; c < channels; c++) {
                            int64_t i = r * channels + c;
                            float   z = (rows.h[i] - mean[c]) * rstd[c] * weight[c] + bias[c];
                            dmap[r * pitch + c] = rows.dy[i] * z;
                        }
                        if (packed)
                            memcpy(dmap + r * pitch + channels, rows.dy + r * channels,
                                   (size_t)channels * sizeof *dmap);
                    }
                    row_store(type, call->out[3], rows.map, b.rows * pitch, dmap);
                }
                if (!call->out[0])
                    continue;
                float *dh = row_open(type, call->out[0], b.first,
                                     norm_stage(&plan, &work, t, SPADE_DH));
                for (int64_t r = 0; r < b.rows; r++)
#pragma omp simd
                    for (int64_t c = 0; c < channels; c++) {
                        int64_t i = r * channels + c;
                        float   dn = rows.dy[i] * (1 + rows.gamma[r * pitch + c]);
                        float   xhat = (rows.h[i] - mean[c]) * rstd[c];
                        dh[i] = rstd[c] * (dn * weight[c] - one[c] - xhat * two[c]);
                    }
                row_store(type, call->out[0], b.first, rows.count, dh);
            }
        }
    }
    return OK;
}
