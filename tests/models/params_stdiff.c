/* params_stdiff.c -- STDiff's recipes: names, shapes and counts of parameters, also by module; the
 * skips; odd sizes that must build and wrong ones that must be refused with a message. */
#include "params_list.h"
#include "train_sizes.h"

#include "base/file.h"
#include "ops/ops.h"
#include "recipe/recipe.h"

#include <stdlib.h>

static Pool *pool;

static int forward_nodes(const Graph *graph, const OpDef *op)
{
    int n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        n += graph->nodes[i].op == op && !graph->nodes[i].backward &&
             graph->nodes[i].phase == PHASE_MICRO;
    return n;
}

static void full_size(void)
{
    static const struct {
        const char *recipe;
        int64_t     skips;
    } rows[] = {
        { "stdiff-64x2048", 3240099840 },
        { "stdiff-64x512", 3240099840 / 4 },
    };
    for (int r = 0; r < 2; r++) {
        TrainingGraph train;
        CHECK_OK(sizes_build(pool, rows[r].recipe, NULL, 0, false, &train));
        Graph *g = train.graph;
        CHECK_INT(sizes_count(g, "", ""), 204223297);
        CHECK_INT(sizes_count(g, "diffusion_unet.", ""), 194150465);
        CHECK_INT(sizes_count(g, "diffusion_unet.", ".motion_cond_layer."), 75229376);
        CHECK_INT(sizes_count(g, "diffusion_unet.up_blocks.0.", ""), 42398336);
        CHECK_INT(sizes_count(g, "tde_model.motion_encoder.", ""), 1812480);
        CHECK_INT(sizes_count(g, "tde_model.conv_gru_cell.", ""), 3539712);
        CHECK_INT(sizes_count(g, "tde_model.diff_unet.diff_unet_f.", ""), 2360320);
        CHECK_INT(sizes_count(g, "tde_model.diff_unet.diff_unet_g.", ""), 2360320);
        params_compare(g, "stdiff-64x2048");

        int64_t skips = 0, bytes = 0, parameters = 0;
        for (int32_t i = 0; i < g->n_values; i++) {
            const Value *v = &g->values[i];
            bool         whole = v->root == i && v->producer >= 0 &&
                         g->nodes[v->producer].phase == PHASE_MICRO;
            skips += whole && v->mem_class == CLASS_SKIPS;
            bytes += whole && v->mem_class == CLASS_SKIPS ? v->bytes : 0;
            parameters += v->root == i && v->mem_class == CLASS_PARAMETERS ? v->bytes : 0;
        }
        CHECK_INT(skips, 15);
        CHECK_INT(bytes, rows[r].skips);
        CHECK_INT(parameters, 816893188);
        for (int32_t i = 0; i < g->n_params; i++)
            CHECK(g->params[i].trained);
        CHECK_INT(forward_nodes(g, &op_attention), 21);
        CHECK_INT(forward_nodes(g, &op_spade), 27); /* 10 down, 2 in the middle, 15 up */
        CHECK_INT(forward_nodes(g, &op_random_normal), 50 + 1);
        CHECK_INT(forward_nodes(g, &op_feed), 3);
    }
}

static void small(void)
{
    TrainingGraph train;
    CHECK_OK(sizes_build(pool, "stdiff-small", NULL, 0, false, &train));
    CHECK_INT(sizes_count(train.graph, "", ""), 3488481);
    CHECK_OK(
        sizes_build(pool, "stdiff-small", (const char *[]){ "model.loss=l1" }, 1, true, &train));
    CHECK_INT(forward_nodes(train.graph, &op_feed), 2 + 3); /* no mask; t, eps, sde are given */
    CHECK_INT(forward_nodes(train.graph, &op_random_normal), 0);
}

static void odd_sizes(void)
{
    static const char *const odd[][SIZES_MAX] = {
        { "model.observed=2" },
        { "model.predicted=1" },
        { "model.predicted=32", "model.sde_dt=1" },
        { "model.channels=[32]", "model.attention_from=12", "model.image=[5, 7]" },
        { "model.motion_downs=1", "model.image_channels=3" },
        { "model.channels=[32, 64, 32]", "model.image=[20, 28]", "model.motion_downs=3" },
        { "model.layers=1", "model.attention_from=0", "model.sde_layers=0", "batch=1" },
        { "model.noise_schedule=linear", "model.timesteps=1" },
    };
    sizes_odd(pool, "stdiff-small", odd, sizeof odd / sizeof *odd);
}

static void wrong_sizes(void)
{
    static const WrongSize wrong[] = {
        { "model.image=[32]", "two, height and width" },
        { "model.image=[32, 72]", "72 is not a multiple of 16" },
        { "model.channels=[]", "model.channels" },
        { "model.channels=[32, 36]", "36 channels do not divide into 8 groups" },
        { "model.head_width=48", "do not divide into heads of 48" },
        { "model.motion_downs=6", "32 cannot be halved 6 times" },
        { "model.sde_dt=0.3", "does not divide a frame" },
        { "model.sde_dt=0", "sde_dt" },
        { "model.observed=1", "observed" },
        { "model.loss=l2", "loss" },
        { "model.chanels=[32]", "channels" },
    };
    sizes_wrong(pool, "stdiff-small", wrong, sizeof wrong / sizeof *wrong);
}

int main(void)
{
    pool = pool_new(NULL, "params");
    RUN(full_size);
    RUN(small);
    RUN(odd_sizes);
    RUN(wrong_sizes);
    pool_free(pool);
    return test_end();
}
