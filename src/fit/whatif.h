/* whatif.h -- what would help: every lever alone and together, each re-planned, and beliefs put to
 * the test. */
#ifndef FIT_WHATIF_H
#define FIT_WHATIF_H

#include "fit/explained.h"
#include "fit/fit.h"

typedef enum Effort {
    EFFORT_IMMEDIATE,
    EFFORT_SHORT,
    EFFORT_LONG
} Effort; /* a flag; a recipe value; the model */
extern const char *const effort_words[];

struct WhatIf {
    const char *name, *how;      /* how: what to type */
    Effort      effort;
    bool        exact;           /* no number of the training changes */
    bool        failed;          /* could not be built; `note` says why */
    bool        cut;             /* the time limit ended its search, or came before it */
    int64_t     peak_bytes, saved_bytes;
    double      slowdown;        /* predicted time of a step over that of the step as it is */
    const char *note;            /* or NULL */
};

struct Belief {
    const char *belief, *truth;  /* whole sentences; the figures were computed for this recipe */
};

typedef struct WhatIfOptions {
    double   time_limit_s;       /* of everything together */
    int64_t  effort;             /* of one search; 0: short */
    unsigned allow;              /* of the combination: ALLOW_... of fit/fit.h */
    bool     curve;              /* budget against time too, in a part of the time */
    void   (*progress)(void *arg, double done, const char *text);
    void    *progress_arg;
} WhatIfOptions;

/* Fills e->what_if (most saved first, the combination at the end) and e->beliefs. */
Err whatif_run(Pool *pool, Explained *e, const WhatIfOptions *options);

Err beliefs_find(Pool *pool, Explained *e);      /* fit/claims.c */

#endif
