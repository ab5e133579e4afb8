/* video.c -- frames of videos, resized for the cache. */
#include "data/video.h"

#include "base/text.h"
#include "data/image.h"
#include "data/media.h"

#include <math.h>
#include <stdio.h>

/* Of memory while a file is decoded, for each pixel of a frame: up to 20 frames that the decoder
 * keeps, one as RGB, upright, and as floats. */
enum { PIXEL_BYTES = 64 };

static VideoWish video_wish(const DataSpec *spec)
{
    return (VideoWish){ .rate = spec->frame_rate,
                        .from = spec->from,
                        .seconds = spec->seconds,
                        .max_pixels = spec->memory ? spec->memory / PIXEL_BYTES : INT32_MAX };
}

static Err video_look(Pool *pool, const void *own, int fd, CacheItem *item)
{
    const Videos      *v = own;
    const VideoPlugin *plugin;
    VideoWish          wish = video_wish(v->spec);
    VideoInfo          info;
    TRY(media_video(item->path, &plugin));
    TRY(plugin->look(&(MediaFile){ fd, item->path }, &wish, &info));
    item->type = NPY_U1;
    item->rank = 4;
    item->shape[0] = info.frames;
    item->shape[1] = v->height;
    item->shape[2] = v->width;
    item->shape[3] = v->channels;
    if (info.varies && v->spec->frame_rate <= 0)
        item->said = pool_print(pool,
                                "%s has no steady frame rate: it is read at %.2f frames a "
                                "second",
                                item->path, info.rate);
    return OK;
}

typedef struct VideoOut {
    const Videos    *videos;
    const CacheItem *item;
    FileOut         *out;
    Pool            *pool; /* of the workspace, which fits frames of height x width */
    int64_t          height, width, n;
    Work             work;
    double           aspect;
    unsigned char   *frame; /* resized; the newest */
} VideoOut;

/* The part of a frame that is used: all of it, or its middle with the wanted shape. */
static void frame_part(const VideoOut *o, int64_t h, int64_t w, int64_t *part_h, int64_t *part_w)
{
    const Videos *v = o->videos;
    double        shape = (double)v->width / (double)v->height / o->aspect;
    *part_h = h;
    *part_w = w;
    if (v->fit == FIT_STRETCH)
        return;
    if ((double)w > (double)h * shape)
        *part_w = llround((double)h * shape);
    else
        *part_h = llround((double)w / shape);
    *part_w = *part_w < 1 ? 1 : *part_w > w ? w : *part_w;
    *part_h = *part_h < 1 ? 1 : *part_h > h ? h : *part_h;
}

static void out_room(VideoOut *o, int64_t h, int64_t w)
{
    const Videos *v = o->videos;
    if (h == o->height && w == o->width)
        return;
    pool_reset(o->pool);
    size_t n = work_size((size_t)(h * w * v->channels) * sizeof(float)) +
               work_size((size_t)(v->height * v->width * v->channels) * sizeof(float)) +
               image_resize_work(h, w, v->channels, v->height, v->width);
    o->work = (Work){ .at = pool_alloc(o->pool, n + WORK_ALIGN, 1), .n = n + WORK_ALIGN };
    o->height = h;
    o->width = w;
}

static Err frame_take(void *own, const unsigned char *rgb, int64_t height, int64_t width)
{
    VideoOut     *o = own;
    const Videos *v = o->videos;
    int64_t       h, w, c = v->channels, n = v->height * v->width * c;
    Raster        r = { height, width, 3, 8, rgb };
    out_room(o, height, width);
    frame_part(o, height, width, &h, &w);
    o->work.used = 0;
    float *all = work_take(&o->work, (size_t)(h * w * c) * sizeof(float));
    float *fit = work_take(&o->work, (size_t)n * sizeof(float));
    raster_floats(&r, (height - h) / 2, (width - w) / 2, h, w, c, all);
    if (h != v->height || w != v->width)
        image_resize(all, h, w, c, fit, v->height, v->width, RESIZE_CUBIC, &o->work);
    else
        fit = all;
    for (int64_t i = 0; i < n; i++)
        o->frame[i] = (unsigned char)lrintf(clamp01(fit[i]) * 255);
    file_out_add(o->out, o->frame, (size_t)n);
    o->n++;
    return OK;
}

/* At the ends of a file a few frames may be missing that its index lists: they depend on others
 * that were cut off. The last frame stands for them. */
static Err frames_pad(VideoOut *o)
{
    const Videos *v = o->videos;
    int64_t       n = o->item->shape[0], missing = n - o->n;
    if (missing > 0 && (o->n == 0 || missing > 2 + n / 50))
        return fail(E_FORMAT, "%s is damaged: it lists %lld frames, and %lld can be decoded",
                    o->item->path, (long long)n, (long long)o->n);
    for (; o->n < n; o->n++)
        file_out_add(o->out, o->frame, (size_t)(v->height * v->width * v->channels));
    return OK;
}

static Err video_decode(const void *own, int fd, const CacheItem *item, FileOut *out)
{
    const Videos      *v = own;
    const VideoPlugin *plugin;
    VideoWish          wish = video_wish(v->spec);
    VideoInfo          info;
    MediaFile          file = { fd, item->path };
    Pool              *pool = pool_new(NULL, "video");
    VideoOut           o = { .videos = v, .item = item, .out = out };
    o.frame = NEWN(pool, unsigned char, v->height * v->width * v->channels);
    o.pool = pool_new(pool, "frame");
    Err err = media_video(item->path, &plugin);
    err = err ? err : plugin->look(&file, &wish, &info);
    o.aspect = err ? 1 : info.aspect;
    err = err ? err : plugin->decode(&file, &wish, frame_take, &o);
    err = err ? err : frames_pad(&o);
    pool_free(pool);
    return err;
}

Videos *videos_new(Pool *pool, const DataSpec *spec, int64_t height, int64_t width,
                   int64_t channels, VideoFit fit)
{
    Videos *v = NEW(pool, Videos);
    *v = (Videos){
        .spec = spec, .height = height, .width = width, .channels = channels, .fit = fit
    };
    v->form = (CacheForm){ .what = "videos", .look = video_look, .decode = video_decode };
    v->form.settings = pool_print(pool, "%lld x %lld x %lld, %s, %.17g a second, %.17g + %.17g s",
                                  (long long)height, (long long)width, (long long)channels,
                                  fit == FIT_COVER ? "cover" : "stretch", spec->frame_rate,
                                  spec->from, spec->seconds);
    v->list = cache_list(spec, &v->form, v);
    return v;
}

size_t video_frame_work(const Videos *v)
{
    return v->list.n ? work_size((size_t)(v->height * v->width * v->channels)) : 0;
}

Err video_frame(const CacheItem *item, int64_t frame, float *to, Work *work)
{
    size_t         n = item->n_bytes / (size_t)item->shape[0], used = work->used;
    int64_t        last = item->shape[0] - 1;
    unsigned char *bytes = work_take(work, n);
    TRY(cache_read(item, (size_t)(frame < last ? frame : last) * n, n, bytes));
    for (size_t i = 0; i < n; i++)
        to[i] = (float)bytes[i] / 255 * 2 - 1;
    work->used = used;
    return OK;
}

const char *videos_said(Pool *pool, const Videos *v)
{
    Text    text = { .pool = pool };
    int64_t frames = 0;
    int     varying = 0;
    for (int32_t i = 0; i < v->list.n; i++) {
        frames += video_frames(&v->list.items[i]);
        varying += v->list.items[i].said != NULL;
    }
    text_add(&text, "%d %s of %s frames", v->list.n, v->list.n == 1 ? "video" : "videos",
             count_text(frames));
    if (v->spec->frame_rate > 0)
        text_add(&text, " at %g a second", v->spec->frame_rate);
    else if (varying)
        text_add(&text, " (%d without a steady frame rate, read at their mean rate)", varying);
    return text.at;
}
