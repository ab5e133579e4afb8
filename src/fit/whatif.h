/* whatif.h -- what would save memory: every lever alone and all together, each planned again; and
 * common beliefs, tested. */
#ifndef FIT_WHATIF_H
#define FIT_WHATIF_H

#include "fit/explained.h"
#include "fit/fit.h"

typedef enum Effort {
    EFFORT_IMMEDIATE, /* a flag */
    EFFORT_SHORT,     /* a value of the recipe */
    EFFORT_LONG       /* another model, or other training */
} Effort;
extern const char *const effort_words[];

struct WhatIf {
    const char *name, *how; /* how: the option to give */
    Effort      effort;
    bool        exact;  /* changes no number */
    bool        failed; /* could not be built; `note` says why */
    bool        cut;    /* the time limit ended its search, or came before it */
    int64_t     peak_bytes, saved_bytes;
    double      slowdown; /* predicted time of a step, relative to the recipe as it is */
    const char *note;     /* or NULL */
};

struct Belief {
    const char *belief, *truth; /* sentences; the figures were computed for this recipe */
};

typedef struct WhatIfOptions {
    double   time_limit_s; /* for everything together */
    int64_t  effort;       /* of one search; 0: short */
    unsigned allow;        /* for the combination: ALLOW_... of fit/fit.h */
    bool     curve;        /* also budget against time, in a quarter of the time */
    void (*progress)(void *arg, double done, const char *text);
    void *progress_arg;
} WhatIfOptions;

/* Fills e->what_if (most saved first, the combination at the end) and e->beliefs. */
Err whatif_run(Pool *pool, Explained *e, const WhatIfOptions *options);

Err beliefs_find(Pool *pool, Explained *e); /* fit/claims.c */

#endif
