/* shapes.c -- single images: drawn ones, so that a recipe can train without data, and folders of
 * PNG and JPEG files. Input "x" (H,W,C) in [-1,1]. */
#include "data/kinds.h"

#include "data/draw.h"
#include "data/image.h"

typedef struct Shapes {
    Shape     shape;
    ImageList files;
} Shapes;

static Err shapes_load(const DataSource *source, int64_t id, int64_t draw, void *const *to,
                       Work *work)
{
    (void)draw;
    (void)work;
    Shape s = ((const Shapes *)source->own)->shape;
    draw_image((RandomKey){ .seed = source->seed, .stream = 77, .step = (uint32_t)id }, s.dim[0],
               s.dim[1], s.dim[2], to[0]);
    return OK;
}

/* Resized (bicubic) to the size of the input. */
static Err images_load(const DataSource *source, int64_t id, int64_t draw, void *const *to,
                       Work *work)
{
    (void)draw;
    const Shapes *own = source->own;
    Shape         s = own->shape;
    float        *out = to[0];
    TRY(image_load(own->files.paths[id], s.dim[0], s.dim[1], s.dim[2], out, work));
    for (int64_t i = 0; i < shape_count(s); i++)
        out[i] = out[i] * 2 - 1;
    return OK;
}

static const char *images_about(const DataSource *source, int64_t id, char *room, size_t n)
{
    (void)room;
    (void)n;
    return ((const Shapes *)source->own)->files.paths[id];
}

Err shapes_open(Pool *pool, const DataSpec *spec, DataSource **out)
{
    int     x;
    Shapes *own = NEW(pool, Shapes);
    TRY(spec_need(spec, "shapes", "x", F32, 3, &x));
    own->shape = spec->feeds[x].shape;
    *out = NEW(pool, DataSource);
    **out = (DataSource){ .n_samples = spec->samples, .load = shapes_load, .own = own };
    return OK;
}

Err images_open(Pool *pool, const DataSpec *spec, DataSource **out)
{
    int     x;
    Shapes *own = NEW(pool, Shapes);
    TRY(spec_need(spec, "images", "x", F32, 3, &x));
    own->shape = spec->feeds[x].shape;
    TRY(channels_check("images", own->shape));
    TRY(image_list(pool, spec->path, spec_pick(spec), &own->files));
    *out = NEW(pool, DataSource);
    **out = (DataSource){ .n_samples = own->files.n,
                          .load = images_load,
                          .about = images_about,
                          .own = own,
                          .largest = own->files.largest.path,
                          .alpha = own->files.largest.alpha,
                          .work_bytes = image_work(&own->files.largest, own->shape.dim[0],
                                                   own->shape.dim[1]) };
    return OK;
}
