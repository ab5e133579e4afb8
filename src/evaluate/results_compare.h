/* results_compare.h -- sums what drawn results differ from the truth by. */
#ifndef EVALUATE_RESULTS_COMPARE_H
#define EVALUATE_RESULTS_COMPARE_H

#include "evaluate/evaluate.h"

typedef struct TruthRow {                  /* one sample: the result and what it is compared with */
    Shape          shape;                  /* images (H,W,C), clips (F,H,W,C) */
    const float   *result, *truth, *input; /* in [-1,1]; input: images only */
    const uint8_t *mask;                   /* clips (F,H,W): valid pixels; NULL: all */
} TruthRow;

typedef struct ImageSums {
    int64_t n;
    Quality images, inputs; /* sums */
} ImageSums;

/* pairs NULL: no files. Otherwise pairs/result/NUMBER.png and pairs/truth/NUMBER.png. */
Err  images_compare(Pool *pool, const TruthRow *row, int64_t number, const char *pairs,
                    ImageSums *sums);
void images_means(const ImageSums *sums, Evaluation *out);

typedef struct ClipSums {
    double  absolute, square, change;
    int64_t valid, pixels, numbers, changes; /* numbers: of valid pixels, over all channels */
} ClipSums;

void clips_compare(const TruthRow *row, ClipSums *sums);
/* low, high: the metres of -1 and 1; both 0: the clips are images. */
void clips_means(const ClipSums *sums, double low, double high, Evaluation *out);

#endif
