/* frames.h -- frames on disk: images, or .npy arrays of one frame or of a whole clip. */
#ifndef DATA_FRAMES_H
#define DATA_FRAMES_H

#include "base/npy.h"
#include "data/image.h"

float   npy_number(const Npy *array, int64_t i); /* one number of an array of any type */
bool    npy_floats(const Npy *array);
/* The same of whole numbers, exactly. */
int64_t npy_whole(const Npy *array, int64_t i);

/* E_FORMAT if a number of the array is NaN or outside -max..max. */
Err npy_within(const char *path, const Npy *array, double max);

/* Reads an .npy file into the workspace, where its numbers stay. */
Err npy_load(const char *path, Work *work, Npy *array);
/* Reads the head of a file; array->data is not valid afterwards. Floats must be within -max..max;
 * max 0: any number and NaN may occur. */
Err npy_look(const char *path, double max, Npy *array, size_t *file_bytes);

#endif
