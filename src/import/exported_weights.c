/* exported_weights.c -- content of parameters, buffers and constants: views of the archive's bytes.
 *
 * From 2.9 on a config file names each tensor, its type, sizes and strides, and the member with its
 * raw storage; several names may share one. Tensors exported without data have empty members.
 * Earlier versions put the whole state dict into one file of torch.save, and so does 2.9 with
 * tensors of a subclass.
 */
#include "base/torch_file.h"
#include "import/exported_int.h"

#include <stdlib.h>
#include <string.h>

typedef struct WeightList {
    ExportedWeight *list;
    int32_t         n, cap, n_storages;
    NameTable       storages; /* member -> its number + 1, as a pointer */
} WeightList;

static Err weight_fail(const ExportedIn *in, const char *name, const char *what)
{
    return fail(E_FORMAT, "%s: the tensor '%.200s' %s; the file is damaged", in->program->path,
                name, what);
}

static Err weight_numbers(ExportedIn *in, const Json *list, const char *name, int64_t **out)
{
    *out = NEWN(in->pool, int64_t, list->n);
    for (uint32_t i = 0; i < list->n; i++) {
        SymInt size;
        TRY(exported_sym_int(in, &list->items[i], &size));
        if (size.expr || size.value < 0)
            return weight_fail(in, name, "has a size or stride that is no plain number");
        (*out)[i] = size.value;
    }
    return OK;
}

static Err weight_meta(ExportedIn *in, const char *name, const Json *meta, ExportedWeight *out)
{
    const Json *sizes, *strides, *offset;
    int64_t     type;
    SymInt      start;
    TRY(json_need_int(meta, "dtype", &type));
    TRY(json_need_array(meta, "sizes", &sizes));
    TRY(json_need_array(meta, "strides", &strides));
    TRY(json_need_object(meta, "storage_offset", &offset));
    if (sizes->n != strides->n || sizes->n > 64)
        return weight_fail(in, name, "has other numbers of sizes and strides");
    if (type <= 0 || type >= EX_TYPES)
        return weight_fail(in, name, "has an unknown element type");
    int64_t *size, *stride;
    TRY(weight_numbers(in, sizes, name, &size));
    TRY(weight_numbers(in, strides, name, &stride));
    TRY(exported_sym_int(in, offset, &start));
    *out = (ExportedWeight){ .name = exported_text(in, name),
                             .type = (ExportedType)type,
                             .rank = (int)sizes->n,
                             .size = size,
                             .stride = stride,
                             .offset = start.value };
    return OK;
}

static Err weight_place(ExportedIn *in, ExportedWeight *w, const void *bytes, size_t n)
{
    int64_t extent = torch_extent(w->offset, w->rank, w->size, w->stride,
                                  (size_t)exported_type_bytes(w->type));
    if (n == 0 && extent != 0) /* sizes only */
        return OK;
    if (extent < 0 || (uint64_t)extent > n)
        return weight_fail(in, w->name, "reaches past the end of its data");
    w->storage = bytes;
    w->storage_bytes = n;
    return OK;
}

static Err weight_torch(ExportedIn *in, const char *name, const TorchTensor *t, int32_t first_id,
                        ExportedWeight *out)
{
    if (t->wrong)
        return fail(E_FORMAT, "%s: the tensor '%.200s' cannot be read: %s", in->program->path, name,
                    t->wrong);
    *out = (ExportedWeight){ .name = exported_text(in, name),
                             .type = (ExportedType)t->type,
                             .rank = t->rank,
                             .size = t->size,
                             .stride = t->stride,
                             .offset = t->offset,
                             .storage = t->storage,
                             .storage_bytes = t->storage_bytes,
                             .storage_id = first_id + t->storage_id };
    return OK;
}

/* A state dict in one file of torch.save. */
static Err weights_torch(ExportedIn *in, const ZipFile *zip, const char *member_name,
                         WeightList *weights)
{
    const ZipMember     *member = zip_find(zip, member_name);
    const unsigned char *bytes;
    size_t               n;
    TorchFile            file;
    int32_t              first = weights->n_storages;
    if (!member || !member->size)
        return OK;
    TRY(zip_content(in->pool, zip, member, 0, &bytes, &n));
    TRY(torch_parse(in->pool, pool_print(in->temp, "%s(%s)", zip->path, member_name), bytes, n,
                    &file));
    for (int32_t g = 0; g < file.n; g++)
        for (int32_t i = 0; !*file.groups[g].path && i < file.groups[g].n; i++) {
            TorchTensor    t = file.groups[g].tensors[i];
            ExportedWeight weight;
            if (t.storage_id < 0)
                t.storage_id = weights->n_storages - first; /* one of its own */
            if (first + t.storage_id >= weights->n_storages)
                weights->n_storages = first + t.storage_id + 1;
            TRY(weight_torch(in, t.name, &t, first, &weight));
            VEC_ADD(in->pool, weights->list, weights->n, weights->cap, weight);
        }
    return OK;
}

/* One tensor in a file of torch.save. */
static Err weight_pickled(ExportedIn *in, const ZipFile *zip, const char *name,
                          const unsigned char *bytes, size_t n, ExportedWeight *weight)
{
    TorchFile file;
    int32_t   id = weight->storage_id;
    TRY(torch_parse(in->pool, pool_print(in->temp, "%s(%s)", zip->path, name), bytes, n, &file));
    if (file.n != 1 || file.groups[0].n != 1)
        return weight_fail(in, name, "is not one tensor");
    TRY(weight_torch(in, weight->name, &file.groups[0].tensors[0], 0, weight));
    weight->storage_id = id;
    return OK;
}

static Err weight_entry(ExportedIn *in, const ZipFile *zip, const char *folder,
                        const JsonMember *member, WeightList *weights)
{
    const Json    *entry = &member->value, *meta;
    const char    *path;
    bool           pickled = false;
    ExportedWeight weight;
    if (entry->kind != JSON_OBJECT)
        return weight_fail(in, member->key, "has no description");
    TRY(json_need_text(entry, "path_name", &path));
    TRY(json_maybe_bool(entry, "use_pickle", &pickled));
    meta = json_get(entry, "tensor_meta");
    if (!meta || meta->kind != JSON_OBJECT)
        return OK; /* an object that is no tensor */
    TRY(weight_meta(in, member->key, meta, &weight));
    const char      *name = pool_print(in->temp, "%s%s", folder, path);
    const ZipMember *data = zip_find(zip, name);
    NameSlot        *slot = names_slot(in->temp, &weights->storages, name);
    if (!slot->item)
        slot->item = (const void *)(uintptr_t)++weights->n_storages;
    weight.storage_id = (int32_t)(uintptr_t)slot->item - 1;
    if (data) {
        const unsigned char *bytes;
        size_t               n;
        TRY(zip_content(in->pool, zip, data, 0, &bytes, &n));
        TRY(pickled && n ? weight_pickled(in, zip, name, bytes, n, &weight)
                         : weight_place(in, &weight, bytes, n));
    }
    VEC_ADD(in->pool, weights->list, weights->n, weights->cap, weight);
    return OK;
}

static Err weights_config(ExportedIn *in, const ZipFile *zip, const char *folder,
                          const char *config_name, WeightList *weights)
{
    const ZipMember *member = zip_find(zip, pool_print(in->temp, "%s%s", folder, config_name));
    if (!member)
        return OK;
    const unsigned char *bytes;
    size_t               n;
    const Json          *root, *config;
    TRY(zip_content(in->temp, zip, member, 0, &bytes, &n));
    TRY(json_parse(in->temp, pool_print(in->temp, "%s(%s)", zip->path, member->name),
                   (const char *)bytes, n, 0, &root));
    TRY(json_need_object(root, "config", &config));
    for (uint32_t i = 0; i < config->n; i++)
        TRY(weight_entry(in, zip, folder, &config->members[i], weights));
    return OK;
}

static int weight_by_name(const void *a, const void *b)
{
    return strcmp(((const ExportedWeight *)a)->name, ((const ExportedWeight *)b)->name);
}

const ExportedWeight *exported_weight(const Exported *program, const char *name)
{
    ExportedWeight key = { .name = name };
    return program->n_weights ? bsearch(&key, program->weights, (size_t)program->n_weights,
                                        sizeof key, weight_by_name)
                              : NULL;
}

const void *exported_elements(Pool *pool, const ExportedWeight *w)
{
    return w->storage ? torch_gather(pool, w->storage, w->offset, w->rank, w->size, w->stride,
                                     (size_t)exported_type_bytes(w->type))
                      : NULL;
}

static bool weight_same(const ExportedWeight *a, const ExportedWeight *b)
{
    if (a->storage_id != b->storage_id || a->type != b->type || a->rank != b->rank ||
        a->offset != b->offset)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->size[i] != b->size[i] || a->stride[i] != b->stride[i])
            return false;
    return true;
}

/* Inputs with the same view of the same storage. Names of one storage are few. A file without
 * contents gives every tensor the same, empty storage, which ties nothing. */
static void weights_tie(ExportedIn *in, int32_t n_storages)
{
    Exported *program = in->program;
    int32_t  *first = NEWN(in->temp, int32_t, n_storages); /* by storage: input + 1 */
    int32_t  *next = NEWN(in->temp, int32_t, program->n_inputs);
    for (int32_t i = 0; i < program->n_inputs; i++) {
        ExportedInput        *input = &program->inputs[i];
        const ExportedWeight *weight = input->kind <= EX_CONSTANT && input->kind != EX_USER_INPUT
                                           ? exported_weight(program, input->name)
                                           : NULL;
        if (!weight || !weight->storage)
            continue;
        int32_t *at = &first[weight->storage_id];
        while (*at && !weight_same(exported_weight(program, program->inputs[*at - 1].name), weight))
            at = &next[*at - 1];
        if (*at)
            input->tied = *at - 1;
        else
            *at = i + 1;
    }
}

Err exported_weights(ExportedIn *in, const ZipFile *zip, const char *top, const char *model)
{
    WeightList weights = { 0 };
    if (top) {
        const char *w = pool_print(in->temp, "%sdata/weights/", top),
                   *c = pool_print(in->temp, "%sdata/constants/", top);
        TRY(weights_config(in, zip, w, pool_print(in->temp, "%s_weights_config.json", model),
                           &weights));
        TRY(weights_config(in, zip, c, pool_print(in->temp, "%s_constants_config.json", model),
                           &weights));
        TRY(weights_torch(in, zip, pool_print(in->temp, "%s%s.pt", w, model), &weights));
        TRY(weights_torch(in, zip, pool_print(in->temp, "%s%s.pt", c, model), &weights));
    } else {
        TRY(weights_torch(in, zip, "serialized_state_dict.pt", &weights));
        TRY(weights_torch(in, zip, "serialized_constants.pt", &weights));
    }
    if (weights.n)
        qsort(weights.list, (size_t)weights.n, sizeof *weights.list, weight_by_name);
    in->program->weights = weights.list;
    in->program->n_weights = weights.n;
    weights_tie(in, weights.n_storages);
    return OK;
}
