/* frechet.h -- the Frechet distance of two sets of features, each taken as a Gaussian (Heusel et al.
 * 2017):
 *
 *   |m1 - m2|^2 + tr(C1) + tr(C2) - 2 tr((C1 C2)^(1/2))
 *
 * with means m and unbiased covariances C, all in double precision. With C1 = L L^T, the last trace
 * is the sum of the square roots of the eigenvalues of L^T C2 L, which is symmetric: no matrix square
 * root and no eigenvector is needed, and C1 may be singular. */
#ifndef EVALUATE_FRECHET_H
#define EVALUATE_FRECHET_H

#include "base/npy.h"

enum { FRECHET_MAX = 8192 }; /* features */

typedef struct Frechet {
    double  distance, mean_term, trace_term; /* distance: the sum of both, and never below 0 */
    int64_t n[2], features;
} Frechet;

/* Two arrays (n, d) of float32 or float64, n at least 2; a and b name them in messages. */
Err frechet_distance(Pool *pool, const char *a, const Npy *x, const char *b, const Npy *y,
                     Frechet *out);
/* The same from two .npy files. */
Err frechet_files(Pool *pool, const char *a, const char *b, Frechet *out);

#endif
