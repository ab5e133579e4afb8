/* given_numbers.h -- what a sampling run takes from a file instead of drawing it, so that another
 * program can start from the same numbers: inputs, and random numbers by name and index. */
#ifndef TRAIN_GIVEN_NUMBERS_H
#define TRAIN_GIVEN_NUMBERS_H

#include "base/safetensors.h"
#include "train/feeds.h"

/* Tensor NAME: an input, of its feed's type and shape. */
Err given_input(const SafeFile *file, const FeedBuffer *feed);
/* Row `index` of tensor noise.NAME, F32 of shape (draws, ...) with n numbers in a row. */
Err given_row(const SafeFile *file, const char *name, int64_t index, float *to, int64_t n);

/* The numbers of a result, before they become files: tensor `samples`. */
Err given_write(Pool *pool, const char *folder, const SampleResult *result, const char **path);

#endif
