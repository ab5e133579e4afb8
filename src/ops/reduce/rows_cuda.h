/* rows_cuda.h -- elementwise work on CUDA in packs of adjacent elements, for any storage types.
 *
 * Storage types are known at launch, not at compile time: a branch that all threads take the same
 * way costs nothing compared with memory accesses, and one kernel serves every mix of types. A pack
 * is 16 bytes of the widest type: 8 elements where all are 2-byte, 4 where any is fp32, 1 where a
 * pointer or an extent does not allow more. */
#ifndef OPS_REDUCE_ROWS_CUDA_H
#define OPS_REDUCE_ROWS_CUDA_H

#include "ops/ops_cuda.h"

enum { ROW_THREADS = 256 };

typedef struct AnyIn {
    const void *p;
    Type        type;
} AnyIn;
typedef struct AnyOut {
    void *p;
    Type  type;
} AnyOut;

static inline AnyIn any_in(const Call *call, int i)
{
    return { call->in[i], in_type(call->node, i) };
}
static inline AnyOut any_out(const Call *call, int i)
{
    return { call->out[i], out_type(call->node, i) };
}

/* The bytes of N elements. All inputs are loaded before any is converted, so that loads overlap. */
template <int N> struct Raw {
    uint32_t w[N == 8 ? 4 : N];
};

template <int N> __device__ __forceinline__ Raw<N> raw_load(AnyIn x, int64_t i)
{
    Raw<N> raw;
    if constexpr (N == 8) {
        uint4 v = *(const uint4 *)((const uint16_t *)x.p + i);
        raw.w[0] = v.x, raw.w[1] = v.y, raw.w[2] = v.z, raw.w[3] = v.w;
    } else if constexpr (N == 4) {
        if (x.type == F32) {
            uint4 v = *(const uint4 *)((const uint32_t *)x.p + i);
            raw.w[0] = v.x, raw.w[1] = v.y, raw.w[2] = v.z, raw.w[3] = v.w;
        } else {
            uint2 v = *(const uint2 *)((const uint16_t *)x.p + i);
            raw.w[0] = v.x, raw.w[1] = v.y, raw.w[2] = raw.w[3] = 0;
        }
    } else
        raw.w[0] = x.type == F32 ? ((const uint32_t *)x.p)[i] : ((const uint16_t *)x.p)[i];
    return raw;
}

template <int N> __device__ __forceinline__ void raw_get(Type type, const Raw<N> &raw, float *x)
{
    if (N < 8 && type == F32) {
#pragma unroll
        for (int j = 0; j < N; j++)
            x[j] = __uint_as_float(raw.w[N < 8 ? j : 0]);
    } else if (type == BF16) {
#pragma unroll
        for (int j = 0; j < N; j++)
            x[j] = __uint_as_float(j % 2 ? raw.w[j / 2] & 0xffff0000u : raw.w[j / 2] << 16);
    } else {
#pragma unroll
        for (int j = 0; j < N; j++)
            x[j] = __half2float(__ushort_as_half((unsigned short)(raw.w[j / 2] >> (j % 2 * 16))));
    }
}

template <int N> __device__ __forceinline__ void any_get(AnyIn in, int64_t i, float *x)
{
    raw_get<N>(in.type, raw_load<N>(in, i), x);
}

/* The bits of y rounded to a 2-byte type. */
__device__ __forceinline__ uint32_t half_bits(Type type, float y)
{
    return type == BF16 ? __bfloat16_as_ushort(__float2bfloat16_rn(y))
                        : __half_as_ushort(__float2half_rn(y));
}

template <int N> __device__ __forceinline__ void any_put(AnyOut out, int64_t i, const float *y)
{
    if constexpr (N == 1) {
        if (out.type == F32)
            ((float *)out.p)[i] = y[0];
        else
            ((uint16_t *)out.p)[i] = (uint16_t)half_bits(out.type, y[0]);
        return;
    } else {
        if (N == 4 && out.type == F32) {
            *(float4 *)((float *)out.p + i) = make_float4(y[0], y[1], y[2], y[3]);
            return;
        }
        uint32_t w[N / 2];
#pragma unroll
        for (int j = 0; j < N / 2; j++)
            w[j] = half_bits(out.type, y[2 * j]) | half_bits(out.type, y[2 * j + 1]) << 16;
        if constexpr (N == 8)
            *(uint4 *)((uint16_t *)out.p + i) = make_uint4(w[0], w[1], w[2], w[3]);
        else
            *(uint2 *)((uint16_t *)out.p + i) = make_uint2(w[0], w[1]);
    }
}

/* i / d and the remainder; 32-bit division where the operands allow it. */
__device__ __forceinline__ int64_t divided(int64_t i, int64_t d, int64_t *rest)
{
    if (((uint64_t)i | (uint64_t)d) >> 32 == 0) {
        uint32_t q = (uint32_t)i / (uint32_t)d;
        *rest = (uint32_t)i - q * (uint32_t)d;
        return q;
    }
    int64_t q = i / d;
    *rest = i - q * d;
    return q;
}

/* How many elements a pack may hold: starts at the widest; every tensor involved may lower it. */
typedef struct PackOf {
    int n;
} PackOf;

static inline void pack_type(PackOf *pack, Type type)
{
    if (type == F32 && pack->n > 4)
        pack->n = 4;
}

static inline bool pack_aligned(const void *p) { return (uintptr_t)p % 16 == 0; }

static inline void pack_with(PackOf *pack, const void *p, Type type)
{
    pack_type(pack, type);
    if (!pack_aligned(p))
        pack->n = 1;
}

static inline void pack_along(PackOf *pack, int64_t extent) /* packs must not cross this extent */
{
    if (pack->n == 8 && extent % 8)
        pack->n = 4;
    if (pack->n == 4 && extent % 4)
        pack->n = 1;
}

/* The pack for rows of `extent` elements of all these tensors, each an AnyIn or AnyOut. */
template <class... T> static inline PackOf pack_of(int64_t extent, const T &...tensors)
{
    PackOf pack = { 8 };
    (pack_with(&pack, tensors.p, tensors.type), ...);
    pack_along(&pack, extent);
    return pack;
}

/* Runs the statements with N the pack's size, a constant. */
#define WITH_PACK(pack, N, ...)                                                                    \
    switch ((pack).n) {                                                                            \
    case 8: {                                                                                      \
        constexpr int N = 8;                                                                       \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    case 4: {                                                                                      \
        constexpr int N = 4;                                                                       \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    default: {                                                                                     \
        constexpr int N = 1;                                                                       \
        __VA_ARGS__                                                                                \
    } break;                                                                                       \
    }

template <int IN> struct RowsIn {
    AnyIn in[IN];
};

template <int N, int IN, class F>
__device__ __forceinline__ void rows_pack(F &f, const RowsIn<IN> &in, AnyOut out, int64_t i)
{
    Raw<N> raw[IN];
    float  x[IN][N], y[N];
#pragma unroll
    for (int j = 0; j < IN; j++)
        raw[j] = raw_load<N>(in.in[j], i);
#pragma unroll
    for (int j = 0; j < IN; j++)
        raw_get<N>(in.in[j].type, raw[j], x[j]);
    f.template run<N>(i, x, y);
    any_put<N>(out, i, y);
}

template <int N, int IN, class F>
__global__ void __launch_bounds__(ROW_THREADS)
    rows_kernel(F f, RowsIn<IN> in, AnyOut out, int64_t count)
{
    cuda_begin();
    int64_t packs = count / N, first = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    f.begin();
    for (int64_t i = first; i < packs; i += (int64_t)gridDim.x * ROW_THREADS)
        rows_pack<N>(f, in, out, i * N);
    if (N > 1 && packs * N + first < count)
        rows_pack<1>(f, in, out, packs * N + first);
}

/* Output 0 from the IN inputs listed in `from`, all of output 0's element count; output 0 may be
 * any of them. F has begin(), called once by every thread, and run<N>(i, x, y): N outputs from
 * x[IN][N]. Other tensors that F reads have lowered `pack` already. */
template <int IN, class F>
Err rows_cuda_of(const Call *call, F f, const int (&from)[IN], PackOf pack)
{
    int64_t    count = shape_count(out_shape(call->node, 0));
    RowsIn<IN> in;
    AnyOut     out = any_out(call, 0);
    bool       floats = type_is_float(out.type);
    pack_with(&pack, out.p, out.type);
    for (int j = 0; j < IN; j++) {
        in.in[j] = any_in(call, from[j]);
        pack_with(&pack, in.in[j].p, in.in[j].type);
        floats = floats && type_is_float(in.in[j].type);
    }
    if (!floats)
        return fail(E_DEVICE, "%s: there is no CUDA kernel for integers", call->node->op->name);
    WITH_PACK(pack, N, unsigned blocks = cuda_blocks(call, ceil_div(count, N), ROW_THREADS);
              cuda_launch(cuda_stream(call), rows_kernel<N, IN, F>, blocks, ROW_THREADS, 0, f, in,
                          out, count);)
    CUDA_LAUNCHED();
    return OK;
}

template <int IN, class F> Err rows_cuda(const Call *call, F f) /* from the first IN inputs */
{
    int from[IN];
    for (int j = 0; j < IN; j++)
        from[j] = j;
    return rows_cuda_of<IN>(call, f, from, { 8 });
}

/* A functor for rows_cuda made of Fn::at(x), where x[IN] are the inputs at one element. */
template <class Fn> struct Each : Fn {
    __device__ void begin() {}
    template <int N, int IN>
    __device__ void run(int64_t, const float (&x)[IN][N], float (&y)[N]) const
    {
#pragma unroll
        for (int j = 0; j < N; j++) {
            float at[IN];
#pragma unroll
            for (int k = 0; k < IN; k++)
                at[k] = x[k][j];
            y[j] = this->at(at);
        }
    }
};

/* The tensor that this thread block of a launch over many works on: the last of n whose first block
 * is not after it. */
__device__ __forceinline__ int job_of(const int32_t *first, int n)
{
    int low = 0, high = n;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (first[middle] <= (int32_t)blockIdx.x)
            low = middle;
        else
            high = middle;
    }
    return low;
}

#endif
