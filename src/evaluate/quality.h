/* quality.h -- how close an image is to the true one: PSNR and SSIM on RGB and on Y.
 *
 *   PSNR  10 log10(255^2 / mean squared difference), over all channels; infinite for equal images
 *   SSIM  Wang et al. (2004): Gaussian window of 11x11 with sigma 1.5, K1 = 0.01, K2 = 0.03, range
 *         255, at every place where the window lies within the image; the mean over channels
 *   Y     BT.601 in studio range, 16 to 235, not rounded: 16 + (65.481 R + 128.553 G + 24.966 B) / 255
 *
 * No border is cropped. */
#ifndef EVALUATE_QUALITY_H
#define EVALUATE_QUALITY_H

#include "base/pool.h"

enum { SSIM_WINDOW = 11 };

typedef struct Quality { /* of a grey image, RGB and Y are the same */
    double psnr, psnr_y;
    double ssim, ssim_y; /* NaN: a side is shorter than the window */
} Quality;

typedef struct Levels8 { /* an image of 8-bit levels, channels last */
    const unsigned char *at;
    int64_t              height, width, channels; /* 1 or 3 */
} Levels8;

/* Both have the same size. */
Quality quality_of(Pool *pool, const Levels8 *image, const Levels8 *truth);

#endif
