/* video_write.c -- clips as video files, by the video plugin. */
#include "data/media.h"

#include "base/file.h"

typedef struct VideoFile { /* to be written once it is known what it became */
    Pool            *pool;
    const char      *stem, *path;
    const VideoForm *form;
} VideoFile;

static Err video_bytes(void *to, const unsigned char *bytes, size_t n)
{
    VideoFile *f = to;
    f->path = pool_print(f->pool, "%s%s", f->stem, *f->form == VIDEO_MP4 ? ".mp4" : ".webm");
    return file_write(f->path, bytes, n);
}

Err video_write(Pool *pool, const char *stem, const VideoClip *clip, VideoForm *form,
                const char **path)
{
    VideoFile          file = { .pool = pool, .stem = stem, .form = form };
    const VideoPlugin *plugin;
    const char *named = pool_print(pool, "%s%s", stem, *form == VIDEO_MP4 ? ".mp4" : ".webm");
    TRY(media_video_out(named, &plugin));
    TRY(plugin->encode(named, clip, form, video_bytes, &file));
    *path = file.path;
    return OK;
}
