/* weights.h -- loads weights from a safetensors file into a session: those of a run for sampling,
 * or starting weights. Batch-norm statistics are loaded too if the file has them. */
#ifndef TRAIN_WEIGHTS_H
#define TRAIN_WEIGHTS_H

#include "base/safetensors.h"
#include "exec/session.h"

/* Starting weights. Fails and names the tensors if any are missing or unused. partial: loads what
 * fits, ignores tensors of another shape, and describes both in `note` (may be NULL). */
Err weights_load(Pool *pool, Session *session, const char *path, bool partial, const char **note);

/* From a checkpoint, for sampling: the averaged weights if it has them, unless raw. */
Err weights_load_run(Pool *pool, Session *session, const char *path, bool raw, bool *averaged);

SafeType safe_type(Type type);
bool     tensor_fits(const SafeTensor *tensor, Shape shape);
/* The error that the tensor does not have this shape. */
Err      tensor_misfit(const char *path, const SafeTensor *tensor, Shape shape);

#endif
