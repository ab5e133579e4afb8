/* dump.h -- writes what one training step computes to a file, to compare it with other programs:
 * the loss, the model's outputs and the gradient of every trained parameter.
 *
 * The gradients are those that the update reads, before clipping: sums over the micro-batches, of
 * which each has its share of the loss. They are copied as they are produced, since their memory is
 * used again. */
#ifndef TRAIN_DUMP_H
#define TRAIN_DUMP_H

#include "autodiff/autodiff.h"
#include "exec/session.h"

typedef struct Dump Dump;

/* Before the step. */
Err dump_new(Pool *pool, Session *session, Dump **dump);
/* After the step's last micro-batch, before the update. */
Err dump_outputs(Dump *dump);
/* After the update: tensors loss, output/NAME, gradient/PARAMETER. */
Err dump_write(Dump *dump, const char *path, float loss);

#endif
