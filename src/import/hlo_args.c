/* hlo_args.c -- one statement of StableHLO: operands, attributes, types.
 *
 * Operators are printed in many forms, but all are made of the same parts: %operands, `key = value`
 * with lists, numbers or words, lone words, a slice [0:4:2], a body in braces, and the types after a
 * colon. Each part is read wherever it stands; keys of nested groups are read as if they stood
 * outside. */
#include "import/hlo_int.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static void add(Hlo *h, HloStatement *s, const char *name, ExportedArg arg)
{
    arg.name = name;
    VEC_ADD(h->in->pool, s->args, s->n_args, s->cap_args, arg);
}

static void add_text(Hlo *h, HloStatement *s, const char *name, const char *text, size_t n)
{
    add(h, s, name,
        (ExportedArg){ .kind = ARG_TEXT, .n = 1, .text = exported_textn(h->in, text, n) });
}

const ExportedArg *hlo_statement_arg(const HloStatement *s, const char *name)
{
    for (int32_t i = 0; i < s->n_args; i++)
        if (!strcmp(s->args[i].name, name))
            return &s->args[i];
    return NULL;
}

/* [0:4, 2:10:2] as start, limit and stride. */
static Err slice(Hlo *h, const char **p, HloStatement *s)
{
    int64_t part[3][HLO_RANK];
    int     n = 0;
    for ((*p)++; !hlo_next(p, "]"); n++) {
        if (n == HLO_RANK)
            return hlo_fail(h, *p, "a slice has too many axes");
        part[2][n] = 1;
        for (int k = 0; k < 3; k++) {
            TRY(hlo_int(h, p, &part[k][n]));
            if (!hlo_next(p, ":"))
                break;
        }
        hlo_next(p, ",");
    }
    add(h, s, "start", hlo_arg(h, "", part[0], n));
    add(h, s, "limit", hlo_arg(h, "", part[1], n));
    add(h, s, "stride", hlo_arg(h, "", part[2], n));
    return OK;
}

/* [0, 1] or [0] x [1]: the second is "key.rhs". */
static Err lists(Hlo *h, const char **p, HloStatement *s, const char *key)
{
    ExportedArg list;
    const char *at = *p;
    if (!strcmp(key, "dim_numbers") || isalpha((unsigned char)at[1]) || at[1] == '#') {
        const char *end = hlo_close(at); /* words: kept as they are */
        while (end && (hlo_next(&end, "x[") || hlo_next(&end, "->[")))
            end = hlo_close(end - 1);
        if (!end)
            return hlo_fail(h, at, "a list does not end");
        if (strncmp(at + 1, "true", 4) && strncmp(at + 1, "false", 5)) {
            add_text(h, s, key, at, (size_t)(end - at));
            *p = end;
            return OK;
        }
    }
    TRY(hlo_list(h, p, &list));
    add(h, s, key, list);
    at = hlo_skip(*p);
    if (*at == 'x' && *hlo_skip(at + 1) == '[') {
        *p = hlo_skip(at + 1);
        TRY(hlo_list(h, p, &list));
        add(h, s, exported_text(h->in, pool_print(h->in->temp, "%s.rhs", key)), list);
    }
    return OK;
}

/* array<i64: 1, 2> */
static Err array(Hlo *h, const char **p, HloStatement *s, const char *key)
{
    int64_t values[HLO_RANK];
    int     n = 0;
    *p += strcspn(*p, ":>\n");
    if (!hlo_next(p, ">")) {
        if (!hlo_next(p, ":"))
            return hlo_fail(h, *p, "an array is damaged");
        while (!hlo_next(p, ">")) {
            if (n == HLO_RANK)
                return hlo_fail(h, *p, "an array is too long");
            if (hlo_next(p, "true") || hlo_next(p, "false"))
                values[n++] = (*p)[-2] == 'u';
            else
                TRY(hlo_int(h, p, &values[n++]));
            hlo_next(p, ",");
        }
    }
    add(h, s, key, hlo_arg(h, "", values, n));
    return OK;
}

/* dense<...> : tensor<...>. The type stands behind the elements that it describes. */
static Err dense(Hlo *h, const char **p, HloStatement *s, const char *key, bool result)
{
    const char *begin = *p, *at = begin;
    HloType     type;
    while (*at && *at != '>')
        at = *at == '"' ? hlo_string_end(at) : at + 1;
    if (!hlo_next(&at, ">") || !hlo_next(&at, ":"))
        return hlo_fail(h, begin, "a constant is damaged");
    TRY(hlo_type(h, &at, &type));
    ExportedArg value;
    TRY(hlo_dense(h, p, &type, &value));
    if (value.n == 1 && type.count != 1 && !result && type.count <= HLO_RANK &&
        value.kind == ARG_INTS) {
        int64_t all[HLO_RANK];
        for (int64_t i = 0; i < type.count; i++)
            all[i] = value.ints[0].value;
        value = hlo_arg(h, "", all, (int32_t)type.count);
    }
    add(h, s, key, value);
    if (result)
        VEC_ADD(h->in->temp, s->types, s->n_types, s->cap_types, type);
    *p = at;
    return OK;
}

static Err number(Hlo *h, const char **p, HloStatement *s, const char *key)
{
    char   *end;
    double  x = strtod(*p, &end);
    int64_t whole = strtoll(*p, NULL, 10);
    if (end == *p)
        return hlo_fail(h, *p, "a value is expected");
    if (memchr(*p, '.', (size_t)(end - *p))) {
        double *f = NEW(h->in->pool, double);
        *f = x;
        add(h, s, key, (ExportedArg){ .kind = ARG_FLOAT, .n = 1, .floats = f });
    } else {
        ExportedArg one = hlo_arg(h, "", &whole, 1);
        one.kind = ARG_INT;
        add(h, s, key, one);
    }
    *p = end;
    const char *type = end; /* 1 : i64 */
    if (hlo_next(&type, ":") &&
        (hlo_next(&type, "i") || hlo_next(&type, "f") || hlo_next(&type, "ui") ||
         hlo_next(&type, "si")) &&
        isdigit((unsigned char)*type))
        *p = type + hlo_name_length(type);
    return OK;
}

static Err attribute(Hlo *h, const char **p, HloStatement *s, const char *key)
{
    const char *at = hlo_skip(*p);
    *p = at;
    if (*at == '[')
        return lists(h, p, s, key);
    if (*at == '{' || *at == '#' || *at == '<')
        return OK; /* its keys follow */
    if (hlo_next(p, "array<"))
        return array(h, p, s, key);
    if (hlo_next(p, "dense<"))
        return dense(h, p, s, key, false);
    if (*at == '"') {
        const char *end = hlo_string_end(at);
        if (!*end)
            return hlo_fail(h, at, "a text does not end");
        add_text(h, s, key, at + 1, (size_t)(end - at - 2));
        *p = end;
        return OK;
    }
    if (isdigit((unsigned char)*at) || *at == '-')
        return number(h, p, s, key);
    at += *at == '@';
    size_t n = hlo_name_length(at);
    if (!n)
        return hlo_fail(h, at, "a value is expected");
    if (!strncmp(at, "true", 4) || !strncmp(at, "false", 5)) {
        int64_t     yes = *at == 't';
        ExportedArg one = hlo_arg(h, "", &yes, 1);
        one.kind = ARG_BOOL;
        add(h, s, key, one);
    } else {
        add_text(h, s, key, at, n);
    }
    *p = at + n;
    return OK;
}

/* A body of one operator and a return: "stablehlo.add". Others: "". */
static Err body(Hlo *h, const char **p, HloStatement *s)
{
    const char *end = hlo_close(*p), *at = *p + 1, *name = "";
    size_t      n = 0;
    if (!end)
        return hlo_fail(h, *p, "a body does not end");
    at = hlo_skip(at);
    if (*at == '^') {
        at += strcspn(at, "(\n");
        at = *at == '(' && hlo_close(at) ? hlo_close(at) : at;
        hlo_next(&at, ":");
    }
    at = hlo_skip(at);
    if (*at == '%') {
        at += 1 + hlo_name_length(at + 1);
        if (hlo_next(&at, "=")) {
            name = hlo_skip(at);
            name += *name == '"';
            n = hlo_name_length(name);
            at = name + strcspn(name, "\n");
            const char *back = hlo_skip(at);
            if (strncmp(back, "stablehlo.return", 16) != 0 || back > end)
                n = 0;
        }
    }
    if (!hlo_statement_arg(s, "body"))
        add_text(h, s, "body", name, n);
    *p = end;
    return OK;
}

static Err word(Hlo *h, const char **p, HloStatement *s)
{
    const char *at = *p;
    size_t      n = hlo_name_length(at);
    if (!n)
        return hlo_fail(h, at, "this is not expected");
    *p = at + n;
    const char *next = hlo_skip(*p);
    if (*next == '=' && next[1] != '=') {
        *p = next + 1;
        return attribute(h, p, s, exported_textn(h->in, at, n));
    }
    if (n == 4 && !strncmp(at, "init", 4) && *next == ':')
        *p = next + 1;
    else if (n == 7 && !strncmp(at, "applies", 7)) {
        next = hlo_skip(*p);
        n = hlo_name_length(next);
        add_text(h, s, "body", next, n);
        *p = next + n;
    } else if (n == 5 && !strncmp(at, "dense", 5) && *next == '<') {
        *p = next + 1;
        return dense(h, p, s, "value", true);
    } else if (!strncmp(at, "stablehlo.", 10) || !strncmp(at, "array", 5)) {
        return OK; /* #stablehlo.gather<, #stablehlo<precision DEFAULT> */
    } else if (!hlo_statement_arg(s, "word")) {
        add_text(h, s, "word", at, n);
    }
    return OK;
}

static Err types(Hlo *h, const char **p, HloStatement *s)
{
    for (;;) {
        while (hlo_next(p, "(") || hlo_next(p, ")") || hlo_next(p, ","))
            ;
        if (hlo_next(p, "->")) {
            s->n_types = 0; /* what stood before are the operands' */
            continue;
        }
        const char *at = hlo_skip(*p);
        if (strncmp(at, "tensor<", 7) != 0)
            return OK;
        HloType type;
        TRY(hlo_type(h, p, &type));
        VEC_ADD(h->in->temp, s->types, s->n_types, s->cap_types, type);
    }
}

Err hlo_statement(Hlo *h, const char **p, HloFind find, void *scope, HloStatement *s)
{
    for (;;) {
        const char *at = hlo_skip(*p);
        *p = at;
        if (*at == ':') {
            (*p)++;
            return types(h, p, s);
        }
        if (!*at || s->n_types) /* of a constant, whose type stands with its elements */
            return OK;
        if (*at == '%') {
            size_t n = hlo_name_length(at + 1) + 1;
            if (at[n] == '#')
                n += 1 + hlo_name_length(at + n + 1);
            int32_t value = -1;
            TRY(find(scope, at, n, &value));
            VEC_ADD(h->in->temp, s->operand, s->n_operands, s->cap_operands, value);
            *p = at + n;
        } else if (*at == '@') {
            size_t n = hlo_name_length(at + 1);
            s->callee = exported_textn(h->in, at + 1, n);
            *p = at + 1 + n;
        } else if (*at == '"') {
            *p = hlo_string_end(at);
        } else if (*at == '[') {
            TRY(slice(h, p, s));
        } else if (*at == '{' && at[-1] == '(') {
            TRY(body(h, p, s));
        } else if (strchr("(){}<>,#", *at)) {
            (*p)++;
        } else {
            TRY(word(h, p, s));
        }
    }
}
