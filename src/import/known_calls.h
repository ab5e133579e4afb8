/* known_calls.h -- groups of calls that one of our operators computes.
 *
 * Some groups are worth finding before they are lowered: of complex numbers only the calls say what
 * was meant, and what such a group would store is much larger than what goes in and out. A group is
 * found from its last call, the root. Its other calls are left out, and the root builds the operator.
 *
 *   fft_irfft of Cauchy sums      ->  s4_kernel
 *   slice of irfft(rfft * rfft)   ->  fft_conv
 *   product with 1 / std          ->  scalar_norm
 *   sum of logsumexp              ->  dml_loss
 *   matmul of softmax of matmul   ->  attention
 *
 * Products are compared as sets of factors, so that the order of operands, where a conjugate is
 * taken, and whether something is divided or multiplied by a reciprocal do not matter. A group is
 * left alone if another call reads one of its values, if anything is written in place between its
 * calls, or if it stands in no_grad.
 */
#ifndef IMPORT_KNOWN_CALLS_H
#define IMPORT_KNOWN_CALLS_H

#include "import/lower.h"

enum { KNOWN_FACTORS = 8, KNOWN_CALLS = 128, KNOWN_STEPS = 4096 };

typedef struct Factor {
    int32_t value;
    bool    conj, below; /* its conjugate; in the denominator */
    Dims    dims;        /* aligned with the product's axes */
} Factor;

typedef struct Factors {
    double scale;
    Dims   dims;
    Factor of[KNOWN_FACTORS];
    int    n;
} Factors;

typedef struct KnownCalls KnownCalls;

typedef struct KnownSearch { /* for the group of one root */
    Lower  *l;
    bool   *constant; /* by value */
    bool   *idle;     /* by call */
    int32_t calls[KNOWN_CALLS];
    int     n;
    int     steps; /* values looked at: no more than KNOWN_STEPS */
} KnownSearch;

struct KnownCalls { /* a group that was found */
    int32_t  root;
    int32_t *calls; /* the others, in the file's order */
    int      n;
    void    *with;                                  /* what the finder captured */
    Err (*build)(Lower *l, void *with, bool *fits); /* false: it does not fit after all */
};

/* The groups that can be found at a root; NULL: none. */
KnownCalls *known_s4_kernel(KnownSearch *k, const ExportedCall *root);
KnownCalls *known_fft_conv(KnownSearch *k, const ExportedCall *root);
KnownCalls *known_scalar_norm(KnownSearch *k, const ExportedCall *root);
KnownCalls *known_dml_loss(KnownSearch *k, const ExportedCall *root);
KnownCalls *known_attention(KnownSearch *k, const ExportedCall *root);

/* How many values a target of a mixture of logistics can take; 0: the value is no such target. */
int known_dml_levels(Lower *l, int32_t target);

/* ---- for these ---- */

/* The call of this target that makes the value, which becomes one of the group; NULL: another. */
const ExportedCall *known_call(KnownSearch *k, int32_t value, const char *target);
bool                known_made_by(const KnownSearch *k, int32_t value, const char *target);
/* Argument i of a call, if it is a value; -1: it is none. */
int32_t             known_arg(const ExportedCall *call, int i);
bool                known_number_at(const ExportedCall *call, int i, double *number);
bool                known_number(const ExportedCall *call, int i, double is);
bool                known_dims(KnownSearch *k, int32_t value, Dims *dims);
/* The value as a product, in fp32 or complex64. */
bool                known_product(KnownSearch *k, int32_t value, Factors *p);
/* The same of the root's result; the root is none of the others. */
bool                known_product_at(KnownSearch *k, const ExportedCall *root, Factors *p);
KnownCalls         *known_group(KnownSearch *k, const ExportedCall *root, void *with,
                                Err (*build)(Lower *l, void *with, bool *fits));
/* The value's parts when the root is built; false: it was written to since. */
bool                known_parts(Lower *l, int32_t value, ComplexParts *parts);

/* ---- for the walk ---- */

/* By call: the group of which it is the root, or one of the others; NULL: none. */
KnownCalls **known_find(Lower *l);

#endif
