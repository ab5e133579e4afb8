/* weights.h -- loads weights from a file into a session: those of a run for sampling, or starting
 * weights, which may also be a file of torch.save or Flax (train/weights_file.h). Batch-norm statistics are
 * loaded too if the file has them. */
#ifndef TRAIN_WEIGHTS_H
#define TRAIN_WEIGHTS_H

#include "base/safetensors.h"
#include "exec/session.h"
#include "models/model.h"

typedef struct WeightsFrom {
    const char *path;
    bool        partial; /* takes what fits */
    bool        part; /* the graph is a part of what the file holds: every parameter must be there,
                          * and other tensors are not looked at */
    bool        average; /* the average of the weights that the file keeps */
    const OtherTensor
               *others;   /* further tensors of the model's state dict (ModelDef.others): the */
    int32_t     n_others; /* file may hold them, with the contents that the model has */
    const char *unread;   /* ModelDef.unread */
} WeightsFrom;

/* Starting weights. Fails and names the tensors if any are missing or unused; partial: ignores those
 * and tensors of another shape. *note (may be NULL) describes what was not taken, which of a file's
 * state dicts was, and which beginning off its names; NULL: nothing to say. */
Err weights_load_from(Pool *pool, Session *session, const WeightsFrom *from, const char **note);
Err weights_load(Pool *pool, Session *session, const char *path, bool partial, const char **note);

/* From a checkpoint, for sampling: the averaged weights if it has them, unless raw. */
Err weights_load_run(Pool *pool, Session *session, const char *path, bool raw, bool *averaged);

SafeType safe_type(Type type);
bool     tensor_fits(const SafeTensor *tensor, Shape shape);
/* The error that the tensor does not have this shape. */
Err      tensor_misfit(const char *path, const SafeTensor *tensor, Shape shape);

#endif
