/* results.c -- writes images, clips and audio to files. */
#include "train/results_int.h"

#include "base/int_math.h"
#include "data/raster.h"

#include <math.h>
#include <string.h>

enum { GAP = 2, BACKDROP = 40, CELL_MIN = 96, SHEET_MAX = 4096 };

unsigned char result_level(float x)
{
    return (unsigned char)lrintf(255 * (x > -1 ? (x < 1 ? x * 0.5f + 0.5f : 1) : 0));
}

Err sheet_write(Pool *pool, const char *path, const float *data, int64_t n, int64_t columns,
                Shape cell, bool enlarge)
{
    int64_t h = cell.dim[0], w = cell.dim[1], c = cell.dim[2], shown = c == 3 ? 3 : 1;
    int64_t rows = ceil_div(n, columns);
    int64_t side = h < w ? h : w, scale = enlarge && side < CELL_MIN ? ceil_div(CELL_MIN, side) : 1;
    while (scale > 1 && columns * (w * scale + GAP) > SHEET_MAX)
        scale--;
    int64_t edge = n > 1 ? GAP : 0, step_y = h * scale + GAP, step_x = w * scale + GAP;
    int64_t height = rows * step_y - GAP + 2 * edge, width = columns * step_x - GAP + 2 * edge;
    Pool   *work = pool_new(pool, "sheet");
    unsigned char *pixels = NEWN(work, unsigned char, (height * width * shown));
    memset(pixels, BACKDROP, (size_t)(height * width * shown));
    for (int64_t i = 0; i < n; i++) {
        int64_t top = i / columns * step_y + edge, left = i % columns * step_x + edge;
        for (int64_t y = 0; y < h * scale; y++)
            for (int64_t x = 0; x < w * scale; x++)
                for (int64_t k = 0; k < shown; k++) {
                    float v = data[((i * h + y / scale) * w + x / scale) * c + k];
                    pixels[((top + y) * width + left + x) * shown + k] = result_level(v);
                }
    }
    Err err = image_write_in(work, path, pixels, height, width, (int)shown);
    pool_free(work);
    return err;
}

void report_file(Pool *pool, SampleReport *report, const char *path)
{
    VEC_ADD(pool, report->files, report->n_files, report->cap_files, path);
}

/* folder/name, or NULL if folder is NULL. */
static const char *path_in(Pool *pool, const char *folder, const char *name)
{
    return folder ? pool_print(pool, "%s/%s", folder, name) : NULL;
}

static int64_t square_side(int64_t n) { return (int64_t)ceil(sqrt((double)n)); }

int64_t strip_columns(Shape clip) { return clip.dim[2] > 2 * clip.dim[1] ? 1 : clip.dim[0]; }

Err results_sheet(Pool *pool, const char *path, const float *data, Shape s, bool *written)
{
    Shape one = s.rank ? shape_drop(s, 0) : s;
    *written = s.rank == 4 || s.rank == 5;
    if (s.rank == 4)
        return sheet_write(pool, path, data, s.dim[0], square_side(s.dim[0]), one, true);
    if (s.rank == 5)
        return sheet_write(pool, path, data, s.dim[0] * s.dim[1], strip_columns(one),
                           shape_drop(one, 0), true);
    return OK;
}

/* All results in one image. */
static Err results_all(Pool *pool, const char *path, const SampleResult *r)
{
    bool written;
    if (r->kind == RESULT_AUDIO)
        return results_audio_image(pool, path, r);
    if (r->columns)
        return sheet_write(pool, path, r->data, r->shape.dim[0], r->columns,
                           shape_drop(r->shape, 0), true);
    return results_sheet(pool, path, r->data, r->shape, &written);
}

Err results_write(Pool *pool, const char *folder, const SampleResult *r, const ResultForm *form,
                  SampleReport *report)
{
    static const char *const words[] = { "sample", "clip", "audio" };
    const char              *word = words[r->kind], *plural = r->kind == RESULT_AUDIO ? "" : "s";
    const char              *sheet = path_in(pool, folder,
                                             pool_print(pool, "%s%s%s", word, plural, image_ending));
    TRY(results_all(pool, sheet, r));
    report_file(pool, report, sheet);
    return result_files(pool, folder, word, r, form, report);
}
