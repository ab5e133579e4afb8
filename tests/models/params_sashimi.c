/* params_sashimi.c -- the SaShiMi recipes: names, shapes and counts of the parameters, which have
 * the slow learning rate, starting values, and lengths that must be refused. */
#include "params_list.h"

#include "exec/session.h"
#include "models/sashimi.h"
#include "ops/s4/s4_step.h"
#include "recipe/recipe.h"

#include <stdlib.h>

static const struct {
    const char *recipe, *set;
    int64_t     count, slow; /* slow: 192 numbers per layer, and dt of each channel */
    bool        listed;      /* in tests/models/params */
} rows[] = {
    { "sashimi-24576", NULL, 4735602, 24 * 192 + 8 * 448, true },
    { "sashimi-24576", "model.bits=16", 8913522, 24 * 192 + 8 * 448, false },
    { "sashimi-24576", "model.head=categorical", 4735602 + 238 * 65, 24 * 192 + 8 * 448, false },
    { "sashimi-24576-lean", NULL, 3638228, 18 * 192 + 6 * 448, false },
    { "sashimi-small", NULL, 382954, 6 * 192 + 2 * 224, false },
};

static Recipe *recipe_named(Pool *pool, const char *name, const char *const *sets, int n)
{
    Recipe *recipe = NULL;
    CHECK_OK(
        recipe_read(pool, pool_print(pool, SOURCE_DIR "/recipes/%s.yaml", name), sets, n, &recipe));
    return recipe;
}

static void recipes(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Pool         *pool = pool_new(NULL, "params");
        TrainingGraph train;
        int64_t       count = 0, slow = 0;
        CHECK_OK(recipe_graph(pool,
                              recipe_named(pool, rows[i].recipe, &rows[i].set, rows[i].set != NULL),
                              false, &train));
        for (int32_t p = 0; p < train.graph->n_params; p++) {
            const Param *param = &train.graph->params[p];
            CHECK(param->trained);
            count += shape_count(param->disk);
            slow += param->group == 0 ? shape_count(param->disk) : 0;
        }
        CHECK_INT(count, rows[i].count);
        CHECK_INT(slow, rows[i].slow);
        CHECK_NEAR(train.groups[0].lr, 1e-3, 1e-9);
        CHECK_NEAR(train.groups[1].lr, 4e-3, 1e-9);
        if (rows[i].listed)
            params_compare(train.graph, rows[i].recipe);
        pool_free(pool);
    }
}

/* S4's parameters are fp32 in every precision; the others are rounded and have master copies. */
static void precisions(void)
{
    const char   *set = "precision=bf16";
    Pool         *pool = pool_new(NULL, "params");
    TrainingGraph train;
    CHECK_OK(recipe_graph(pool, recipe_named(pool, "sashimi-small", &set, 1), false, &train));
    for (int32_t p = 0; p < train.graph->n_params; p++) {
        const Param *param = &train.graph->params[p];
        bool exact = strstr(param->name, ".kernel.") || strstr(param->name, "layer.layer.D") ||
                     strstr(param->name, "norm.norm.");
        test_name = param->name;
        CHECK_INT(value_at(train.graph, param->value)->type, exact ? F32 : BF16);
        CHECK_INT(param->master >= 0, !exact);
    }
    pool_free(pool);
}

/* ---- starting values ---- */

static Session *session_of(Pool *pool, uint64_t seed)
{
    static const char *const sets[] = { "model.length=192", "batch=1" };
    TrainingGraph            train;
    Device                  *device;
    Engine                  *engine;
    Session                 *session = NULL;
    CHECK_OK(recipe_graph(pool, recipe_named(pool, "sashimi-small", sets, 2), false, &train));
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 1 }, &device));
    CHECK_OK(engine_new(pool, train.graph, device, NULL, &engine));
    CHECK_OK(session_new(pool, engine, &session));
    CHECK_OK(session_init(session, seed));
    return session;
}

static float *start_of(Pool *pool, Session *session, const char *name, int64_t *n)
{
    Graph *graph = session_engine(session)->graph;
    Param *p = param_find(graph, name);
    REQUIRE(p != NULL);
    *n = shape_count(p->disk);
    float *data = NEWN(pool, float, *n);
    session_get_param(session, (int32_t)(p - graph->params), p->value, data);
    return data;
}

static void moments(const float *x, int64_t n, double *mean, double *deviation)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i];
    *mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++)
        squares += pow((double)x[i] - *mean, 2);
    *deviation = sqrt(squares / (double)n);
}

#define KERNEL "model.u_layers.1.1.layer.layer.kernel."

static void starts(void)
{
    Pool    *pool = pool_new(NULL, "starts");
    Session *session = session_of(pool, 3), *other = session_of(pool, 4);
    double   mean, deviation;
    int64_t  n, rows_n;

    float *x = start_of(pool, session, "encoder.0.embedding.weight", &n);
    moments(x, n, &mean, &deviation);
    CHECK_NEAR(mean, 0, 0.02);
    CHECK_NEAR(deviation, 1 / sqrt(32), 0.01);

    float *g = start_of(pool, session, "model.d_layers.0.linear.weight_g", &rows_n);
    float *v = start_of(pool, session, "model.d_layers.0.linear.weight_v", &n);
    for (int64_t r = 0; r < rows_n; r++) {
        double sum = 0;
        for (int64_t i = 0; i < n / rows_n; i++)
            sum += pow((double)v[r * (n / rows_n) + i], 2);
        CHECK_NEAR(g[r], sqrt(sum), 1e-6);
        CHECK(fabs((double)v[r]) <= 1 / sqrt(128));
    }

    float *inv_dt = start_of(pool, session, KERNEL "inv_dt", &n);
    for (int64_t i = 0; i < n; i++) {
        double dt = log1p(exp((double)inv_dt[i]));
        CHECK(dt > 0.99e-3 && dt < 1.01e-1);
    }
    moments(inv_dt, n, &mean, &deviation);
    CHECK(deviation > 0.5); /* log-uniform over two decades: 1.33 */

    /* LegS: the real part is -1/2, the imaginary parts are those of size 64, largest first. */
    float *a_real = start_of(pool, session, KERNEL "A_real", &n),
          *a_imag = start_of(pool, session, KERNEL "A_imag", &n);
    CHECK_INT(n, 32);
    for (int64_t i = 0; i < n; i++) {
        CHECK_NEAR(a_real[i], log(0.5), 1e-6);
        CHECK(a_imag[i] > 0 && (i == 0 || a_imag[i] < a_imag[i - 1]));
    }
    CHECK_NEAR(a_imag[0], 1303.2738, 1e-3); /* by LAPACK, tests/ref/sashimi.py hippo_legs(64) */
    CHECK_NEAR(a_imag[31], 0.263857, 1e-6);

    /* C~ undone is N(0,1), complex; another seed gives another. */
    int64_t channels, pairs = 32;
    float  *b = start_of(pool, session, KERNEL "B", &n),
          *p = start_of(pool, session, KERNEL "P", &n);
    float *c = start_of(pool, session, KERNEL "C", &n), *c2 = start_of(pool, other, KERNEL "C", &n);
    CHECK_NEAR(hypot(b[0], b[1]), 2.0001, 1e-3); /* its imaginary part is clipped to 2 */
    CHECK_NEAR(hypot(p[0], p[1]), 28.8159, 1e-3);
    start_of(pool, session, KERNEL "inv_dt", &channels);
    CHECK(memcmp(c, c2, (size_t)n * 4) != 0);
    float *plain = NEWN(pool, float, n);
    CHECK_OK(
        s4_c_recover(&(S4Params){ channels, pairs, inv_dt, c, b, p, a_real, a_imag }, 192, plain));
    moments(plain, n, &mean, &deviation);
    CHECK_NEAR(mean, 0, 0.06);
    CHECK_NEAR(deviation, sqrt(0.5), 0.04);
    pool_free(pool);
}

/* ---- settings that must be refused ---- */

static void cannot_be(void)
{
    static const struct {
        const char *set, *says;
    } wrong[] = {
        /* 16 * 7 */
        { "model.length=24577", "24576" },
        { "model.length=112", "such as 96" },
        { "model.length=120", "such as 128" },
        { "model.length=5", "such as 16" },
        { "model.length=1", "such as 16" },
        { "model.length=176", "such as 160" },
        /* 16 * 11 */
        { "model.length=0", "model.length" },
        { "model.state=63", "even" },
        { "model.components=33", "components" },
        { "model.bits=17", "bits" },
        { "model.width=1", "width" },
        { "model.head=softmax", "head" },
        { "model.lenght=64", "length" },
        { "model.channels=3", "channels" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Pool   *pool = pool_new(NULL, "wrong");
        Recipe *recipe;
        test_name = wrong[i].set;
        CHECK_INT(
            recipe_read(pool, SOURCE_DIR "/recipes/sashimi-small.yaml", &wrong[i].set, 1, &recipe),
            E_USAGE);
        if (!CHECK(strstr(err_text(), wrong[i].says) != NULL))
            fprintf(stderr, "  said: %s\n", err_text());
        pool_free(pool);
    }
    /* Every length that a message suggests is valid. */
    for (int64_t length = 1; length < 700; length++) {
        Pool       *pool = pool_new(NULL, "near");
        const char *set = pool_print(pool, "model.length=%lld", (long long)length), *said;
        Recipe     *recipe;
        if (recipe_read(pool, SOURCE_DIR "/recipes/sashimi-small.yaml", &set, 1, &recipe)) {
            said = strstr(err_text(), "such as ");
            REQUIRE(said != NULL);
            set = pool_print(pool, "model.length=%s", said + 8);
            CHECK_OK(recipe_read(pool, SOURCE_DIR "/recipes/sashimi-small.yaml", &set, 1, &recipe));
        }
        pool_free(pool);
    }
}

int main(void)
{
    RUN(recipes);
    RUN(precisions);
    RUN(starts);
    RUN(cannot_be);
    return test_end();
}
