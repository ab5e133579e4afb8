/* media.h -- video and audio in compressed files, by libraries that the program runs without.
 *
 * Two plugins read them (plugin_video.c with FFmpeg's libav, plugin_audio.c with libsndfile and
 * libsamplerate); that of video also writes clips that were sampled (plugin_video_write.c). They are
 * opened only when a file needs them, in a training run only before the first step: what
 * they decode goes to the cache (cache.h), which is read from then on. Files are given as open file
 * descriptors, so that a plugin opens nothing by name. A plugin reports errors through the
 * program's fail(). */
#ifndef DATA_MEDIA_H
#define DATA_MEDIA_H

#include "base/err.h"
#include "base/pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MEDIA_FORM = 2 }; /* changes with the structs below */

typedef struct MediaHost {
    int form; /* MEDIA_FORM of the program */
    Err (*fail)(Err code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
} MediaHost;

typedef struct MediaFile { /* open, and its name in messages */
    int         fd;
    const char *path;
} MediaFile;

/* ---- video ---- */

typedef struct VideoWish {
    double  rate;          /* frames a second; 0: the file's own */
    double  from, seconds; /* the part that is wanted; seconds 0: to the end */
    int64_t max_pixels;    /* of a frame; more is refused */
} VideoWish;

typedef struct VideoInfo {
    int64_t width, height; /* as shown: rotated as the file says */
    double  aspect;        /* width of a pixel over its height */
    int64_t frames;        /* that are given */
    double  rate;          /* of those */
    bool    varies;        /* the file's own frames are not evenly spaced */
} VideoInfo;

/* Takes one frame: RGB of 8 bits, (height, width, 3). */
typedef Err VideoTake(void *to, const unsigned char *rgb, int64_t height, int64_t width);

typedef struct VideoClip {    /* to be written */
    const unsigned char *rgb; /* (frames, height, width, 3) */
    int64_t              frames, height, width;
    double               rate; /* frames a second */
} VideoClip;

/* What a clip is written as, the first that libav can: H.264 in MP4, VP9 or VP8 in WebM. */
typedef enum VideoForm { VIDEO_MP4, VIDEO_WEBM } VideoForm;

typedef Err VideoBytes(void *to, const unsigned char *bytes, size_t n);

typedef struct VideoPlugin {
    Err (*look)(const MediaFile *file, const VideoWish *wish, VideoInfo *info);
    /* Gives info->frames frames in order, or fewer if fewer can be decoded. */
    Err (*decode)(const MediaFile *file, const VideoWish *wish, VideoTake *take, void *to);
    /* Gives the bytes of the file once, whole. *form: what is wanted, then what it became. `path` is
     * for messages. */
    Err (*encode)(const char *path, const VideoClip *clip, VideoForm *form, VideoBytes *give,
                  void *to);
} VideoPlugin;

/* ---- audio ---- */

typedef struct AudioInfo {
    int64_t rate, channels, frames;
    int     bits; /* of a sample, if they are whole numbers; 0: floats, or coded with loss */
} AudioInfo;

typedef Err AudioTake(void *to, const float *frames, int64_t n);

typedef struct AudioPlugin {
    Err (*look)(const MediaFile *file, AudioInfo *info);
    /* Gives blocks of frames in [-1,1] at `rate`, with the file's channels. */
    Err (*decode)(const MediaFile *file, int64_t rate, AudioTake *take, void *to);
} AudioPlugin;

/* What each plugin defines; returns NULL if the form differs. */
typedef const VideoPlugin *VideoEntry(const MediaHost *host);
typedef const AudioPlugin *AudioEntry(const MediaHost *host);
const VideoPlugin         *plimsoll_video(const MediaHost *host);
const AudioPlugin         *plimsoll_audio(const MediaHost *host);

/* ---- for the program ---- */

/* The plugin, or an error about `path`: what to install. */
Err media_video(const char *path, const VideoPlugin **out);
Err media_video_out(const char *path, const VideoPlugin **out); /* to write it */
Err media_audio(const char *path, const AudioPlugin **out);

/* Writes stem.mp4 or stem.webm. *form: what is wanted, then what it became. */
Err video_write(Pool *pool, const char *stem, const VideoClip *clip, VideoForm *form,
                const char **path);

bool video_name(const char *name); /* has it the ending of a video? */
bool audio_name(const char *name); /* ... of an audio file that is read by the plugin alone? */

extern const char *const video_endings[], *const audio_endings[]; /* NULL at the end */

#endif
