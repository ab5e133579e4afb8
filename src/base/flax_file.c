/* flax_file.c -- Flax's tree of arrays in MessagePack.
 *
 * An array is an extension of type 1 (a scalar of NumPy: 3) that holds MessagePack again:
 * [shape, name of the dtype, bytes in row-major order, little endian]. A larger one than CHUNK_BYTES
 * is a map { CHUNKED: true, shape: {"0": n, ...}, chunks: {"0": array, ...} } of flat arrays.
 */
#include "base/flax_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/msgpack.h"
#include "base/text.h"

enum { FLAX_ARRAY = 1, FLAX_SCALAR = 3, FLAX_RANK_MAX = 64, FLAX_NAME_MAX = 512 };

#define CHUNK_BYTES ((size_t)1 << 30)
#define CHUNKED     "__msgpack_chunked_array__"

/* clang-format off */
static const struct {
    const char *name;
    SafeType    type;
} flax_types[] = {
    { "float64", SAFE_F64 }, { "int64", SAFE_I64 },   { "uint64", SAFE_U64 },     { "float32", SAFE_F32 },
    { "int32", SAFE_I32 },   { "uint32", SAFE_U32 },  { "float16", SAFE_F16 },    { "bfloat16", SAFE_BF16 },
    { "int16", SAFE_I16 },   { "uint16", SAFE_U16 },  { "float8_e4m3fn", SAFE_F8_E4M3 },
    { "float8_e5m2", SAFE_F8_E5M2 },                  { "int8", SAFE_I8 },        { "uint8", SAFE_U8 },
    { "bool", SAFE_BOOL },
};
/* clang-format on */

enum { N_FLAX_TYPES = sizeof flax_types / sizeof *flax_types };

typedef struct FlaxIn {
    Pool       *pool, *temp;
    const char *path;
    FlaxFile   *out;
} FlaxIn;

/* ---- reading ---- */

static bool flax_type_find(const MsgPack *name, SafeType *type)
{
    for (int i = 0; i < N_FLAX_TYPES; i++)
        if (msgpack_is_text(name, flax_types[i].name)) {
            *type = flax_types[i].type;
            return true;
        }
    return false;
}

static Err flax_damaged(const FlaxIn *in, const char *name)
{
    return fail(E_FORMAT, "%s: the array %.200s is damaged; write the file again", in->path, name);
}

/* Whole numbers of a list, or of a map's values in their order. */
static bool flax_shape(Pool *pool, const MsgPack *list, int64_t **shape, int *rank)
{
    size_t step = list->kind == MSG_MAP ? 2 : 1, n = list->n / step;
    if ((list->kind != MSG_MAP && list->kind != MSG_ARRAY) || n > FLAX_RANK_MAX)
        return false;
    *rank = (int)n;
    *shape = NEWN(pool, int64_t, n);
    for (size_t i = 0; i < n; i++) {
        const MsgPack *item = &list->items[i * step + step - 1];
        if (item->kind != MSG_INT || item->integer < 0)
            return false;
        (*shape)[i] = item->integer;
    }
    return true;
}

/* false: the bytes are not as many as the shape says. */
static bool flax_size_is(const SafeTensor *t, size_t n_bytes)
{
    int64_t n = (int64_t)safe_type_bytes(t->type);
    for (int i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(n, t->shape[i], &n))
            return false;
    return (uint64_t)n == n_bytes;
}

/* Elements may lie anywhere in the file; kernels want them aligned. */
static const void *flax_aligned(Pool *pool, const unsigned char *bytes, size_t n, SafeType type)
{
    if ((uintptr_t)bytes % safe_type_bytes(type) == 0)
        return bytes;
    void *copy = pool_alloc(pool, n, 1);
    memcpy(copy, bytes, n);
    return copy;
}

static Err flax_array(FlaxIn *in, const char *name, const MsgPack *ext, FlaxTensor *out)
{
    MsgPack  array;
    int64_t *shape = NULL;
    *out = (FlaxTensor){ .tensor = { .name = name } };
    TRY(msgpack_parse(in->temp, in->path, ext->bytes, ext->n, &array));
    if (array.kind != MSG_ARRAY || array.n != 3 || array.items[2].kind != MSG_BYTES ||
        !flax_shape(in->pool, &array.items[0], &shape, &out->tensor.rank))
        return flax_damaged(in, name);
    out->tensor.shape = shape;
    if (!flax_type_find(&array.items[1], &out->tensor.type)) {
        const MsgPack *type = &array.items[1];
        bool           text = type->kind == MSG_TEXT || type->kind == MSG_BYTES;
        out->wrong = pool_print(in->pool, "it holds %.*s",
                                text ? (int)(type->n < 40 ? type->n : 40) : 7,
                                text ? (const char *)type->bytes : "nothing");
        return OK;
    }
    out->tensor.n_bytes = array.items[2].n;
    if (!flax_size_is(&out->tensor, array.items[2].n))
        return flax_damaged(in, name);
    out->tensor.data = flax_aligned(in->pool, array.items[2].bytes, array.items[2].n,
                                    out->tensor.type);
    return OK;
}

static Err flax_chunks(FlaxIn *in, const char *name, const MsgPack *map, FlaxTensor *out)
{
    const MsgPack *shape = msgpack_get(map, "shape"), *chunks = msgpack_get(map, "chunks");
    int64_t       *size = NULL;
    size_t         bytes = 0;
    *out = (FlaxTensor){ .tensor = { .name = name } };
    if (!shape || !chunks || chunks->kind != MSG_MAP || !chunks->n ||
        !flax_shape(in->pool, shape, &size, &out->tensor.rank))
        return flax_damaged(in, name);
    out->tensor.shape = size;
    for (size_t i = 1; i < chunks->n; i += 2)
        bytes += chunks->items[i].kind == MSG_EXT ? chunks->items[i].n : 0;
    unsigned char *all = pool_alloc(in->pool, bytes + 1, 1); /* a little more than needed */
    for (size_t i = 0; i < chunks->n / 2; i++) {
        const MsgPack *chunk = msgpack_get(chunks, pool_print(in->temp, "%zu", i));
        FlaxTensor     part;
        if (!chunk || chunk->kind != MSG_EXT)
            return flax_damaged(in, name);
        TRY(flax_array(in, name, chunk, &part));
        out->wrong = part.wrong ? part.wrong : out->wrong;
        if (!part.wrong && (!i || part.tensor.type == out->tensor.type))
            memcpy(all + out->tensor.n_bytes, part.tensor.data, part.tensor.n_bytes);
        else if (!part.wrong)
            return flax_damaged(in, name);
        out->tensor.type = part.tensor.type;
        out->tensor.n_bytes += part.tensor.n_bytes;
    }
    if (!out->wrong && !flax_size_is(&out->tensor, out->tensor.n_bytes))
        return flax_damaged(in, name);
    out->tensor.data = out->wrong ? NULL : all;
    return OK;
}

/* The keys that lead to a value; names are made for tensors only. */
typedef struct FlaxPath FlaxPath;
struct FlaxPath {
    const FlaxPath *up;  /* NULL: the whole file */
    const MsgPack  *key; /* NULL: the number of an item */
    size_t          number;
};

static void flax_name_add(Text *name, const FlaxPath *path)
{
    if (!path->up)
        return;
    flax_name_add(name, path->up);
    if (name->n)
        text_addn(name, ".", 1);
    if (!path->key)
        text_add(name, "%zu", path->number);
    else if (path->key->kind == MSG_INT)
        text_add(name, "%lld", (long long)path->key->integer);
    else if (name->n + path->key->n <= FLAX_NAME_MAX)
        text_addn(name, (const char *)path->key->bytes, path->key->n);
}

static bool flax_key_is_text(const MsgPack *key)
{
    return (key->kind == MSG_TEXT || key->kind == MSG_BYTES) && !memchr(key->bytes, '\0', key->n);
}

/* *is: the value is an array, which joins the list. */
static Err flax_leaf(FlaxIn *in, const FlaxPath *path, const MsgPack *value, bool *is)
{
    bool array = value->kind == MSG_EXT && (value->ext == FLAX_ARRAY || value->ext == FLAX_SCALAR),
         chunked = msgpack_get(value, CHUNKED) != NULL;
    FlaxTensor tensor;
    *is = array || chunked;
    if (!*is)
        return OK;
    Text name = { .pool = in->pool };
    text_addn(&name, "", 0);
    flax_name_add(&name, path);
    TRY(array ? flax_array(in, name.at, value, &tensor) : flax_chunks(in, name.at, value, &tensor));
    VEC_ADD(in->pool, in->out->tensors, in->out->n, in->out->cap, tensor);
    return OK;
}

/* Recurs as deep as MSGPACK_DEPTH. */
static Err flax_walk(FlaxIn *in, const FlaxPath *path, const MsgPack *value)
{
    size_t step = value->kind == MSG_MAP ? 2 : 1;
    bool   holds = value->kind == MSG_MAP || value->kind == MSG_ARRAY, leaf;
    TRY(flax_leaf(in, path, value, &leaf));
    for (size_t i = 0; holds && !leaf && i < value->n; i += step) {
        FlaxPath below = { path, step == 2 ? &value->items[i] : NULL, i };
        if (!below.key || below.key->kind == MSG_INT || flax_key_is_text(below.key))
            TRY(flax_walk(in, &below, &value->items[i + step - 1]));
    }
    return OK;
}

/* A map with entries whose first key is a text. Eight bytes of a safetensors file could look so; they
 * are a length below 2^32. */
bool flax_likely(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    if (n < 9)
        return false;
    size_t key = p[0] > 0x80 && p[0] <= 0x8f ? 1 : p[0] == 0xde ? 3 : p[0] == 0xdf ? 5 : 0;
    bool   text = (p[key] >= 0xa0 && p[key] <= 0xbf) || (p[key] >= 0xd9 && p[key] <= 0xdb);
    return key && text && !(p[8] == '{' && !p[4] && !p[5] && !p[6] && !p[7]);
}

Err flax_parse(Pool *pool, const char *name, const void *bytes, size_t n, FlaxFile *out)
{
    MsgPack root;
    FlaxIn  in = { pool, pool_new(pool, "flax workspace"), name, out };
    *out = (FlaxFile){ .path = pool_text(pool, name) };
    TRY(msgpack_parse(in.temp, name, bytes, n, &root));
    if (root.kind != MSG_MAP)
        return fail(E_FORMAT, "%s is MessagePack, but flax.serialization did not write it", name);
    TRY(flax_walk(&in, &(FlaxPath){ 0 }, &root));
    pool_free(in.temp);
    return OK;
}

Err flax_read(Pool *pool, const char *path, FlaxFile *out)
{
    MapFile map;
    TRY(file_map(pool, path, &map));
    return flax_parse(pool, path, map.bytes, map.n, out);
}

/* ---- writing ---- */

static void put_head(FileOut *out, MsgKind kind, size_t n)
{
    unsigned char head[MSGPACK_HEAD];
    file_out_add(out, head, msgpack_head(head, kind, n));
}

static void put_text(FileOut *out, const char *text, size_t n)
{
    put_head(out, MSG_TEXT, n);
    file_out_add(out, text, n);
}

static void put_array(FileOut *out, const int64_t *shape, int rank, SafeType type, const void *data,
                      size_t n_bytes)
{
    unsigned char before[MSGPACK_HEAD * (FLAX_RANK_MAX + 4)], *at = before, head[MSGPACK_HEAD];
    const char   *name = "";
    for (int i = 0; i < N_FLAX_TYPES; i++)
        name = flax_types[i].type == type ? flax_types[i].name : name;
    at += msgpack_head(at, MSG_ARRAY, 3);
    at += msgpack_head(at, MSG_ARRAY, (size_t)rank);
    for (int i = 0; i < rank; i++)
        at += msgpack_int(at, (uint64_t)shape[i]);
    at += msgpack_head(at, MSG_TEXT, strlen(name));
    memcpy(at, name, strlen(name));
    at += strlen(name);
    at += msgpack_head(at, MSG_BYTES, n_bytes);
    size_t n_before = (size_t)(at - before);
    file_out_add(out, head, msgpack_ext(head, FLAX_ARRAY, n_before + n_bytes));
    file_out_add(out, before, n_before);
    file_out_add(out, data, n_bytes);
}

static void put_number_key(FileOut *out, size_t number)
{
    char key[24];
    put_text(out, key, (size_t)snprintf(key, sizeof key, "%zu", number));
}

static void put_chunks(FileOut *out, const SafeTensor *t)
{
    static const unsigned char yes = 0xc3;
    unsigned char              number[MSGPACK_HEAD];
    size_t element = safe_type_bytes(t->type), n = (t->n_bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
    put_head(out, MSG_MAP, 3);
    put_text(out, CHUNKED, strlen(CHUNKED));
    file_out_add(out, &yes, 1);
    put_text(out, "shape", 5);
    put_head(out, MSG_MAP, (size_t)t->rank);
    for (int i = 0; i < t->rank; i++) {
        put_number_key(out, (size_t)i);
        file_out_add(out, number, msgpack_int(number, (uint64_t)t->shape[i]));
    }
    put_text(out, "chunks", 6);
    put_head(out, MSG_MAP, n);
    for (size_t i = 0; i < n; i++) {
        size_t  at = i * CHUNK_BYTES, left = t->n_bytes - at;
        int64_t elements = (int64_t)((left < CHUNK_BYTES ? left : CHUNK_BYTES) / element);
        put_number_key(out, i);
        put_array(out, &elements, 1, t->type, (const char *)t->data + at,
                  (size_t)elements * element);
    }
}

/* Length of the key that begins at `at`: up to the next '.' or the end. */
static size_t key_bytes(const char *name, size_t at) { return strcspn(name + at, "."); }

/* How many of the tensors from the first on share its key at `at`. */
static int key_run(const SafeTensor *const *list, int n, size_t at)
{
    size_t bytes = key_bytes(list[0]->name, at);
    int    run = 1;
    while (run < n && key_bytes(list[run]->name, at) == bytes &&
           !memcmp(list[run]->name + at, list[0]->name + at, bytes))
        run++;
    return run;
}

/* Tensors in the order of their names that share all keys before `at`. */
static Err put_map(FileOut *out, const SafeTensor *const *list, int n, size_t at)
{
    size_t keys = 0;
    for (int i = 0; i < n; i += key_run(list + i, n - i, at))
        keys++;
    put_head(out, MSG_MAP, keys);
    for (int i = 0, run; i < n; i += run) {
        const SafeTensor *t = list[i];
        size_t            bytes = key_bytes(t->name, at);
        run = key_run(list + i, n - i, at);
        put_text(out, t->name + at, bytes);
        if (t->name[at + bytes])
            TRY(put_map(out, list + i, run, at + bytes + 1));
        else if (run > 1)
            return fail(E_FORMAT,
                        "%s is a tensor and the start of the name %s, which Flax's tree "
                        "cannot hold",
                        t->name, list[i + 1]->name);
        else if (t->n_bytes > CHUNK_BYTES)
            put_chunks(out, t);
        else
            put_array(out, t->shape, t->rank, t->type, t->data, t->n_bytes);
    }
    return OK;
}

/* By keys: '.' comes before every other character, so that a key's tensors lie side by side. */
static int tensor_order(const void *a, const void *b)
{
    const char *x = (*(const SafeTensor *const *)a)->name,
               *y = (*(const SafeTensor *const *)b)->name;
    while (*x && *x == *y)
        x++, y++;
    int left = *x == '.' ? 1 : (unsigned char)*x, right = *y == '.' ? 1 : (unsigned char)*y;
    return left - right;
}

Err flax_write(const char *path, const SafeTensor *tensors, int n)
{
    FileOut            out;
    Pool              *pool = pool_new(NULL, "flax");
    const SafeTensor **list = NEWN(pool, const SafeTensor *, n + 1);
    for (int i = 0; i < n; i++)
        list[i] = &tensors[i];
    qsort(list, (size_t)n, sizeof *list, tensor_order);
    Err err = file_out_init(&out, path);
    if (!err)
        err = file_out_done(&out, put_map(&out, list, n, 0));
    pool_free(pool);
    return err;
}
