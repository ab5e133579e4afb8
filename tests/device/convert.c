/* Rows of floats as other floats: every 16-bit pattern, every tie, every odd length. */
#include "test.h"

#include "device/convert.h"

#include <stdlib.h>

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* The value of a 16-bit pattern with e exponent bits, in double, by the definition of the
 * format. */
static double value(uint16_t h, int e)
{
    int m = 15 - e, bias = (1 << (e - 1)) - 1, exponent = (h >> m) & ((1 << e) - 1),
        part = h & ((1 << m) - 1);
    double sign = h & 0x8000 ? -1.0 : 1.0;
    if (exponent == (1 << e) - 1)
        return part ? NAN : sign * INFINITY;
    return sign *
           (exponent ? ldexp(part + (1 << m), exponent - bias - m) : ldexp(part, 1 - bias - m));
}

static int exponent_bits(Type type) { return type == BF16 ? 8 : 5; }

static int is_nan16(uint16_t h, Type type) { return isnan(value(h, exponent_bits(type))); }

static void every_pattern(Type type)
{
    enum { N = 65536 };
    static uint16_t from[N], back[N];
    static float    wide[N];
    int             bad_up = 0, bad_back = 0;
    for (int i = 0; i < N; i++)
        from[i] = (uint16_t)i;
    convert_rows(F32, wide, type, from, N);
    convert_rows(type, back, F32, wide, N);
    for (int i = 0; i < N; i++) {
        double v = value(from[i], exponent_bits(type));
        if (isnan(v)) {
            bad_up += !isnan(wide[i]);
            bad_back += !is_nan16(back[i], type);
        } else {
            bad_up += (double)wide[i] != v || !signbit(wide[i]) != !signbit(v);
            bad_back += back[i] != from[i];
        }
    }
    CHECK_INT(bad_up, 0);
    CHECK_INT(bad_back, 0);
}

/* Between each two neighbours: the middle goes to the even one, a hair to either side to the
 * nearer. */
static void every_tie(Type type)
{
    int e = exponent_bits(type), bad = 0;
    int last = type == BF16 ? 0x7F7F : 0x7BFF;
    for (int h = 0; h < last; h++)
        for (int sign = 0; sign < 2; sign++) {
            double   lo = value((uint16_t)h, e), hi = value((uint16_t)(h + 1), e);
            float    middle = (float)((lo + hi) / 2), rows[3];
            uint16_t out[3], s = sign ? 0x8000 : 0, even = (uint16_t)(h & 1 ? h + 1 : h);
            rows[0] = float_of(bits_of(middle) - 1), rows[1] = middle,
            rows[2] = float_of(bits_of(middle) + 1);
            for (int i = 0; i < 3; i++)
                rows[i] = sign ? -rows[i] : rows[i];
            convert_rows(type, out, F32, rows, 3);
            bad += out[0] != (h | s) || out[1] != (even | s) || out[2] != ((h + 1) | s);
            if (type == BF16)
                bad += f32_to_bf16(rows[1]) != out[1];
        }
    CHECK_INT(bad, 0);
}

static void bf16_patterns(void)
{
    every_pattern(BF16);
    every_tie(BF16);
}
static void f16_patterns(void)
{
    every_pattern(F16);
    every_tie(F16);
}

static void edges(void)
{
    float    in[] = { 65519.0f,
                      65520.0f,
                      -65520.0f,
                      1e30f,
                      3.4e38f,
                      INFINITY,
                      -INFINITY,
                      0x1p-25f,
                      0x1.8p-25f,
                      float_of(0x7F800001),
                      float_of(0xFFFFFFFF),
                      float_of(0x7FC00000),
                      -0.0f };
    uint16_t half[13], brain[13];
    convert_rows(F16, half, F32, in, 13);
    convert_rows(BF16, brain, F32, in, 13);
    CHECK_INT(half[0], 0x7BFF);
    CHECK_INT(half[1], 0x7C00);
    CHECK_INT(half[2], 0xFC00);
    CHECK_INT(half[3], 0x7C00);
    CHECK_INT(half[5], 0x7C00);
    CHECK_INT(half[7], 0); /* a tie with zero, which is even */
    CHECK_INT(half[8], 1);
    CHECK_INT(half[12], 0x8000);
    CHECK_INT(brain[4], 0x7F80); /* rounds past the largest */
    CHECK_INT(brain[6], 0xFF80);
    CHECK_INT(brain[12], 0x8000);
    /* NaN, its payload in the low bits only or everywhere */
    for (int i = 9; i < 12; i++) {
        CHECK(is_nan16(half[i], F16));
        CHECK(is_nan16(brain[i], BF16));
        CHECK(brain[i] & 0x40); /* quiet */
    }
}

/* Every pair of types, every length to past two vectors, at odd places, with guards. */
static void lengths(void)
{
    for (int from = F32; from <= F16; from++)
        for (int to = F32; to <= F16; to++)
            for (size_t n = 0; n < 600; n += n < 70 ? 1 : 97)
                for (int shift = 0; shift < 2; shift++) {
                    size_t in = (size_t)type_bytes((Type)from), out = (size_t)type_bytes((Type)to);
                    unsigned char *src = malloc((n + 1) * in), *dst = malloc((n + 3) * out);
                    int            bad = 0;
                    for (size_t i = 0; i <= n; i++) {
                        float f = ((float)i - 20.0f) * 0.37f;
                        convert_rows((Type)from, src + i * in, F32, &f, 1);
                    }
                    memset(dst, 0xA5, (n + 3) * out);
                    size_t at = (size_t)shift;
                    convert_rows((Type)to, dst + (1 + at) * out, (Type)from, src + at * in,
                                 n - (n ? at : 0));
                    size_t done = n - (n ? at : 0);
                    for (size_t i = 0; i < done; i++) {
                        float one, two;
                        convert_rows(F32, &one, (Type)from, src + (i + at) * in, 1);
                        if (to != F32) {
                            uint16_t h;
                            convert_rows((Type)to, &h, F32, &one, 1);
                            convert_rows(F32, &one, (Type)to, &h, 1);
                        }
                        convert_rows(F32, &two, (Type)to, dst + (1 + at + i) * out, 1);
                        bad += bits_of(one) != bits_of(two);
                    }
                    for (size_t i = 0; i < out; i++)
                        bad += dst[at * out + i] != 0xA5 || dst[(1 + at + done) * out + i] != 0xA5;
                    if (!CHECK_INT(bad, 0))
                        fprintf(stderr, "  %s to %s, %zu\n", type_name((Type)from),
                                type_name((Type)to), n);
                    free(src);
                    free(dst);
                }
}

static void rows(void)
{
    float    buffer[4], x[4] = { 1, 2, 3, 4 };
    uint16_t h[4];
    CHECK(row_load(F32, x, 1, 3, buffer) == x + 1);
    CHECK(row_open(F32, x, 2, buffer) == x + 2);
    float *y = row_open(BF16, h, 0, buffer);
    for (int i = 0; i < 4; i++)
        y[i] = x[i];
    row_store(BF16, h, 0, 4, y);
    CHECK_INT(h[2], 0x4040);
    CHECK_NEAR((double)row_load(BF16, h, 3, 1, buffer)[0], 4.0, 0.0);
}

int main(void)
{
    RUN(bf16_patterns);
    RUN(f16_patterns);
    RUN(edges);
    RUN(lengths);
    RUN(rows);
    return test_end();
}
