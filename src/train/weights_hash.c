/* weights_hash.c -- the sum of the parameters' checksums. */
#include "train/weights_hash.h"

#include "base/checksum.h"

#include <string.h>

Err weights_hash(Pool *pool, Session *session, uint64_t *hash)
{
    const Graph *graph = session_engine(session)->graph;
    *hash = 0;
    for (int32_t i = 0; i < graph->n_params; i++) {
        const Param *p = &graph->params[i];
        Pool        *work = pool_new(pool, "weights");
        int64_t      n = shape_count(p->disk);
        float       *disk = NEWN(work, float, n);
        Checksum     sum = checksum_begin();
        Err          err = session_get_param(session, i, p->value, disk);
        checksum_add(&sum, p->name, strlen(p->name) + 1);
        checksum_add(&sum, disk, (size_t)n * sizeof *disk);
        *hash += checksum_end(&sum);
        pool_free(work);
        TRY(err);
    }
    return OK;
}
