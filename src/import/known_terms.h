/* known_terms.h -- formulas in a normal form, so that two ways to write one can be compared.
 *
 * A Poly is a sum of products of atoms: leaves, and functions of other polys. Products are
 * multiplied out, products of exponentials are one exponential, and softplus and sigmoid take
 * the argument whose first term is positive:
 *
 *   (x - m + h) exp(-s)  and  exp(-s) (h - m) + x / exp(s)   ->   x E - m E + h E,  E = exp(-s)
 *   log(sigmoid(x))      and  -softplus(-x)                  are not the same: log stays log
 *
 * Whatever does not fit (too many terms, dividing by a sum) sets `failed`.
 */
#ifndef IMPORT_KNOWN_TERMS_H
#define IMPORT_KNOWN_TERMS_H

#include <stdbool.h>

enum { POLY_FACTORS = 4, POLY_TERMS = 12, POLY_ATOMS = 96 };

typedef struct PolyTerm {
    double by;
    int    n, atom[POLY_FACTORS]; /* in ascending order */
} PolyTerm;

typedef struct Poly {
    int      n;
    PolyTerm of[POLY_TERMS]; /* sorted by atoms; the constant first */
} Poly;

typedef enum AtomKind {
    ATOM_LEAF,
    ATOM_EXP,
    ATOM_LOG,
    ATOM_SOFTPLUS,
    ATOM_SIGMOID,
    ATOM_MAX,      /* max(arg[0], number) */
    ATOM_POSITIVE, /* a truth value: arg[0] > 0 */
    ATOM_ZERO,     /* a truth value: arg[0] == 0 */
    ATOM_CHOICE    /* arg[0] ? arg[1] : arg[2] */
} AtomKind;

typedef struct Atom {
    AtomKind kind;
    double   number; /* a leaf's: which */
    Poly     arg[3];
} Atom;

typedef struct Terms {
    int  n;
    bool failed;
    Atom atom[POLY_ATOMS];
} Terms;

Poly poly_number(double x);
Poly poly_leaf(Terms *t, int which);
Poly poly_sum(Terms *t, const Poly *a, double by, const Poly *b); /* a + by b */
Poly poly_product(Terms *t, const Poly *a, const Poly *b);
Poly poly_ratio(Terms *t, const Poly *a, const Poly *b); /* b: a number, or an exponential */
Poly poly_times(Terms *t, const Poly *a, double by);
/* A function of one argument; number: that of ATOM_MAX. */
Poly poly_of(Terms *t, AtomKind kind, const Poly *a, double number);
Poly poly_choice(Terms *t, const Poly *test, const Poly *a, const Poly *b);
bool poly_same(const Poly *a, const Poly *b); /* numbers to seven digits */

#endif
