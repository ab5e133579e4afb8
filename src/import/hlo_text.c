/* hlo_text.c -- words, types and literals of StableHLO text. */
#include "import/hlo_int.h"

#include "base/endian.h"
#include "base/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const int64_t MAX_ELEMENTS = (int64_t)1 << 40;

Err hlo_fail(const Hlo *h, const char *at, const char *what)
{
    size_t n = strcspn(at, "\n");
    return fail(E_FORMAT, "%s: %s at '%.*s'", h->in->program->path, what, (int)(n < 60 ? n : 60),
                at);
}

const char *hlo_skip(const char *p)
{
    for (;;) {
        p += strspn(p, " \t\r\n");
        if (p[0] != '/' || p[1] != '/')
            return p;
        p += strcspn(p, "\n");
    }
}

bool hlo_next(const char **p, const char *word)
{
    const char *at = hlo_skip(*p);
    size_t      n = strlen(word);
    if (strncmp(at, word, n) != 0)
        return false;
    *p = at + n;
    return true;
}

size_t hlo_name_length(const char *p)
{
    size_t n = 0;
    while (isalnum((unsigned char)p[n]) || p[n] == '_' || p[n] == '.' || p[n] == '$' ||
           (p[n] == '-' && n && p[n + 1] != '>'))
        n++;
    return n;
}

const char *hlo_string_end(const char *p)
{
    for (p++; *p && *p != '"'; p++)
        if (*p == '\\' && p[1])
            p++;
    return *p ? p + 1 : p;
}

const char *hlo_close(const char *p)
{
    int depth = 0;
    for (; *p; p++) {
        if (*p == '"') {
            p = hlo_string_end(p);
            if (!*p)
                return NULL;
            p--;
        } else if (*p == '{' || *p == '(' || *p == '[') {
            depth++;
        } else if (*p == '}' || *p == ')' || *p == ']') {
            if (!--depth)
                return p + 1;
        }
    }
    return NULL;
}

Err hlo_int(Hlo *h, const char **p, int64_t *value)
{
    const char *at = hlo_skip(*p);
    char       *end;
    errno = 0;
    long long x = strtoll(at, &end, 10);
    if (end == at || errno)
        return hlo_fail(h, at, "a whole number is expected");
    *value = x;
    *p = end;
    return OK;
}

/* ---- types ---- */

static const struct {
    const char  *name;
    ExportedType type;
    int          bits;
} elements[] = { { "f32", EX_F32, 0 },   { "bf16", EX_BF16, 0 }, { "f16", EX_F16, 0 },
                 { "f64", EX_F64, 0 },   { "i1", EX_BOOL, 1 },   { "i8", EX_I8, -8 },
                 { "i16", EX_I16, -16 }, { "i32", EX_I32, -32 }, { "i64", EX_I64, -64 },
                 { "ui8", EX_U8, 8 },    { "ui16", EX_I32, 16 }, { "ui32", EX_I64, 32 },
                 { "ui64", EX_I64, 64 } };

static Err element_type(Hlo *h, const char **p, HloType *type)
{
    size_t n = hlo_name_length(*p);
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
        if (n == strlen(elements[i].name) && !strncmp(*p, elements[i].name, n)) {
            type->type = elements[i].type;
            type->bits = elements[i].bits;
            *p += n;
            return OK;
        }
    return fail(E_USAGE, "%s: elements of type '%.*s' are not supported", h->in->program->path,
                (int)strcspn(*p, ">,) \n"), *p);
}

Err hlo_type(Hlo *h, const char **p, HloType *type)
{
    *type = (HloType){ .count = 1 };
    if (!hlo_next(p, "tensor<"))
        return hlo_fail(h, hlo_skip(*p), "a tensor type is expected");
    while (isdigit((unsigned char)**p) || **p == '?') {
        if (**p == '?')
            return fail(E_USAGE,
                        "%s: a size depends on the data; lower the loss for arrays of fixed sizes",
                        h->in->program->path);
        int64_t size;
        TRY(hlo_int(h, p, &size));
        if (**p != 'x' || type->rank == HLO_RANK)
            return hlo_fail(h, *p, "a tensor type is damaged");
        (*p)++;
        type->size[type->rank++] = size;
        if (size && type->count > MAX_ELEMENTS / size)
            return hlo_fail(h, *p, "a tensor has too many elements");
        type->count *= size;
    }
    TRY(element_type(h, p, type));
    return hlo_next(p, ">") ? OK : hlo_fail(h, *p, "a tensor type is damaged");
}

/* ---- literals ---- */

typedef struct Literal {
    double *f;
    SymInt *i;
    int32_t n, cap_f, cap_i;
    bool    floats;
} Literal;

static void literal_add(Hlo *h, Literal *l, double f, int64_t i)
{
    int32_t n = l->n;
    if (l->floats)
        VEC_ADD(h->in->pool, l->f, l->n, l->cap_f, f);
    else
        VEC_ADD(h->in->pool, l->i, n, l->cap_i, (SymInt){ .value = i });
    l->n = l->floats ? l->n : n;
}

/* 0xFF800000: the bits of a float, highest first. */
static double bits_float(ExportedType type, uint64_t bits)
{
    unsigned char bytes[8];
    little_put(bytes, bits, 8);
    return exported_float(type, (const char *)bytes);
}

static Err literal_number(Hlo *h, const char **p, const HloType *type, Literal *l)
{
    char *end;
    if (hlo_next(p, "true") || hlo_next(p, "false")) {
        literal_add(h, l, 0, (*p)[-2] == 'u');
        return OK;
    }
    const char *at = hlo_skip(*p);
    errno = 0;
    if (l->floats && at[0] == '0' && at[1] == 'x') {
        literal_add(h, l, bits_float(type->type, strtoull(at, &end, 16)), 0);
    } else if (l->floats) {
        double x = strtod(at, &end);
        literal_add(h, l, type->type == EX_F32 ? (double)(float)x : x, 0);
        errno = 0;
    } else {
        literal_add(h, l, 0, *at == '-' ? strtoll(at, &end, 10) : (int64_t)strtoull(at, &end, 10));
    }
    if (end == at || errno)
        return hlo_fail(h, at, "a number is expected");
    *p = end;
    return OK;
}

/* "0x00000080...": the bytes of all elements, or of one. */
static Err literal_bytes(Hlo *h, const char **p, const HloType *type, Literal *l)
{
    const char *at = hlo_skip(*p) + 1, *end = hlo_string_end(at - 1);
    if (strncmp(at, "0x", 2) != 0 || !*end)
        return hlo_fail(h, at, "bytes of a constant are expected");
    at += 2;
    size_t  digits = (size_t)(end - 1 - at);
    int     bytes = type->bits ? (abs(type->bits) + 7) / 8 : exported_type_bytes(type->type);
    int64_t n = (int64_t)(digits / 2) / (bytes ? bytes : 1);
    bool    packed = type->type == EX_BOOL && n != type->count && n == (type->count + 7) / 8;
    if (!bytes || digits % 2)
        return hlo_fail(h, at, "the bytes of a constant are damaged");
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = 0;
        for (int k = 0; k < bytes; k++) {
            int high = hex_digit(at[0]), low = hex_digit(at[1]);
            if (high < 0 || low < 0)
                return hlo_fail(h, at, "the bytes of a constant are damaged");
            bits |= (uint64_t)(high << 4 | low) << (8 * k);
            at += 2;
        }
        int shift = 64 - 8 * bytes;
        for (int k = 0; packed && k < 8 && l->n < type->count; k++)
            literal_add(h, l, 0, bits >> k & 1);
        if (!packed)
            literal_add(h, l, l->floats ? bits_float(type->type, bits) : 0,
                        type->type == EX_BOOL ? bits != 0
                        : type->bits < 0      ? (int64_t)(bits << shift) >> shift
                                              : (int64_t)bits);
    }
    *p = end;
    return OK;
}

Err hlo_dense(Hlo *h, const char **p, const HloType *type, ExportedArg *out)
{
    Literal l = { .floats = !type->bits };
    if (*hlo_skip(*p) == '"') {
        TRY(literal_bytes(h, p, type, &l));
    } else {
        while (*hlo_skip(*p) && *hlo_skip(*p) != '>') {
            if (hlo_next(p, "[") || hlo_next(p, "]") || hlo_next(p, ","))
                continue;
            TRY(literal_number(h, p, type, &l));
        }
    }
    if (!hlo_next(p, ">"))
        return hlo_fail(h, *p, "a constant does not end");
    if (l.n != type->count && l.n != 1)
        return hlo_fail(h, *p, "a constant has another number of elements than its type");
    *out = (ExportedArg){ .name = "value",
                          .kind = l.floats ? ARG_FLOATS : ARG_INTS,
                          .n = l.n,
                          .floats = l.f,
                          .ints = l.i };
    return OK;
}

ExportedArg hlo_arg(Hlo *h, const char *name, const int64_t *values, int32_t n)
{
    SymInt *list = NEWN(h->in->pool, SymInt, n + 1);
    for (int32_t i = 0; i < n; i++)
        list[i].value = values[i];
    return (ExportedArg){ .name = name, .kind = ARG_INTS, .n = n, .ints = list };
}

Err hlo_list(Hlo *h, const char **p, ExportedArg *out)
{
    enum { MAX_LIST = 4 * HLO_RANK };
    int64_t values[MAX_LIST];
    int     n = 0, depth = 0;
    do {
        if (hlo_next(p, "[")) {
            depth++;
        } else if (hlo_next(p, "]")) {
            depth--;
        } else if (hlo_next(p, ",")) {
            continue;
        } else if (n == MAX_LIST) {
            return hlo_fail(h, *p, "a list is too long");
        } else if (hlo_next(p, "true") || hlo_next(p, "false")) {
            values[n++] = (*p)[-2] == 'u';
        } else {
            TRY(hlo_int(h, p, &values[n++]));
        }
    } while (depth);
    *out = hlo_arg(h, "", values, n);
    return OK;
}

/* ---- names and lines ---- */

const char *hlo_path(Hlo *h, const char *text, size_t n, const char **root)
{
    const char *end = text + n, *p = text;
    char       *name = pool_textn(h->in->temp, text, n), *to = name;
    while (p < end && *p != '[' && *p != '.')
        p++;
    *root = exported_textn(h->in, text, (size_t)(p - text));
    while (p < end) {
        if (*p == '[' || *p == '.') { /* ['key'], [3] or .attribute */
            if (to > name && to[-1] != '.')
                *to++ = '.';
            p += *p == '[' && p + 1 < end && (p[1] == '\'' || p[1] == '"') ? 2 : 1;
        } else if ((*p == '\'' || *p == '"') && p + 1 < end && p[1] == ']') {
            p += 2;
        } else if (*p == ']') {
            p++;
        } else {
            *to++ = *p++;
        }
    }
    return to > name ? exported_textn(h->in, name, (size_t)(to - name)) : *root;
}

static bool source_is_library(const char *path, size_t n)
{
    static const char *const parts[] = { "-packages/", "/jax/_src/", "/flax/linen/" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (size_t k = 0; k + strlen(parts[i]) <= n; k++)
            if (!strncmp(path + k, parts[i], strlen(parts[i])))
                return true;
    return *path == '<';
}

/* "FILE":12:8, or references to other places, the innermost first. */
void hlo_source(Hlo *h, const char *loc, size_t n, ExportedCall *call, int depth)
{
    const char *end = loc + n;
    for (const char *p = loc; p < end && !call->file && depth < 32;) {
        if (*p == '"') {
            const char *close = hlo_string_end(p);
            if (*close == ':' && isdigit((unsigned char)close[1]) &&
                !source_is_library(p + 1, (size_t)(close - p - 2))) {
                call->path = exported_textn(h->in, p + 1, (size_t)(close - p - 2));
                const char *slash = strrchr(call->path, '/');
                call->file = slash && slash[1] ? slash + 1 : call->path;
                call->line = atoi(close + 1);
            }
            p = close;
        } else if (*p == '#') {
            size_t          m = 1 + hlo_name_length(p + 1);
            const NameSlot *slot = name_slot_find(&h->locs, exported_textn(h->in, p, m));
            const char     *text = slot ? slot->item : NULL;
            if (text)
                hlo_source(h, text, strcspn(text, "\n"), call, depth + 1);
            p += m;
        } else {
            p++;
        }
    }
}
