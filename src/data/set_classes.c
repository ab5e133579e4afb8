/* set_classes.c -- finds classes of images in folders and files. */
#include "data/sets.h"

#include "base/file.h"
#include "base/hash.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    CIFAR_SIDE = 32,
    CIFAR_PIXELS = 3 * CIFAR_SIDE * CIFAR_SIDE,
    CSV_MAX = 1 << 28 /* bytes */
};

/* ---- classes by name ---- */

static void slots_grow(SetClasses *s)
{
    int32_t n = s->n_slots ? 2 * s->n_slots : 64;
    s->slots = NEWN(s->pool, int32_t, n);
    s->n_slots = n;
    for (int32_t i = 0; i < s->n; i++) {
        uint64_t at = hash_text(HASH_EMPTY, s->list[i].name);
        while (s->slots[at % (uint64_t)n])
            at++;
        s->slots[at % (uint64_t)n] = i + 1;
    }
}

static ImageClass *class_of(SetClasses *s, const char *name)
{
    if (2 * s->n >= s->n_slots)
        slots_grow(s);
    uint64_t at = hash_text(HASH_EMPTY, name), n = (uint64_t)s->n_slots;
    for (; s->slots[at % n]; at++)
        if (!strcmp(s->list[s->slots[at % n] - 1].name, name))
            return &s->list[s->slots[at % n] - 1];
    VEC_ADD(s->pool, s->list, s->n, s->cap, (ImageClass){ .name = name });
    s->slots[at % n] = s->n;
    return &s->list[s->n - 1];
}

static void image_take(void *to, const char *name, const SetArray *array, int64_t index)
{
    SetClasses *s = to;
    ImageClass *c = class_of(s, name);
    VEC_ADD(s->pool, c->items, c->n, c->cap, (SetItem){ .array = array, .index = index });
    s->array_work = size_max(s->array_work, set_array_work(array));
    s->array_height = int_max(s->array_height, array->height);
    s->array_width = int_max(s->array_width, array->width);
}

static void files_take(SetClasses *s, const char *name, const ImageList *files)
{
    ImageClass *c = class_of(s, name);
    for (int32_t i = 0; i < files->n; i++)
        VEC_ADD(s->pool, c->items, c->n, c->cap, (SetItem){ .path = files->paths[i] });
    largest_note(&s->largest, &files->largest);
}

static Err folder_take(SetClasses *s, FilePick pick, const char *name, const char *folder)
{
    ImageList files;
    TRY(image_list(s->pool, folder, pick, &files));
    files_take(s, name, &files);
    return OK;
}

/* ---- CIFAR's records: one label byte, or two of which the second counts; then planes ---- */

static Err binary_take(SetClasses *s, const char *path)
{
    MapFile map;
    size_t  labels;
    TRY(file_map(s->pool, path, &map));
    labels = map.n % (CIFAR_PIXELS + 1) == 0 ? 1 : 2;
    if (!map.n || map.n % (CIFAR_PIXELS + labels))
        return fail(E_FORMAT, "%s has %zu bytes, not a multiple of a CIFAR record's %d or %d bytes",
                    path, map.n, CIFAR_PIXELS + 1, CIFAR_PIXELS + 2);
    SetArray *a = NEW(s->pool, SetArray);
    *a = (SetArray){ .path = path,
                     .file_bytes = map.n,
                     .at = labels,
                     .type = NPY_U1,
                     .n = (int64_t)(map.n / (CIFAR_PIXELS + labels)),
                     .height = CIFAR_SIDE,
                     .width = CIFAR_SIDE,
                     .channels = 3,
                     .planes = true,
                     .stride = CIFAR_PIXELS + labels };
    for (int64_t i = 0; i < a->n; i++)
        image_take(s,
                   pool_print(s->pool, "class %d", map.bytes[(size_t)i * a->stride + labels - 1]),
                   a, i);
    return OK;
}

/* ---- miniImageNet: lines of a file name and a class; the images lie beside, or in images/ ---- */

static Err csv_line(SetClasses *s, const char *path, const char *folder, const char *line, size_t n,
                    int64_t number)
{
    const char *comma = memchr(line, ',', n);
    if (!comma || comma == line || comma + 1 == line + n ||
        memchr(comma + 1, ',', n - (size_t)(comma + 1 - line)) || memchr(line, '"', n))
        return fail(E_FORMAT, "%s:%lld: a line holds a file's name and its class: NAME.jpg,CLASS",
                    path, (long long)number);
    const char *name = pool_textn(s->pool, line, (size_t)(comma - line));
    const char *label = pool_textn(s->pool, comma + 1, n - (size_t)(comma + 1 - line));
    const char *image = pool_print(s->pool, "%s/images/%s", folder, name);
    ImageInfo   info;
    if (number == 1 && !image_name(name))
        return OK; /* the names of the columns */
    if (!file_exists(image))
        image = pool_print(s->pool, "%s/%s", folder, name);
    TRY(image_look(image, &info));
    info.path = image;
    files_take(s, label, &(ImageList){ .paths = &image, .n = 1, .largest = info });
    return OK;
}

static Err csv_take(SetClasses *s, const char *path)
{
    char  *bytes;
    char   folder[FILE_PATH_MAX];
    size_t n;
    TRY(file_read_within(s->pool, path, CSV_MAX, &bytes, &n));
    file_folder(path, folder, sizeof folder);
    int64_t number = 0;
    for (size_t at = 0, end; at < n; at = end + 1) {
        size_t length = 0;
        while (at + length < n && bytes[at + length] != '\n')
            length++;
        end = at + length;
        while (length && (bytes[at + length - 1] == '\r' || bytes[at + length - 1] == ' '))
            length--;
        number++;
        if (length)
            TRY(csv_line(s, path, folder, bytes + at, length, number));
    }
    return OK;
}

/* miniImageNet's folder: images/ and the list of their classes. *csv: NULL if it is no such folder. */
static Err folder_csv(Pool *pool, const char *path, char *const *names, int n, const char **csv)
{
    const char *first = NULL, *second = NULL;
    bool        images = false;
    *csv = NULL;
    for (int i = 0; i < n; i++) {
        images |= !strcmp(names[i], "images");
        if (name_ends(names[i], ".csv"))
            *(first ? &second : &first) = names[i];
    }
    if (images && second)
        return fail(E_USAGE, "%s holds several lists of classes; name one: --data %s/%s", path,
                    path, first);
    *csv = images && first ? pool_print(pool, "%s/%s", path, first) : NULL;
    return OK;
}

/* ---- folders ---- */

/* Does a name, without an ending, say that it is such a part: train, and of files CIFAR_FS_train? */
static bool names_part(const char *name, const char *const *words, bool folder)
{
    const char *dot = strrchr(name, '.');
    size_t      n = dot ? (size_t)(dot - name) : strlen(name);
    for (size_t m; *words; words++) {
        m = strlen(*words);
        if (n >= m && !strncasecmp(name + n - m, *words, m) &&
            (n == m || (!folder && strchr("-_. ", name[n - m - 1]))))
            return true;
    }
    return false;
}

/* A data set's parts are no classes: with them, every set would mix all classes, and a model would
 * train on what it is tested with. */
static Err parts_refuse(Pool *pool, const char *path, char *const *names, int n)
{
    static const char *const others[] = { "test", "val", "valid", "validation", "images_evaluation",
                                          NULL };
    static const char *const trains[] = { "train", "training", "images_background", NULL };
    const char              *train[2] = { 0 }, *other[2] = { 0 }; /* files, folders */
    for (int i = 0; i < n; i++) {
        int folder = folder_exists(pool_print(pool, "%s/%s", path, names[i]));
        if (!train[folder] && names_part(names[i], trains, folder))
            train[folder] = names[i];
        if (!other[folder] && names_part(names[i], others, folder))
            other[folder] = names[i];
    }
    if (n == 1 && train[1])
        return fail(E_USAGE,
                    "%s holds %s/ alone, which is a part of a data set, not a class; use --data "
                    "%s/%s",
                    path, train[1], path, train[1]);
    int         folder = train[1] && other[1];
    const char *end = folder ? "/" : "";
    if (!train[folder] || !other[folder])
        return OK;
    return fail(E_USAGE,
                "%s holds %s%s and %s%s, which are parts of a data set, not classes; use "
                "--data %s/%s --set data.holdout_path=%s/%s",
                path, train[folder], end, other[folder], end, path, train[folder], path,
                other[folder]);
}

/* Omniglot: the folders of an alphabet are its characters, and those are the classes. */
static Err alphabet_take(SetClasses *s, FilePick pick, const char *name, const char *folder,
                         bool *taken)
{
    static const char mark[] = "character";
    char            **names;
    int               n;
    *taken = false;
    TRY(folder_list(s->pool, folder, &names, &n));
    for (int i = 0; i < n; i++)
        if (strncmp(names[i], mark, sizeof mark - 1) ||
            !folder_exists(pool_print(s->pool, "%s/%s", folder, names[i])))
            return OK;
    for (int i = 0; i < n; i++)
        TRY(folder_take(s, pick, pool_print(s->pool, "%s/%s", name, names[i]),
                        pool_print(s->pool, "%s/%s", folder, names[i])));
    *taken = n > 0;
    return OK;
}

static Err class_folder_take(SetClasses *s, FilePick pick, const char *name, const char *folder)
{
    bool taken;
    TRY(alphabet_take(s, pick, name, folder, &taken));
    return taken ? OK : folder_take(s, pick, name, folder);
}

/* CUB's folder holds its classes in images/, beside lists of them. */
static const char *cub_images(Pool *pool, const char *path)
{
    const char *images = pool_print(pool, "%s/images", path);
    return folder_exists(images) && file_exists(pool_print(pool, "%s/classes.txt", path)) &&
                   file_exists(pool_print(pool, "%s/images.txt", path))
               ? images
               : path;
}

static Err folder_classes(SetClasses *s, const DataSpec *spec, const char *path)
{
    FilePick    pick = spec_pick(spec);
    char      **names;
    int         n;
    const char *csv;
    TRY(folder_list(s->pool, path, &names, &n));
    TRY(parts_refuse(s->pool, path, names, n));
    TRY(folder_csv(s->pool, path, names, n, &csv));
    if (csv)
        return csv_take(s, csv);
    for (int i = 0; i < n; i++) {
        const char *sub = pool_print(s->pool, "%s/%s", path, names[i]);
        if (folder_of_runs(sub))
            continue;
        if (folder_exists(sub))
            TRY(class_folder_take(s, pick, names[i], sub));
        else if (!file_picked(pick, sub))
            continue;
        else if (name_ends(names[i], ".bin"))
            TRY(binary_take(s, sub));
        else if (set_file_name(names[i]))
            TRY(set_file_read(s->pool, spec, sub, image_take, s));
    }
    /* images in no folder of their own: one class */
    return s->n ? OK : folder_take(s, pick, path, path);
}

Err set_classes_read(Pool *pool, const DataSpec *spec, SetClasses *out)
{
    const char *path = spec->path;
    *out = (SetClasses){ .pool = pool };
    if (!file_exists(path))
        return fail(E_IO, "there is no folder or file %s", path);
    if (folder_exists(path))
        return folder_classes(out, spec, cub_images(pool, path));
    if (name_ends(path, ".bin"))
        return binary_take(out, path);
    if (name_ends(path, ".csv"))
        return csv_take(out, path);
    return set_file_read(pool, spec, path, image_take, out);
}
