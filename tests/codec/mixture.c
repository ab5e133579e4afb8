/* mixture.c -- frequencies: every level has one, they rise without a gap, the search finds them, and
 * they are the probabilities of the loss. */
#include "test.h"

#include "base/random.h"
#include "codec/mixture.h"
#include "codec/range_coder.h"

static const uint32_t total = (uint32_t)1 << RANGE_BITS;

/* Outputs of 3 components; kind 0: plain; 1: as narrow as can be; 2: far outside; 3: very wide */
static void outputs_of(int kind, float out[9])
{
    for (int i = 0; i < 9; i++)
        out[i] = random_normal_at((RandomKey){ .seed = 4, .stream = (uint32_t)kind }, (uint64_t)i);
    for (int i = 6; i < 9; i++)
        out[i] = kind == 1 ? -50 : kind == 3 ? 30 : out[i] - 3;
    for (int i = 3; i < 6; i++)
        out[i] = kind == 2 ? 1e6f * out[i] : 0.4f * out[i];
    out[0] = kind == 1 ? 3e38f : out[0];
}

static void frequencies(void)
{
    for (int64_t bits = 1; bits <= 16; bits += bits < 8 ? 7 : 8)
        for (int kind = 0; kind < 4; kind++) {
            Sashimi model = { .bits = bits, .components = 3 };
            Mixture m;
            float   out[9];
            int64_t q = sashimi_levels(&model), wrong = 0;
            outputs_of(kind, out);
            CHECK(mixture_set(&m, &model, out));
            CHECK_INT(mixture_cum(&m, 0), 0);
            CHECK_INT(mixture_cum(&m, q), total);
            for (int64_t k = 0; k < q; k++)
                wrong += mixture_cum(&m, k + 1) <= mixture_cum(&m, k);
            CHECK_INT(wrong, 0);
            for (int64_t k = 0; k < q; k += 1 + q / 300)
                for (int end = 0; end < 2; end++) {
                    uint32_t low = mixture_cum(&m, k), high = mixture_cum(&m, k + 1), cum, freq;
                    wrong += mixture_find(&m, end ? high - 1 : low, &cum, &freq) != k ||
                             cum != low || freq != high - low;
                }
            CHECK_INT(wrong, 0);
        }
}

/* The probabilities of all levels add up to 1, and a frequency costs what its probability does. */
static void probabilities(void)
{
    for (int kind = 0; kind < 4; kind++) {
        Sashimi model = { .bits = 8, .components = 3 };
        Mixture m;
        float   out[9];
        double  sum = 0, worst = 0;
        outputs_of(kind, out);
        CHECK(mixture_set(&m, &model, out));
        for (int64_t k = 0; k < 256; k++) {
            double p = exp2(-mixture_bits(&m, k));
            double f = (double)(mixture_cum(&m, k + 1) - mixture_cum(&m, k)) / total;
            sum += p;
            worst = fmax(worst, fabs(p - f));
        }
        CHECK_NEAR(sum, 1, 1e-9);
        CHECK(worst < 3e-6); /* 2 of 2^28 for each level, and 512 of 2^28 from the rest */
    }
}

/* One component by hand: the bin of level 128 of 256 is (-1/256, 1/256). */
static void by_hand(void)
{
    Sashimi model = { .bits = 8, .components = 1 };
    Mixture m;
    float   out[3] = { 0.3f, 0.0f, -2.0f };
    CHECK(mixture_set(&m, &model, out));
    double x = exp(2) / 256, p = 1 / (1 + exp(-x)) - 1 / (1 + exp(x));
    CHECK_NEAR(mixture_bits(&m, 128), -log2(p), 1e-9);
    CHECK_NEAR(mixture_bits(&m, 0), -log2(1 / (1 + exp(255 * x))), 1e-9);
    CHECK_NEAR(mixture_bits(&m, 255), -log2(1 / (1 + exp(253 * x))), 1e-9);
    out[1] = NAN;
    CHECK(!mixture_set(&m, &model, out));
    out[1] = INFINITY;
    CHECK(!mixture_set(&m, &model, out));
}

int main(void)
{
    RUN(frequencies);
    RUN(probabilities);
    RUN(by_hand);
    return test_end();
}
