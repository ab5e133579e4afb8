/* lag.c -- properties of the lag system, without a reference: an image's context does not depend on
 * that image, sets do not depend on each other, and training on a few sets lowers the loss. */
#include "test.h"

#include "base/random.h"
#include "ops/optimizer/optim.h"
#include "train/feeds.h"
#include "recipe/recipe.h"

typedef struct Run {
    Pool    *pool;
    Recipe  *recipe;
    Session *session;
    Graph   *graph;
    Feeds    feeds;
} Run;

static bool run_open(Run *run, const char *const *sets, int n_sets, TrainingGraph *train)
{
    Device *device;
    Engine *engine;
    *run = (Run){ .pool = pool_new(NULL, "lag") };
    const char *path = SOURCE_DIR "/recipes/lag-small.yaml";
    Err         err = recipe_read(run->pool, path, sets, n_sets, &run->recipe);
    if (!err && train) {
        err = recipe_graph(run->pool, run->recipe, false, train);
        run->graph = train->graph;
    } else if (!err) {
        run->graph = graph_new(run->pool, F32);
        const Recipe *r = run->recipe;
        r->model->sample_graph(run->graph, r->config, &r->sampler, r->batch);
        err = graph_check(run->graph);
    }
    err = err ? err : device_cpu(run->pool, &(DeviceOptions){ .threads = 1 }, &device);
    err = err ? err : engine_new(run->pool, run->graph, device, NULL, &engine);
    err = err ? err : session_new(run->pool, engine, &run->session);
    err = err ? err : session_init(run->session, 5);
    Phase phase = train ? PHASE_MICRO : PHASE_SAMPLE_BEGIN;
    err = err ? err : feeds_new(run->pool, run->session, phase, &run->feeds);
    CHECK_OK(err);
    return !err;
}

static const float *context_of(Run *run, float *copy, int64_t n)
{
    CHECK_OK(session_run(run->session, PHASE_SAMPLE_BEGIN));
    for (int32_t i = 0; i < run->graph->n_constants; i++) {
        int32_t      id = run->graph->constants[i].value;
        const Value *value = value_at(run->graph, id);
        if (!strcmp(value->name, "support_context") && value->bytes == n * 4)
            return memcpy(copy, session_bytes(run->session, id), (size_t)n * 4);
    }
    CHECK(!"there is a context of that size");
    return copy;
}

/* If one image changes, every context of its set changes except its own; those of the other set
 * keep their bits. */
static void leave_one_out(void)
{
    enum { SETS = 2, IMAGES = 3, ROW = 16 * 64, IMAGE = 16 * 16 * 3 };
    static float             before[SETS * IMAGES * ROW], after[SETS * IMAGES * ROW];
    static const char *const sets[] = { "batch=2" };
    Run                      run;
    if (run_open(&run, sets, 1, NULL)) {
        float *support = run.feeds.list[0].bytes;
        CHECK_TEXT(run.feeds.list[0].name, "support");
        for (int i = 0; i < SETS * IMAGES * IMAGE; i++)
            support[i] = random_normal_at((RandomKey){ .seed = 1 }, (uint64_t)i);
        context_of(&run, before, SETS * IMAGES * ROW);
        for (int changed = 0; changed < SETS * IMAGES; changed++) {
            float old = support[changed * IMAGE + 17];
            support[changed * IMAGE + 17] = old + 1;
            context_of(&run, after, SETS * IMAGES * ROW);
            support[changed * IMAGE + 17] = old;
            for (int i = 0; i < SETS * IMAGES; i++) {
                bool same = !memcmp(before + i * ROW, after + i * ROW, ROW * sizeof(float));
                CHECK_INT(same, i == changed || i / IMAGES != changed / IMAGES);
            }
        }
    }
    pool_free(run.pool);
}

/* Four sets, each of one colour: compares the mean loss of the last updates with that of the
 * first. */
static void loss_falls(void)
{
    enum { STEPS = 150, PART = 25 };
    static const char *const sets[] = { "batch=4", "optimizer.lr=3e-3" };
    TrainingGraph            train;
    Run                      run;
    double                   first = 0, last = 0;
    if (run_open(&run, sets, 2, &train)) {
        FeedBuffer *images = &run.feeds.list[0];
        int32_t    *counters = session_bytes(run.session, train.train.counters.id);
        float      *rates = session_bytes(run.session, train.train.rates.id), *to = images->bytes;
        int64_t     a_set = shape_count(images->shape) / images->shape.dim[0];
        CHECK_TEXT(images->name, "images");
        for (int64_t i = 0; i < shape_count(images->shape); i++)
            to[i] = 0.8f * (float)((i / a_set >> (i % 3) & 1) * 2 - 1);
        for (int step = 0; step < STEPS; step++) {
            counters[COUNTER_STEP] = step;
            rates[RATE_EMA_DECAY] = (float)ema_decay(run.recipe, step);
            rates[RATE_GROUPS] = train.groups[0].lr;
            if (session_run(run.session, PHASE_MICRO) || session_run(run.session, PHASE_UPDATE)) {
                CHECK(!"a step runs");
                break;
            }
            double loss = (double)*(float *)session_bytes(run.session, train.train.loss.id);
            first += step < PART ? loss / PART : 0;
            last += step >= STEPS - PART ? loss / PART : 0;
        }
        printf("loss %.3f, later %.3f\n", first, last);
        CHECK(last < 0.6 * first);
        CHECK(first < 1.5);
    }
    pool_free(run.pool);
}

int main(void)
{
    RUN(leave_one_out);
    RUN(loss_falls);
    return test_end();
}
