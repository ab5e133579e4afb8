/* shapes.c -- drawn pictures, so that a recipe can train with no data at hand. */
#include "data/source.h"

#include "base/random.h"

#include <math.h>
#include <string.h>

static float smooth(float distance)          /* 1 inside, 0 outside, one pixel of slope between */
{
    return distance <= -0.5f ? 1 : distance >= 0.5f ? 0 : 0.5f - distance;
}

static Err shapes_load(const DataSource *source, const char *feed, Type type, Shape s, int64_t id, int64_t row,
                       void *buffer)
{
    if (strcmp(feed, "x") || type != F32 || s.rank != 4)
        return fail(E_USAGE, "data kind 'shapes' gives pictures x (N,H,W,C); the model asks for '%s' %s", feed,
                    shape_text(s));
    int64_t   height = s.dim[1], width = s.dim[2], channels = s.dim[3];
    RandomKey key = { .seed = source->seed, .stream = 77, .step = (uint32_t)id };
    float     u[16], *to = (float *)buffer + row * height * width * channels;
    for (uint64_t i = 0; i < 16; i++)
        u[i] = random_uniform_at(key, i);

    int   kind = (int)(3 * u[0]);
    float size = 0.5f * (float)(height < width ? height : width);
    float cy = (0.25f + 0.5f * u[1]) * (float)height, cx = (0.25f + 0.5f * u[2]) * (float)width;
    float radius = (0.35f + 0.45f * u[3]) * size;
    float slope_y = 2 * u[4] - 1, slope_x = 2 * u[5] - 1;
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++) {
            float dy = (float)y + 0.5f - cy, dx = (float)x + 0.5f - cx, in;
            if (kind == 0)
                in = smooth(sqrtf(dx * dx + dy * dy) - radius);
            else if (kind == 1)
                in = smooth(fmaxf(fabsf(dx), fabsf(dy)) - 0.8f * radius);
            else
                in = 0.5f + 0.5f * sinf(6.2831853f * (dx * slope_x + dy * slope_y) / (0.4f * size + 1));
            float back = 0.5f * (slope_y * dy / (float)height + slope_x * dx / (float)width) - 0.5f;
            for (int64_t c = 0; c < channels; c++) {
                float colour = 2 * u[6 + c % 8] - 0.6f;
                float v = back + in * (fmaxf(colour, 0.2f) + 0.4f);
                to[(y * width + x) * channels + c] = v < -1 ? -1 : v > 1 ? 1 : v;
            }
        }
    return OK;
}

Err source_shapes(Pool *pool, int64_t n_samples, uint64_t seed, DataSource **out)
{
    DataSource *source = NEW(pool, DataSource);
    *source = (DataSource){ .name = "shapes", .n_samples = n_samples, .load = shapes_load, .seed = seed };
    *out = source;
    return OK;
}
