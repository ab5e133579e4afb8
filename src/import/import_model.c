/* import_model.c -- inputs, parameters, buffers and the loss of an imported program. */
#include "import/import_model.h"

#include "base/checksum.h"
#include "base/file.h"
#include "base/hash.h"
#include "import/exported_int.h"
#include "import/lower.h"
#include "ops/elementwise/basic.h"
#include "ops/elementwise/unary.h"
#include "ops/loss/loss.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- parameters ---- */

static void init_from_file(float *data, Shape shape, uint64_t seed, const void *arg)
{
    const ExportedWeight *w = arg;
    (void)shape, (void)seed;
    weight_floats(w, data);
}

/* A file without contents: as layers usually start. */
static Init init_drawn(const char *name, Shape disk, bool jax)
{
    double fan_in = 1;
    for (int a = 1; a < disk.rank; a++) /* (out, in...) of PyTorch, (in..., out) of Flax */
        fan_in *= (double)disk.dim[jax ? a - 1 : a];
    size_t n = strlen(name);
    bool   weight = (n >= 6 && !strcmp(name + n - 6, "weight")) ||
                  (jax && n >= 5 && !strcmp(name + n - 5, "scale"));
    if (disk.rank > 1)
        return (Init){ .kind = INIT_NORMAL, .scale = (float)(1 / sqrt(fan_in)) };
    return (Init){ .kind = weight ? INIT_ONES : INIT_ZEROS };
}

static bool matches(const Texts *patterns, const char *name)
{
    for (int i = 0; i < patterns->n; i++)
        if (!fnmatch(patterns->at[i], name, 0))
            return true;
    return false;
}

/* A pattern that names no parameter is a mistake: what it was to freeze would be trained. */
static Err patterns_match(const Exported *p, const char *key, const Texts *patterns)
{
    for (int i = 0; i < patterns->n; i++) {
        const char *last = NULL;
        bool        some = false;
        for (int32_t k = 0; k < p->n_inputs && !some; k++) {
            if (p->inputs[k].kind != EX_PARAMETER)
                continue;
            last = p->inputs[k].name;
            some = !fnmatch(patterns->at[i], last, 0);
        }
        if (!some)
            return fail(E_USAGE,
                        "model.%s: no parameter's name matches '%s'%s%s; * stands for any letters",
                        key, patterns->at[i], last ? ", one of them is " : "", last ? last : "");
    }
    return OK;
}

/* Is the value the weight of convolutions, and nothing else? Then it is kept as they read it. */
static bool conv_weight(const Lower *l, int32_t value)
{
    bool conv = false;
    for (int32_t i = l->first_use[value]; i < l->first_use[value + 1]; i++) {
        const ExportedCall *c = &l->program->calls[l->uses[i]];
        for (int32_t k = 0; k < c->n_args; k++) {
            const ExportedArg *a = &c->args[k];
            for (int32_t j = 0; (a->kind == ARG_VALUE || a->kind == ARG_VALUES) && j < a->n; j++) {
                if (a->values[j] != value)
                    continue;
                if (strncmp(c->target, "aten.conv", 9) || strcmp(a->name, "weight"))
                    return false;
                conv = true;
            }
        }
    }
    return conv;
}

/* A complex tensor is kept as pairs, under one more axis: its parts are views. */
static void give_pairs(Lower *l, int32_t value, View pairs, Operand *item)
{
    int          last = pairs.rank - 1;
    ExportedType type = type_part(l->program->values[value].type);
    *item = item_of(l, view_selected(pairs, last, 0), type);
    l->imag[value] = item_of(l, view_selected(pairs, last, 1), type);
}

static Err add_parameter(Lower *l, const ExportedInput *in, Operand *item)
{
    const ExportedValue  *v = &l->program->values[in->value];
    const ExportedWeight *w = exported_weight(l->program, in->name);
    Dims                  dims = { .rank = v->rank };
    int                   order[VIEW_RANK];
    if (in->tied >= 0 && l->items[l->program->inputs[in->tied].value].set) {
        *item = l->items[l->program->inputs[in->tied].value];
        l->imag[in->value] = l->imag[l->program->inputs[in->tied].value];
        return OK;
    }
    bool complex = type_complex(v->type);
    if (!type_floats(v->type) && !complex)
        return fail(E_USAGE,
                    "%s: the parameter %s has elements of type %s; only floating ones are "
                    "supported",
                    l->program->path, in->name, exported_type_name(v->type));
    if (v->rank + complex > MAX_RANK)
        return fail(E_USAGE, "%s: the parameter %s has %d axes; at most %d are supported",
                    l->program->path, in->name, v->rank, MAX_RANK - complex);
    for (int a = 0; a < v->rank; a++) {
        TRY(sym_eval(&l->program->symbols, v->size[a], &dims.at[a]));
        order[a] = a;
    }
    if (complex)
        dims.at[dims.rank++] = 2;
    bool conv = v->rank >= 3 && conv_weight(l, in->value);
    for (int a = 0; conv && a < v->rank; a++) /* (O,I,k...) is kept as (k...,I,O) */
        order[a] = a < v->rank - 2 ? a + 2 : v->rank - 1 - a;
    Shape       disk = view_shape(dims, NULL);
    Init        init = w && w->storage && l->config->weights == IMPORT_OF_FILE
                           ? (Init){ .kind = INIT_CUSTOM, .custom = init_from_file, .arg = w }
                           : init_drawn(in->name, disk, l->program->jax);
    const char *dot = strrchr(in->name, '.');
    l->graph->module = 0;
    l->graph->source = (Source){ 0 };
    if (dot) {
        scope_open(l->graph, "%.*s", (int)(dot - in->name), in->name);
        l->graph->n_scopes--;
    }
    const char *last = dot ? dot + 1 : in->name;
    bool        wide = complex || l->wide[in->value];
    Tensor      t = conv   ? param_add_permuted(l->graph, last, disk, order, init)
                    : wide ? param_add_f32(l->graph, last, disk, init)
                           : param_add(l->graph, last, disk, init);
    TRY(graph_check(l->graph));
    Param *param = param_of(l->graph, t.id);
    if (param) {
        bool chosen = !l->config->train.n || matches(&l->config->train, in->name);
        param->frozen = !v->requires_grad || !chosen || matches(&l->config->freeze, in->name);
    }
    View view = view_make(t, dims, conv ? order : NULL);
    if (complex)
        give_pairs(l, in->value, view, item);
    else
        *item = item_of(l, view, v->type);
    return l->kept[in->value] == TENSOR_NONE ? OK : kept_begin(l, in, item);
}

/* ---- buffers and constants ---- */

bool lower_is_statistic(const Lower *l, int32_t value)
{
    for (int32_t i = l->first_use[value]; i < l->first_use[value + 1]; i++) {
        const ExportedCall *c = &l->program->calls[l->uses[i]];
        if (strncmp(c->target, "aten.batch_norm", 15) &&
            strncmp(c->target, "aten._native_batch_norm", 23))
            continue;
        for (int32_t k = 0; k < c->n_args; k++)
            if (c->args[k].kind == ARG_VALUE && c->args[k].values[0] == value)
                return true;
    }
    return false;
}

static Err add_constant(Lower *l, const ExportedInput *in, Operand *item)
{
    const ExportedValue  *v = &l->program->values[in->value];
    const ExportedWeight *w = exported_weight(l->program, in->name);
    Dims                  dims = { .rank = v->rank };
    HostArray            *array, *imag = NULL;
    if ((!type_supported(v->type) && !type_complex(v->type)) || v->rank > VIEW_RANK)
        return fail(E_USAGE, "%s: the buffer %s has elements of type %s, which is not supported",
                    l->program->path, in->name, exported_type_name(v->type));
    for (int a = 0; a < v->rank; a++)
        TRY(sym_eval(&l->program->symbols, v->size[a], &dims.at[a]));
    if (l->kept[in->value] != TENSOR_NONE)
        return kept_buffer(l, in, dims, item);
    if (lower_is_statistic(l, in->value)) {
        Shape  shape = view_shape(dims, NULL);
        float *start = NEWN(l->graph->pool, float, dims_count(dims) + 1);
        if (w && w->storage)
            weight_floats(w, start);
        l->graph->module = 0;
        Tensor t = state_add_from(l->graph, in->name, F32, shape, start, CLASS_CONSTANTS, true);
        *item = item_of(l, view_make(t, dims, NULL), v->type);
        return graph_check(l->graph);
    }
    *item = item_host(l, type_part(v->type), dims, &array);
    if (type_complex(v->type))
        l->imag[in->value] = item_host(l, type_part(v->type), dims, &imag);
    if (w && w->storage && w->rank == v->rank && type_complex(w->type) == type_complex(v->type))
        weight_arrays(w, array, imag);
    return OK;
}

static Err import_batch(const void *of, int64_t *batch);

/* Another symbol that the input's axis 0 is, with the batch's size in the file: inputs that the
 * program never relates to each other have symbols of their own, and still count the same samples. */
static Symbol *batch_twin(const Exported *p, const ExportedInput *in, const Symbol *symbol)
{
    const ExportedValue *v = in->value >= 0 ? &p->values[in->value] : NULL;
    int64_t              rows;
    if (in->kind != EX_USER_INPUT || !v || v->rank < 1 || !v->size[0].expr || !symbol->known)
        return NULL;
    for (int32_t i = 0; i < p->symbols.n; i++) {
        Symbol *s = &p->symbols.list[i];
        if (s != symbol && s->known && s->hint == symbol->hint &&
            sym_uses(&p->symbols, v->size[0], s))
            return !sym_eval(&p->symbols, v->size[0], &rows) && rows == s->value ? s : NULL;
    }
    return NULL;
}

void import_set_batch(const ImportConfig *config, Symbol *symbol, int64_t batch)
{
    const Exported *p = config->program;
    for (int32_t i = 0; i < p->n_inputs && !config->batch; i++) {
        Symbol *twin = batch_twin(p, &p->inputs[i], symbol);
        if (twin)
            twin->value = batch;
    }
    symbol->value = batch;
}

/* Is the input one tensor for all samples? Where the batch size is a symbol, its first axis then
 * does not depend on it. */
static Err input_whole(const ImportConfig *config, const ExportedInput *in, Dims dims, bool *whole)
{
    const Exported      *p = config->program;
    const ExportedValue *v = &p->values[in->value];
    Symbol              *symbol;
    int64_t              batch;
    TRY(import_symbol(config, &symbol));
    TRY(import_batch(config, &batch));
    batch = symbol ? symbol->value : batch;
    *whole = !dims.rank || dims.at[0] != batch ||
             (symbol && !sym_uses(&p->symbols, v->size[0], symbol) && !batch_twin(p, in, symbol));
    return OK;
}

/* The input's samples before the split. */
static void feed_all(FeedAttr *attr)
{
    memcpy(attr->all_of, attr->name, sizeof attr->all_of);
    snprintf(attr->name, sizeof attr->name, "%.40s (all)", attr->all_of);
}

static Err add_feed(Lower *l, const ExportedInput *in, Operand *item)
{
    const ExportedValue *v = &l->program->values[in->value];
    Dims                 dims = { .rank = v->rank };
    bool                 complex = v->type == EX_C64;
    if ((!type_supported(v->type) && !complex) || v->type == EX_F64)
        return fail(E_USAGE, "%s: the input %s has elements of type %s, which is not supported",
                    l->program->path, in->name, exported_type_name(v->type));
    for (int a = 0; a < v->rank; a++)
        TRY(sym_eval(&l->program->symbols, v->size[a], &dims.at[a]));
    if (complex)
        dims.at[dims.rank++] = 2; /* given as torch.view_as_real shows it */
    Type     type = type_floats(v->type) || complex          ? F32
                    : v->type == EX_U8 || v->type == EX_BOOL ? U8
                                                             : I32;
    FeedAttr attr = { .type = type, .shape = view_shape(dims, NULL) };
    if (strlen(in->name) >= sizeof attr.name)
        return fail(E_USAGE,
                    "%s: the input %s has a name of more than %zu letters; give it a shorter one",
                    l->program->path, in->name, sizeof attr.name - 1);
    snprintf(attr.name, sizeof attr.name, "%s", in->name);
    attr.below = input_below(l, in->value);
    TRY(input_whole(l->config, in, dims, &attr.whole));
    if (l->all && !attr.whole)
        feed_all(&attr);
    l->graph->module = 0;
    Tensor t = feed_as(l->graph, &attr);
    if (complex)
        give_pairs(l, in->value, view_make(t, dims, NULL), item);
    else
        *item = item_of(l, view_make(t, dims, NULL), v->type);
    return graph_check(l->graph);
}

Err lower_input(Lower *l, int32_t input, Operand *item)
{
    const ExportedInput *in = &l->program->inputs[input];
    switch (in->kind) {
    case EX_USER_INPUT: return add_feed(l, in, item);
    case EX_PARAMETER: return add_parameter(l, in, item);
    case EX_BUFFER:
    case EX_CONSTANT: return add_constant(l, in, item);
    default:
        return fail(E_USAGE, "%s: the input '%s' is of a kind that is not supported",
                    l->program->path, in->name ? in->name : "?");
    }
}

/* ---- the batch ---- */

static const ExportedValue *first_input(const Exported *p)
{
    for (int32_t i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].kind == EX_USER_INPUT && p->inputs[i].value >= 0 &&
            p->values[p->inputs[i].value].rank > 0)
            return &p->values[p->inputs[i].value];
    return NULL;
}

/* The symbol that the batch size is; NULL: the file fixes it. */
Err import_symbol(const ImportConfig *config, Symbol **symbol)
{
    const Exported      *p = config->program;
    const ExportedValue *first = first_input(p);
    *symbol = NULL;
    if (config->batch) {
        *symbol = symbol_find(&p->symbols, config->batch);
        return *symbol ? OK : fail(E_USAGE, "batch: %s has no symbol '%s'", p->path, config->batch);
    }
    if (!first || !first->size[0].expr)
        return OK;
    /* The symbol that axis 0 consists of: the one whose value changes it. */
    for (int32_t i = 0; i < p->symbols.n; i++) {
        Symbol *s = &p->symbols.list[i];
        int64_t before, after, value = s->value;
        TRY(sym_eval(&p->symbols, first->size[0], &before));
        s->value = value + 1;
        Err err = sym_eval(&p->symbols, first->size[0], &after);
        s->value = value;
        TRY(err);
        if (after != before) {
            *symbol = s;
            return OK;
        }
    }
    return OK;
}

static Err import_batch(const void *of, int64_t *batch)
{
    const ImportConfig  *config = of;
    const ExportedValue *first = first_input(config->program);
    *batch = first ? first->size[0].value : 1;
    return OK;
}

/* Beyond this a program's own tables of the batch, which are made on the host, take long. */
enum { IMPORT_MAX_BATCH = 4096 };

static int64_t import_max_batch(const void *of)
{
    const ImportConfig *config = of;
    Symbol             *symbol = NULL;
    int64_t             made = 1;
    if (import_symbol(config, &symbol) || import_batch(config, &made))
        return 1;
    return !symbol ? made : symbol->high < IMPORT_MAX_BATCH ? symbol->high : IMPORT_MAX_BATCH;
}

static Err set_batch(const ImportConfig *config, int64_t batch)
{
    Symbol *symbol;
    int64_t made;
    TRY(import_symbol(config, &symbol));
    TRY(import_batch(config, &made));
    if (!symbol && batch != made && config->program->jax)
        return fail(E_USAGE,
                    "batch: %s was lowered for exactly %lld samples, not %lld; lower the loss "
                    "again with arrays of %lld samples",
                    config->program->path, (long long)made, (long long)batch, (long long)batch);
    if (!symbol)
        return batch == made
                   ? OK
                   : fail(
                         E_USAGE,
                         "batch: %s was exported for exactly %lld samples, not %lld; export it "
                         "with "
                         "a free batch size:\n"
                         "    batch = torch.export.Dim.DYNAMIC\n"
                         "    shapes = tuple({0: batch} for x in inputs)\n"
                         "    program = torch.export.export(model, inputs, dynamic_shapes=shapes)\n"
                         "    torch.export.save(program, \"model.pt2\")",
                         config->program->path, (long long)made, (long long)batch);
    /* torch.export never proves a size of 1: a lower bound of 2 stands for 1 too. */
    int64_t low = symbol->low <= 2 ? 1 : symbol->low;
    if (batch < low || batch > symbol->high)
        return fail(E_USAGE, "batch: %s allows %lld to %lld samples, not %lld",
                    config->program->path, (long long)low, (long long)symbol->high,
                    (long long)batch);
    import_set_batch(config, symbol, batch);
    return OK;
}

/* ---- the loss ---- */

static Err output_named(Lower *l, const char *name, bool floating, Operand *item)
{
    const Exported *p = l->program;
    int             k = 0;
    for (int32_t i = 0; i < p->n_outputs; i++) {
        const ExportedOutput *out = &p->outputs[i];
        if ((out->kind != EX_USER_OUTPUT && out->kind != EX_LOSS_OUTPUT) ||
            out->arg.kind != ARG_VALUE)
            continue;
        const ExportedValue *v = &p->values[out->arg.values[0]];
        char                *end;
        bool                 found = !name || !strcmp(name, v->name) ||
                     (strtol(name, &end, 10) == k && !*end && *name);
        k++;
        if (!found || (floating && !name && !type_floats(v->type)))
            continue;
        return lower_output(l, out->arg.values[0], item);
    }
    Text list = { .pool = l->pool, .at = "" };
    for (int32_t i = k = 0; i < p->n_outputs; i++)
        if ((p->outputs[i].kind == EX_USER_OUTPUT || p->outputs[i].kind == EX_LOSS_OUTPUT) &&
            p->outputs[i].arg.kind == ARG_VALUE) {
            text_add(&list, "%s%d: %s", k ? ", " : "", k,
                     p->values[p->outputs[i].arg.values[0]].name);
            k++;
        }
    return name ? fail(E_USAGE, "loss: %s has no output '%s'; its outputs are %s", p->path, name,
                       list.at)
                : fail(E_USAGE, "loss: %s has no floating output; its outputs are %s", p->path,
                       list.at);
}

static Err target_of(Lower *l, const ImportConfig *config, const Operand *output, Operand *target,
                     int32_t *value)
{
    *value = -1;
    const char     *name = config->loss.target ? config->loss.target : "target";
    const Exported *p = l->program;
    for (int32_t i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].kind == EX_USER_INPUT && p->inputs[i].name &&
            !strcmp(p->inputs[i].name, name)) {
            *value = p->inputs[i].value;
            return lower_output(l, p->inputs[i].value, target);
        }
    Dims dims = view_dims(&output->view);
    bool classes = config->loss.kind == IMPORT_CROSS_ENTROPY;
    if (classes) { /* the class axis, 1, is left out */
        for (int a = 1; a + 1 < dims.rank; a++)
            dims.at[a] = dims.at[a + 1];
        dims.rank--;
    }
    int64_t split = l->graph->build->split;
    Dims    of = view_dims(&output->view);
    if (l->all && dims.rank)
        dims.at[0] *= split;
    FeedAttr attr = { .type = classes ? I32 : F32, .shape = view_shape(dims, NULL) };
    snprintf(attr.name, sizeof attr.name, "%s", name);
    attr.below = classes && of.rank > 1 ? (int32_t)of.at[1] : 0;
    attr.whole = !dims.rank;
    if (l->all && !attr.whole)
        feed_all(&attr);
    Tensor t = feed_as(l->graph, &attr);
    *target = item_of(l, view_make(t, dims, NULL), classes ? EX_I64 : EX_F32);
    return graph_check(l->graph);
}

/* The targets of all slices, where they are an input that the file has not. */
static Err asked_count(Lower *l, const ImportConfig *config, const Operand *output, Operand target,
                       int32_t value, Tensor *count)
{
    Operand all;
    if (value >= 0 || l->graph->build->split <= 1)
        return lower_target_count(l, target, value, LOSS_IGNORE, count);
    l->all = true;
    Err err = target_of(l, config, output, &all, &value);
    l->all = false;
    TRY(err);
    return target_count(l, all, LOSS_IGNORE, count);
}

static Err asked_loss(Lower *l, const ImportConfig *config, float scale, Tensor *loss)
{
    Operand output, target;
    View    x, t;
    int32_t value;
    TRY(output_named(l, config->loss.output, true, &output));
    TRY(target_of(l, config, &output, &target, &value));
    TRY(item_view(l, &output, &x));
    TRY(item_view(l, &target, &t));
    if (config->loss.kind == IMPORT_CROSS_ENTROPY) {
        int order[VIEW_RANK];
        if (x.rank < 2)
            return fail(E_USAGE, "loss: cross-entropy needs an output with a class axis");
        order_channels_last(x.rank, order);
        int64_t n = view_count(&x) / x.dim[1];
        Tensor  count;
        TRY(asked_count(l, config, &output, target, value, &count));
        *loss = cross_entropy(view_tensor_as(x, order, SHAPE(n, x.dim[1])),
                              view_tensor_as(t, NULL, SHAPE(n)), count, scale);
        return graph_check(l->graph);
    }
    int order[VIEW_RANK];
    view_order(&x, order);
    Tensor a = view_tensor(x, order), b = view_tensor(t, order);
    *loss = config->loss.kind == IMPORT_MSE ? mse_loss(a, b, scale) : l1_loss(a, b, scale);
    return graph_check(l->graph);
}

static Err own_loss(Lower *l, float scale, Tensor *loss)
{
    Operand item;
    View    v;
    TRY(output_named(l, NULL, false, &item));
    if (view_count(&item.view) != 1 || !type_floats(item.type) || item.host)
        return fail(E_USAGE,
                    "loss: the first output of %s is no scalar loss; name one with --loss mse, l1 "
                    "or cross-entropy, or export a module that returns its loss",
                    l->program->path);
    TRY(item_view(l, &item, &v));
    Tensor t = cast(view_tensor_as(v, NULL, SHAPE(1)), F32);
    *loss = scale == 1 ? t : affine(t, scale, 0);
    return graph_check(l->graph);
}

/* Constants are folded in double; what depends on data or parameters is computed in fp32. */
static void note_narrowed(const Lower *l)
{
    Exported *p = l->program;
    p->n_narrowed = 0;
    p->narrowed = NULL;
    for (int32_t i = 0; i < p->n_values; i++) {
        int32_t made = p->values[i].producer;
        if (made < 0 || p->values[i].type != EX_F64 || !l->items[i].set || l->items[i].host)
            continue;
        p->n_narrowed++;
        if (!p->narrowed || p->calls[made].ordinal < p->narrowed->ordinal)
            p->narrowed = &p->calls[made];
    }
}

static const char *import_note(Pool *pool, const void *config)
{
    const Exported *p = ((const ImportConfig *)config)->program;
    if (!p || !p->n_narrowed)
        return NULL;
    return pool_print(
        pool, "computed in fp32 instead of float64: %d tensor%s, the first in %s%s%s",
        p->n_narrowed, p->n_narrowed == 1 ? "" : "s", p->narrowed->target,
        p->narrowed->file ? " at " : "",
        p->narrowed->file ? pool_print(pool, "%s:%d", p->narrowed->file, p->narrowed->line) : "");
}

static const SplitProof *import_proof(const ImportConfig *config);

static Err import_build(Graph *graph, const ImportConfig *config, int64_t batch, int64_t share,
                        Lower **lowered, Tensor *loss)
{
    Lower *l;
    double slices = graph->build->split > 1 ? (double)graph->build->split : 1;
    if (!config->program)
        return fail(E_USAGE, "file: name the model, a file of torch.export.save (.pt2)");
    /* A sum over samples is that of the slices; a mean is the mean of theirs. */
    float scale = (float)((slices > 1 && import_proof(config)->sum ? slices : 1) / (double)share);
    TRY(patterns_match(config->program, "train", &config->train));
    TRY(patterns_match(config->program, "freeze", &config->freeze));
    TRY(set_batch(config, batch));
    config->program->n_drawn = 0;
    config->program->uncounted = NULL;
    config->program->own_count = -1;
    TRY(lower_program(graph->pool, graph, config, &l));
    *lowered = l;
    note_narrowed(l);
    lower_place(l, &(ExportedCall){ .module = "" });
    TRY(config->loss.kind == IMPORT_NO_LOSS ? own_loss(l, scale, loss)
                                            : asked_loss(l, config, scale, loss));
    graph->module = 0;
    return OK;
}

static Tensor import_loss(Graph *graph, const void *config, int64_t batch, int64_t share)
{
    Tensor loss;
    Lower *unused;
    Err    err = import_build(graph, config, batch, share, &unused, &loss);
    return err ? graph_poison(graph, err, "%s", err_text()) : loss;
}

/* The layout of a tensor, in whose order its elements are numbered, is known when it is built. */
static Err import_drawn(Pool *pool, const void *config, int64_t batch, const Drawn **list,
                        int32_t *n)
{
    Tensor loss;
    Lower *unused;
    Graph *graph = graph_new(pool, F32);
    TRY(import_build(graph, config, batch, 1, &unused, &loss));
    *list = ((const ImportConfig *)config)->program->drawn;
    *n = ((const ImportConfig *)config)->program->n_drawn;
    return OK;
}

/* ---- the file ---- */

static Err file_hash(Pool *pool, const char *path, const char **hash)
{
    Pool    *work = pool_new(pool, "hash");
    Checksum sum = checksum_begin();
    MapFile  map;
    TRY(file_map(work, path, &map));
    checksum_add(&sum, map.bytes, map.n);
    *hash = pool_print(pool, "%016llx", (unsigned long long)checksum_end(&sum));
    pool_free(work);
    return OK;
}

static Err import_open(Pool *pool, const char *recipe, void *config)
{
    ImportConfig *c = config;
    char          folder[FILE_PATH_MAX];
    const char   *hash;
    if (!c->file)
        return fail(E_USAGE, "model.file: name the model, a file of torch.export.save (.pt2)");
    if (c->program && !strcmp(c->program->path, c->file))
        return OK;
    if (!file_exists(c->file)) { /* a run or recipe may have been moved together with its model */
        const char *name = strrchr(c->file, '/') ? strrchr(c->file, '/') + 1 : c->file;
        file_folder(recipe, folder, sizeof folder);
        const char *beside = pool_print(pool, "%s/%s", folder, c->file[0] == '/' ? name : c->file);
        if (!file_exists(beside))
            return fail(E_IO,
                        "model.file: there is no file %s; export the model with torch.export.save, "
                        "or say where it is with --set model.file=PATH",
                        c->file);
        c->file = beside;
    }
    if (c->hash) {
        TRY(file_hash(pool, c->file, &hash));
        if (strcmp(hash, c->hash) != 0)
            return fail(E_USAGE,
                        "model.file: %s has changed since this run was begun (its XXH64 is %s, and "
                        "was %s); put the old file back, or start another run with --init",
                        c->file, hash, c->hash);
    }
    return hlo_is_file(c->file) ? hlo_read(pool, c->file, &c->program)
                                : exported_read(pool, c->file, &c->program);
}

static Err import_seal(Pool *pool, void *config)
{
    ImportConfig *c = config;
    char          whole[FILE_PATH_MAX];
    if (c->file[0] != '/' && realpath(c->file, whole))
        c->file = pool_text(pool, whole);
    return c->hash ? OK : file_hash(pool, c->file, &c->hash);
}

/* ---- splitting a micro-batch ---- */

static Err proof_side(Pool *pool, const ImportConfig *config, int64_t batch, Lower **lowered,
                      SplitSide *side)
{
    *side = (SplitSide){ .graph = graph_new(pool, F32), .batch = batch };
    TRY(import_build(side->graph, config, batch, 1, lowered, &side->loss));
    side->numbers = (*lowered)->node_numbers;
    side->n_numbers = (*lowered)->n_noted;
    return graph_check(side->graph);
}

/* The program's value that is this tensor, whole. */
static int32_t value_of_tensor(const Lower *l, int32_t tensor)
{
    for (int32_t v = 0; v < l->program->n_values; v++) {
        const Operand *item = &l->items[v];
        if (item->set && !item->host && item->view.base.id == tensor &&
            view_count(&item->view) == shape_count(tensor_shape(item->view.base)) &&
            l->program->values[v].producer >= 0)
            return v;
    }
    return -1;
}

/* Counts as values of the program; false: one of them is none, or is not known from the inputs. */
static bool proof_counts(Lower *l, const SplitProof *proof)
{
    Exported *p = l->program;
    p->n_counts = 0;
    for (int32_t i = 0; i < proof->n_counts; i++) {
        SplitCount count = proof->counts[i];
        if (count.value == p->own_count)
            continue;
        count.value = value_of_tensor(l, count.value);
        if (count.value < 0 || !lower_from_inputs(l, count.value))
            return false;
        VEC_ADD(p->pool, p->counts, p->n_counts, p->cap_counts, count);
    }
    return true;
}

static SplitProof prove_split(Pool *pool, const ImportConfig *config)
{
    /* Coprime where the program allows it, so that no other size is mistaken for the batch's. */
    static const int64_t sizes[][2] = {
        { 3, 5 }, { 4, 7 }, { 4, 6 }, { 4, 8 }, { 8, 16 }, { 2, 3 }
    };
    const Exported *p = config->program;
    SplitSide       side[2];
    Lower          *l;
    Symbol         *symbol;
    if (import_symbol(config, &symbol) || !symbol)
        return (SplitProof){ .why = "the file fixes its batch size" };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (proof_side(pool, config, sizes[i][0], &l, &side[0]) ||
            proof_side(pool, config, sizes[i][1], &l, &side[1]))
            continue;
        SplitProof proof = split_prove(pool, side);
        if (!proof.why && kept_first(l))
            proof.why = pool_print(pool, "it writes %s in every step", kept_first(l));
        if (!proof.why && p->uncounted)
            proof.why = pool_print(
                pool, "%s at %s:%d counts targets that do not follow from the inputs alone",
                p->uncounted->target, p->uncounted->file ? p->uncounted->file : "?",
                p->uncounted->line);
        if (!proof.why && !proof_counts(l, &proof))
            proof.why = "it divides by a sum that does not follow from the inputs alone";
        return proof;
    }
    return (SplitProof){ .why = pool_print(pool, "it cannot be read for small batch sizes: %s",
                                           err_text()) };
}

/* Once for a file: its loss does not change within a run of the program. */
static const SplitProof *import_proof(const ImportConfig *config)
{
    Exported *p = config->program;
    if (p->split_tried)
        return &p->split;
    Pool               *pool = pool_new(NULL, "proof");
    Symbol             *symbol = NULL;
    int64_t             value = 0;
    int32_t             n_narrowed = p->n_narrowed, n_drawn = p->n_drawn, cap = p->cap_drawn;
    const ExportedCall *narrowed = p->narrowed;
    Drawn              *drawn = p->drawn;
    if (!import_symbol(config, &symbol) && symbol)
        value = symbol->value;
    p->drawn = NULL, p->n_drawn = p->cap_drawn = 0;
    p->split = prove_split(pool, config);
    p->split_tried = true;
    if (p->split.why)
        p->split.why = pool_print(p->pool,
                                  "its loss is not proved to be a mean or a sum over samples, "
                                  "because %s",
                                  p->split.why);
    if (symbol)
        import_set_batch(config, symbol, value);
    p->n_narrowed = n_narrowed, p->narrowed = narrowed;
    p->drawn = drawn, p->n_drawn = n_drawn, p->cap_drawn = cap;
    pool_free(pool);
    return &p->split;
}

static const char *import_no_split(const void *config) { return import_proof(config)->why; }

/* ---- the state dict ---- */

static bool safe_type_of_exported(ExportedType type, SafeType *safe)
{
    switch (type) {
    case EX_U8: *safe = SAFE_U8; return true;
    case EX_I8: *safe = SAFE_I8; return true;
    case EX_I16: *safe = SAFE_I16; return true;
    case EX_I32: *safe = SAFE_I32; return true;
    case EX_I64: *safe = SAFE_I64; return true;
    case EX_F16: *safe = SAFE_F16; return true;
    case EX_F32: *safe = SAFE_F32; return true;
    case EX_F64: *safe = SAFE_F64; return true;
    case EX_BOOL: *safe = SAFE_BOOL; return true;
    case EX_BF16: *safe = SAFE_BF16; return true;
    default: return false;
    }
}

static bool name_ends_in(const char *name, const char *ending)
{
    size_t n = strlen(name), m = strlen(ending);
    return n >= m && !strcmp(name + n - m, ending);
}

static Err import_others(Pool *pool, const void *config, OtherTensor **list, int32_t *n)
{
    const Exported *p = ((const ImportConfig *)config)->program;
    int32_t         cap = 0;
    *list = NULL;
    *n = 0;
    for (int32_t i = 0; i < p->n_inputs; i++) {
        const ExportedInput *in = &p->inputs[i];
        if (in->kind != EX_PARAMETER && !(in->kind == EX_BUFFER && in->persistent))
            continue;
        const ExportedWeight *w = exported_weight(p, in->name);
        OtherTensor           other = { .tensor = { .name = in->name } };
        if (in->kind == EX_PARAMETER && in->tied >= 0)
            other.same_as = p->inputs[in->tied].name;
        if (w && w->storage && safe_type_of_exported(w->type, &other.tensor.type)) {
            other.tensor.rank = w->rank;
            other.tensor.shape = w->size;
            other.tensor.data = exported_elements(pool, w);
            other.tensor.n_bytes = safe_type_bytes(other.tensor.type);
            for (int a = 0; a < w->rank; a++)
                other.tensor.n_bytes *= (size_t)w->size[a];
            other.counts = w->type == EX_I64 && other.tensor.n_bytes == 8 &&
                           name_ends_in(in->name, "num_batches_tracked");
        }
        VEC_ADD(pool, *list, *n, cap, other);
    }
    return OK;
}

static const char *const loss_kinds[] = { "none", "mse", "l1", "cross-entropy", NULL };

static const Field loss_fields[] = {
    { "kind", FIELD_CHOICE, offsetof(ImportConfig, loss.kind) - offsetof(ImportConfig, loss), 0, 0,
      loss_kinds, NULL, "none: the program's first output is the loss" },
    { "output", FIELD_TEXT, offsetof(ImportConfig, loss.output) - offsetof(ImportConfig, loss), 0,
      0, NULL, NULL, "name or number of the output; default: the first floating one" },
    { "target", FIELD_TEXT, offsetof(ImportConfig, loss.target) - offsetof(ImportConfig, loss), 0,
      0, NULL, NULL, "the input that holds the target; default: a new one, target" },
    { 0 }
};

static const char *const weights_kinds[] = { "file", "drawn", NULL };

static const Field import_fields[] = {
    { "file", FIELD_TEXT, offsetof(ImportConfig, file), 0, 0, NULL, NULL,
      "the model: a file of torch.export.save" },
    { "loss", FIELD_GROUP, offsetof(ImportConfig, loss), 0, 0, NULL, loss_fields,
      "the loss, if the program does not return one" },
    { "train", FIELD_TEXTS, offsetof(ImportConfig, train), 0, 0, NULL, NULL,
      "patterns of the parameters to train; default: all that require gradients" },
    { "freeze", FIELD_TEXTS, offsetof(ImportConfig, freeze), 0, 0, NULL, NULL,
      "patterns of parameters that stay as they are" },
    { "weights", FIELD_CHOICE, offsetof(ImportConfig, weights), 0, 0, weights_kinds, NULL,
      "parameters start as the file has them, or drawn (--init none)" },
    { "batch", FIELD_TEXT, offsetof(ImportConfig, batch), 0, 0, NULL, NULL,
      "symbol of the batch size; default: axis 0 of the first input" },
    { "hash", FIELD_TEXT, offsetof(ImportConfig, hash), 0, 0, NULL, NULL,
      "XXH64 of the file; a run records it and accepts no other file" },
    { 0 }
};

static const ImportConfig import_defaults = { 0 };

const ModelDef model_import = {
    .name = "import",
    .summary = "a model exported by torch.export",
    .fields = import_fields,
    .config_bytes = sizeof(ImportConfig),
    .defaults = &import_defaults,
    .open = import_open,
    .seal = import_seal,
    .others = import_others,
    .note = import_note,
    .drawn = import_drawn,
    .named_inputs = true,
    .batch = import_batch,
    .max_batch = import_max_batch,
    .loss = import_loss,
    .no_split = import_no_split,
};
