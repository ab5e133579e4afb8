/* degrade.h -- good images made bad, as cameras, networks and people do it.
 *
 * The two-stage model of Real-ESRGAN (Wang et al. 2021) with the ranges of StableSR: blur, resize,
 * noise and JPEG, twice, a sinc filter at the end, a quarter of the size and back. Images are
 * (H,W,3) floats in [0,1]. Everything that varies comes from the dice. */
#ifndef DATA_DEGRADE_H
#define DATA_DEGRADE_H

#include "data/image.h"

enum { KERNEL_MAX = 21 };

typedef struct Kernel2 { int size; float at[KERNEL_MAX * KERNEL_MAX]; } Kernel2;   /* sums to 1 */

/* One of the blurs at random, deviations up to sigma_max; or an ideal low-pass (sinc). */
void kernel_blur(Dice *dice, float sigma_max, Kernel2 *kernel);
void kernel_sinc(float cutoff, int size, Kernel2 *kernel);
void blur(const float *from, int64_t h, int64_t w, const Kernel2 *kernel, float *to, Work *work);

/* What a JPEG of that quality (1..100) loses: colour at half size, 8x8 blocks, rounded
 * frequencies. */
void jpeg_loss(float *x, int64_t h, int64_t w, int quality);

/* Unsharp masking where the detail is more than `threshold` of 255. */
void sharpen(const float *from, int64_t h, int64_t w, float *to, Work *work);

/* (H,W,3) -> a bad image of the same size. */
void   degrade(const float *good, int64_t h, int64_t w, float *bad, Dice *dice, Work *work);
size_t degrade_work(int64_t h, int64_t w);           /* of each: degrade, blur, sharpen, canny */

/* Edges of a image (Canny 1986): Gaussian 5x5 of 1.4, then thresholds 100 and 200. 0 or 1,
 * (H,W). */
void canny(const float *rgb, int64_t h, int64_t w, uint8_t *edges, Work *work);

#endif
