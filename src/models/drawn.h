/* drawn.h -- which random numbers a model's step draws, for programs that repeat the step elsewhere.
 *
 * A number is a pure function of (seed, step, stream, element), base/random.h. Elements are numbered
 * as the tensor lies in memory, across the micro-batches of a step. */
#ifndef MODELS_DRAWN_H
#define MODELS_DRAWN_H

#include "base/random.h"

typedef enum DrawnKind {
    DRAWN_NORMAL,
    DRAWN_UNIFORM, /* (0,1) */
    DRAWN_INTS,    /* low .. low + below - 1 */
    DRAWN_MASK     /* of dropout: 0, or 1 / (1 - rate) */
} DrawnKind;

enum { DRAWN_RANK = 8 };

typedef struct Drawn {
    const char *name;
    DrawnKind   kind;
    uint32_t    stream, below;
    int64_t     low;
    float       rate;
    int         rank;
    int64_t     dim[DRAWN_RANK];
    int         order[DRAWN_RANK]; /* order[i]: the axis that is axis i in memory */
} Drawn;

int64_t drawn_count(const Drawn *d);
/* One micro-batch, the last axis fastest: fp32, of integers int32. */
void    drawn_fill(const Drawn *d, uint64_t seed, uint32_t step, uint32_t micro, void *out);

#endif
