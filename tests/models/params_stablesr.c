/* params_stablesr.c -- StableSR's recipes: names, shapes and counts of parameters, also by module;
 * which are trained; the maps that made the seed run out of memory; odd sizes that must build,
 * wrong ones that must be refused with a message. */
#include "params_list.h"
#include "train_sizes.h"

#include "base/file.h"
#include "base/npy.h"
#include "ops/ops.h"
#include "recipe/recipe.h"

#include <stdlib.h>
#include <unistd.h>

static Pool *pool;

static int64_t count_trained(const Graph *graph)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < graph->n_params; i++)
        sum += graph->params[i].trained ? shape_count(graph->params[i].disk) : 0;
    return sum;
}

static int forward_nodes(const Graph *graph, const OpDef *op)
{
    int n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        n += graph->nodes[i].op == op && !graph->nodes[i].backward &&
             graph->nodes[i].phase == PHASE_MICRO;
    return n;
}

/* Backward nodes of a module; there are none if it is frozen and depends on nothing trained. */
static int backward_nodes(const Graph *graph, const char *start)
{
    int n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        n += graph->nodes[i].backward &&
             !strncmp(graph->modules[graph->nodes[i].module].path, start, strlen(start));
    return n;
}

static void counts_after(Graph *g)
{
    CHECK_INT(sizes_count(g, "", ""), 1057097023);
    CHECK_INT(sizes_count(g, "model.diffusion_model.", ""), 920949080);
    CHECK_INT(sizes_count(g, "model.diffusion_model.", ".spade."), 53020160);
    CHECK_INT(sizes_count(g, "model.diffusion_model.edge_processor.", ""), 2006076);
    CHECK_INT(sizes_count(g, "model.diffusion_model.edge_fusion.", ""), 600);
    CHECK_INT(sizes_count(g, "structcond_stage_model.", ""), 52494080);
    CHECK_INT(sizes_count(g, "first_stage_model.", ""), 83653863);
    CHECK_INT(count_trained(g), 107544276);
    params_compare(g, "stablesr-edge-after");
}

static void after(void)
{
    TrainingGraph train;
    CHECK_OK(sizes_build(pool, "stablesr-edge-after", NULL, 0, false, &train));
    counts_after(train.graph);
    CHECK_INT(forward_nodes(train.graph, &op_spade), 22);
    CHECK_INT(forward_nodes(train.graph, &op_batchnorm_track), 9);
    CHECK_INT(forward_nodes(train.graph, &op_feed), 3);
    /* UNet, struct encoder, two images */
    CHECK_INT(forward_nodes(train.graph, &op_attention), 16 * 2 + 7 + 2);
    CHECK_INT(backward_nodes(train.graph, "first_stage_model"), 0);
    CHECK(backward_nodes(train.graph, "structcond_stage_model") > 100);

    CHECK_OK(sizes_build(pool, "stablesr-latent", NULL, 0, false, &train));
    counts_after(train.graph);
    CHECK_INT(forward_nodes(train.graph, &op_attention), 16 * 2 + 7);
    CHECK_OK(sizes_build(pool, "stablesr-edge-after",
                         (const char *[]){ "model.trainable=published" }, 1, false, &train));
    CHECK_INT(count_trained(train.graph), 105514240);
    CHECK_INT(backward_nodes(train.graph, "model.diffusion_model.edge_processor"), 0);
    CHECK_OK(sizes_build(pool, "stablesr-edge-after", (const char *[]){ "model.fusion=concat" }, 1,
                         false, &train));
    CHECK_INT(sizes_count(train.graph, "", ""), 1057097023 - 600);
    CHECK_OK(sizes_build(pool, "stablesr-edge-after", (const char *[]){ "model.trainable=all" }, 1,
                         false, &train));
    CHECK_INT(count_trained(train.graph), 1057097023 - 83653863);
}

/* PyTorch's "Tried to allocate 6.00 GiB": the size of each map of the first stage. */
static void before(void)
{
    TrainingGraph train;
    CHECK_OK(sizes_build(pool, "stablesr-edge-before", NULL, 0, false, &train));
    Graph *g = train.graph;
    CHECK_INT(sizes_count(g, "model.diffusion_model.edge_processor.", ""), 48559612);
    CHECK_INT(sizes_count(g, "", ""), 1057097023 - 2006076 + 48559612);
    int convs = 0, norms = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const Node *node = &g->nodes[i];
        bool        norm = node->op == &op_batchnorm;
        if (node->phase != PHASE_MICRO || node->backward || (!norm && node->op != &op_conv) ||
            !strstr(g->modules[node->module].path, "stage1_layers"))
            continue;
        CHECK_INT(value_at(g, node->out[0])->bytes, 6442450944);
        convs += !norm;
        norms += norm;
    }
    CHECK_INT(convs, 5);
    CHECK_INT(norms, 5);
}

static void small(void)
{
    TrainingGraph train;
    CHECK_OK(sizes_build(pool, "stablesr-small", NULL, 0, false, &train));
    CHECK_INT(sizes_count(train.graph, "", ""), 2708483);
    CHECK_INT(forward_nodes(train.graph, &op_random_normal), 3);
    CHECK_OK(sizes_build(pool, "stablesr-small", (const char *[]){ "model.latents=given" }, 1, true,
                         &train));
    CHECK_INT(sizes_count(train.graph, "", ""), 2708483);
    CHECK_INT(forward_nodes(train.graph, &op_feed), 6); /* edge, two latents, context, t, eps */
    CHECK_INT(forward_nodes(train.graph, &op_random_normal), 0);
}

/* The context is read from a file; one of the wrong shape is refused by name. */
static void context_file(void)
{
    TrainingGraph train;
    float         rows[7 * 16] = { 1, 2, 3 };
    const char   *path = pool_print(pool, "context-%ld.npy", (long)getpid()),
               *set = pool_print(pool, "model.context=%s", path);
    CHECK_OK(npy_write(path, NPY_F4, 2, (int64_t[]){ 7, 16 }, rows));
    CHECK_OK(sizes_build(pool, "stablesr-small", &set, 1, false, &train));
    bool found = false;
    for (int32_t i = 0; i < train.graph->n_constants; i++) {
        const Constant *c = &train.graph->constants[i];
        found |= !strcmp(value_at(train.graph, c->value)->name, "context") &&
                 !memcmp(c->data, rows, sizeof rows);
    }
    CHECK(found);
    CHECK_OK(npy_write(path, NPY_F4, 2, (int64_t[]){ 16, 7 }, rows));
    CHECK(sizes_build(pool, "stablesr-small", &set, 1, false, &train) != OK);
    CHECK(strstr(err_text(), path) != NULL);
    CHECK_INT(unlink(path), 0);
    CHECK(sizes_build(pool, "stablesr-small", &set, 1, false, &train) != OK);
    CHECK(strstr(err_text(), path) != NULL);
}

static void odd_sizes(void)
{
    static const char *const odd[][SIZES_MAX] = {
        { "model.mult=[1]", "model.struct_mult=[2]", "model.attention_levels=0" },
        { "model.mult=[1, 3, 2]", "model.struct_mult=[2, 1, 1]", "model.attention_levels=12" },
        { "model.image=16", "model.vae_mult=[1]", "model.edge_ladder=[4]", "batch=1" },
        { "model.layers=1", "model.edge_ladder=[4, 4, 4, 4, 4]" },
        { "model.edge_ladder=[8, 4]", "model.edge_stem=0" }, /* larger than the latent: pooled */
        { "model.noise_schedule=cosine", "model.timesteps=1", "model.layers=8" },
    };
    sizes_odd(pool, "stablesr-small", odd, sizeof odd / sizeof *odd);
}

static void wrong_sizes(void)
{
    static const WrongSize wrong[] = {
        { "model.image=60", "must be 4 times model.latent" },
        { "model.mult=[1, 2, 4]", "every UNet level needs a map" },
        { "model.mult=[]", "at least one level" },
        { "model.channels=36", "36 channels are not divisible by model.groups, 8" },
        { "model.head_width=12", "32 channels are not divisible by model.head_width, 12" },
        { "model.struct_heads=3", "not divisible by model.struct_heads, 3" },
        { "model.struct_out=30", "30 channels are not divisible" },
        { "model.vae_channels=12", "12 channels are not divisible" },
        { "model.edge_ladder=[12, 8]", "must end with 4 channels" },
        { "model.edge_ladder=[4, 4, 4, 4, 4, 4, 4, 4]", "too often" },
        { "model.layers=9", "layers" },
        { "model.fusion=sum", "fusion" },
        { "model.latnet=16", "latent" },
        { "model.trainable=none", "trainable" },
    };
    sizes_wrong(pool, "stablesr-small", wrong, sizeof wrong / sizeof *wrong);
}

int main(void)
{
    pool = pool_new(NULL, "params");
    RUN(after);
    RUN(before);
    RUN(small);
    RUN(context_file);
    RUN(odd_sizes);
    RUN(wrong_sizes);
    pool_free(pool);
    return test_end();
}
