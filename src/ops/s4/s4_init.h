/* s4_init.h -- initial parameters of an S4 layer: HiPPO-LegS (Gu et al. 2020) as diagonal plus rank
 * one.
 *
 *     Ah[n,k] = -sqrt((2n+1)(2k+1)) below the diagonal, -(n+1) on it, 0 above;
 *     Bh_n = sqrt(2n+1),  Ph_n = sqrt(n+1/2)
 *
 * Ah + Ph Ph^T = -1/2 I + S with S skew. With V the eigenvectors of S: A = eigenvalues, B = V* Bh,
 * P = V* Ph, for the half with negative imaginary parts, ascending. The phase of an eigenvector is
 * arbitrary; here its first component is real and positive, as in LAPACK up to sign. Im B is then
 * clipped to +-2, as published.
 */
#ifndef OPS_S4_S4_INIT_H
#define OPS_S4_S4_INIT_H

#include <stdint.h>

/* As stored in checkpoints: a_real = log(-Re A) and a_imag = -Im A, (pairs); b and p (pairs,2).
 * Every pointer may be NULL. */
void s4_init(int64_t pairs, float *a_real, float *a_imag, float *b, float *p);

#endif
