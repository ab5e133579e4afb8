/* cases_softmax.c -- softmax, log-softmax, log-sum-exp. */
#include "ops/cases.h"

#include "ops/reduce/softmax.h"

#define ROW_CASES(name)                                                                            \
    static void name##_odd(Case *c)                                                                \
    {                                                                                              \
        case_out(c, "y", name(case_in(c, "x", SHAPE(3, 5, 7), -4, 4)));                            \
    }                                                                                              \
    static void name##_thin(Case *c)                                                               \
    {                                                                                              \
        case_out(c, "y", name(case_in(c, "x", SHAPE(6, 1), -4, 4)));                               \
    }                                                                                              \
    static void name##_far(Case *c)                                                                \
    {                                                                                              \
        case_out(c, "y", name(case_in(c, "x", SHAPE(2, 9), 60, 400)));                             \
    }                                                                                              \
    static void name##_wide(Case *c)                                                               \
    {                                                                                              \
        case_out(c, "y", name(case_in(c, "x", SHAPE(21, 2600), -4, 4)));                           \
    }
ROW_CASES(softmax)
ROW_CASES(log_softmax)
ROW_CASES(logsumexp)

const OpCase cases_softmax[] = { { "odd", softmax_odd, "y = x.softmax(-1)" },
                                 { "thin", softmax_thin, "y = x.softmax(-1)" },
                                 { "far", softmax_far, "y = x.softmax(-1)",
                                   CASE_NO_DIFFERENCES | CASE_NO_F16 },
                                 { "wide", softmax_wide, "y = x.softmax(-1)", CASE_LIVE_ONLY },
                                 { 0 } };

const OpCase cases_log_softmax[] = {
    { "odd", log_softmax_odd, "y = x.log_softmax(-1)" },
    { "thin", log_softmax_thin, "y = x.log_softmax(-1)" },
    { "far", log_softmax_far, "y = x.log_softmax(-1)", CASE_NO_DIFFERENCES },
    { "wide", log_softmax_wide, "y = x.log_softmax(-1)", CASE_LIVE_ONLY },
    { 0 }
};

const OpCase cases_logsumexp[] = {
    { "odd", logsumexp_odd, "y = x.logsumexp(-1)" },
    { "thin", logsumexp_thin, "y = x.logsumexp(-1)" },
    { "far", logsumexp_far, "y = x.logsumexp(-1)", CASE_NO_DIFFERENCES },
    { "wide", logsumexp_wide, "y = x.logsumexp(-1)", CASE_LIVE_ONLY },
    { 0 }
};
