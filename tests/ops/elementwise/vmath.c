/* vmath.c -- the errors that src/ops/elementwise/vmath.h promises, over every 1009th float, and the
 * odd values. */
#include "test.h"

#include "ops/elementwise/vmath.h"

/* Distance in units of the last place of the fp32 result; subnormals count from the smallest
 * normal. */
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

/* clang-format off */
static double want_sigmoid(double x)  { return 1 / (1 + exp(-x)); }
static double want_softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
/* clang-format on */

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
    sweep("vexp", vexp, exp, -INFINITY, INFINITY, 1.0);
    sweep("vexp_weight", vexp_weight, exp, -87.0f, 87.0f, 1.0);
    sweep("vlog", vlog, log, -INFINITY, INFINITY, 1.0);
    sweep("vlog1p", vlog1p, log1p, -0.99f, INFINITY, 2.0);
    sweep("vtanh", vtanh, tanh, -INFINITY, INFINITY, 2.0);
    sweep("vsigmoid", vsigmoid, want_sigmoid, -87.0f, INFINITY, 2.5);
    sweep("verf", verf, erf, -INFINITY, INFINITY, 2.0);
    sweep("vsoftplus", vsoftplus, want_softplus, -87.0f, INFINITY, 2.0);
}

/* GELU is held to an absolute error, as the difference 1 - erf is; odd ends are exact. */
static double worst_error(float (*f)(float), double (*want)(double), int by_x)
{
    double worst = 0;
    for (uint64_t i = 0; i < 0x100000000u; i += 1009) {
        float  x = vfloat((uint32_t)i);
        double error = fabs((double)f(x) - want((double)x));
        error /= by_x && fabsf(x) > 1 ? fabs((double)x) : 1;
        worst = isfinite(x) && !(error <= worst) ? error : worst;
    }
    return worst;
}

static double want_gelu(double x) { return x * 0.5 * erfc(-x * 0.70710678118654752); }
static double want_slope(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752) + x * exp(-0.5 * x * x) * 0.39894228040143268;
}

static void gelu_is_near(void)
{
    double gelu = worst_error(vgelu, want_gelu, 1), slope = worst_error(vgelu_slope, want_slope, 0);
    printf("vgelu at most %.2e of x, vgelu_slope %.2e\n", gelu, slope);
    CHECK(gelu <= 2.2e-7);
    CHECK(slope <= 3.2e-7);
    CHECK(vgelu(5.25f) == 5.25f && vgelu(-5.25f) == 0 && vgelu(-1e30f) == 0 && vgelu(0.0f) == 0);
    CHECK(vgelu(INFINITY) == INFINITY && isnan(vgelu(NAN)) && vgelu(3e38f) == 3e38f);
    CHECK(vgelu_slope(5.65f) == 1 && vgelu_slope(-5.65f) == 0 && vgelu_slope(INFINITY) == 1);
    CHECK(vgelu_slope(0.0f) == 0.5f && vgelu_slope(-INFINITY) == 0 && isnan(vgelu_slope(NAN)));
}

static void odd_values(void)
{
    CHECK(isnan(vexp(NAN)) && isnan(vlog(NAN)) && isnan(vtanh(NAN)) && isnan(vsigmoid(NAN)));
    CHECK(isnan(verf(NAN)) && isnan(vsoftplus(NAN)) && isnan(vlog1p(NAN)) && isnan(vlog(-1.0f)));
    CHECK(isinf(vexp(INFINITY)) && isinf(vexp(100.0f)) && vexp(-INFINITY) == 0 &&
          vexp(-110.0f) == 0);
    CHECK(isnan(vexp_weight(NAN)) && vexp_weight(-INFINITY) == 0 && vexp_weight(-87.01f) == 0);
    CHECK(vexp(0.0f) == 1 && vexp(-100.0f) > 0 && vexp(88.7f) < INFINITY);
    CHECK(vlog(1.0f) == 0 && vlog(0.0f) == -INFINITY && vlog(INFINITY) == INFINITY);
    CHECK(vtanh(INFINITY) == 1 && vtanh(-INFINITY) == -1 && vtanh(0.0f) == 0 &&
          vtanh(1e-40f) == 1e-40f);
    CHECK(verf(INFINITY) == 1 && verf(-INFINITY) == -1 && verf(0.0f) == 0);
    CHECK(vsigmoid(-INFINITY) == 0 && vsigmoid(INFINITY) == 1 && vsigmoid(0.0f) == 0.5f);
    CHECK(vsoftplus(INFINITY) == INFINITY && vsoftplus(-INFINITY) == 0 && vsoftplus(200.0f) == 200);
}

/* One function in a vector loop gives the bits of the scalar call, also in the loop's tail. */
static void vector_is_scalar(void)
{
    enum { N = 1003 };
    static float x[N], e[N], l[N], t[N], r[N], c[N], g[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - 500) * 0.0371f;
#pragma omp simd
    for (int i = 0; i < N; i++) {
        e[i] = vexp(x[i]);
        l[i] = vsoftplus(x[i]);
        t[i] = vtanh(x[i]);
        r[i] = verf(x[i]);
        c[i] = vgelu(x[i]);
        g[i] = vgelu_slope(x[i]);
    }
    int differ = 0;
    for (int i = 0; i < N; i++) {
        volatile float one = x[i];
        differ += e[i] != vexp(one) || l[i] != vsoftplus(one) || t[i] != vtanh(one) ||
                  r[i] != verf(one) || c[i] != vgelu(one) || g[i] != vgelu_slope(one);
    }
    CHECK_INT(differ, 0);
}

int main(void)
{
    RUN(errors_are_small);
    RUN(gelu_is_near);
    RUN(odd_values);
    RUN(vector_is_scalar);
    return test_end();
}
