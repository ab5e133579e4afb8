/* frames.h -- frames on disk: images, or .npy arrays of one frame or of a whole clip. */
#ifndef DATA_FRAMES_H
#define DATA_FRAMES_H

#include "base/npy.h"
#include "data/image.h"

float npy_number(const Npy *array, int64_t i);       /* one number of an array of any type */
bool  npy_floats(const Npy *array);

/* Refuses an array that holds a number beyond -most..most, or none. */
Err npy_within(const char *path, const Npy *array, double most);

/* An .npy file read into the work; its numbers are good while the work is. */
Err npy_load(const char *path, Work *work, Npy *array);
/* Its head; data is not valid. Floats are looked at too, to be within -most..most; most 0: any,
 * and NaN. */
Err npy_look(const char *path, double most, Npy *array, size_t *file_bytes);

/* Range image of metres (H,W), as the originals scale it: valid (r > 0) between low and high to
 * 0..255, cut to whole numbers; the rest 0. Then to [-1,1]. valid: (H,W) 0/1, or NULL. */
void range_scale(const Npy *metres, double low, double high, float *to, uint8_t *valid);

#endif
