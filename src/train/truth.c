/* truth.c -- results beside what the data hold. */
#include "train/truth.h"

#include "data/raster.h"
#include "train/results_int.h"

#include <math.h>

/* |difference| as numbers in [-1,1]: 1 is a quarter of the range, where images are white. Pixels that
 * do not count are -1. */
static double differences(const SampleResult *result, const FeedBuffer *truth,
                          const FeedBuffer *mask, float *to, int64_t *counted)
{
    int64_t        n = shape_count(result->shape), channels = dim(result->shape, -1);
    const float   *a = result->data, *b = truth->bytes;
    const uint8_t *counts = mask ? mask->bytes : NULL;
    double         sum = 0;
    *counted = 0;
    for (int64_t i = 0; i < n; i++) {
        double off = fabs((double)a[i] - (double)b[i]);
        bool   counts_here = !counts || counts[i / channels];
        to[i] = counts_here ? (float)fmin(off * 2 * TRUTH_WHITE - 1, 1) : -1;
        sum += counts_here ? off : 0;
        *counted += counts_here;
    }
    return sum / (double)(*counted > 0 ? *counted : 1);
}

static Err sheet_named(Pool *pool, const char *folder, const char *name, const float *data,
                       Shape shape, SampleReport *report)
{
    bool        written;
    const char *path = folder ? pool_print(pool, "%s/%s%s", folder, name, image_ending) : NULL;
    TRY(results_sheet(pool, path, data, shape, &written));
    if (written)
        report_file(pool, report, path);
    return OK;
}

Err truth_write(Pool *pool, const char *folder, const SampleResult *result, const FeedBuffer *truth,
                const FeedBuffer *mask, const ResultForm *form, SampleReport *report)
{
    float  *off = NEWN(pool, float, shape_count(result->shape));
    bool    metres = form->high > form->low;
    int64_t counted;
    REQUIRE(shape_same(truth->shape, result->shape));
    TRY(sheet_named(pool, folder, "truth", truth->bytes, truth->shape, report));
    double mean = differences(result, truth, mask, off, &counted);
    TRY(sheet_named(pool, folder, "error", off, result->shape, report));
    report->error = (SampleError){ .pixels = counted / dim(result->shape, -1),
                                   .metres = metres,
                                   .mean = mean / 2 * (metres ? form->high - form->low : 255) };
    report->error.white = (metres ? form->high - form->low : 255) / TRUTH_WHITE;
    if (!folder || !(form->formats & FORMAT_NPY))
        return OK;
    SampleResult held = *result;
    ResultForm   arrays = *form;
    held.data = truth->bytes;
    arrays.formats = FORMAT_NPY;
    return result_files(pool, folder, "truth", &held, &arrays, report);
}

Err beside_write(Pool *pool, const char *folder, const SampleResult *held, const ResultForm *form,
                 SampleReport *report)
{
    if (held->kind != RESULT_AUDIO)
        return sheet_named(pool, folder, "data", held->data, held->shape, report);
    const char *path = folder ? pool_print(pool, "%s/data%s", folder, image_ending) : NULL;
    TRY(results_audio_image(pool, path, held));
    if (path)
        report_file(pool, report, path);
    return result_files(pool, folder, "data", held, form, report);
}
