/* checkpoint.c -- complete, damaged and missing checkpoints: which one is used, what the message
 * for a damaged one says, and that an older one is loaded instead; what killed runs leave. */
#include "alloc_count.h"
#include "folder.h"
#include "test.h"

#include "train/checkpoint.h"
#include "train/weights.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static Pool    *pool;
static Session *session;

static const char *note; /* of the last load */

static const char folder[] = "checkpoint_test";

static void open_session(void)
{
    const char   *sets[] = { "model.widths=[8]", "model.heads=2", "model.height=8", "model.width=8",
                             "batch=1" };
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
    RunState state = { .step = step,
                       .drawn = 10 * step,
                       .seed = 3,
                       .plateau = { .on = true,
                                    .bad = 2,
                                    .sum = 0.1,
                                    .rates = { 1e-3, 0.3 },
                                    .seen = step > 100,
                                    .best = 1.0 / 3 } };
    CHECK_OK(saver_new(pool, session, folder, keep, &saver));
    CHECK_OK(saver_save(saver, &state));
}

static const char *in_folder(const char *name) { return pool_print(pool, "%s/%s", folder, name); }

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
    CHECK_OK(checkpoint_load(pool, session, folder, 100, &state, &note));
    CHECK_INT(state.step, 100);
    CHECK_INT(state.drawn, 1000);
    CHECK_INT(state.seed, 3);
    CHECK_INT(state.plateau.bad, 2);
    CHECK(state.plateau.sum == 0.1 && state.plateau.rates[0] == 1e-3);
    CHECK(state.plateau.rates[1] == 0.3 && !state.plateau.seen);
    save(200, 9);
    CHECK_OK(checkpoint_load(pool, session, folder, 200, &state, &note));
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
    CHECK_OK(checkpoint_load(pool, session, folder, 7, &state, &note));
    CHECK(state.due == DUE_VALIDATE && state.loss == 1.0 / 3 && state.ms == 0.1);
    CHECK_OK(saver_save(saver, &(RunState){ .step = 8, .due = DUE_SAMPLE, .loss = -(double)NAN }));
    CHECK_OK(checkpoint_load(pool, session, folder, 8, &state, &note));
    CHECK(state.due == DUE_SAMPLE && isnan(state.loss) && state.ms == 0);
    CHECK_OK(saver_save(saver, &(RunState){ .step = 9 }));
    CHECK_OK(checkpoint_load(pool, session, folder, 9, &state, &note));
    CHECK_INT(state.due, DUE_NOTHING);
}

static void which_is_newest(void)
{
    int64_t step;
    folder_clear(pool, folder);
    CHECK_INT(checkpoint_newest(pool, folder, &step), E_IO);
    save(100, 9);
    save(1000000, 9);                     /* compared as a number: more than six digits */
    static const char *const others[] = { /* none of these is a checkpoint */
                                          "step-3000000.json.tmp", "step-4000000",
                                          "step-+5000000.json",    "step- 6000000.json",
                                          "step-7.json",           "step-99999999999999999999.json"
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK_OK(file_write(in_folder(others[i]), "{}", 2));
    CHECK_OK(checkpoint_newest(pool, folder, &step));
    CHECK_INT(step, 1000000);
    save(1000001, 2); /* keeps two, and all files that are no checkpoints */
    CHECK(!file_exists(in_folder("step-000100.json")));
    CHECK(!file_exists(in_folder("step-000100.safetensors")));
    CHECK(file_exists(in_folder("step-1000000.safetensors")));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK(file_exists(in_folder(others[i])));
}

static void has(const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        CHECK_TEXT(text ? text : "", part);
}

/* The checkpoint is damaged, and `older` is used; -1: none can be, for the reason `why`. Sampling from
 * this checkpoint and no other is refused. */
static void falls_back(int64_t step, int64_t older, const char *why)
{
    RunState state = { 0 };
    Err      err = checkpoint_load(pool, session, folder, step, &state, &note);
    CHECK_INT(err == OK, older >= 0);
    has(err ? err_text() : note, why);
    if (!err) {
        CHECK_INT(state.step, older);
        CHECK_INT(state.drawn, 10 * older);
        has(note, pool_print(pool, "step %lld is intact and is used instead", (long long)older));
    }
    WeightsRead newest = { .step = -1 }, only = { .step = step };
    err = checkpoint_weights(pool, session, folder, &newest);
    CHECK_INT(err == OK, older >= 0);
    CHECK_INT(newest.step, older >= 0 ? older : step);
    CHECK(checkpoint_weights(pool, session, folder, &only) != OK);
    if (older >= 0)
        has(err_text(), pool_print(pool, "use --checkpoint %lld", (long long)older));
}

static void damaged_takes_an_older(void)
{
    RunState    state = { 0 };
    WeightsRead read = { .step = 10 };
    folder_clear(pool, folder);
    save(10, 9);
    save(20, 9);
    save(30, 9);
    save(40, 9);
    cut_file("step-000040.safetensors", 5000);
    falls_back(40, 30, "step-000040.safetensors is damaged");
    cut_file("step-000030.safetensors", 4);
    CHECK_OK(file_remove(in_folder("step-000020.safetensors")));
    falls_back(40, 10, "step-000040.safetensors");
    CHECK_OK(checkpoint_load(pool, session, folder, 10, &state, &note));
    CHECK(!note);
    CHECK_OK(checkpoint_weights(pool, session, folder, &read));
    CHECK(read.averaged && !read.note);
    read = (WeightsRead){ .step = 10, .kind = WEIGHTS_RAW };
    CHECK_OK(checkpoint_weights(pool, session, folder, &read));
    CHECK(!read.averaged);
    read = (WeightsRead){ .step = 15 };
    CHECK_INT(checkpoint_weights(pool, session, folder, &read), E_IO);
    has(err_text(), "holds no complete checkpoint of step 15");

    cut_file("step-000010.safetensors", 100); /* now none is complete */
    falls_back(40, -1, "step-000040.safetensors is damaged: its 5000 bytes");
    save(50, 9);
    save(60, 9);
    CHECK_OK(file_write(in_folder("step-000060.json"), "{\"step\": 6", 10));
    falls_back(60, 50, "step-000060.json");
    static const char renamed[] =
        "{\"format\": \"plimsoll-checkpoint-1\", \"step\": 50, \"drawn\": 1, \"seed\": 1}";
    CHECK_OK(file_write(in_folder("step-000060.json"), renamed, sizeof renamed - 1));
    falls_back(60, 50, "damaged or was renamed");
    static const char endless[] =
        "{\"format\": \"plimsoll-checkpoint-1\", \"step\": 60, \"drawn\": 9223372036854775800, "
        "\"seed\": 1}";
    CHECK_OK(file_write(in_folder("step-000060.json"), endless, sizeof endless - 1));
    falls_back(60, 50, "damaged or was renamed");
}

/* One byte changed in any tensor or in the header, or any bit of the JSON. */
static void every_bit_counts(void)
{
    static const char weights[] = "step-000020.safetensors", json[] = "step-000020.json";
    char             *bytes, *text;
    size_t            n, m;
    int               accepted = 0;
    folder_clear(pool, folder);
    save(10, 9);
    save(20, 9);
    CHECK_OK(file_read(pool, in_folder(weights), &bytes, &n));
    CHECK_OK(file_read(pool, in_folder(json), &text, &m));
    for (size_t at = n - 1, i = 0; i < 5; i++, at = at * 2 / 3) {
        bytes[at] ^= 4;
        CHECK_OK(file_write(in_folder(weights), bytes, n));
        falls_back(20, 10, "step-000020.safetensors is damaged");
        CHECK(checkpoint_intact(pool, in_folder(weights)) == E_FORMAT);
        bytes[at] ^= 4;
    }
    CHECK_OK(file_write(in_folder(weights), bytes, n));
    CHECK_OK(checkpoint_intact(pool, in_folder(weights)));
    for (size_t at = 0; at < m; at++)
        for (int bit = 0; bit < 8; bit++) {
            RunState state = { .plateau.on = true };
            Pool    *work = pool_new(pool, "bit");
            text[at] ^= (char)(1 << bit);
            FILE *file = fopen(in_folder(json), "w"); /* faster than a durable write */
            fwrite(text, 1, m, file);
            fclose(file);
            if (checkpoint_load(work, session, folder, 20, &state, &note) || !note) {
                printf("bit %d of byte %zu of %zu is not noticed\n", bit, at, m);
                accepted++;
            }
            text[at] ^= (char)(1 << bit);
            pool_free(work);
        }
    CHECK_INT(accepted, 0);
}

/* What a killed run leaves is cleared; what cannot be removed ends nothing. */
static void leftovers(void)
{
    Saver *saver;
    folder_clear(pool, folder);
    save(10, 9);
    save(20, 9);
    CHECK_OK(file_remove(in_folder("step-000020.json"))); /* killed before it was written */
    CHECK_OK(saver_new(pool, session, folder, 2, &saver));
    CHECK(!file_exists(in_folder("step-000020.safetensors")));
    CHECK(file_exists(in_folder("step-000010.safetensors")));
    CHECK_OK(saver_save(saver, &(RunState){ .step = 20 }));
    CHECK_OK(file_remove(in_folder("step-000010.json")));
    CHECK_OK(folder_make(in_folder("step-000010.json"))); /* a folder cannot be unlinked */
    CHECK_OK(saver_save(saver, &(RunState){ .step = 30 }));
    has(saver_note(saver), "cannot remove");
    CHECK_OK(saver_save(saver, &(RunState){ .step = 40 }));
    CHECK(file_exists(in_folder("step-000040.json")));
    CHECK_INT(rmdir(in_folder("step-000010.json")), 0);
    CHECK_OK(saver_save(saver, &(RunState){ .step = 50 }));
    CHECK(!saver_note(saver));
    CHECK(!file_exists(in_folder("step-000010.safetensors")));
    CHECK(!file_exists(in_folder("step-000030.json")) &&
          file_exists(in_folder("step-000040.json")));
}

/* Saving again and again asks the system for nothing. */
static void allocates_nothing(void)
{
    Saver *saver;
    folder_clear(pool, folder);
    CHECK_OK(saver_new(pool, session, folder, 2, &saver));
    CHECK_OK(saver_save(saver, &(RunState){ .step = 1 }));
    long long pools = pool_allocations();
    atomic_store(&alloc_largest, 0);
    for (int64_t step = 2; step < 9; step++)
        CHECK_OK(saver_save(saver, &(RunState){ .step = step }));
    CHECK(atomic_load(&alloc_largest) < 4096); /* libgomp takes some bytes for a parallel region */
    CHECK_INT(pool_allocations() - pools, 0);
    CHECK(file_exists(in_folder("step-000008.json")) &&
          !file_exists(in_folder("step-000006.json")));
}

/* A checkpoint of the oldest version has no checksum and is accepted. */
static void without_checksums(void)
{
    static const char older[] =
        "{\"format\": \"plimsoll-checkpoint-1\", \"step\": 20, \"drawn\": 200, \"seed\": 3}";
    RunState    state = { 0 };
    WeightsRead read = { .step = 20 };
    CHECK_OK(file_write(in_folder("step-000020.json"), older, sizeof older - 1));
    CHECK_OK(checkpoint_load(pool, session, folder, 20, &state, &note));
    CHECK_INT(state.drawn, 200);
    CHECK_OK(checkpoint_weights(pool, session, folder, &read));
    CHECK_OK(checkpoint_intact(pool, in_folder("step-000020.safetensors")));
    CHECK_OK(checkpoint_intact(pool, in_folder("nothing.safetensors")));
}

/* The type must match too, not only the shape. */
static void another_type(void)
{
    static const char json[] = "{\"format\": \"plimsoll-checkpoint-1\", \"step\": 1, \"drawn\": 1, "
                               "\"seed\": 3}"; /* no checksum */
    SafeFile          file;
    folder_clear(pool, folder);
    save(1, 9);
    CHECK_OK(file_write(in_folder("step-000001.json"), json, sizeof json - 1));
    CHECK_OK(safetensors_read(pool, in_folder("step-000001.safetensors"), &file));
    SafeTensor *tensors = NEWN(pool, SafeTensor, file.n);
    memcpy(tensors, file.tensors, (size_t)file.n * sizeof *tensors);
    tensors[0].type = SAFE_I32;
    CHECK_OK(safetensors_write(in_folder("step-000001.safetensors"), tensors, file.n, NULL));
    RunState state = { 0 };
    CHECK_INT(checkpoint_load(pool, session, folder, 1, &state, &note), E_FORMAT);
    has(err_text(), "holds I32, not F32");
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(open_session);
    RUN(state_comes_back);
    RUN(due_comes_back);
    RUN(which_is_newest);
    RUN(damaged_takes_an_older);
    RUN(every_bit_counts);
    RUN(without_checksums);
    RUN(another_type);
    RUN(leftovers);
    RUN(allocates_nothing);
    folder_clear(pool, folder);
    pool_free(pool);
    return test_end();
}
