/* binary_cuda.cu -- two tensors element by element, and a vector along a tensor, on CUDA. */
#include "ops/reduce/reduce_cuda.h"

extern "C" {
#include "ops/elementwise/binary.h"
#include "ops/reduce/reduce.h"
}

struct SubFn {
    __device__ float at(const float *x) const { return x[0] - x[1]; }
};
struct MulFn {
    __device__ float at(const float *x) const { return x[0] * x[1]; }
};
struct WeightedFn {
    WeightedAttr     w;
    __device__ float at(const float *x) const { return fmaf(w.a, x[0], w.b * x[1]); }
};

extern "C" Err sub_cuda(const Call *call) { return rows_cuda<2>(call, Each<SubFn>()); }
extern "C" Err mul_cuda(const Call *call) { return rows_cuda<2>(call, Each<MulFn>()); }
extern "C" Err weighted_sum_cuda(const Call *call)
{
    Each<WeightedFn> f;
    f.w = *ATTR(call->node, WeightedAttr);
    return rows_cuda<2>(call, f);
}

/* x is (A, M, K), v (A, K). v is reread for every m, but from the cache. */
struct Along {
    AnyIn   v;
    int64_t m, k;
    bool    aligned;

    __device__ void begin() {}

    template <int N> __device__ void values(int64_t i, float (&out)[N]) const
    {
        int64_t at, in_m, a = divided(divided(i, k, &at), m, &in_m);
        if (N > 1 && aligned && k % N == 0) {
            any_get<N>(v, a * k + at, out);
            return;
        }
#pragma unroll
        for (int j = 0; j < N; j++) {
            any_get<1>(v, a * k + at, &out[j]);
            if (++at == k) {
                at = 0;
                if (++in_m == m) {
                    in_m = 0;
                    a++;
                }
            }
        }
    }
};

#define ALONG(Name, IN, EXPRESSION)                                                                \
    struct Name : Along {                                                                          \
        template <int N>                                                                           \
        __device__ void run(int64_t i, const float (&x)[IN][N], float (&y)[N]) const               \
        {                                                                                          \
            float v[N];                                                                            \
            values(i, v);                                                                          \
            _Pragma("unroll") for (int j = 0; j < N; j++) y[j] = EXPRESSION;                       \
        }                                                                                          \
    };
ALONG(AddAlong, 1, x[0][j] + v[j])
ALONG(MulAlong, 1, x[0][j] * v[j])
ALONG(GateAlong, 2, fmaf(v[j], x[1][j], x[0][j])) /* x, h */

template <class F, int IN> static Err along_cuda(const Call *call, const int (&from)[IN])
{
    const ReduceAttr *at = ATTR(call->node, ReduceAttr);
    PackOf            pack = { 8 };
    F                 f;
    f.v = any_in(call, 1);
    f.m = at->m;
    f.k = at->k;
    f.aligned = pack_aligned(f.v.p);
    pack_type(&pack, f.v.type);
    return rows_cuda_of<IN>(call, f, from, pack);
}

/* clang-format off */
extern "C" Err add_rows_cuda(const Call *call)  { return along_cuda<AddAlong>(call, { 0 }); }
extern "C" Err mul_rows_cuda(const Call *call)  { return along_cuda<MulAlong>(call, { 0 }); }
extern "C" Err gated_add_cuda(const Call *call) { return along_cuda<GateAlong>(call, { 0, 2 }); }
/* clang-format on */

extern "C" Err gated_add_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    const ReduceAttr *at = ATTR(n, ReduceAttr);
    if (n->n_out == n->op->n_out)
        return sum_choose_cuda(n, device, choice);
    choice->workspace_bytes = sum_col_sums_bytes(at->a, at->m, at->k, gated_add_grad_rows(at));
    return OK;
}

/* dy gate h -> dh dgate, and partial column sums of dh if asked for */
extern "C" Err gated_add_grad_cuda(const Call *call)
{
    const ReduceAttr *at = ATTR(call->node, ReduceAttr);
    SumJob            job = { any_in(call, 0), any_in(call, 2), any_out(call, 1), at->a,
                              at->m,           at->k,           at->scale };
    job.gate = any_in(call, 1);
    job.gated = any_out(call, 0);
    job.col_sums = call_partial_sums(call);
    job.rows_each = gated_add_grad_rows(at);
    return sum_cuda_run(call, &job);
}

CUDA_KERNEL(sub, .run = sub_cuda)
CUDA_KERNEL(mul, .run = mul_cuda)
CUDA_KERNEL(weighted_sum, .run = weighted_sum_cuda)
CUDA_KERNEL(add_rows, .run = add_rows_cuda)
CUDA_KERNEL(mul_rows, .run = mul_rows_cuda)
CUDA_KERNEL(gated_add, .run = gated_add_cuda)
CUDA_KERNEL(gated_add_grad, .choose = gated_add_grad_choose_cuda, .run = gated_add_grad_cuda)
