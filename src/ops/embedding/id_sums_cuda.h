/* id_sums_cuda.h -- rows added up by id, in the order of the ids: gradients of tables. */
#ifndef OPS_EMBEDDING_ID_SUMS_CUDA_H
#define OPS_EMBEDDING_ID_SUMS_CUDA_H

#include "ops/reduce/rows_cuda.h"

typedef struct IdSums { /* out[id] = before[id] + the rows with that id */
    const int32_t *ids;
    AnyIn          rows;
    const float   *before; /* or NULL */
    float         *out;
    int64_t        count, n, width; /* ids; rows and columns of out */
    bool           wrap;            /* negative ids count from the end */
    int64_t        padding;         /* an id whose rows are not added, or -1 */
} IdSums;

size_t id_sums_workspace(int64_t count, int64_t n, int64_t width, int sms);
Err    id_sums_run(const Call *call, const IdSums *sums);

#endif
