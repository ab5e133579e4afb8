/* weights_file.h -- a file of weights as named tensors: safetensors, what torch.save wrote, or what
 * flax.serialization wrote.
 *
 * What the file is, is seen in its bytes, not in its name. Names may carry anything that the user's
 * program put before the model's names (`module.`, `model.`, `params.`): of all beginnings the one
 * that gives the most of the model's names is taken off. Of a checkpoint with several state dicts
 * (model, ema, optimizer) the one that matches best is taken, the first of equals. An average of the
 * weights is taken where it is asked for, or if no other tensors come near; what an optimizer keeps
 * never is.
 */
#ifndef TRAIN_WEIGHTS_FILE_H
#define TRAIN_WEIGHTS_FILE_H

#include "base/safetensors.h"
#include "ir/graph.h"

/* *from: what was taken, "taken from 'state_dict', names without 'model.'"; NULL: all, as it is.
 * Tensors of the model that cannot be read are an error; others that cannot are left out.
 * average: E_USAGE if the file has none. Frozen parameters have none and are taken as they are. */
Err weights_file_read(Pool *pool, const Graph *graph, const char *path, bool average, SafeFile *out,
                      const char **from);

/* For a model that stands in the file beside others: the tensors whose names have the prefix that
 * stands before `ending` in a name of the file, without that prefix. Of several state dicts the
 * first is taken. out->n is 0 if no name ends so. */
Err weights_file_beside(Pool *pool, const char *path, const char *ending, SafeFile *out,
                        const char **prefix);

#endif
