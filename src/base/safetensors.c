/* safetensors.c -- the header in and out; tensor bytes are never copied on reading.
 *
 * A file is taken only if its tensors, in order of their offsets, follow each other from the first
 * byte after the header to the last of the file: no gap, no overlap, nothing left over.
 */
#include "base/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/endian.h"
#include "base/file.h"
#include "base/json_out.h"

enum { SAFE_HEADER_MAX = 100000000 }; /* the limit of the published reader */

size_t safe_type_bytes(SafeType type)
{
    static const size_t bytes[] = {
#define X(name, size) size,
        SAFE_LIST(X)
#undef X
    };
    return bytes[type];
}

const char *safe_type_name(SafeType type)
{
    static const char *const names[] = {
#define X(name, size) #name,
        SAFE_LIST(X)
#undef X
    };
    return names[type];
}

/* false: the product overflows on the way, even if a later dimension is 0. */
static bool safe_size(const int64_t *shape, int rank, SafeType type, size_t *bytes)
{
    int64_t size = (int64_t)safe_type_bytes(type);
    bool    overflow = false;
    for (int i = 0; i < rank; i++)
        overflow |= __builtin_mul_overflow(size, shape[i], &size);
    *bytes = (size_t)size;
    return !overflow;
}

static int safe_by_name(const void *a, const void *b)
{
    return strcmp(((const SafeTensor *)a)->name, ((const SafeTensor *)b)->name);
}

static int safe_by_place(const void *a, const void *b)
{
    const SafeTensor *x = a, *y = b;
    if (x->data != y->data)
        return (uintptr_t)x->data < (uintptr_t)y->data ? -1 : 1;
    return x->n_bytes < y->n_bytes ? -1 : x->n_bytes > y->n_bytes; /* empty ones take no place */
}

static Err safe_type_find(const Json *entry, SafeType *type)
{
    const char *word;
    TRY(json_need_text(entry, "dtype", &word));
    for (int t = 0; t < SAFE_COUNT; t++)
        if (!strcmp(word, safe_type_name((SafeType)t))) {
            *type = (SafeType)t;
            return OK;
        }
    return json_fail(entry, json_get(entry, "dtype"), "the dtype '%.40s' is not known", word);
}

static Err safe_shape(Pool *pool, const Json *entry, SafeTensor *t)
{
    const Json *dims;
    TRY(json_need_array(entry, "shape", &dims));
    int64_t *shape = NEWN(pool, int64_t, dims->n);
    t->rank = (int)dims->n;
    t->shape = shape;
    for (uint32_t i = 0; i < dims->n; i++) {
        TRY(json_item_int(dims, i, &shape[i]));
        if (shape[i] < 0)
            return json_fail(dims, &dims->items[i], "tensor '%.200s': dimension %lld is negative",
                             t->name, (long long)shape[i]);
    }
    return OK;
}

static Err safe_entry(Pool *pool, const JsonMember *member, const Json *header,
                      const unsigned char *data, size_t n_data, SafeTensor *t)
{
    static const char *const keys[] = { "dtype", "shape", "data_offsets" };
    const Json              *entry = &member->value, *offsets;
    int64_t                  begin, end;
    size_t                   bytes;
    t->name = member->key;
    if (entry->kind != JSON_OBJECT)
        return json_fail(header, entry,
                         "tensor '%.200s' must be an object with dtype, shape and "
                         "data_offsets, not %s",
                         t->name, json_kind_text(entry));
    TRY(json_check_keys(entry, keys, 3));
    TRY(safe_type_find(entry, &t->type));
    TRY(safe_shape(pool, entry, t));
    TRY(json_need_array(entry, "data_offsets", &offsets));
    if (offsets->n != 2)
        return json_fail(entry, offsets,
                         "tensor '%.200s': data_offsets must be [begin, end], not "
                         "%u numbers",
                         t->name, offsets->n);
    TRY(json_item_int(offsets, 0, &begin));
    TRY(json_item_int(offsets, 1, &end));
    if (begin < 0 || end < begin || (uint64_t)end > n_data)
        return json_fail(entry, offsets,
                         "tensor '%.200s': bytes %lld to %lld are not within the "
                         "file's %zu bytes of data; is the file complete?",
                         t->name, (long long)begin, (long long)end, n_data);
    if (!safe_size(t->shape, t->rank, t->type, &bytes) || bytes != (size_t)(end - begin))
        return json_fail(entry, offsets,
                         "tensor '%.200s': its shape does not make the %lld bytes "
                         "that data_offsets give it",
                         t->name, (long long)(end - begin));
    t->data = data + begin;
    t->n_bytes = bytes;
    return OK;
}

/* In order of place, each tensor begins where the one before it ended. */
static Err safe_no_gaps(const char *path, SafeTensor *tensors, int n, const unsigned char *data,
                        size_t n_data)
{
    const unsigned char *next = data;
    if (n)
        qsort(tensors, (size_t)n, sizeof *tensors, safe_by_place);
    for (int i = 0; i < n; i++) {
        const unsigned char *at = tensors[i].data;
        if (at != next)
            return fail(E_FORMAT,
                        "%s: tensor '%.200s' begins at byte %td of the data, but the one "
                        "before it ends at %td: the file has %s",
                        path, tensors[i].name, at - data, next - data,
                        at < next ? "overlapping tensors" : "a hole");
        next = at + tensors[i].n_bytes;
    }
    if (next != data + n_data)
        return fail(E_FORMAT, "%s: %td bytes follow the last tensor and belong to none", path,
                    data + n_data - next);
    return OK;
}

static Err safe_metadata(const Json *header, SafeFile *out)
{
    TRY(json_maybe_object(header, "__metadata__", &out->metadata));
    for (uint32_t i = 0; out->metadata && i < out->metadata->n; i++) {
        const JsonMember *m = &out->metadata->members[i];
        if (m->value.kind != JSON_TEXT)
            return json_fail(out->metadata, &m->value,
                             "__metadata__ holds texts only, but "
                             "'%.100s' is %s",
                             m->key, json_kind_text(&m->value));
    }
    return OK;
}

Err safetensors_parse(Pool *pool, const char *name, const void *bytes, size_t n, SafeFile *out)
{
    const unsigned char *file = bytes;
    const Json          *header;
    uint64_t             length;
    *out = (SafeFile){ .path = name };
    if (n < 8)
        return fail(E_FORMAT, "%s: %zu bytes are too few for a safetensors file; is it complete?",
                    name, n);
    length = little64(file);
    if (length > SAFE_HEADER_MAX)
        return fail(E_FORMAT,
                    "%s: a header of %llu bytes is more than the %d allowed; is this a "
                    "safetensors file?",
                    name, (unsigned long long)length, SAFE_HEADER_MAX);
    if (length > n - 8)
        return fail(E_FORMAT,
                    "%s: the header has %llu bytes, but the file only %zu after its "
                    "length; is it complete?",
                    name, (unsigned long long)length, n - 8);
    if (length == 0 || file[8] != '{')
        return fail(E_FORMAT, "%s: the header does not begin with '{'; is this a safetensors file?",
                    name);
    TRY(json_parse(pool, pool_print(pool, "%s (header)", name), (const char *)file + 8, length, 0,
                   &header));

    const unsigned char *data = file + 8 + length;
    size_t               n_data = n - 8 - (size_t)length;
    SafeTensor          *tensors = NEWN(pool, SafeTensor, header->n);
    TRY(safe_metadata(header, out));
    for (uint32_t i = 0; i < header->n; i++)
        if (&header->members[i].value != out->metadata)
            TRY(safe_entry(pool, &header->members[i], header, data, n_data, &tensors[out->n++]));
    TRY(safe_no_gaps(name, tensors, out->n, data, n_data));
    if (out->n)
        qsort(tensors, (size_t)out->n, sizeof *tensors, safe_by_name);
    out->tensors = tensors;
    return OK;
}

Err safetensors_read(Pool *pool, const char *path, SafeFile *out)
{
    MapFile map;
    TRY(file_map(pool, path, &map));
    return safetensors_parse(pool, map.path, map.bytes, map.n, out);
}

const SafeTensor *safetensors_find(const SafeFile *file, const char *name)
{
    SafeTensor key = { .name = name };
    return file->n ? bsearch(&key, file->tensors, (size_t)file->n, sizeof key, safe_by_name) : NULL;
}

/* Large elements first: then every tensor is aligned to its element, as the data itself is to 8. */
static int safe_by_size(const void *a, const void *b)
{
    size_t x = safe_type_bytes(((const SafeTensor *)a)->type);
    size_t y = safe_type_bytes(((const SafeTensor *)b)->type);
    return x != y ? (x > y ? -1 : 1) : safe_by_name(a, b);
}

static Err safe_prepare(SafeTensor *tensors, int n)
{
    for (int i = 0; i < n; i++) {
        SafeTensor *t = &tensors[i];
        for (int d = 0; d < t->rank; d++)
            if (t->shape[d] < 0)
                return fail(E_SHAPE, "tensor '%s': dimension %lld is negative", t->name,
                            (long long)t->shape[d]);
        if (!safe_size(t->shape, t->rank, t->type, &t->n_bytes))
            return fail(E_SHAPE, "tensor '%s' has more bytes than can be counted", t->name);
        if (!strcmp(t->name, "__metadata__"))
            return fail(E_FORMAT, "a tensor may not be called '__metadata__'; give it another "
                                  "name");
    }
    if (n)
        qsort(tensors, (size_t)n, sizeof *tensors, safe_by_name);
    for (int i = 1; i < n; i++)
        if (!strcmp(tensors[i].name, tensors[i - 1].name))
            return fail(E_FORMAT, "two tensors are called '%s'; names must differ",
                        tensors[i].name);
    if (n)
        qsort(tensors, (size_t)n, sizeof *tensors, safe_by_size);
    return OK;
}

Err safetensors_header(Pool *pool, SafeTensor *tensors, int n, const char *const *metadata,
                       const char **header, size_t *n_header)
{
    Text    text = { .pool = pool };
    JsonOut o;
    int64_t at = 0;
    TRY(safe_prepare(tensors, n));
    text_addn(&text, "--------", 8); /* the length, once it is known */
    json_out_text(&o, &text, JSON_COMPACT);
    json_out_object(&o, NULL);
    if (metadata) {
        json_out_object(&o, "__metadata__");
        for (; metadata[0]; metadata += 2)
            json_out_string(&o, metadata[0], metadata[1]);
        json_out_end(&o);
    }
    for (int i = 0; i < n; i++) {
        json_out_object(&o, tensors[i].name);
        json_out_string(&o, "dtype", safe_type_name(tensors[i].type));
        json_out_array(&o, "shape");
        for (int d = 0; d < tensors[i].rank; d++)
            json_out_int(&o, NULL, tensors[i].shape[d]);
        json_out_end(&o);
        json_out_array(&o, "data_offsets");
        json_out_int(&o, NULL, at);
        if (__builtin_add_overflow(at, (int64_t)tensors[i].n_bytes, &at))
            return fail(E_SHAPE, "the tensors together have more bytes than can be counted");
        json_out_int(&o, NULL, at);
        json_out_end(&o);
        json_out_end(&o);
    }
    json_out_end(&o);
    TRY(json_out_done(&o));
    while (text.n % 8)
        text_addn(&text, " ", 1);
    if (text.n - 8 > SAFE_HEADER_MAX)
        return fail(E_FORMAT,
                    "a header of %zu bytes is more than the %d a safetensors file may "
                    "have",
                    text.n - 8, SAFE_HEADER_MAX);
    little_put((unsigned char *)text.at, text.n - 8, 8);
    *header = text.at;
    *n_header = text.n;
    return OK;
}

static Err safe_write(Pool *pool, const char *path, const SafeTensor *tensors, int n,
                      const char *const *metadata)
{
    SafeTensor *ordered = NEWN(pool, SafeTensor, n);
    const char *header;
    size_t      n_header;
    FileOut     out;
    if (n)
        memcpy(ordered, tensors, (size_t)n * sizeof *ordered);
    TRY(safetensors_header(pool, ordered, n, metadata, &header, &n_header));
    TRY(file_out_init(&out, path));
    file_out_add(&out, header, n_header);
    for (int i = 0; i < n; i++)
        file_out_add(&out, ordered[i].data, ordered[i].n_bytes);
    return file_out_done(&out, OK);
}

Err safetensors_write(const char *path, const SafeTensor *tensors, int n,
                      const char *const *metadata)
{
    Pool *pool = pool_new(NULL, "safetensors");
    Err   err = safe_write(pool, path, tensors, n, metadata);
    pool_free(pool);
    return err;
}
