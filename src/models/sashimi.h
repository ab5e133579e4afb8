/* sashimi.h -- SaShiMi: its sizes, and its recurrent form.
 *
 * sashimi.c is the form for training, over whole sequences. sashimi_step.c is the same model as a
 * recurrence, with which sashimi_sample.c draws samples. Both forms give the same numbers for the
 * first `length` steps. */
#ifndef MODELS_SASHIMI_H
#define MODELS_SASHIMI_H

#include "models/model.h"

#define SASHIMI_GIVEN "target"       /* levels of given audio; below 0 where there is none */
enum { SASHIMI_MAX_POOLS = 6 };      /* each pool turns four steps into one */
enum { SASHIMI_LOG_SCALE_MIN = -7 }; /* as in ops/loss/dml_cpu.c */

typedef enum SashimiHead { HEAD_DML, HEAD_CATEGORICAL } SashimiHead;
typedef enum SashimiRound { ROUND_NEAREST, ROUND_FLOOR } SashimiRound;
typedef enum SashimiEncoding { ENCODING_LINEAR, ENCODING_MU_LAW } SashimiEncoding;

typedef struct Sashimi {
    int64_t length, bits; /* steps per sample; a step is one of 2^bits levels */
    int64_t width, layers, pools, expand, ff, state;
    int     head;           /* SashimiHead */
    int64_t components;     /* of the mixture */
    int     dml_round;      /* SashimiRound */
    int64_t channels, rate; /* of the audio; channels are interleaved */
    int     encoding;       /* SashimiEncoding */
    bool    state_carry;    /* the state is carried from chunk to chunk of a file */
} Sashimi;

static inline int64_t sashimi_levels(const Sashimi *m) { return (int64_t)1 << m->bits; }

/* Stage 0 runs at every step, stage i at every 4^i-th. */
static inline int64_t sashimi_width(const Sashimi *m, int64_t stage)
{
    int64_t width = m->width;
    while (stage-- > 0)
        width *= m->expand;
    return width;
}

static inline int64_t sashimi_length(const Sashimi *m, int64_t stage)
{
    return m->length >> 2 * stage;
}

static inline int64_t sashimi_outputs(const Sashimi *m)
{
    return m->head == HEAD_DML ? 3 * m->components : sashimi_levels(m);
}

/* Random numbers of a step: one per choice, for the Gumbel trick, and one more. */
static inline int64_t sashimi_choices(const Sashimi *m)
{
    return m->head == HEAD_DML ? m->components : sashimi_levels(m);
}

/* The recurrent form. A net holds the weights, a state that of one sequence. */
typedef struct SashimiNet   SashimiNet;
typedef struct SashimiState SashimiState;

Err           sashimi_net_new(Pool *pool, const Sashimi *m, Sampler *s, SashimiNet **net);
SashimiState *sashimi_state_new(Pool *pool, const SashimiNet *net);
void sashimi_step(const SashimiNet *net, SashimiState *state, int64_t token, float *outputs);

/* The next token, from a step's outputs and numbers in (0,1): choice [sashimi_choices] and u. */
int64_t sashimi_pick(const Sashimi *m, double temperature, const float *outputs,
                     const float *choice, double u);

typedef struct LikelyLevel {
    double  share; /* its probability */
    int32_t level;
} LikelyLevel;

/* The same, among the likeliest levels whose probabilities reach top_p. list: room for all levels. */
int64_t sashimi_pick_likely(const Sashimi *m, const SamplerConfig *sampler, const float *outputs,
                            const float *choice, double u, LikelyLevel *list);

Err sashimi_check_sampler(const void *config, const SamplerConfig *sampler);
Err sashimi_sample(Sampler *s, const void *config, SampleResult *result);

#endif
