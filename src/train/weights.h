/* weights.h -- weights from a safetensors file into a session: a run's own for sampling, or any
 * others to begin with. Batch-norm statistics come along where the file has them. */
#ifndef TRAIN_WEIGHTS_H
#define TRAIN_WEIGHTS_H

#include "base/safetensors.h"
#include "exec/session.h"

/* Starting weights from elsewhere: names missing and unused tensors and refuses; partial takes what
 * fits, leaves out what has another shape, and gives the same words in said (NULL: nobody asks). */
Err weights_load(Pool *pool, Session *session, const char *path, bool partial, const char **said);

/* From a checkpoint, for sampling: the averaged weights where it has them, unless raw. */
Err weights_load_run(Pool *pool, Session *session, const char *path, bool raw, bool *averaged);

SafeType safe_type(Type type);
bool     tensor_fits(const SafeTensor *tensor, Shape shape);
Err      tensor_misfit(const char *path, const SafeTensor *tensor, Shape shape);   /* says so */

#endif
