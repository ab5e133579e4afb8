/* host.c -- host-resident state and offloaded values: the same bits as with everything kept on the
 * device, and the planned bytes in both memories.
 *
 * On the CPU a second memory is simulated. `late` copies at the wait and fills the destination of a
 * load with NaNs until then, which exposes reads that are too early and writes to values being
 * saved. `early` copies at once, which exposes slots that are reused too soon. With
 * PLIMSOLL_TEST_DEVICE=cuda the GPU's copy queues run. */
#include "test.h"

#include "base/file.h"
#include "ops/optimizer/optim.h"
#include "train/feeds.h"
#include "fit/fit.h"

#include <stdlib.h>
#include <unistd.h>

enum { STEPS = 3, EFFORT = 2000 };

/* ---- a simulated second memory ---- */

typedef struct FakeEvent {
    bool        pending;
    void       *to;
    const void *from;
    size_t      bytes;
} FakeEvent;

static int64_t copies_begun;

static Err fake_event_new(const Device *device, void **event)
{
    (void)device;
    *event = calloc(1, sizeof(FakeEvent));
    return OK;
}

static void fake_event_free(const Device *device, void *event)
{
    (void)device;
    free(event);
}

static Err late_copy(const Device *device, CopyDirection way, void *to, const void *from,
                     size_t bytes, void *event)
{
    FakeEvent *m = event;
    (void)device;
    copies_begun++;
    CHECK(!m->pending);
    *m = (FakeEvent){ true, to, from, bytes };
    if (way == COPY_TO_DEVICE)
        memset(to, 0xFF, bytes);
    return OK;
}

static Err early_copy(const Device *device, CopyDirection way, void *to, const void *from,
                      size_t bytes, void *event)
{
    FakeEvent *m = event;
    (void)device, (void)way;
    copies_begun++;
    CHECK(!m->pending);
    m->pending = true;
    memcpy(to, from, bytes);
    return OK;
}

static Err late_join(const Device *device, void *event)
{
    FakeEvent *m = event;
    (void)device;
    CHECK(m->pending);
    memcpy(m->to, m->from, m->bytes);
    m->pending = false;
    return OK;
}

static Err early_join(const Device *device, void *event)
{
    (void)device;
    CHECK(((FakeEvent *)event)->pending);
    ((FakeEvent *)event)->pending = false;
    return OK;
}

static const DeviceQueues late = { fake_event_new, fake_event_free, late_copy, late_join };
static const DeviceQueues early = { fake_event_new, fake_event_free, early_copy, early_join };

static bool on_gpu(void)
{
    const char *name = getenv("PLIMSOLL_TEST_DEVICE");
    return name && !strcmp(name, "cuda");
}

/* bandwidth: of the simulated copies, in bytes per nanosecond. */
static Err host_device(Pool *pool, const DeviceQueues *queues, double bandwidth, Device **out)
{
    if (on_gpu())
        return device_open(pool, "cuda", NULL, out);
    TRY(device_cpu(pool, &(DeviceOptions){ .threads = 2, .backend = "builtin" }, out));
    (*out)->queues = queues;
    (*out)->to_host = (*out)->to_device = bandwidth;
    return OK;
}

/* ---- three steps ---- */

typedef struct Outcome {
    float    loss[STEPS];
    uint64_t state;
} Outcome;

static uint64_t hash_value(uint64_t hash, Session *session, int32_t value, int64_t bytes)
{
    unsigned char *copy = malloc((size_t)bytes + 1);
    CHECK_OK(session_read(session, value, copy));
    for (int64_t i = 0; i < bytes; i++)
        hash = (hash ^ copy[i]) * 1099511628211u;
    free(copy);
    return hash;
}

static Outcome train_once(Pool *parent, const FitResult *fit, bool one_lane)
{
    Pool             *pool = pool_new(parent, "train");
    const Recipe     *recipe = fit->recipe;
    const TrainGraph *train = &fit->graph.train;
    const Graph      *graph = fit->engine->graph;
    Outcome           out = { .state = 14695981039346656037u };
    int32_t           counters[COUNTER_WORDS] = { 0 };
    float             rates[RATE_GROUPS + 2];
    Session          *session;
    Feeds             feeds;
    CHECK_OK(session_new(pool, fit->engine, &session));
    if (one_lane)
        session_one_lane(session);
    CHECK_OK(session_init(session, 1));
    CHECK_OK(feeds_new(pool, session, PHASE_MICRO, &feeds));
    CHECK_OK(feeds_open(pool, &feeds, recipe));
    CHECK_OK(session_read(session, train->counters.id, counters));
    rates[RATE_EMA_DECAY] = 0.9f;
    for (int i = 0; i < fit->graph.n_groups; i++)
        rates[RATE_GROUPS + i] = 1e-3f;
    CHECK_OK(session_write(session, train->rates.id, rates));
    for (int step = 0; step < STEPS; step++) {
        counters[COUNTER_STEP] = step;
        for (int64_t micro = 0; micro < recipe->accumulate; micro++) {
            counters[COUNTER_MICRO] = (int32_t)micro;
            CHECK_OK(session_write(session, train->counters.id, counters));
            CHECK_OK(feeds_fill(&feeds, step * recipe->accumulate + micro,
                                (step * recipe->accumulate + micro) * recipe->batch));
            CHECK_OK(session_run(session, PHASE_MICRO));
        }
        CHECK_OK(session_read(session, train->loss.id, &out.loss[step]));
        CHECK_OK(session_run(session, PHASE_UPDATE));
    }
    for (int32_t i = 0; i < graph->n_params; i++) {
        const Param  *p = &graph->params[i];
        const int32_t ids[] = { p->value, p->m, p->v, p->ema, p->master };
        for (int j = 0; j < 5; j++)
            if (ids[j] >= 0)
                out.state = hash_value(out.state, session, ids[j], value_at(graph, ids[j])->bytes);
    }
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        /* validation and sampling did not run */
        if (session_measured_bytes(session, (Phase)phase))
            CHECK_INT(session_measured_bytes(session, (Phase)phase),
                      session_planned_bytes(session, (Phase)phase));
    CHECK_INT(session_measured_host_bytes(session), fit->engine->host_bytes);
    pool_free(pool);
    return out;
}

static void same(const Outcome *a, const Outcome *b)
{
    for (int i = 0; i < STEPS; i++)
        CHECK(a->loss[i] == b->loss[i]);
    CHECK(a->state == b->state);
}

/* On a GPU also with CUDA graphs of one lane: the same bits. */
static Outcome train(Pool *parent, const FitResult *fit)
{
    Outcome out = train_once(parent, fit, false);
    if (on_gpu()) {
        Outcome one = train_once(parent, fit, true);
        same(&one, &out);
    }
    return out;
}

static Recipe *small(Pool *pool, int batch, const char *precision, int accumulate, const char *clip)
{
    Recipe     *recipe;
    const char *sets[] = { pool_print(pool, "batch=%d", batch),
                           pool_print(pool, "precision=%s", precision),
                           pool_print(pool, "accumulate=%d", accumulate),
                           pool_print(pool, "optimizer.clip=%s", clip) };
    CHECK_OK(recipe_read(pool, SOURCE_DIR "/recipes/dit3d-small.yaml", sets, 4, &recipe));
    return recipe;
}

/* ---- state on the host ---- */

static void state_of(const char *precision, int accumulate, bool release,
                     const DeviceQueues *queues)
{
    Pool      *pool = pool_new(NULL, "state");
    Recipe    *recipe = small(pool, 2, precision, accumulate, release ? "0" : "1");
    Device    *device;
    FitResult  fit;
    FitOptions how = { .allow = ALLOW_NONE, .effort = EFFORT };
    Outcome    want = { 0 };
    int64_t    arena = 0, host = 0;
    CHECK_OK(host_device(pool, queues, 10, &device));
    recipe->levers.release = release;
    for (int level = HOST_NONE; level <= HOST_STATE; level++) {
        recipe->levers.host = level;
        copies_begun = 0;
        CHECK_OK(fit_plan(pool, recipe, device, &how, &fit));
        Outcome got = train(pool, &fit);
        if (level == HOST_NONE) {
            want = got;
            CHECK_INT(fit.engine->host_bytes, 0);
            CHECK_INT(copies_begun, 0);
        } else {
            same(&got, &want);
            CHECK(fit.engine->host_bytes > host);
            CHECK(fit.engine->arena_bytes < arena);
            CHECK(on_gpu() || copies_begun > 0);
            CHECK(fit.engine->persistent_bytes + fit.engine->host_bytes > 0);
        }
        host = fit.engine->host_bytes;
        arena = fit.engine->arena_bytes;
        printf("  %s x%d%s level %d: arena %lld, state %lld, host %lld\n", precision, accumulate,
               release ? " released" : "", level, (long long)arena,
               (long long)fit.engine->persistent_bytes, (long long)host);
    }
    pool_free(pool);
}

static void state_keeps_bits(void)
{
    state_of("fp32", 1, false, &late);
    state_of("fp32", 2, false, &early);
    state_of("bf16", 1, true, &late);
    state_of("fp32", 1, true, &early);
}

/* A machine with one memory does not offload. */
static void one_space(void)
{
    Pool      *pool = pool_new(NULL, "one");
    Recipe    *recipe = small(pool, 2, "fp32", 1, "0");
    Device    *device;
    FitResult  none, host_resident;
    FitOptions how = { .allow = ALLOW_NONE, .effort = EFFORT };
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 2, .backend = "builtin" }, &device));
    CHECK_OK(fit_plan(pool, recipe, device, &how, &none));
    recipe->levers.host = HOST_STATE;
    CHECK_OK(fit_plan(pool, recipe, device, &how, &host_resident));
    CHECK_INT(host_resident.engine->arena_bytes, none.engine->arena_bytes);
    CHECK_INT(host_resident.engine->host_bytes, 0);
    pool_free(pool);
}

/* ---- fit uses it ---- */

static int count_steps(const Engine *engine, StepKind kind)
{
    int n = 0;
    for (int p = 0; p < engine->n_programs; p++)
        for (int32_t s = 0; s < engine->programs[p].plan->n_steps; s++)
            n += engine->programs[p].plan->steps[s].kind == kind;
    return n;
}

/* Below what recomputation alone reaches, state becomes host-resident. The plan goes through a
 * file. */
static void fit_places_state(void)
{
    Pool      *pool = pool_new(NULL, "fit");
    Recipe    *recipe = small(pool, 2, "fp32", 1, "1");
    Device    *device;
    FitResult  keep, alone, min, fit, back;
    FitOptions how = { .allow = ALLOW_NONE, .effort = EFFORT };
    CHECK_OK(host_device(pool, &late, 10, &device));
    CHECK_OK(fit_plan(pool, recipe, device, &how, &keep));
    Outcome want = train(pool, &keep);
    how.budget_bytes = 1;
    CHECK_INT(fit_plan(pool, recipe, device, &how, &alone), E_BUDGET);
    CHECK_INT(fit_run(pool, recipe, device, &how, &min), E_BUDGET);
    CHECK(min.minimum_bytes < alone.minimum_bytes);
    printf("  everything kept %lld, minimum on the device alone %lld, with the host %lld\n",
           (long long)keep.default_bytes, (long long)alone.minimum_bytes,
           (long long)min.minimum_bytes);
    for (int i = 0; i < 3; i++) {
        how.budget_bytes = min.minimum_bytes + (alone.minimum_bytes - min.minimum_bytes) * i / 4;
        CHECK_OK(fit_run(pool, recipe, device, &how, &fit));
        if (!fit.fits)
            continue;
        CHECK(fit.engine->arena_bytes <= how.budget_bytes);
        CHECK(fit.recipe->levers.host != HOST_NONE);
        CHECK(fit.engine->host_bytes > 0);
        CHECK_OK(fit_write("host.plan.json", recipe, &fit));
        CHECK_OK(fit_read(pool, "host.plan.json", recipe, device, false, &back));
        CHECK_INT(back.engine->host_bytes, fit.engine->host_bytes);
        CHECK_NEAR(back.engine->cost_ns, fit.engine->cost_ns, 0.5);
        Outcome got = train(pool, &back);
        same(&got, &want);
    }
    /* A host with too little memory does not help. */
    device->host_bytes = 1 << 20;
    how.budget_bytes = min.minimum_bytes;
    CHECK_INT(fit_run(pool, recipe, device, &how, &fit), E_BUDGET);
    CHECK(fit.minimum_bytes > min.minimum_bytes);
    unlink("host.plan.json");
    pool_free(pool);
}

/* The minimum with a slow connection to the host: kernels wait for copies, and the bits stay the
 * same. */
static void copies_are_waited_for(void)
{
    Pool      *pool = pool_new(NULL, "waited");
    Recipe    *recipe = small(pool, 16, "fp32", 1, "1");
    Device    *device;
    FitResult  keep, fit;
    FitOptions how = { .allow = ALLOW_NONE, .effort = EFFORT };
    CHECK_OK(host_device(pool, &late, 1, &device));
    CHECK_OK(fit_plan(pool, recipe, device, &how, &keep));
    Outcome want = train(pool, &keep);
    if (on_gpu())
        device->to_host = device->to_device = 1;
    how.budget_bytes = 1;
    CHECK_INT(fit_plan(pool, recipe, device, &how, &fit), E_BUDGET);
    how.budget_bytes = fit.minimum_bytes;
    CHECK_OK(fit_plan(pool, recipe, device, &how, &fit));
    CHECK(fit.engine->offloaded > 0);
    Outcome got = train(pool, &fit);
    same(&got, &want);
    printf("  minimum %lld: arena %lld, %d values offloaded, %d recomputed, cost %.3g of %.3g\n",
           (long long)how.budget_bytes, (long long)fit.engine->arena_bytes, fit.engine->offloaded,
           fit.engine->recomputed, fit.engine->cost_ns, keep.engine->cost_ns);
    pool_free(pool);
}

/* A fast connection to the host: values are offloaded instead of recomputed. */
static void values_are_offloaded(void)
{
    static const DeviceQueues *const both[] = { &late, &early };
    Pool                            *pool = pool_new(NULL, "offloaded");
    Recipe                          *recipe = small(pool, 16, "fp32", 1, "1");
    Device                          *device, with[2];
    FitResult                        keep, fit, back;
    FitOptions                       how = { .allow = ALLOW_NONE, .effort = EFFORT };
    CHECK_OK(host_device(pool, &late, 1000, &device));
    CHECK_OK(fit_plan(pool, recipe, device, &how, &keep));
    Outcome want = train(pool, &keep);
    if (on_gpu())
        device->to_host = device->to_device = 1000;
    int64_t room = keep.default_bytes - keep.engine->persistent_bytes;
    for (int i = 0; i < 2; i++) {
        with[i] = *device;
        with[i].queues = on_gpu() ? device->queues : both[i];
        how.budget_bytes = keep.engine->persistent_bytes + room * (i ? 6 : 8) / 10;
        CHECK_OK(fit_plan(pool, recipe, &with[i], &how, &fit));
        CHECK(fit.engine->offloaded > 0);
        CHECK(count_steps(fit.engine, STEP_SAVE) == count_steps(fit.engine, STEP_LOAD));
        CHECK(fit.engine->host_bytes > 0);
        CHECK_OK(fit_write("offloaded.plan.json", recipe, &fit));
        CHECK_OK(fit_read(pool, "offloaded.plan.json", recipe, &with[i], false, &back));
        CHECK_INT(back.engine->host_bytes, fit.engine->host_bytes);
        Outcome got = train(pool, &back);
        same(&got, &want);
        printf("  budget %lld: arena %lld, %d values offloaded, %d recomputed, host %lld\n",
               (long long)how.budget_bytes, (long long)fit.engine->arena_bytes,
               fit.engine->offloaded, fit.engine->recomputed, (long long)fit.engine->host_bytes);
    }

    /* A file whose slots overlap is refused. */
    char  *text, *at;
    size_t n;
    CHECK_OK(file_read(pool, "offloaded.plan.json", &text, &n));
    at = strstr(text, "\"host_offsets\"");
    CHECK(at != NULL);
    if (at) {
        /* the second or third slot moves onto the first */
        at = strchr(strchr(at, ',') + 1, ',') + 1;
        for (; *at != ',' && *at != ']'; at++)
            if (*at >= '0' && *at <= '9')
                *at = '0';
        CHECK_OK(file_write("offloaded.plan.json", text, n));
        CHECK(fit_read(pool, "offloaded.plan.json", recipe, device, false, &back) != OK);
    }
    /* On a device with one memory, such a plan is refused with a message. */
    Device plain = *device;
    plain.to_host = plain.to_device = 0;
    CHECK_OK(fit_write("offloaded.plan.json", recipe, &fit));
    CHECK_INT(fit_read(pool, "offloaded.plan.json", recipe, &plain, false, &back), E_PLAN);
    CHECK(strstr(err_text(), "to the host") != NULL);
    unlink("offloaded.plan.json");
    pool_free(pool);
}

int main(void)
{
    RUN(state_keeps_bits);
    RUN(one_space);
    RUN(fit_places_state);
    RUN(values_are_offloaded);
    RUN(copies_are_waited_for);
    return test_end();
}
