/* lengths.h -- weights that hold for one length only: an S4 layer's C~ (ops/s4/s4_step.h).
 *
 * A file says under `length/NAME` of its metadata which length tensor NAME was trained at; one that
 * says nothing is taken to have the model's. Starting weights of another length are converted, so
 * that the layer's kernel stays what it was; a run that goes on keeps its length. */
#ifndef TRAIN_LENGTHS_H
#define TRAIN_LENGTHS_H

#include "base/safetensors.h"
#include "ir/graph.h"

/* For safetensors_header: these pairs, then one for each such parameter. */
const char *const *lengths_metadata(Pool *pool, const Graph *graph, const char *const *pairs);
/* E_USAGE where a parameter of the file has another length than the model's. */
Err lengths_same(const char *path, const SafeFile *file, const Graph *graph);
/* The longest length that the file names, or 0: that of a whole sample. */
Err lengths_max(const char *path, const SafeFile *file, int64_t *most);
/* A tensor of a file as fp32, whatever float type it was saved in. */
Err tensor_f32(Pool *pool, const char *path, const SafeTensor *tensor, float **out);
/* The same for a parameter of the graph, changed to its length. */
Err lengths_tensor(Pool *pool, const char *path, const SafeFile *file, const Graph *graph,
                   const Param *param, const SafeTensor *tensor, float **out);

#endif
