/* given_numbers.c -- sampling from given numbers: what the seed would draw, put into a file, gives
 * the same result to the bit, and what the file lacks is named. Starting weights need no data. */
#include "folder.h"
#include "test.h"

#include "base/random.h"
#include "base/safetensors.h"
#include "train/sample.h"
#include "train/trainer.h"

#include <string.h>

enum { N = 2, SIDE = 8, STEPS = 5, COUNT = N * SIDE * SIDE * 3 };

static const char run_folder[] = "given_run", given_file[] = "given_run/given.safetensors";
static Pool      *pool;
static Recipe    *recipe;
static Device    *device;

/* A run of no steps; its data do not exist. */
static void starting_weights_need_no_data(void)
{
    const char *const sets[] = { "model.widths=[8]", "model.groups=4",
                                 "model.heads=2",    "model.height=8",
                                 "model.width=8",    "batch=2",
                                 "steps=0",          "sampler.steps=5",
                                 "data.kind=images", "data.path=/nonexistent/images" };
    TrainResult       result;
    CHECK_OK(recipe_read(pool, SOURCE_DIR "/recipes/unet-small.yaml", sets,
                         sizeof sets / sizeof *sets, &recipe));
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 2, .backend = "builtin" }, &device));
    folder_clear(pool, run_folder);
    CHECK_OK(train_run(pool, recipe, device, &(TrainOptions){ .out = run_folder, .quiet = true },
                       &result));
    CHECK_INT(result.steps, 0);
    CHECK(file_exists("given_run/step-000000.safetensors"));
    CHECK(file_exists("given_run/step-000000.json"));
    recipe->steps = 1; /* with a step to do the data count */
    CHECK_INT(train_run(pool, recipe, device,
                        &(TrainOptions){ .out = run_folder, .resume = true, .quiet = true },
                        &result),
              E_IO);
}

static Err draw(const char *given, const char *out)
{
    SampleReport report;
    return sample_run(
        pool, run_folder, recipe, device,
        &(SampleOptions){
            .out = out, .given = given, .n = N, .seed = 7, .checkpoint = -1, .quiet = true },
        &report);
}

static RandomKey key(const char *name, int64_t index)
{
    return (RandomKey){ 7, random_stream(name), (uint32_t)index };
}

static void write_given(const float *x, const float *z, int64_t rows)
{
    SafeTensor list[] = { { "noise.x", SAFE_F32, 2, (int64_t[]){ 1, COUNT }, x, 0 },
                          { "noise.z", SAFE_F32, 5, (int64_t[]){ rows, N, SIDE, SIDE, 3 }, z, 0 } };
    CHECK_OK(safetensors_write(given_file, list, z ? 2 : 1, NULL));
}

static void same_file(const char *a, const char *b)
{
    char  *one, *two;
    size_t n, m;
    CHECK_OK(file_read(pool, a, &one, &n));
    CHECK_OK(file_read(pool, b, &two, &m));
    CHECK(n == m && !memcmp(one, two, n));
}

static void given_numbers_take_the_place_of_drawn_ones(void)
{
    float   *x = NEWN(pool, float, COUNT), *z = NEWN(pool, float, COUNT *STEPS);
    SafeFile file;
    random_normals(key("x", 0), 0, COUNT, x);
    for (int64_t i = 0; i < STEPS; i++)
        random_normals(key("z", i), 0, COUNT, z + i * COUNT);
    write_given(x, z, STEPS);
    CHECK_OK(draw(NULL, "given_run/drawn"));
    CHECK_OK(draw(given_file, "given_run/given"));
    same_file("given_run/drawn/samples.png", "given_run/given/samples.png");
    same_file("given_run/drawn/sample-001.png", "given_run/given/sample-001.png");
    CHECK_OK(safetensors_read(pool, "given_run/given/samples.safetensors", &file));
    const SafeTensor *t = safetensors_find(&file, "samples");
    CHECK(t && t->rank == 4 && t->shape[0] == N && t->shape[1] == SIDE && t->shape[3] == 3);
    x[0] += 1;
    write_given(x, z, STEPS);
    CHECK_OK(draw(given_file, "given_run/other"));
    float first = t ? *(const float *)t->data : 0;
    CHECK_OK(safetensors_read(pool, "given_run/other/samples.safetensors", &file));
    CHECK(*(const float *)file.tensors[0].data != first); /* it is read, not drawn */
}

static void what_is_missing_is_named(void)
{
    float *x = NEWN(pool, float, COUNT), *z = NEWN(pool, float, COUNT *STEPS);
    write_given(x, z, STEPS - 2);
    CHECK_INT(draw(given_file, "given_run/none"), E_USAGE);
    CHECK(strstr(err_text(), "'noise.z' must be F32 with at least 4 rows of 384 numbers") != NULL);
    write_given(x, NULL, 0);
    CHECK_INT(draw(given_file, "given_run/none"), E_USAGE);
    CHECK(strstr(err_text(), "the file has no such tensor") != NULL);
    CHECK(!file_exists("given_run/none/samples.png"));
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(starting_weights_need_no_data);
    RUN(given_numbers_take_the_place_of_drawn_ones);
    RUN(what_is_missing_is_named);
    pool_free(pool);
    return test_end();
}
