/* norm_dx_cuda.cu -- gradients of norms on CUDA: dx, and those of SPADE's maps. */
#include "ops/norm/norm_kernels_cuda.h"

/* dx, plus `before` if ADD, and the gradient of SPADE's maps. Every element of dy is read before dx
 * takes its place. */
template <class T, int V, int FORM, bool ADD = false>
__global__ void __launch_bounds__(NORM_THREADS, DX_BLOCKS) norm_dx(NormCuda run, const float *means)
{
    cuda_begin();
    constexpr bool  MAP = FORM == MAPPED;
    constexpr int   AHEAD = MAP ? MAP_AHEAD : ADD ? ADD_AHEAD : DX_AHEAD;
    NormPlace       p = place_of<V, AHEAD>(run);
    int64_t         base = p.sample * run.pixels * run.channels;
    ColumnAffine<V> k;
    NormChannel     c(run, p.column * V);
    float           one[V], two[V], rstd[V];
    const float2   *of = (const float2 *)means + p.sample * run.groups;
    columns_of<V>(run, p, k, rstd);
#pragma unroll
    for (int j = 0; j < V; j++, c.next()) {
        bool   moves = p.active && !run.var && run.dx;
        float2 m = moves ? of[c.group] : make_float2(0, 0);
        one[j] = rstd[j] * m.x;
        two[j] = rstd[j] * rstd[j] * m.y;
    }
    for (int r = 0; r < p.rounds; r++) {
        int        v = p.first + r * p.stride;
        Pack<T, V> x[AHEAD], dy[AHEAD], gammas[AHEAD], befores[AHEAD];
        packs_get<T, V, AHEAD>(p, (const T *)run.x + base, v, x);
        packs_get<T, V, AHEAD>(p, (const T *)run.dy + base, v, dy);
        if (MAP)
            maps_get<T, V, AHEAD>(run, p, (const T *)run.gamma, v, gammas);
        if (ADD)
            packs_get<T, V, AHEAD>(p, (const T *)run.before + base, v, befores);
#pragma unroll
        for (int s = 0; s < AHEAD; s++) {
            float a[V], d[V], gamma[V], before[V];
            bool  in = v + s * p.step < p.end;
            pack_numbers<T, V>(x[s], a);
            pack_numbers<T, V>(dy[s], d);
            if (MAP) {
                pack_numbers<T, V>(gammas[s], gamma);
                if (run.dgamma && in) {
                    int64_t at = map_at<V>(run, p, v + s * p.step);
                    float   dg[V];
#pragma unroll
                    for (int j = 0; j < V; j++)
                        dg[j] = d[j] * ((a[j] - k.mean[j]) * k.scale[j] + k.bias[j]);
                    put_pack<V>((T *)run.dgamma, at, dg);
                    if (run.packed) /* the gradient of beta is dy itself */
                        put_pack<V>((T *)run.dgamma, at + run.channels, d);
                }
                if (!run.dx)
                    continue;
            }
            if (ADD)
                pack_numbers<T, V>(befores[s], before);
#pragma unroll
            for (int j = 0; j < V; j++) {
                float away = a[j] - k.mean[j];
                float dz = d[j] * (MAP ? 1 + gamma[j]
                                       : act_slope((NormAct)FORM, away * k.scale[j] + k.bias[j]));
                a[j] = dz * k.scale[j] - one[j] - away * two[j];
                if (ADD)
                    a[j] += before[j];
            }
            if (in)
                put_pack<V>((T *)run.dx, base + (int64_t)(v + s * p.step) * V, a);
        }
    }
}

/* ---- host ---- */

/* Kernels that add `before` are separate copies, so that the others keep their registers. */
#define DX_OF(run, T, V)                                                                           \
    (!(run).before            ? FORM_OF(run, norm_dx, T, V)                                        \
     : (run).act == NORM_SILU ? norm_dx<T, V, NORM_SILU, true>                                     \
     : (run).act == NORM_RELU ? norm_dx<T, V, NORM_RELU, true>                                     \
     : (run).act == NORM_GELU ? norm_dx<T, V, NORM_GELU, true>                                     \
                              : norm_dx<T, V, NORM_LINEAR, true>)

Err norm_dx_cuda(const Call *call, NormCuda run, const float *means)
{
    cudaStream_t stream = cuda_stream(call);
    int          sms = cuda_handle(call)->sms;
    norm_divide(&run, (int64_t)sms * DX_BLOCKS);
    WITH_VECTORS(
        run,
        run.gamma    ? MAP_AHEAD
        : run.before ? ADD_AHEAD
                     : DX_AHEAD,
        cuda_launch(stream, DX_OF(run, T, V), norm_blocks(&run), NORM_THREADS, 0, run, means););
    CUDA_LAUNCHED();
    return OK;
}
