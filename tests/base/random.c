/* Tests of base/random: known answers of Philox, distributions, one at a time against many. */
#include "test.h"

#include "base/random.h"

static void philox_known_answers(void) /* Random123's kat_vectors, philox4x32-10 */
{
    uint32_t w[4];
    random_block((RandomKey){ 0, 0, 0 }, 0, w);
    CHECK_INT(w[0], 0x6627e8d5u);
    CHECK_INT(w[1], 0xe169c58du);
    CHECK_INT(w[2], 0xbc57ac4cu);
    CHECK_INT(w[3], 0x9b00dbd8u);
    random_block((RandomKey){ UINT64_MAX, UINT32_MAX, UINT32_MAX }, UINT64_MAX, w);
    CHECK_INT(w[0], 0x408f276du);
    CHECK_INT(w[1], 0x41c83b0eu);
    CHECK_INT(w[2], 0xa20bc7c6u);
    CHECK_INT(w[3], 0x6d5451fdu);
    random_block((RandomKey){ 0x299f31d0a4093822u, 0x13198a2eu, 0x03707344u }, 0x85a308d3243f6a88u,
                 w);
    CHECK_INT(w[0], 0xd16cfe09u);
    CHECK_INT(w[3], 0x24126ea1u);
}

static void many_are_the_same(void)
{
    enum { N = 700 };
    static float          u[N], z[N];
    static uint32_t       w[N];
    static const uint64_t starts[] = { 0, 1, 2, 3, 127, 128, 0xFFFFFFFFu * 4u - 5u, 0x3FFFFFFF0u };
    RandomKey             key = { 0x123456789ABCDEFu, 77, 3 };
    for (size_t s = 0; s < sizeof starts / sizeof *starts; s++)
        for (int64_t n = 1; n <= N; n = n * 3 + 1) {
            int differ = 0;
            random_uniforms(key, starts[s], n, u);
            random_normals(key, starts[s], n, z);
            random_words(key, starts[s], n, w);
            for (int64_t i = 0; i < n; i++) {
                uint64_t e = starts[s] + (uint64_t)i;
                differ += u[i] != random_uniform_at(key, e) || z[i] != random_normal_at(key, e);
                differ += (uint32_t)(((uint64_t)w[i] * 1000) >> 32) !=
                          random_below_at(key, e, 1000);
            }
            CHECK_INT(differ, 0);
        }
}

static void normals_are_normal(void)
{
    enum { N = 1 << 16 };
    static float z[N];
    double       mean = 0, square = 0, fourth = 0, worst = 0;
    random_normals((RandomKey){ 5, 6, 7 }, 0, N, z);
    for (int i = 0; i < N; i++) {
        double x = (double)z[i];
        mean += x / N;
        square += x * x / N;
        fourth += x * x * x * x / N;
    }
    CHECK_NEAR(mean, 0, 0.02);
    CHECK_NEAR(square, 1, 0.03);
    CHECK_NEAR(fourth, 3, 0.2);
    for (uint64_t i = 0; i < 0x100000000u; i += 65521) { /* against libm in double */
        uint32_t a = (uint32_t)i, b = a * 2654435761u;
        float    x, y;
        random_normal_pair(a, b, &x, &y);
        double radius = sqrt(-2 * log((double)random_unit(a)));
        double turn = 2 * 3.14159265358979323846 * (((b >> 9) + 0.5) / 8388608.0);
        worst = fmax(worst, fmax(fabs((double)x - radius * cos(turn)),
                                 fabs((double)y - radius * sin(turn))));
    }
    CHECK_NEAR(worst, 0, 1.5e-6);
}

static void bounds(void)
{
    CHECK(random_unit(0) > 0 && random_unit(UINT32_MAX) < 1);
    float x, y;
    random_normal_pair(0, 0, &x, &y);
    CHECK(isfinite(x) && isfinite(y));
    random_normal_pair(UINT32_MAX, UINT32_MAX, &x, &y);
    CHECK(isfinite(x) && isfinite(y));
    CHECK(random_stream("a") != random_stream("b"));
}

int main(void)
{
    RUN(philox_known_answers);
    RUN(many_are_the_same);
    RUN(normals_are_normal);
    RUN(bounds);
    return test_end();
}
