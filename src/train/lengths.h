/* lengths.h -- parameters that are valid for one sequence length only: an S4 layer's C~
 * (ops/s4/s4_step.h).
 *
 * The metadata entry `length/NAME` of a file holds the length at which tensor NAME was trained.
 * In files of the original program a buffer l_kernel beside the parameter says it, where 0 means that
 * the parameter is still C itself. Without either, the model's length is assumed. Starting weights of another length are converted so
 * that the layer's kernel stays the same. A resumed run keeps its length. */
#ifndef TRAIN_LENGTHS_H
#define TRAIN_LENGTHS_H

#include "base/safetensors.h"
#include "ir/graph.h"

/* Metadata for safetensors_header: the given pairs, then one for each such parameter. */
const char *const *lengths_metadata(Pool *pool, const Graph *graph, const char *const *pairs);
/* Is the name that of such a buffer of one of the graph's parameters? */
bool               lengths_buffer(const Graph *graph, const char *name);
/* The original's buffer of this parameter: its name and length. NULL: it has none. */
const char *lengths_buffer_of(Pool *pool, const Graph *graph, const Param *param, int64_t *length);
/* E_USAGE if a parameter of the file has another length than the model's. */
Err         lengths_same(const char *path, const SafeFile *file, const Graph *graph);
/* The largest length in the file's metadata, which is that of a whole sample; 0: there is none. */
Err         lengths_max(const char *path, const SafeFile *file, int64_t *max);
/* E_USAGE if a checkpoint's samples have another length than the recipe asks for; 0: it asks for
 * none. */
Err         lengths_as_trained(Pool *pool, const char *run, int64_t step, int64_t wants);
/* A tensor of a file as fp32, from any floating-point type. */
Err         tensor_f32(Pool *pool, const char *path, const SafeTensor *tensor, float **out);
/* The same for a parameter of the graph, converted to its length. */
Err         lengths_tensor(Pool *pool, const char *path, const SafeFile *file, const Graph *graph,
                           const Param *param, const SafeTensor *tensor, float **out);

#endif
