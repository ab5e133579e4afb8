/* noise_cuda.cu -- random numbers and dropout on CUDA: base/random.h's numbers, bit for bit.
 *
 * A thread draws one block of four numbers. Blocks are numbered across the micro-batches of a step,
 * so the first and the last of a tensor may lie partly outside it. */
#include "ops/reduce/rows_cuda.h"

extern "C" {
#include "base/random.h"
#include "ops/random/noise.h"
#include "ops/optimizer/optim.h"
}

__device__ __forceinline__ RandomKey noise_key(const int32_t *counters, uint32_t stream)
{
    return { (uint64_t)(uint32_t)counters[COUNTER_SEED_HIGH] << 32 |
                 (uint32_t)counters[COUNTER_SEED_LOW],
             stream, (uint32_t)counters[COUNTER_STEP] };
}

struct Normal { /* each: four words to four outputs at element i */
    AnyOut          out;
    __device__ void values(const uint32_t *w, float *y) const
    {
        random_normal_pair(w[0], w[1], &y[0], &y[1]);
        random_normal_pair(w[2], w[3], &y[2], &y[3]);
    }
    __device__ void four(const uint32_t *w, int64_t i) const
    {
        float y[4];
        values(w, y);
        any_put<4>(out, i, y);
    }
    __device__ void one(const uint32_t *w, int j, int64_t i) const
    {
        float y[4];
        values(w, y);
        float one = j == 0 ? y[0] : j == 1 ? y[1] : j == 2 ? y[2] : y[3];
        any_put<1>(out, i, &one);
    }
};

__device__ __forceinline__ uint32_t word_at(const uint32_t *w, int j)
{
    return j == 0 ? w[0] : j == 1 ? w[1] : j == 2 ? w[2] : w[3];
}

struct Uniform {
    AnyOut          out;
    __device__ void four(const uint32_t *w, int64_t i) const
    {
        float y[4] = { random_unit(w[0]), random_unit(w[1]), random_unit(w[2]), random_unit(w[3]) };
        any_put<4>(out, i, y);
    }
    __device__ void one(const uint32_t *w, int j, int64_t i) const
    {
        float y = random_unit(word_at(w, j));
        any_put<1>(out, i, &y);
    }
};

struct RandomInts {
    int32_t           *out;
    uint32_t           below;
    __device__ int32_t at(uint32_t word) const { return (int32_t)__umulhi(word, below); }
    __device__ void    four(const uint32_t *w, int64_t i) const
    {
        *(int4 *)(out + i) = make_int4(at(w[0]), at(w[1]), at(w[2]), at(w[3]));
    }
    __device__ void one(const uint32_t *w, int j, int64_t i) const { out[i] = at(word_at(w, j)); }
};

struct Dropout {
    AnyIn            x;
    AnyOut           out;
    float            rate, scale;
    __device__ float kept(uint32_t word, float v) const
    {
        return random_unit(word) < rate ? 0.0f : v * scale;
    }
    __device__ void four(const uint32_t *w, int64_t i) const
    {
        float v[4];
        any_get<4>(x, i, v);
#pragma unroll
        for (int j = 0; j < 4; j++)
            v[j] = kept(w[j], v[j]);
        any_put<4>(out, i, v);
    }
    __device__ void one(const uint32_t *w, int j, int64_t i) const
    {
        float v;
        any_get<1>(x, i, &v);
        v = kept(word_at(w, j), v);
        any_put<1>(out, i, &v);
    }
};

template <class F>
__global__ void __launch_bounds__(ROW_THREADS)
    noise_blocks(F f, const int32_t *counters, uint32_t stream, int64_t count, bool aligned)
{
    cuda_begin();
    RandomKey key = noise_key(counters, stream);
    uint64_t  first = (uint64_t)(uint32_t)counters[COUNTER_MICRO] * (uint64_t)count,
             begin = first / 4;
    int64_t blocks = (int64_t)((first + (uint64_t)count + 3) / 4 - begin);
    for (int64_t b = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; b < blocks;
         b += (int64_t)gridDim.x * ROW_THREADS) {
        uint32_t w[4];
        int64_t  i = 4 * b - (int64_t)(first % 4); /* of the block's first number */
        random_block(key, begin + (uint64_t)b, w);
        if (aligned && first % 4 == 0 && i + 4 <= count)
            f.four(w, i);
        else
            for (int j = 0; j < 4; j++)
                if (i + j >= 0 && i + j < count)
                    f.one(w, j, i + j);
    }
}

template <class F> static Err noise_go(const Call *call, F f, int counters_in, bool aligned)
{
    int64_t count = shape_count(out_shape(call->node, 0));
    cuda_launch(cuda_stream(call), noise_blocks<F>, cuda_blocks(call, count / 4 + 2, ROW_THREADS),
                ROW_THREADS, 0, f, (const int32_t *)call->in[counters_in],
                ATTR(call->node, NoiseAttr)->stream, count, aligned);
    CUDA_LAUNCHED();
    return OK;
}

extern "C" Err random_normal_cuda(const Call *call)
{
    return noise_go(call, Normal{ any_out(call, 0) }, 0, pack_aligned(call->out[0]));
}

extern "C" Err random_uniform_cuda(const Call *call)
{
    return noise_go(call, Uniform{ any_out(call, 0) }, 0, pack_aligned(call->out[0]));
}

extern "C" Err random_ints_cuda(const Call *call)
{
    RandomInts f = { (int32_t *)call->out[0], ATTR(call->node, NoiseAttr)->below };
    return noise_go(call, f, 0, pack_aligned(call->out[0]));
}

extern "C" Err dropout_cuda(const Call *call)
{
    float   rate = ATTR(call->node, NoiseAttr)->rate;
    Dropout f = { any_in(call, 0), any_out(call, 0), rate, 1 / (1 - rate) };
    return noise_go(call, f, 1, pack_aligned(f.x.p) && pack_aligned(f.out.p));
}

/* One number per sample: every thread computes those of its samples. */
struct DropSamples {
    const int32_t *counters;
    int64_t        samples, each;
    uint32_t       stream;
    float          rate;
    RandomKey      key;
    uint64_t       base;

    __device__ void begin()
    {
        key = noise_key(counters, stream);
        base = (uint64_t)(uint32_t)counters[COUNTER_MICRO] * (uint64_t)samples;
    }
    __device__ bool dropped(int64_t sample) const
    {
        uint32_t w[4];
        uint64_t element = base + (uint64_t)sample;
        random_block(key, element / 4, w);
        return random_unit(word_at(w, (int)(element % 4))) < rate;
    }
    template <int N> __device__ void run(int64_t i, const float (&x)[1][N], float (&y)[N]) const
    {
        int64_t at, sample = divided(i, each, &at);
        bool    drop = dropped(sample);
#pragma unroll
        for (int j = 0; j < N; j++) {
            if (at == each) {
                at = 0;
                drop = dropped(++sample);
            }
            y[j] = drop ? 0.0f : x[0][j];
            at++;
        }
    }
};

extern "C" Err drop_samples_cuda(const Call *call)
{
    Shape       s = out_shape(call->node, 0);
    DropSamples f = {};
    f.counters = (const int32_t *)call->in[1];
    f.samples = s.dim[0];
    f.each = shape_count(s) / s.dim[0];
    f.stream = ATTR(call->node, NoiseAttr)->stream;
    f.rate = ATTR(call->node, NoiseAttr)->rate;
    return rows_cuda<1>(call, f);
}

CUDA_KERNEL(random_normal, .run = random_normal_cuda)
CUDA_KERNEL(random_uniform, .run = random_uniform_cuda)
CUDA_KERNEL(random_ints, .run = random_ints_cuda)
CUDA_KERNEL(dropout, .run = dropout_cuda)
CUDA_KERNEL(drop_samples, .run = drop_samples_cuda)
