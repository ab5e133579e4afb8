/* plugin_video.c -- frames of MP4, MOV, Matroska, WebM, AVI and GIF files by FFmpeg's libav.
 *
 * A file is read twice. Its packets give the times of all frames; from these follows which frames
 * are wanted. Then the frames are decoded, rotated as the file says, and given as RGB of 8 bits.
 * libav reads from the open file descriptor only: it opens no other file and no address, whatever
 * the file refers to. */
#include "data/plugin_video.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    READ_BYTES = 1 << 16,
    THREADS = 4, /* of the decoder: each holds frames */
    FRAMES_MAX = 100000000,
    ROW_ALIGN = 64 /* libswscale writes whole vectors */
};
#define FORMATS "mov,matroska,avi,gif"

const MediaHost *video_host;

typedef struct Turn {   /* where a pixel of the coded frame is shown: x' = xx x + xy y + ... */
    int xx, xy, yx, yy; /* -1, 0 or 1; one of each row and column is 0 */
} Turn;

typedef struct Video {
    const MediaFile   *file;
    const VideoWish   *wish;
    int64_t            at, bytes; /* in the file */
    AVIOContext       *io;
    AVFormatContext   *format;
    AVStream          *stream;
    AVCodecContext    *codec;
    struct SwsContext *scale;
    AVPacket          *packet;
    AVFrame           *frame;
    unsigned char     *rgb, *upright; /* rgb: with alpha, 4 bytes a pixel */
    int64_t            rgb_pixels;
    Turn               turn;
    double            *times; /* of all frames, from 0, sorted */
    int64_t            n_times, cap;
    double             start, end; /* start: of the file's clock; end: of the last frame */
    double             rate;
    bool               every; /* every frame is given, once */
    bool               varies;
    int64_t            wanted, given;
} Video;

/* ---- the file ---- */

static int io_read(void *own, uint8_t *to, int n)
{
    Video  *v = own;
    ssize_t got = pread(v->file->fd, to, (size_t)n, v->at);
    if (got < 0)
        return AVERROR(EIO);
    v->at += got;
    return got ? (int)got : AVERROR_EOF;
}

static int64_t io_seek(void *own, int64_t offset, int whence)
{
    Video *v = own;
    whence &= ~AVSEEK_FORCE;
    if (whence == AVSEEK_SIZE)
        return v->bytes;
    offset += whence == SEEK_CUR ? v->at : whence == SEEK_END ? v->bytes : 0;
    if (offset < 0)
        return AVERROR(EINVAL);
    return v->at = offset;
}

static Err video_fail(const Video *v, const char *what, int error)
{
    char text[AV_ERROR_MAX_STRING_SIZE] = "";
    av_strerror(error, text, sizeof text);
    return video_host->fail(E_FORMAT, "%s %s: %s", v->file->path, what, text);
}

static Err video_memory(const Video *v)
{
    return video_host->fail(E_IO, "%s: no memory to decode it", v->file->path);
}

static void video_close(Video *v)
{
    sws_freeContext(v->scale);
    av_packet_free(&v->packet);
    av_frame_free(&v->frame);
    avcodec_free_context(&v->codec);
    avformat_close_input(&v->format);
    if (v->io)
        av_freep(&v->io->buffer);
    avio_context_free(&v->io);
    av_freep(&v->rgb);
    av_freep(&v->upright);
    free(v->times);
}

static const void *display_matrix(const AVStream *stream)
{
#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(60, 15, 100)
    const AVPacketSideData *side = av_packet_side_data_get(stream->codecpar->coded_side_data,
                                                           stream->codecpar->nb_coded_side_data,
                                                           AV_PKT_DATA_DISPLAYMATRIX);
    return side && side->size >= 9 * sizeof(int32_t) ? side->data : NULL;
#else
    size_t         n = 0;
    const uint8_t *data = av_stream_get_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, &n);
    return data && n >= 9 * sizeof(int32_t) ? data : NULL;
#endif
}

static int sign_of(int32_t x) { return (x > 0) - (x < 0); }

static Err video_turn(Video *v)
{
    const int32_t *m = display_matrix(v->stream);
    v->turn = (Turn){ 1, 0, 0, 1 };
    if (!m)
        return OK;
    v->turn = (Turn){ sign_of(m[0]), sign_of(m[3]), sign_of(m[1]), sign_of(m[4]) };
    bool straight = v->turn.xx && v->turn.yy && !v->turn.xy && !v->turn.yx;
    bool quarter = !v->turn.xx && !v->turn.yy && v->turn.xy && v->turn.yx;
    if (straight || quarter)
        return OK;
    return video_host->fail(
        E_FORMAT,
        "%s is shown rotated by %.0f degrees; only quarter turns are read, so rotate "
        "it first",
        v->file->path, -av_display_rotation_get(m));
}

static Err video_open(Video *v)
{
    AVDictionary  *options = NULL;
    struct stat    about;
    unsigned char *buffer = av_malloc(READ_BYTES);
    av_log_set_level(AV_LOG_QUIET);
    if (fstat(v->file->fd, &about))
        about.st_size = 0;
    v->bytes = about.st_size;
    v->io = buffer ? avio_alloc_context(buffer, READ_BYTES, 0, v, io_read, NULL, io_seek) : NULL;
    v->format = avformat_alloc_context();
    v->packet = av_packet_alloc();
    v->frame = av_frame_alloc();
    if (!v->io || !v->format || !v->packet || !v->frame) {
        if (!v->io)
            av_free(buffer);
        return video_memory(v);
    }
    v->format->pb = v->io;
    av_dict_set(&options, "format_whitelist", FORMATS, 0);
    av_dict_set(&options, "protocol_whitelist", "none", 0);
    int error = avformat_open_input(&v->format, NULL, NULL, &options);
    av_dict_free(&options);
    if (error < 0)
        return video_fail(v, "is not a video that is read (MP4, MOV, Matroska, WebM, AVI, GIF)",
                          error);
    error = avformat_find_stream_info(v->format, NULL);
    if (error < 0)
        return video_fail(v, "has no readable streams", error);
    int best = av_find_best_stream(v->format, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0);
    if (best < 0 || v->format->streams[best]->disposition & AV_DISPOSITION_ATTACHED_PIC)
        return video_host->fail(E_FORMAT, "%s holds no video", v->file->path);
    v->stream = v->format->streams[best];
    const AVCodecParameters *p = v->stream->codecpar;
    if (p->width < 1 || p->height < 1)
        return video_host->fail(E_FORMAT, "%s is damaged: its video has no size", v->file->path);
    if ((int64_t)p->width * p->height > v->wish->max_pixels)
        return video_host->fail(
            E_BUDGET,
            "%s has frames of %d x %d, and decoding them takes more memory than "
            "--loader-memory allows; allow more, or make the video smaller",
            v->file->path, p->width, p->height);
    return video_turn(v);
}

/* ---- times ---- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static Err times_add(Video *v, double at)
{
    if (v->n_times == v->cap) {
        v->cap = v->cap ? 2 * v->cap : 1024;
        double *more = v->cap <= FRAMES_MAX ? realloc(v->times, (size_t)v->cap * sizeof *v->times)
                                            : NULL;
        if (!more)
            return video_memory(v);
        v->times = more;
    }
    v->times[v->n_times++] = at;
    return OK;
}

/* A GIF ends in ';', and zeros may follow. */
static bool gif_ends(const Video *v)
{
    char mark = 0;
    for (int64_t at = v->bytes - 1; at >= 0 && !mark; at--)
        if (pread(v->file->fd, &mark, 1, at) != 1)
            return false;
    return mark == ';';
}

/* A number of Matroska: the first byte's leading zeros say how many follow. -1: unknown. */
static int64_t ebml_size(const unsigned char *p, int *length)
{
    int64_t size = 0;
    *length = p[0] ? __builtin_clz(p[0]) - 23 : 8;
    for (int i = 0; i < *length; i++)
        size = size << 8 | (i || *length == 8 ? p[i] : p[i] & (0xff >> *length));
    size &= ((int64_t)1 << 7 * *length) - 1;
    return size == ((int64_t)1 << 7 * *length) - 1 ? -1 : size;
}

/* Where the only segment ends, by its header; 0: not known. */
static int64_t segment_end(const unsigned char *head, int64_t n)
{
    static const unsigned char mark[] = { 0x18, 0x53, 0x80, 0x67 };
    int                        length;
    int64_t                    at = 4 + ebml_size(head + 4, &length);
    at += length;
    if (at < 4 || at + 12 > n || memcmp(head + at, mark, 4))
        return 0;
    int64_t size = ebml_size(head + at + 4, &length);
    return size < 0 ? 0 : at + 4 + length + size;
}

/* Most demuxers take the end of a truncated file for the end of the video. */
static Err video_whole(const Video *v)
{
    const char   *name = v->format->iformat->name;
    unsigned char head[256] = { 0 };
    ssize_t       n = pread(v->file->fd, head, sizeof head, 0);
    int64_t       end = 0;
    if (!strcmp(name, "gif") && !gif_ends(v))
        return video_host->fail(E_FORMAT, "%s is truncated: it has no end mark", v->file->path);
    if (!strncmp(name, "matroska", 8))
        end = segment_end(head, n);
    else if (!strcmp(name, "avi"))
        end = 8 + (int64_t)(head[4] | head[5] << 8 | head[6] << 16 | (uint32_t)head[7] << 24);
    return end <= v->bytes
               ? OK
               : video_host->fail(E_FORMAT,
                                  "%s is truncated: its header says %lld bytes, it has %lld",
                                  v->file->path, (long long)end, (long long)v->bytes);
}

/* Reads the times of all frames. */
static Err times_read(Video *v)
{
    double unit = av_q2d(v->stream->time_base), length = 0, first = INFINITY;
    int    error;
    while ((error = av_read_frame(v->format, v->packet)) >= 0) {
        const AVPacket *p = v->packet;
        int64_t         pts = p->pts != AV_NOPTS_VALUE ? p->pts : p->dts;
        bool ours = p->stream_index == v->stream->index && !(p->flags & AV_PKT_FLAG_DISCARD);
        Err  err = OK;
        if (p->flags & AV_PKT_FLAG_CORRUPT)
            err = video_host->fail(E_FORMAT, "%s is truncated or damaged after %lld frames",
                                   v->file->path, (long long)v->n_times);
        if (!err && ours) {
            double at = pts == AV_NOPTS_VALUE ? (double)v->n_times * unit : (double)pts * unit;
            first = fmin(first, at);
            length = fmax(length, (double)p->duration * unit);
            err = times_add(v, at);
        }
        av_packet_unref(v->packet);
        if (err)
            return err;
    }
    if (error != AVERROR_EOF)
        return video_fail(v, "is truncated or damaged", error);
    if (!v->n_times)
        return video_host->fail(E_FORMAT, "%s holds no frame", v->file->path);
    qsort(v->times, (size_t)v->n_times, sizeof *v->times, compare_doubles);
    v->start = first;
    for (int64_t i = 0; i < v->n_times; i++)
        v->times[i] -= first;
    v->end = length; /* of one frame, until times_spacing */
    return OK;
}

/* Whether frames are evenly spaced, up to the rounding of times; and the end of the last frame. */
static Err times_spacing(Video *v)
{
    int64_t n = v->n_times - 1;
    double  length = v->end, slack = 2.1 * av_q2d(v->stream->time_base);
    if (n > 0) {
        double *steps = malloc((size_t)n * sizeof *steps);
        if (!steps)
            return video_memory(v);
        for (int64_t i = 0; i < n; i++)
            steps[i] = v->times[i + 1] - v->times[i];
        qsort(steps, (size_t)n, sizeof *steps, compare_doubles);
        double middle = steps[n / 2];
        v->varies = steps[0] < middle - fmax(slack, 0.1 * middle) ||
                    steps[n - 1] > middle + fmax(slack, 0.1 * middle);
        length = v->times[n] / (double)n;
        free(steps);
    }
    length = length > 0 ? length : 0.04;
    v->end = v->times[n] + length;
    v->every = !v->varies && v->wish->rate <= 0;
    v->rate = v->wish->rate > 0 ? v->wish->rate : (double)v->n_times / v->end;
    return OK;
}

/* The middle of the time for which output frame k is shown. */
static double wanted_at(const Video *v, int64_t k)
{
    return v->wish->from + ((double)k + 0.5) / v->rate;
}

static bool is_within(const Video *v, double at) /* of a frame that begins then */
{
    double from = v->wish->from - 1e-6;
    return at >= from && (v->wish->seconds <= 0 || at < from + v->wish->seconds);
}

static Err times_plan(Video *v)
{
    double end = v->wish->seconds > 0 ? fmin(v->end, v->wish->from + v->wish->seconds) : v->end;
    v->wanted = 0;
    if (v->every)
        for (int64_t i = 0; i < v->n_times; i++)
            v->wanted += is_within(v, v->times[i]);
    else if (end > v->wish->from) {
        double n = (end - v->wish->from) * v->rate + 1e-3; /* times are rounded */
        if (n > FRAMES_MAX)
            return video_host->fail(E_FORMAT, "%s: %.0f frames are more than %d", v->file->path, n,
                                    FRAMES_MAX);
        v->wanted = n < 1 ? 1 : (int64_t)n;
    }
    if (!v->wanted)
        return video_host->fail(
            E_USAGE,
            "%s lasts %.2f s, and data.from is %.2f s; begin earlier, or leave the "
            "file out",
            v->file->path, v->end, v->wish->from);
    return OK;
}

static Err video_plan(Video *v)
{
    Err err = video_open(v);
    err = err ? err : video_whole(v);
    err = err ? err : times_read(v);
    err = err ? err : times_spacing(v);
    return err ? err : times_plan(v);
}

static Err plugin_look(const MediaFile *file, const VideoWish *wish, VideoInfo *info)
{
    Video v = { .file = file, .wish = wish };
    Err   err = video_plan(&v);
    if (!err) {
        const AVCodecParameters *p = v.stream->codecpar;
        AVRational               aspect = av_guess_sample_aspect_ratio(v.format, v.stream, NULL);
        double                   pixel = aspect.num > 0 && aspect.den > 0 ? av_q2d(aspect) : 1;
        bool                     quarter = v.turn.xy != 0;
        pixel = pixel < 0.01 || pixel > 100 ? 1 : pixel;
        *info = (VideoInfo){ .width = quarter ? p->height : p->width,
                             .height = quarter ? p->width : p->height,
                             .aspect = quarter ? 1 / pixel : pixel,
                             .frames = v.wanted,
                             .rate = v.rate,
                             .varies = v.varies };
    }
    video_close(&v);
    return err;
}

/* ---- frames ---- */

static Err decoder_open(Video *v)
{
    const AVCodec *codec = avcodec_find_decoder(v->stream->codecpar->codec_id);
    if (!codec)
        return video_host->fail(E_FORMAT, "%s is coded as %s, for which this libav has no decoder",
                                v->file->path, avcodec_get_name(v->stream->codecpar->codec_id));
    v->codec = avcodec_alloc_context3(codec);
    if (!v->codec || avcodec_parameters_to_context(v->codec, v->stream->codecpar) < 0)
        return video_memory(v);
    v->codec->thread_count = THREADS;
    v->codec->max_pixels = v->wish->max_pixels;
    v->codec->pkt_timebase = v->stream->time_base;
    int error = avcodec_open2(v->codec, codec, NULL);
    return error < 0 ? video_fail(v, "cannot be decoded", error) : OK;
}

/* The file from its beginning again, or from the last key frame before the wanted part. */
static Err video_rewind(Video *v)
{
    int64_t at = (int64_t)floor((v->start + v->wish->from) / av_q2d(v->stream->time_base));
    if (v->wish->from > 0 &&
        av_seek_frame(v->format, v->stream->index, at, AVSEEK_FLAG_BACKWARD) >= 0)
        return OK;
    avformat_close_input(&v->format);
    av_freep(&v->io->buffer);
    avio_context_free(&v->io);
    av_packet_free(&v->packet);
    av_frame_free(&v->frame);
    v->at = 0;
    return video_open(v);
}

static Err rgb_room(Video *v, int64_t pixels)
{
    if (pixels <= v->rgb_pixels)
        return OK;
    av_freep(&v->rgb);
    av_freep(&v->upright);
    v->rgb = av_malloc((size_t)pixels * 4 + 4 * ROW_ALIGN);
    v->upright = av_malloc((size_t)pixels * 3);
    v->rgb_pixels = v->rgb && v->upright ? pixels : 0;
    return v->rgb_pixels ? OK : video_memory(v);
}

/* From rgb, whose rows have `stride` bytes, to `upright`; what is transparent becomes black. */
static void rgb_turn(const Video *v, int64_t h, int64_t w, int64_t stride, bool alpha)
{
    const Turn *t = &v->turn;
    int64_t     to_w = t->xy ? h : w;
    int64_t     x0 = t->xx < 0 ? w - 1 : t->xy < 0 ? h - 1 : 0;
    int64_t     y0 = t->yy < 0 ? h - 1 : t->yx < 0 ? w - 1 : 0;
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++) {
            const unsigned char *p = v->rgb + y * stride + x * (alpha ? 4 : 3);
            unsigned char       *to =
                v->upright + ((y0 + t->yx * x + t->yy * y) * to_w + x0 + t->xx * x + t->xy * y) * 3;
            for (int c = 0; c < 3; c++)
                to[c] = alpha ? (unsigned char)((p[c] * p[3] + 127) / 255) : p[c];
        }
}

/* Converts v->frame to v->upright. */
static Err frame_convert(Video *v)
{
    const AVFrame            *f = v->frame;
    const AVPixFmtDescriptor *about = av_pix_fmt_desc_get((enum AVPixelFormat)f->format);
    bool alpha = about && (about->flags & AV_PIX_FMT_FLAG_ALPHA || f->format == AV_PIX_FMT_PAL8);
    if ((int64_t)f->width * f->height > v->wish->max_pixels)
        return video_host->fail(E_BUDGET,
                                "%s has a frame of %d x %d, more than --loader-memory allows",
                                v->file->path, f->width, f->height);
    int64_t stride = ((int64_t)f->width * (alpha ? 4 : 3) + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
    Err     err = rgb_room(v, (stride / 3 + 1) * f->height);
    if (err)
        return err;
    v->scale = sws_getCachedContext(
        v->scale, f->width, f->height, (enum AVPixelFormat)f->format, f->width, f->height,
        alpha ? AV_PIX_FMT_RGBA : AV_PIX_FMT_RGB24,
        SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP, NULL, NULL, NULL);
    if (!v->scale)
        return video_host->fail(E_FORMAT, "%s has pixels of a form that is not read (%s)",
                                v->file->path, about ? about->name : "unknown");
    int from_space = f->colorspace == AVCOL_SPC_UNSPECIFIED ? SWS_CS_DEFAULT : (int)f->colorspace;
    sws_setColorspaceDetails(v->scale, sws_getCoefficients(from_space),
                             f->color_range == AVCOL_RANGE_JPEG,
                             sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
    uint8_t *to[4] = { v->rgb };
    int      strides[4] = { (int)stride };
    int rows = sws_scale(v->scale, (const uint8_t *const *)f->data, f->linesize, 0, f->height, to,
                         strides);
    if (rows != f->height)
        return video_host->fail(E_FORMAT, "%s: a frame of %d x %d cannot be converted",
                                v->file->path, f->width, f->height);
    rgb_turn(v, f->height, f->width, stride, alpha);
    return OK;
}

static Err upright_give(Video *v, int64_t w, int64_t h, VideoTake *take, void *to)
{
    bool quarter = v->turn.xy != 0;
    v->given++;
    return take(to, v->upright, quarter ? w : h, quarter ? h : w);
}

typedef struct ShownFrame { /* the frame that is shown until the next one */
    int64_t width, height;
    double  at;
    bool    any;
} ShownFrame;

/* Times in files are rounded, in Matroska to milliseconds. */
#define TIME_SLACK 6e-4

/* Gives the frame in v->upright once for each output frame before `until`. */
static Err shown_give(Video *v, const ShownFrame *s, double until, VideoTake *take, void *to)
{
    while (s->any && v->given < v->wanted && wanted_at(v, v->given) < until - TIME_SLACK) {
        Err err = upright_give(v, s->width, s->height, take, to);
        if (err)
            return err;
    }
    return OK;
}

/* A decoded frame: its place in time decides whether it is given. */
static Err frame_take(Video *v, ShownFrame *shown, VideoTake *take, void *to)
{
    const AVFrame *f = v->frame;
    int64_t        pts = f->best_effort_timestamp;
    double         at = pts == AV_NOPTS_VALUE ? shown->at + (shown->any ? 1 / v->rate : 0)
                                              : (double)pts * av_q2d(v->stream->time_base) - v->start;
    if (f->flags & AV_FRAME_FLAG_CORRUPT || f->decode_error_flags)
        return video_host->fail(E_FORMAT, "%s is damaged: the frame at %.2f s cannot be decoded",
                                v->file->path, at);
    Err err = v->every ? OK : shown_give(v, shown, at, take, to);
    if (err || v->given == v->wanted || (v->every && !is_within(v, at)))
        return err;
    err = frame_convert(v);
    *shown = (ShownFrame){ f->width, f->height, at, true };
    return err || !v->every ? err : upright_give(v, f->width, f->height, take, to);
}

/* Sends a packet, or NULL at the end, and takes the frames that come of it. */
static Err packet_decode(Video *v, const AVPacket *packet, ShownFrame *shown, VideoTake *take,
                         void *to)
{
    int error = avcodec_send_packet(v->codec, packet);
    if (error < 0 && error != AVERROR_EOF)
        return video_fail(v, "is damaged: a frame cannot be decoded", error);
    while (v->given < v->wanted && (error = avcodec_receive_frame(v->codec, v->frame)) >= 0) {
        Err err = frame_take(v, shown, take, to);
        av_frame_unref(v->frame);
        if (err)
            return err;
    }
    return error >= 0 || error == AVERROR(EAGAIN) || error == AVERROR_EOF
               ? OK
               : video_fail(v, "is damaged: a frame cannot be decoded", error);
}

static Err plugin_decode(const MediaFile *file, const VideoWish *wish, VideoTake *take, void *to)
{
    Video      v = { .file = file, .wish = wish };
    ShownFrame shown = { 0 };
    int        error = 0;
    Err        err = video_plan(&v);
    err = err ? err : video_rewind(&v);
    err = err ? err : decoder_open(&v);
    while (!err && v.given < v.wanted && (error = av_read_frame(v.format, v.packet)) >= 0) {
        if (v.packet->stream_index == v.stream->index)
            err = packet_decode(&v, v.packet, &shown, take, to);
        av_packet_unref(v.packet);
    }
    if (!err && v.given < v.wanted)
        err = packet_decode(&v, NULL, &shown, take, to);
    if (!err && !v.every)
        err = shown_give(&v, &shown, INFINITY, take, to);
    video_close(&v);
    return err;
}

const VideoPlugin *plimsoll_video(const MediaHost *program)
{
    static const VideoPlugin plugin = { plugin_look, plugin_decode, video_encode };
    video_host = program;
    return program->form == MEDIA_FORM ? &plugin : NULL;
}
