/* weights_file.c -- chooses among a file's tensors those that are the model's. */
#include "train/weights_file.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/flax_file.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/torch_file.h"
#include "data/frames.h"
#include "train/lengths.h"
#include "train/weights_parts.h"

enum { PREFIXES_MAX = 64, REPEATED_MAX = 1 << 30 };

/* ---- the model's names ---- */

typedef struct ModelNames {
    const char **slots, **plain; /* open addressing; plain[i]: slots[i] as it is written */
    uint32_t     n_slots;
} ModelNames;

static bool begins(const char *text, const char *start)
{
    return !strncmp(text, start, strlen(start));
}

/* The slot of a name, or the free one where it would be. */
static uint32_t names_slot(const ModelNames *names, const char *name)
{
    uint32_t i = (uint32_t)hash_text(HASH_EMPTY, name) & (names->n_slots - 1);
    while (names->slots[i] && strcmp(names->slots[i], name) != 0)
        i = (i + 1) & (names->n_slots - 1);
    return i;
}

static void names_add(ModelNames *names, const char *name, const char *plain)
{
    uint32_t i = names_slot(names, name);
    names->slots[i] = name;
    names->plain[i] = plain;
}

static ModelNames names_room(Pool *pool, int64_t n)
{
    ModelNames names = { .n_slots = 64 };
    while (names.n_slots < 2 * (uint64_t)n)
        names.n_slots *= 2;
    names.slots = NEWN(pool, const char *, names.n_slots);
    names.plain = NEWN(pool, const char *, names.n_slots);
    return names;
}

/* Tensors of the model: its parameters, and the statistics that are saved with it. */
static ModelNames names_of(Pool *pool, const Graph *graph)
{
    ModelNames names = names_room(pool, graph->n_params + graph->n_constants);
    for (int32_t i = 0; i < graph->n_params; i++)
        names_add(&names, graph->params[i].name, graph->params[i].name);
    for (int32_t i = 0; i < graph->n_constants; i++) {
        const Value *value = value_at(graph, graph->constants[i].value);
        if (graph->constants[i].saved && value->mem_class == CLASS_CONSTANTS &&
            !begins(value->name, "optimizer.") && !begins(value->name, "run."))
            names_add(&names, value->name, value->name);
    }
    return names;
}

static bool names_have(const ModelNames *names, const char *name)
{
    return names->slots[names_slot(names, name)] != NULL;
}

/* LitEma, the average of latent diffusion models, keeps `diffusion_model.a.b` as
 * `model_ema.diffusion_modelab`, for the module `model`. */
static const char lit_ema[] = "model_ema.";

static const char *without_dots(Pool *pool, const char *name)
{
    char *plain = pool_text(pool, name), *to = plain;
    for (const char *c = name; *c; c++)
        if (*c != '.')
            *to++ = *c;
    *to = '\0';
    return plain;
}

static ModelNames names_dotless(Pool *pool, const Graph *graph)
{
    ModelNames names = names_room(pool, 2 * (int64_t)graph->n_params);
    for (int32_t i = 0; i < graph->n_params; i++) {
        const char *name = graph->params[i].name, *dot = strchr(name, '.');
        if (dot)
            names_add(&names, without_dots(pool, dot + 1), name);
        names_add(&names, without_dots(pool, name), name);
    }
    return names;
}

/* ---- groups of tensors ---- */

typedef struct Weight {
    const char        *name;
    SafeTensor         tensor;
    const TorchTensor *torch; /* NULL: `tensor` is it */
    const char        *wrong; /* why it cannot be read; NULL: it can */
} Weight;

typedef struct WeightGroup { /* tensors that stand together in the file */
    const char *path;        /* the keys that lead to them */
    int32_t     n;
    Weight     *weights;
} WeightGroup;

typedef struct WeightsIn {
    Pool        *pool;
    const Graph *graph; /* NULL: every tensor that is taken is needed */
    const char  *path;
    ModelNames   names, dotless;
    WeightGroup *groups;
    int32_t      n;
    bool         nested; /* one tree: beside the beginning that is taken off is something else */
    bool         own;    /* a checkpoint of this program */
    bool         part;   /* one of several files */
} WeightsIn;

static void group_safe(WeightsIn *in, const SafeFile *file)
{
    in->groups = NEW(in->pool, WeightGroup);
    in->n = 1;
    *in->groups = (WeightGroup){ "", file->n, NEWN(in->pool, Weight, file->n) };
    for (int i = 0; i < file->n; i++)
        in->groups->weights[i] = (Weight){ .name = file->tensors[i].name,
                                           .tensor = file->tensors[i] };
}

static void group_flax(WeightsIn *in, const FlaxFile *file)
{
    in->groups = NEW(in->pool, WeightGroup);
    in->n = 1;
    in->nested = true;
    *in->groups = (WeightGroup){ "", file->n, NEWN(in->pool, Weight, file->n) };
    for (int32_t i = 0; i < file->n; i++)
        in->groups->weights[i] = (Weight){ .name = file->tensors[i].tensor.name,
                                           .tensor = file->tensors[i].tensor,
                                           .wrong = file->tensors[i].wrong };
}

static void groups_torch(WeightsIn *in, const TorchFile *file)
{
    in->groups = NEWN(in->pool, WeightGroup, file->n);
    in->n = file->n;
    for (int32_t g = 0; g < file->n; g++) {
        const TorchGroup *group = &file->groups[g];
        Weight           *weights = NEWN(in->pool, Weight, group->n);
        for (int32_t i = 0; i < group->n; i++)
            weights[i] = (Weight){ .name = group->tensors[i].name,
                                   .torch = &group->tensors[i],
                                   .wrong = group->tensors[i].wrong };
        in->groups[g] = (WeightGroup){ group->path, group->n, weights };
    }
}

/* Gives the averages of LitEma their dots. */
static void groups_dotted(WeightsIn *in)
{
    for (int32_t g = 0; g < in->n; g++)
        for (int32_t i = 0; i < in->groups[g].n; i++) {
            Weight *w = &in->groups[g].weights[i];
            if (!begins(w->name, lit_ema) || strchr(w->name + strlen(lit_ema), '.'))
                continue;
            uint32_t slot = names_slot(&in->dotless, w->name + strlen(lit_ema));
            if (in->dotless.slots[slot])
                w->name = pool_print(in->pool, "%s%s", lit_ema, in->dotless.plain[slot]);
        }
}

/* ---- the choice ---- */

typedef enum WeightKind { KIND_WEIGHTS, KIND_AVERAGE, KIND_OPTIMIZER } WeightKind;

typedef struct WeightChoice {
    int32_t     group; /* -1: none */
    const char *prefix;
    size_t      n_prefix;
    int         matches;
    WeightKind  kind;
} WeightChoice;

/* Is `ema` a word of the text, as in model_ema. and ema_params? */
static bool has_ema(const char *text)
{
    for (const char *at = text; (at = strstr(at, "ema")) != NULL; at++)
        if ((at == text || !isalpha((unsigned char)at[-1])) && !islower((unsigned char)at[3]))
            return true;
    return false;
}

static WeightKind kind_of(const char *text)
{
    if (strstr(text, "optimizer") || strstr(text, "opt_state") || strstr(text, "optim."))
        return KIND_OPTIMIZER;
    if (strstr(text, "online")) /* the trained model beside its average */
        return KIND_WEIGHTS;
    return has_ema(text) || strstr(text, "EMA") || strstr(text, "average") || strstr(text, "shadow")
               ? KIND_AVERAGE
               : KIND_WEIGHTS;
}

/* Counts how many of a group's names are the model's behind each beginning that ends in '.' or '/'. */
static int prefixes_count(const WeightsIn *in, int32_t g, WeightChoice *list)
{
    const WeightGroup *group = &in->groups[g];
    int                n = 1;
    list[0] = (WeightChoice){ .group = g, .prefix = "" };
    for (int32_t i = 0; i < group->n; i++) {
        const char *name = group->weights[i].name;
        for (const char *at = name; at; at = strpbrk(at, "./"), at = at ? at + 1 : NULL) {
            size_t bytes = (size_t)(at - name);
            int    p = 0;
            if (!names_have(&in->names, at))
                continue;
            while (p < n && (list[p].n_prefix != bytes || memcmp(list[p].prefix, name, bytes) != 0))
                p++;
            if (p == n && n == PREFIXES_MAX)
                continue;
            if (p == n)
                list[n++] = (WeightChoice){ .group = g, .prefix = name, .n_prefix = bytes };
            list[p].matches++;
        }
    }
    for (int p = 0; p < n; p++) {
        list[p].prefix = pool_textn(in->pool, list[p].prefix, list[p].n_prefix);
        list[p].kind = kind_of(pool_print(in->pool, "%s.%s", group->path, list[p].prefix));
    }
    return n;
}

/* An average stands back behind weights that match half as well. */
static int choice_weight(const WeightChoice *c)
{
    return c->kind == KIND_OPTIMIZER ? 0 : c->kind == KIND_AVERAGE ? c->matches : 2 * c->matches;
}

/* The best weights, and the best average. .group -1: there are none. */
static void choose(const WeightsIn *in, WeightChoice *weights, WeightChoice *average)
{
    WeightChoice list[PREFIXES_MAX];
    *weights = *average = (WeightChoice){ .group = -1, .prefix = "" };
    for (int32_t g = 0; g < in->n; g++) {
        int n = prefixes_count(in, g, list);
        for (int p = 0; p < n; p++) {
            if (choice_weight(&list[p]) > choice_weight(weights))
                *weights = list[p];
            if (list[p].kind == KIND_AVERAGE && list[p].matches > average->matches)
                *average = list[p];
        }
    }
}

static const char *choice_text(Pool *pool, const WeightsIn *in, const WeightChoice *c)
{
    const char *group = in->groups[c->group].path, *prefix = c->prefix;
    if (in->nested && *prefix) /* keys of a tree, not beginnings of names */
        return pool_print(pool, "taken from '%.*s'", (int)c->n_prefix - 1, prefix);
    if (*group && *prefix)
        return pool_print(pool, "taken from '%s', names without '%s'", group, prefix);
    if (*prefix)
        return pool_print(pool, "names without '%s'", prefix);
    return *group ? pool_print(pool, "taken from '%s'", group) : NULL;
}

/* ---- the tensors that are taken ---- */

typedef struct NamedWeight {
    SafeTensor tensor;
    int        rank; /* of equal names the last of the highest rank is taken */
    int        order;
} NamedWeight;

typedef struct WeightFileList {
    NamedWeight *list;
    int32_t      n, cap;
} WeightFileList;

static int weights_in_order(const void *a, const void *b)
{
    const NamedWeight *x = a, *y = b;
    int                order = strcmp(x->tensor.name, y->tensor.name);
    return order ? order : x->rank != y->rank ? x->rank - y->rank : x->order - y->order;
}

/* Sorted by name, each once. */
static void weights_sort(Pool *pool, WeightFileList *all, SafeFile *out)
{
    SafeTensor *tensors = NEWN(pool, SafeTensor, all->n);
    out->n = 0;
    if (all->n)
        qsort(all->list, (size_t)all->n, sizeof *all->list, weights_in_order);
    for (int32_t i = 0; i < all->n; i++)
        if (i + 1 == all->n || strcmp(all->list[i].tensor.name, all->list[i + 1].tensor.name) != 0)
            tensors[out->n++] = all->list[i].tensor;
    out->tensors = tensors;
}

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

/* A tensor of torch.save as it would stand in safetensors; *wrong: why it cannot. */
static SafeTensor torch_safe(Pool *pool, const TorchTensor *t, const char **wrong)
{
    SafeType type = SAFE_F32;
    bool     known = safe_type_of(t->type, &type);
    *wrong = t->wrong      ? t->wrong
             : !known      ? pool_print(pool, "it holds %s", torch_type_name(t->type))
             : !t->storage ? "the file has its sizes only, not its data"
                           : NULL;
    int64_t n_bytes = (int64_t)safe_type_bytes(type);
    for (int i = 0; !*wrong && i < t->rank; i++)
        n_bytes *= t->size[i]; /* torch_file has checked that they fit */
    if (!*wrong && (uint64_t)n_bytes > t->storage_bytes && n_bytes > REPEATED_MAX)
        *wrong = pool_print(pool, "it repeats %s of data to %s",
                            bytes_text((int64_t)t->storage_bytes), bytes_text(n_bytes));
    if (*wrong)
        return (SafeTensor){ 0 };
    return (SafeTensor){ .type = type,
                         .rank = t->rank,
                         .shape = t->size,
                         .data = torch_elements(pool, t),
                         .n_bytes = (size_t)n_bytes };
}

/* One tensor of the file under the model's name. */
static Err weight_take(const WeightsIn *in, const Weight *w, const char *name, int rank,
                       WeightFileList *all)
{
    const char *wrong = w->wrong;
    SafeTensor  tensor = w->torch ? torch_safe(in->pool, w->torch, &wrong) : w->tensor;
    if (wrong && (!in->graph || names_have(&in->names, name)))
        return fail(E_FORMAT, "%s: %s cannot be read: %s", in->path, w->name, wrong);
    if (wrong)
        return OK;
    tensor.name = name;
    VEC_ADD(in->pool, all->list, all->n, all->cap, (NamedWeight){ tensor, rank, all->n });
    return OK;
}

/* The tensors of the choice; with `rest` also the others of its group, under their own names. */
static Err choice_take(const WeightsIn *in, const WeightChoice *c, bool rest, int rank,
                       WeightFileList *all)
{
    const WeightGroup *group = &in->groups[c->group];
    for (int32_t i = 0; i < group->n; i++) {
        const Weight *w = &group->weights[i];
        bool          has = begins(w->name, c->prefix);
        if (has)
            TRY(weight_take(in, w, w->name + c->n_prefix, rank + 1, all));
        else if (rest)
            TRY(weight_take(in, w, w->name, rank, all));
    }
    return OK;
}

/* What a checkpoint of this program has beside weights: averages, the optimizer's state. */
static bool own_state(const char *name)
{
    return begins(name, "ema/") || begins(name, "optimizer.") || begins(name, "run.");
}

/* Leaves out what is no weight, where that is known, and averages of tensors that are there. */
static int32_t list_tidy(const WeightsIn *in, const WeightChoice *average, WeightFileList *all)
{
    int32_t kept = 0, averages = 0;
    for (int32_t i = 0; i < all->n; i++) {
        const char *name = all->list[i].tensor.name;
        bool        another = average->n_prefix && begins(name, average->prefix) &&
                       names_have(&in->names, name + average->n_prefix);
        averages += another;
        if (!another && !(in->own && own_state(name)))
            all->list[kept++] = all->list[i];
    }
    all->n = kept;
    return averages;
}

/* The average, and for what has none the weights beside it. */
static Err take_average(const WeightsIn *in, const WeightChoice *weights,
                        const WeightChoice *average, WeightFileList *all, const char **from)
{
    WeightFileList beside = { 0 };
    if (average->group < 0)
        return fail(E_USAGE, "%s has no averaged weights of this model; leave out --ema", in->path);
    TRY(choice_take(in, average, false, 2, all));
    if (weights->group >= 0 && weights->kind == KIND_WEIGHTS)
        TRY(choice_take(in, weights, false, 0, &beside));
    for (int32_t i = 0; i < beside.n; i++)
        if (names_have(&in->names, beside.list[i].tensor.name) ||
            lengths_buffer(in->graph, beside.list[i].tensor.name))
            VEC_ADD(in->pool, all->list, all->n, all->cap, beside.list[i]);
    const char *text = choice_text(in->pool, in, average);
    *from = pool_print(in->pool, "averaged weights, %s", text ? text : in->path);
    return OK;
}

static Err take_weights(const WeightsIn *in, const WeightChoice *weights,
                        const WeightChoice *average, WeightFileList *all, const char **from)
{
    WeightChoice all_of_first = { .group = 0, .prefix = "" };
    bool         found = weights->group >= 0;
    if (!found && !in->n)
        return OK;
    /* nothing matches: the first is what the message names */
    TRY(choice_take(in, found ? weights : &all_of_first, !in->nested || !found, 0, all));
    *from = found ? choice_text(in->pool, in, weights) : NULL;
    int32_t averages = weights->kind == KIND_WEIGHTS ? list_tidy(in, average, all) : 0;
    if (averages && !in->own)
        *from = pool_print(in->pool, "%s%s%d averaged weights are left out (--ema takes them)",
                           *from ? *from : "", *from ? "; " : "", averages);
    return OK;
}

static bool own_checkpoint(const SafeFile *file)
{
    const Json *format = file->metadata ? json_get(file->metadata, "format") : NULL;
    return format && format->kind == JSON_TEXT && begins(format->text, "plimsoll-checkpoint");
}

static Err groups_read(WeightsIn *in, SafeFile *out);

/* The tensors of all the files that an index names, as one group. */
static Err groups_of_parts(WeightsIn *in, const MapFile *index, SafeFile *out)
{
    const char **files;
    int          n;
    int32_t      cap = 0;
    TRY(weights_index_parse(in->pool, in->path, index->bytes, index->n, &files, &n));
    in->groups = NEW(in->pool, WeightGroup);
    in->n = 1;
    *in->groups = (WeightGroup){ .path = "" };
    for (int i = 0; i < n; i++) {
        WeightsIn part = { .pool = in->pool, .path = files[i], .part = true };
        TRY(groups_read(&part, out));
        for (int32_t g = 0; g < part.n; g++)
            for (int32_t k = 0; k < part.groups[g].n; k++)
                VEC_ADD(in->pool, in->groups->weights, in->groups->n, cap,
                        part.groups[g].weights[k]);
    }
    return OK;
}

static Err groups_read(WeightsIn *in, SafeFile *out)
{
    MapFile   map;
    TorchFile torch;
    FlaxFile  flax;
    TRY(file_map(in->pool, in->path, &map));
    /* a safetensors file has its header's '{' behind 8 bytes that may look like anything */
    bool safe = map.n > 8 && map.bytes[8] == '{';
    *out = (SafeFile){ .path = pool_text(in->pool, in->path) };
    if (!in->part && weights_index_likely(map.bytes, map.n))
        return groups_of_parts(in, &map, out);
    if (!safe && flax_likely(map.bytes, map.n)) {
        TRY(flax_parse(in->pool, in->path, map.bytes, map.n, &flax));
        group_flax(in, &flax);
    } else if (!safe && torch_likely(map.bytes, map.n)) {
        TRY(torch_parse(in->pool, in->path, map.bytes, map.n, &torch));
        groups_torch(in, &torch);
    } else if (!safe && map.n > 8 && !name_ends(in->path, ".safetensors"))
        return fail(E_FORMAT,
                    "%s holds no weights: it is neither safetensors nor a file of torch.save or of "
                    "flax.serialization",
                    in->path);
    else {
        TRY(safetensors_parse(in->pool, in->path, map.bytes, map.n, out));
        group_safe(in, out);
        in->own = own_checkpoint(out);
    }
    return OK;
}

Err weights_file_read(Pool *pool, const Graph *graph, const char *path, bool average, SafeFile *out,
                      const char **from)
{
    WeightsIn      in = { .pool = pool, .graph = graph, .path = path };
    WeightFileList all = { 0 };
    WeightChoice   weights, mean;
    *from = NULL;
    in.names = names_of(pool, graph);
    in.dotless = names_dotless(pool, graph);
    TRY(groups_read(&in, out));
    groups_dotted(&in);
    choose(&in, &weights, &mean);
    if (average)
        TRY(take_average(&in, &weights, &mean, &all, from));
    else
        TRY(take_weights(&in, &weights, &mean, &all, from));
    weights_sort(pool, &all, out);
    return OK;
}

/* ---- a model beside others ---- */

/* What stands before the ending, if the name has it; NULL: it has not. */
static const char *prefix_before(Pool *pool, const char *name, const char *ending)
{
    size_t n = strlen(name), m = strlen(ending);
    if (n < m || strcmp(name + n - m, ending) != 0 || (n > m && name[n - m - 1] != '.'))
        return NULL;
    return pool_textn(pool, name, n - m);
}

Err weights_file_beside(Pool *pool, const char *path, const char *ending, SafeFile *out,
                        const char **prefix)
{
    WeightsIn      in = { .pool = pool, .path = path };
    WeightFileList all = { 0 };
    WeightChoice   found = { .group = -1 };
    *prefix = NULL;
    TRY(groups_read(&in, out));
    for (int32_t g = 0; g < in.n && !*prefix; g++)
        for (int32_t i = 0; i < in.groups[g].n && !*prefix; i++) {
            *prefix = prefix_before(pool, in.groups[g].weights[i].name, ending);
            found.group = g;
        }
    if (*prefix) {
        found.prefix = *prefix;
        found.n_prefix = strlen(*prefix);
        TRY(choice_take(&in, &found, false, 0, &all));
    }
    weights_sort(pool, &all, out);
    return OK;
}
