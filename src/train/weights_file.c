/* weights_file.c -- chooses among a file's tensors those that are the model's. */
#include "train/weights_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "base/torch_file.h"

/* What wrappers put before the names of a module: DataParallel, Lightning, torch.compile, and the
 * latent diffusion models' U-Net. The first of equals is taken. */
static const char *const prefixes[] = { "",
                                        "module.",
                                        "model.",
                                        "_orig_mod.",
                                        "model.diffusion_model.",
                                        "module.model.",
                                        "model.module.",
                                        "model._orig_mod.",
                                        "module._orig_mod.",
                                        "net.",
                                        "network." };

enum { N_PREFIXES = sizeof prefixes / sizeof *prefixes, REPEATED_MAX = 1 << 30 };

/* A tensor of the model, by its name: a parameter, or a statistic that is saved with it. */
static bool model_has(const Graph *graph, const char *name)
{
    if (param_find((Graph *)(uintptr_t)graph, name))
        return true;
    for (int32_t i = 0; i < graph->n_constants; i++)
        if (graph->constants[i].saved &&
            !strcmp(value_at(graph, graph->constants[i].value)->name, name))
            return true;
    return false;
}

static bool begins(const char *text, const char *start)
{
    return !strncmp(text, start, strlen(start));
}

/* The name without the prefix, if it has it. */
static const char *stripped(const char *name, const char *prefix)
{
    return begins(name, prefix) ? name + strlen(prefix) : name;
}

typedef struct WeightChoice {
    int32_t     group; /* of a TorchFile */
    const char *prefix;
    int         matches;
    bool        average;
} WeightChoice;

/* Counts the model's tensors among n names, for every prefix. */
static void choice_try(const Graph *graph, const char *(*name_of)(const void *, int32_t),
                       const void *list, int32_t n, WeightChoice found, WeightChoice *best)
{
    for (int p = 0; p < N_PREFIXES; p++) {
        found.matches = 0;
        found.prefix = prefixes[p];
        for (int32_t i = 0; i < n; i++) {
            const char *name = name_of(list, i);
            found.matches += begins(name, prefixes[p]) &&
                             model_has(graph, name + strlen(prefixes[p]));
        }
        /* an average stands back behind weights that match half as well */
        int mine = found.average ? found.matches : 2 * found.matches,
            its = best->average ? best->matches : 2 * best->matches;
        if (mine > its)
            *best = found;
    }
}

static const char *safe_name_of(const void *list, int32_t i)
{
    return ((const SafeTensor *)list)[i].name;
}

static const char *torch_name_of(const void *list, int32_t i)
{
    return ((const TorchTensor *)list)[i].name;
}

typedef struct NamedWeight {
    SafeTensor tensor;
    bool       had; /* the prefix */
    int        order;
} NamedWeight;

static int weights_in_order(const void *a, const void *b)
{
    const NamedWeight *x = a, *y = b;
    int                order = strcmp(x->tensor.name, y->tensor.name);
    return order ? order : x->had != y->had ? x->had - y->had : x->order - y->order;
}

/* Sorted, without the prefix. Of a name that exists with and without it the one with it is taken,
 * of a dict's key that was set twice the last one. */
static void weights_sort(Pool *pool, SafeTensor *tensors, int *n, const char *prefix)
{
    NamedWeight *all = NEWN(pool, NamedWeight, *n);
    int          kept = 0;
    for (int i = 0; i < *n; i++) {
        all[i] = (NamedWeight){ tensors[i], begins(tensors[i].name, prefix), i };
        all[i].tensor.name = stripped(tensors[i].name, prefix);
    }
    if (*n)
        qsort(all, (size_t)*n, sizeof *all, weights_in_order);
    for (int i = 0; i < *n; i++)
        if (i + 1 == *n || strcmp(all[i].tensor.name, all[i + 1].tensor.name) != 0)
            tensors[kept++] = all[i].tensor;
    *n = kept;
}

static const char *weights_from(Pool *pool, const char *group, const char *prefix)
{
    if (*group && *prefix)
        return pool_print(pool, "taken from '%s', names without '%s'", group, prefix);
    if (*prefix)
        return pool_print(pool, "names without '%s'", prefix);
    return *group ? pool_print(pool, "taken from '%s'", group) : NULL;
}

/* ---- torch.save ---- */

static bool safe_type_of(TorchType type, SafeType *out)
{
    static const struct {
        TorchType torch;
        SafeType  safe;
    } map[] = { { TORCH_F64, SAFE_F64 },        { TORCH_I64, SAFE_I64 },
                { TORCH_U64, SAFE_U64 },        { TORCH_F32, SAFE_F32 },
                { TORCH_I32, SAFE_I32 },        { TORCH_U32, SAFE_U32 },
                { TORCH_F16, SAFE_F16 },        { TORCH_BF16, SAFE_BF16 },
                { TORCH_I16, SAFE_I16 },        { TORCH_U16, SAFE_U16 },
                { TORCH_I8, SAFE_I8 },          { TORCH_U8, SAFE_U8 },
                { TORCH_BOOL, SAFE_BOOL },      { TORCH_F8_E4M3FN, SAFE_F8_E4M3 },
                { TORCH_F8_E5M2, SAFE_F8_E5M2 } };
    for (size_t i = 0; i < sizeof map / sizeof *map; i++)
        if (map[i].torch == type) {
            *out = map[i].safe;
            return true;
        }
    return false;
}

/* A tensor of the group. *is false: it cannot be read, and the model does not need it. */
static Err torch_tensor_safe(Pool *pool, const Graph *graph, const char *path, const char *prefix,
                             const TorchTensor *t, SafeTensor *out, bool *is)
{
    SafeType    type = SAFE_F32;
    bool        known = safe_type_of(t->type, &type);
    const char *wrong = t->wrong      ? t->wrong
                        : !known      ? pool_print(pool, "it holds %s", torch_type_name(t->type))
                        : !t->storage ? "the file has its sizes only, not its data"
                                      : NULL;
    int64_t     n_bytes = (int64_t)safe_type_bytes(type);
    for (int i = 0; !wrong && i < t->rank; i++)
        n_bytes *= t->size[i]; /* torch_file has checked that they fit */
    if (!wrong && (uint64_t)n_bytes > t->storage_bytes && n_bytes > REPEATED_MAX)
        wrong = pool_print(pool, "it repeats %s of data to %s",
                           bytes_text((int64_t)t->storage_bytes), bytes_text(n_bytes));
    bool needed = model_has(graph, stripped(t->name, prefix));
    *is = !wrong;
    if (wrong && needed)
        return fail(E_FORMAT, "%s: %s cannot be read: %s", path, t->name, wrong);
    if (wrong)
        return OK;
    *out = (SafeTensor){ .name = t->name, .type = type, .rank = t->rank, .shape = t->size };
    out->data = torch_elements(pool, t);
    out->n_bytes = (size_t)n_bytes;
    return OK;
}

static bool group_is_average(const char *path)
{
    return strstr(path, "ema") || strstr(path, "EMA") || strstr(path, "average");
}

static Err torch_weights(Pool *pool, const Graph *graph, const char *path, SafeFile *out,
                         const char **from)
{
    TorchFile file;
    TRY(torch_read(pool, path, &file));
    WeightChoice best = { .group = -1, .prefix = "" };
    for (int32_t g = 0; g < file.n; g++)
        choice_try(graph, torch_name_of, file.groups[g].tensors, file.groups[g].n,
                   (WeightChoice){ .group = g, .average = group_is_average(file.groups[g].path) },
                   &best);
    if (best.group < 0) /* nothing matches: the first is what the message names */
        best.group = file.n ? 0 : -1;
    *out = (SafeFile){ .path = pool_text(pool, path) };
    if (best.group < 0)
        return OK;
    const TorchGroup *group = &file.groups[best.group];
    SafeTensor       *tensors = NEWN(pool, SafeTensor, group->n);
    int               n = 0;
    for (int32_t i = 0; i < group->n; i++) {
        bool is;
        TRY(torch_tensor_safe(pool, graph, path, best.prefix, &group->tensors[i], &tensors[n],
                              &is));
        n += is;
    }
    weights_sort(pool, tensors, &n, best.prefix);
    out->tensors = tensors;
    out->n = n;
    if (*group->path || *best.prefix)
        *from = weights_from(pool, group->path, best.prefix);
    return OK;
}

static Err safe_weights(Pool *pool, const Graph *graph, const char *path, SafeFile *out,
                        const char **from)
{
    WeightChoice best = { .prefix = "" };
    TRY(safetensors_read(pool, path, out));
    choice_try(graph, safe_name_of, out->tensors, out->n, best, &best);
    if (!*best.prefix)
        return OK;
    SafeTensor *tensors = NEWN(pool, SafeTensor, out->n);
    memcpy(tensors, out->tensors, (size_t)out->n * sizeof *tensors);
    weights_sort(pool, tensors, &out->n, best.prefix);
    out->tensors = tensors;
    *from = weights_from(pool, "", best.prefix);
    return OK;
}

Err weights_file_read(Pool *pool, const Graph *graph, const char *path, SafeFile *out,
                      const char **from)
{
    Pool   *look = pool_new(pool, "first bytes");
    MapFile map;
    TRY(file_map(look, path, &map));
    /* a safetensors file has its header's '{' behind 8 bytes that may look like anything */
    bool torch = torch_likely(map.bytes, map.n) && !(map.n > 8 && map.bytes[8] == '{');
    pool_free(look);
    *from = NULL;
    return torch ? torch_weights(pool, graph, path, out, from)
                 : safe_weights(pool, graph, path, out, from);
}
