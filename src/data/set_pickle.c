/* set_pickle.c -- images by class in Python's pickles: CIFAR-FS, CIFAR-100, miniImageNet.
 *
 * Only the calls by which numpy saves an array are understood; nothing is executed. */
#include "data/set_array.h"

#include "base/pickle.h"
#include "base/text.h"
#include "data/frames.h"

#include <stdio.h>
#include <string.h>

typedef struct PickleSet {
    Pool                *pool;
    const char          *path;
    const unsigned char *bytes; /* of the whole file */
    size_t               n;
    SetTake             *take;
    void                *to;
} PickleSet;

/* ---- numpy's arrays ---- */

/* numpy 2 has "_core" for "core". */
static bool is_numpy(const Pickle *value, const char *module, const char *name)
{
    char plain[64], core[64];
    snprintf(plain, sizeof plain, "numpy.core.%s %s", module, name);
    snprintf(core, sizeof core, "numpy._core.%s %s", module, name);
    return pickle_is_global(value, plain) || pickle_is_global(value, core);
}

static const Pickle *call_arg(const Pickle *value, uint32_t i)
{
    return value->kind == PICKLE_CALL ? pickle_item(value->call->args, i) : NULL;
}

/* The texts of protocols 0 to 2 hold bytes as characters below 256; with a '\0' among them the
 * reader gives their UTF-8 as bytes. */
static bool latin1_bytes(Pool *pool, const Pickle *text, const char **out, size_t *n)
{
    unsigned char *to = NEWN(pool, unsigned char, text->n + 1);
    *n = 0;
    *out = (char *)to;
    for (uint32_t i = 0; i < text->n; i++) {
        unsigned char c = (unsigned char)text->bytes[i];
        if (c < 0x80)
            to[(*n)++] = c;
        else if ((c == 0xc2 || c == 0xc3) && i + 1 < text->n)
            to[(*n)++] = (unsigned char)((c & 3) << 6 | (text->bytes[++i] & 0x3f));
        else
            return false;
    }
    return true;
}

static bool raw_bytes(Pool *pool, const Pickle *value, const char **out, size_t *n)
{
    if (!value)
        return false;
    if (value->kind == PICKLE_CALL && value->call->callable &&
        pickle_is_global(value->call->callable, "_codecs encode")) {
        const Pickle *text = call_arg(value, 0);
        bool          is_text = text && (text->kind == PICKLE_TEXT || text->kind == PICKLE_BYTES);
        return is_text && latin1_bytes(pool, text, out, n);
    }
    *out = value->bytes;
    *n = value->n;
    return value->kind == PICKLE_BYTES || value->kind == PICKLE_TEXT;
}

/* dtype("u1", ...) with its byte order in the state. */
static bool dtype_read(const Pickle *value, NpyType *type)
{
    const Pickle *name = value ? call_arg(value, 0) : NULL;
    const Pickle *order = name && value->call->state ? pickle_item(value->call->state, 1) : NULL;
    if (!name || name->kind != PICKLE_TEXT ||
        !pickle_is_global(value->call->callable, "numpy dtype"))
        return false;
    if (order && pickle_is_text(order, ">"))
        return false;
    for (int t = 0; t < NPY_COUNT; t++)
        if (pickle_is_text(name, npy_type_name((NpyType)t))) {
            *type = (NpyType)t;
            return true;
        }
    return false;
}

static bool shape_read(const Pickle *shape, Npy *a)
{
    if (!shape || shape->kind != PICKLE_TUPLE || shape->n > 8)
        return false;
    a->rank = (int)shape->n;
    a->count = 1;
    for (uint32_t i = 0; i < shape->n; i++) {
        const Pickle *d = shape->items[i];
        if (d->kind != PICKLE_INT || d->integer < 0 || d->integer > INT32_MAX ||
            (d->integer && a->count > INT64_MAX / 8 / d->integer))
            return false;
        a->shape[i] = d->integer;
        a->count *= d->integer;
    }
    return true;
}

/* An array of numpy: made empty and then given its state, or from a buffer (protocol 5). */
static bool array_read(Pool *pool, const Pickle *value, Npy *a)
{
    const char *data;
    size_t      n;
    if (!value || value->kind != PICKLE_CALL)
        return false;
    const Pickle *callable = value->call->callable, *state = value->call->state;
    *a = (Npy){ 0 };
    if (callable && is_numpy(callable, "multiarray", "_reconstruct")) {
        const Pickle *fortran = state ? pickle_item(state, 3) : NULL;
        if (!fortran || fortran->integer || !shape_read(pickle_item(state, 1), a) ||
            !dtype_read(pickle_item(state, 2), &a->type) ||
            !raw_bytes(pool, pickle_item(state, 4), &data, &n))
            return false;
    } else if (callable && is_numpy(callable, "numeric", "_frombuffer")) {
        const Pickle *order = call_arg(value, 3), *buffer = call_arg(value, 0);
        if (buffer && buffer->kind == PICKLE_CALL && call_arg(buffer, 0)) /* bytearray(...) */
            buffer = call_arg(buffer, 0);
        if ((order && !pickle_is_text(order, "C")) || !shape_read(call_arg(value, 2), a) ||
            !dtype_read(call_arg(value, 1), &a->type) || !raw_bytes(pool, buffer, &data, &n))
            return false;
    } else
        return false;
    a->data = data;
    a->n_bytes = n;
    return n == (size_t)a->count * npy_type_bytes(a->type);
}

/* ---- labels ---- */

/* A whole number of Python, or one of numpy: scalar(dtype, bytes), as list(array) holds them. */
static bool whole_read(Pool *pool, const Pickle *value, int64_t *out)
{
    Npy         a = { 0 };
    const char *bytes;
    size_t      n;
    if (value->kind == PICKLE_INT || value->kind == PICKLE_BOOL) {
        *out = value->integer;
        return true;
    }
    if (value->kind != PICKLE_CALL || !value->call->callable ||
        !is_numpy(value->call->callable, "multiarray", "scalar") ||
        !dtype_read(call_arg(value, 0), &a.type) || a.type < NPY_I1 || a.type > NPY_U2 ||
        !raw_bytes(pool, call_arg(value, 1), &bytes, &n) || n != npy_type_bytes(a.type))
        return false;
    a.data = bytes;
    *out = npy_whole(&a, 0);
    return true;
}

/* The name of a class: a text, bytes or a whole number; NULL: neither. */
static const char *class_name(Pool *pool, const Pickle *key)
{
    int64_t whole;
    if (key->kind == PICKLE_TEXT || key->kind == PICKLE_BYTES)
        return pool_textn(pool, key->bytes, key->n);
    return whole_read(pool, key, &whole) ? pool_print(pool, "class %lld", (long long)whole) : NULL;
}

/* Keys are texts, or bytes where Python 2 wrote them. */
static const Pickle *entry_find(const Pickle *dict, const char *const *keys)
{
    for (; *keys; keys++)
        for (uint32_t i = 0; i + 1 < dict->n; i += 2) {
            const Pickle *key = dict->items[i];
            if ((key->kind == PICKLE_TEXT || key->kind == PICKLE_BYTES) &&
                key->n == strlen(*keys) && !memcmp(key->bytes, *keys, key->n))
                return dict->items[i + 1];
        }
    return NULL;
}

/* Whole numbers: a list or tuple of them, or an array with one axis, of any whole type. */
typedef struct Numbers {
    const Pickle *list; /* NULL: the array */
    Npy           array;
    int64_t       n;
} Numbers;

static bool numbers_read(Pool *pool, const Pickle *value, Numbers *out)
{
    *out = (Numbers){ .list = value, .n = value->n };
    if (value->kind == PICKLE_LIST || value->kind == PICKLE_TUPLE)
        return true;
    out->list = NULL;
    if (!array_read(pool, value, &out->array) || out->array.rank != 1 || out->array.type < NPY_I1 ||
        out->array.type > NPY_U2)
        return false;
    out->n = out->array.count;
    return true;
}

static Err labels_give(const PickleSet *p, const SetArray *array, const Pickle *labels)
{
    Numbers l;
    if (!numbers_read(p->pool, labels, &l) || l.n != array->n)
        return fail(E_FORMAT, "%s: its labels are no list of %lld", p->path, (long long)array->n);
    for (int64_t i = 0; i < array->n; i++) {
        const char *name = l.list ? class_name(p->pool, l.list->items[i])
                                  : pool_print(p->pool, "class %lld",
                                               (long long)npy_whole(&l.array, i));
        if (!name)
            return fail(E_FORMAT, "%s: label %lld is neither a number nor a text", p->path,
                        (long long)i);
        p->take(p->to, name, array, i);
    }
    return OK;
}

/* {class: numbers of its images} */
static Err class_dict_give(const PickleSet *p, const SetArray *array, const Pickle *dict)
{
    dict = pickle_dict(dict);
    for (uint32_t i = 0; dict && i + 1 < dict->n; i += 2) {
        const char *name = class_name(p->pool, dict->items[i]);
        Numbers     of;
        if (!name || !numbers_read(p->pool, dict->items[i + 1], &of))
            return fail(E_FORMAT, "%s: an entry of its class_dict is no list of images", p->path);
        for (int64_t k = 0; k < of.n; k++) {
            int64_t at = -1;
            if (!of.list)
                at = npy_whole(&of.array, k);
            else if (!whole_read(p->pool, of.list->items[k], &at))
                at = -1;
            if (at < 0 || at >= array->n)
                return fail(E_FORMAT, "%s: class %s lists an image beyond the %lld there are",
                            p->path, name, (long long)array->n);
            p->take(p->to, name, array, at);
        }
    }
    return dict ? OK : fail(E_FORMAT, "%s: its class_dict is no dict", p->path);
}

/* ---- the file ---- */

static Err array_of(const PickleSet *p, const char *name, const Pickle *value, SetArray **out,
                    int64_t *n_each)
{
    Npy a;
    if (value->kind == PICKLE_LIST || value->kind == PICKLE_TUPLE)
        return fail(E_FORMAT, "%s: %s is a list of %u; save one array, numpy.stack(x)", p->path,
                    name, value->n);
    if (!array_read(p->pool, value, &a))
        return fail(E_FORMAT,
                    "%s: %s is no array of numpy in C order with little-endian numbers; save "
                    "numpy.ascontiguousarray(x)",
                    p->path, name);
    return set_array_new(p->pool, p->path, name, p->bytes, p->n, &a, out, n_each);
}

static Err classes_give(const PickleSet *p, const Pickle *dict)
{
    for (uint32_t i = 0; i + 1 < dict->n; i += 2) {
        SetArray   *array;
        int64_t     n_each;
        const char *name = class_name(p->pool, dict->items[i]);
        if (!name)
            return fail(E_FORMAT, "%s: a key of its dict is neither a text nor a number", p->path);
        TRY(array_of(p, name, dict->items[i + 1], &array, &n_each));
        set_array_give(p->pool, name, array, n_each, p->take, p->to);
    }
    return OK;
}

Err set_pickle_parse(Pool *pool, const char *path, const void *bytes, size_t n, SetTake *take,
                     void *to)
{
    static const char *const images[] = { "data", "image_data", "images", NULL };
    static const char *const labels[] = { "labels", "fine_labels", "label", NULL };
    static const char *const classes[] = { "class_dict", NULL };
    PickleSet                p = { pool, path, bytes, n, take, to };
    PickleTree               tree;
    SetArray                *array;
    int64_t                  n_each;
    TRY(pickle_parse(pool, path, bytes, n, &tree));
    const Pickle *dict = pickle_dict(tree.root);
    if (!dict || !dict->n)
        return fail(E_FORMAT, "%s is not a dict of classes: {class: uint8 array (n,H,W,C)}", path);
    const Pickle *data = entry_find(dict, images), *label = entry_find(dict, labels);
    const Pickle *by_class = entry_find(dict, classes);
    if (!data || (!label && !by_class))
        return classes_give(&p, dict);
    TRY(array_of(&p, "data", data, &array, &n_each));
    if (n_each)
        return fail(E_FORMAT, "%s: its data has an axis too many", path);
    return label ? labels_give(&p, array, label) : class_dict_give(&p, array, by_class);
}
