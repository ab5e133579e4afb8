/* raster.c -- limits on the size of images, and their samples as floats. */
#include "data/raster.h"

enum { MAX_SIDE = 1 << 16, MAX_PIXELS = 1 << 28 };

Err raster_size(const char *name, int64_t width, int64_t height)
{
    if (width < 1 || height < 1 || width > MAX_SIDE || height > MAX_SIDE ||
        width * height > MAX_PIXELS)
        return fail(E_FORMAT,
                    "%s has %lld x %lld pixels by its header; the limits are 1 to %d per side and "
                    "%d in all",
                    name, (long long)width, (long long)height, MAX_SIDE, MAX_PIXELS);
    return OK;
}

Err raster_room(const char *name, const ImageInfo *info, const Work *work)
{
    size_t start = work_start(work);
    if (start > work->n || info->room > work->n - start)
        return fail(E_IO, "%s has grown to %lld x %lld pixels since the run began; restart the run",
                    name, (long long)info->width, (long long)info->height);
    return OK;
}

void raster_floats(const Raster *r, int64_t y0, int64_t x0, int64_t height, int64_t width,
                   int64_t channels, float *to)
{
    const float scale = r->depth == 16 ? 1.0f / 65535 : 1.0f / 255;
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++, to += channels) {
            int64_t at = ((y0 + y) * r->width + x0 + x) * r->channels;
            float   v[3];
            for (int c = 0; c < r->channels; c++)
                v[c] = scale * (float)(r->depth == 16 ? ((const uint16_t *)r->at)[at + c]
                                                      : ((const uint8_t *)r->at)[at + c]);
            if (channels == 1 && r->channels == 3)
                to[0] = 0.299f * v[0] + 0.587f * v[1] + 0.114f * v[2];
            else
                for (int64_t c = 0; c < channels; c++)
                    to[c] = v[r->channels == 3 ? c % 3 : 0];
        }
}
