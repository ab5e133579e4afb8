/* stablesr_enlarge.c -- StableSR on an image of any size, by overlapping tiles of the model's size.
 *
 *   1  every tile of the enlarged image becomes a latent and a map of edges, on one canvas
 *   2  the chain runs over the canvas: each step predicts the noise of every tile and averages it
 *      where tiles overlap (as MultiDiffusion does, Bar-Tal et al. 2023)
 *   3  every tile of the result is decoded, and its colours are matched
 *
 * The image itself is never held whole: 1 reads it in strips from its top to its bottom, and 3 reads it
 * so once more and writes the result. On the host are the canvases, of 4 numbers for a cell of the
 * latent, and strips as high as a tile. The arena is that of the sampling graph, whatever the image's
 * size. An image of one tile is sampled as by stablesr_sample, to the bit. */
#define LAYERS_NO_SOURCE /* no graph is built here */
#include "models/layers.h"
#include "models/stablesr.h"
#include "models/tiles.h"

#include <math.h>
#include <string.h>

enum { CHANNELS = 3, OVERLAP_SHARE = 4 }; /* tiles overlap by a quarter of their side, or more */

typedef struct Canvas {
    Sampler        *s;
    const StableSr *m;
    Enlarging      *job;
    TileAxis        down, across;           /* of latents */
    TileAxis        fine_down, fine_across; /* of pixels */
    int64_t cell, tile, times; /* floats of all of a canvas and of a tile; pixels of a cell */
    float  *low, *edge, *x, *z, *noise;
    float  *batch; /* the tiles of one run */
    int64_t done, of;
} Canvas;

static Canvas canvas_new(Sampler *s, const StableSr *m, Enlarging *job)
{
    Canvas  c = { .s = s, .m = m, .job = job, .times = m->image / m->latent };
    int64_t height = (job->height + c.times - 1) / c.times,
            width = (job->width + c.times - 1) / c.times, l = m->latent;
    c.down = tile_axis(s->pool, height < l ? l : height, l, l / OVERLAP_SHARE);
    c.across = tile_axis(s->pool, width < l ? l : width, l, l / OVERLAP_SHARE);
    c.fine_down = tile_axis_finer(s->pool, &c.down, c.times);
    c.fine_across = tile_axis_finer(s->pool, &c.across, c.times);
    c.cell = c.down.length * c.across.length * STABLESR_LATENT;
    c.tile = l * l * STABLESR_LATENT;
    float **canvases[] = { &c.low, &c.edge, &c.x, &c.z, &c.noise };
    for (size_t i = 0; i < sizeof canvases / sizeof *canvases; i++)
        *canvases[i] = NEWN(s->pool, float, c.cell);
    c.batch = NEWN(s->pool, float, (s->n * c.tile));
    return c;
}

static void canvas_progress(Canvas *c) { c->s->progress(c->s, ++c->done, c->of); }

static void cells_add(const Canvas *c, float *canvas, int64_t t, const float *tile)
{
    int64_t i = t / c->across.n, j = t % c->across.n;
    tile_add(canvas, c->down.starts[i], &c->down, i, &c->across, j, STABLESR_LATENT, tile);
}

static void cells_take(const Canvas *c, const float *canvas, int64_t t, float *tile)
{
    int64_t i = t / c->across.n, j = t % c->across.n;
    tile_take(canvas, c->down.starts[i], &c->across, j, STABLESR_LATENT, tile);
}

/* Tiles first .. first + n - 1; the rest of the batch repeats the last one. */
static void batch_take(const Canvas *c, const float *canvas, int64_t first, int64_t n, float *to)
{
    for (int64_t k = 0; k < c->s->n; k++)
        cells_take(c, canvas, first + (k < n ? k : n - 1), to + k * c->tile);
}

/* Squares of the image into the feeds of a batch; all tiles are of one row. */
static Err squares_read(const Canvas *c, int64_t first, int64_t n, float *image, float *edge)
{
    int64_t side = c->m->image, size = side * side * CHANNELS;
    for (int64_t k = 0; k < n; k++) {
        int64_t y = c->fine_down.starts[(first + k) / c->across.n],
                x = c->fine_across.starts[(first + k) % c->across.n];
        TRY(c->job->square(c->job, y, x, side, image + k * size, edge ? edge + k * size : NULL));
    }
    for (int64_t k = n; k < c->s->n; k++) {
        memcpy(image + k * size, image, (size_t)size * sizeof *image);
        if (edge)
            memcpy(edge + k * size, edge, (size_t)size * sizeof *edge);
    }
    return OK;
}

/* ---- 1 ---- */

static Err tiles_encode(Canvas *c, int64_t first, int64_t n)
{
    static const char *const states[] = { "sample.latent_lq", "sample.edge" };
    Sampler                 *s = c->s;
    float                   *canvases[] = { c->low, c->edge };
    TRY(squares_read(c, first, n, s->feed(s, "image_lq"), s->feed(s, "edge")));
    TRY(s->run(s, PHASE_SAMPLE_BEGIN));
    for (int i = 0; i < 2; i++) {
        TRY(s->state_get(s, states[i], c->batch));
        for (int64_t k = 0; k < n; k++)
            cells_add(c, canvases[i], first + k, c->batch + k * c->tile);
    }
    canvas_progress(c);
    return OK;
}

/* Calls `each` with the batches of every row of tiles, and `row` after each row. */
static Err rows_walk(Canvas *c, Err (*each)(Canvas *c, int64_t first, int64_t n),
                     Err (*row)(Canvas *c, int64_t i))
{
    for (int64_t i = 0; i < c->down.n; i++) {
        for (int64_t j = 0; j < c->across.n; j += c->s->n) {
            int64_t left = c->across.n - j;
            TRY(each(c, i * c->across.n + j, left < c->s->n ? left : c->s->n));
        }
        if (row)
            TRY(row(c, i));
    }
    return OK;
}

/* ---- 2 ---- */

static Err tiles_predict(Canvas *c, int64_t first, int64_t n)
{
    Sampler *s = c->s;
    batch_take(c, c->low, first, n, c->batch);
    TRY(s->state_set(s, "sample.latent_lq", c->batch));
    batch_take(c, c->edge, first, n, c->batch);
    TRY(s->state_set(s, "sample.edge", c->batch));
    batch_take(c, c->x, first, n, s->feed(s, "x"));
    TRY(s->run(s, PHASE_SAMPLE));
    const float *noise = s->output(s, "noise");
    for (int64_t k = 0; k < n; k++)
        cells_add(c, c->noise, first + k, noise + k * c->tile);
    canvas_progress(c);
    return OK;
}

static Err canvas_step(Canvas *c, int64_t t)
{
    Sampler *s = c->s;
    int32_t *times = s->feed(s, "t");
    int64_t  tiles = c->down.n * c->across.n;
    for (int64_t i = 0; i < s->n; i++)
        times[i] = (int32_t)t;
    memset(c->noise, 0, (size_t)c->cell * sizeof *c->noise);
    for (int64_t first = 0; first < tiles; first += s->n)
        TRY(tiles_predict(c, first, tiles - first < s->n ? tiles - first : s->n));
    return OK;
}

static Err canvas_sample(Canvas *c, int64_t steps)
{
    Sampler      *s = c->s;
    const double *bar = stablesr_alpha_bar(s->pool, c->m);
    s->normal(s, "x", c->job->number, c->x, c->cell);
    for (int64_t k = steps - 1; k >= 0; k--) {
        int64_t t = respaced_time(c->m->timesteps, steps, k);
        double  next = k ? bar[respaced_time(c->m->timesteps, steps, k - 1)] : 1;
        TRY(canvas_step(c, t));
        stablesr_chain_step(s, c->job->number * steps + steps - 1 - k, bar[t], next, c->x, c->noise,
                            c->z, c->cell);
    }
    return OK;
}

/* ---- 3 ---- */

typedef struct Decoding { /* the canvas first, so that both walks have one argument */
    Canvas  canvas;
    float  *strip; /* (image, width of the canvas, 3): rows of the tiles being decoded, summed up */
    float  *images; /* of a batch */
    float  *work;   /* of the colours */
    int64_t top;    /* row of the result at which the strip begins */
} Decoding;

static Err tiles_decode(Canvas *c, int64_t first, int64_t n)
{
    Decoding *d = (Decoding *)c;
    Sampler  *s = c->s;
    int64_t   side = c->m->image, size = side * side * CHANNELS, i = first / c->across.n;
    float    *low = s->feed(s, "image_lq");
    TRY(squares_read(c, first, n, low, NULL));
    batch_take(c, c->x, first, n, s->feed(s, "result"));
    TRY(s->run(s, PHASE_SAMPLE_END));
    memcpy(d->images, s->output(s, "image"), (size_t)(s->n * size) * sizeof *d->images);
    stablesr_colours(s->config, d->images, low, n, side, d->work);
    for (int64_t k = 0; k < n; k++)
        tile_add(d->strip, 0, &c->fine_down, i, &c->fine_across, (first + k) % c->across.n,
                 CHANNELS, d->images + k * size);
    canvas_progress(c);
    return OK;
}

/* Writes the rows that no later tile reaches; the others move to the strip's beginning. */
static Err strip_write(Canvas *c, int64_t i)
{
    Decoding *d = (Decoding *)c;
    int64_t   side = c->m->image, row = c->fine_across.length * CHANNELS;
    int64_t   end = i + 1 < c->fine_down.n ? c->fine_down.starts[i + 1] : c->job->height;
    int64_t   ready = end - d->top, kept = side - ready;
    TRY(c->job->rows(c->job, ready, d->strip, c->fine_across.length));
    if (kept > 0)
        memmove(d->strip, d->strip + ready * row, (size_t)(kept * row) * sizeof *d->strip);
    kept = kept > 0 ? kept : 0;
    memset(d->strip + kept * row, 0, (size_t)((side - kept) * row) * sizeof *d->strip);
    d->top = end;
    return OK;
}

static Err canvas_decode(const Canvas *canvas)
{
    Pool    *pool = canvas->s->pool;
    int64_t  side = canvas->m->image, size = side * side * CHANNELS;
    Decoding d = { .canvas = *canvas,
                   .strip = NEWN(pool, float, (side * canvas->fine_across.length * CHANNELS)),
                   .images = NEWN(pool, float, (canvas->s->n * size)),
                   .work = NEWN(pool, float, (2 * size)) };
    TRY(canvas->job->again(canvas->job));
    return rows_walk(&d.canvas, tiles_decode, strip_write);
}

int64_t stablesr_enlarge_bytes(const void *config, int64_t n, int64_t height, int64_t width)
{
    const StableSr *m = config;
    int64_t         times = m->image / m->latent, side = m->image;
    int64_t         h = height > side ? height : side, w = width > side ? width : side;
    int64_t         cells = (h / times + 1) * (w / times + 1) * STABLESR_LATENT,
            square = side * side * CHANNELS;
    return (int64_t)sizeof(float) * (5 * cells + side * (w + times) * CHANNELS + (n + 2) * square +
                                     n * m->latent * m->latent * STABLESR_LATENT);
}

Err stablesr_enlarge(Sampler *s, const void *config, Enlarging *job)
{
    const StableSr *m = config;
    int64_t         steps = s->config->steps ? s->config->steps : STABLESR_STEPS;
    TRY(stablesr_check_sampler(m, s->config));
    TRY(sampler_steps_check("stablesr", steps, m->timesteps));
    Canvas  c = canvas_new(s, m, job);
    int64_t of_row = (c.across.n + s->n - 1) / s->n, tiles = c.down.n * c.across.n;
    c.of = 2 * c.down.n * of_row + steps * ((tiles + s->n - 1) / s->n);
    job->tiles = tiles;
    TRY(rows_walk(&c, tiles_encode, NULL));
    TRY(canvas_sample(&c, steps));
    return canvas_decode(&c);
}
