/* audio_cache.h -- audio files of any format and rate: decoded into the cache at the model's rate, (frames,
 * channels). Whole numbers of 16 bits where the file's were and nothing had to be computed, else
 * floats in [-1,1]. */
#ifndef DATA_AUDIO_CACHE_H
#define DATA_AUDIO_CACHE_H

#include "data/cache.h"

typedef struct AudioCache {
    CacheList list;
    CacheForm form;
    int64_t   rate, channels; /* of the model; 1 channel: the mean of all */
} AudioCache;

AudioCache *audio_cache_new(Pool *pool, const DataSpec *spec, int64_t rate, int64_t channels);

static inline int64_t audio_cache_frames(const CacheItem *item) { return item->shape[0]; }
static inline int64_t audio_cache_channels(const CacheItem *item) { return item->shape[1]; }

/* Frames first .. first + n - 1 as floats; `raw` has room for 4 bytes a number. */
Err audio_read(const CacheItem *item, int64_t first, int64_t n, unsigned char *raw, float *to);
/* "2 files in other formats, 1 of them converted to 8,000 samples a second"; NULL: there are none */
const char *audio_cache_said(Pool *pool, const AudioCache *cache);

/* E_FORMAT where so many channels do not make the model's. */
Err audio_channels_check(const char *path, int64_t has, int64_t channels);

#endif
