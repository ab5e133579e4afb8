/* random.h -- random numbers as a pure function of where they are used.
 *
 * Philox 4x32-10 (Salmon et al. 2011): four 32-bit numbers from a 128-bit counter and a 64-bit key.
 * We use key = (seed), counter = (element / 4, stream, step): the same element of the same node in
 * the same step is the same number, whatever ran before, on however many threads, on any
 * device. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__ /* the same functions, and so the same numbers, on a GPU */
#define ON_BOTH __host__ __device__
#else
#define ON_BOTH
#endif

typedef struct RandomKey {
    uint64_t seed;
    uint32_t stream; /* which node or parameter */
    uint32_t step;
} RandomKey;

ON_BOTH static inline void random_block(RandomKey key, uint64_t block, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = key.stream, c3 = key.step;
    uint32_t k0 = (uint32_t)key.seed, k1 = (uint32_t)(key.seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* (0,1): never 0, so that its logarithm is finite. */
ON_BOTH static inline float random_unit(uint32_t bits)
{
    return ((float)(bits >> 9) + 0.5f) * 0x1p-23f;
}

/* Two independent standard normals from two words (Box and Muller):
 *
 *     sqrt(-2 log u) (cos 2 pi v, sin 2 pi v)
 *
 * Written out, with explicit fmaf, so that vector code and single calls give the same bits under
 * any compiler. log is f + f^2 p(f) around 1 on [sqrt 1/2, sqrt 2]; the angle is cut to the nearest
 * quarter turn without error, and sine and cosine are polynomials on an eighth to either side. */
ON_BOTH static inline float random_log(float u) /* of a normal float in (0,1) */
{
    uint32_t bits;
    memcpy(&bits, &u, 4);
    bits -= 0x3f3504f3u;
    float e = (float)((int32_t)bits >> 23), f;
    bits = (bits & 0x7fffffu) + 0x3f3504f3u;
    memcpy(&f, &bits, 4);
    f -= 1.0f;
    float p = 8.734751e-02f;
    p = fmaf(p, f, -1.4307483e-01f);
    p = fmaf(p, f, 1.4917989e-01f);
    p = fmaf(p, f, -1.6570514e-01f);
    p = fmaf(p, f, 1.9962071e-01f);
    p = fmaf(p, f, -2.5001755e-01f);
    p = fmaf(p, f, 3.333395e-01f);
    p = fmaf(p, f, -4.999999e-01f);
    return fmaf(e, 0.69314718f, fmaf(f * f, p, f));
}

ON_BOTH static inline void random_normal_pair(uint32_t a, uint32_t b, float *x, float *y)
{
    float    radius = sqrtf(-2.0f * random_log(random_unit(a)));
    uint32_t turn = (b >> 9) * 2 + 1,
             quarter = (turn + (1u << 21)) >> 22; /* turn in units of 2^-24 */
    float f = (float)(int32_t)(turn - (quarter << 22)) * 0x1p-22f, z = f * f;
    float s = 1.5820675e-04f, c = 9.036317e-04f;
    s = fmaf(s, z, -4.6812664e-03f);
    s = fmaf(s, z, 7.969258e-02f);
    s = fmaf(s, z, -6.459641e-01f);
    s = fmaf(s, z, 1.5707964f) * f;
    c = fmaf(c, z, -2.0860072e-02f);
    c = fmaf(c, z, 2.536692e-01f);
    c = fmaf(c, z, -1.2337005f);
    c = fmaf(c, z, 1.0f);
    float cosine = quarter & 1 ? s : c, sine = quarter & 1 ? c : s;
    *x = radius * ((quarter + 1) & 2 ? -cosine : cosine);
    *y = radius * (quarter & 2 ? -sine : sine);
}

float    random_uniform_at(RandomKey key, uint64_t element);           /* (0,1) */
float    random_normal_at(RandomKey key, uint64_t element);            /* N(0,1) */
uint32_t random_below_at(RandomKey key, uint64_t element, uint32_t n); /* 0..n-1 */

/* The same numbers for elements first .. first + n - 1, many at a time. */
void random_words(RandomKey key, uint64_t first, int64_t n, uint32_t *out);
void random_uniforms(RandomKey key, uint64_t first, int64_t n, float *out);
void random_normals(RandomKey key, uint64_t first, int64_t n, float *out);

uint32_t random_stream(const char *name); /* a name as a stream number */

#endif
