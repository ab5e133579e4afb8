/* starts.c -- every starting tensor of every small recipe against a table (starts.txt): the kind of
 * its distribution, and its bound or deviation. */
#include "test.h"

#include "base/file.h"
#include "exec/session.h"
#include "recipe/recipe.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const recipes[] = { "unet-small",         "stdiff-small",    "stablesr-small",
                                       "stablesr-vae-small", "lag-small",       "sashimi-small",
                                       "dit3d-small",        "dit3d-wrap-small" };

typedef struct Row {
    char   recipe[64], name[128], kind[32];
    double a, b;
    int    numbers, used;
} Row;

static Row rows[128];
static int n_rows;

static void read_rows(void)
{
    char  line[512];
    FILE *file = fopen(SOURCE_DIR "/tests/models/starts.txt", "r");
    CHECK(file != NULL);
    while (file && fgets(line, sizeof line, file) && n_rows < 128) {
        Row *r = &rows[n_rows];
        int  n = sscanf(line, "%63s %127s %31s %lf %lf", r->recipe, r->name, r->kind, &r->a, &r->b);
        if (line[0] == '#' || n < 1)
            continue;
        CHECK(n >= 3);
        r->numbers = n - 3;
        n_rows++;
    }
    if (file)
        fclose(file);
    CHECK(n_rows > 50 && n_rows < 128);
}

typedef struct Moments {
    double mean, deviation, low, high, kurtosis;
    double n;
} Moments;

static Moments moments(const float *x, int64_t n)
{
    Moments m = { .low = (double)x[0], .high = (double)x[0], .n = (double)n };
    double  two = 0, four = 0;
    for (int64_t i = 0; i < n; i++) {
        m.mean += (double)x[i] / m.n;
        m.low = fmin(m.low, (double)x[i]);
        m.high = fmax(m.high, (double)x[i]);
    }
    for (int64_t i = 0; i < n; i++) {
        double d = (double)x[i] - m.mean;
        two += d * d / m.n;
        four += d * d * d * d / m.n;
    }
    m.deviation = sqrt(two);
    m.kurtosis = two > 0 ? four / (two * two) : 0;
    return m;
}

/* Random numbers with this deviation, kurtosis and bound. Six deviations of the estimates' own
 * spread: some 2,000 tensors are looked at. */
static void check_spread(Moments m, double deviation, double kurtosis, double bound)
{
    double spread = sqrt((kurtosis - 1) / 4 / m.n);
    CHECK_NEAR(m.mean, 0, 6 * deviation / sqrt(m.n));
    CHECK(m.low >= -bound * (1 + 1e-6) && m.high <= bound * (1 + 1e-6));
    if (m.n < 32) { /* too few for more than their bounds, and that they are not all the same */
        CHECK(m.n < 2 || m.deviation > 0);
        return;
    }
    CHECK_NEAR(m.deviation / deviation, 1, 6 * spread + 3 / m.n);
    if (m.n >= 2000) /* the kinds differ: uniform 1.8, truncated 2.37, normal 3 */
        CHECK_NEAR(m.kurtosis, kurtosis, 6 * sqrt(24 / m.n));
}

static void check_uniform(Moments m, double bound) { check_spread(m, bound / sqrt(3), 1.8, bound); }

static void check_constant(Moments m, double value)
{
    CHECK_NEAR(m.low, value, 1e-6);
    CHECK_NEAR(m.high, value, 1e-6);
}

/* PyTorch's fans by a weight's shape on disk: (out, in, taps...). */
static double fan(const Param *p, int axis)
{
    return (double)shape_count(p->disk) / (double)p->disk.dim[!axis];
}

/* The weight of the layer that a bias belongs to, or the parameter itself. */
static const Param *weight_of(Pool *pool, Graph *graph, const Param *p)
{
    size_t length = strlen(p->name);
    if (length < 5 || strcmp(p->name + length - 5, ".bias") != 0)
        return p;
    char  *stem = pool_print(pool, "%.*s", (int)length - 5, p->name);
    Param *w = param_find(graph, pool_print(pool, "%s.weight", stem));
    return w ? w : param_find(graph, pool_print(pool, "%s.weight_v", stem));
}

static void check_torch(Pool *pool, Graph *graph, const Param *p, Moments m, double factor)
{
    const Param *w = weight_of(pool, graph, p);
    CHECK(w != NULL);
    if (w && w->disk.rank > 1)
        check_uniform(m, factor / sqrt(fan(w, 1)));
    else
        check_constant(m, w == p ? 1 : 0);
}

static void check_row(Pool *pool, Graph *graph, const Param *p, const Row *r, Moments m)
{
    static const char *const kinds[] = { "zeros",     "ones",  "constant", "uniform", "normal",
                                         "truncated", "torch", "xavier",   "kaiming", "within" };
    int                      kind = 0;
    while (kind < 10 && strcmp(r->kind, kinds[kind]) != 0)
        kind++;
    switch (kind) {
    case 0: check_constant(m, 0); break;
    case 1: check_constant(m, 1); break;
    case 2: check_constant(m, r->a); break;
    case 3: check_uniform(m, r->a); break;
    case 4: check_spread(m, r->a, 3, 8 * r->a); break;
    case 5: check_spread(m, r->a, 2.3684, 2.27370 * r->a); break;
    case 6: check_torch(pool, graph, p, m, r->numbers ? r->a : 1); break;
    case 7: check_uniform(m, sqrt(6 / (fan(p, 0) + fan(p, 1)))); break;
    case 8: check_spread(m, sqrt(2 / fan(p, 0)), 3, 8 * sqrt(2 / fan(p, 0))); break;
    case 9: CHECK(r->numbers == 2 && m.low >= r->a && m.high <= r->b); break;
    default: CHECK(!"a kind that the table knows");
    }
}

static void check_recipe(const char *name)
{
    Pool         *pool = pool_new(NULL, "starts");
    Recipe       *recipe;
    TrainingGraph train = { 0 };
    const char   *path = pool_print(pool, SOURCE_DIR "/recipes/%s.yaml", name);
    const char   *set = "batch=1";
    CHECK_OK(recipe_read(pool, path, &set, 1, &recipe));
    CHECK_OK(recipe_graph(pool, recipe, false, &train));
    CHECK(train.graph->n_params > 0);
    for (int32_t i = 0; i < train.graph->n_params; i++) {
        const Param *p = &train.graph->params[i];
        Pool        *one = pool_new(pool, "tensor");
        float       *data = NEWN(one, float, shape_count(p->disk));
        int          r = 0;
        while (r < n_rows && (strcmp(rows[r].recipe, name) || fnmatch(rows[r].name, p->name, 0)))
            r++;
        test_name = pool_print(pool, "%s %s", name, p->name);
        CHECK(r < n_rows); /* else it has no row */
        param_start(p, 7, data);
        if (r < n_rows) {
            rows[r].used++;
            check_row(one, train.graph, p, &rows[r], moments(data, shape_count(p->disk)));
        }
        pool_free(one);
    }
    test_name = "starts";
    pool_free(pool);
}

static void starts(void)
{
    read_rows();
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        check_recipe(recipes[i]);
    for (int r = 0; r < n_rows; r++) {
        test_name = rows[r].name;
        CHECK(rows[r].used > 0); /* else the row is of no tensor any more */
    }
}

int main(void)
{
    RUN(starts);
    return test_end();
}
