/* set_array.h -- images of several classes in one file: .npz, .npy and Python's pickles.
 *
 *   .npz     images (N,H,W,C) and labels (N); or one array (n,H,W,C) for each class
 *   .npy     (classes,n,H,W,C); or one class, named by the file
 *   pickle   {"data": (N,H,W,C), "labels": [...]}; {"image_data": ..., "class_dict": {name: [...]}};
 *            or {class: (n,H,W,C)}. Nothing of it is executed (base/pickle.h)
 *
 * Images may lack the axis C (grey) or have it before H; they are uint8, bool, or floats in [0,1] or
 * [-1,1]. Images stay in their file and are read by position; those of a deflated array are in
 * memory. */
#ifndef DATA_SET_ARRAY_H
#define DATA_SET_ARRAY_H

#include "base/npy.h"
#include "data/source.h"

typedef struct SetArray {
    const char          *path;
    size_t               at, file_bytes; /* of the first image, in the file */
    const unsigned char *bytes;          /* NULL: they are in the file */
    NpyType              type;
    int64_t              n, height, width, channels;
    bool                 planes;    /* channels come before rows */
    bool                 is_signed; /* floats in [-1,1] */
    size_t               stride;    /* bytes from one image to the next */
} SetArray;

/* Takes image `index` of the array for the class of that name. */
typedef void SetTake(void *to, const char *name, const SetArray *array, int64_t index);

bool set_file_name(const char *name); /* has it the ending of such a file? */
Err  set_file_read(Pool *pool, const DataSpec *spec, const char *path, SetTake *take, void *to);

/* The same of bytes in memory: of an .npz, an .npy or a pickle. wanted: the array of images
 * (data.array); NULL: the only one. */
Err set_npz_parse(Pool *pool, const char *path, const void *bytes, size_t n, const char *wanted,
                  int64_t memory, SetTake *take, void *to);
Err set_npy_parse(Pool *pool, const char *path, const void *bytes, size_t n, SetTake *take,
                  void *to);
Err set_pickle_parse(Pool *pool, const char *path, const void *bytes, size_t n, SetTake *take,
                     void *to);

/* Reads one image as floats in [0,1], (height, width, channels) of 1 or 3. */
Err set_array_load(const SetArray *array, int64_t index, int64_t channels, float *to, Work *work);
size_t set_array_work(const SetArray *array);

/* ---- between set_array.c and set_pickle.c ---- */

/* An array of images whose numbers begin at a->data, in a file of n bytes. n_each: of those that
 * share the first axis, if that is the classes' and not the images'; else 0. */
Err  set_array_new(Pool *pool, const char *path, const char *name, const void *bytes, size_t n,
                   const Npy *a, SetArray **out, int64_t *n_each);
/* Gives all images of an array that is a class, or several. */
void set_array_give(Pool *pool, const char *name, const SetArray *array, int64_t n_each,
                    SetTake *take, void *to);

#endif
