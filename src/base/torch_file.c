/* torch_file.c -- what torch.save's pickles mean: storages, tensors, state dicts, modules. */
#include "base/torch_file.h"

#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/pickle.h"
#include "base/zip.h"

enum { WALK_DEPTH = 32, TENSOR_RANK_MAX = 64, LIST_MAX = 4096, LEGACY_VERSION = 1001 };

typedef struct TorchStorage {
    const char          *key; /* NULL: a free slot */
    TorchType            type;
    const unsigned char *bytes; /* NULL: not in the file */
    size_t               n;
    int32_t              id;
} TorchStorage;

typedef struct Seen {
    const Pickle **slots; /* open addressing */
    uint32_t       n, n_slots;
} Seen;

typedef struct TorchIn {
    Pool         *pool, *temp;
    const char   *path;
    ZipFile       zip;        /* .n 0: the legacy form */
    const char   *top;        /* folder of data.pkl, with its '/' */
    bool          big_endian; /* the elements in the archive */
    TorchStorage *storages;
    int32_t       n_storages, cap_storages, *index; /* key -> storage + 1; open addressing */
    uint32_t      n_index;
    Seen          seen;
    TorchFile    *out;
} TorchIn;

/* clang-format off */
/*        class of the storage    dtype                  type            bytes */
#define TORCH_LIST(X)                                                     \
    X("ByteStorage",          "uint8",           U8,          1)          \
    X("CharStorage",          "int8",            I8,          1)          \
    X("ShortStorage",         "int16",           I16,         2)          \
    X("IntStorage",           "int32",           I32,         4)          \
    X("LongStorage",          "int64",           I64,         8)          \
    X("HalfStorage",          "float16",         F16,         2)          \
    X("FloatStorage",         "float32",         F32,         4)          \
    X("DoubleStorage",        "float64",         F64,         8)          \
    X("ComplexHalfStorage",   "complex32",       C32,         4)          \
    X("ComplexFloatStorage",  "complex64",       C64,         8)          \
    X("ComplexDoubleStorage", "complex128",      C128,        16)         \
    X("BoolStorage",          "bool",            BOOL,        1)          \
    X("BFloat16Storage",      "bfloat16",        BF16,        2)          \
    X("UntypedStorage",       "uint8",           U8,          1)          \
    X("",                     "uint16",          U16,         2)          \
    X("",                     "float8_e4m3fn",   F8_E4M3FN,   1)          \
    X("",                     "float8_e5m2",     F8_E5M2,     1)          \
    X("",                     "float8_e4m3fnuz", F8_E4M3FNUZ, 1)          \
    X("",                     "float8_e5m2fnuz", F8_E5M2FNUZ, 1)          \
    X("",                     "float8_e8m0fnu",  F8_E8M0FNU,  1)          \
    X("",                     "uint32",          U32,         4)          \
    X("",                     "uint64",          U64,         8)
/* clang-format on */

static const struct {
    const char *storage, *dtype;
    TorchType   type;
    int         bytes;
} torch_types[] = {
#define X(storage, dtype, type, bytes) { storage, dtype, TORCH_##type, bytes },
    TORCH_LIST(X)
#undef X
};

enum { N_TORCH_TYPES = sizeof torch_types / sizeof *torch_types };

const char *torch_type_name(TorchType type)
{
    for (int i = 0; i < N_TORCH_TYPES; i++)
        if (torch_types[i].type == type)
            return torch_types[i].dtype;
    return "unknown";
}

int torch_type_bytes(TorchType type)
{
    for (int i = 0; i < N_TORCH_TYPES; i++)
        if (torch_types[i].type == type)
            return torch_types[i].bytes;
    return 0;
}

/* The name after the module: "FloatStorage" of "torch FloatStorage". */
static const char *global_name(const Pickle *global)
{
    const char *space = global && global->kind == PICKLE_GLOBAL ? strchr(global->bytes, ' ') : NULL;
    return space ? space + 1 : "";
}

static bool global_of_torch(const Pickle *global)
{
    return global && global->kind == PICKLE_GLOBAL &&
           (!strncmp(global->bytes, "torch ", 6) || !strncmp(global->bytes, "torch.", 6));
}

static TorchType storage_type(const Pickle *global)
{
    for (int i = 0; global_of_torch(global) && i < N_TORCH_TYPES; i++)
        if (*torch_types[i].storage && !strcmp(torch_types[i].storage, global_name(global)))
            return torch_types[i].type;
    return TORCH_UNKNOWN;
}

static TorchType dtype_of(const Pickle *global)
{
    for (int i = 0; global_of_torch(global) && i < N_TORCH_TYPES; i++)
        if (!strcmp(torch_types[i].dtype, global_name(global)))
            return torch_types[i].type;
    return TORCH_UNKNOWN;
}

/* ---- views ---- */

int64_t torch_extent(int64_t offset, int rank, const int64_t *size, const int64_t *stride,
                     size_t element)
{
    int64_t last = offset, bytes = 0, all = (int64_t)element;
    bool    overflow = offset < 0;
    for (int i = 0; i < rank; i++)
        if (size[i] == 0)
            return 0;
    for (int i = 0; i < rank; i++) {
        int64_t reach;
        overflow |= size[i] < 0 || stride[i] < 0 ||
                    __builtin_mul_overflow(size[i] - 1, stride[i], &reach) ||
                    __builtin_add_overflow(last, reach, &last) ||
                    __builtin_mul_overflow(all, size[i], &all); /* strides may be 0 */
        if (overflow)
            return -1;
    }
    overflow |= __builtin_add_overflow(last, 1, &last) ||
                __builtin_mul_overflow(last, (int64_t)element, &bytes);
    return overflow ? -1 : bytes;
}

static bool view_in_order(int rank, const int64_t *size, const int64_t *stride)
{
    int64_t want = 1;
    for (int i = rank; i-- > 0;) {
        if (size[i] != 1 && stride[i] != want)
            return false;
        want *= size[i];
    }
    return true;
}

const void *torch_gather(Pool *pool, const void *storage, int64_t offset, int rank,
                         const int64_t *size, const int64_t *stride, size_t element)
{
    int64_t at[TENSOR_RANK_MAX] = { 0 }, n = 1;
    REQUIRE(rank <= TENSOR_RANK_MAX);
    for (int i = 0; i < rank; i++)
        n *= size[i];
    const unsigned char *from = (const unsigned char *)storage + (size_t)offset * element;
    if (n == 0 || view_in_order(rank, size, stride))
        return n == 0 ? storage : from;
    unsigned char *copy = pool_alloc(pool, (size_t)n, element), *to = copy;
    for (int64_t k = 0; k < n; k++, to += element) {
        memcpy(to, from, element);
        for (int i = rank; i-- > 0;) {
            from += (size_t)stride[i] * element;
            if (++at[i] < size[i])
                break;
            from -= (size_t)stride[i] * element * (size_t)size[i];
            at[i] = 0;
        }
    }
    return copy;
}

const void *torch_elements(Pool *pool, const TorchTensor *t)
{
    if (!t->storage || t->wrong)
        return NULL;
    return torch_gather(pool, t->storage, t->offset, t->rank, t->size, t->stride,
                        (size_t)torch_type_bytes(t->type));
}

/* ---- storages ---- */

static TorchStorage *storage_find(const TorchIn *in, const char *key)
{
    for (uint32_t i = (uint32_t)hash_text(HASH_EMPTY, key); in->n_index; i++) {
        int32_t at = in->index[i & (in->n_index - 1)];
        if (!at)
            return NULL;
        if (!strcmp(in->storages[at - 1].key, key))
            return &in->storages[at - 1];
    }
    return NULL;
}

static void storage_index(TorchIn *in, int32_t at)
{
    uint32_t i = (uint32_t)hash_text(HASH_EMPTY, in->storages[at].key);
    while (in->index[i & (in->n_index - 1)])
        i++;
    in->index[i & (in->n_index - 1)] = at + 1;
}

static TorchStorage *storage_add(TorchIn *in, const char *key, TorchType type)
{
    if (2 * (uint32_t)(in->n_storages + 1) > in->n_index) {
        in->n_index = in->n_index ? 2 * in->n_index : 64;
        in->index = NEWN(in->temp, int32_t, in->n_index);
        for (int32_t i = 0; i < in->n_storages; i++)
            storage_index(in, i);
    }
    int32_t id = in->n_storages;
    VEC_ADD(in->temp, in->storages, in->n_storages, in->cap_storages,
            (TorchStorage){ .key = key, .type = type, .id = id });
    storage_index(in, in->n_storages - 1);
    return &in->storages[in->n_storages - 1];
}

/* ("storage", class, key, location, elements, view): NULL if the id is of something else. */
static const Pickle *storage_id(const Pickle *value)
{
    const Pickle *id = value && value->kind == PICKLE_PERSISTENT ? value->items[0] : NULL;
    return pickle_is_text(pickle_item(id, 0), "storage") ? id : NULL;
}

/* The storage's elements in this machine's order of bytes: those of complex numbers one by one. */
static void storage_swap(Pool *pool, TorchStorage *storage)
{
    size_t bytes = (size_t)torch_type_bytes(storage->type), half = bytes;
    if (storage->type == TORCH_C32 || storage->type == TORCH_C64 || storage->type == TORCH_C128)
        half /= 2;
    if (half <= 1)
        return;
    unsigned char *copy = pool_alloc(pool, storage->n + 1, 1);
    for (size_t at = 0; at + half <= storage->n; at += half)
        for (size_t i = 0; i < half; i++)
            copy[at + i] = storage->bytes[at + half - 1 - i];
    storage->bytes = copy;
}

/* Data of a zip archive: data/KEY beside data.pkl. */
static Err storage_zip(TorchIn *in, TorchStorage *storage, int64_t n_elements)
{
    const ZipMember *member = zip_find(&in->zip,
                                       pool_print(in->temp, "%sdata/%s", in->top, storage->key));
    if (!member)
        return fail(E_FORMAT, "%s: the archive lacks the data of storage %.60s", in->path,
                    storage->key);
    TRY(zip_content(in->pool, &in->zip, member, 0, &storage->bytes, &storage->n));
    int64_t bytes;
    if (n_elements < 0 ||
        __builtin_mul_overflow(n_elements, torch_type_bytes(storage->type), &bytes) ||
        (uint64_t)bytes > storage->n)
        return fail(E_FORMAT, "%s: storage %.60s has %zu bytes, too few for %lld elements of %s",
                    in->path, storage->key, storage->n, (long long)n_elements,
                    torch_type_name(storage->type));
    if (in->big_endian)
        storage_swap(in->pool, storage);
    return OK;
}

/* *wrong: why there is no such storage, if it is the file's fault; NULL otherwise. */
static Err storage_get(TorchIn *in, const Pickle *value, TorchStorage *out, int64_t *view,
                       const char **wrong)
{
    const Pickle *id = storage_id(value), *key = pickle_item(id, 2), *n = pickle_item(id, 4),
                 *part = pickle_item(id, 5);
    TorchType type = storage_type(pickle_item(id, 1));
    *view = 0;
    if (!id || !key || key->kind != PICKLE_TEXT || !n || n->kind != PICKLE_INT) {
        *wrong = "its storage is not described as torch.save does";
        return OK;
    }
    if (type == TORCH_UNKNOWN) {
        *wrong = pool_print(in->pool, "its storage is a %.80s, which is unknown",
                            global_name(pickle_item(id, 1)));
        return OK;
    }
    TorchStorage *storage = storage_find(in, key->bytes);
    if (!storage && in->zip.n) {
        storage = storage_add(in, key->bytes, type);
        TRY(storage_zip(in, storage, n->integer));
    }
    if (!storage) {
        *wrong = "its data are not in the file";
        return OK;
    }
    /* of old files: (key, offset, elements) of a part of a storage */
    if (part && part->kind == PICKLE_TUPLE) {
        const Pickle *offset = pickle_item(part, 1);
        if (!offset || offset->kind != PICKLE_INT || offset->integer < 0)
            *wrong = "its storage is a part that is not described";
        else
            *view = offset->integer;
    }
    *out = *storage;
    out->type = type;
    return OK;
}

/* ---- tensors ---- */

/* A tuple of numbers, or torch.Size of one. */
static bool tensor_sizes(TorchIn *in, const Pickle *value, int64_t **out, int *rank)
{
    if (value && value->kind == PICKLE_CALL &&
        pickle_is_global(value->call->callable, "torch Size"))
        value = pickle_item(value->call->args, 0);
    if (!value || (value->kind != PICKLE_TUPLE && value->kind != PICKLE_LIST) ||
        value->n > TENSOR_RANK_MAX)
        return false;
    *rank = (int)value->n;
    *out = NEWN(in->pool, int64_t, value->n);
    for (uint32_t i = 0; i < value->n; i++) {
        if (value->items[i]->kind != PICKLE_INT || value->items[i]->integer < 0)
            return false;
        (*out)[i] = value->items[i]->integer;
    }
    return true;
}

/* (storage, offset, size, stride, requires_grad, hooks[, dtype]) */
static Err tensor_rebuild(TorchIn *in, const Pickle *args, bool with_dtype, TorchTensor *out)
{
    const Pickle *offset = pickle_item(args, 1);
    int64_t      *size = NULL, *stride = NULL, view = 0, start;
    int           rank = 0, n_strides = -1;
    TorchStorage  storage = { .id = -1 };
    TRY(storage_get(in, pickle_item(args, 0), &storage, &view, &out->wrong));
    if (out->wrong)
        return OK;
    if (!offset || offset->kind != PICKLE_INT || offset->integer < 0 ||
        !tensor_sizes(in, pickle_item(args, 2), &size, &rank) ||
        !tensor_sizes(in, pickle_item(args, 3), &stride, &n_strides) || rank != n_strides ||
        __builtin_add_overflow(offset->integer, view, &start)) {
        out->wrong = "its sizes and strides are damaged";
        return OK;
    }
    out->type = with_dtype ? dtype_of(pickle_item(args, 6)) : storage.type;
    out->rank = rank;
    out->size = size;
    out->stride = stride;
    out->offset = start;
    out->storage_id = storage.id;
    int64_t extent = torch_extent(start, rank, size, stride, (size_t)torch_type_bytes(out->type));
    if (out->type == TORCH_UNKNOWN)
        out->wrong = "its element type is not known";
    else if (extent < 0 || (uint64_t)extent > storage.n)
        out->wrong = "it reaches past the end of its storage";
    out->storage = storage.bytes;
    out->storage_bytes = storage.n;
    return OK;
}

/* (dtype, size, stride, requires_grad): a tensor without data. */
static Err tensor_meta(TorchIn *in, const Pickle *args, TorchTensor *out)
{
    int64_t *size = NULL, *stride = NULL;
    int      n_strides = -1;
    out->type = dtype_of(pickle_item(args, 0));
    if (out->type == TORCH_UNKNOWN || !tensor_sizes(in, pickle_item(args, 1), &size, &out->rank) ||
        !tensor_sizes(in, pickle_item(args, 2), &stride, &n_strides) || out->rank != n_strides)
        out->wrong = "its sizes and strides are damaged";
    out->size = size;
    out->stride = stride;
    return OK;
}

/* Does the value hold a storage, within a few steps? Then it is meant to be a tensor. */
static bool value_has_storage(const Pickle *value, int depth)
{
    if (!value || depth == 0)
        return false;
    if (storage_id(value))
        return true;
    if (value->kind == PICKLE_CALL)
        return value_has_storage(value->call->args, depth - 1);
    if (value->kind != PICKLE_TUPLE)
        return false;
    bool has = false;
    for (uint32_t i = 0; i < value->n && i < 8 && !has; i++)
        has = value_has_storage(value->items[i], depth - 1);
    return has;
}

/* *is: whether the value is a tensor; it may be one that cannot be read. */
static Err tensor_read(TorchIn *in, const Pickle *value, TorchTensor *out, bool *is)
{
    *out = (TorchTensor){ .storage_id = -1 };
    *is = false;
    /* a parameter around a tensor, a subclass around a parameter */
    for (int depth = 0; depth < 4 && value && value->kind == PICKLE_CALL; depth++) {
        const Pickle *callable = value->call->callable, *args = value->call->args;
        Pickle        inner = { .kind = PICKLE_CALL };
        PickleCall    call = { 0 };
        *is = true;
        if (pickle_is_global(callable, "torch._tensor _rebuild_from_type_v2")) {
            call.callable = callable = pickle_item(args, 0);
            call.args = args = pickle_item(args, 2);
            inner.call = &call;
            value = &inner;
        }
        if (pickle_is_global(callable, "torch._utils _rebuild_tensor_v2") ||
            pickle_is_global(callable, "torch._utils _rebuild_tensor"))
            return tensor_rebuild(in, args, false, out);
        if (pickle_is_global(callable, "torch._utils _rebuild_tensor_v3"))
            return tensor_rebuild(in, args, true, out);
        if (pickle_is_global(callable, "torch._utils _rebuild_meta_tensor_no_storage"))
            return tensor_meta(in, args, out);
        if (pickle_is_global(callable, "torch._utils _rebuild_parameter") ||
            pickle_is_global(callable, "torch._utils _rebuild_parameter_with_state") ||
            pickle_is_global(callable, "torch.nn.parameter Parameter")) {
            value = pickle_item(args, 0);
            continue;
        }
        *is = value_has_storage(value, 6);
        if (*is)
            out->wrong = pool_print(in->pool, "it is built by %.120s, which is unknown",
                                    callable && callable->kind == PICKLE_GLOBAL ? callable->bytes
                                                                                : "an object");
        return OK;
    }
    *is = false;
    return OK;
}

/* ---- groups ---- */

/* Has this container been walked? Marks it. */
static bool seen_before(TorchIn *in, const Pickle *value)
{
    Seen *seen = &in->seen;
    if (2 * (seen->n + 1) > seen->n_slots) {
        Seen wide = { .n_slots = seen->n_slots ? 2 * seen->n_slots : 256 };
        wide.slots = NEWN(in->temp, const Pickle *, wide.n_slots);
        Seen old = *seen;
        *seen = wide;
        for (uint32_t i = 0; i < old.n_slots; i++)
            if (old.slots[i])
                seen_before(in, old.slots[i]);
    }
    uint32_t i = (uint32_t)hash_bytes(HASH_EMPTY, &value, sizeof value) & (seen->n_slots - 1);
    for (; seen->slots[i]; i = (i + 1) & (seen->n_slots - 1))
        if (seen->slots[i] == value)
            return true;
    seen->slots[i] = value;
    seen->n++;
    return false;
}

typedef struct Walk { /* a container to be looked at */
    const Pickle *value;
    const char   *path;  /* keys that lead to it */
    int32_t       group; /* of a part of a module: its group, and the names' prefix in it */
    const char   *prefix;
    int           depth;
} Walk;

typedef struct WalkList {
    Walk   *list;
    int32_t n, cap;
} WalkList;

static const char *key_text(Pool *pool, const Pickle *key)
{
    if (key->kind == PICKLE_TEXT)
        return key->bytes;
    return key->kind == PICKLE_INT ? pool_print(pool, "%lld", (long long)key->integer) : NULL;
}

static const char *path_join(Pool *pool, const char *path, const char *key)
{
    return *path ? pool_print(pool, "%s.%s", path, key) : key;
}

static void group_add(TorchIn *in, const char *path, int32_t *group, TorchTensor tensor)
{
    TorchFile *out = in->out;
    if (*group < 0) {
        VEC_ADD(in->pool, out->groups, out->n, out->cap, (TorchGroup){ .path = path });
        *group = out->n - 1;
    }
    TorchGroup *to = &out->groups[*group];
    VEC_ADD(in->pool, to->tensors, to->n, to->cap, tensor);
}

static bool walk_worth(const Pickle *value)
{
    return pickle_dict(value) || value->kind == PICKLE_LIST || value->kind == PICKLE_TUPLE ||
           (value->kind == PICKLE_CALL && pickle_dict(value->call->state));
}

/* One entry of a container: a tensor joins the group, a container waits for its turn. */
static Err walk_entry(TorchIn *in, WalkList *walks, const Walk *walk, int32_t *group,
                      const char *key, const Pickle *value)
{
    TorchTensor tensor;
    bool        is;
    TRY(tensor_read(in, value, &tensor, &is));
    const char *name = pool_print(in->pool, "%s%s", walk->prefix, key);
    if (is) {
        tensor.name = name;
        group_add(in, walk->path, group, tensor);
    } else if (walk_worth(value) && walk->depth < WALK_DEPTH) {
        VEC_ADD(in->temp, walks->list, walks->n, walks->cap,
                (Walk){ value, path_join(in->pool, walk->path, name), -1, "", walk->depth + 1 });
    }
    return OK;
}

/* A module that was saved whole keeps its tensors in these, and its parts in _modules. */
static Err walk_module(TorchIn *in, WalkList *walks, const Walk *walk, const Pickle *state)
{
    static const char *const holders[] = { "_parameters", "_buffers" };
    int32_t                  group = walk->group;
    for (int h = 0; h < 2; h++) {
        const Pickle *dict = pickle_dict(pickle_get(state, holders[h]));
        for (uint32_t i = 0; dict && i + 1 < dict->n; i += 2) {
            const char *key = key_text(in->pool, dict->items[i]);
            TorchTensor tensor;
            bool        is;
            TRY(tensor_read(in, dict->items[i + 1], &tensor, &is));
            if (!is || !key)
                continue;
            tensor.name = pool_print(in->pool, "%s%s", walk->prefix, key);
            group_add(in, walk->path, &group, tensor);
        }
    }
    const Pickle *parts = pickle_dict(pickle_get(state, "_modules"));
    if (group < 0) { /* a group for the parts, even if it stays empty */
        VEC_ADD(in->pool, in->out->groups, in->out->n, in->out->cap,
                (TorchGroup){ .path = walk->path });
        group = in->out->n - 1;
    }
    for (uint32_t i = 0; parts && i + 1 < parts->n && walk->depth < WALK_DEPTH; i += 2) {
        const char *key = key_text(in->pool, parts->items[i]);
        if (key)
            VEC_ADD(in->temp, walks->list, walks->n, walks->cap,
                    (Walk){ parts->items[i + 1], walk->path, group,
                            pool_print(in->pool, "%s%s.", walk->prefix, key), walk->depth + 1 });
    }
    return OK;
}

static Err walk_one(TorchIn *in, WalkList *walks, const Walk *walk)
{
    const Pickle *value = walk->value, *dict = pickle_dict(value);
    int32_t       group = -1;
    if (seen_before(in, value))
        return OK;
    if (value->kind == PICKLE_CALL && pickle_get(value->call->state, "_modules"))
        return walk_module(in, walks, walk, value->call->state);
    for (uint32_t i = 0; dict && i + 1 < dict->n; i += 2) {
        const char *key = key_text(in->pool, dict->items[i]);
        if (key)
            TRY(walk_entry(in, walks, walk, &group, key, dict->items[i + 1]));
    }
    bool list = value->kind == PICKLE_LIST || value->kind == PICKLE_TUPLE;
    for (uint32_t i = 0; list && i < value->n && i < LIST_MAX; i++)
        TRY(walk_entry(in, walks, walk, &group, pool_print(in->pool, "%u", i), value->items[i]));
    if (!dict && value->kind == PICKLE_CALL && pickle_dict(value->call->state) &&
        walk->depth < WALK_DEPTH)
        VEC_ADD(in->temp, walks->list, walks->n, walks->cap,
                (Walk){ value->call->state, walk->path, -1, "", walk->depth + 1 });
    return OK;
}

/* In the order of the file, level by level. */
static Err torch_walk(TorchIn *in, const Pickle *root)
{
    WalkList    walks = { 0 };
    TorchTensor tensor;
    bool        is;
    int32_t     group = -1;
    TRY(tensor_read(in, root, &tensor, &is));
    if (is) { /* the file is one tensor */
        tensor.name = "";
        group_add(in, "", &group, tensor);
        return OK;
    }
    VEC_ADD(in->temp, walks.list, walks.n, walks.cap, (Walk){ root, "", -1, "", 0 });
    for (int32_t i = 0; i < walks.n; i++) {
        Walk walk = walks.list[i];
        TRY(walk_one(in, &walks, &walk));
    }
    return OK;
}

/* ---- the two forms ---- */

static Err torch_zip(TorchIn *in, const void *bytes, size_t n)
{
    const ZipMember *pickle = NULL;
    TRY(zip_parse(in->pool, in->path, bytes, n, &in->zip));
    for (int32_t i = 0; i < in->zip.n; i++) {
        const char *name = in->zip.members[i].name, *slash = strrchr(name, '/');
        if (!strcmp(slash ? slash + 1 : name, "data.pkl") &&
            (!pickle || strlen(name) < strlen(pickle->name)))
            pickle = &in->zip.members[i];
    }
    if (!pickle)
        return fail(E_FORMAT, "%s is an archive without data.pkl: torch.save did not write it",
                    in->path);
    in->top = pool_textn(in->temp, pickle->name, strlen(pickle->name) - strlen("data.pkl"));
    const ZipMember     *order = zip_find(&in->zip, pool_print(in->temp, "%sbyteorder", in->top));
    const unsigned char *text;
    size_t               n_text;
    PickleTree           tree;
    if (order) {
        TRY(zip_content(in->temp, &in->zip, order, 0, &text, &n_text));
        in->big_endian = n_text >= 3 && !memcmp(text, "big", 3);
    }
    TRY(zip_content(in->temp, &in->zip, pickle, 0, &text, &n_text));
    TRY(pickle_parse(in->temp, pool_print(in->temp, "%s(%s)", in->path, pickle->name), text, n_text,
                     &tree));
    return torch_walk(in, tree.root);
}

/* The next of several pickles. */
static Err legacy_next(TorchIn *in, const unsigned char **at, const unsigned char *end,
                       PickleTree *tree)
{
    TRY(pickle_parse(in->temp, in->path, *at, (size_t)(end - *at), tree));
    *at += tree->bytes;
    return OK;
}

static bool legacy_magic(const Pickle *value)
{
    return value->kind == PICKLE_BIG && value->n == 10 &&
           !memcmp(value->bytes, "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
}

/* Which storages there are, with their types: their data come after the last pickle. */
static void legacy_storages(TorchIn *in, const PickleTree *tree)
{
    for (int32_t i = 0; i < tree->n_persistent; i++) {
        const Pickle *id = storage_id(tree->persistent[i]), *key = pickle_item(id, 2);
        if (key && key->kind == PICKLE_TEXT && !storage_find(in, key->bytes))
            storage_add(in, key->bytes, storage_type(pickle_item(id, 1)));
    }
}

/* Of each storage, in the order of the keys: the number of elements, and the elements. */
static Err legacy_data(TorchIn *in, const Pickle *keys, const unsigned char *at,
                       const unsigned char *end)
{
    for (uint32_t i = 0; i < keys->n; i++) {
        const Pickle *key = keys->items[i];
        TorchStorage *storage = key->kind == PICKLE_TEXT ? storage_find(in, key->bytes) : NULL;
        int64_t       n, bytes;
        if (!storage || storage->type == TORCH_UNKNOWN)
            return fail(E_FORMAT,
                        "%s: a storage has an unknown type, so that the data behind it "
                        "cannot be found; load it in PyTorch and save it again",
                        in->path);
        if (end - at < 8)
            return fail(E_FORMAT, "%s: the data end early; the file is incomplete", in->path);
        memcpy(&n, at, 8);
        at += 8;
        if (n < 0 || __builtin_mul_overflow(n, torch_type_bytes(storage->type), &bytes) ||
            bytes > end - at)
            return fail(E_FORMAT, "%s: the data end early; the file is incomplete", in->path);
        storage->bytes = at;
        storage->n = (size_t)bytes;
        at += bytes;
    }
    return OK;
}

static Err torch_legacy(TorchIn *in, const void *bytes, size_t n)
{
    const unsigned char *at = bytes, *end = at + n;
    PickleTree           magic, version, machine, object, keys;
    TRY(legacy_next(in, &at, end, &magic));
    if (!legacy_magic(magic.root))
        return fail(E_FORMAT, "%s is a pickle, but torch.save did not write it", in->path);
    TRY(legacy_next(in, &at, end, &version));
    if (version.root->kind != PICKLE_INT || version.root->integer != LEGACY_VERSION)
        return fail(E_FORMAT, "%s has an unknown version of torch.save's old format", in->path);
    TRY(legacy_next(in, &at, end, &machine));
    /* The machine's order of bytes does not matter: the data of this form are little endian. */
    TRY(legacy_next(in, &at, end, &object));
    TRY(legacy_next(in, &at, end, &keys));
    if (keys.root->kind != PICKLE_LIST)
        return fail(E_FORMAT, "%s: the list of its storages is missing", in->path);
    legacy_storages(in, &object);
    TRY(legacy_data(in, keys.root, at, end));
    return torch_walk(in, object.root);
}

bool torch_likely(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    return zip_likely(bytes, n) || (n > 2 && p[0] == 0x80 && p[1] <= 5);
}

Err torch_parse(Pool *pool, const char *name, const void *bytes, size_t n, TorchFile *out)
{
    TorchIn in = { .pool = pool, .path = name, .out = out };
    *out = (TorchFile){ .path = pool_text(pool, name) };
    if (n > 262 && !memcmp((const char *)bytes + 257, "ustar", 5))
        return fail(E_FORMAT,
                    "%s has the format of PyTorch 0.1 (tar); load it in PyTorch and save it again",
                    name);
    if (!torch_likely(bytes, n))
        return fail(E_FORMAT, "%s is not a file that torch.save wrote", name);
    in.temp = pool_new(NULL, "torch file workspace");
    Err err = zip_likely(bytes, n) ? torch_zip(&in, bytes, n) : torch_legacy(&in, bytes, n);
    pool_free(in.temp);
    return err;
}

Err torch_read(Pool *pool, const char *path, TorchFile *out)
{
    MapFile map;
    TRY(file_map(pool, path, &map));
    return torch_parse(pool, path, map.bytes, map.n, out);
}

const TorchTensor *torch_find(const TorchGroup *group, const char *name)
{
    const TorchTensor *found = NULL;
    for (int32_t i = 0; i < group->n; i++)
        if (!strcmp(group->tensors[i].name, name))
            found = &group->tensors[i];
    return found;
}
