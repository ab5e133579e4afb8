/* point_math.c -- the errors that src/ops/pointwise/point_math.h promises, over every 1009th float,
 * and the odd values. */
#include "test.h"

#include "ops/pointwise/point_math.h"

static double ulps(float got, double want)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got) ? 0 : 1e9;
    if (isinf(want) || fabs(want) > 3.4028235677973366e38)
        return isinf(got) && (got > 0) == (want > 0) ? 0 : 1e9;
    if (isinf(got))
        return 1e9;
    int exponent;
    frexp(want, &exponent);
    if (exponent < -125)
        exponent = -125;
    return fabs((double)got - want) / ldexp(1, exponent - 24);
}

static void sweep(const char *name, float (*f)(float), double (*want)(double), float low,
                  float high, double most)
{
    double worst = 0;
    float  at = 0;
    for (uint64_t i = 0; i < 0x100000000u; i += 1009) {
        float x = vfloat((uint32_t)i);
        if (!(x >= low && x <= high))
            continue;
        double error = ulps(f(x), want((double)x));
        if (error > worst) {
            worst = error;
            at = x;
        }
    }
    if (worst > most)
        fprintf(stderr, "%s: %.2f ulp at %.9g\n", name, worst, (double)at);
    CHECK(worst <= most);
    printf("%-10s at most %.2f ulp\n", name, worst);
}

static void errors_are_small(void)
{
    sweep("exp2", point_exp2, exp2, -INFINITY, INFINITY, 1.0);
    sweep("expm1", point_expm1, expm1, -INFINITY, INFINITY, 2.0);
    sweep("log2", point_log2, log2, -INFINITY, INFINITY, 2.0);
    sweep("log1p", point_log1p, log1p, -1.0f, INFINITY, 2.0);
    sweep("sin", point_sin, sin, -POINT_SIN_MAX, POINT_SIN_MAX, 2.0);
    sweep("cos", point_cos, cos, -POINT_SIN_MAX, POINT_SIN_MAX, 2.0);
}

static void powers(void)
{
    double worst = 0;
    float  to[] = { 2.5f, -1.25f, 0.3333f, 7.75f, -20.5f, 1e-3f, 40.25f };
    for (uint64_t i = vbits(0x1p-126f); i < vbits(INFINITY); i += 3001)
        for (size_t k = 0; k < sizeof to / sizeof *to; k++) {
            float  x = vfloat((uint32_t)i);
            double want = pow((double)x, (double)to[k]), error = ulps(point_pow(x, to[k]), want);
            if (fabs(want) < 1e-36) /* subnormal results are rounded twice */
                continue;
            worst = error > worst ? error : worst;
        }
    printf("%-10s at most %.2f ulp\n", "pow", worst);
    CHECK(worst <= 1);
}

static void odd_values(void)
{
    CHECK(point_log2(8) == 3 && point_log2(0x1p-140f) == -140 && point_log2(1) == 0);
    CHECK(point_exp2(10) == 1024 && point_exp2(-INFINITY) == 0 && isinf(point_exp2(INFINITY)));
    CHECK(point_expm1(-INFINITY) == -1 && isinf(point_expm1(INFINITY)));
    CHECK(signbit(point_expm1(-0.0f)) && isnan(point_expm1(NAN)) && isnan(point_exp2(NAN)));
    CHECK(point_sin(0) == 0 && point_cos(0) == 1);
    CHECK(point_log1p(-1) == -INFINITY && isnan(point_log1p(-2)) && isinf(point_log1p(INFINITY)));
}

int main(void)
{
    RUN(errors_are_small);
    RUN(powers);
    RUN(odd_values);
    return test_end();
}
