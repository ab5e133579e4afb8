/* range.h -- range images in .npy and .npz files: metres, one frame or many in a file.
 *
 *   (H,W)  (H,W,C)         one frame
 *   (N,H,W)  (N,H,W,C)     N frames; C is at most RANGE_CHANNELS, a wider last axis is W
 *
 * A frame is read from its file by position. A deflated array of an .npz file is read from the
 * cache. */
#ifndef DATA_RANGE_H
#define DATA_RANGE_H

#include "data/cache.h"

enum { RANGE_CHANNELS = 16 };

typedef struct RangeFile {
    const char *path, *file; /* path: in messages; file: where the numbers are */
    NpyType     type;
    int64_t     frames, height, width, channels, channel; /* channel: that of the metres */
    size_t      first, file_bytes;
    int32_t     cached; /* in the cache's list; -1: read where it is */
} RangeFile;

typedef struct Ranges { /* arrays that are inflated into the cache */
    CacheForm       form;
    CacheList       list;
    const DataSpec *spec;
} Ranges;

Ranges *ranges_new(Pool *pool, const DataSpec *spec);
Err     range_look(Pool *pool, Ranges *ranges, const char *path, RangeFile *out);
Err     ranges_ready(Pool *pool, Ranges *ranges, RangeFile *files, int32_t n);

/* Smallest and largest range above 0, if they lie beyond those given. */
Err range_extremes(const RangeFile *file, double *low, double *high);

typedef struct RangeView { /* what the model sees of a frame */
    int64_t height, width, channels;
    double  low, high; /* metres that become -1 and 1 */
} RangeView;

/* One frame as the reference programs scale it: valid ranges (r > 0) become whole numbers 0..255,
 * all others 0; then [-1,1], the same in each channel. Rows and columns are the nearest ones, and
 * columns go on around the circle. valid: (height, width) 0/1, or NULL. */
Err    range_frame(const RangeFile *file, int64_t frame, const RangeView *view, float *to,
                   uint8_t *valid, Work *work);
size_t range_frame_work(const RangeFile *file);

#endif
