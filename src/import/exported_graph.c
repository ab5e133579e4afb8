/* exported_graph.c -- the graph: values by name, calls with their arguments, inputs and outputs.
 *
 * A graph may hold bodies: autocast and no_grad regions are calls with a graph as argument. Their
 * calls are put in place of the call, under a region, and their names are looked up in a scope of
 * their own: what the body calls its inputs is bound to what the call was given.
 */
#include "import/exported_int.h"

#include <math.h>
#include <string.h>

enum { BODIES_MAX = 64, RANK_MAX = 64 };

typedef struct Binding { /* what a name stands for */
    int32_t value;       /* -1: a number that no call computes */
    ArgKind kind;        /* ARG_VALUE, or ARG_INT, ARG_FLOAT, ARG_BOOL */
    SymInt  size;        /* of a number; real: its value in the example if it is no whole number */
    double  real;
} Binding;

typedef struct Scope {
    ExportedIn *in;
    const Json *tensors, *ints, *bools, *floats; /* what the file says of the names */
    NameTable   names;                           /* to Bindings */
    const char *body;                            /* its name; NULL: the whole program */
    int32_t     region;
} Scope;

static Err scope_nodes(Scope *scope, const Json *graph);

static Err graph_fail(const Scope *scope, const char *what, const char *name)
{
    return fail(E_FORMAT, "%s: %s '%.200s'%s%.100s; the file is damaged", scope->in->program->path,
                what, name, scope->body ? " in " : "", scope->body ? scope->body : "");
}

/* ---- names ---- */

static void scope_init(Scope *scope, ExportedIn *in, const Json *graph, const char *body,
                       int32_t region)
{
    *scope = (Scope){ .in = in, .body = body, .region = region };
    scope->tensors = json_get(graph, "tensor_values");
    scope->ints = json_get(graph, "sym_int_values");
    scope->bools = json_get(graph, "sym_bool_values");
    scope->floats = json_get(graph, "sym_float_values");
}

static Err scope_bind(Scope *scope, const char *name, Binding binding)
{
    NameSlot *slot = names_slot(scope->in->temp, &scope->names, name);
    if (slot->item)
        return graph_fail(scope, "two things are called", name);
    Binding *copy = NEW(scope->in->temp, Binding);
    *copy = binding;
    slot->item = copy;
    return OK;
}

static const Binding *scope_find(const Scope *scope, const char *name)
{
    const NameSlot *slot = name_slot_find(&scope->names, name);
    return slot ? slot->item : NULL;
}

/* Names of values are unique in the program: those of a body get its name, then a number. */
static const char *value_name(Scope *scope, const char *name)
{
    ExportedIn *in = scope->in;
    const char *unique = scope->body ? pool_print(in->temp, "%s.%s", scope->body, name) : name;
    for (int i = 1; name_slot_find(&in->taken, unique); i++)
        unique = scope->body ? pool_print(in->temp, "%s.%s.%d", scope->body, name, i)
                             : pool_print(in->temp, "%s.%d", name, i);
    unique = exported_text(in, unique);
    names_slot(in->temp, &in->taken, unique)->item = unique;
    return unique;
}

static int32_t value_add(Scope *scope, ExportedValue value)
{
    Exported *program = scope->in->program;
    VEC_ADD(scope->in->pool, program->values, program->n_values, program->cap_values, value);
    return program->n_values - 1;
}

/* A tensor as tensor_values describes it. */
static Err value_tensor(Scope *scope, const char *name, const Json *meta, int32_t producer,
                        int32_t *id)
{
    ExportedIn   *in = scope->in;
    ExportedValue value = { .producer = producer };
    const Json   *sizes;
    int64_t       type;
    TRY(json_need_int(meta, "dtype", &type));
    TRY(json_need_array(meta, "sizes", &sizes));
    TRY(json_maybe_bool(meta, "requires_grad", &value.requires_grad));
    if (type < 0 || type >= EX_TYPES)
        return fail(E_FORMAT, "%s: '%.200s' has the element type %lld, which is not known",
                    in->program->path, name, (long long)type);
    if (sizes->n > RANK_MAX)
        return graph_fail(scope, "there are too many dimensions in", name);
    value.type = (ExportedType)type;
    value.rank = (int)sizes->n;
    value.size = NEWN(in->pool, SymInt, sizes->n);
    for (uint32_t i = 0; i < sizes->n; i++) {
        TRY(exported_sym_int(in, &sizes->items[i], &value.size[i]));
        if (!value.size[i].expr && value.size[i].value < 0)
            return graph_fail(scope, "a size is negative in", name);
    }
    value.name = value_name(scope, name);
    *id = value_add(scope, value);
    return OK;
}

/* What sym_int_values and its like say of a number's name. */
static Err number_of(Scope *scope, const char *name, Binding *out)
{
    const Json *json;
    *out = (Binding){ .value = -1 };
    if ((json = json_get(scope->ints, name))) {
        out->kind = ARG_INT;
        TRY(exported_sym_int(scope->in, json, &out->size));
        out->real = (double)out->size.value;
    } else if ((json = json_get(scope->bools, name))) {
        out->kind = ARG_BOOL;
        TRY(exported_sym_int(scope->in, json, &out->size));
    } else if ((json = json_get(scope->floats, name))) {
        out->kind = ARG_FLOAT;
        TRY(exported_sym_float(scope->in, json, &out->size, &out->real));
    } else {
        return graph_fail(scope, "nothing describes", name);
    }
    return OK;
}

/* A name that a call or the program's inputs define; *id -1: the file does not describe it, because
 * nothing reads it. */
static Err scope_define(Scope *scope, const char *name, int32_t producer, int32_t *id)
{
    const Json *meta = json_get(scope->tensors, name);
    *id = -1;
    if (meta) {
        TRY(value_tensor(scope, name, meta, producer, id));
        return scope_bind(scope, name, (Binding){ .value = *id, .kind = ARG_VALUE });
    }
    if (!json_get(scope->ints, name) && !json_get(scope->bools, name) &&
        !json_get(scope->floats, name))
        return OK;
    Binding number;
    TRY(number_of(scope, name, &number));
    number.value = *id = value_add(
        scope,
        (ExportedValue){ .name = value_name(scope, name), .rank = -1, .producer = producer });
    return scope_bind(scope, name, number);
}

/* ---- arguments ---- */

/* {"name": n}, or the name alone. */
static const char *arg_name(const Json *json)
{
    const Json *name = json && json->kind == JSON_OBJECT ? json_get(json, "name") : json;
    return name && name->kind == JSON_TEXT ? name->text : NULL;
}

static Err arg_tensor(const Scope *scope, const Json *json, int32_t *id)
{
    const char    *name = arg_name(json);
    const Binding *binding = name ? scope_find(scope, name) : NULL;
    if (!binding || binding->value < 0)
        return graph_fail(scope, "nothing before its use makes", name ? name : "?");
    *id = binding->value;
    return OK;
}

/* {"as_tensor": {...}} or {"as_none": ...}: -1. */
static Err arg_optional(const Scope *scope, const Json *json, int32_t *id)
{
    const char *tag;
    const Json *value;
    TRY(exported_union(json, &tag, &value));
    *id = -1;
    return !strcmp(tag, "as_tensor") ? arg_tensor(scope, value, id) : OK;
}

static Err arg_tensors(const Scope *scope, const Json *list, bool optional, ExportedArg *out)
{
    int32_t *values = NEWN(scope->in->pool, int32_t, list->n);
    for (uint32_t i = 0; i < list->n; i++)
        TRY(optional ? arg_optional(scope, &list->items[i], &values[i])
                     : arg_tensor(scope, &list->items[i], &values[i]));
    out->kind = ARG_VALUES;
    out->values = values;
    return OK;
}

/* A number, or one of the texts that stand for those which JSON lacks. */
static Err number_read(const Scope *scope, const Json *json, double *out)
{
    if (json->kind == JSON_INT)
        *out = (double)json->integer;
    else if (json->kind == JSON_NUMBER)
        *out = json->number;
    else if (json->kind == JSON_BOOL)
        *out = json->truth;
    else if (json->kind == JSON_TEXT && !strcmp(json->text, "Infinity"))
        *out = (double)INFINITY;
    else if (json->kind == JSON_TEXT && !strcmp(json->text, "-Infinity"))
        *out = -(double)INFINITY;
    else if (json->kind == JSON_TEXT && !strcmp(json->text, "NaN"))
        *out = (double)NAN;
    else
        return graph_fail(scope, "a number is", json_kind_text(json));
    return OK;
}

/* One number of an argument: plain, or {"as_name": n} or {"as_int": k}, as in as_sym_int. */
static Err arg_number(Scope *scope, const Json *json, Binding *out)
{
    const char *tag;
    const Json *value = json;
    *out = (Binding){ .value = -1 };
    if (json->kind == JSON_OBJECT) {
        TRY(exported_union(json, &tag, &value));
        if (!strcmp(tag, "as_name")) {
            if (value->kind != JSON_TEXT)
                return graph_fail(scope, "a name is", json_kind_text(value));
            const Binding *known = scope_find(scope, value->text);
            if (!known)
                return number_of(scope, value->text, out);
            *out = *known;
            return OK;
        }
    }
    TRY(number_read(scope, value, &out->real));
    out->size.value = value->kind == JSON_INT ? value->integer : 0;
    if (value->kind == JSON_BOOL)
        out->size.value = value->truth;
    else if (value->kind == JSON_NUMBER && fabs(out->real) < 0x1p63)
        out->size.value = (int64_t)out->real;
    return OK;
}

static Err arg_numbers(Scope *scope, const Json *items, uint32_t n, ArgKind kind, ExportedArg *out)
{
    Pool    *pool = scope->in->pool;
    bool     real = kind == ARG_FLOAT || kind == ARG_FLOATS;
    SymInt  *sizes = NULL;
    double  *floats = real ? NEWN(pool, double, n) : NULL;
    int32_t *values = NULL;
    for (uint32_t i = 0; i < n; i++) {
        Binding number;
        TRY(arg_number(scope, &items[i], &number));
        if (number.value >= 0 && !values) {
            values = NEWN(pool, int32_t, n);
            memset(values, 0xFF, n * sizeof *values);
        }
        if (values)
            values[i] = number.value;
        if (!sizes && (!real || number.size.expr))
            sizes = NEWN(pool, SymInt, n);
        if (sizes)
            sizes[i] = number.size;
        if (real)
            floats[i] = number.real;
    }
    out->kind = kind;
    out->ints = sizes;
    out->floats = floats;
    out->values = values;
    return OK;
}

typedef enum ArgForm { FORM_ONE, FORM_LIST, FORM_TENSOR, FORM_TENSORS, FORM_OTHER } ArgForm;

typedef struct ArgTag {
    const char *tag;
    ArgForm     form;
    ArgKind     kind;
} ArgTag;

/* The commonest first. */
static const ArgTag arg_tags[] = {
    { "as_tensor", FORM_TENSOR, ARG_VALUE },
    { "as_int", FORM_ONE, ARG_INT },
    { "as_ints", FORM_LIST, ARG_INTS },
    { "as_float", FORM_ONE, ARG_FLOAT },
    { "as_bool", FORM_ONE, ARG_BOOL },
    { "as_none", FORM_OTHER, ARG_NONE },
    { "as_sym_int", FORM_ONE, ARG_INT },
    { "as_sym_ints", FORM_LIST, ARG_INTS },
    { "as_tensors", FORM_TENSORS, ARG_VALUES },
    { "as_scalar_type", FORM_ONE, ARG_TYPE },
    { "as_device", FORM_OTHER, ARG_DEVICE },
    { "as_optional_tensors", FORM_TENSORS, ARG_VALUES },
    { "as_optional_tensor", FORM_TENSOR, ARG_VALUE },
    { "as_string", FORM_OTHER, ARG_TEXT },
    { "as_floats", FORM_LIST, ARG_FLOATS },
    { "as_bools", FORM_LIST, ARG_BOOLS },
    { "as_sym_float", FORM_ONE, ARG_FLOAT },
    { "as_sym_floats", FORM_LIST, ARG_FLOATS },
    { "as_sym_bool", FORM_ONE, ARG_BOOL },
    { "as_sym_bools", FORM_LIST, ARG_BOOLS },
    { "as_memory_format", FORM_ONE, ARG_MEMORY_FORMAT },
    { "as_layout", FORM_ONE, ARG_LAYOUT },
    { "as_complex", FORM_OTHER, ARG_COMPLEX },
};

static Err arg_other(Scope *scope, const Json *value, ExportedArg *out)
{
    ExportedIn *in = scope->in;
    const char *text;
    if (out->kind == ARG_TEXT) {
        if (value->kind != JSON_TEXT)
            return graph_fail(scope, "a text is", json_kind_text(value));
        out->text = exported_text(in, value->text);
    } else if (out->kind == ARG_DEVICE) {
        TRY(json_need_text(value, "type", &text));
        out->text = exported_text(in, text);
    } else if (out->kind == ARG_COMPLEX) {
        double     *both = NEWN(in->pool, double, 2);
        const Json *real = json_get(value, "real"), *imag = json_get(value, "imag");
        if (!real || !imag)
            return graph_fail(scope, "a complex number is", json_kind_text(value));
        TRY(number_read(scope, real, &both[0]));
        TRY(number_read(scope, imag, &both[1]));
        out->floats = both;
        out->n = 2;
    }
    return OK;
}

static Err arg_read(Scope *scope, const Json *json, ExportedArg *out)
{
    const char *tag;
    const Json *value;
    size_t      k = 0, n_tags = sizeof arg_tags / sizeof *arg_tags;
    TRY(exported_union(json, &tag, &value));
    while (k < n_tags && strcmp(arg_tags[k].tag, tag) != 0)
        k++;
    *out = (ExportedArg){ .name = "", .kind = ARG_OTHER, .n = 1 };
    if (k == n_tags) {
        out->text = exported_text(scope->in, tag);
        return OK;
    }
    bool optional = strstr(tag, "optional") != NULL;
    out->kind = arg_tags[k].kind;
    switch (arg_tags[k].form) {
    case FORM_ONE: return arg_numbers(scope, value, 1, out->kind, out);
    case FORM_TENSOR: {
        int32_t *id = NEW(scope->in->pool, int32_t);
        TRY(optional ? arg_optional(scope, value, id) : arg_tensor(scope, value, id));
        out->kind = *id < 0 ? ARG_NONE : ARG_VALUE;
        out->values = id;
        return OK;
    }
    case FORM_LIST:
    case FORM_TENSORS:
        if (value->kind != JSON_ARRAY || value->n > INT32_MAX)
            return graph_fail(scope, "a list is", json_kind_text(value));
        out->n = (int32_t)value->n;
        return arg_tags[k].form == FORM_LIST
                   ? arg_numbers(scope, value->items, value->n, out->kind, out)
                   : arg_tensors(scope, value, optional, out);
    default: return arg_other(scope, value, out);
    }
}

/* ---- calls ---- */

static const char *call_target(ExportedIn *in, const char *target)
{
    if (!strncmp(target, "torch.ops.", 10))
        target += 10;
    else if (!strncmp(target, "torch.", 6))
        target += 6;
    if (*target == '_')
        target++;
    if (!strncmp(target, "aten.sym_", 9))
        target += 5;
    return exported_text(in, target);
}

/* Names in an output: a tensor, a list of them, or a number. NULL: none. */
static const Json *output_names(const Json *output, uint32_t *n)
{
    const char *tag;
    const Json *value;
    *n = 1;
    if (exported_union(output, &tag, &value))
        return NULL;
    if (!strcmp(tag, "as_tensors") && value->kind == JSON_ARRAY) {
        *n = value->n;
        return value->items;
    }
    if (!strcmp(tag, "as_tensor") || !strcmp(tag, "as_custom_obj"))
        return value;
    if (!strncmp(tag, "as_sym_", 7)) /* {"as_name": n} */
        return json_get(value, "as_name");
    if (!strcmp(tag, "as_optional_tensor"))
        return json_get(value, "as_tensor");
    return NULL;
}

static Err call_outputs(Scope *scope, const Json *outputs, int32_t producer, ExportedCall *call)
{
    int32_t *out = NULL, n = 0, cap = 0;
    for (uint32_t i = 0; i < outputs->n; i++) {
        uint32_t    n_names;
        const Json *names = output_names(&outputs->items[i], &n_names);
        for (uint32_t k = 0; k < n_names; k++) {
            const char *name = names ? arg_name(&names[k]) : NULL;
            int32_t     id = -1;
            if (name)
                TRY(scope_define(scope, name, producer, &id));
            VEC_ADD(scope->in->pool, out, n, cap, id);
        }
    }
    call->out = out;
    call->n_out = n;
    return OK;
}

static Err call_read(Scope *scope, const Json *node, const char *target)
{
    ExportedIn  *in = scope->in;
    Exported    *program = in->program;
    ExportedCall call = { .target = target, .ordinal = in->ordinal, .region = scope->region };
    const Json  *inputs, *outputs;
    TRY(json_need_array(node, "inputs", &inputs));
    TRY(json_need_array(node, "outputs", &outputs));
    ExportedArg *args = NEWN(in->pool, ExportedArg, inputs->n);
    for (uint32_t i = 0; i < inputs->n; i++) {
        const Json *input = &inputs->items[i], *arg;
        const char *name = "";
        TRY(json_need_object(input, "arg", &arg));
        TRY(json_maybe_text(input, "name", &name));
        TRY(arg_read(scope, arg, &args[i]));
        args[i].name = exported_text(in, name);
    }
    call.args = args;
    call.n_args = (int32_t)inputs->n;
    TRY(call_outputs(scope, outputs, program->n_calls, &call));
    exported_source(in, json_get(node, "metadata"), &call);
    VEC_ADD(in->pool, program->calls, program->n_calls, program->cap_calls, call);
    return OK;
}

/* ---- bodies ---- */

static int32_t region_find(ExportedIn *in, Region region)
{
    Exported *program = in->program;
    for (int32_t i = 0; i < program->n_regions; i++) {
        const Region *r = &program->regions[i];
        if (r->no_grad == region.no_grad && r->autocast == region.autocast &&
            r->enabled == region.enabled && r->autocast_type == region.autocast_type &&
            r->autocast_device == region.autocast_device)
            return i;
    }
    VEC_ADD(in->pool, program->regions, program->n_regions, program->cap_regions, region);
    return program->n_regions - 1;
}

/* The n-th argument of a call that has no names for them. */
static const Json *body_arg(const Json *inputs, uint32_t i)
{
    return i < inputs->n ? json_get(&inputs->items[i], "arg") : NULL;
}

/* wrap_with_autocast(device, type, enabled, cache, body, ...): the inner one overrides. */
static Err region_autocast(Scope *scope, const Json *inputs, Region *region)
{
    const Json *device = body_arg(inputs, 0), *type = body_arg(inputs, 1),
               *enabled = body_arg(inputs, 2);
    const Json *name = json_get(device, "as_string"), *number = json_get(type, "as_scalar_type"),
               *on = json_get(enabled, "as_bool");
    if (!name || name->kind != JSON_TEXT || !on || on->kind != JSON_BOOL)
        return graph_fail(scope, "the arguments are wrong of", "wrap_with_autocast");
    region->autocast = true;
    region->enabled = on->truth;
    region->autocast_device = exported_text(scope->in, name->text);
    region->autocast_type = !strcmp(name->text, "cuda") ? EX_F16 : EX_BF16; /* torch's defaults */
    if (number && number->kind == JSON_INT && number->integer > 0 && number->integer < EX_TYPES)
        region->autocast_type = (ExportedType)number->integer;
    return OK;
}

static Err region_grad(Scope *scope, const Json *inputs, Region *region)
{
    const Json *enabled = json_get(body_arg(inputs, 0), "as_bool");
    if (!enabled || enabled->kind != JSON_BOOL)
        return graph_fail(scope, "the arguments are wrong of", "wrap_with_set_grad_enabled");
    region->no_grad = !enabled->truth;
    return OK;
}

/* What the body calls its i-th input is what the call was given. */
static Err body_input(Scope *outer, Scope *body, const Json *input, const Json *given)
{
    const char *tag;
    const Json *value;
    Binding     binding = { .kind = ARG_VALUE };
    TRY(exported_union(input, &tag, &value));
    if (!strcmp(tag, "as_tensor")) {
        const Json *tensor = json_get(given, "as_tensor");
        const char *name = arg_name(value);
        if (!tensor || !name)
            return graph_fail(outer, "the arguments do not fit the body", body->body);
        TRY(arg_tensor(outer, tensor, &binding.value));
        return scope_bind(body, name, binding);
    }
    const Json *name = !strncmp(tag, "as_sym_", 7) ? json_get(value, "as_name") : NULL;
    if (!name || name->kind != JSON_TEXT)
        return OK; /* a constant: the body has it written out */
    TRY(exported_union(given, &tag, &value));
    TRY(arg_number(outer, value, &binding));
    if (binding.kind == ARG_NONE || binding.kind == ARG_VALUE)
        binding.kind = strstr(tag, "float") ? ARG_FLOAT : strstr(tag, "bool") ? ARG_BOOL : ARG_INT;
    return scope_bind(body, name->text, binding);
}

/* The names that the call gives its outputs are bound to what the body returns. */
static Err body_outputs(Scope *outer, Scope *body, const Json *graph, const Json *outputs)
{
    const Json *returned;
    uint32_t    at = 0;
    TRY(json_need_array(graph, "outputs", &returned));
    for (uint32_t i = 0; i < outputs->n; i++) {
        uint32_t    n_names, n_inner;
        const Json *names = output_names(&outputs->items[i], &n_names);
        for (uint32_t k = 0; k < n_names; k++, at++) {
            const char    *name = names ? arg_name(&names[k]) : NULL;
            const Json    *inner = at < returned->n ? output_names(&returned->items[at], &n_inner)
                                                    : NULL;
            const char    *inner_name = inner ? arg_name(inner) : NULL;
            const Binding *binding = inner_name ? scope_find(body, inner_name) : NULL;
            if (name && binding)
                TRY(scope_bind(outer, name, *binding));
            else if (name && json_get(outer->tensors, name))
                return graph_fail(outer, "the body does not return", name);
        }
    }
    return OK;
}

/* A body in place of its call. */
static Err body_inline(Scope *outer, const Json *node, Region region)
{
    ExportedIn *in = outer->in;
    const Json *inputs, *outputs, *holder = NULL, *graph, *body_inputs;
    const char *name;
    uint32_t    at = 0;
    TRY(json_need_array(node, "inputs", &inputs));
    TRY(json_need_array(node, "outputs", &outputs));
    while (at < inputs->n && !(holder = json_get(body_arg(inputs, at), "as_graph")))
        at++;
    if (!holder)
        return graph_fail(outer, "there is no body in", "a region");
    TRY(json_need_text(holder, "name", &name));
    TRY(json_need_object(holder, "graph", &graph));
    TRY(json_need_array(graph, "inputs", &body_inputs));
    if (body_inputs->n > inputs->n - at - 1)
        return graph_fail(outer, "the arguments do not fit the body", name);
    if (++in->depth > BODIES_MAX)
        return graph_fail(outer, "too many bodies within each other, at", name);
    Scope body;
    scope_init(&body, in, graph, exported_text(in, name), region_find(in, region));
    for (uint32_t i = 0; i < body_inputs->n; i++) {
        const Json *given = body_arg(inputs, at + 1 + i);
        if (!given)
            return graph_fail(outer, "the arguments do not fit the body", name);
        TRY(body_input(outer, &body, &body_inputs->items[i], given));
    }
    TRY(scope_nodes(&body, graph));
    in->depth--;
    return body_outputs(outer, &body, graph, outputs);
}

static Err scope_node(Scope *scope, const Json *node)
{
    const char *word;
    TRY(json_need_text(node, "target", &word));
    const char *target = call_target(scope->in, word);
    Region      region = scope->in->program->regions[scope->region];
    const Json *inputs;
    TRY(json_need_array(node, "inputs", &inputs));
    if (!strcmp(target, "higher_order.wrap_with_autocast"))
        TRY(region_autocast(scope, inputs, &region));
    else if (!strcmp(target, "higher_order.wrap_with_set_grad_enabled"))
        TRY(region_grad(scope, inputs, &region));
    else
        return call_read(scope, node, target);
    return body_inline(scope, node, region);
}

static Err scope_nodes(Scope *scope, const Json *graph)
{
    const Json *nodes;
    TRY(json_need_array(graph, "nodes", &nodes));
    for (uint32_t i = 0; i < nodes->n; i++) {
        TRY(scope_node(scope, &nodes->items[i]));
        scope->in->ordinal++;
    }
    return OK;
}

/* ---- the signature ---- */

typedef struct InputTag {
    const char       *tag, *name_key;
    ExportedInputKind kind;
} InputTag;

static const InputTag input_tags[] = {
    { "parameter", "parameter_name", EX_PARAMETER },
    { "buffer", "buffer_name", EX_BUFFER },
    { "tensor_constant", "tensor_constant_name", EX_CONSTANT },
};

static Err input_constant(Scope *scope, const Json *spec, ExportedInput *out)
{
    const Json *value;
    TRY(json_need_text(spec, "name", &out->name));
    TRY(json_need_object(spec, "value", &value));
    out->name = exported_text(scope->in, out->name);
    out->kind = EX_NUMBER;
    return arg_read(scope, value, &out->number);
}

static Err input_user(Scope *scope, const Json *spec, ExportedInput *out)
{
    const Json *arg, *value;
    const char *tag, *name = NULL;
    TRY(json_need_object(spec, "arg", &arg));
    TRY(exported_union(arg, &tag, &value));
    if (!strcmp(tag, "as_tensor")) {
        name = arg_name(value);
        out->kind = EX_USER_INPUT;
        TRY(name ? scope_define(scope, name, -1, &out->value) : OK);
        if (out->value < 0)
            return graph_fail(scope, "nothing describes the input", name ? name : "?");
    } else {
        const Json *as_name = !strncmp(tag, "as_sym_", 7) ? json_get(value, "as_name") : NULL;
        int32_t     id;
        out->kind = EX_NUMBER;
        if (as_name && as_name->kind == JSON_TEXT) {
            name = as_name->text;
            TRY(scope_define(scope, name, -1, &id));
        }
        TRY(arg_read(scope, arg, &out->number));
    }
    out->name = exported_text(scope->in, name ? name : "");
    return OK;
}

static Err input_read(Scope *scope, const Json *spec, ExportedInput *out)
{
    const char *tag;
    const Json *value;
    TRY(exported_union(spec, &tag, &value));
    *out = (ExportedInput){
        .kind = EX_OTHER_INPUT, .value = -1, .name = "", .persistent = true, .tied = -1
    };
    if (!strcmp(tag, "user_input"))
        return input_user(scope, value, out);
    if (!strcmp(tag, "constant_input"))
        return input_constant(scope, value, out);
    for (size_t i = 0; i < sizeof input_tags / sizeof *input_tags; i++) {
        if (strcmp(tag, input_tags[i].tag) != 0)
            continue;
        const char *name = arg_name(json_get(value, "arg"));
        TRY(json_need_text(value, input_tags[i].name_key, &out->name));
        TRY(json_maybe_bool(value, "persistent", &out->persistent));
        out->name = exported_text(scope->in, out->name);
        out->kind = input_tags[i].kind;
        TRY(name ? scope_define(scope, name, -1, &out->value) : OK);
        if (out->value < 0)
            return graph_fail(scope, "nothing describes the input", name ? name : "?");
    }
    return OK;
}

typedef struct OutputTag {
    const char        *tag, *target_key;
    ExportedOutputKind kind;
} OutputTag;

static const OutputTag output_tags[] = {
    { "user_output", NULL, EX_USER_OUTPUT },
    { "loss_output", NULL, EX_LOSS_OUTPUT },
    { "buffer_mutation", "buffer_name", EX_BUFFER_MUTATION },
    { "parameter_mutation", "parameter_name", EX_PARAMETER_MUTATION },
    { "user_input_mutation", "user_input_name", EX_INPUT_MUTATION },
    { "gradient_to_parameter", "parameter_name", EX_OTHER_OUTPUT },
    { "gradient_to_user_input", "user_input_name", EX_OTHER_OUTPUT },
};

static Err output_read(Scope *scope, const Json *spec, const Json *arg, ExportedOutput *out)
{
    const char *tag, *name = NULL;
    const Json *value;
    TRY(exported_union(spec, &tag, &value));
    *out = (ExportedOutput){ .kind = EX_OTHER_OUTPUT };
    for (size_t i = 0; i < sizeof output_tags / sizeof *output_tags; i++)
        if (!strcmp(tag, output_tags[i].tag)) {
            out->kind = output_tags[i].kind;
            if (output_tags[i].target_key)
                TRY(json_need_text(value, output_tags[i].target_key, &name));
        }
    out->target = name ? exported_text(scope->in, name) : NULL;
    return arg_read(scope, arg, &out->arg);
}

static Err signature_inputs(Scope *scope, const Json *specs)
{
    Exported *program = scope->in->program;
    program->n_inputs = (int32_t)specs->n;
    program->inputs = NEWN(scope->in->pool, ExportedInput, specs->n);
    for (uint32_t i = 0; i < specs->n; i++)
        TRY(input_read(scope, &specs->items[i], &program->inputs[i]));
    return OK;
}

static Err signature_outputs(Scope *scope, const Json *specs, const Json *outputs)
{
    Exported *program = scope->in->program;
    if (specs->n != outputs->n)
        return json_fail(specs, NULL, "the signature has %u outputs, the graph %u", specs->n,
                         outputs->n);
    program->n_outputs = (int32_t)specs->n;
    program->outputs = NEWN(scope->in->pool, ExportedOutput, specs->n);
    for (uint32_t i = 0; i < specs->n; i++)
        TRY(output_read(scope, &specs->items[i], &outputs->items[i], &program->outputs[i]));
    return OK;
}

Err exported_graph(ExportedIn *in, const Json *graph_module)
{
    const Json *graph, *signature, *input_specs, *output_specs, *outputs;
    Scope       scope;
    TRY(json_need_object(graph_module, "graph", &graph));
    TRY(json_need_object(graph_module, "signature", &signature));
    TRY(json_need_array(signature, "input_specs", &input_specs));
    TRY(json_need_array(signature, "output_specs", &output_specs));
    TRY(json_need_array(graph, "outputs", &outputs));
    scope_init(&scope, in, graph, NULL, 0);
    TRY(signature_inputs(&scope, input_specs));
    TRY(scope_nodes(&scope, graph));
    return signature_outputs(&scope, output_specs, outputs);
}
