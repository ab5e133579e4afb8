/* sashimi.h -- what the two forms of SaShiMi share: its sizes, and the model one sample at a time.
 *
 * sashimi.c is the form for training, over whole sequences; sashimi_step.c the same model as a
 * recurrence; sashimi_sample.c draws samples with it. Both forms give the same numbers for the
 * first `length` steps. */
#ifndef MODELS_SASHIMI_H
#define MODELS_SASHIMI_H

#include "models/model.h"

enum { SASHIMI_MAX_POOLS = 6 };     /* times that four steps become one */

typedef enum SashimiHead { HEAD_DML, HEAD_CATEGORICAL } SashimiHead;
typedef enum SashimiRound { ROUND_NEAREST, ROUND_FLOOR } SashimiRound;
typedef enum SashimiEncoding { ENCODING_LINEAR, ENCODING_MU_LAW } SashimiEncoding;

typedef struct Sashimi {
    int64_t length, bits;            /* steps a sample; a step is one of 2^bits levels */
    int64_t width, layers, pools, expand, ff, state;
    int     head;                    /* SashimiHead */
    int64_t components;              /* of the mixture */
    int     dml_round;               /* SashimiRound */
    int64_t channels, rate;          /* of the sound: channels lie interleaved, step by step */
    int     encoding;                /* SashimiEncoding */
    bool    state_carry;             /* a chunk of a file begins where the one before it ended */
} Sashimi;

static inline int64_t sashimi_levels(const Sashimi *m) { return (int64_t)1 << m->bits; }

/* Level 0 hears every step, level i every 4^i-th. */
static inline int64_t sashimi_width(const Sashimi *m, int64_t level)
{
    int64_t width = m->width;
    while (level-- > 0)
        width *= m->expand;
    return width;
}

static inline int64_t sashimi_length(const Sashimi *m, int64_t level)
{
    return m->length >> 2 * level;
}

static inline int64_t sashimi_outputs(const Sashimi *m)
{
    return m->head == HEAD_DML ? 3 * m->components : sashimi_levels(m);
}

/* What is drawn for a step: a Gumbel number for each of these, and one uniform number. */
static inline int64_t sashimi_choices(const Sashimi *m)
{
    return m->head == HEAD_DML ? m->components : sashimi_levels(m);
}

/* The recurrent form. A net holds the weights, a state all that one sequence remembers. */
typedef struct SashimiNet SashimiNet;
typedef struct SashimiState SashimiState;

Err  sashimi_net_new(Pool *pool, const Sashimi *m, Sampler *s, SashimiNet **net);
SashimiState *sashimi_state_new(Pool *pool, const SashimiNet *net);
void sashimi_step(const SashimiNet *net, SashimiState *state, int64_t token, float *outputs);

/* The next token, from a step's outputs and numbers in (0,1): choice [sashimi_choices] and u. */
int64_t sashimi_pick(const Sashimi *m, double temperature, const float *outputs,
                     const float *choice, double u);

Err  sashimi_check_sampler(const void *config, const SamplerConfig *sampler);
Err  sashimi_sample(Sampler *s, const void *config, SampleResult *result);

#endif
