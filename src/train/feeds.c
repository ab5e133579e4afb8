/* feeds.c -- filling input buffers. */
#include "train/feeds.h"

#include "ops/basic.h"
#include "ops/ops.h"

#include <string.h>

Err feeds_new(Pool *pool, Session *session, Part part, Feeds *feeds)
{
    const Graph *graph = session_engine(session)->graph;
    *feeds = (Feeds){ 0 };
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const Node *node = &graph->nodes[i];
        if (node->op != &op_feed || node->part != part)
            continue;
        FeedBuffer feed = { .name = ATTR(node, FeedAttr)->name, .type = out_type(node, 0), .shape = out_shape(node, 0),
                            .bytes = pool_alloc(pool, (size_t)out_bytes(node, 0), 1) };
        feeds->bytes += (int64_t)out_bytes(node, 0);
        TRY(session_feed(session, feed.name, feed.bytes));
        VEC_ADD(pool, feeds->list, feeds->n, feeds->cap, feed);
    }
    return OK;
}

Err feeds_from_file(Pool *pool, Feeds *feeds, const char *path, int64_t *n_rows)
{
    SafeFile file;
    TRY(safetensors_read(pool, path, &file));
    *n_rows = INT64_MAX;
    for (int32_t i = 0; i < feeds->n; i++) {
        FeedBuffer       *feed = &feeds->list[i];
        const SafeTensor *t = safetensors_find(&file, feed->name);
        SafeType          want = feed->type == F32 ? SAFE_F32 : feed->type == I32 ? SAFE_I32 : SAFE_U8;
        if (!t)
            return fail(E_USAGE, "%s lacks the input '%s' %s", path, feed->name, shape_text(feed->shape));
        bool same = t->rank == feed->shape.rank + 1 && t->type == want;
        for (int a = 0; same && a < feed->shape.rank; a++)
            same = t->shape[a + 1] == feed->shape.dim[a];
        if (!same)
            return fail(E_USAGE, "%s: input '%s' must be %s with shape (steps,) + %s", path, feed->name,
                        safe_type_name(want), shape_text(feed->shape));
        feed->given = t;
        if (t->shape[0] < *n_rows)
            *n_rows = t->shape[0];
    }
    return OK;
}

Err feeds_fill(Feeds *feeds, int64_t micro_batch, int64_t drawn)
{
    for (int32_t i = 0; i < feeds->n; i++) {
        FeedBuffer *feed = &feeds->list[i];
        size_t      bytes = (size_t)(shape_count(feed->shape) * type_bytes(feed->type));
        if (feed->given) {
            if (micro_batch >= feed->given->shape[0])
                return fail(E_USAGE, "the given inputs end after %lld micro-batches", (long long)feed->given->shape[0]);
            memcpy(feed->bytes, (const char *)feed->given->data + (size_t)micro_batch * bytes, bytes);
            continue;
        }
        for (int64_t row = 0; row < feed->shape.dim[0]; row++)
            TRY(feeds->source->load(feeds->source, feed->name, feed->type, feed->shape,
                                    source_order(feeds->source, feeds->seed, drawn + row), row, feed->bytes));
    }
    return OK;
}
