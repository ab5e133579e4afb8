/* lengths.c -- SaShiMi's weights at another length: weights trained at 64 steps give the same
 * outputs over the first 64 steps of a model of length 240, and over all steps of one of length 48.
 * A resumed run keeps its length. */
#include "test.h"

#include "base/file.h"
#include "base/random.h"
#include "models/sashimi.h"
#include "train/checkpoint.h"
#include "train/lengths.h"
#include "recipe/recipe.h"
#include "train/weights.h"

#include <math.h>
#include <stdlib.h>

static Pool   *pool;
static int32_t tokens[1024];

static Session *at_length(int length)
{
    const char   *sets[] = { pool_print(pool, "model.length=%d", length), "model.width=8",
                             "model.layers=1", "batch=1" };
    TrainingGraph train;
    Recipe       *recipe;
    Device       *device;
    Engine       *engine;
    Session      *session;
    CHECK_OK(recipe_read(pool, SOURCE_DIR "/recipes/sashimi-small.yaml", sets, 4, &recipe));
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 2, .backend = "builtin" }, &device));
    CHECK_OK(recipe_graph(pool, recipe, false, &train));
    CHECK_OK(engine_new(pool, train.graph, device, NULL, &engine));
    CHECK_OK(session_new(pool, engine, &session));
    CHECK_OK(session_init(session, (uint64_t)length)); /* different weights for each */
    CHECK_OK(session_feed(session, "tokens", tokens));
    CHECK_OK(session_feed(session, "target", tokens));
    return session;
}

static const float *outputs(Session *session, int64_t n)
{
    float *kept = NEWN(pool, float, n);
    CHECK_OK(session_run(session, PHASE_MICRO));
    memcpy(kept, session_output(session, "output"), (size_t)n * sizeof *kept);
    return kept;
}

static double farthest(const float *a, const float *b, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]) / (1 + fabs((double)b[i])));
    return most;
}

/* Weight normalisation divides by a row's length: a row of zeros is refused by name. */
static void row_without_length(Session *session)
{
    static const char name[] = "model.d_layers.0.linear.weight_v";
    static const char path[] = "lengths_zero.safetensors";
    SafeFile          file;
    CHECK_OK(safetensors_read(pool, "lengths_test/step-000001.safetensors", &file));
    SafeTensor row = *safetensors_find(&file, name);
    float     *v = NEWN(pool, float, row.n_bytes / 4);
    memcpy(v, row.data, row.n_bytes);
    row.data = v;
    CHECK_OK(safetensors_write(path, &row, 1, NULL));
    CHECK_OK(weights_load(pool, session, path, true, NULL));
    memset(v + 2 * row.shape[1], 0, (size_t)row.shape[1] * sizeof *v);
    CHECK_OK(safetensors_write(path, &row, 1, NULL));
    CHECK_INT(weights_load(pool, session, path, true, NULL), E_FORMAT);
    CHECK(strstr(err_text(), "row 2 of model.d_layers.0.linear.weight_v is all zeros") != NULL);
    CHECK_OK(file_remove(path));
}

int main(void)
{
    pool = pool_new(NULL, "test");
    for (int i = 0; i < 1024; i++)
        tokens[i] = (int32_t)random_below_at((RandomKey){ .seed = 9 }, (uint64_t)i, 256);
    enum { FROM = 64, OUT = 12 }; /* per step: four components of three numbers */
    Saver   *saver;
    Session *from = at_length(FROM);
    CHECK_OK(saver_new(pool, from, "lengths_test", 1, &saver));
    CHECK_OK(saver_save(saver, &(RunState){ .step = 1 }));
    const float *want = outputs(from, FROM * OUT);

    static const int lengths[] = { 16, 48, 64, 80, 240, 960 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int64_t  n = (lengths[i] < FROM ? lengths[i] : FROM) * OUT;
        Session *to = at_length(lengths[i]);
        CHECK_OK(weights_load(pool, to, "lengths_test/step-000001.safetensors", true, NULL));
        double off = farthest(outputs(to, n), want, n);
        if (off > 2e-5)
            fprintf(stderr, "from length %d to %d: off by %.3g\n", FROM, lengths[i], off);
        CHECK(off <= 2e-5);
    }

    row_without_length(from);
    int64_t  most;
    SafeFile file;
    CHECK_OK(safetensors_read(pool, "lengths_test/step-000001.safetensors", &file));
    CHECK_OK(lengths_max("", &file, &most));
    CHECK_INT(most, FROM);
    RunState    state;
    const char *note;
    Session    *other = at_length(128);
    CHECK_INT(checkpoint_load(pool, other, "lengths_test", 1, &state, &note), E_USAGE);
    CHECK(strstr(err_text(), "was trained at length") != NULL);
    CHECK(strstr(err_text(), "--init") != NULL);
    CHECK_OK(checkpoint_load(pool, at_length(FROM), "lengths_test", 1, &state, &note));
    CHECK_OK(file_remove("lengths_test/step-000001.safetensors"));
    CHECK_OK(file_remove("lengths_test/step-000001.json"));
    pool_free(pool);
    return test_end();
}
