/* random.c -- random numbers from the blocks of random.h, one at a time or many. */
#include "base/random.h"

#include <stdbool.h>

float random_uniform_at(RandomKey key, uint64_t element)
{
    uint32_t w[4];
    random_block(key, element / 4, w);
    return random_unit(w[element % 4]);
}

float random_normal_at(RandomKey key, uint64_t element)
{
    uint32_t w[4];
    float    pair[2];
    random_block(key, element / 4, w);
    unsigned half = (unsigned)(element % 4) / 2;
    random_normal_pair(w[2 * half], w[2 * half + 1], &pair[0], &pair[1]);
    return pair[element % 2];
}

uint32_t random_below_at(RandomKey key, uint64_t element, uint32_t n)
{
    uint32_t w[4];
    random_block(key, element / 4, w);
    return (uint32_t)(((uint64_t)w[element % 4] * n) >> 32);
}

/* Many numbers: LANES blocks side by side, so that the ten rounds run as vectors. Words are
 * produced by place in the block (all w0, all w1, ...) and interleaved at the end. */
enum { LANES = 32 };

typedef struct RandomLanes {
    uint32_t w[4][LANES];
} RandomLanes;

static void random_lanes(RandomKey key, uint64_t block, RandomLanes *out)
{
    uint32_t *c0 = out->w[0], *c1 = out->w[1], *c2 = out->w[2], *c3 = out->w[3];
    uint32_t  k0 = (uint32_t)key.seed, k1 = (uint32_t)(key.seed >> 32);
    for (int i = 0; i < LANES; i++) {
        c0[i] = (uint32_t)(block + (uint64_t)i);
        c1[i] = (uint32_t)((block + (uint64_t)i) >> 32);
        c2[i] = key.stream;
        c3[i] = key.step;
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c0[i], p1 = (uint64_t)0xCD9E8D57u * c2[i];
            uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c1[i] = (uint32_t)p1;
            c3[i] = (uint32_t)p0;
            c0[i] = n0;
            c2[i] = n2;
        }
}

static void lanes_words(RandomLanes *v, uint32_t *restrict out)
{
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < 4; j++)
            out[4 * i + j] = v->w[j][i];
}

static void lanes_uniforms(RandomLanes *v, uint32_t *restrict out)
{
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < 4; j++) {
            float u = random_unit(v->w[j][i]);
            memcpy(&out[4 * i + j], &u, 4);
        }
}

static void lanes_normals(RandomLanes *v, uint32_t *restrict out)
{
    float x[4][LANES];
    for (int half = 0; half < 4; half += 2)
#pragma omp simd
        for (int i = 0; i < LANES; i++)
            random_normal_pair(v->w[half][i], v->w[half + 1][i], &x[half][i], &x[half + 1][i]);
    memcpy(v->w, x, sizeof x);
    lanes_words(v, out);
}

static void random_many(RandomKey key, uint64_t first, int64_t n, uint32_t *out,
                        void (*finish)(RandomLanes *, uint32_t *restrict))
{
    RandomLanes lanes;
    uint32_t    part[4 * LANES];
    for (uint64_t at = first, end = first + (uint64_t)n; at < end;) {
        uint64_t start = at & ~(uint64_t)3,
                 stop = start + 4 * LANES < end ? start + 4 * LANES : end;
        bool whole = at == start && stop == start + 4 * LANES;
        random_lanes(key, start / 4, &lanes);
        finish(&lanes, whole ? out + (at - first) : part);
        if (!whole)
            memcpy(out + (at - first), part + (at - start), (stop - at) * sizeof *out);
        at = stop;
    }
}

void random_words(RandomKey key, uint64_t first, int64_t n, uint32_t *out)
{
    random_many(key, first, n, out, lanes_words);
}

void random_uniforms(RandomKey key, uint64_t first, int64_t n, float *out)
{
    random_many(key, first, n, (uint32_t *)(void *)out, lanes_uniforms);
}

void random_normals(RandomKey key, uint64_t first, int64_t n, float *out)
{
    random_many(key, first, n, (uint32_t *)(void *)out, lanes_normals);
}

uint32_t random_stream(const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}
