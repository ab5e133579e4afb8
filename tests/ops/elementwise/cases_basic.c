/* cases_basic.c -- feed, reshape, add, cast. */
#include "ops/cases.h"

#include "ops/elementwise/basic.h"

static const float fed[6] = { 1, -2, 3.5f, 0, -0.25f, 7 };

static void feed_six(Case *c) { case_out(c, "y", case_feed(c, "batch", F32, SHAPE(2, 3), fed)); }

static const char *feed_same(Case *c)
{
    for (int i = 0; i < 6; i++)
        if (case_result(c, "y")[i] != fed[i])
            return "what came out is not what was fed";
    return NULL;
}

const OpCase cases_feed[] = { { "six numbers", feed_six, NULL, CASE_NO_TORCH, 0, 0, feed_same },
                              { 0 } };

static void reshape_add(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(2, 3, 4), -1, 1), z = case_in(c, "z", SHAPE(6, 4), -1, 1);
    case_out(c, "y", add(reshape(x, SHAPE(6, -1)), z));
    case_out(c, "back", reshape(reshape(x, SHAPE(24)), SHAPE(4, 3, 2)));
}

const OpCase cases_reshape[] = {
    { "there and back", reshape_add, "y = x.reshape(6, 4) + z; back = x.reshape(4, 3, 2)" }, { 0 }
};

static void add_plain(Case *c)
{
    case_out(c, "y",
             add(case_in(c, "a", SHAPE(3, 5, 7), -2, 2), case_in(c, "b", SHAPE(3, 5, 7), -2, 2)));
}

static void add_many_uses(Case *c) /* gradients of one value from several readers */
{
    Tensor x = case_in(c, "x", SHAPE(1), -1, 1), z = add(x, x);
    case_out(c, "y", add(add(z, x), z));
}

static void add_large(Case *c) /* more than one thread, not a multiple of any block */
{
    case_out(c, "y",
             add(case_in(c, "a", SHAPE(70001), -2, 2), case_in(c, "b", SHAPE(70001), -2, 2)));
}

const OpCase cases_add[] = { { "plain", add_plain, "y = a + b" },
                             { "one value, many uses", add_many_uses, "y = 5 * x" },
                             { "large", add_large, "y = a + b", CASE_LIVE_ONLY },
                             { 0 } };

static void cast_around(Case *c)
{
    Tensor x = case_in(c, "x", SHAPE(9, 33), -4, 4);
    case_out(c, "y", cast(cast(x, BF16), F32));
    case_out(c, "h", cast(cast(x, F16), F32));
}

const OpCase cases_cast[] = { { "there and back", cast_around, "y = x * 1; h = x * 1",
                                CASE_NO_DIFFERENCES, 1e-2, 1e-2 },
                              { 0 } };
