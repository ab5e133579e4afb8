/* feeds_int.h -- between feeds.c and prefetch.c. */
#ifndef TRAIN_FEEDS_INT_H
#define TRAIN_FEEDS_INT_H

#include "train/feeds.h"

size_t  feed_bytes(const FeedBuffer *feed); /* of one micro-batch, after the split */
/* From the micro-batches loaded together to the next of this rank, in units of them; 0: irregular. */
int64_t feeds_stride(const Feeds *feeds);
int64_t feeds_rows_loaded(const Feeds *feeds); /* samples loaded together, before the split */
/* Loads one row, or all of them: into `into` (per served feed), or the feeds' own buffers
 * (NULL). */
Err feeds_load_row(const Feeds *feeds, void *const *into, int64_t drawn, int64_t row, bool in_order,
                   Work work);
Err feeds_load(const Feeds *feeds, int64_t drawn, bool in_order);

/* Swaps in the prefetched rows at position `drawn`, or loads them if others were prefetched. Then
 * starts on the next. */
Err prefetch_take(Feeds *feeds, int64_t drawn);

#endif
