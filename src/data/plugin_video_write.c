/* plugin_video_write.c -- clips as H.264 in MP4, or VP9 or VP8 in WebM, by libav's encoders.
 *
 * Which encoders libav has depends on how it was built, and those of hardware may be there without
 * the hardware: each is tried in turn until one opens. The file is made in memory. */
#include "data/plugin_video.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <libswscale/swscale.h>

#include <string.h>

typedef struct ClipWriting {
    const char        *path;
    const VideoClip   *clip;
    AVFormatContext   *format;
    AVStream          *stream;
    AVCodecContext    *codec;
    AVPacket          *packet;
    AVFrame           *frame;
    struct SwsContext *scale;
    uint8_t           *rgb; /* a frame with even sides; rows are padded */
    int                stride;
} ClipWriting;

static const struct {
    enum AVCodecID id;
    VideoForm      form;
    const char    *muxer;
} ways[] = {
    { AV_CODEC_ID_H264, VIDEO_MP4, "mp4" },
    { AV_CODEC_ID_VP9, VIDEO_WEBM, "webm" },
    { AV_CODEC_ID_VP8, VIDEO_WEBM, "webm" },
};
enum { WAYS = sizeof ways / sizeof *ways, ROW_ALIGN = 64, RATE_MAX = 100000 };

static Err writing_fail(const ClipWriting *w, const char *what, int error)
{
    char text[AV_ERROR_MAX_STRING_SIZE] = "";
    av_strerror(error, text, sizeof text);
    return video_host->fail(E_IO, "%s cannot be written: %s: %s", w->path, what, text);
}

static void writing_close(ClipWriting *w)
{
    uint8_t *bytes;
    if (w->format && w->format->pb) {
        avio_close_dyn_buf(w->format->pb, &bytes);
        av_free(bytes);
    }
    avformat_free_context(w->format);
    avcodec_free_context(&w->codec);
    av_packet_free(&w->packet);
    av_frame_free(&w->frame);
    sws_freeContext(w->scale);
    av_freep(&w->rgb);
}

/* ---- the encoder ---- */

static bool takes_yuv420(const AVCodec *codec)
{
    const enum AVPixelFormat *p = codec->pix_fmts;
    while (p && *p != AV_PIX_FMT_NONE && *p != AV_PIX_FMT_YUV420P)
        p++;
    return !p || *p == AV_PIX_FMT_YUV420P;
}

/* Visually without loss, where an encoder knows such a setting; one thread, so that a clip always
 * gives the same file. */
static AVCodecContext *codec_context(const ClipWriting *w, const AVCodec *codec)
{
    AVCodecContext *c = avcodec_alloc_context3(codec);
    if (!c)
        return NULL;
    c->width = (int)(w->clip->width + w->clip->width % 2);
    c->height = (int)(w->clip->height + w->clip->height % 2);
    c->pix_fmt = AV_PIX_FMT_YUV420P;
    c->framerate = av_d2q(w->clip->rate, RATE_MAX);
    c->time_base = av_inv_q(c->framerate);
    c->thread_count = 1;
    c->colorspace = AVCOL_SPC_SMPTE170M;
    c->color_range = AVCOL_RANGE_MPEG;
    if (codec->id != AV_CODEC_ID_VP9) /* for those that need one */
        c->bit_rate = 8 * (int64_t)c->width * c->height + 1000000;
    c->flags |= w->format->oformat->flags & AVFMT_GLOBALHEADER ? AV_CODEC_FLAG_GLOBAL_HEADER : 0;
    return c;
}

static bool codec_open(ClipWriting *w, const AVCodec *codec)
{
    AVDictionary *options = NULL;
    w->codec = codec_context(w, codec);
    av_dict_set(&options, "crf", codec->id == AV_CODEC_ID_H264 ? "8" : "4", 0);
    av_dict_set(&options, "cpu-used", "4", 0); /* VP8, VP9 */
    bool opened = w->codec && avcodec_open2(w->codec, codec, &options) >= 0;
    av_dict_free(&options);
    if (!opened)
        avcodec_free_context(&w->codec);
    return opened;
}

/* Opens the first encoder of that kind that can be opened. */
static bool encoder_find(ClipWriting *w, enum AVCodecID id)
{
    void          *at = NULL;
    const AVCodec *codec;
    while (!w->codec && (codec = av_codec_iterate(&at)))
        if (av_codec_is_encoder(codec) && codec->id == id && takes_yuv420(codec))
            codec_open(w, codec);
    return w->codec != NULL;
}

static Err writing_open(ClipWriting *w, VideoForm *form)
{
    int way = *form == VIDEO_MP4 ? 0 : 1, error = 0;
    av_log_set_level(AV_LOG_QUIET);
    for (; way < WAYS && !w->codec; way++) {
        avformat_free_context(w->format);
        w->format = NULL;
        error = avformat_alloc_output_context2(&w->format, NULL, ways[way].muxer, NULL);
        if (error >= 0 && encoder_find(w, ways[way].id))
            *form = ways[way].form;
    }
    if (!w->codec)
        return video_host->fail(E_USAGE,
                                "%s cannot be written: libav has no encoder for H.264, VP9 or VP8 "
                                "here that takes %lld x %lld pixels; take --format gif or npy",
                                w->path, (long long)w->clip->width, (long long)w->clip->height);
    w->stream = avformat_new_stream(w->format, NULL);
    error = w->stream ? avcodec_parameters_from_context(w->stream->codecpar, w->codec)
                      : AVERROR(ENOMEM);
    if (error < 0)
        return writing_fail(w, "its stream", error);
    w->stream->time_base = w->codec->time_base;
    w->stream->avg_frame_rate = w->codec->framerate;
    error = avio_open_dyn_buf(&w->format->pb);
    error = error < 0 ? error : avformat_write_header(w->format, NULL);
    return error < 0 ? writing_fail(w, "its header", error) : OK;
}

/* ---- frames ---- */

static Err frames_open(ClipWriting *w)
{
    const AVCodecContext *c = w->codec;
    w->packet = av_packet_alloc();
    w->frame = av_frame_alloc();
    w->stride = (3 * c->width + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
    w->rgb = av_mallocz((size_t)w->stride * (size_t)c->height + ROW_ALIGN);
    w->scale = sws_getContext(c->width, c->height, AV_PIX_FMT_RGB24, c->width, c->height,
                              c->pix_fmt, SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INP, NULL,
                              NULL, NULL);
    if (!w->packet || !w->frame || !w->rgb || !w->scale)
        return writing_fail(w, "a frame", AVERROR(ENOMEM));
    w->frame->format = c->pix_fmt;
    w->frame->width = c->width;
    w->frame->height = c->height;
    int error = av_frame_get_buffer(w->frame, 0);
    return error < 0 ? writing_fail(w, "a frame", error) : OK;
}

/* Odd sides are made even by repeating the last row and column. */
static void frame_even(const ClipWriting *w, int64_t k)
{
    const VideoClip *clip = w->clip;
    for (int y = 0; y < w->codec->height; y++) {
        int64_t              from = y < clip->height ? y : clip->height - 1;
        const unsigned char *row = clip->rgb + 3 * clip->width * (k * clip->height + from);
        uint8_t             *to = w->rgb + (size_t)y * (size_t)w->stride;
        memcpy(to, row, (size_t)(3 * clip->width));
        if (w->codec->width > clip->width)
            memcpy(to + 3 * clip->width, row + 3 * (clip->width - 1), 3);
    }
}

/* frame NULL: the end; gives what the encoder still holds. */
static Err frame_encode(ClipWriting *w, const AVFrame *frame)
{
    int error = avcodec_send_frame(w->codec, frame);
    while (error >= 0 && (error = avcodec_receive_packet(w->codec, w->packet)) >= 0) {
        av_packet_rescale_ts(w->packet, w->codec->time_base, w->stream->time_base);
        if (!w->packet->duration)
            w->packet->duration = av_rescale_q(1, w->codec->time_base, w->stream->time_base);
        w->packet->stream_index = w->stream->index;
        error = av_interleaved_write_frame(w->format, w->packet);
    }
    return error == AVERROR(EAGAIN) || error == AVERROR_EOF ? OK
                                                            : writing_fail(w, "a frame", error);
}

static Err frames_encode(ClipWriting *w)
{
    for (int64_t k = 0; k < w->clip->frames; k++) {
        int error = av_frame_make_writable(w->frame);
        if (error < 0)
            return writing_fail(w, "a frame", error);
        frame_even(w, k);
        sws_scale(w->scale, (const uint8_t *const[]){ w->rgb, NULL, NULL, NULL },
                  (int[]){ w->stride, 0, 0, 0 }, 0, w->codec->height, w->frame->data,
                  w->frame->linesize);
        w->frame->pts = k;
        Err err = frame_encode(w, w->frame);
        if (err)
            return err;
    }
    return frame_encode(w, NULL);
}

static Err writing_give(ClipWriting *w, VideoBytes *give, void *to)
{
    uint8_t *bytes = NULL;
    int      error = av_write_trailer(w->format);
    if (error < 0)
        return writing_fail(w, "its end", error);
    int n = avio_close_dyn_buf(w->format->pb, &bytes);
    w->format->pb = NULL;
    Err err = n > 0 ? give(to, bytes, (size_t)n) : writing_fail(w, "its bytes", AVERROR(ENOMEM));
    av_free(bytes);
    return err;
}

Err video_encode(const char *path, const VideoClip *clip, VideoForm *form, VideoBytes *give,
                 void *to)
{
    ClipWriting w = { .path = path, .clip = clip };
    Err         err = writing_open(&w, form);
    err = err ? err : frames_open(&w);
    err = err ? err : frames_encode(&w);
    err = err ? err : writing_give(&w, give, to);
    writing_close(&w);
    return err;
}
