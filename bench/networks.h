/* networks.h -- one network of StableSR by itself, as in PyTorch's baselines: random inputs, mean
 * squared error to a random target, everything trained unless stated otherwise.
 *
 *   edge   the edge processor
 *   unet   the UNet over eight channels; context and structure maps are inputs
 *   spade  the same, but only its SPADE layers are trained
 */
#ifndef BENCH_NETWORKS_H
#define BENCH_NETWORKS_H

#include "base/random.h"
#include "models/layers.h"
#include "models/stablesr.h"
#include "ops/ops.h"
#include "train/feeds.h"

#include <string.h>

static Tensor network_edge(Graph *g, const void *config, int64_t batch, int64_t share)
{
    const StableSr *m = config;
    Tensor          y = stablesr_edge(feed(g, "edge", F32, SHAPE(batch, m->image, m->image, 3)), m);
    graph_output(y, "output");
    return mse_loss(y, feed(g, "target", F32, tensor_shape(y)), 1.0f / (float)share);
}

static Tensor network_unet(Graph *g, const void *config, int64_t batch, int64_t share)
{
    const StableSr *m = config;
    int64_t         side = m->latent;
    Tensor          maps[STABLESR_LEVELS],
        x = feed(g, "x", F32, SHAPE(batch, side, side, 2 * STABLESR_LATENT));
    Tensor t = feed(g, "t", I32, SHAPE(batch));
    Tensor context = feed(g, "context", F32, SHAPE(m->context_tokens, m->context_width));
    for (int i = 0; i < m->mult.n; i++)
        maps[i] = cast(feed(g, pool_print(g->pool, "map%d", i), F32,
                            SHAPE(batch, side >> i, side >> i, m->struct_out)),
                       g->compute);
    Tensor y = stablesr_unet(cast(x, g->compute), t, context, maps, m);
    graph_output(y, "output");
    return mse_loss(y, feed(g, "target", F32, tensor_shape(y)), 1.0f / (float)share);
}

static Tensor network_spade(Graph *g, const void *config, int64_t batch, int64_t share)
{
    Tensor loss = network_unet(g, config, batch, share);
    for (int32_t i = 0; i < g->n_params; i++)
        g->params[i].frozen = !strstr(g->params[i].name, "spade");
    return loss;
}

/* Makes a recipe of StableSR train one of its networks alone, at the recipe's sizes. */
static Err network_choose(const char *name, Recipe *recipe)
{
    static ModelDef alone;
    alone = *recipe->model;
    alone.loss = !strcmp(name, "edge")    ? network_edge
                 : !strcmp(name, "unet")  ? network_unet
                 : !strcmp(name, "spade") ? network_spade
                                          : NULL;
    if (!alone.loss || strcmp(alone.name, "stablesr"))
        return fail(E_USAGE, "--part takes edge, unet or spade, with a recipe of stablesr");
    recipe->model = &alone;
    return OK;
}

static void network_fill(Feeds *feeds)
{
    for (int32_t i = 0; i < feeds->n; i++) {
        FeedBuffer *feed = &feeds->list[i];
        int64_t     n = shape_count(feed->shape);
        if (feed->type == F32)
            random_normals((RandomKey){ .seed = 1, .stream = random_stream(feed->name) }, 0, n,
                           feed->bytes);
        for (int64_t k = 0; feed->type == I32 && k < n; k++)
            ((int32_t *)feed->bytes)[k] = 500;
    }
}

#endif
