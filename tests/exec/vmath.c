/* vmath.c -- the errors that src/ops/vmath.h promises, over every 1009th float, and the odd values. */
#include "../test.h"

#include "ops/vmath.h"

/* Distance in units of the last place of the fp32 result; subnormals count from the smallest normal. */
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

static double want_sigmoid(double x)  { return 1 / (1 + exp(-x)); }
static double want_softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }

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
    sweep("vlog", vlog, log, -INFINITY, INFINITY, 1.0);
    sweep("vlog1p", vlog1p, log1p, -0.99f, INFINITY, 2.0);
    sweep("vtanh", vtanh, tanh, -INFINITY, INFINITY, 2.0);
    sweep("vsigmoid", vsigmoid, want_sigmoid, -87.0f, INFINITY, 2.5);
    sweep("verf", verf, erf, -INFINITY, INFINITY, 2.0);
    sweep("vsoftplus", vsoftplus, want_softplus, -87.0f, INFINITY, 2.0);
}

static void odd_values(void)
{
    CHECK(isnan(vexp(NAN)) && isnan(vlog(NAN)) && isnan(vtanh(NAN)) && isnan(vsigmoid(NAN)));
    CHECK(isnan(verf(NAN)) && isnan(vsoftplus(NAN)) && isnan(vlog1p(NAN)) && isnan(vlog(-1.0f)));
    CHECK(isinf(vexp(INFINITY)) && isinf(vexp(100.0f)) && vexp(-INFINITY) == 0 &&
          vexp(-110.0f) == 0);
    CHECK(vexp(0.0f) == 1 && vexp(-100.0f) > 0 && vexp(88.7f) < INFINITY);
    CHECK(vlog(1.0f) == 0 && vlog(0.0f) == -INFINITY && vlog(INFINITY) == INFINITY);
    CHECK(vtanh(INFINITY) == 1 && vtanh(-INFINITY) == -1 && vtanh(0.0f) == 0 &&
          vtanh(1e-40f) == 1e-40f);
    CHECK(verf(INFINITY) == 1 && verf(-INFINITY) == -1 && verf(0.0f) == 0);
    CHECK(vsigmoid(-INFINITY) == 0 && vsigmoid(INFINITY) == 1 && vsigmoid(0.0f) == 0.5f);
    CHECK(vsoftplus(INFINITY) == INFINITY && vsoftplus(-INFINITY) == 0 && vsoftplus(200.0f) == 200);
    CHECK(vnormal_cdf(0.0f) == 0.5f && vnormal_cdf(INFINITY) == 1 && vnormal_cdf(-INFINITY) == 0);
}

/* One function in a vector loop gives the bits of the scalar call, also in the loop's tail. */
static void vector_is_scalar(void)
{
    enum { N = 1003 };
    static float x[N], e[N], l[N], t[N], r[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - 500) * 0.0371f;
#pragma omp simd
    for (int i = 0; i < N; i++) {
        e[i] = vexp(x[i]);
        l[i] = vsoftplus(x[i]);
        t[i] = vtanh(x[i]);
        r[i] = verf(x[i]);
    }
    int differ = 0;
    for (int i = 0; i < N; i++) {
        volatile float one = x[i];
        differ +=
            e[i] != vexp(one) || l[i] != vsoftplus(one) || t[i] != vtanh(one) || r[i] != verf(one);
    }
    CHECK_INT(differ, 0);
}

int main(void)
{
    RUN(errors_are_small);
    RUN(odd_values);
    RUN(vector_is_scalar);
    return test_end();
}
