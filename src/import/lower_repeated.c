/* lower_repeated.c -- calls that compute what an earlier one did: the same target with the same
 * arguments, such as a map that every block resizes for itself. Their results are the earlier ones'. */
#include "import/lower.h"

#include <string.h>

enum { MAX_READERS = 64 }; /* of its first operand, that are looked at */

static bool listed(const LowerDef *defs, const char *target)
{
    for (; defs->target; defs++)
        if (!defs->view && !strcmp(defs->target, target))
            return true;
    return false;
}

static bool same_numbers(const ExportedArg *a, const ExportedArg *b)
{
    for (int32_t i = 0; a->ints && i < a->n; i++)
        if (a->ints[i].expr || b->ints[i].expr || a->ints[i].value != b->ints[i].value)
            return false;
    return !a->floats || !memcmp(a->floats, b->floats, (size_t)a->n * sizeof *a->floats);
}

static bool same_arg(const ExportedArg *a, const ExportedArg *b)
{
    return a->kind == b->kind && a->n == b->n && !strcmp(a->name, b->name) &&
           !a->values == !b->values && !a->ints == !b->ints && !a->floats == !b->floats &&
           !a->text == !b->text &&
           (!a->values || !memcmp(a->values, b->values, (size_t)a->n * sizeof *a->values)) &&
           (!a->text || !strcmp(a->text, b->text)) && same_numbers(a, b);
}

/* Was it never written to? */
static bool unwritten(const Lower *l, int32_t value)
{
    const Alias *a = &l->alias[value];
    return a->same < 0 && !l->alias[a->root].written;
}

static bool same_args(const Lower *l, const ExportedCall *a, const ExportedCall *b)
{
    if (strcmp(a->target, b->target) != 0 || a->n_args != b->n_args || a->n_out != b->n_out ||
        a->region != b->region || l->program->regions[a->region].no_grad)
        return false;
    for (int32_t i = 0; i < a->n_args; i++) {
        const ExportedArg *x = &a->args[i];
        if (x->kind == ARG_OTHER || x->kind == ARG_COMPLEX || !same_arg(x, &b->args[i]))
            return false;
        for (int32_t j = 0; x->values && j < x->n; j++)
            if (x->values[j] >= 0 && !unwritten(l, x->values[j]))
                return false;
    }
    return true;
}

static bool has_results(const Lower *l, const ExportedCall *earlier, const ExportedCall *call)
{
    for (int32_t i = 0; i < call->n_out; i++)
        if (call->out[i] >= 0 && (earlier->out[i] < 0 || !l->items[earlier->out[i]].set ||
                                  !unwritten(l, earlier->out[i])))
            return false;
    return true;
}

const ExportedCall *lower_repeated(const Lower *l, const ExportedCall *call)
{
    const Exported    *p = l->program;
    int32_t            at = (int32_t)(call - p->calls);
    const ExportedArg *first = call->n_args ? &call->args[0] : NULL;
    if (!first || first->kind != ARG_VALUE || first->values[0] < 0)
        return NULL;
    int32_t v = first->values[0], seen = 0;
    for (int32_t u = l->first_use[v + 1] - 1; u >= l->first_use[v] && seen < MAX_READERS; u--) {
        if (l->uses[u] >= at)
            continue;
        seen++;
        const ExportedCall *earlier = &p->calls[l->uses[u]];
        if (same_args(l, earlier, call) && has_results(l, earlier, call) &&
            !complex_call(l, call) &&
            (listed(lower_pointwise, call->target) || listed(lower_samples, call->target)))
            return earlier;
    }
    return NULL;
}
