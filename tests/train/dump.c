/* dump.c -- train --dump: the gradients in the file are those of the update. With plain SGD and a rate of
 * 1 the weights after a step are the weights before it less these gradients, to the bit. */
#include "folder.h"
#include "test.h"

#include "base/random.h"
#include "base/safetensors.h"
#include "train/trainer.h"

#include <string.h>

static Pool *pool;

static void train_from(const char *given, int steps, const char *accumulate, const char *out,
                       const char *dump, int64_t budget)
{
    const char *const sets[] = { "model.widths=[8]",   "model.groups=4",
                                 "model.heads=2",      "model.height=8",
                                 "model.width=8",      "batch=2",
                                 "optimizer.kind=sgd", "optimizer.lr=1",
                                 "optimizer.beta1=0",  "optimizer.decay=0",
                                 "optimizer.clip=0",   "schedule.kind=constant",
                                 "schedule.warmup=0",  "ema.rule=none",
                                 accumulate,           pool_print(pool, "steps=%d", steps) };
    Recipe           *recipe;
    Device           *device;
    TrainResult       result;
    CHECK_OK(recipe_read(pool, SOURCE_DIR "/recipes/unet-small.yaml", sets,
                         sizeof sets / sizeof *sets, &recipe));
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 2, .backend = "builtin" }, &device));
    folder_clear(pool, out);
    CHECK_OK(train_run(
        pool, recipe, device,
        &(TrainOptions){
            .out = out, .given = given, .dump = dump, .budget_bytes = budget, .quiet = true },
        &result));
    CHECK_INT(result.measured_bytes, steps ? result.planned_bytes : 0);
}

static void train(int steps, const char *accumulate, const char *out, const char *dump,
                  int64_t budget)
{
    train_from(NULL, steps, accumulate, out, dump, budget);
}

/* Every weight of `after` is the one of `before` less its gradient in the dump. */
static void moved_by_gradients(const char *before, const char *after, const char *dump)
{
    SafeFile a, b, d;
    int      params = 0;
    int64_t  wrong = 0;
    CHECK_OK(safetensors_read(pool, before, &a));
    CHECK_OK(safetensors_read(pool, after, &b));
    CHECK_OK(safetensors_read(pool, dump, &d));
    for (int i = 0; i < d.n; i++) {
        const SafeTensor *g = &d.tensors[i];
        if (strncmp(g->name, "gradient/", 9))
            continue;
        const SafeTensor *w0 = safetensors_find(&a, g->name + 9),
                         *w1 = safetensors_find(&b, g->name + 9);
        if (!CHECK(w0 && w1 && w0->n_bytes == g->n_bytes && w0->rank == g->rank))
            continue;
        params++;
        for (size_t k = 0; k < g->n_bytes / 4; k++)
            wrong += ((const float *)w1->data)[k] !=
                     ((const float *)w0->data)[k] - ((const float *)g->data)[k];
    }
    CHECK_INT(wrong, 0);
    CHECK(params > 20);
    const SafeTensor *loss = safetensors_find(&d, "loss");
    CHECK(loss && loss->n_bytes == 4 && *(const float *)loss->data > 0);
}

/* From given inputs and noise the prediction is there too; its mean squared distance to the noise is
 * the loss. */
static void the_output_gives_the_loss(void)
{
    enum { COUNT = 2 * 8 * 8 * 3 };
    float     *x = NEWN(pool, float, COUNT), *noise = NEWN(pool, float, COUNT);
    int32_t    t[2] = { 10, 700 };
    int64_t    shape[] = { 1, 2, 8, 8, 3 };
    SafeFile   d;
    double     sum = 0;
    SafeTensor list[] = { { "x", SAFE_F32, 5, shape, x, 0 },
                          { "noise", SAFE_F32, 5, shape, noise, 0 },
                          { "t", SAFE_I32, 2, (int64_t[]){ 1, 2 }, t, 0 } };
    random_normals((RandomKey){ 1 }, 0, COUNT, x);
    random_normals((RandomKey){ 2 }, 0, COUNT, noise);
    CHECK_OK(safetensors_write("dump_given.safetensors", list, 3, NULL));
    train_from("dump_given.safetensors", 1, "accumulate=1", "dump_run", "dump.safetensors", 0);
    CHECK_OK(safetensors_read(pool, "dump.safetensors", &d));
    const SafeTensor *output = safetensors_find(&d, "output/output"),
                     *loss = safetensors_find(&d, "loss");
    if (!CHECK(output && loss && output->n_bytes == COUNT * 4))
        return;
    for (int i = 0; i < COUNT; i++) {
        double apart = (double)((const float *)output->data)[i] - (double)noise[i];
        sum += apart * apart;
    }
    CHECK_NEAR(*(const float *)loss->data, sum / COUNT, 1e-5 * sum / COUNT);
}

static void gradients_are_those_of_the_update(void)
{
    static const char *const accumulates[] = { "accumulate=1", "accumulate=3" };
    train(0, accumulates[0], "dump_start", NULL, 0);
    for (int i = 0; i < 2; i++)
        for (int tight = 0; tight < 2; tight++) {
            train(1, accumulates[i], "dump_run", "dump.safetensors", tight ? 330000 : 0);
            moved_by_gradients("dump_start/step-000000.safetensors",
                               "dump_run/step-000001.safetensors", "dump.safetensors");
        }
}

/* Nothing else changes: not the weights, and not the steps after the dumped one. */
static void dumping_changes_nothing(void)
{
    char  *with, *without;
    size_t n, m;
    train(3, "accumulate=2", "dump_with", "dump.safetensors", 0);
    train(3, "accumulate=2", "dump_without", NULL, 0);
    CHECK_OK(file_read(pool, "dump_with/step-000003.safetensors", &with, &n));
    CHECK_OK(file_read(pool, "dump_without/step-000003.safetensors", &without, &m));
    CHECK(n == m && !memcmp(with, without, n));
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(gradients_are_those_of_the_update);
    RUN(the_output_gives_the_loss);
    RUN(dumping_changes_nothing);
    pool_free(pool);
    return test_end();
}
