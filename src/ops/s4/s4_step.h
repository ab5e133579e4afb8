/* s4_step.h -- the recurrent form of an S4 layer, one time step at a time, and its C for any
 * length.
 *
 * With M = I - dt/2 (diag(A) - P P*), the bilinear discretisation is Abar = 2 M^-1 - I,
 * Bbar = M^-1 dt B. M^-1 is diagonal plus rank one too (Sherman and Morrison), so that a step costs
 * O(N). With E = 1 / (1 - dt/2 A) and F = 2 E P / (2/dt + P* E P):
 *
 *     e = E (2 x + dt B u),   x' = e - F Re-sum(conj(P) e) - x,   y = 2 Re-sum(C x')
 *
 * Kernels of length L use C~ = C (I - Abar^L) instead of C. Everything here is in double precision:
 * it runs once at the start, and for generation.
 */
#ifndef OPS_S4_S4_STEP_H
#define OPS_S4_S4_STEP_H

#include "base/err.h"
#include "base/pool.h"

typedef struct S4Params { /* as stored in checkpoints */
    int64_t      channels, pairs;
    const float *inv_dt;          /* (H) */
    const float *c;               /* (H,N,2) */
    const float *b, *p;           /* (N,2) */
    const float *a_real, *a_imag; /* (N) */
} S4Params;

/* out (H,N,2) may be params->c. s4_c_recover and s4_c_convert fail if I - Abar^L is singular. */
void s4_c_store(const S4Params *params, int64_t length, float *out);             /* C to C~ */
Err  s4_c_recover(const S4Params *params, int64_t length, float *out);           /* C~ to C */
Err  s4_c_convert(const S4Params *params, int64_t from, int64_t to, float *out); /* C~ to C~ */

typedef struct S4Coefs { /* of one channel, [pairs] complex each: E, F, dt B, P; see above */
    double _Complex *e, *f, *b, *p;
} S4Coefs;

/* params->c is not read */
void s4_coefs(const S4Params *params, int64_t channel, const S4Coefs *to);

typedef struct S4Step { /* coefficients [pairs][2][channels]: real parts, imaginary parts */
    int64_t channels, pairs;
    double *e, *f, *b, *c;
    double *p; /* [pairs][2], the same for all channels */
} S4Step;

/* params->c is C~ for that length; length 0: it is C itself. */
Err s4_step_new(Pool *pool, const S4Params *params, int64_t length, S4Step **step);
static inline int64_t s4_state_count(const S4Step *s) { return 2 * s->pairs * s->channels; }
/* u and y (channels); state (s4_state_count), 0 at the start; sums (channels) is workspace. */
void s4_step(const S4Step *s, double *state, double *sums, const float *u, float *y);

#endif
