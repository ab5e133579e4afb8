/* hlo_read.c -- a module of StableHLO, as JAX writes it, to an exported program.
 *
 * Calls of private functions are put in place of the call. Loops whose count follows from constants
 * are unrolled. The parameters of @main are named by their places in JAX's argument trees: those of
 * the first tree are the model's parameters, the others its inputs.
 */
#include "import/exported.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "import/hlo_int.h"

enum {
    MAX_DEPTH = 64,
    MAX_CALLS = 1 << 20,
    MAX_ENTERED = 1 << 18,
    MAX_LOOPS = 1 << 12,
    MAX_RESULTS = 4096
};

typedef struct HloScope {
    Hlo      *h;
    Pool     *pool;  /* of the names: ends with the function */
    NameTable names; /* "%0#1" to value + 1 */
} HloScope;

typedef struct Results {
    int32_t *at, n, cap;
} Results;

static void results_add(Hlo *h, Results *r, int32_t value)
{
    VEC_ADD(h->in->temp, r->at, r->n, r->cap, value);
}

static Err block(HloScope *s, const char **p, Results *out);

/* ---- values ---- */

static int32_t value_add(Hlo *h, const char *name, const HloType *type, int32_t producer)
{
    Exported     *program = h->in->program;
    ExportedValue value = { .name = name,
                            .type = type->type,
                            .rank = type->rank,
                            .size = NEWN(h->in->pool, SymInt, type->rank + 1),
                            .producer = producer };
    for (int a = 0; a < type->rank; a++)
        value.size[a].value = type->size[a];
    VEC_ADD(h->in->pool, program->values, program->n_values, program->cap_values, value);
    VEC_ADD(h->in->temp, h->known, h->n_known, h->cap_known, (HloKnown){ 0 });
    return program->n_values - 1;
}

static void bind(HloScope *s, const char *name, size_t n, int32_t value)
{
    const char *text = exported_textn(s->h->in, name, n);
    names_slot(s->pool, &s->names, text)->item = (const void *)(uintptr_t)(value + 1);
}

static Err find(void *of, const char *name, size_t n, int32_t *value)
{
    HloScope       *s = of;
    const NameSlot *slot = name_slot_find(&s->names, exported_textn(s->h->in, name, n));
    if (!slot)
        return hlo_fail(s->h, name, "nothing before its use makes this value");
    *value = (int32_t)((uintptr_t)slot->item - 1);
    return OK;
}

static Err results_bind(HloScope *s, const char *name, size_t n, int32_t wanted, const Results *r)
{
    if (r->n < wanted)
        return hlo_fail(s->h, name, "there are fewer results than names");
    if (wanted == 1)
        bind(s, name, n, r->at[0]);
    for (int32_t i = 0; i < wanted; i++) {
        const char *one = pool_print(s->h->in->temp, "%.*s#%d", (int)n, name, i);
        bind(s, one, strlen(one), r->at[i]);
    }
    return OK;
}

/* ---- numbers that are known while reading ---- */

static bool compared(const char *how, int64_t a, int64_t b)
{
    return !strcmp(how, "LT")   ? a < b
           : !strcmp(how, "LE") ? a <= b
           : !strcmp(how, "GT") ? a > b
           : !strcmp(how, "GE") ? a >= b
           : !strcmp(how, "EQ") ? a == b
                                : a != b;
}

static HloKnown known_of(const Hlo *h, const HloStatement *st)
{
    const char        *what = strncmp(st->target, "stablehlo.", 10) ? "" : st->target + 10;
    const ExportedArg *value = hlo_statement_arg(st, "value");
    if (!strcmp(what, "constant"))
        return value && value->kind == ARG_INTS && value->n == 1 && !st->types[0].rank
                   ? (HloKnown){ true, value->ints[0].value }
                   : (HloKnown){ 0 };
    HloKnown x[3] = { { 0 } };
    if (st->n_operands < 1 || st->n_operands > 3)
        return (HloKnown){ 0 };
    for (int32_t i = 0; i < st->n_operands; i++) {
        x[i] = h->known[st->operand[i]];
        if (!x[i].known)
            return (HloKnown){ 0 };
    }
    int64_t a = x[0].value, b = x[1].value;
    if (st->n_operands == 1)
        return (HloKnown){ !strcmp(what, "convert") && st->types[0].bits, a };
    if (st->n_operands == 3)
        return (HloKnown){ !strcmp(what, "select"), a ? b : x[2].value };
    if (!strcmp(what, "add"))
        return (HloKnown){ true, (int64_t)((uint64_t)a + (uint64_t)b) };
    if (!strcmp(what, "subtract"))
        return (HloKnown){ true, (int64_t)((uint64_t)a - (uint64_t)b) };
    if (!strcmp(what, "and"))
        return (HloKnown){ true, a & b };
    const ExportedArg *how = hlo_statement_arg(st, "word");
    return !strcmp(what, "compare") && how && how->kind == ARG_TEXT
               ? (HloKnown){ true, compared(how->text, a, b) }
               : (HloKnown){ 0 };
}

/* ---- calls ---- */

static void call_place(Hlo *h, const char **p, ExportedCall *call)
{
    const char *at = *p + strspn(*p, " \t");
    if (strncmp(at, "loc(", 4) != 0 || !hlo_close(at + 3))
        return;
    *p = hlo_close(at + 3);
    if (call)
        hlo_source(h, at + 4, (size_t)(*p - at - 5), call, 0);
}

/* The statement as a call of the program; its results. */
static Err emit(HloScope *s, HloStatement *st, const char **p, const char *name, size_t n,
                int32_t wanted, Results *r)
{
    Hlo         *h = s->h;
    Exported    *program = h->in->program;
    ExportedCall call = { .target = st->target, .module = "", .ordinal = h->in->ordinal++ };
    int32_t     *values = NEWN(h->in->pool, int32_t, st->n_operands + 1);
    int32_t     *out = NEWN(h->in->pool, int32_t, wanted + 1);
    if (program->n_calls >= MAX_CALLS)
        return fail(E_USAGE, "%s: its functions and loops unfold to more than %d operators",
                    program->path, MAX_CALLS);
    if (!wanted || !st->n_types || (st->n_types != 1 && wanted > st->n_types))
        return hlo_fail(h, name, "this statement has no result type");
    call_place(h, p, &call);
    for (int32_t i = 0; i < st->n_operands; i++)
        values[i] = st->operand[i];
    VEC_ADD(h->in->pool, st->args, st->n_args, st->cap_args,
            (ExportedArg){
                .name = "operands", .kind = ARG_VALUES, .n = st->n_operands, .values = values });
    const HloType *last = &st->types[st->n_types - 1];
    int64_t        bits = last->bits;
    ExportedArg    width = hlo_arg(h, "bits", &bits, 1);
    width.kind = ARG_INT;
    VEC_ADD(h->in->pool, st->args, st->n_args, st->cap_args, width);
    for (int32_t i = 0; i < wanted; i++) {
        const HloType *type = st->n_types == wanted ? &st->types[i] : last;
        out[i] = value_add(h, exported_textn(h->in, name + 1, n - 1), type, program->n_calls);
        results_add(h, r, out[i]);
    }
    h->known[out[0]] = known_of(h, st);
    call.args = st->args;
    call.n_args = st->n_args;
    call.out = out;
    call.n_out = wanted;
    VEC_ADD(h->in->pool, program->calls, program->n_calls, program->cap_calls, call);
    return OK;
}

/* ---- functions ---- */

static Err enter(Hlo *h)
{
    if (h->n_entered++ == MAX_ENTERED) /* also where they make no operator */
        return fail(E_USAGE, "%s: its functions and loops unfold to more than %d calls",
                    h->in->program->path, MAX_ENTERED);
    return ++h->depth > MAX_DEPTH
               ? fail(E_FORMAT, "%s: functions call each other without end", h->in->program->path)
               : OK;
}

static Err inlined(Hlo *h, const char *callee, const int32_t *args, int32_t n, Results *out)
{
    const NameSlot *slot = callee ? name_slot_find(&h->funcs, callee) : NULL;
    const HloFunc  *f = slot ? slot->item : NULL;
    if (!f)
        return fail(E_FORMAT, "%s: there is no function @%s", h->in->program->path,
                    callee ? callee : "");
    TRY(enter(h));
    HloScope    s = { .h = h, .pool = pool_new(h->in->temp, "function") };
    const char *p = f->params, *body = f->body;
    for (int32_t i = 0; i < n; i++) {
        p = hlo_skip(p);
        if (*p != '%')
            return hlo_fail(h, p, "a function is called with too many operands");
        size_t length = 1 + hlo_name_length(p + 1);
        bind(&s, p, length, args[i]);
        p += length;
        while (*p && *p != ',' && *p != ')') /* its type, attributes and place */
            p = *p == '(' || *p == '{' ? (hlo_close(p) ? hlo_close(p) : "") : p + 1;
        hlo_next(&p, ",");
    }
    TRY(block(&s, &body, out));
    pool_free(s.pool);
    h->depth--;
    return OK;
}

/* stablehlo.while(%a = %b, ...) : types cond { ... } do { ... } */
static Err loop(HloScope *s, const char **p, Results *out)
{
    Hlo        *h = s->h;
    const char *begin = *p, **names = NULL;
    int64_t     turns = 0;
    int32_t     n_names = 0, cap = 0;
    if (!hlo_next(p, "("))
        return hlo_fail(h, begin, "a loop is damaged");
    while (!hlo_next(p, ")")) {
        const char *at = hlo_skip(*p);
        int32_t     value = -1;
        if (*at != '%')
            return hlo_fail(h, at, "a loop is damaged");
        VEC_ADD(h->in->temp, names, n_names, cap, at);
        at += 1 + hlo_name_length(at + 1);
        if (!hlo_next(&at, "=") || *hlo_skip(at) != '%')
            return hlo_fail(h, at, "a loop is damaged");
        at = hlo_skip(at);
        size_t n = 1 + hlo_name_length(at + 1);
        n += at[n] == '#' ? 1 + hlo_name_length(at + n + 1) : 0;
        TRY(find(s, at, n, &value));
        results_add(h, out, value);
        *p = at + n;
        hlo_next(p, ",");
    }
    const char *cond = strstr(*p, "cond {");
    const char *cond_end = cond ? hlo_close(cond + 5) : NULL;
    const char *body = cond_end && hlo_next(&cond_end, "do") ? hlo_skip(cond_end) : NULL;
    const char *end = body && *body == '{' ? hlo_close(body) : NULL;
    if (!end)
        return hlo_fail(h, begin, "a loop is damaged");
    TRY(enter(h));
    for (;; turns++) {
        Results     test = { 0 };
        const char *at = cond + 6;
        for (int32_t i = 0; i < out->n; i++)
            bind(s, names[i], 1 + hlo_name_length(names[i] + 1), out->at[i]);
        TRY(block(s, &at, &test));
        if (test.n != 1 || !h->known[test.at[0]].known || turns == MAX_LOOPS)
            return fail(E_USAGE,
                        "%s: a loop (scan, while_loop or fori_loop) whose count is not a constant "
                        "of at most %d; write it as a Python loop over a fixed range",
                        h->in->program->path, MAX_LOOPS);
        if (!h->known[test.at[0]].value)
            break;
        Results next = { 0 };
        at = body + 1;
        TRY(block(s, &at, &next));
        if (next.n != out->n)
            return hlo_fail(h, body, "a loop returns another number of values than it takes");
        *out = next;
    }
    h->depth--;
    *p = end;
    return OK;
}

/* ---- statements ---- */

static Err returned(HloScope *s, const char **p, Results *out)
{
    out->n = 0;
    for (*p = hlo_skip(*p); **p == '%'; *p = hlo_skip(*p)) {
        int32_t value = -1;
        size_t  n = 1 + hlo_name_length(*p + 1);
        n += (*p)[n] == '#' ? 1 + hlo_name_length(*p + n + 1) : 0;
        TRY(find(s, *p, n, &value));
        results_add(s->h, out, value);
        *p += n;
        hlo_next(p, ",");
    }
    return OK;
}

/* What may follow the types: a reducer's body, attributes, the place. */
static Err after_types(HloScope *s, const char **p, HloStatement *st)
{
    const char *at = *p + strspn(*p, " \t");
    if (!strncmp(at, "loc(", 4) && hlo_close(at + 3))
        at = hlo_close(at + 3);
    at = hlo_skip(at);
    if (strncmp(at, "reducer(", 8) != 0)
        return OK;
    /* Bodies of one operator are printed as `applies`: this one is something else. */
    VEC_ADD(s->h->in->pool, st->args, st->n_args, st->cap_args,
            (ExportedArg){ .name = "body", .kind = ARG_TEXT, .n = 1, .text = "" });
    while (at && *at == 'r')
        at = hlo_close(at + 7);
    for (; at && *hlo_skip(at) == '('; at = hlo_close(hlo_skip(at)))
        ;
    at = at ? hlo_skip(at) : NULL;
    at = at && *at == '{' ? hlo_close(at) : NULL;
    if (!at)
        return hlo_fail(s->h, *p, "a body does not end");
    *p = at;
    return OK;
}

static Err statement(HloScope *s, const char **p)
{
    Hlo        *h = s->h;
    const char *name = hlo_skip(*p), *at = name, *target;
    size_t      n, length;
    int64_t     wanted = 1;
    if (*name != '%')
        return hlo_fail(h, name, "a statement is expected");
    n = 1 + hlo_name_length(name + 1);
    at += n;
    if (hlo_next(&at, ":"))
        TRY(hlo_int(h, &at, &wanted));
    if (!hlo_next(&at, "=") || wanted < 1 || wanted > MAX_RESULTS)
        return hlo_fail(h, name, "a statement is damaged");
    at = hlo_skip(at);
    bool quoted = *at == '"';
    at += quoted;
    length = hlo_name_length(at);
    target = exported_textn(h->in, at, length);
    *p = at + length + quoted;
    Results      results = { 0 }, *out = &results;
    HloStatement made = { .target = target }, *st = &made;
    if (!strcmp(target, "stablehlo.while")) {
        TRY(loop(s, p, out));
        call_place(h, p, NULL);
        return results_bind(s, name, n, (int32_t)wanted, out);
    }
    TRY(hlo_statement(h, p, find, s, st));
    TRY(after_types(s, p, st));
    bool call = !strcmp(target, "call") || !strcmp(target, "func.call");
    if (!strcmp(target, "stablehlo.composite")) {
        const ExportedArg *inner = hlo_statement_arg(st, "decomposition");
        st->callee = inner && inner->kind == ARG_TEXT ? inner->text : st->callee;
        call = true;
    }
    if (call) {
        TRY(inlined(h, st->callee, st->operand, st->n_operands, out));
        call_place(h, p, NULL);
    } else {
        if (!strcmp(target, "stablehlo.custom_call"))
            st->target = exported_text(
                h->in, pool_print(h->in->temp, "%s @%s", target, st->callee ? st->callee : ""));
        TRY(emit(s, st, p, name, n, (int32_t)wanted, out));
    }
    return results_bind(s, name, n, (int32_t)wanted, out);
}

static Err block(HloScope *s, const char **p, Results *out)
{
    for (;;) {
        *p = hlo_skip(*p);
        if (hlo_next(p, "return ") || hlo_next(p, "stablehlo.return ") ||
            hlo_next(p, "func.return "))
            return returned(s, p, out);
        TRY(statement(s, p));
    }
}

/* ---- the module ---- */

static Err functions(Hlo *h, const char *text)
{
    for (const char *p = text; *p;) {
        const char *line = p;
        size_t      n = strcspn(p, "\n");
        p += n + (p[n] == '\n');
        line += strspn(line, " \t");
        if (!strncmp(line, "#loc", 4)) {
            size_t      m = 1 + hlo_name_length(line + 1);
            const char *at = line + m;
            if (hlo_next(&at, "=") && hlo_next(&at, "loc("))
                names_slot(h->in->temp, &h->locs, exported_textn(h->in, line, m))->item = at;
        }
        if (strncmp(line, "func.func ", 10) != 0)
            continue;
        const char *at = line + strcspn(line, "@\n");
        if (*at != '@')
            return hlo_fail(h, line, "a function has no name");
        HloFunc *f = NEW(h->in->temp, HloFunc);
        f->name = exported_textn(h->in, at + 1, hlo_name_length(at + 1));
        at += 1 + strlen(f->name);
        if (*at != '(' || !hlo_close(at))
            return hlo_fail(h, line, "a function is damaged");
        f->params = at + 1;
        at = hlo_close(at);
        hlo_next(&at, "->");
        at = hlo_skip(at);
        if (*at == '(')
            at = hlo_close(at) ? hlo_close(at) : "";
        else
            at += strcspn(at, "{\n");
        if (hlo_next(&at, "attributes"))
            at = *hlo_skip(at) == '{' && hlo_close(hlo_skip(at)) ? hlo_close(hlo_skip(at)) : "";
        if (!hlo_next(&at, "{"))
            return hlo_fail(h, line, "a function has no body");
        f->body = at;
        names_slot(h->in->temp, &h->funcs, f->name)->item = f;
    }
    return OK;
}

/* The name of a parameter of @main: loc("...") behind its type, or a reference to one. */
static const char *param_loc(Hlo *h, const char *p, const char *end, size_t *n)
{
    const char *loc = strstr(p, "loc(");
    if (!loc || loc >= end)
        return NULL;
    loc += 4;
    if (*loc == '#') {
        const NameSlot *slot = name_slot_find(
            &h->locs, exported_textn(h->in, loc, 1 + hlo_name_length(loc + 1)));
        loc = slot ? slot->item : "";
    }
    if (*loc != '"')
        return NULL;
    const char *close = hlo_string_end(loc);
    *n = (size_t)(close - loc - 2);
    return loc + 1;
}

/* Where a tree holds `params` beside other things, such as batch_stats, these are not trained. */
static void freeze_others(Exported *program)
{
    bool some = false;
    for (int32_t i = 0; i < program->n_inputs; i++)
        some |= program->inputs[i].kind == EX_PARAMETER &&
                !strncmp(program->inputs[i].name, "params.", 7);
    for (int32_t i = 0; some && i < program->n_inputs; i++)
        if (program->inputs[i].kind == EX_PARAMETER &&
            strncmp(program->inputs[i].name, "params.", 7) != 0)
            program->values[program->inputs[i].value].requires_grad = false;
}

static Err parameters(Hlo *h, const HloFunc *main, Results *args)
{
    Exported   *program = h->in->program;
    const char *first = NULL;
    int32_t     cap = 0;
    for (const char *p = hlo_skip(main->params); *p == '%'; p = hlo_skip(p)) {
        HloType     type;
        const char *begin = p, *root;
        size_t      n;
        p += 1 + hlo_name_length(p + 1);
        if (!hlo_next(&p, ":"))
            return hlo_fail(h, begin, "a parameter is damaged");
        TRY(hlo_type(h, &p, &type));
        const char *end = p;
        while (*end && *end != ',' && *end != ')')
            end = *end == '(' || *end == '{' ? (hlo_close(end) ? hlo_close(end) : "") : end + 1;
        const char *loc = param_loc(h, p, end, &n);
        if (!loc)
            return fail(E_USAGE,
                        "%s does not name its arguments; write it with "
                        "jax.jit(loss).lower(params, batch).as_text(debug_info=True)",
                        program->path);
        ExportedInput in = { .name = hlo_path(h, loc, n, &root), .persistent = true, .tied = -1 };
        first = first ? first : root;
        bool param = !strcmp(root, first) && !type.bits;
        in.kind = param ? EX_PARAMETER : EX_USER_INPUT;
        if (!param && strcmp(in.name, root) != 0)
            in.name = exported_text(h->in, pool_print(h->in->temp, "%s.%s", root, in.name));
        in.value = value_add(h, in.name, &type, -1);
        results_add(h, args, in.value);
        program->values[in.value].requires_grad = param;
        VEC_ADD(h->in->pool, program->inputs, program->n_inputs, cap, in);
        p = end;
        hlo_next(&p, ",");
    }
    freeze_others(program);
    return OK;
}

static Err module(Hlo *h, const char *text)
{
    Exported *program = h->in->program;
    Results   args = { 0 }, out = { 0 };
    VEC_ADD(h->in->pool, program->regions, program->n_regions, program->cap_regions, (Region){ 0 });
    TRY(functions(h, text));
    const NameSlot *main = name_slot_find(&h->funcs, "main");
    if (!main)
        return fail(E_FORMAT,
                    "%s holds no function @main: it is not StableHLO text; write it with "
                    "jax.jit(loss).lower(params, batch).as_text(debug_info=True)",
                    program->path);
    TRY(parameters(h, main->item, &args));
    TRY(inlined(h, "main", args.at, args.n, &out));
    program->outputs = NEWN(h->in->pool, ExportedOutput, out.n + 1);
    for (int32_t i = 0; i < out.n; i++) {
        int32_t *value = NEW(h->in->pool, int32_t);
        *value = out.at[i];
        program->outputs[program->n_outputs++] =
            (ExportedOutput){ .kind = EX_USER_OUTPUT,
                              .arg = { .name = "", .kind = ARG_VALUE, .n = 1, .values = value } };
    }
    return OK;
}

Err hlo_parse(Pool *pool, const char *name, const char *text, Exported **out)
{
    Exported *program = NEW(pool, Exported);
    *out = program;
    program->pool = pool;
    program->path = pool_text(pool, name);
    program->torch_version = "";
    program->jax = true;
    ExportedIn in = { .pool = pool,
                      .temp = pool_new(NULL, "stablehlo workspace"),
                      .program = program };
    Hlo        h = { .in = &in };
    Err        err = module(&h, text);
    pool_free(in.temp);
    return err;
}

bool hlo_is_file(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && dot > path && (!strcmp(dot, ".mlir") || !strcmp(dot, ".stablehlo"));
}

Err hlo_read(Pool *pool, const char *path, Exported **out)
{
    char  *text;
    size_t n;
    Pool  *work = pool_new(pool, "stablehlo text");
    TRY(file_read(work, path, &text, &n));
    if (n > 4 && !memcmp(text, "ML\xefR", 4))
        return fail(E_FORMAT, "%s is MLIR bytecode; write the text, with as_text(debug_info=True)",
                    path);
    Err err = hlo_parse(pool, path, text, out);
    pool_free(work);
    return err;
}
