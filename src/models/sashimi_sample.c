/* sashimi_sample.c -- SaShiMi sampling: draws a token from each step's distribution and feeds it
 * back.
 *
 * Sequences are independent. Random numbers are drawn for a block of steps, then each sequence runs
 * through the block on its own thread.
 */
#define LAYERS_NO_SOURCE /* no graph is built here */
#include "models/layers.h"
#include "base/audio_levels.h"
#include "models/sashimi.h"

#include <math.h>

enum { BLOCK_STEPS = 256, BLOCK_NUMBERS = 1 << 20 }; /* limits: steps, random numbers */

int64_t sashimi_pick(const Sashimi *m, double temperature, const float *outputs,
                     const float *choice, double u)
{
    int64_t levels = sashimi_levels(m), k = m->components, best = 0;
    double  highest = -INFINITY;
    for (int64_t i = 0; i < sashimi_choices(m); i++) { /* Gumbel trick; temperature 0: argmax */
        double score = (double)outputs[i] - temperature * log(-log((double)choice[i]));
        if (score > highest) {
            highest = score;
            best = i;
        }
    }
    if (m->head == HEAD_CATEGORICAL)
        return best;
    double scale = exp(fmax((double)outputs[2 * k + best], SASHIMI_LOG_SCALE_MIN));
    double x = (double)outputs[k + best] + scale * (log(u) - log1p(-u));
    double half = m->dml_round == ROUND_NEAREST ? 0.5 : 0;
    double bin = floor((fmin(fmax(x, -1), 1) + 1) * (double)levels / 2 + half);
    return (int64_t)fmin(bin, (double)(levels - 1));
}

typedef struct Voice { /* one sequence */
    SashimiState *state;
    float        *outputs;
    LikelyLevel  *likely; /* NULL: every level may be chosen */
    int64_t       token;
} Voice;

typedef struct RandomBlock { /* random numbers of the next steps */
    int64_t steps, n;        /* n: number of sequences */
    float  *choice, *u;      /* (steps, n, choices), (steps, n) */
} RandomBlock;

/* Runs sequence number `index` through the block. */
static void voice_run(const SashimiNet *net, const Sashimi *m, const SamplerConfig *sampler,
                      const RandomBlock *b, int64_t index, Voice *v, float *audio)
{
    int64_t choices = sashimi_choices(m);
    Levels  levels = { .count = sashimi_levels(m), .mu_law = m->encoding == ENCODING_MU_LAW };
    for (int64_t i = 0; i < b->steps; i++) {
        int64_t      at = i * b->n + index;
        const float *choice = b->choice + at * choices;
        double       u = (double)b->u[at];
        sashimi_step(net, v->state, v->token, v->outputs);
        v->token = v->likely ? sashimi_pick_likely(m, sampler, v->outputs, choice, u, v->likely)
                             : sashimi_pick(m, sampler->temperature, v->outputs, choice, u);
        audio[i] = (float)level_audio(&levels, (int32_t)v->token);
    }
}

/* Reads the given levels, as a sequence that begins as in training; the next token is then the last
 * of them. Returns how many there are. */
static int64_t voice_prime(const SashimiNet *net, const Sashimi *m, const int32_t *given, Voice *v)
{
    int64_t n = 0;
    for (; n < m->length && given[n] >= 0; n++) {
        sashimi_step(net, v->state, v->token, v->outputs);
        v->token = given[n];
    }
    return n;
}

/* Primes all voices. Returns how many given values each has at least. */
static int64_t voices_prime(Sampler *s, const SashimiNet *net, const Sashimi *m, Voice *voices)
{
    const int32_t *given = s->feed(s, SASHIMI_GIVEN);
    int64_t        least = m->length;
#pragma omp parallel for schedule(dynamic, 1) reduction(min : least) if (s->n > 1)
    for (int64_t v = 0; v < s->n; v++) {
        int64_t n = voice_prime(net, m, given + v * m->length, &voices[v]);
        least = n < least ? n : least;
    }
    return least;
}

/* The last n given values of each voice, before what is drawn. */
static void given_copy(Sampler *s, const Sashimi *m, int64_t n, int64_t pitch, float *audio)
{
    const int32_t *given = s->feed(s, SASHIMI_GIVEN);
    Levels levels = { .count = sashimi_levels(m), .mu_law = m->encoding == ENCODING_MU_LAW };
    for (int64_t v = 0; v < s->n; v++) {
        int64_t has = 0;
        while (has < m->length && given[v * m->length + has] >= 0)
            has++;
        for (int64_t i = 0; i < n; i++)
            audio[v * pitch + i] = (float)level_audio(&levels, given[v * m->length + has - n + i]);
    }
}

Err sashimi_check_sampler(const void *config, const SamplerConfig *sampler)
{
    const Sashimi *m = config;
    TRY(sampler_check(sampler, "sashimi", 1 << SAMPLER_RECURRENT, false));
    if (!(sampler->top_p > 0))
        return fail(E_USAGE, "sampler.top_p must be above 0; 1 lets every level be chosen");
    if (sampler->length > 0 && sampler->length < m->channels)
        return fail(E_USAGE, "sampler.length: one sample of %lld channels has %lld steps",
                    (long long)m->channels, (long long)m->channels);
    return OK;
}

Err sashimi_sample(Sampler *s, const void *config, SampleResult *result)
{
    const Sashimi *m = config;
    int64_t        length = s->config->length > 0 ? s->config->length : m->length;
    int64_t        n = s->n, choices = sashimi_choices(m), max = BLOCK_NUMBERS / (n * choices);
    bool           nucleus = s->config->top_p < 1;
    SashimiNet    *net;
    TRY(sashimi_check_sampler(m, s->config));
    length -= length % m->channels;
    max = max < 1 ? 1 : max > BLOCK_STEPS ? BLOCK_STEPS : max;
    TRY(sashimi_net_new(s->pool, m, s, &net));

    RandomBlock block = { .n = n,
                          .choice = NEWN(s->pool, float, (max * n * choices)),
                          .u = NEWN(s->pool, float, (max * n)) };
    Voice      *voices = NEWN(s->pool, Voice, n);
    for (int64_t v = 0; v < n; v++)
        voices[v] = (Voice){ sashimi_state_new(s->pool, net),
                             NEWN(s->pool, float, sashimi_outputs(m)),
                             nucleus ? NEWN(s->pool, LikelyLevel, sashimi_levels(m)) : NULL,
                             sashimi_levels(m) / 2 };
    int64_t begin = s->continues ? voices_prime(s, net, m, voices) : 0, pitch = begin + length;
    float  *audio = NEWN(s->pool, float, (n * pitch));
    if (begin)
        given_copy(s, m, begin, pitch, audio);
    for (int64_t at = 0; at < length && !s->dry; at += block.steps) {
        block.steps = length - at < max ? length - at : max;
        for (int64_t i = 0; i < block.steps; i++) {
            s->uniform(s, "gumbel", at + i, block.choice + i * n * choices, n * choices);
            s->uniform(s, "uniform", at + i, block.u + i * n, n);
        }
#pragma omp parallel for schedule(dynamic, 1) if (n > 1)
        for (int64_t v = 0; v < n; v++)
            voice_run(net, m, s->config, &block, v, &voices[v], audio + v * pitch + begin + at);
        s->progress(s, at + block.steps, length);
    }
    *result = (SampleResult){
        .kind = RESULT_AUDIO,
        .shape = SHAPE(n, pitch / m->channels, m->channels),
        .data = audio,
        .rate = m->rate,
    };
    return OK;
}
