/* results_compare.c -- images by quality, clips by the differences of their valid pixels. */
#include "evaluate/results_compare.h"

#include "base/file.h"
#include "data/raster.h"

#include <math.h>

static Levels8 levels_of(Pool *pool, const float *x, Shape shape) /* as images are written */
{
    int64_t        n = shape_count(shape);
    unsigned char *to = NEWN(pool, unsigned char, n);
    for (int64_t i = 0; i < n; i++)
        to[i] = (unsigned char)lrintf(255 * (x[i] > -1 ? (x[i] < 1 ? x[i] * 0.5f + 0.5f : 1) : 0));
    return (Levels8){ to, shape.dim[0], shape.dim[1], shape.dim[2] };
}

static void quality_add(Quality *sum, Quality q)
{
    sum->psnr += q.psnr;
    sum->psnr_y += q.psnr_y;
    sum->ssim += q.ssim;
    sum->ssim_y += q.ssim_y;
}

static Quality quality_over(Quality sum, int64_t n)
{
    double k = 1 / (double)n;
    return (Quality){ sum.psnr * k, sum.psnr_y * k, sum.ssim * k, sum.ssim_y * k };
}

static Err pair_write(Pool *pool, const char *folder, const char *which, int64_t number,
                      const Levels8 *image)
{
    const char *path = pool_print(pool, "%s/%s/%06lld%s", folder, which, (long long)number,
                                  image_ending);
    TRY(folder_make(pool_print(pool, "%s/%s", folder, which)));
    return image_write(path, image->at, image->height, image->width, (int)image->channels);
}

Err images_compare(Pool *parent, const TruthRow *row, int64_t number, const char *pairs,
                   ImageSums *sums)
{
    Pool   *pool = pool_new(parent, "images");
    Levels8 result = levels_of(pool, row->result, row->shape),
            truth = levels_of(pool, row->truth, row->shape),
            input = levels_of(pool, row->input, row->shape);
    quality_add(&sums->images, quality_of(pool, &result, &truth));
    quality_add(&sums->inputs, quality_of(pool, &input, &truth));
    sums->n++;
    Err err = pairs ? pair_write(pool, pairs, "result", number, &result) : OK;
    if (pairs && !err)
        err = pair_write(pool, pairs, "truth", number, &truth);
    pool_free(pool);
    return err;
}

void images_means(const ImageSums *sums, Evaluation *out)
{
    out->has_images = sums->n > 0;
    if (!sums->n)
        return;
    out->images = quality_over(sums->images, sums->n);
    out->inputs = quality_over(sums->inputs, sums->n);
}

/* The change of a pixel since the frame before, in both, where it was valid in both. */
static void change_add(const TruthRow *row, int64_t i, int64_t frame, ClipSums *sums)
{
    int64_t c = row->shape.dim[3];
    if (i < frame || (row->mask && !row->mask[i - frame]))
        return;
    for (int64_t k = i * c; k < (i + 1) * c; k++) {
        double result = (double)row->result[k] - (double)row->result[k - frame * c];
        double truth = (double)row->truth[k] - (double)row->truth[k - frame * c];
        sums->change += fabs(result - truth);
    }
    sums->changes += c;
}

void clips_compare(const TruthRow *row, ClipSums *sums)
{
    Shape   s = row->shape;
    int64_t frame = s.dim[1] * s.dim[2], c = s.dim[3];
    for (int64_t i = 0; i < s.dim[0] * frame; i++) {
        sums->pixels++;
        if (row->mask && !row->mask[i])
            continue;
        for (int64_t k = i * c; k < (i + 1) * c; k++) {
            double d = (double)row->result[k] - (double)row->truth[k];
            sums->absolute += fabs(d);
            sums->square += d * d;
        }
        sums->valid++;
        sums->numbers += c;
        change_add(row, i, frame, sums);
    }
}

void clips_means(const ClipSums *sums, double low, double high, Evaluation *out)
{
    bool   metres = high > low;
    double unit = metres ? (high - low) / 2 : 127.5, n = (double)sums->numbers;
    out->has_clips = sums->pixels > 0;
    out->clips =
        (ClipErrors){ .metres = metres,
                      .mae = n > 0 ? unit * sums->absolute / n : NAN,
                      .rmse = n > 0 ? unit * sqrt(sums->square / n) : NAN,
                      .temporal = sums->changes ? unit * sums->change / (double)sums->changes : NAN,
                      .valid = sums->valid,
                      .pixels = sums->pixels };
}
