/* cases_glu.c -- gated linear units. */
#include "ops/cases.h"

#include "ops/elementwise/glu.h"
#include "ops/elementwise/unary.h"

#define GLU_CASES(name)                                                                            \
    static void name##_odd(Case *c)                                                                \
    {                                                                                              \
        case_out(c, "y", name(case_in(c, "x", SHAPE(3, 5, 14), -4, 4)));                           \
    }                                                                                              \
    static void name##_thin(Case *c)                                                               \
    {                                                                                              \
        case_out(c, "y", name(case_in(c, "x", SHAPE(7, 2), -4, 4)));                               \
    }                                                                                              \
    static void name##_after(Case *c) /* an input of its own, whose bytes the gradient takes */    \
    {                                                                                              \
        case_out(c, "y", name(affine(case_in(c, "x", SHAPE(4, 6), -2, 2), 2, 0.5f)));              \
    }                                                                                              \
    static void name##_large(Case *c)                                                              \
    {                                                                                              \
        case_out(c, "y", name(case_in(c, "x", SHAPE(30, 2100), -4, 4)));                           \
    }
GLU_CASES(glu)
GLU_CASES(geglu)

const OpCase cases_glu[] = { { "odd", glu_odd, "y = F.glu(x)" },
                             { "thin", glu_thin, "y = F.glu(x)" },
                             { "after affine", glu_after, "y = F.glu(2 * x + 0.5)" },
                             { "large", glu_large, "y = F.glu(x)", CASE_LIVE_ONLY },
                             { 0 } };

const OpCase cases_geglu[] = {
    { "odd", geglu_odd, "a, b = x.chunk(2, -1); y = a * F.gelu(b)" },
    { "thin", geglu_thin, "a, b = x.chunk(2, -1); y = a * F.gelu(b)" },
    { "after affine", geglu_after, "a, b = (2 * x + 0.5).chunk(2, -1); y = a * F.gelu(b)" },
    { "large", geglu_large, "a, b = x.chunk(2, -1); y = a * F.gelu(b)", CASE_LIVE_ONLY },
    { 0 }
};
