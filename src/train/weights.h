/* weights.h -- loads weights from a file into a session: those of a run for sampling, or starting
 * weights, which may also be a file of torch.save (train/weights_file.h). Batch-norm statistics are
 * loaded too if the file has them. */
#ifndef TRAIN_WEIGHTS_H
#define TRAIN_WEIGHTS_H

#include "base/safetensors.h"
#include "exec/session.h"
#include "models/model.h"

/* Starting weights. Fails and names the tensors if any are missing or unused. partial: loads what
 * fits, ignores tensors of another shape, and describes both in `note` (may be NULL). The note also
 * says which of a file's state dicts was taken, and which prefix off its names. */
Err weights_load(Pool *pool, Session *session, const char *path, bool partial, const char **note);

/* The same for a model with further tensors in its state dict (ModelDef.others): the file may hold
 * them, with the contents that the model has. */
Err weights_load_beside(Pool *pool, Session *session, const char *path, bool partial,
                        const OtherTensor *others, int32_t n, const char **note);

/* From a checkpoint, for sampling: the averaged weights if it has them, unless raw. */
Err weights_load_run(Pool *pool, Session *session, const char *path, bool raw, bool *averaged);

SafeType safe_type(Type type);
bool     tensor_fits(const SafeTensor *tensor, Shape shape);
/* The error that the tensor does not have this shape. */
Err      tensor_misfit(const char *path, const SafeTensor *tensor, Shape shape);

#endif
