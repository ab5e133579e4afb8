/* sets.h -- classes of images, in files of any layout. */
#ifndef DATA_SETS_H
#define DATA_SETS_H

#include "data/image.h"
#include "data/set_array.h"

typedef struct SetItem {
    const char     *path; /* of an image; NULL: in an array */
    const SetArray *array;
    int64_t         index;
} SetItem;

typedef struct ImageClass {
    const char *name;
    SetItem    *items;
    int32_t     n, cap;
    int64_t     first_set;
} ImageClass;

typedef struct SetClasses {
    Pool       *pool;
    ImageClass *list;
    int32_t     n, cap;
    int32_t    *slots; /* open addressing by name: index + 1 */
    int32_t     n_slots;
    ImageInfo   largest;    /* of image files */
    size_t      array_work; /* of one image of an array */
    int64_t     array_height, array_width;
} SetClasses;

/* Reads a folder or file: one folder for each class, omniglot's and CUB's folders, miniImageNet's .csv,
 * CIFAR's .bin, or set_array.h. */
Err set_classes_read(Pool *pool, const DataSpec *spec, SetClasses *out);

#endif
