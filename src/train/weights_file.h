/* weights_file.h -- a file of weights as named tensors: safetensors, or what torch.save wrote.
 *
 * What the file is, is seen in its bytes, not in its name. Names may carry a prefix that the user's
 * program put around the model (`module.`, `model.`); it is taken off if the names match the model
 * better without it. Of a checkpoint with several state dicts (model, ema, optimizer) the one that
 * matches best is taken, the first of equals; an average only if no other comes near.
 */
#ifndef TRAIN_WEIGHTS_FILE_H
#define TRAIN_WEIGHTS_FILE_H

#include "base/safetensors.h"
#include "ir/graph.h"

/* *from: what was taken, "taken from 'state_dict', names without 'model.'"; NULL: all, as it is.
 * Tensors of the model that cannot be read are an error; others that cannot are left out. */
Err weights_file_read(Pool *pool, const Graph *graph, const char *path, SafeFile *out,
                      const char **from);

#endif
