/* draw.c -- drawing forms with antialiased edges. */
#include "data/draw.h"

#include <math.h>

const char *const form_names[FORM_COUNT] = { "disc", "box", "ring", "cross", "triangle" };

static float coverage(float distance) /* of a pixel so far outside the edge */
{
    return distance <= -0.5f ? 1 : distance >= 0.5f ? 0 : 0.5f - distance;
}

float draw_form(Form form, float dx, float dy, float radius)
{
    float far = sqrtf(dx * dx + dy * dy), ax = fabsf(dx), ay = fabsf(dy);
    switch (form) {
    case FORM_BOX: return coverage(fmaxf(ax, ay) - 0.8f * radius);
    case FORM_RING: return coverage(fabsf(far - 0.75f * radius) - 0.25f * radius);
    case FORM_CROSS: return coverage(fmaxf(fminf(ax, ay) - 0.3f * radius, fmaxf(ax, ay) - radius));
    case FORM_TRIANGLE: /* point up */
        return coverage(fmaxf(dy - 0.6f * radius, 0.866f * ax - 0.5f * dy - 0.5f * radius));
    default: return coverage(far - radius);
    }
}

void draw_hue(float hue, float rgb[3])
{
    for (int c = 0; c < 3; c++) {
        float at = fabsf(6 * (hue + (float)c / 3 - floorf(hue + (float)c / 3)) - 3) - 1;
        rgb[c == 0 ? 0 : 3 - c] = at < 0 ? 0 : at > 1 ? 1 : at;
    }
}

void draw_image(RandomKey key, int64_t height, int64_t width, int64_t channels, float *to)
{
    float u[16];
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
            if (kind < 2)
                in = draw_form(kind ? FORM_BOX : FORM_DISC, dx, dy, radius);
            else
                in = 0.5f +
                     0.5f * sinf(6.2831853f * (dx * slope_x + dy * slope_y) / (0.4f * size + 1));
            float back = 0.5f * (slope_y * dy / (float)height + slope_x * dx / (float)width) - 0.5f;
            for (int64_t c = 0; c < channels; c++) {
                float colour = 2 * u[6 + c % 8] - 0.6f;
                float v = back + in * (fmaxf(colour, 0.2f) + 0.4f);
                to[(y * width + x) * channels + c] = v < -1 ? -1 : v > 1 ? 1 : v;
            }
        }
}
