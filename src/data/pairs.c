/* pairs.c -- pairs of a good and a degraded image: image, image_lq (S,S,3) in [-1,1], edge (S,S,3)
 * of -1 and 1.
 *
 * DIR/gt and DIR/lq (or hr and lr) hold pairs of the same names, of which the same square is cropped;
 * an image of lq/ may be smaller by a whole factor. Otherwise the images are degraded here.
 * For training: a square cropped from a file (mirrored at the borders if the file is smaller,
 * flipped in half of the draws) and sharpened; its degraded version; its edges. As an input for
 * sampling, the file is the degraded image, resized to S, and edges are taken from it. If the model
 * reads latents (l,l,4): DIR/latent/NAME.npy and DIR/latent_lq/NAME.npy of (4,l,l), as the
 * autoencoder outputs them and already scaled, and DIR/edge/NAME.png or .jpg.
 */
#include "data/kinds.h"

#include "base/file.h"
#include "data/degrade.h"
#include "data/draw.h"
#include "data/frames.h"

#include <float.h>
#include <string.h>
#include <strings.h>

typedef struct Pairs {
    int          image, bad, edge, latent, latent_bad; /* indices in the spec, or -1 */
    int64_t      side, cells;                          /* sides of an image, of a latent */
    ImageList    files;
    const char **latents, **latents_bad; /* one for each of files */
    const char **given;   /* the degraded image of each of files; NULL: they are degraded here */
    int64_t     *factors; /* how many times smaller those are */
    ImageInfo    given_largest;
    size_t       npy_bytes;
    bool         as_input;
} Pairs;

static void pair_edges(const Pairs *p, const float *image, float *to, Work *work)
{
    size_t   used = work->used;
    uint8_t *edges = work_take(work, (size_t)(p->side * p->side));
    canny(image, p->side, p->side, edges, work);
    for (int64_t i = 0; i < p->side * p->side * 3; i++)
        to[i] = edges[i / 3] ? 1 : -1;
    work->used = used;
}

static void put_signed(const float *from, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i] * 2 - 1;
}

/* Makes every input of the spec from a good image. */
static void pair_make(const Pairs *p, const float *image, Dice *dice, void *const *to, Work *work)
{
    int64_t n = p->side * p->side * 3;
    float  *good = work_take(work, (size_t)n * sizeof *good),
          *bad = work_take(work, (size_t)n * sizeof *bad);
    sharpen(image, p->side, p->side, good, work);
    if (p->image >= 0)
        put_signed(good, n, to[p->image]);
    if (p->edge >= 0)
        pair_edges(p, good, to[p->edge], work);
    if (p->bad >= 0) {
        degrade(good, p->side, p->side, bad, dice, work);
        put_signed(bad, n, to[p->bad]);
    }
}

typedef struct Square { /* of an image, mirrored at its borders */
    int64_t y, x, side;
    bool    flip;
} Square;

/* At a random place whose coordinates are multiples of `step`. */
static Square square_at_random(const Raster *r, int64_t side, int64_t step, Dice *dice)
{
    int64_t room_y = r->height > side ? r->height - side : 0,
            room_x = r->width > side ? r->width - side : 0;
    Square square = { .side = side };
    square.y = dice_below(dice, (int)(room_y / step) + 1) * step;
    square.x = dice_below(dice, (int)(room_x / step) + 1) * step;
    square.flip = dice_unit(dice) < 0.5f;
    return square;
}

static void square_read(const Raster *r, Square square, float *to)
{
    int64_t side = square.side;
    for (int64_t y = 0; y < side; y++)
        for (int64_t x = 0; x < side; x++)
            raster_floats(r, mirror(square.y + y, r->height), mirror(square.x + x, r->width), 1, 1,
                          3, to + (y * side + (square.flip ? side - 1 - x : x)) * 3);
}

/* A square of an image and the same one of its degraded image, enlarged if that is smaller. */
static Err given_pair_load(const Pairs *p, int64_t id, Dice *dice, void *const *to, Work *work)
{
    int64_t n = p->side * p->side * 3, factor = p->factors[id];
    Raster  r, bad;
    float  *image = work_take(work, (size_t)n * sizeof *image),
          *small = work_take(work, (size_t)n * sizeof *small);
    size_t used = work->used;
    TRY(image_open(p->files.paths[id], work, &r));
    Square square = square_at_random(&r, p->side, factor, dice);
    square_read(&r, square, image);
    work->used = used;
    if (p->image >= 0)
        put_signed(image, n, to[p->image]);
    if (p->edge >= 0)
        pair_edges(p, image, to[p->edge], work);
    if (p->bad < 0)
        return OK;
    TRY(image_open(p->given[id], work, &bad));
    if (r.height != factor * bad.height || r.width != factor * bad.width)
        return fail(E_IO, "%s has changed since the run began; restart the run", p->given[id]);
    square_read(&bad,
                (Square){ square.y / factor, square.x / factor, p->side / factor, square.flip },
                small);
    work->used = used;
    if (factor > 1)
        image_resize(small, p->side / factor, p->side / factor, 3, image, p->side, p->side,
                     RESIZE_CUBIC, work);
    put_signed(factor > 1 ? image : small, n, to[p->bad]);
    return OK;
}

static Err pairs_load(const DataSource *source, int64_t id, int64_t draw, void *const *to,
                      Work *work)
{
    const Pairs *p = source->own;
    int64_t      n = p->side * p->side * 3;
    Dice         dice = { sample_key(source, "pairs", draw), 0 };
    if (p->given)
        return given_pair_load(p, id, &dice, to, work);
    float *image = work_take(work, (size_t)n * sizeof *image);
    if (p->as_input) {
        TRY(image_load(p->files.paths[id], p->side, p->side, 3, image, work));
        if (p->bad >= 0)
            put_signed(image, n, to[p->bad]);
        if (p->image >= 0)
            put_signed(image, n, to[p->image]);
        if (p->edge >= 0)
            pair_edges(p, image, to[p->edge], work);
        return OK;
    }
    size_t used = work->used;
    Raster r;
    TRY(image_open(p->files.paths[id], work, &r));
    square_read(&r, square_at_random(&r, p->side, 1, &dice), image);
    work->used = used;
    pair_make(p, image, &dice, to, work);
    return OK;
}

static Err drawn_pairs_load(const DataSource *source, int64_t id, int64_t draw, void *const *to,
                            Work *work)
{
    const Pairs *p = source->own;
    int64_t      side = p->side, n = side * side * 3;
    Dice         dice = { sample_key(source, "pairs", draw), 0 },
         drawing = { sample_key(source, "drawn-pairs", id), 0 };
    float *image = work_take(work, (size_t)n * sizeof *image), rgb[3];
    draw_image(drawing.key, side, side, 3, image); /* a background for small forms */
    drawing.next = 16;
    for (int64_t i = 0; i < n; i++)
        image[i] = image[i] * 0.5f + 0.5f;
    for (int k = 0; k < 8; k++) {
        Form  form = (Form)dice_below(&drawing, FORM_COUNT);
        float cx = dice_unit(&drawing) * (float)side, cy = dice_unit(&drawing) * (float)side;
        float radius = dice_range(&drawing, 0.04f, 0.16f) * (float)side;
        draw_hue(dice_unit(&drawing), rgb);
        for (int64_t i = 0; i < side * side; i++) {
            float in = draw_form(form, (float)(i % side) + 0.5f - cx, (float)(i / side) + 0.5f - cy,
                                 radius);
            for (int c = 0; c < 3; c++)
                image[3 * i + c] += in * (rgb[c] - image[3 * i + c]);
        }
    }
    pair_make(p, image, &dice, to, work);
    return OK;
}

/* ---- latents ---- */

static Err latent_load(const Pairs *p, const char *path, float *to, Work *work)
{
    Npy     a;
    int64_t cells = p->cells * p->cells;
    TRY(npy_load(path, work, &a));
    if (a.count != 4 * cells)
        return fail(E_IO, "%s has changed since the run began; restart the run", path);
    TRY(npy_within(path, &a, FLT_MAX));
    for (int64_t i = 0; i < 4 * cells; i++)
        to[i] = npy_number(&a, i % 4 * cells + i / 4);
    return OK;
}

static Err latents_load(const DataSource *source, int64_t id, int64_t draw, void *const *to,
                        Work *work)
{
    (void)draw;
    const Pairs *p = source->own;
    size_t       used = work->used;
    if (p->latent >= 0)
        TRY(latent_load(p, p->latents[id], to[p->latent], work));
    work->used = used;
    if (p->latent_bad >= 0)
        TRY(latent_load(p, p->latents_bad[id], to[p->latent_bad], work));
    work->used = used;
    if (p->edge >= 0) {
        float *edge = to[p->edge];
        TRY(image_load(p->files.paths[id], p->side, p->side, 3, edge, work));
        for (int64_t i = 0; i < p->side * p->side * 3; i++)
            edge[i] = edge[i] > 0.5f ? 1 : -1;
    }
    return OK;
}

static Err latent_look(Pairs *p, const char *path)
{
    Npy    a;
    size_t bytes;
    if (!file_exists(path))
        return fail(
            E_FORMAT,
            "%s is missing: every image in edge/ needs files of its name in latent/ and latent_lq/",
            path);
    TRY(npy_look(path, FLT_MAX, &a, &bytes));
    if (a.rank != 3 || a.shape[0] != 4 || a.shape[1] != p->cells || a.shape[2] != p->cells)
        return fail(E_FORMAT,
                    "%s has %d axes and %lld numbers; a latent of this model is (4, %lld, %lld)",
                    path, a.rank, (long long)a.count, (long long)p->cells, (long long)p->cells);
    p->npy_bytes = bytes > p->npy_bytes ? bytes : p->npy_bytes;
    return OK;
}

static Err latents_open(Pool *pool, const DataSpec *spec, Pairs *p, DataSource *out)
{
    TRY(image_list(pool, pool_print(pool, "%s/edge", spec->path), spec_pick(spec), &p->files));
    p->latents = NEWN(pool, const char *, p->files.n);
    p->latents_bad = NEWN(pool, const char *, p->files.n);
    for (int32_t i = 0; i < p->files.n; i++) {
        const char *name = strrchr(p->files.paths[i], '/') + 1;
        const char *dot = strrchr(name, '.');
        int         n = (int)(dot ? (size_t)(dot - name) : strlen(name));
        p->latents[i] = pool_print(pool, "%s/latent/%.*s.npy", spec->path, n, name);
        p->latents_bad[i] = pool_print(pool, "%s/latent_lq/%.*s.npy", spec->path, n, name);
        TRY(latent_look(p, p->latents[i]));
        TRY(latent_look(p, p->latents_bad[i]));
    }
    *out = (DataSource){ .n_samples = p->files.n,
                         .load = latents_load,
                         .own = p,
                         .largest = p->files.largest.path,
                         .work_bytes = image_work(&p->files.largest, p->side, p->side) +
                                       work_size(p->npy_bytes) };
    return OK;
}

/* ---- given pairs ---- */

static const char *stem_of(Pool *pool, const char *folder, const char *path)
{
    const char *dot = strrchr(path, '.'), *name = path + strlen(folder) + 1;
    return pool_textn(pool, name, dot > name ? (size_t)(dot - name) : strlen(name));
}

static Err given_pair_look(const Pairs *p, const char *good, const char *bad, int64_t *out)
{
    ImageInfo a, b;
    TRY(image_look(good, &a));
    TRY(image_look(bad, &b));
    int64_t factor = *out = a.height / b.height;
    if (factor < 1 || a.height != factor * b.height || a.width != factor * b.width)
        return fail(E_USAGE,
                    "%s is %lld x %lld and %s is %lld x %lld; an image of lq/ has the size of its "
                    "partner in gt/, or is smaller by a whole factor",
                    bad, (long long)b.width, (long long)b.height, good, (long long)a.width,
                    (long long)a.height);
    if (p->side % factor)
        return fail(E_USAGE,
                    "%s is %lld times smaller than its partner, which does not divide the model's "
                    "side of %lld; enlarge the images of lq/ first",
                    bad, (long long)factor, (long long)p->side);
    return OK;
}

/* Is `bad` the partner's name: the same, or with the factor behind it as in 0801x4? */
static bool stems_match(const char *good, const char *bad)
{
    size_t n = strlen(good);
    return !strncmp(good, bad, n) &&
           (!bad[n] || (bad[n] == 'x' && strchr("23468", bad[n + 1]) && bad[n + 1] && !bad[n + 2]));
}

/* The partner in lq/ of every image in gt/, by its name without the ending. */
static Err given_pairs(Pool *pool, const char *gt, const char *lq, FilePick pick, Pairs *p)
{
    ImageList bad;
    TRY(image_list(pool, gt, pick, &p->files));
    TRY(image_list(pool, lq, (FilePick){ 0 }, &bad));
    p->given = NEWN(pool, const char *, p->files.n);
    p->factors = NEWN(pool, int64_t, p->files.n);
    p->given_largest = bad.largest;
    const char **stems = NEWN(pool, const char *, bad.n);
    for (int32_t i = 0; i < bad.n; i++)
        stems[i] = stem_of(pool, lq, bad.paths[i]);
    for (int32_t i = 0; i < p->files.n; i++) {
        const char *stem = stem_of(pool, gt, p->files.paths[i]);
        for (int32_t k = 0; k < bad.n && !p->given[i]; k++) {
            int32_t at = (i + k) % bad.n; /* where both folders hold the same, at once */
            p->given[i] = stems_match(stem, stems[at]) ? bad.paths[at] : NULL;
        }
        if (!p->given[i])
            return fail(E_USAGE, "%s has no partner: %s/%s.png (or .jpg) is missing",
                        p->files.paths[i], lq, stem);
        TRY(given_pair_look(p, p->files.paths[i], p->given[i], &p->factors[i]));
    }
    return OK;
}

/* The subfolder with one of two names, in any letter case; NULL: there is none. */
static Err subfolder(Pool *pool, const char *folder, const char *a, const char *b, const char **out)
{
    char **names;
    int    n;
    *out = NULL;
    TRY(folder_list(pool, folder, &names, &n));
    for (int i = 0; i < n; i++) {
        const char *path = pool_print(pool, "%s/%s", folder, names[i]);
        if ((!strcasecmp(names[i], a) || !strcasecmp(names[i], b)) && folder_exists(path)) {
            if (*out)
                return fail(E_USAGE, "%s and %s may both be meant; keep one of them in %s", *out,
                            path, folder);
            *out = path;
        }
    }
    return OK;
}

/* ---- opening ---- */

static const char *pairs_about(const DataSource *source, int64_t id, char *room, size_t n)
{
    (void)room;
    (void)n;
    return ((const Pairs *)source->own)->files.paths[id];
}

static Err pairs_new(Pool *pool, const DataSpec *spec, const char *kind, Pairs **out)
{
    Pairs            *p = *out = NEW(pool, Pairs);
    int *const        places[] = { &p->image, &p->bad, &p->edge };
    const char *const names[] = { "image", "image_lq", "edge" };
    for (int i = 0; i < 3; i++) {
        TRY(spec_need(spec, kind, names[i], F32, spec_find(spec, names[i]) >= 0 ? 3 : 0,
                      places[i]));
        if (*places[i] < 0)
            continue;
        Shape shape = spec->feeds[*places[i]].shape;
        if (shape.dim[0] != shape.dim[1] || shape.dim[2] != 3 ||
            (p->side && p->side != shape.dim[0]))
            return fail(E_USAGE,
                        "data kind '%s' provides square images of 3 channels, all of one size; the "
                        "model needs %s %s",
                        kind, names[i], shape_text(shape));
        p->side = shape.dim[0];
    }
    TRY(spec_need(spec, kind, "latent", F32, spec_find(spec, "latent") >= 0 ? 3 : 0, &p->latent));
    TRY(spec_need(spec, kind, "latent_lq", F32, spec_find(spec, "latent_lq") >= 0 ? 3 : 0,
                  &p->latent_bad));
    p->as_input = spec->as_input;
    if (p->latent >= 0 || p->latent_bad >= 0)
        p->cells = spec->feeds[p->latent >= 0 ? p->latent : p->latent_bad].shape.dim[0];
    return OK;
}

static size_t pairs_work(const Pairs *p)
{
    size_t image = work_size((size_t)(p->side * p->side * 3) * sizeof(float));
    return 3 * image + 4 * image + degrade_work(p->side, p->side);
}

Err pairs_open(Pool *pool, const DataSpec *spec, DataSource **out)
{
    Pairs *p;
    TRY(pairs_new(pool, spec, "pairs", &p));
    *out = NEW(pool, DataSource);
    if (p->cells)
        return latents_open(pool, spec, p, *out);
    const char *path = spec->path, *good = NULL, *bad = NULL;
    if (folder_exists(path)) {
        TRY(subfolder(pool, path, "gt", "hr", &good));
        TRY(subfolder(pool, path, "lq", "lr", &bad));
    }
    bool pairs = good && bad;
    if (pairs && !p->as_input)
        TRY(given_pairs(pool, good, bad, spec_pick(spec), p));
    else
        TRY(image_list(pool, pairs ? bad : path, spec_pick(spec), &p->files));
    **out = (DataSource){ .n_samples = p->files.n,
                          .detail = p->as_input ? NULL
                                    : pairs
                                        ? pool_print(pool, "pairs of %s/ and %s/",
                                                     strrchr(good, '/') + 1, strrchr(bad, '/') + 1)
                                        : "images alone, degraded by the program",
                          .load = pairs_load,
                          .about = pairs_about,
                          .own = p,
                          .largest = p->files.largest.path,
                          .alpha = p->files.largest.alpha,
                          .work_bytes = pairs_work(p) +
                                        image_work(&p->files.largest, p->side, p->side) };
    if (p->given)
        (*out)->work_bytes += image_open_work(&p->given_largest) +
                              image_resize_work(p->side, p->side, 3, p->side, p->side);
    return OK;
}

Err drawn_pairs_open(Pool *pool, const DataSpec *spec, DataSource **out)
{
    Pairs *p;
    TRY(pairs_new(pool, spec, "drawn-pairs", &p));
    *out = NEW(pool, DataSource);
    **out = (DataSource){
        .n_samples = spec->samples, .load = drawn_pairs_load, .own = p, .work_bytes = pairs_work(p)
    };
    return OK;
}
