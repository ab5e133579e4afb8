/* weights_parts.c -- finds the files that hold the weights of a model. */
#include "train/weights_parts.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "data/frames.h"

#include <ctype.h>
#include <string.h>

static const char index_ending[] = ".index.json";

static bool is_weights(const char *name)
{
    static const char *const endings[] = { ".safetensors", ".bin",     ".pt", ".pth",
                                           ".ckpt",        ".msgpack", NULL };
    for (int i = 0; endings[i]; i++)
        if (name_ends(name, endings[i]))
            return true;
    return false;
}

bool weights_is_part(const char *path)
{
    const char *of = NULL;
    for (const char *at = path; (at = strstr(at, "-of-")) != NULL; at++)
        of = at;
    return of && of > path && isdigit((unsigned char)of[-1]) && isdigit((unsigned char)of[4]) &&
           is_weights(path);
}

/* The name that a library gives to a model's weights, whatever lies beside them. */
static const char *usual_name(char **names, int n)
{
    static const char *const usual[] = { "model.safetensors",
                                         "diffusion_pytorch_model.safetensors",
                                         "model.safetensors.index.json",
                                         "diffusion_pytorch_model.safetensors.index.json",
                                         "pytorch_model.bin",
                                         "diffusion_pytorch_model.bin",
                                         "pytorch_model.bin.index.json",
                                         NULL };
    for (int u = 0; usual[u]; u++)
        for (int i = 0; i < n; i++)
            if (!strcmp(names[i], usual[u]))
                return names[i];
    return NULL;
}

Err weights_in_folder(Pool *pool, const char *folder, const char **path)
{
    char      **names;
    const char *found, *other = NULL;
    int         n;
    TRY(folder_list(pool, folder, &names, &n));
    found = usual_name(names, n);
    for (int i = 0, sole = !found; i < n && sole; i++) {
        if ((!is_weights(names[i]) || weights_is_part(names[i])) &&
            !name_ends(names[i], index_ending))
            continue;
        other = found;
        found = names[i];
        sole = !other;
    }
    if (!found)
        return fail(E_USAGE,
                    "%s is neither a run nor a folder with weights (.safetensors, .bin, .pt, .pth, "
                    ".ckpt, .msgpack); name the file with the weights",
                    folder);
    if (other)
        return fail(E_USAGE, "%s holds several files with weights (%s, %s); name one of them",
                    folder, other, found);
    *path = pool_print(pool, "%s/%s", folder, found);
    return OK;
}

/* The length that begins safetensors would be above 2^40 with a character in its sixth byte. */
bool weights_index_likely(const unsigned char *bytes, size_t n)
{
    return n > 8 && bytes[0] == '{' && bytes[5] && bytes[6];
}

static bool is_plain_name(const Json *value)
{
    return value->kind == JSON_TEXT && value->n && value->text[0] != '.' &&
           !strchr(value->text, '/');
}

typedef struct FileSet {
    Pool        *pool;
    const char **list;
    int32_t     *slots; /* open addressing by the path: place in the list + 1, or 0 */
    uint32_t     n_slots;
    int          n, cap;
} FileSet;

static void file_set_add(FileSet *set, const char *path)
{
    uint32_t i = (uint32_t)(hash_text(HASH_EMPTY, path) >> 16) & (set->n_slots - 1);
    while (set->slots[i] && strcmp(set->list[set->slots[i] - 1], path) != 0)
        i = (i + 1) & (set->n_slots - 1);
    if (set->slots[i])
        return;
    VEC_ADD(set->pool, set->list, set->n, set->cap, path);
    set->slots[i] = set->n;
}

Err weights_index_parse(Pool *pool, const char *path, const unsigned char *bytes, size_t n,
                        const char ***files, int *n_files)
{
    const Json *root, *map;
    char        folder[FILE_PATH_MAX];
    FileSet     set = { .pool = pool, .n_slots = 64 };
    TRY(json_parse(pool, path, (const char *)bytes, n, 0, &root));
    map = json_get(root, "weight_map");
    if (!map || map->kind != JSON_OBJECT || !map->n)
        return fail(E_USAGE,
                    "%s is JSON, but no index of weights: it has no \"weight_map\"; name the file "
                    "with the weights",
                    path);
    file_folder(path, folder, sizeof folder);
    while (set.n_slots < 2 * map->n)
        set.n_slots *= 2;
    set.slots = NEWN(pool, int32_t, set.n_slots);
    for (uint32_t i = 0; i < map->n; i++) {
        const Json *value = &map->members[i].value;
        if (!is_plain_name(value))
            return fail(E_FORMAT, "%s: %s is not in a file beside it", path, map->members[i].key);
        file_set_add(&set, pool_print(pool, "%s/%s", folder, value->text));
    }
    *files = set.list;
    *n_files = set.n;
    for (int i = 0; i < set.n; i++)
        if (!file_exists(set.list[i]))
            return fail(E_IO, "%s is missing: %s names it, one of %d files; download it too",
                        set.list[i], path, set.n);
    return OK;
}
