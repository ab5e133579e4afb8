/* weights.c -- starting weights that do not fit: the messages, what --init-partial ignores, and a
 * pretrained input convolution that has the latent's channels only. */
#include "test.h"

#include "base/file.h"
#include "recipe/recipe.h"
#include "train/weights.h"

#include <math.h>

static Pool *pool;

static const char input[] = "model.diffusion_model.input_blocks.0.0.weight";
static const char path[] = "weights_test.safetensors";

static Session *stablesr(const char *fusion)
{
    const char   *sets[] = { fusion, "model.latents=given", "batch=1" };
    TrainingGraph train;
    Recipe       *recipe;
    Device       *device;
    Engine       *engine;
    Session      *session;
    CHECK_OK(recipe_read(pool, SOURCE_DIR "/recipes/stablesr-small.yaml", sets, 3, &recipe));
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 1, .backend = "builtin" }, &device));
    CHECK_OK(recipe_graph(pool, recipe, false, &train));
    CHECK_OK(engine_new(pool, train.graph, device, NULL, &engine));
    CHECK_OK(session_new(pool, engine, &session));
    CHECK_OK(session_init(session, 5));
    return session;
}

static const float *now(Session *session, int64_t *n)
{
    const Graph *graph = session_engine(session)->graph;
    Param       *p = param_find((Graph *)(uintptr_t)graph, input);
    *n = shape_count(p->disk);
    float *data = NEWN(pool, float, *n);
    CHECK_OK(session_get_param(session, (int32_t)(p - graph->params), p->value, data));
    return data;
}

/* (32,4,3,3) in a file for (32,8,3,3): with concat it is the latent's half, and the weights of the
 * edge channels start at 0; with a fusion convolution it does not fit. */
static void pretrained_input(void)
{
    enum { ROWS = 32, HAS = 4 * 9, WIDE = 8 * 9 };
    float      *given = NEWN(pool, float, ROWS *HAS);
    SafeTensor  t = { .name = input,
                      .type = SAFE_F32,
                      .rank = 4,
                      .shape = (int64_t[]){ ROWS, 4, 3, 3 },
                      .data = given };
    const char *note;
    int64_t     n;
    for (int i = 0; i < ROWS * HAS; i++)
        given[i] = (float)(i + 1);
    CHECK_OK(safetensors_write(path, &t, 1, NULL));
    Session *concat = stablesr("model.fusion=concat");
    CHECK_OK(weights_load(pool, concat, path, true, &note));
    const float *got = now(concat, &n);
    CHECK_INT(n, ROWS * WIDE);
    int wrong = 0;
    for (int i = 0; i < ROWS * WIDE; i++)
        wrong += got[i] != (i % WIDE < HAS ? given[i / WIDE * HAS + i % WIDE] : 0);
    CHECK_INT(wrong, 0);

    Session     *conv = stablesr("model.fusion=conv");
    const float *before = now(conv, &n);
    CHECK_INT(weights_load(pool, conv, path, false, &note), E_FORMAT);
    CHECK(strstr(err_text(), "is (32,4,3,3), the model has (32,8,3,3)") != NULL);
    CHECK_INT(weights_load(pool, conv, path, true, &note), E_USAGE); /* no other tensor fits */
    SafeTensor both[] = { t,
                          { .name = "model.diffusion_model.input_blocks.0.0.bias",
                            .type = SAFE_F32,
                            .rank = 1,
                            .shape = (int64_t[]){ ROWS },
                            .data = given } };
    CHECK_OK(safetensors_write(path, both, 2, NULL));
    CHECK_OK(weights_load(pool, conv, path, true, &note));
    CHECK(!memcmp(before, now(conv, &n), (size_t)n * sizeof *before));
}

static void names_are_listed(void)
{
    static const int64_t shape[] = { 32 };
    float                x[32] = { 1 };
    SafeTensor           t[6];
    const char          *note;
    for (int i = 0; i < 6; i++)
        t[i] = (SafeTensor){ .name = i ? pool_print(pool, "other.%d", i)
                                       : "model.diffusion_model.input_blocks.0.0.bias",
                             .type = SAFE_F32,
                             .rank = 1,
                             .shape = shape,
                             .data = x };
    CHECK_OK(safetensors_write(path, t, 6, NULL));
    Session *session = stablesr("model.fusion=conv");
    CHECK_INT(weights_load(pool, session, path, false, NULL), E_USAGE);
    CHECK(strstr(err_text(), "5 tensors unused (other.1, other.2, other.3, other.4 and 1 more)") !=
          NULL);
    CHECK_OK(weights_load(pool, session, path, true, &note));
    CHECK(note && strstr(note, "parameters missing (") && strstr(note, "and 1 more)"));
}

/* Batch-norm statistics may have any floating-point type, must be finite, and are ignored if they
 * do not fit. */
static void statistics(void)
{
    static const char var[] = "model.diffusion_model.edge_fusion.fusion_conv.1.running_var";
    static const char bias[] = "model.diffusion_model.input_blocks.0.0.bias";
    Session          *session = stablesr("model.fusion=conv");
    const Graph      *graph = session_engine(session)->graph;
    int32_t           id = -1;
    const char       *note;
    float             x[32] = { 0 };
    for (int32_t i = 0; i < graph->n_constants; i++) {
        const Constant *c = &graph->constants[i];
        if (c->saved && !strcmp(graph->values[c->value].name, var))
            id = c->value;
    }
    if (!CHECK(id >= 0))
        return;
    int64_t   n = shape_count(graph->values[id].shape);
    uint16_t *half = NEWN(pool, uint16_t, n);
    float    *wide = NEWN(pool, float, n + 1), *got = NEWN(pool, float, n);
    for (int64_t i = 0; i < n; i++)
        half[i] = 0x4000; /* 2 in bf16 */
    SafeTensor t[] = {
        { .name = bias, .type = SAFE_F32, .rank = 1, .shape = (int64_t[]){ 32 }, .data = x },
        { .name = var, .type = SAFE_BF16, .rank = 1, .shape = &n, .data = half }
    };
    CHECK_OK(safetensors_write(path, t, 2, NULL));
    CHECK_OK(weights_load(pool, session, path, true, &note));
    CHECK_OK(session_read(session, id, got));
    CHECK(got[0] == 2 && got[n - 1] == 2);

    int64_t more = n + 1;
    t[1] = (SafeTensor){ .name = var, .type = SAFE_F32, .rank = 1, .shape = &more, .data = wide };
    CHECK_OK(safetensors_write(path, t, 2, NULL));
    CHECK_OK(weights_load(pool, session, path, true, &note));
    CHECK(strstr(note, "1 tensors unused (model.diffusion_model.edge_fusion.fusion_conv.1."
                       "running_var of another shape)") != NULL);
    t[1].shape = &n;
    wide[n - 1] = NAN;
    CHECK_OK(safetensors_write(path, t, 2, NULL));
    CHECK_INT(weights_load(pool, session, path, true, &note), E_FORMAT);
    CHECK(strstr(err_text(), "running_var is not finite") != NULL);
    wide[n - 1] = -1;
    CHECK_OK(safetensors_write(path, t, 2, NULL));
    CHECK_INT(weights_load(pool, session, path, true, &note), E_FORMAT);
    CHECK(strstr(err_text(), "running_var is -1, and a variance is never below 0") != NULL);
    CHECK_OK(session_read(session, id, got));
    CHECK(got[0] == 2); /* as it was */
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(pretrained_input);
    RUN(names_are_listed);
    RUN(statistics);
    CHECK_OK(file_remove(path));
    pool_free(pool);
    return test_end();
}
