/* degrade.h -- degraded versions of good images, for training super-resolution.
 *
 * The second-order model of Real-ESRGAN (Wang et al. 2021) with the ranges of StableSR: blur,
 * resize, noise and JPEG, twice; a sinc filter; a quarter of the size and back. Images are (H,W,3)
 * floats in [0,1]. All random numbers come from the dice. */
#ifndef DATA_DEGRADE_H
#define DATA_DEGRADE_H

#include "data/image.h"

enum { KERNEL_MAX = 21 };

typedef struct Kernel2 {
    int   size;
    float at[KERNEL_MAX * KERNEL_MAX];
} Kernel2; /* sums to 1 */

/* A random blur with deviations up to sigma_max, sometimes an ideal low-pass filter (sinc). */
void kernel_blur(Dice *dice, float sigma_max, Kernel2 *kernel);
void kernel_sinc(float cutoff, int size, Kernel2 *kernel);
void blur(const float *from, int64_t h, int64_t w, const Kernel2 *kernel, float *to, Work *work);

/* Applies the loss of a JPEG of that quality (1..100): chroma at half size, coefficients of 8x8
 * blocks quantised. */
void jpeg_loss(float *x, int64_t h, int64_t w, int quality);

/* Unsharp masking where the image differs enough from its blurred self. */
void sharpen(const float *from, int64_t h, int64_t w, float *to, Work *work);

/* A degraded image of the same size. */
void   degrade(const float *good, int64_t h, int64_t w, float *bad, Dice *dice, Work *work);
/* Enough for any one of degrade, blur, sharpen and canny. */
size_t degrade_work(int64_t h, int64_t w);

/* Edges of an image (Canny 1986), 0 or 1, (H,W): Gaussian 5x5 of deviation 1.4, thresholds 100 and
 * 200. */
void canny(const float *rgb, int64_t h, int64_t w, uint8_t *edges, Work *work);

#endif
