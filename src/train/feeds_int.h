/* feeds_int.h -- between feeds.c and prefetch.c. */
#ifndef TRAIN_FEEDS_INT_H
#define TRAIN_FEEDS_INT_H

#include "train/feeds.h"

size_t  feed_bytes(const FeedBuffer *feed);          /* of one piece */
int64_t feeds_rows_loaded(const Feeds *feeds);       /* samples of a micro-batch with all pieces */
/* One row of it, into these buffers (of each served feed) or the feeds' own (NULL); all of it, into
 * these. */
Err     feeds_load_row(const Feeds *feeds, void *const *into, int64_t drawn, int64_t row,
                       bool in_order, Work work);
Err     feeds_load(const Feeds *feeds, int64_t drawn, bool in_order);

/* Takes what was loaded, or loads it here if that was something else; then asks for the next. */
Err     prefetch_take(Feeds *feeds, int64_t drawn);

#endif
