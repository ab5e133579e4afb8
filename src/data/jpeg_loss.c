/* jpeg_loss.c -- the loss of JPEG (ITU T.81) without making a file: the entropy coding, which loses
 * nothing, is left out. jpeg.c reads files. */
#include "data/degrade.h"

#include <math.h>

/* T.81, annex K.1 */
static const unsigned char light_table[64] = {
    16, 11, 10, 16, 24,  40,  51,  61,  12, 12, 14, 19, 26,  58,  60,  55,
    14, 13, 16, 24, 40,  57,  69,  56,  14, 17, 22, 29, 51,  87,  80,  62,
    18, 22, 37, 56, 68,  109, 103, 77,  24, 35, 55, 64, 81,  104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
};
static const unsigned char colour_table[64] = {
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99,
    99, 99, 47, 66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
};

/* The cosine transform of rows or columns: basis[u][i] = c(u)/2 cos((2i+1) u pi/16). */
static void basis_fill(float basis[8][8])
{
    for (int u = 0; u < 8; u++)
        for (int i = 0; i < 8; i++)
            basis[u][i] = (float)((u ? 0.5 : 0.35355339059327373) *
                                  cos((2 * i + 1) * u * 0.19634954084936207));
}

static void block_loss(float block[64], const float step[64], float basis[8][8])
{
    float half[64], all[64];
    for (int u = 0; u < 8; u++)
        for (int x = 0; x < 8; x++) {
            half[u * 8 + x] = 0;
            for (int y = 0; y < 8; y++)
                half[u * 8 + x] += basis[u][y] * block[y * 8 + x];
        }
    for (int u = 0; u < 8; u++)
        for (int v = 0; v < 8; v++) {
            float sum = 0;
            for (int x = 0; x < 8; x++)
                sum += basis[v][x] * half[u * 8 + x];
            all[u * 8 + v] = rintf(sum / step[u * 8 + v]) * step[u * 8 + v];
        }
    for (int y = 0; y < 8; y++)
        for (int v = 0; v < 8; v++) {
            half[y * 8 + v] = 0;
            for (int u = 0; u < 8; u++)
                half[y * 8 + v] += basis[u][y] * all[u * 8 + v];
        }
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 8; x++) {
            float sum = 0;
            for (int v = 0; v < 8; v++)
                sum += basis[v][x] * half[y * 8 + v];
            block[y * 8 + x] = sum;
        }
}

/* One channel in cells of `cell` x `cell` pixels (2 for chroma) and blocks of 8x8 cells; the edge
 * is repeated. */
static void plane_loss(float *x, int64_t h, int64_t w, int channel, int64_t cell,
                       const float step[64], float basis[8][8])
{
    int64_t side = 8 * cell;
    for (int64_t by = 0; by < h; by += side)
        for (int64_t bx = 0; bx < w; bx += side) {
            float block[64];
            for (int64_t i = 0; i < 64; i++) {
                float sum = 0;
                for (int64_t k = 0; k < cell * cell; k++) {
                    int64_t y = by + i / 8 * cell + k / cell, col = bx + i % 8 * cell + k % cell;
                    sum += x[((y < h ? y : h - 1) * w + (col < w ? col : w - 1)) * 3 + channel];
                }
                block[i] = sum / (float)(cell * cell);
            }
            block_loss(block, step, basis);
            for (int64_t y = by; y < by + side && y < h; y++)
                for (int64_t col = bx; col < bx + side && col < w; col++)
                    x[(y * w + col) * 3 + channel] = block[(y - by) / cell * 8 + (col - bx) / cell];
        }
}

void jpeg_loss(float *x, int64_t h, int64_t w, int quality)
{
    int   scale = quality < 50 ? 5000 / quality : 200 - 2 * quality;
    float light[64], colour[64], basis[8][8];
    basis_fill(basis);
    for (int i = 0; i < 64; i++) { /* within 1..255 */
        light[i] = (float)fmin(fmax((light_table[i] * scale + 50) / 100, 1), 255);
        colour[i] = (float)fmin(fmax((colour_table[i] * scale + 50) / 100, 1), 255);
    }
    for (int64_t p = 0; p < h * w; p++) {
        float r = 255 * x[3 * p], g = 255 * x[3 * p + 1], b = 255 * x[3 * p + 2],
              y = 0.299f * r + 0.587f * g + 0.114f * b;
        x[3 * p] = y - 128;
        x[3 * p + 1] = 0.564334f * (b - y);
        x[3 * p + 2] = 0.713267f * (r - y);
    }
    plane_loss(x, h, w, 0, 1, light, basis);
    plane_loss(x, h, w, 1, 2, colour, basis);
    plane_loss(x, h, w, 2, 2, colour, basis);
    for (int64_t p = 0; p < h * w; p++) {
        float y = x[3 * p] + 128, cb = x[3 * p + 1], cr = x[3 * p + 2];
        float rgb[3] = { y + 1.402f * cr, y - 0.344136f * cb - 0.714136f * cr, y + 1.772f * cb };
        for (int c = 0; c < 3; c++)
            x[3 * p + c] = clamp01(rintf(rgb[c]) / 255);
    }
}
