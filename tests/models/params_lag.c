/* params_lag.c -- the lag recipes: names, shapes and counts of the parameters, which are trained,
 * starting values, the size of the context, and settings that must be refused. */
#include "params_list.h"

#include "base/file.h"
#include "exec/session.h"
#include "recipe/recipe.h"

#include <stdlib.h>

static const struct {
    const char *recipe;
    int64_t     total, trained, sets, images, context_bytes;
    bool        listed; /* in tests/models/params */
} rows[] = {
    { "lag-32x6", 33780798, 33594686, 32, 6, 50331648, true },
    { "lag-8x4", 33774606, 33588494, 8, 4, 8388608, false },
    { "lag-4x3", 33771510, 33585398, 4, 3, 3145728, false },
    { "lag-small", 1454066, 1447474, 8, 3, 98304, false },
};

static const char small[] = SOURCE_DIR "/recipes/lag-small.yaml";

static Recipe *recipe_named(Pool *pool, const char *name, const char *set)
{
    Recipe     *recipe = NULL;
    const char *path = pool_print(pool, SOURCE_DIR "/recipes/%s.yaml", name);
    CHECK_OK(recipe_read(pool, path, &set, set != NULL, &recipe));
    return recipe;
}

static bool is_stored_only(const char *name)
{
    return strstr(name, "mlp_norm") || strstr(name, "mlp_dense") ||
           !strcmp(name, "dit.params.pos_embed");
}

static void recipes(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Pool         *pool = pool_new(NULL, "params");
        Recipe       *recipe = recipe_named(pool, rows[i].recipe, NULL);
        TrainingGraph train;
        int64_t       total = 0, trained = 0, context = 0, n_contexts = 0;
        CHECK_OK(recipe_graph(pool, recipe, false, &train));
        for (int32_t p = 0; p < train.graph->n_params; p++) {
            const Param *param = &train.graph->params[p];
            int64_t      count = shape_count(param->disk);
            total += count;
            trained += param->trained ? count : 0;
            CHECK_INT(param->trained, !is_stored_only(param->name));
            CHECK(param->trained == (param->grad >= 0) && param->trained == (param->m >= 0) &&
                  param->trained == (param->ema >= 0));
        }
        for (int32_t v = 0; v < train.graph->n_values; v++) {
            const Value *value = &train.graph->values[v];
            if (value->name && !strcmp(value->name, "context") &&
                train.graph->nodes[value->producer].phase == PHASE_MICRO) {
                context = value->bytes;
                n_contexts++;
            }
        }
        CHECK_INT(n_contexts, 1);
        CHECK_INT(context, rows[i].context_bytes);
        CHECK_INT(total, rows[i].total);
        CHECK_INT(trained, rows[i].trained);
        CHECK_INT(recipe->batch, rows[i].sets);
        CHECK_INT(recipe->accumulate, 1);
        if (rows[i].listed)
            params_compare(train.graph, rows[i].recipe);
        pool_free(pool);
    }
}

/* Mean and deviation of a parameter's starting values. */
static void check_start(Session *session, const char *name, double mean, double deviation)
{
    Graph *graph = session_engine(session)->graph;
    Param *p = param_find(graph, name);
    CHECK(p != NULL);
    if (!p)
        return;
    int64_t n = shape_count(p->disk);
    double  sum = 0, squares = 0;
    float  *data = calloc((size_t)n, 4);
    session_get_param(session, (int32_t)(p - graph->params), p->value, data);
    for (int64_t i = 0; i < n; i++)
        sum += (double)data[i];
    for (int64_t i = 0; i < n; i++)
        squares += ((double)data[i] - sum / (double)n) * ((double)data[i] - sum / (double)n);
    free(data);
    test_name = name;
    CHECK_NEAR(sum / (double)n, mean, 1e-6 + 5 * deviation / sqrt((double)n));
    CHECK_NEAR(sqrt(squares / (double)n), deviation, 1e-6 + 5 * deviation / sqrt((double)n));
}

/* LeCun-normal kernels in the encoder, Xavier-uniform in the DiT, N(0,1) tokens, adaLN and the last
 * layer at zero (all tensors: tests/models/starts.c). */
static void starts(void)
{
    Pool         *pool = pool_new(NULL, "starts");
    Recipe       *recipe = recipe_named(pool, "lag-small", "batch=1");
    TrainingGraph train;
    Device       *device;
    Engine       *engine;
    Session      *session;
    CHECK_OK(recipe_graph(pool, recipe, false, &train));
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 1 }, &device));
    CHECK_OK(engine_new(pool, train.graph, device, NULL, &engine));
    CHECK_OK(session_new(pool, engine, &session));
    CHECK_OK(session_init(session, 3));
#define LAYER "encoder.params.transformer.layer_1."
#define BLOCK "dit.params.DiTBlock_1."
    check_start(session, "encoder.params.pos_embedding", 0, 1);
    check_start(session, "encoder.params.cls_token", 0, 1);
    check_start(session, "encoder.params.mlp_dense.kernel", 0, 1 / sqrt(64));
    check_start(session, LAYER "LSA_0.temperature", log(0.25), 0);
    check_start(session, LAYER "LSA_0.Dense_0.kernel", 0, 1 / sqrt(64));
    check_start(session, LAYER "LSA_0.Dense_1.kernel", 0, 1 / sqrt(48));
    check_start(session, LAYER "LSA_0.Dense_1.bias", 0, 0);
    check_start(session, LAYER "LayerNorm_0.scale", 1, 0);
    check_start(session, BLOCK "Dense_0.kernel", 0, 0);
    check_start(session, BLOCK "MultiHeadDotProductAttention_1.query.kernel", 0,
                1.0 / 12); /* xavier: as LeCun if square */
    check_start(session, BLOCK "MultiHeadDotProductAttention_1.query.bias", 0, 0);
    check_start(session, BLOCK "MultiHeadDotProductAttention_1.out.kernel", 0, 1.0 / 12);
    check_start(session, "dit.params.PatchEmbed_0.Conv_0.kernel", 0, sqrt(2.0 / (48 + 16 * 144)));
    check_start(session, "dit.params.TimestepEmbedder_0.Dense_0.kernel", 0, 0.02);
    check_start(session, "dit.params.TimestepEmbedder_0.Dense_1.kernel", 0, 0.02);
    check_start(session, "dit.params.FinalLayer_0.Dense_1.kernel", 0, 0);

    /* Patch 6 of 4 x 4: column 2, row 1; sines of the column, its cosines, then the row's. */
    Param *p = param_find(train.graph, "dit.params.pos_embed");
    float *places = NEWN(pool, float, shape_count(p->disk));
    session_get_param(session, (int32_t)(p - train.graph->params), p->value, places);
    CHECK_NEAR(places[6 * 144 + 3], sin(2 * pow(10000, -3.0 / 36)), 1e-6);
    CHECK_NEAR(places[6 * 144 + 36 + 3], cos(2 * pow(10000, -3.0 / 36)), 1e-6);
    CHECK_NEAR(places[6 * 144 + 72 + 5], sin(pow(10000, -5.0 / 36)), 1e-6);
    CHECK_NEAR(places[6 * 144 + 108 + 5], cos(pow(10000, -5.0 / 36)), 1e-6);
    pool_free(pool);
}

/* Sizes unlike the seed's: two images, one channel, patches of four, another schedule. */
static void odd_sizes(void)
{
    static const char *const sets[] = {
        "model.set_size=2", "model.image_channels=1",      "model.patch=4",  "model.heads=1",
        "batch=1",          "model.noise_schedule=cosine", "precision=bf16",
    };
    Pool         *pool = pool_new(NULL, "odd");
    Recipe       *recipe;
    TrainingGraph train;
    for (int n = 1; n <= 7; n++) {
        CHECK_OK(recipe_read(pool, small, sets, n, &recipe));
        CHECK_OK(recipe_graph(pool, recipe, false, &train));
    }
    Param *scale = param_find(train.graph, "encoder.params.to_patch_embedding.norm.scale");
    CHECK(scale && shape_count(scale->disk) == 4 * 4 * 2);
    pool_free(pool);
}

static void refused(void)
{
    static const struct {
        const char *set, *says;
    } wrong[] = {
        { "model.patch=3", "model.patch" },
        { "model.heads=5", "model.heads" },
        { "model.hidden=39", "model.hidden" },
        { "model.time_width=7", "model.time_width" },
        { "model.set_size=1", "set_size" },
        { "model.set_size=33", "set_size" },
        { "model.beta_start=0", "model.beta_start" },
        { "model.beta_end=1", "model.beta_end" },
        { "model.set_sise=3", "set_size" },
        { "model.noise_schedule=sine", "noise_schedule" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Pool   *pool = pool_new(NULL, "wrong");
        Recipe *recipe;
        test_name = wrong[i].set;
        Err err = recipe_read(pool, small, &wrong[i].set, 1, &recipe);
        CHECK_INT(err, E_USAGE);
        CHECK(strstr(err_text(), wrong[i].says) != NULL);
        pool_free(pool);
    }
}

int main(void)
{
    RUN(recipes);
    RUN(starts);
    RUN(odd_sizes);
    RUN(refused);
    return test_end();
}
