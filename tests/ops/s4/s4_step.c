/* s4_step.c -- the recurrent form of S4 against its convolution kernel; conversions of C; initial
 * parameters. */
#include "profile/devices.h"
#include "test.h"

#include "base/random.h"
#include "ops/ops.h"
#include "ops/s4/s4_init.h"
#include "ops/s4/s4_kernel.h"
#include "ops/s4/s4_step.h"

#include <stdlib.h>

typedef struct Layer {
    S4Params params;
    float   *inv_dt, *c, *b, *p, *a_real, *a_imag;
} Layer;

static Layer layer_new(Pool *pool, int64_t channels, int64_t pairs)
{
    Layer layer = { .inv_dt = NEWN(pool, float, channels),
                    .c = NEWN(pool, float, 2 * channels * pairs),
                    .b = NEWN(pool, float, 2 * pairs),
                    .p = NEWN(pool, float, 2 * pairs),
                    .a_real = NEWN(pool, float, pairs),
                    .a_imag = NEWN(pool, float, pairs) };
    s4_init(pairs, layer.a_real, layer.a_imag, layer.b, layer.p);
    for (int64_t h = 0; h < channels; h++) { /* dt log-uniform in [1e-3, 1e-1] */
        double u = channels > 1 ? (double)h / (double)(channels - 1) : 0.5;
        layer.inv_dt[h] = (float)log(expm1(1e-3 * pow(100, u)));
    }
    for (int64_t i = 0; i < 2 * channels * pairs; i++)
        layer.c[i] = random_normal_at((RandomKey){ .seed = 11 }, (uint64_t)i);
    layer.params = (S4Params){ channels, pairs,   layer.inv_dt, layer.c,
                               layer.b,  layer.p, layer.a_real, layer.a_imag };
    return layer;
}

/* K (length, channels) by the operator. */
static float *kernel(Pool *pool, const Layer *layer, int64_t length)
{
    int64_t      h = layer->params.channels, n = layer->params.pairs;
    Graph       *graph = graph_new(pool, F32);
    const float *data[S4_PARAMS] = { layer->inv_dt, layer->c,      layer->b,
                                     layer->a_real, layer->a_imag, layer->p };
    Shape        shape[S4_PARAMS] = { SHAPE(h, 1), SHAPE(1, h, n, 2), SHAPE(1, 1, n, 2),
                                      SHAPE(1, n), SHAPE(1, n),       SHAPE(1, 1, n, 2) };
    Tensor       t[S4_PARAMS];
    for (int i = 0; i < S4_PARAMS; i++)
        t[i] = constant_add(graph, (char[2]){ (char)('a' + i), 0 }, F32, shape[i], data[i],
                            CLASS_CONSTANTS);
    Tensor  y = s4_kernel(t[0], t[1], t[2], t[3], t[4], t[5], length);
    Device *device;
    CHECK_OK(graph_check(graph));
    CHECK_OK(device_cpu(pool, &(DeviceOptions){ .threads = 2, .backend = "builtin" }, &device));
    const Node *node = &graph->nodes[value_at(graph, y.id)->producer];
    void       *in[S4_PARAMS + 2];
    for (int i = 0; i < node->n_in; i++)
        for (int32_t j = 0; j < graph->n_constants; j++)
            if (graph->constants[j].value == node->in[i])
                in[i] = (void *)(uintptr_t)graph->constants[j].data;
    Choice choice = { 0 };
    float *out = NEWN(pool, float, (h * length));
    CHECK_OK(node->op->cpu.choose(node, device, &choice));
    char *room = pool_alloc(pool, choice.workspace_bytes + 64, 1);
    room += 64 - (uintptr_t)room % 64;
    CHECK_OK(node->op->cpu.run(&(Call){ .node = node,
                                        .device = device,
                                        .choice = &choice,
                                        .in = in,
                                        .out = (void *[]){ out },
                                        .workspace = room }));
    return out;
}

static double distance(const float *a, const float *b, int64_t n) /* relative to b */
{
    double apart = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        apart += pow((double)a[i] - (double)b[i], 2);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(apart / size);
}

/* The response of the recurrence to u, the same input for all channels. */
static float *response(Pool *pool, const Layer *layer, int64_t stored, const float *u,
                       int64_t samples)
{
    int64_t h = layer->params.channels;
    S4Step *step;
    CHECK_OK(s4_step_new(pool, &layer->params, stored, &step));
    double *state = NEWN(pool, double, s4_state_count(step)), *sums = NEWN(pool, double, h);
    float  *y = NEWN(pool, float, (samples * h)), *row = NEWN(pool, float, h);
    for (int64_t l = 0; l < samples; l++) {
        for (int64_t i = 0; i < h; i++)
            row[i] = u[l];
        s4_step(step, state, sums, row, y + l * h);
    }
    return y;
}

static void impulse(void)
{
    static const int64_t sizes[][3] = {
        { 5, 32, 1000 }, { 18, 4, 64 }, { 1, 1, 10 }, { 3, 16, 4096 }, { 2, 3, 45 }
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        Pool   *pool = pool_new(NULL, "test");
        int64_t length = sizes[i][2];
        Layer   layer = layer_new(pool, sizes[i][0], sizes[i][1]);
        float  *u = NEWN(pool, float, length);
        u[0] = 1;
        float *plain = response(pool, &layer, 0, u, length); /* from C itself */
        s4_c_store(&layer.params, length, layer.c);
        float *k = kernel(pool, &layer, length), *y = response(pool, &layer, length, u, length);
        CHECK_NEAR(distance(y, k, length * sizes[i][0]), 0, 1e-5);
        CHECK_NEAR(distance(y, plain, length * sizes[i][0]), 0, 1e-5);
        pool_free(pool);
    }
}

static void any_input(void)
{
    Pool   *pool = pool_new(NULL, "test");
    int64_t length = 240;
    Layer   layer = layer_new(pool, 3, 32);
    float  *u = NEWN(pool, float, length), *want = NEWN(pool, float, 3 * length);
    random_normals((RandomKey){ .seed = 3 }, 0, length, u);
    s4_c_store(&layer.params, length, layer.c);
    float *k = kernel(pool, &layer, length);
    for (int64_t l = 0; l < length; l++)
        for (int64_t h = 0; h < 3; h++) {
            double sum = 0;
            for (int64_t j = 0; j <= l; j++)
                sum += (double)k[(l - j) * 3 + h] * (double)u[j];
            want[l * 3 + h] = (float)sum;
        }
    CHECK_NEAR(distance(response(pool, &layer, length, u, length), want, 3 * length), 0, 1e-5);
    pool_free(pool);
}

static void lengths(void)
{
    Pool   *pool = pool_new(NULL, "test");
    Layer   layer = layer_new(pool, 4, 32);
    int64_t count = 2 * 4 * 32;
    float  *first = memcpy(NEWN(pool, float, count), layer.c, (size_t)count * sizeof(float));
    float  *back = NEWN(pool, float, count);
    s4_c_store(&layer.params, 400, layer.c);
    CHECK_OK(s4_c_recover(&layer.params, 400, back));
    CHECK_NEAR(distance(back, first, count), 0, 1e-4);
    float *shorter = kernel(pool, &layer, 400);
    CHECK_OK(s4_c_convert(&layer.params, 400, 900, layer.c));
    float *longer = kernel(pool, &layer, 900);
    CHECK_NEAR(distance(longer, shorter, 4 * 400), 0, 1e-5); /* the same kernel, continued */
    CHECK_OK(s4_c_convert(&layer.params, 900, 400, layer.c));
    CHECK_NEAR(distance(kernel(pool, &layer, 400), shorter, 4 * 400), 0, 1e-5);
    pool_free(pool);
}

static void singular(void) /* a pole at 0: Abar = 1, and nothing undoes C (1 - 1) */
{
    float inv_dt = 0, c[2] = { 1, 1 }, b[2] = { 1, 0 }, p[2] = { 0, 0 }, a_real = -200, a_imag = 0;
    S4Params params = { 1, 1, &inv_dt, c, b, p, &a_real, &a_imag };
    CHECK_INT(s4_c_recover(&params, 8, c), E_NUMBER);
    CHECK(strstr(err_text(), "channel 0") != NULL);
    CHECK_NEAR(c[0], 1, 0); /* left as it was */
}

/* V is unitary: sums of |P|^2 times powers of the eigenvalues are those of Ph and S. */
static void hippo(void)
{
    for (int64_t pairs = 1; pairs <= 32; pairs += pairs < 4 ? 1 : 7) {
        int64_t n = 2 * pairs;
        float   a_real[32], a_imag[32], b[64], p[64];
        double  x[64], next[64], squares[3] = { 0 }, want[3] = { 0 };
        s4_init(pairs, a_real, a_imag, b, p);
        for (int64_t i = 0; i < pairs; i++) {
            double size = (double)p[2 * i] * (double)p[2 * i] +
                          (double)p[2 * i + 1] * (double)p[2 * i + 1];
            for (int power = 0; power < 3; power++)
                squares[power] += 2 * size * pow((double)a_imag[i], 2 * power);
            CHECK_NEAR(a_real[i], log(0.5), 1e-6);
            CHECK(a_imag[i] > 0 && (i == 0 || a_imag[i] < a_imag[i - 1]));
            CHECK_NEAR(b[2 * i], sqrt(2) * (double)p[2 * i], 1e-5);
            CHECK_NEAR(b[2 * i + 1], fmax(-2, fmin(2, sqrt(2) * (double)p[2 * i + 1])), 1e-5);
        }
        for (int64_t i = 0; i < n; i++)
            x[i] = sqrt((double)i + 0.5);
        for (int power = 0; power < 3; power++) {
            for (int64_t i = 0; i < n; i++)
                want[power] += x[i] * x[i];
            for (int64_t i = 0; i < n; i++) {
                next[i] = 0;
                for (int64_t k = 0; k < n; k++)
                    next[i] += (k < i   ? -0.5
                                : k > i ? 0.5
                                        : 0) *
                               sqrt((double)((2 * i + 1) * (2 * k + 1))) * x[k];
            }
            memcpy(x, next, sizeof x);
            CHECK_NEAR(squares[power] / want[power], 1, 1e-5);
        }
    }
    float a_imag[32], b[64];
    s4_init(32, NULL, a_imag, b, NULL);
    CHECK_NEAR(a_imag[0], 1303.2738, 1e-3); /* LAPACK's */
    CHECK_NEAR(a_imag[31], 0.2639, 1e-4);
    CHECK_NEAR(b[62], 0.5258, 1e-4);
    CHECK_NEAR(b[63], 0.2775, 1e-4);
}

static void refusals(void)
{
    Pool  *pool = pool_new(NULL, "test");
    Graph *graph = graph_new(pool, F32);
    Tensor x = constant_add(graph, "x", F32, SHAPE(2, 1), NULL, CLASS_CONSTANTS);
    Tensor c = constant_add(graph, "c", F32, SHAPE(1, 2, 3, 2), NULL, CLASS_CONSTANTS);
    s4_kernel(x, c, x, x, x, x, 22);
    CHECK_INT(graph_check(graph), E_SHAPE);
    CHECK(strstr(err_text(), "length 22") && strstr(err_text(), "is 20"));
    graph = graph_new(pool, F32);
    x = constant_add(graph, "x", BF16, SHAPE(2, 1), NULL, CLASS_CONSTANTS);
    c = constant_add(graph, "c", F32, SHAPE(1, 2, 3, 2), NULL, CLASS_CONSTANTS);
    s4_kernel(x, c, x, x, x, x, 24);
    CHECK_INT(graph_check(graph), E_SHAPE);
    CHECK(strstr(err_text(), "inv_dt is bf16") != NULL);
    graph = graph_new(pool, F32);
    x = constant_add(graph, "x", F32, SHAPE(2, 1), NULL, CLASS_CONSTANTS);
    c = constant_add(graph, "c", F32, SHAPE(1, 2, 3, 2), NULL, CLASS_CONSTANTS);
    s4_kernel(x, c, x, x, x, x, 24);
    CHECK_INT(graph_check(graph), E_SHAPE);
    CHECK(strstr(err_text(), "B must be (1,1,3,2), not (2,1)") != NULL);
    pool_free(pool);
}

int main(void)
{
    RUN(impulse);
    RUN(any_input);
    RUN(lengths);
    RUN(singular);
    RUN(hippo);
    RUN(refusals);
    return test_end();
}
