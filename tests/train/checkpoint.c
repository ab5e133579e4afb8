/* checkpoint.c -- complete, damaged and missing checkpoints: which one is used, what the message
 * for a damaged one says, and that the older one it names can be loaded. */
#include "folder.h"
#include "test.h"

#include "train/checkpoint.h"
#include "train/weights.h"

#include <math.h>

static Pool    *pool;
static Session *session;

static const char folder[] = "checkpoint_test";

static void open_session(void)
{
    const char   *sets[] = { "model.widths=[8]", "model.heads=2", "model.height=8",
                             "model.width=8", "batch=1" };
    TrainingGraph train;
    Recipe       *recipe;
    Device       *device;
    Engine       *engine;
    CHECK_OK(recipe_read(pool, SOURCE_DIR "/recipes/unet-small.yaml", sets, 5, &recipe));
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 1, .backend = "builtin" }, &device));
    CHECK_OK(recipe_graph(pool, recipe, false, &train));
    CHECK_OK(engine_new(pool, train.graph, device, NULL, &engine));
    CHECK_OK(session_new(pool, engine, &session));
    CHECK_OK(session_init(session, 1));
}

static void save(int64_t step, int64_t keep)
{
    Saver   *saver;
    RunState state = { .step = step, .drawn = 10 * step, .seed = 3,
                       .plateau = { .on = true, .bad = 2, .sum = 0.1, .rates = { 1e-3, 0.3 },
                                    .seen = step > 100, .best = 1.0 / 3 } };
    CHECK_OK(saver_new(pool, session, folder, keep, &saver));
    CHECK_OK(saver_save(saver, &state));
}

static const char *in_folder(const char *name)
{
    return pool_print(pool, "%s/%s", folder, name);
}

/* A full disk or a broken copy leaves a truncated file. */
static void cut_file(const char *name, size_t left)
{
    char  *bytes;
    size_t n;
    CHECK_OK(file_read(pool, in_folder(name), &bytes, &n));
    CHECK_OK(file_write(in_folder(name), bytes, left < n ? left : n / 2));
}

static void state_comes_back(void)
{
    RunState state = { .plateau.on = true };
    folder_clear(pool, folder);
    save(100, 9);
    CHECK_OK(checkpoint_load(pool, session, folder, 100, &state));
    CHECK_INT(state.step, 100);
    CHECK_INT(state.drawn, 1000);
    CHECK_INT(state.seed, 3);
    CHECK_INT(state.plateau.bad, 2);
    CHECK(state.plateau.sum == 0.1 && state.plateau.rates[0] == 1e-3);
    CHECK(state.plateau.rates[1] == 0.3 && !state.plateau.seen);
    save(200, 9);
    CHECK_OK(checkpoint_load(pool, session, folder, 200, &state));
    CHECK(state.plateau.seen && state.plateau.best == 1.0 / 3);
    CHECK_INT(state.due, DUE_NOTHING);
}

/* What is still due for a step, with a loss that may be NaN. */
static void due_comes_back(void)
{
    RunState state = { 0 };
    Saver   *saver;
    folder_clear(pool, folder);
    CHECK_OK(saver_new(pool, session, folder, 9, &saver));
    CHECK_OK(saver_save(saver,
                        &(RunState){ .step = 7, .due = DUE_VALIDATE, .loss = 1.0 / 3, .ms = 0.1 }));
    CHECK_OK(checkpoint_load(pool, session, folder, 7, &state));
    CHECK(state.due == DUE_VALIDATE && state.loss == 1.0 / 3 && state.ms == 0.1);
    CHECK_OK(saver_save(saver, &(RunState){ .step = 8, .due = DUE_SAMPLE, .loss = -(double)NAN }));
    CHECK_OK(checkpoint_load(pool, session, folder, 8, &state));
    CHECK(state.due == DUE_SAMPLE && isnan(state.loss) && state.ms == 0);
    CHECK_OK(saver_save(saver, &(RunState){ .step = 9 }));
    CHECK_OK(checkpoint_load(pool, session, folder, 9, &state));
    CHECK_INT(state.due, DUE_NOTHING);
}

static void which_is_newest(void)
{
    int64_t step;
    folder_clear(pool, folder);
    CHECK_INT(checkpoint_newest(pool, folder, &step), E_IO);
    save(100, 9);
    save(1000000, 9);                        /* compared as a number: more than six digits */
    static const char *const others[] = {    /* none of these is a checkpoint */
        "step-2000000.safetensors", "step-3000000.json.tmp", "step-4000000", "step-+5000000.json",
        "step- 6000000.json", "step-7.json", "step-99999999999999999999.json"
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK_OK(file_write(in_folder(others[i]), "{}", 2));
    CHECK_OK(checkpoint_newest(pool, folder, &step));
    CHECK_INT(step, 1000000);
    save(1000001, 2);                        /* keeps two, and all files that are no checkpoints */
    CHECK(!file_exists(in_folder("step-000100.json")));
    CHECK(!file_exists(in_folder("step-000100.safetensors")));
    CHECK(file_exists(in_folder("step-1000000.safetensors")));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK(file_exists(in_folder(others[i])));
}

static void refused(int64_t step, const char *resume, const char *sample)
{
    RunState state = { 0 };
    bool     averaged;
    CHECK(checkpoint_load(pool, session, folder, step, &state) != OK);
    if (!strstr(err_text(), resume))
        CHECK_TEXT(err_text(), resume);
    if (!sample)
        return;
    CHECK(checkpoint_weights(pool, session, folder, step, false, &averaged) != OK);
    if (!strstr(err_text(), sample))
        CHECK_TEXT(err_text(), sample);
}

static void damaged_names_an_older(void)
{
    RunState state = { 0 };
    bool     averaged;
    folder_clear(pool, folder);
    save(10, 9);
    save(20, 9);
    save(30, 9);
    save(40, 9);
    cut_file("step-000040.safetensors", 5000);
    refused(40, "step 30 is whole: to continue from there", "use --checkpoint 30");
    CHECK(strstr(err_text(), "step-000040.safetensors") != NULL);
    cut_file("step-000030.safetensors", 4);
    CHECK_OK(file_remove(in_folder("step-000020.safetensors")));
    refused(40, "step 10 is whole", "--checkpoint 10");
    CHECK_OK(checkpoint_load(pool, session, folder, 10, &state));
    CHECK_INT(state.step, 10);
    CHECK_OK(checkpoint_weights(pool, session, folder, 10, false, &averaged));
    CHECK(averaged);

    cut_file("step-000010.safetensors", 100);    /* now none is complete */
    refused(40, "step-000040.safetensors is damaged: its 5000 bytes",
            "step-000040.safetensors is damaged: its 5000 bytes");
    CHECK(!strstr(err_text(), "is whole"));
    save(50, 9);
    save(60, 9);
    CHECK_OK(file_write(in_folder("step-000060.json"), "{\"step\": 6", 10));
    refused(60, "step 50 is whole", NULL);
    static const char renamed[] = "{\"step\": 50, \"drawn\": 1, \"seed\": 1}";
    CHECK_OK(file_write(in_folder("step-000060.json"), renamed, sizeof renamed - 1));
    refused(60, "damaged or was renamed", NULL);
}

/* One byte changed in any tensor or in the header, or one digit of the JSON. */
static void every_byte_counts(void)
{
    static const char weights[] = "step-000020.safetensors", json[] = "step-000020.json";
    char  *bytes, *text;
    size_t n, m;
    folder_clear(pool, folder);
    save(10, 9);
    save(20, 9);
    CHECK_OK(file_read(pool, in_folder(weights), &bytes, &n));
    CHECK_OK(file_read(pool, in_folder(json), &text, &m));
    for (size_t at = n - 1, i = 0; i < 5; i++, at = at * 2 / 3) {
        bytes[at] ^= 4;
        CHECK_OK(file_write(in_folder(weights), bytes, n));
        refused(20, "step 10 is whole: to continue from there", "use --checkpoint 10");
        CHECK(checkpoint_intact(pool, in_folder(weights)) == E_FORMAT);
        CHECK(strstr(err_text(), "step-000020.safetensors is damaged") != NULL);
        bytes[at] ^= 4;
    }
    CHECK_OK(file_write(in_folder(weights), bytes, n));
    CHECK_OK(checkpoint_intact(pool, in_folder(weights)));
    char *drawn = strstr(text, "\"drawn\": 200");
    if (CHECK(drawn != NULL)) {
        drawn[9] = '3';
        CHECK_OK(file_write(in_folder(json), text, m));
        refused(20, "step-000020.json is damaged", NULL);
    }
}

/* A checkpoint of an older version has no checksum and is accepted. */
static void without_checksums(void)
{
    static const char older[] = "{\"step\": 20, \"drawn\": 200, \"seed\": 3}";
    RunState state = { 0 };
    bool     averaged;
    CHECK_OK(file_write(in_folder("step-000020.json"), older, sizeof older - 1));
    CHECK_OK(checkpoint_load(pool, session, folder, 20, &state));
    CHECK_INT(state.drawn, 200);
    CHECK_OK(checkpoint_weights(pool, session, folder, 20, false, &averaged));
    CHECK_OK(checkpoint_intact(pool, in_folder("step-000020.safetensors")));
    CHECK_OK(checkpoint_intact(pool, in_folder("nothing.safetensors")));
}

/* The type must match too, not only the shape. */
static void another_type(void)
{
    static const char json[] = "{\"step\": 1, \"drawn\": 1, \"seed\": 3}";      /* no checksum */
    SafeFile file;
    folder_clear(pool, folder);
    save(1, 9);
    CHECK_OK(file_write(in_folder("step-000001.json"), json, sizeof json - 1));
    CHECK_OK(safetensors_read(pool, in_folder("step-000001.safetensors"), &file));
    SafeTensor *tensors = NEWN(pool, SafeTensor, file.n);
    memcpy(tensors, file.tensors, (size_t)file.n * sizeof *tensors);
    tensors[0].type = SAFE_I32;
    CHECK_OK(safetensors_write(in_folder("step-000001.safetensors"), tensors, file.n, NULL));
    refused(1, "holds I32, not F32", NULL);
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(open_session);
    RUN(state_comes_back);
    RUN(due_comes_back);
    RUN(which_is_newest);
    RUN(damaged_names_an_older);
    RUN(every_byte_counts);
    RUN(without_checksums);
    RUN(another_type);
    folder_clear(pool, folder);
    pool_free(pool);
    return test_end();
}
