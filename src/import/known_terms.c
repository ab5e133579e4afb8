/* known_terms.c -- sums of products of atoms. */
#include "import/known_terms.h"

#include <math.h>
#include <string.h>

/* Numbers of the file may have been rounded to fp32. */
static bool near(double a, double b) { return fabs(a - b) <= 1e-7 * fmax(fabs(a), fabs(b)); }

static int order_of(const PolyTerm *a, const PolyTerm *b)
{
    for (int i = 0; i < a->n && i < b->n; i++)
        if (a->atom[i] != b->atom[i])
            return a->atom[i] - b->atom[i];
    return a->n - b->n;
}

static void term_add(Terms *t, Poly *p, const PolyTerm *x)
{
    int at = 0;
    while (at < p->n && order_of(&p->of[at], x) < 0)
        at++;
    if (at < p->n && order_of(&p->of[at], x) == 0) {
        double sum = p->of[at].by + x->by;
        /* what is left of equal numbers is rounding */
        if (fabs(sum) <= 1e-12 * fmax(fabs(x->by), fabs(p->of[at].by)))
            memmove(&p->of[at], &p->of[at + 1], (size_t)(--p->n - at) * sizeof *p->of);
        else
            p->of[at].by = sum;
        return;
    }
    if (p->n == POLY_TERMS) {
        t->failed = true;
        return;
    }
    memmove(&p->of[at + 1], &p->of[at], (size_t)(p->n++ - at) * sizeof *p->of);
    p->of[at] = *x;
}

bool poly_same(const Poly *a, const Poly *b)
{
    if (a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++)
        if (order_of(&a->of[i], &b->of[i]) || !near(a->of[i].by, b->of[i].by))
            return false;
    return true;
}

/* The atom, found again or new, as a poly. */
static Poly poly_atom(Terms *t, const Atom *atom)
{
    int at = 0;
    for (; at < t->n; at++) {
        const Atom *x = &t->atom[at];
        bool        same = x->kind == atom->kind && near(x->number, atom->number);
        for (int i = 0; i < 3; i++)
            same = same && poly_same(&x->arg[i], &atom->arg[i]);
        if (same)
            break;
    }
    if (at == POLY_ATOMS) {
        t->failed = true;
        at = 0;
    } else if (at == t->n) {
        t->atom[t->n++] = *atom;
    }
    return (Poly){ .n = 1, .of = { { .by = 1, .n = 1, .atom = { at } } } };
}

Poly poly_number(double x) { return (Poly){ .n = x != 0, .of = { { .by = x } } }; }

Poly poly_leaf(Terms *t, int which)
{
    return poly_atom(t, &(Atom){ .kind = ATOM_LEAF, .number = which });
}

Poly poly_sum(Terms *t, const Poly *a, double by, const Poly *b)
{
    Poly sum = *a;
    for (int i = 0; i < b->n; i++) {
        PolyTerm x = b->of[i];
        x.by *= by;
        if (x.by != 0)
            term_add(t, &sum, &x);
    }
    return sum;
}

Poly poly_times(Terms *t, const Poly *a, double by)
{
    Poly none = { 0 };
    return poly_sum(t, &none, by, a);
}

/* The exponential among the factors is taken out: its place in t, or -1. */
static int take_exp(const Terms *t, PolyTerm *x)
{
    for (int i = 0; i < x->n; i++)
        if (t->atom[x->atom[i]].kind == ATOM_EXP) {
            int at = x->atom[i];
            memmove(&x->atom[i], &x->atom[i + 1], (size_t)(--x->n - i) * sizeof *x->atom);
            return at;
        }
    return -1;
}

static void put_factor(Terms *t, PolyTerm *x, int atom)
{
    int at = x->n;
    if (at == POLY_FACTORS) {
        t->failed = true;
        return;
    }
    for (; at > 0 && x->atom[at - 1] > atom; at--)
        x->atom[at] = x->atom[at - 1];
    x->atom[at] = atom;
    x->n++;
}

static void term_product(Terms *t, PolyTerm a, PolyTerm b, Poly *sum)
{
    int e = take_exp(t, &a), f = take_exp(t, &b);
    a.by *= b.by;
    for (int i = 0; i < b.n; i++)
        put_factor(t, &a, b.atom[i]);
    if (e >= 0 && f >= 0) {
        Poly both = poly_sum(t, &t->atom[e].arg[0], 1, &t->atom[f].arg[0]);
        Poly power = poly_of(t, ATOM_EXP, &both, 0);
        a.by *= power.of[0].by;
        e = power.of[0].n ? power.of[0].atom[0] : -1;
    } else if (f >= 0)
        e = f;
    if (e >= 0)
        put_factor(t, &a, e);
    term_add(t, sum, &a);
}

Poly poly_product(Terms *t, const Poly *a, const Poly *b)
{
    Poly sum = { 0 };
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++)
            term_product(t, a->of[i], b->of[j], &sum);
    return sum;
}

Poly poly_ratio(Terms *t, const Poly *a, const Poly *b)
{
    const PolyTerm *x = &b->of[0];
    if (b->n == 1 && x->n == 0)
        return poly_times(t, a, 1 / x->by);
    if (b->n != 1 || x->n != 1 || t->atom[x->atom[0]].kind != ATOM_EXP) {
        t->failed = true;
        return *a;
    }
    Poly power = poly_times(t, &t->atom[x->atom[0]].arg[0], -1);
    power = poly_of(t, ATOM_EXP, &power, 0);
    power = poly_product(t, a, &power);
    return poly_times(t, &power, 1 / x->by);
}

/* Is the first term that is no constant below zero? */
static bool is_negated(const Poly *a)
{
    int first = a->n > 1 && !a->of[0].n;
    return a->n > first && a->of[first].by < 0;
}

/* exp(number + a): the number becomes a factor. */
static Poly power_of(Terms *t, const Poly *a)
{
    bool shifted = a->n && !a->of[0].n;
    Poly number = poly_number(shifted ? a->of[0].by : 0), rest = poly_sum(t, a, -1, &number);
    if (!rest.n)
        return poly_number(exp(shifted ? a->of[0].by : 0));
    Poly power = poly_atom(t, &(Atom){ .kind = ATOM_EXP, .arg = { rest } });
    return poly_times(t, &power, exp(shifted ? a->of[0].by : 0));
}

Poly poly_of(Terms *t, AtomKind kind, const Poly *a, double number)
{
    bool negated = is_negated(a);
    Poly back = poly_times(t, a, -1), one = poly_number(1), y;
    if (kind == ATOM_EXP)
        return power_of(t, a);
    if (kind == ATOM_SOFTPLUS && negated) { /* softplus(-a) = softplus(a) - a */
        y = poly_of(t, kind, &back, 0);
        return poly_sum(t, &y, 1, a);
    }
    if (kind == ATOM_SIGMOID && negated) { /* sigmoid(-a) = 1 - sigmoid(a) */
        y = poly_of(t, kind, &back, 0);
        return poly_sum(t, &one, -1, &y);
    }
    return poly_atom(t, &(Atom){ .kind = kind,
                                 .number = number,
                                 .arg = { kind == ATOM_ZERO && negated ? back : *a } });
}

Poly poly_choice(Terms *t, const Poly *test, const Poly *a, const Poly *b)
{
    return poly_atom(t, &(Atom){ .kind = ATOM_CHOICE, .arg = { *test, *a, *b } });
}
