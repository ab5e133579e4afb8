/* checkpoint_state.h -- the JSON of a checkpoint (plimsoll-checkpoint-2; files of version 1 are read
 * too). Its last key is a checksum of all bytes before it: a change of any of them is noticed. */
#ifndef TRAIN_CHECKPOINT_STATE_H
#define TRAIN_CHECKPOINT_STATE_H

#include "base/checksum.h"
#include "base/file.h"
#include "train/checkpoint.h"

/* Writes it to an open file that is empty. */
void checkpoint_state_write(FileOut *out, const RunState *state, int32_t n_tensors,
                            const Checksum *weights);

/* Reads step, position in the data, seed and schedule, and how many tensors there are (-1: an older
 * version, which does not say). If the checkpoint has no plateau, a plateau schedule starts from the
 * beginning. */
Err checkpoint_state_read(Pool *pool, const char *path, int64_t step, RunState *state,
                          int64_t *tensors);
/* The same from text. */
Err checkpoint_state_parse(Pool *pool, const char *path, const char *text, size_t n, int64_t step,
                           RunState *state, int64_t *tensors);

void checkpoint_digits(uint64_t hash, char text[17]); /* a checksum as 16 hexadecimal digits */

#endif
