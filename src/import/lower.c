/* lower.c -- the walk over an exported program's calls; arguments, results, constants. */
#include "import/lower.h"

#include "import/known_calls.h"

#include "base/hash.h"
#include "base/text.h"
#include "ops/elementwise/basic.h"
#include "ops/index/gather.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- types ---- */

bool type_floats(ExportedType type)
{
    return type == EX_F32 || type == EX_BF16 || type == EX_F16 || type == EX_F64;
}

bool type_supported(ExportedType type)
{
    switch (type) {
    case EX_U8:
    case EX_I8:
    case EX_I16:
    case EX_I32:
    case EX_I64:
    case EX_F16:
    case EX_F32:
    case EX_F64:
    case EX_BOOL:
    case EX_BF16: return true;
    default: return false;
    }
}

Type store_type(const Lower *l, ExportedType type)
{
    switch (type) {
    case EX_BF16: return BF16;
    case EX_F16: return F16;
    case EX_F64: return F32; /* of the graph's numbers; constants are doubles on the host */
    case EX_F32: return l->wide_call ? F32 : l->graph->compute;
    case EX_U8:
    case EX_BOOL: return U8;
    default: return I32;
    }
}

/* ---- arguments ---- */

const ExportedArg *arg(const Lower *l, const char *name) { return call_arg(l->call, name); }

bool arg_given(const Lower *l, const char *name)
{
    const ExportedArg *a = arg(l, name);
    return a && a->kind != ARG_NONE;
}

static Err number_read(Lower *l, const ExportedArg *a, int at, int64_t *value)
{
    if (a->kind == ARG_FLOAT || a->kind == ARG_FLOATS) {
        *value = int_of(a->floats[at]);
        return OK;
    }
    if ((a->kind == ARG_VALUE || a->kind == ARG_VALUES) && a->values[at] >= 0)
        return item_int(&l->items[a->values[at]], value);
    return a->ints ? sym_eval(&l->program->symbols, a->ints[at], value)
                   : refuse(l, "'%s' is no number", a->name);
}

static Err number_of(Lower *l, const ExportedArg *a, int at, int64_t *value)
{
    TRY(number_read(l, a, at, value));
    l->numbers = hash_int(l->numbers, *value);
    return OK;
}

Err arg_int(Lower *l, const char *name, int64_t otherwise, int64_t *value)
{
    *value = otherwise;
    if (!arg_given(l, name))
        return OK;
    return arg(l, name)->n ? number_of(l, arg(l, name), 0, value)
                           : refuse(l, "'%s' is an empty list", name);
}

Err arg_float(Lower *l, const char *name, double otherwise, double *value)
{
    const ExportedArg *a = arg(l, name);
    *value = otherwise;
    if (!arg_given(l, name))
        return OK;
    if (!a->n)
        return refuse(l, "'%s' is an empty list", name);
    if (a->kind == ARG_FLOAT || a->kind == ARG_FLOATS) {
        *value = a->floats[0];
        return OK;
    }
    int64_t whole;
    TRY(number_of(l, a, 0, &whole));
    *value = (double)whole;
    return OK;
}

bool arg_bool(const Lower *l, const char *name, bool otherwise)
{
    const ExportedArg *a = arg(l, name);
    return a && (a->kind == ARG_BOOL || a->kind == ARG_INT) ? a->ints[0].value != 0 : otherwise;
}

const char *arg_text(const Lower *l, const char *name, const char *otherwise)
{
    const ExportedArg *a = arg(l, name);
    return a && a->kind == ARG_TEXT ? a->text : otherwise;
}

Err arg_ints(Lower *l, const char *name, int64_t *values, int *n)
{
    const ExportedArg *a = arg(l, name);
    *n = 0;
    if (!arg_given(l, name))
        return OK;
    if (a->n > VIEW_RANK)
        return refuse(l, "'%s' has %d numbers", name, a->n);
    for (*n = 0; *n < a->n; (*n)++)
        TRY(number_of(l, a, *n, &values[*n]));
    return OK;
}

Err arg_fill(Lower *l, const char *name, int n, int64_t otherwise, int64_t *values)
{
    int64_t list[VIEW_RANK];
    int     have;
    TRY(arg_ints(l, name, list, &have));
    for (int i = 0; i < n; i++)
        values[i] = !have ? otherwise : have == 1 ? list[0] : list[i];
    return have > 1 && have != n ? refuse(l, "'%s' has %d numbers, not %d", name, have, n) : OK;
}

Err arg_axis(Lower *l, const char *name, int rank, int64_t otherwise, int *axis)
{
    int64_t at;
    TRY(arg_int(l, name, otherwise, &at));
    at += at < 0 && at >= -rank ? rank : 0;
    if (at < 0 || at >= rank)
        return refuse(l, "axis %lld of %d", (long long)at, rank);
    *axis = (int)at;
    return OK;
}

Err arg_axes(Lower *l, const char *name, int rank, int *axes, int *n)
{
    int64_t  list[VIEW_RANK];
    uint32_t seen = 0;
    TRY(arg_ints(l, name, list, n));
    for (int i = 0; i < *n; i++) {
        int64_t at = list[i] < 0 && list[i] >= -rank ? list[i] + rank : list[i];
        if (at < 0 || at >= rank || seen >> at & 1)
            return refuse(l, "'%s' names the axis %lld of %d%s", name, (long long)list[i], rank,
                          at < 0 || at >= rank ? "" : " twice");
        seen |= 1u << at;
        axes[i] = (int)at;
    }
    return OK;
}

/* ---- fresh values: a view of something written to since is derived anew ---- */

static Err lower_call(Lower *l, const ExportedCall *call);

static Err refresh(Lower *l, int32_t value)
{
    Alias *a = &l->alias[value];
    if (a->parent < 0 || a->version == l->alias[a->root].written)
        return OK;
    TRY(refresh(l, a->parent));
    const ExportedCall *before = l->call;
    const LowerDef     *def = l->def;
    ComplexPair         parts = l->parts;
    l->parts = (ComplexPair){ 0 };
    TRY(lower_call(l, &l->program->calls[l->program->values[value].producer]));
    l->call = before;
    l->def = def;
    l->parts = parts;
    return OK;
}

static Err item_at(Lower *l, int32_t value, Operand *item)
{
    *item = item_none(l);
    if (value < 0)
        return OK;
    while (l->alias[value].same >= 0)
        value = l->alias[value].same;
    TRY(refresh(l, value));
    *item = complex_part(l, value);
    if (!item->set)
        return fail(E_FORMAT, "%s: the value '%s' is read before it is made", l->program->path,
                    l->program->values[value].name);
    return OK;
}

static Err arg_as_item(Lower *l, const ExportedArg *a, Operand *item)
{
    int64_t whole;
    switch (a->kind) {
    case ARG_VALUE: return item_at(l, a->values[0], item);
    case ARG_INT:
        TRY(sym_eval(&l->program->symbols, a->ints[0], &whole));
        *item = item_integer(l, whole);
        return OK;
    case ARG_BOOL:
        *item = item_integer(l, a->ints[0].value != 0);
        item->type = EX_BOOL;
        return OK;
    case ARG_FLOAT: *item = item_number(l, a->floats[0]); return OK;
    case ARG_COMPLEX: *item = item_number(l, a->floats[complex_part_read(l)]); return OK;
    default: *item = item_none(l); return OK;
    }
}

Err arg_item(Lower *l, const char *name, Operand *item)
{
    *item = item_none(l);
    if (!arg_given(l, name))
        return OK;
    TRY(arg_as_item(l, arg(l, name), item));
    if (arg(l, name)->kind != ARG_VALUE && arg(l, name)->kind != ARG_COMPLEX)
        *item = complex_part_of_number(l, *item);
    return OK;
}

Err arg_items(Lower *l, const char *name, Operand *items, int max, int *n)
{
    const ExportedArg *a = arg(l, name);
    *n = 0;
    if (!a || (a->kind != ARG_VALUES && a->kind != ARG_VALUE))
        return refuse(l, "'%s' is not a list of tensors", name);
    if (a->n > max)
        return refuse(l, "'%s' has %d tensors; at most %d are supported", name, a->n, max);
    for (*n = 0; *n < a->n; (*n)++) {
        TRY(item_at(l, a->values[*n], &items[*n]));
        if (!items[*n].set)
            return refuse(l, "'%s' has no tensor %d", name, *n);
    }
    return OK;
}

Err arg_view(Lower *l, const char *name, View *view)
{
    Operand item;
    TRY(arg_item(l, name, &item));
    *view = (View){ .base = tensor_none(l->graph) };
    return item.set ? item_view(l, &item, view) : refuse(l, "'%s' is missing", name);
}

Err arg_vector(Lower *l, const char *name, Tensor *t)
{
    View view;
    *t = tensor_none(l->graph);
    if (!arg_given(l, name))
        return OK;
    TRY(arg_view(l, name, &view));
    *t = view_tensor(view, NULL);
    return OK;
}

/* ---- results ---- */

/* The value that output i is; NULL: the file has none. */
static const ExportedValue *out_value(const Lower *l, int i)
{
    int32_t value = i < l->call->n_out ? l->call->out[i] : -1;
    return value >= 0 ? &l->program->values[value] : NULL;
}

Err dims_eval(Lower *l, const ExportedValue *v, Dims *dims)
{
    *dims = (Dims){ .rank = 0 };
    if (v->rank > VIEW_RANK)
        return refuse(l, "a tensor of %d axes", v->rank);
    for (int a = 0; a < v->rank; a++) {
        TRY(sym_eval(&l->program->symbols, v->size[a], &dims->at[dims->rank++]));
        if (dims->at[a] < 0)
            return refuse(l, "a size of %lld", (long long)dims->at[a]);
    }
    return dims_count(*dims) <= DIMS_MAX ? OK : refuse(l, "a tensor of more than 2^48 elements");
}

Dims out_dims(Lower *l, int i, Err *err)
{
    const ExportedValue *v = out_value(l, i);
    Dims                 dims = { 0 };
    *err = v ? dims_eval(l, v, &dims) : refuse(l, "its result %d is not in the file", i);
    return dims;
}

ExportedType out_type_of(const Lower *l, int i)
{
    const ExportedValue *v = out_value(l, i);
    return v ? type_part(v->type) : EX_F32;
}

Err give(Lower *l, int i, Operand item)
{
    if (i >= l->call->n_out || l->call->out[i] < 0)
        return OK; /* nobody reads it */
    int32_t value = l->call->out[i];
    Err     err;
    Dims    want = out_dims(l, i, &err);
    TRY(err);
    TRY(graph_check(l->graph));
    if (!item.host && !tensor_ok(item.view.base))
        return refuse(l, "a tensor that it needs is missing");
    int64_t all = item.host ? item.host->n : shape_count(tensor_shape(item.view.base));
    if (!view_within(&item.view, all))
        return refuse(l, "it reads beyond the %lld elements of a tensor", (long long)all);
    Dims have = view_dims(&item.view);
    if (l->program->values[value].rank >= 0 && !dims_same(want, have)) {
        char text[2][160] = { "", "" };
        for (int side = 0; side < 2; side++)
            for (int a = 0; a < (side ? have : want).rank; a++)
                snprintf(text[side] + strlen(text[side]), sizeof text[side] - strlen(text[side]),
                         "%s%lld", a ? "," : "", (long long)(side ? have : want).at[a]);
        return refuse(l, "its result is (%s) here, (%s) in the file", text[1], text[0]);
    }
    item.set = true;
    item.type = out_type_of(l, i);
    if (!item.host && !dims_count(have)) { /* nothing: no tensor of the graph is empty */
        HostArray *none;
        item = item_host(l, item.type, have, &none);
    }
    *complex_slot(l, value) = item;
    Alias *alias = &l->alias[value];
    *alias = (Alias){ .root = value, .parent = -1, .same = -1 };
    const ExportedArg *self = l->def && l->def->view ? &l->call->args[0] : NULL;
    if (self && self->kind == ARG_VALUE) {
        int32_t parent = self->values[0];
        while (l->alias[parent].same >= 0)
            parent = l->alias[parent].same;
        int32_t root = l->alias[parent].root;
        *alias = (Alias){ root, parent, l->alias[root].written, 0, -1 };
    }
    return OK;
}

Err give_view(Lower *l, int i, View view) { return give(l, i, (Operand){ .view = view }); }

Err give_tensor(Lower *l, int i, Tensor t, const int *order)
{
    if (i >= l->call->n_out || l->call->out[i] < 0)
        return OK;
    Err  err;
    Dims dims = out_dims(l, i, &err);
    TRY(err);
    TRY(graph_check(l->graph));
    if (shape_count(tensor_shape(t)) != dims_count(dims))
        return refuse(l, "its result has %lld elements here, %lld in the file",
                      (long long)shape_count(tensor_shape(t)), (long long)dims_count(dims));
    return give_view(l, i, view_make(t, dims, order));
}

Err refuse(const Lower *l, const char *fmt, ...)
{
    char    text[320];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!l->call) /* while known groups of calls are looked for */
        return fail(E_USAGE, "%s", text);
    return l->call->file ? fail(E_USAGE, "%s: %s (%s:%d)", l->call->target, text, l->call->file,
                                l->call->line)
                         : fail(E_USAGE, "%s: %s", l->call->target, text);
}

/* ---- the walk ---- */

static const LowerDef *const tables[] = {
    lower_pointwise, lower_views,    lower_create,   lower_products, lower_norms,  lower_attention,
    lower_reduces,   lower_indices,  lower_randoms,  lower_samples,  lower_shifts, lower_specials,
    lower_rnns,      lower_experts,  lower_losses,   lower_matrices, lower_orders, lower_bags,
    lower_linalg,    lower_composed, lower_stablehlo
};

static int by_target(const void *a, const void *b)
{
    return strcmp((*(const LowerDef *const *)a)->target, (*(const LowerDef *const *)b)->target);
}

const LowerDef *lower_find(const char *target)
{
    enum { MAX_DEFS = 1024 };
    static const LowerDef *all[MAX_DEFS];
    static int             n;
    if (!n) {
        for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
            for (const LowerDef *def = tables[t]; def->target; def++) {
                REQUIRE(n < MAX_DEFS);
                all[n++] = def;
            }
        qsort(all, (size_t)n, sizeof *all, by_target);
    }
    LowerDef        key = { .target = target };
    const LowerDef *at = &key, **found = bsearch(&at, all, (size_t)n, sizeof *all, by_target);
    return found ? *found : NULL;
}

static bool asserts_only(const char *target)
{
    return strstr(target, "_assert") || !strncmp(target, "aten.sym_constrain", 18);
}

void lower_place(Lower *l, const ExportedCall *call)
{
    Graph *graph = l->graph;
    graph->source = (Source){ call->file, call->line };
    graph->module = 0;
    if (call->module && *call->module) {
        scope_open(graph, "%s", call->module);
        graph->n_scopes--; /* stays in that module; the next call opens its own */
    }
}

/* "aten.add_.Tensor" writes what "aten.add.Tensor" gives. NULL: not such a name. */
static const LowerDef *functional_of(const char *target, bool complex)
{
    char        name[128];
    const char *dot = strrchr(target, '.');
    size_t      n = dot ? (size_t)(dot - target) : 0;
    if (n < 2 || target[n - 1] != '_' || target[n - 2] == '_' || strlen(target) >= sizeof name)
        return NULL;
    snprintf(name, sizeof name, "%.*s%s", (int)(n - 1), target, dot);
    return complex ? complex_find(name) : lower_find(name);
}

/* "aten.div.out" writes what "aten.div.Tensor" gives to its argument `out`. */
static const LowerDef *given_out_of(const char *target)
{
    static const char *const overloads[] = { "default", "Tensor" };
    char                     name[128];
    size_t                   n = strlen(target);
    const LowerDef          *def = NULL;
    if (n < 4 || n >= sizeof name - 8 || strcmp(target + n - 4, ".out") != 0)
        return NULL;
    for (int i = 0; i < 2 && !def; i++) {
        snprintf(name, sizeof name, "%.*s.%s", (int)(n - 4), target, overloads[i]);
        def = lower_find(name);
    }
    return def;
}

static const LowerDef *writing_of(const char *target, bool complex)
{
    const LowerDef *def = functional_of(target, complex);
    return def || complex ? def : given_out_of(target);
}

static const LowerDef *lower_any(const char *target)
{
    const LowerDef *def = lower_find(target);
    def = def ? def : writing_of(target, false);
    return def ? def : complex_find(target);
}

bool lower_shows_or_writes(const Lower *l, const ExportedCall *call, bool *writes)
{
    bool            complex = complex_call(l, call);
    const LowerDef *def = complex ? complex_find(call->target) : lower_find(call->target);
    *writes = !def && writing_of(call->target, complex);
    return *writes || (def && def->view);
}

/* The view of the positions 0, 1, 2... in place of its operand's elements. */
static Err viewed_positions(Lower *l, const ExportedCall *call, Dims dims, Operand *seen)
{
    HostArray *to;
    int32_t    self = call->args[0].values[0], shown = call->out[0];
    while (l->alias[self].same >= 0)
        self = l->alias[self].same;
    Operand             before = l->items[self], had = l->items[shown];
    Alias               alias = l->alias[shown];
    const ExportedCall *now = l->call;
    const LowerDef     *def = l->def;
    Operand             places = item_host(l, EX_I64, dims, &to);
    for (int64_t i = 0; i < to->n; i++)
        to->i[i] = i;
    l->items[self] = places;
    l->call = call;
    l->def = lower_find(call->target);
    Err err = l->def ? l->def->lower(l) : refuse(l, "writing through this view is not supported");
    *seen = l->items[shown];
    l->items[self] = before;
    l->items[shown] = had;
    l->alias[shown] = alias;
    l->call = now;
    l->def = def;
    return err;
}

Err lower_write_by_index(Lower *l, const ExportedCall *call, Operand whole, Operand part,
                         Operand *out)
{
    Operand    seen, flat;
    View       v;
    HostArray *mask, *from;
    Dims       dims = view_dims(&whole.view);
    int64_t    at, k = 0;
    if (!call->n_args || call->args[0].kind != ARG_VALUE || call->n_out != 1 || call->out[0] < 0 ||
        l->parts.on)
        return refuse(l, "writing through this view is not supported");
    TRY(viewed_positions(l, call, dims, &seen));
    Operand written = item_host(l, EX_BOOL, dims, &mask);
    Operand source = item_host(l, EX_I64, (Dims){ 1, { dims_count(dims) } }, &from);
    for (HostWalk w = host_walk(&seen.view); host_step(&w, &at); k++) {
        mask->i[host_i(&seen, at)] = 1;
        from->i[host_i(&seen, at)] = k;
    }
    TRY(lower_reshape(l, part, (Dims){ 1, { view_count(&part.view) } }, &flat));
    TRY(item_view(l, &flat, &v));
    View ids;
    TRY(item_view(l, &source, &ids));
    Tensor y = index_rows(view_tensor(v, NULL), 0, view_tensor(ids, NULL), -1);
    TRY(graph_check(l->graph));
    Formula f = formula(l);
    int     old = formula_input(&f, whole);
    int new = formula_input(&f, item_of(l, view_make(y, dims, NULL), part.type));
    return formula_item(&f, F3(&f, SELECT, formula_input(&f, written), new, old), whole.type, out);
}

/* Every view of what was written to shows the new elements from now on. */
static Err write_value(Lower *l, int32_t value, Operand item)
{
    while (l->alias[value].same >= 0)
        value = l->alias[value].same;
    int32_t parent = l->alias[value].parent;
    if (parent < 0) {
        item.type = l->items[value].type;
        *complex_slot(l, value) = item;
        l->alias[value].written++;
        return OK;
    }
    Operand whole, out;
    if (type_complex(l->program->values[parent].type) !=
        type_complex(l->program->values[value].type))
        return refuse(l, "writing to parts of complex numbers is not supported");
    TRY(item_at(l, parent, &whole));
    TRY(lower_write_view(l, &l->program->calls[l->program->values[value].producer], whole, item,
                         &out));
    return write_value(l, parent, out);
}

static Err written_in_place(Lower *l, const ExportedCall *call)
{
    const ExportedArg *to = arg(l, "out"), *self = to ? to : &call->args[0];
    if (self->kind != ARG_VALUE || call->n_out != 1 || call->out[0] < 0)
        return refuse(l, "this use of an operator that writes in place is not supported");
    bool complex = type_complex(l->program->values[call->out[0]].type);
    for (int part = 0; part <= complex; part++) {
        l->parts = (ComplexPair){ .on = complex, .give = part };
        Err err = write_value(l, self->values[0], *complex_slot(l, call->out[0]));
        l->parts = (ComplexPair){ 0 };
        TRY(err);
    }
    l->alias[call->out[0]].same = self->values[0];
    return OK;
}

/* ---- no_grad ---- */

static bool without_gradients(const Lower *l, const ExportedCall *call)
{
    return l->program->regions[call->region].no_grad;
}

/* Is the value read outside of no_grad? */
static bool read_with_gradients(const Lower *l, int32_t value)
{
    const Exported *p = l->program;
    for (int32_t u = l->first_use[value]; u < l->first_use[value + 1]; u++)
        if (!without_gradients(l, &p->calls[l->uses[u]]))
            return true;
    for (int32_t i = 0; i < p->n_outputs; i++)
        if (p->outputs[i].arg.kind == ARG_VALUE && p->outputs[i].arg.values[0] == value)
            return true;
    return false;
}

/* The same numbers, through which no gradient passes. `old`: what they are written over, whose
 * gradient passes unchanged, as in PyTorch; NULL: nothing. */
static Err detached(Lower *l, Operand *item, const Operand *old)
{
    ExportedType type = item->type;
    if (!item->set || item->host || !(type_floats(type) || type_complex(type)))
        return OK;
    Formula f = formula(l);
    Operand part = *item;
    part.type = type_part(type);
    int y = F1(&f, DETACH, formula_input(&f, part));
    if (old) {
        int x = formula_input(&f, *old);
        y = F2(&f, ADD, y, F2(&f, SUB, x, F1(&f, DETACH, x)));
    }
    TRY(formula_item(&f, y, part.type, &part));
    item->view = part.view;
    return OK;
}

/* May a gradient reach the value that is written to? Not a buffer nor an input. */
static bool takes_gradients(const Lower *l, int32_t value)
{
    int32_t root = l->alias[value].root;
    if (l->program->values[root].producer >= 0)
        return true;
    for (int32_t i = 0; i < l->program->n_inputs; i++)
        if (l->program->inputs[i].value == root)
            return l->program->inputs[i].kind == EX_PARAMETER;
    return false;
}

static Err detach_results(Lower *l, const ExportedCall *call, bool writes)
{
    const Operand *old = NULL;
    Operand        before;
    if (writes && call->args[0].kind == ARG_VALUE && !arg(l, "out")) {
        int32_t self = call->args[0].values[0];
        while (l->alias[self].same >= 0)
            self = l->alias[self].same;
        if (takes_gradients(l, self) && type_floats(l->program->values[self].type)) {
            TRY(item_at(l, self, &before));
            old = before.host ? NULL : &before;
        }
    }
    for (int i = 0; i < call->n_out; i++) {
        int32_t value = call->out[i];
        if (value < 0 || (!writes && !read_with_gradients(l, value)))
            continue;
        TRY(detached(l, &l->items[value], old));
        if (type_complex(l->program->values[value].type))
            TRY(detached(l, &l->imag[value], NULL));
    }
    return OK;
}

/* Nodes that were added since. */
static void note_numbers(Lower *l, uint64_t numbers)
{
    while (l->n_noted < l->graph->n_nodes)
        VEC_ADD(l->pool, l->node_numbers, l->n_noted, l->cap_noted, numbers);
}

/* Complex numbers, or such from which only these follow. */
static bool wide_results(const Lower *l, const ExportedCall *call)
{
    bool some = false;
    for (int32_t k = 0; k < call->n_out; k++) {
        int32_t v = call->out[k];
        if (v >= 0 && !type_complex(l->program->values[v].type) && !l->wide[v])
            return false;
        some |= v >= 0;
    }
    return some;
}

static Err lower_call(Lower *l, const ExportedCall *call)
{
    bool complex = complex_call(l, call);
    l->call = call;
    l->def = complex ? complex_find(call->target) : lower_find(call->target);
    bool writes = !l->def;
    if (writes)
        l->def = writing_of(call->target, complex);
    if (!l->def)
        return asserts_only(call->target) ? OK
               : complex ? refuse(l, "this operator is not supported for complex numbers")
                         : refuse(l, "this operator is not supported");
    if (!call->n_args && (writes || l->def->view))
        return refuse(l, "it has no argument");
    lower_place(l, call);
    note_numbers(l, 0);
    l->numbers = HASH_EMPTY;
    l->wide_call = wide_results(l, call);
    TRY(l->def->lower(l));
    l->wide_call = false;
    TRY(graph_check(l->graph));
    if (without_gradients(l, call))
        TRY(detach_results(l, call, writes));
    note_numbers(l, l->numbers);
    return writes ? written_in_place(l, call) : OK;
}

/* Every call that has no function, before anything is built: one line per target. */
static Err all_known(Lower *l)
{
    Text text = { 0 };
    int  kinds = 0;
    text.pool = l->pool;
    for (int32_t i = 0; i < l->program->n_calls; i++) {
        const ExportedCall *call = &l->program->calls[i];
        if (lower_any(call->target) || asserts_only(call->target))
            continue;
        int32_t count = 0;
        bool    first = true;
        for (int32_t k = 0; k < l->program->n_calls; k++)
            if (!strcmp(l->program->calls[k].target, call->target)) {
                first &= k >= i;
                count++;
            }
        if (!first)
            continue;
        kinds++;
        text_add(&text, "\n  %4d x %s", count, call->target);
        if (call->file)
            text_add(&text, ", first at %s:%d", call->file, call->line);
    }
    return kinds ? fail(E_USAGE, "%s uses %d operator%s that Plimsoll does not support:%s",
                        l->program->path, kinds, kinds > 1 ? "s" : "", text.at)
                 : OK;
}

Err lower_output(Lower *l, int32_t value, Operand *item) { return item_at(l, value, item); }

/* Counts, or lists, the calls that read each value; one that reads it twice stands there twice. */
static void count_uses(const Exported *p, int32_t *at, int32_t *uses)
{
    for (int32_t i = 0; i < p->n_calls; i++)
        for (int32_t k = 0; k < p->calls[i].n_args; k++) {
            const ExportedArg *a = &p->calls[i].args[k];
            for (int32_t j = 0; (a->kind == ARG_VALUE || a->kind == ARG_VALUES) && j < a->n; j++)
                if (a->values[j] >= 0) {
                    if (uses)
                        uses[at[a->values[j]]] = i;
                    at[a->values[j]]++;
                }
        }
}

static void index_uses(Lower *l)
{
    const Exported *p = l->program;
    int32_t        *count = NEWN(l->pool, int32_t, p->n_values + 1);
    int32_t        *first = NEWN(l->pool, int32_t, p->n_values + 1);
    count_uses(p, count, NULL);
    for (int32_t v = 0; v < p->n_values; v++) {
        first[v + 1] = first[v] + count[v];
        count[v] = first[v];
    }
    int32_t *uses = NEWN(l->pool, int32_t, first[p->n_values] + 1);
    count_uses(p, count, uses);
    l->first_use = first;
    l->uses = uses;
}

/* Products and convolutions take what they read to the precision of the graph. */
static bool multiplies(const char *target)
{
    return strstr(target, "mm") || strstr(target, "linear") || strstr(target, "conv") ||
           strstr(target, "einsum") || strstr(target, "attention");
}

static void find_wide(Lower *l)
{
    const Exported *p = l->program;
    bool           *wide = NEWN(l->pool, bool, p->n_values + 1), complex = false;
    l->wide = wide;
    for (int32_t v = 0; v < p->n_values; v++)
        complex |= type_complex(p->values[v].type);
    for (int32_t v = p->n_values - 1; complex && v >= 0; v--) /* made before they are read */
        for (int32_t u = l->first_use[v]; u < l->first_use[v + 1]; u++) {
            const ExportedCall *c = &p->calls[l->uses[u]];
            wide[v] = !multiplies(c->target) && wide_results(l, c);
            if (!wide[v])
                break;
        }
}

/* An input of the module that serves as the target of a loss that was asked for. */
static bool is_target(const Lower *l, const ExportedInput *in)
{
    const char *name = l->config->loss.target ? l->config->loss.target : "target";
    return l->config->loss.kind != IMPORT_NO_LOSS && in->name && !strcmp(in->name, name);
}

/* A parameter that no call reads, under none of its names, takes no part in a step; nor does such an
 * input. */
static bool is_idle(const Lower *l, int32_t input)
{
    const Exported      *p = l->program;
    const ExportedInput *in = &p->inputs[input];
    if ((in->kind != EX_PARAMETER && in->kind != EX_USER_INPUT) || is_target(l, in) ||
        l->first_use[in->value] < l->first_use[in->value + 1])
        return false;
    for (int32_t i = 0; i < p->n_outputs; i++)
        if (p->outputs[i].arg.kind == ARG_VALUE && p->outputs[i].arg.values[0] == in->value)
            return false;
    for (int32_t i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].tied == input && p->inputs[i].value >= 0)
            return false;
    return true;
}

static void alias_reset(Lower *l)
{
    for (int32_t i = 0; i < l->program->n_values; i++)
        l->alias[i] = (Alias){ .root = i, .parent = -1, .same = -1 };
}

static Err lower_inputs(Lower *l, const bool *needed) /* needed by value; NULL: all */
{
    const Exported *p = l->program;
    for (int32_t i = 0; i < p->n_inputs; i++) {
        const ExportedInput *in = &p->inputs[i];
        if (in->value < 0 || (needed && (!needed[in->value] || l->items[in->value].set)) ||
            is_idle(l, i))
            continue;
        Operand item;
        TRY(lower_input(l, i, &item));
        item.set = true;
        item.type = type_part(p->values[in->value].type);
        l->items[in->value] = item;
    }
    return OK;
}

/* ---- values of all slices ---- */

static bool is_random(const char *target)
{
    for (const LowerDef *def = lower_randoms; def->target; def++)
        if (lower_any(target) == def)
            return true;
    return false;
}

/* The values that one follows from, itself included, as far as calls of the file say. */
static bool *values_behind(const Lower *l, int32_t value)
{
    const Exported *p = l->program;
    bool           *needed = NEWN(l->pool, bool, p->n_values + 1);
    needed[value] = true;
    for (int32_t i = p->n_calls - 1; i >= 0; i--) {
        const ExportedCall *c = &p->calls[i];
        bool                any = false;
        for (int32_t k = 0; k < c->n_out; k++)
            any |= c->out[k] >= 0 && needed[c->out[k]];
        for (int32_t k = 0; any && k < c->n_args; k++)
            for (int32_t j = 0; c->args[k].values && j < c->args[k].n; j++)
                if (c->args[k].values[j] >= 0)
                    needed[c->args[k].values[j]] = true;
    }
    return needed;
}

bool lower_from_inputs(Lower *l, int32_t value)
{
    const Exported *p = l->program;
    if (value < 0)
        return false;
    const bool *needed = values_behind(l, value);
    for (int32_t i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].kind == EX_PARAMETER && p->inputs[i].value >= 0 &&
            needed[p->inputs[i].value])
            return false;
    for (int32_t v = 0; v < p->n_values; v++) {
        int32_t made = p->values[v].producer;
        if (needed[v] && (l->alias[l->alias[v].root].written || l->alias[v].same >= 0 ||
                          (made >= 0 && is_random(p->calls[made].target))))
            return false;
    }
    return true;
}

static Lower *lower_whole(Lower *l)
{
    if (!l->whole) {
        l->whole = NEW(l->pool, Lower);
        *l->whole = *l;
        l->whole->items = NEWN(l->pool, Operand, l->program->n_values + 1);
        l->whole->imag = NEWN(l->pool, Operand, l->program->n_values + 1);
        l->whole->alias = NEWN(l->pool, Alias, l->program->n_values + 1);
        l->whole->all = true;
        alias_reset(l->whole);
    }
    return l->whole;
}

/* What is not there yet. */
static Err lower_needed(Lower *all, const bool *needed)
{
    const Exported *p = all->program;
    TRY(lower_inputs(all, needed));
    for (int32_t i = 0; i < p->n_calls; i++) {
        bool any = false;
        for (int32_t k = 0; k < p->calls[i].n_out; k++)
            any |= p->calls[i].out[k] >= 0 && needed[p->calls[i].out[k]] &&
                   !all->items[p->calls[i].out[k]].set;
        if (any)
            TRY(lower_call(all, &p->calls[i]));
    }
    return OK;
}

Err lower_all(Lower *l, int32_t value, Operand *item)
{
    Lower  *all = lower_whole(l);
    Symbol *symbol;
    int64_t split = l->graph->build->split;
    TRY(import_symbol(l->config, &symbol));
    import_set_batch(l->config, symbol, symbol->value * split);
    Err err = lower_needed(all, values_behind(l, value));
    import_set_batch(l->config, symbol, symbol->value / split);
    if (l->call)
        lower_place(l, l->call);
    return err ? err : item_at(all, value, item);
}

/* What a loss divides by is that of the whole micro-batch; a sum's share of it. */
static Err lower_counts(Lower *l, const ExportedCall *call)
{
    const Exported *p = l->program;
    int64_t         split = l->graph->build->split;
    for (int32_t i = 0; split > 1 && i < p->n_counts; i++) {
        const SplitCount *count = &p->counts[i];
        ExportedType      type = l->items[count->value].type;
        Operand           all;
        bool              made = false;
        for (int32_t k = 0; k < call->n_out; k++)
            made |= call->out[k] == count->value;
        if (!made)
            continue;
        TRY(lower_all(l, count->value, &all));
        if (count->shared) {
            Formula f = formula(l);
            int     n = formula_float(&f, formula_input(&f, all));
            type = type_floats(type) ? type : EX_F32;
            TRY(formula_item(&f, F2(&f, MUL, n, formula_number(&f, 1 / (double)split)), type,
                             &all));
        }
        l->items[count->value] = all;
    }
    return OK;
}

/* The operator that stands for a group. Where it does not fit after all, the calls that were left
 * out are lowered first. */
static Err lower_known(Lower *l, const KnownCalls *group)
{
    const ExportedCall *root = &l->program->calls[group->root];
    bool                fits = false;
    l->call = root;
    l->def = NULL;
    lower_place(l, root);
    note_numbers(l, 0);
    l->numbers = HASH_EMPTY;
    l->wide_call = wide_results(l, root);
    TRY(group->build(l, group->with, &fits));
    l->wide_call = false;
    TRY(graph_check(l->graph));
    note_numbers(l, l->numbers);
    for (int i = 0; !fits && i < group->n; i++)
        TRY(lower_call(l, &l->program->calls[group->calls[i]]));
    return fits ? OK : lower_call(l, root);
}

/* The results of an equal earlier call. */
static Err lower_again(Lower *l, const ExportedCall *call, const ExportedCall *earlier)
{
    l->call = call;
    l->def = lower_find(call->target);
    for (int32_t i = 0; i < call->n_out; i++)
        if (call->out[i] >= 0)
            TRY(give(l, i, l->items[earlier->out[i]]));
    return OK;
}

static Err lower_next(Lower *l, const ExportedCall *call)
{
    const ExportedCall *earlier = lower_repeated(l, call);
    return earlier ? lower_again(l, call, earlier) : lower_call(l, call);
}

Err lower_program(Pool *pool, Graph *graph, const ImportConfig *config, Lower **out)
{
    Exported *program = config->program;
    Lower    *l = NEW(pool, Lower);
    *l = (Lower){ .pool = pool,
                  .graph = graph,
                  .program = program,
                  .config = config,
                  .items = NEWN(pool, Operand, program->n_values + 1),
                  .imag = NEWN(pool, Operand, program->n_values + 1),
                  .alias = NEWN(pool, Alias, program->n_values + 1) };
    *out = l;
    alias_reset(l);
    index_uses(l);
    find_wide(l);
    TRY(all_known(l));
    kept_find(l);
    TRY(lower_inputs(l, NULL));
    KnownCalls **known = known_find(l);
    for (int32_t i = 0; i < program->n_calls; i++) {
        if (known[i] && known[i]->root != i)
            continue;
        TRY(known[i] ? lower_known(l, known[i]) : lower_next(l, &program->calls[i]));
        TRY(lower_counts(l, &program->calls[i]));
    }
    return kept_store(l);
}
