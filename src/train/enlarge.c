/* enlarge.c -- an image as squares of its enlarged self, and the result as rows of a file.
 *
 * In memory are the rows of the enlarged image that the current row of tiles covers, the rows of the
 * file that the next of those are made of, and what the model holds. */
#include "train/enlarge.h"

#include "train/rank_run.h"

#include "base/text.h"
#include "data/degrade.h"
#include "data/strips.h"

#include <math.h>
#include <string.h>

enum { TAPS = 8 }; /* of the cubic filter: 4, and room */

typedef struct PixelTaps { /* which pixels of the file make up one of the enlarged image */
    int64_t first, n;
    float   weights[TAPS];
} PixelTaps;

typedef struct Enlarger {
    Enlarging         job;
    const char       *path;
    Strips           *strips;
    const StripsForm *form;
    int64_t           side;
    PixelTaps        *columns; /* of each column */
    float            *line;    /* a row of the file */
    float    *source;    /* TAPS rows of the file, each as wide as the result; row y at y % TAPS */
    int64_t   read;      /* rows of the file read */
    float    *window;    /* (side, width, channels): rows top, top + 1, ... in [0,1] */
    int64_t   top, made; /* made: the next row that is not in it */
    float    *square;    /* (side, side, 3) */
    Work      work;      /* of the edges */
    ImageOut *out;
    int64_t   written;
    void     *samples; /* a row of the result as the file has it */
} Enlarger;

static int64_t row_floats_of(const Enlarger *e) { return e->job.width * e->form->channels; }

/* Reads the file's next row and makes it as wide as the result. */
static Err source_read(Enlarger *e)
{
    int64_t channels = e->form->channels;
    float  *to = e->source + e->read % TAPS * row_floats_of(e);
    TRY(strips_row(e->strips, e->line));
    for (int64_t x = 0; x < e->job.width; x++)
        for (int64_t c = 0; c < channels; c++) {
            const PixelTaps *t = &e->columns[x];
            float            sum = 0;
            for (int64_t k = 0; k < t->n; k++)
                sum += t->weights[k] * e->line[(t->first + k) * channels + c];
            to[x * channels + c] = sum;
        }
    e->read++;
    return OK;
}

/* Makes the next row of the enlarged image. */
static Err window_add(Enlarger *e)
{
    int64_t   n = row_floats_of(e);
    float    *to = e->window + (e->made - e->top) * n;
    PixelTaps t;
    t.first = resize_taps(RESIZE_CUBIC, e->made, e->form->height, e->job.height, t.weights, &t.n);
    while (e->read < t.first + t.n)
        TRY(source_read(e));
    memset(to, 0, (size_t)n * sizeof *to);
    for (int64_t k = 0; k < t.n; k++) {
        const float *from = e->source + (t.first + k) % TAPS * n;
        for (int64_t i = 0; i < n; i++)
            to[i] += t.weights[k] * from[i];
    }
    for (int64_t i = 0; i < n; i++)
        to[i] = clamp01(to[i]);
    e->made++;
    return OK;
}

/* The window begins at row `top`, and is full as far as the image goes. */
static Err window_move(Enlarger *e, int64_t top)
{
    int64_t n = row_floats_of(e), kept = e->made - top;
    REQUIRE(top >= e->top && kept >= 0);
    if (top > e->top)
        memmove(e->window, e->window + (top - e->top) * n, (size_t)(kept * n) * sizeof *e->window);
    e->top = top;
    while (e->made < e->job.height && e->made < top + e->side)
        TRY(window_add(e));
    return OK;
}

static const float *window_pixel(const Enlarger *e, int64_t y, int64_t x)
{
    y = mirror(y, e->job.height) - e->top;
    return e->window + (y * e->job.width + mirror(x, e->job.width)) * e->form->channels;
}

static Err enlarger_square(Enlarging *job, int64_t y, int64_t x, int64_t side, float *image,
                           float *edge)
{
    Enlarger *e = (Enlarger *)job;
    bool      colour = e->form->channels > 2;
    REQUIRE(side == e->side);
    TRY(window_move(e, y));
    for (int64_t i = 0; i < side * side; i++) {
        const float *from = window_pixel(e, y + i / side, x + i % side);
        for (int c = 0; c < 3; c++) {
            e->square[3 * i + c] = from[colour ? c : 0];
            image[3 * i + c] = e->square[3 * i + c] * 2 - 1;
        }
    }
    if (!edge)
        return OK;
    Work     work = e->work;
    uint8_t *edges = work_take(&work, (size_t)(side * side));
    canny(e->square, side, side, edges, &work);
    for (int64_t i = 0; i < side * side * 3; i++)
        edge[i] = edges[i / 3] ? 1 : -1;
    return OK;
}

static Err enlarger_again(Enlarging *job)
{
    Enlarger *e = (Enlarger *)job;
    e->read = e->top = e->made = 0;
    return strips_again(e->strips);
}

/* ---- the result ---- */

static void sample_put(const Enlarger *e, int64_t i, float x)
{
    double max = e->form->depth == 16 ? 65535 : 255;
    long   level = lrint(max * (double)(x > 0 ? (x < 1 ? x : 1) : 0)); /* NaN is 0 */
    if (e->form->depth == 16)
        ((uint16_t *)e->samples)[i] = (uint16_t)level;
    else
        ((uint8_t *)e->samples)[i] = (uint8_t)level;
}

static void pixel_put(const Enlarger *e, int64_t x, const float *rgb)
{
    int64_t n = e->form->channels, at = x * n;
    float   v[3];
    for (int c = 0; c < 3; c++)
        v[c] = clamp01(rgb[c] * 0.5f + 0.5f);
    if (n > 2)
        for (int c = 0; c < 3; c++)
            sample_put(e, at + c, v[c]);
    else
        sample_put(e, at, 0.299f * v[0] + 0.587f * v[1] + 0.114f * v[2]);
    if (e->form->alpha)
        sample_put(e, at + n - 1, window_pixel(e, e->written, x)[n - 1]);
}

static Err enlarger_rows(Enlarging *job, int64_t n, const float *rgb, int64_t pitch)
{
    Enlarger *e = (Enlarger *)job;
    for (int64_t y = 0; y < n; y++) {
        for (int64_t x = 0; x < job->width; x++)
            pixel_put(e, x, rgb + (y * pitch + x) * 3);
        TRY(image_out_row(e->out, e->samples));
        e->written++;
    }
    return OK;
}

/* ---- one image ---- */

static void columns_make(Pool *pool, Enlarger *e)
{
    e->columns = NEWN(pool, PixelTaps, e->job.width);
    for (int64_t x = 0; x < e->job.width; x++)
        e->columns[x].first = resize_taps(RESIZE_CUBIC, x, e->form->width, e->job.width,
                                          e->columns[x].weights, &e->columns[x].n);
}

static int64_t enlarger_bytes(const Enlarger *e)
{
    int64_t row = row_floats_of(e), square = e->side * e->side;
    return (int64_t)sizeof(float) * (row * (e->side + TAPS) + 3 * square) +
           (int64_t)degrade_work(e->side, e->side) + e->job.width * (int64_t)sizeof(PixelTaps) +
           (int64_t)e->form->whole_bytes;
}

static Err enlarger_fits(const Enlarger *e, const Recipe *recipe, int64_t tiles, int64_t memory)
{
    int64_t bytes = enlarger_bytes(e) + recipe->model->enlarge_bytes(recipe->config, tiles,
                                                                     e->job.height, e->job.width);
    if (!memory || bytes <= memory)
        return OK;
    return fail(
        E_BUDGET,
        "enlarging %s to %lld x %lld pixels takes %s on the host, and --loader-memory is %s; "
        "allow more, or take a smaller --scale",
        e->path, (long long)e->job.width, (long long)e->job.height, bytes_text(bytes),
        bytes_text(memory));
}

static Err enlarger_open(Pool *pool, Enlarger *e, const Recipe *recipe, const EnlargeOptions *o,
                         int64_t tiles)
{
    TRY(strips_open(pool, e->path, o->memory, &e->strips));
    e->form = strips_form(e->strips);
    e->side = recipe->model->side(recipe->config);
    e->job.height = e->form->height * o->scale;
    e->job.width = e->form->width * o->scale;
    TRY(enlarger_fits(e, recipe, tiles, o->memory));
    columns_make(pool, e);
    e->line = NEWN(pool, float, (e->form->width * e->form->channels));
    e->source = NEWN(pool, float, (TAPS * row_floats_of(e)));
    e->window = NEWN(pool, float, (e->side * row_floats_of(e)));
    e->square = NEWN(pool, float, (e->side * e->side * 3));
    e->samples = NEWN(pool, uint16_t, row_floats_of(e));
    e->work.n = degrade_work(e->side, e->side) + work_size((size_t)(e->side * e->side));
    e->work.at = pool_alloc(pool, e->work.n, 1);
    return OK;
}

static Err enlarge_one(Pool *pool, Drawing *drawing, const Recipe *recipe, const EnlargeOptions *o,
                       Enlarger *e, const char *to)
{
    Sampler s = drawing_sampler(drawing, pool);
    TRY(enlarger_open(pool, e, recipe, o, s.n));
    ImageForm form = { e->job.height, e->job.width, e->form->channels, e->form->depth };
    TRY(image_out_open(pool, to, &form, &e->out));
    Err err = recipe->model->enlarge(&s, recipe->config, &e->job);
    return image_out_done(e->out, err);
}

static Err images_find(Pool *pool, const EnlargeOptions *o, ImageList *list)
{
    TRY(image_list(pool, o->input, (FilePick){ 0 }, list));
    if (o->n > list->n)
        return fail(E_USAGE, "-n %lld: %s holds %d images; leave -n out for all of them",
                    (long long)o->n, o->input, list->n);
    list->n = o->n ? (int32_t)o->n : list->n;
    return OK;
}

/* What each rank says of its images, at rank 0. */
static Err enlarge_collect(Pool *pool, Comm *comm, int32_t n, SampleReport *report)
{
    enum { ABOUT = 1024 };
    int   ranks = comm_ranks(comm), leads = rank_leads(comm);
    char *mine = pool_alloc(pool, (size_t)n + 1, ABOUT),
         *all = leads ? pool_alloc(pool, (size_t)(n * ranks + 1), ABOUT) : NULL;
    for (int32_t i = 0; i < n; i++)
        snprintf(mine + (size_t)i * ABOUT, ABOUT, "%s", report->about[i] ? report->about[i] : "");
    TRY(rank_collect(comm, mine, (int64_t)n * ABOUT, all));
    for (int32_t i = 0; i < n && leads; i++)
        report->about[i] = all + ((size_t)(i % ranks) * (size_t)n + (size_t)i) * ABOUT;
    return OK;
}

Err enlarge_images(Pool *pool, Drawing *drawing, const Recipe *recipe, const EnlargeOptions *o,
                   SampleReport *report)
{
    ImageList list;
    TRY(images_find(pool, o, &list));
    report->about = NEWN(pool, const char *, list.n);
    report->drawn = list.n;
    for (int32_t i = 0; i < list.n; i++) {
        Pool       *work = pool_new(pool, "enlarge");
        const char *to = pool_print(pool, "%s/sample-%03d%s", o->folder, i, image_ending);
        VEC_ADD(pool, report->files, report->n_files, report->cap_files, to);
        if (i % rank_count(o->comm) != rank_number(o->comm)) {
            pool_free(work);
            continue;
        }
        Enlarger e = { .job = { .number = i,
                                .square = enlarger_square,
                                .again = enlarger_again,
                                .rows = enlarger_rows },
                       .path = list.paths[i] };
        TRY(enlarge_one(work, drawing, recipe, o, &e, to));
        report->about[i] = pool_print(pool, "%s, %lld x %lld -> %lld x %lld, %lld %s", e.path,
                                      (long long)e.form->width, (long long)e.form->height,
                                      (long long)e.job.width, (long long)e.job.height,
                                      (long long)e.job.tiles, e.job.tiles == 1 ? "tile" : "tiles");
        pool_free(work);
    }
    return rank_count(o->comm) > 1 ? enlarge_collect(pool, o->comm, list.n, report) : OK;
}
