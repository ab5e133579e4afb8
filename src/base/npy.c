/* npy.c -- .npy files: magic, version, a Python dictionary of three keys, then the bytes. */
#include "base/npy.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

enum {
    NPY_HEADER_MAX = 1 << 20,
    NPY_HEAD = 1024 /* 32 dimensions of 19 digits are 672 */
};

size_t npy_type_bytes(NpyType type)
{
    static const size_t bytes[] = {
#define X(name, descr, size) size,
        NPY_LIST(X)
#undef X
    };
    return bytes[type];
}

const char *npy_type_name(NpyType type)
{
    static const char *const names[] = {
#define X(name, descr, size) descr,
        NPY_LIST(X)
#undef X
    };
    return names[type];
}

typedef struct NpyIn {
    const char *name, *start, *at, *end; /* the header's text */
} NpyIn;

static Err npy_fail(const NpyIn *in, const char *expected)
{
    return fail(E_FORMAT, "%s: the header is not as numpy writes it: expected %s at its byte %td",
                in->name, expected, in->at - in->start);
}

static void npy_skip(NpyIn *in)
{
    while (in->at < in->end && (*in->at == ' ' || *in->at == '\n' || *in->at == '\t'))
        in->at++;
}

/* Takes the mark if it is next. */
static bool npy_take(NpyIn *in, char mark)
{
    npy_skip(in);
    if (in->at == in->end || *in->at != mark)
        return false;
    in->at++;
    return true;
}

static bool npy_take_word(NpyIn *in, const char *word)
{
    size_t n = strlen(word);
    npy_skip(in);
    if ((size_t)(in->end - in->at) < n || memcmp(in->at, word, n) != 0)
        return false;
    in->at += n;
    return true;
}

/* A quoted word of a few letters; nothing numpy writes here has escapes. */
static Err npy_word(NpyIn *in, char *word, size_t room)
{
    size_t n = 0;
    npy_skip(in);
    if (in->at == in->end || (*in->at != '\'' && *in->at != '"'))
        return npy_fail(in, "a text in quotes");
    char quote = *in->at++;
    for (; in->at < in->end && *in->at != quote; in->at++) {
        if (n + 1 == room || *in->at == '\\' || (unsigned char)*in->at < 0x20)
            return npy_fail(in, "a short text");
        word[n++] = *in->at;
    }
    if (in->at == in->end)
        return npy_fail(in, "a closing quote");
    in->at++;
    word[n] = '\0';
    return OK;
}

static Err npy_descr(NpyIn *in, Npy *out)
{
    char word[40];
    npy_skip(in);
    if (in->at < in->end && *in->at == '[')
        return fail(E_FORMAT, "%s: an array of records is not read; save its fields one by one",
                    in->name);
    TRY(npy_word(in, word, sizeof word));
    for (int t = 0; t < NPY_COUNT; t++) {
        if (!*word || strcmp(word + 1, npy_type_name((NpyType)t)) != 0)
            continue;
        bool single = npy_type_bytes((NpyType)t) == 1;
        if (*word == '<' || (single && (*word == '|' || *word == '>'))) {
            out->type = (NpyType)t;
            return OK;
        }
        if (*word == '>')
            return fail(E_FORMAT, "%s: its numbers are big endian (%s); save array.astype('<%s')",
                        in->name, word, word + 1);
    }
    if (!strcmp(word, "|O"))
        return fail(E_FORMAT, "%s: it holds Python objects, not numbers; save a plain array",
                    in->name);
    if (word[0] && (word[1] == 'U' || word[1] == 'S'))
        return fail(E_FORMAT,
                    "%s: it holds texts (%s), not numbers; save numpy.unique(array, "
                    "return_inverse=True)[1], which numbers them",
                    in->name, word);
    return fail(E_FORMAT,
                "%s: the dtype '%s' is not read; save array.astype('<f4') or another of "
                "f4 f8 f2 i1 i2 i4 i8 u1 u2 b1",
                in->name, word);
}

static Err npy_number(NpyIn *in, int64_t *out)
{
    const char *first = in->at;
    int64_t     value = 0;
    for (; in->at < in->end && *in->at >= '0' && *in->at <= '9'; in->at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *in->at - '0', &value))
            return npy_fail(in, "a dimension below 2^63");
    if (in->at == first || (*first == '0' && in->at - first > 1))
        return npy_fail(in, "a dimension, not negative");
    *out = value;
    return OK;
}

/* A tuple: (), (3,) or (3, 4); (3) would be a number in Python. */
static Err npy_shape(NpyIn *in, Npy *out)
{
    bool comma = false;
    out->rank = 0;
    if (!npy_take(in, '('))
        return npy_fail(in, "'(' of a shape such as (3, 4)");
    while (!npy_take(in, ')')) {
        if (out->rank == NPY_MAX_RANK)
            return fail(E_FORMAT, "%s: more than %d dimensions", in->name, NPY_MAX_RANK);
        if (out->rank && !comma)
            return npy_fail(in, "',' or ')'");
        TRY(npy_number(in, &out->shape[out->rank]));
        out->rank++;
        comma = npy_take(in, ',');
    }
    return out->rank == 1 && !comma ? npy_fail(in, "(n,) with its comma") : OK;
}

static Err npy_dictionary(NpyIn *in, Npy *out, bool *fortran)
{
    static const char *const keys[] = { "descr", "fortran_order", "shape" };
    unsigned                 seen = 0;
    bool                     comma = true;
    if (!npy_take(in, '{'))
        return npy_fail(in, "'{'");
    while (!npy_take(in, '}')) {
        char     word[40];
        unsigned k = 0;
        if (!comma)
            return npy_fail(in, "',' or '}'");
        TRY(npy_word(in, word, sizeof word));
        while (k < 3 && strcmp(word, keys[k]) != 0)
            k++;
        if (k == 3 || seen >> k & 1)
            return fail(E_FORMAT, "%s: the header has '%s' %s", in->name, word,
                        k == 3 ? "besides descr, fortran_order and shape" : "twice");
        seen |= 1u << k;
        if (!npy_take(in, ':'))
            return npy_fail(in, "':'");
        npy_skip(in);
        if (k == 0)
            TRY(npy_descr(in, out));
        else if (k == 2)
            TRY(npy_shape(in, out));
        else if (!(*fortran = npy_take_word(in, "True")) && !npy_take_word(in, "False"))
            return npy_fail(in, "True or False");
        comma = npy_take(in, ',');
    }
    npy_skip(in);
    if (in->at != in->end)
        return npy_fail(in, "nothing after '}'");
    for (unsigned k = 0; k < 3; k++)
        if (!(seen >> k & 1))
            return fail(E_FORMAT, "%s: the header lacks '%s'", in->name, keys[k]);
    return OK;
}

/* Fortran order is C order if at most one dimension is longer than 1. */
static bool npy_same_order(const Npy *array)
{
    int longer = 0;
    for (int i = 0; i < array->rank; i++)
        longer += array->shape[i] > 1;
    return longer <= 1;
}

static Err npy_size(const char *name, Npy *array)
{
    int64_t bytes = (int64_t)npy_type_bytes(array->type);
    array->count = 1;
    for (int i = 0; i < array->rank; i++)
        if (__builtin_mul_overflow(array->count, array->shape[i], &array->count) ||
            __builtin_mul_overflow(bytes, array->shape[i], &bytes))
            return fail(E_FORMAT, "%s: its shape has more bytes than can be counted", name);
    array->n_bytes = (size_t)bytes;
    return OK;
}

Err npy_parse(const char *name, const void *bytes, size_t n, Npy *out)
{
    const unsigned char *file = bytes;
    bool                 fortran = false;
    *out = (Npy){ 0 };
    if (n < 10 || memcmp(file, "\x93NUMPY", 6) != 0)
        return fail(E_FORMAT, "%s: this is not a .npy file (%zu bytes); make one with numpy.save",
                    name, n);
    unsigned major = file[6], minor = file[7];
    if (major < 1 || major > 3 || minor != 0)
        return fail(E_FORMAT, "%s: .npy version %u.%u is not read, only 1.0, 2.0 and 3.0", name,
                    major, minor);
    size_t before = major == 1 ? 10 : 12, length = file[8] | (size_t)file[9] << 8;
    if (major > 1) {
        if (n < before)
            return fail(E_FORMAT, "%s: the file ends within its header; is it complete?", name);
        length |= (size_t)file[10] << 16 | (size_t)file[11] << 24;
    }
    if (length > NPY_HEADER_MAX)
        return fail(E_FORMAT, "%s: a header of %zu bytes is more than the %d allowed", name, length,
                    NPY_HEADER_MAX);
    if (length > n - before)
        return fail(E_FORMAT, "%s: the file ends within its header of %zu bytes; is it complete?",
                    name, length);

    const char *text = (const char *)file + before;
    NpyIn       in = { name, text, text, text + length };
    TRY(npy_dictionary(&in, out, &fortran));
    TRY(npy_size(name, out));
    if (fortran && !npy_same_order(out))
        return fail(E_FORMAT,
                    "%s: it is stored in Fortran order; save "
                    "numpy.ascontiguousarray(array)",
                    name);
    if (out->n_bytes != n - before - length)
        return fail(E_FORMAT,
                    "%s: its shape and type need %zu bytes, the file has %zu after the "
                    "header; is it complete?",
                    name, out->n_bytes, n - before - length);
    out->data = file + before + length;
    return OK;
}

Err npy_read(Pool *pool, const char *path, Npy *out)
{
    MapFile map;
    TRY(file_map(pool, path, &map));
    return npy_parse(map.path, map.bytes, map.n, out);
}

/* Writes the header; returns its length. */
static int npy_head(char *header, size_t room, NpyType type, int rank, const int64_t *shape)
{
    enum { ALIGN = 64 }; /* where numpy lets the data begin */
    int n = 10;
    memcpy(header, "\x93NUMPY\x01", 8);
    n += snprintf(header + n, room - (size_t)n,
                  "{'descr': '%c%s', 'fortran_order': "
                  "False, 'shape': (",
                  npy_type_bytes(type) == 1 ? '|' : '<', npy_type_name(type));
    for (int i = 0; i < rank; i++)
        n += snprintf(header + n, room - (size_t)n, "%s%lld", i ? ", " : "", (long long)shape[i]);
    if (rank == 1)
        header[n++] = ','; /* (3) would be a number */
    n += snprintf(header + n, room - (size_t)n, "), }");
    while ((n + 1) % ALIGN)
        header[n++] = ' ';
    header[n++] = '\n';
    header[8] = (char)(unsigned char)((n - 10) & 0xFF);
    header[9] = (char)(unsigned char)((n - 10) >> 8);
    return n;
}

void npy_head_add(FileOut *out, NpyType type, int rank, const int64_t *shape)
{
    char header[NPY_HEAD];
    REQUIRE(rank >= 0 && rank <= NPY_MAX_RANK);
    file_out_add(out, header, (size_t)npy_head(header, sizeof header, type, rank, shape));
}

Err npy_write(const char *path, NpyType type, int rank, const int64_t *shape, const void *data)
{
    Npy     array = { .type = type, .rank = rank };
    FileOut out;
    REQUIRE(rank >= 0 && rank <= NPY_MAX_RANK);
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 0)
            return fail(E_SHAPE, "%s: dimension %lld is negative", path, (long long)shape[i]);
        array.shape[i] = shape[i];
    }
    TRY(npy_size(path, &array));
    TRY(file_out_init(&out, path));
    npy_head_add(&out, type, rank, shape);
    file_out_add(&out, data, array.n_bytes);
    return file_out_done(&out, OK);
}
