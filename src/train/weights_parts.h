/* weights_parts.h -- weights in a folder, or divided among several files, as Hugging Face's libraries
 * save them:
 *
 *   model.safetensors.index.json      {"weight_map": {"NAME": "model-00001-of-00002.safetensors", ...}}
 *   model-00001-of-00002.safetensors
 *   model-00002-of-00002.safetensors
 */
#ifndef TRAIN_WEIGHTS_PARTS_H
#define TRAIN_WEIGHTS_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/pool.h"

/* The file to read for a folder that is no run: the one with a usual name, or the only one. */
Err weights_in_folder(Pool *pool, const char *folder, const char **path);

/* Do the bytes begin as an index does, and not as safetensors? */
bool weights_index_likely(const unsigned char *bytes, size_t n);
/* The files that an index names, each once, in the order of its first tensor. */
Err  weights_index_parse(Pool *pool, const char *path, const unsigned char *bytes, size_t n,
                         const char ***files, int *n_files);

/* Is it named as one of several files? */
bool weights_is_part(const char *path);

#endif
