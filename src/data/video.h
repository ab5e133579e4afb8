/* video.h -- videos as frames of one size: decoded into the cache, uint8 (frames, height, width,
 * channels). */
#ifndef DATA_VIDEO_H
#define DATA_VIDEO_H

#include "data/cache.h"

typedef enum VideoFit {
    FIT_STRETCH, /* the whole frame, whatever its aspect ratio */
    FIT_COVER    /* the middle of the frame, with the aspect ratio that is wanted */
} VideoFit;

typedef struct Videos {
    CacheList       list; /* cache_add, cache_fill */
    CacheForm       form;
    const DataSpec *spec;
    int64_t         height, width, channels;
    VideoFit        fit;
} Videos;

Videos *videos_new(Pool *pool, const DataSpec *spec, int64_t height, int64_t width,
                   int64_t channels, VideoFit fit);

static inline int64_t video_frames(const CacheItem *item) { return item->shape[0]; }

/* Frame number `frame` as floats in [-1,1]; a number beyond the last means the last. */
Err         video_frame(const CacheItem *item, int64_t frame, float *to, Work *work);
/* Workspace of video_frame. */
size_t      video_frame_work(const Videos *videos);
/* "3 videos, 120 frames" */
const char *videos_said(Pool *pool, const Videos *videos);

#endif
