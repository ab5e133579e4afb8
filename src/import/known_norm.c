/* known_norm.c -- norms that PyTorch has no call for.
 *
 *   scalar_norm   s / std (x - mean + m), along the last axis, with single numbers s and m; the biased
 *                 deviation, without an epsilon (SaShiMi's norm)
 */
#include "import/known_calls.h"

#include "ops/norm/layernorm.h"

typedef struct NormParts {
    int32_t x, m, s;
} NormParts;

static bool is_lone(KnownSearch *k, int32_t value)
{
    Dims dims;
    return known_dims(k, value, &dims) && dims_count(dims) == 1 &&
           k->l->program->values[value].type == EX_F32;
}

/* Biased, along the last axis, which is kept. */
static bool is_biased(const ExportedCall *call, int rank)
{
    const ExportedArg *axis = call_arg(call, "dim"), *keep = call_arg(call, "keepdim");
    return call->n_args == 4 && axis && axis->kind == ARG_INTS && axis->n == 1 && !axis->values &&
           (axis->ints[0].value == -1 || axis->ints[0].value == rank - 1) && keep &&
           keep->kind == ARG_BOOL && keep->ints[0].value && known_number(call, 2, 0);
}

/* x - mean + m */
static bool find_centred(KnownSearch *k, int32_t value, const ExportedCall *moments, NormParts *s)
{
    const ExportedCall *add = known_call(k, value, "add.Tensor"), *sub;
    if (!add || add->n_args != 2)
        return false;
    for (int i = 0; i < 2; i++) {
        if (!known_made_by(k, known_arg(add, i), "sub.Tensor") || !is_lone(k, known_arg(add, !i)))
            continue;
        sub = known_call(k, known_arg(add, i), "sub.Tensor");
        s->x = known_arg(sub, 0);
        s->m = known_arg(add, !i);
        return sub->n_args == 2 && s->x >= 0 && s->x == known_arg(moments, 0) &&
               known_arg(sub, 1) == moments->out[1];
    }
    return false;
}

static Err build_scalar_norm(Lower *l, void *with, bool *fits)
{
    const NormParts *at = with;
    ComplexParts     x, m, s;
    View             vx, vm, vs;
    int              order[VIEW_RANK];
    *fits = known_parts(l, at->x, &x) && known_parts(l, at->m, &m) && known_parts(l, at->s, &s);
    if (!*fits)
        return OK;
    TRY(item_view(l, &x.re, &vx));
    TRY(item_view(l, &m.re, &vm));
    TRY(item_view(l, &s.re, &vs));
    view_order_last(&vx, vx.rank - 1, order);
    Tensor y = scalar_norm(view_tensor(vx, order), view_tensor_as(vm, NULL, SHAPE(1)),
                           view_tensor_as(vs, NULL, SHAPE(1)));
    return give_tensor(l, 0, y, order);
}

KnownCalls *known_scalar_norm(KnownSearch *k, const ExportedCall *root)
{
    Factors             p;
    Dims                dims;
    NormParts           found = { .s = -1 }, *s;
    const ExportedCall *moments = NULL;
    int32_t             centred = -1;
    if (!known_product_at(k, root, &p) || p.n != 3 || p.scale != 1)
        return NULL;
    for (int i = 0; i < p.n; i++) {
        int32_t value = p.of[i].value;
        if (p.of[i].below && !moments)
            moments = known_call(k, value, "std_mean.correction");
        else if (!p.of[i].below && found.s < 0 && is_lone(k, value))
            found.s = value;
        else if (!p.of[i].below)
            centred = value;
    }
    if (!moments || moments->n_out != 2 || found.s < 0 || centred < 0 || p.dims.rank < 1 ||
        !find_centred(k, centred, moments, &found) || !is_biased(moments, p.dims.rank) ||
        !known_dims(k, found.x, &dims) || !dims_same(dims, p.dims) ||
        k->l->program->values[found.x].type != EX_F32)
        return NULL;
    for (int i = 0; i < p.n; i++)
        if (p.of[i].below && p.of[i].value != moments->out[0])
            return NULL;
    s = NEW(k->l->pool, NormParts);
    *s = found;
    return known_group(k, root, s, build_scalar_norm);
}
