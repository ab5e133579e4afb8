/* unet.c -- a small denoising U-Net: the simplest system, and the first to read.
 *
 *   x (B,H,W,C) images in [-1,1],  t (B) timesteps  ->  mean squared error of the predicted noise
 *
 * Ho et al. (2020): residual blocks with group norm and a time embedding, self-attention at the
 * lowest resolution, skips joined by channel concat. Weight names follow tests/ref/unet.py. */
#include "models/ddim.h"
#include "models/layers.h"

#include <math.h>

typedef struct Unet {
    int64_t height, width, channels;
    Ints    widths; /* channels of each level */
    int64_t groups, heads, timesteps;
} Unet;

/* clang-format off */
static const Field unet_fields[] = {
    { "height",    FIELD_INT,  offsetof(Unet, height),    4, 4096, NULL, NULL, "image height" },
    { "width",     FIELD_INT,  offsetof(Unet, width),     4, 4096, NULL, NULL, "image width" },
    { "channels",  FIELD_INT,  offsetof(Unet, channels),  1, 64, NULL, NULL, "image channels" },
    { "widths",    FIELD_INTS, offsetof(Unet, widths),    1, 4096, NULL, NULL,
      "channels of each level" },
    { "groups",    FIELD_INT,  offsetof(Unet, groups),    1, 512, NULL, NULL,
      "groups of the group norms" },
    { "heads",     FIELD_INT,  offsetof(Unet, heads),     1, 64, NULL, NULL, "attention heads" },
    { "timesteps", FIELD_INT,  offsetof(Unet, timesteps), 1, 5000, NULL, NULL,
      "timesteps of the diffusion" },
    { 0 }
};
/* clang-format on */

static const Unet unet_defaults = {
    .height = 16,
    .width = 16,
    .channels = 3,
    .widths = { { 32, 64 }, 2 },
    .groups = 8,
    .heads = 4,
    .timesteps = 1000,
};

static Err unet_check(const void *config)
{
    const Unet *m = config;
    if (m->widths.n < 1)
        return fail(E_USAGE, "model.widths is empty; give the channels of at least one level");
    int64_t deepest = m->widths.at[m->widths.n - 1], scale = (int64_t)1 << (m->widths.n - 1);
    for (int i = 0; i < m->widths.n; i++)
        if (m->widths.at[i] % m->groups)
            return fail(E_USAGE, "model.widths: %lld channels do not divide into %lld groups",
                        (long long)m->widths.at[i], (long long)m->groups);
    if (deepest % m->heads)
        return fail(E_USAGE, "model.heads: %lld channels do not divide into %lld heads",
                    (long long)deepest, (long long)m->heads);
    if (m->height % scale || m->width % scale)
        return fail(E_USAGE, "model.height and model.width must be multiples of %lld for %d levels",
                    (long long)scale, m->widths.n);
    return OK;
}

static Tensor unet_block(const char *name, Tensor x, Tensor time, int64_t width, const Unet *m)
{
    Layer norm = { .groups = (int)m->groups, .eps = 1e-5f };
    scope_open(x.graph, "%s", name);
    Tensor h = conv2d("conv1", norm_act("norm1", x, norm, NORM_SILU), width, 3, 1, 1, (Layer){ 0 });
    h = add_rows(h, linear("time", silu(time), width, (Layer){ 0 }));
    h = conv2d("conv2", norm_act("norm2", h, norm, NORM_SILU), width, 3, 1, 1,
               (Layer){ .zero = true });
    x = residual("shortcut", x, h);
    scope_close(x.graph);
    return x;
}

static Tensor unet_attention(const char *name, Tensor x, const Unet *m)
{
    int64_t width = dim(tensor_shape(x), -1);
    scope_open(x.graph, "%s", name);
    Tensor h = norm_act("norm", x, (Layer){ .groups = (int)m->groups, .eps = 1e-5f }, NORM_LINEAR);
    h = attention_qkv(linear("qkv", h, 3 * width, (Layer){ 0 }), (int)m->heads, NULL);
    x = linear("proj", h, width, (Layer){ .zero = true, .onto = x });
    scope_close(x.graph);
    return x;
}

static Tensor unet_predict(Tensor x, Tensor t, const Unet *m)
{
    int64_t base = m->widths.at[0], deepest = m->widths.at[m->widths.n - 1];
    Graph  *g = x.graph;
    Tensor  skips[FIELD_MAX_INTS];
    Tensor  time = linear("time.0", time_embedding(t, base, 10000), 4 * base, (Layer){ 0 });
    time = linear("time.2", silu(time), 4 * base, (Layer){ 0 });

    Tensor h = conv2d("conv_in", x, base, 3, 1, 1, (Layer){ 0 });
    for (int i = 0; i < m->widths.n; i++) {
        scope_open(g, "down.%d", i);
        h = skips[i] = skip(unet_block("block", h, time, m->widths.at[i], m));
        if (i + 1 < m->widths.n)
            h = conv2d("down", h, m->widths.at[i], 3, 2, 1, (Layer){ 0 });
        scope_close(g);
    }
    scope_open(g, "mid");
    h = unet_block("block1", h, time, deepest, m);
    h = unet_attention("attention", h, m);
    h = unet_block("block2", h, time, deepest, m);
    scope_close(g);
    for (int i = m->widths.n - 1; i >= 0; i--) {
        scope_open(g, "up.%d", i);
        h = concat2(h, skips[i]);
        h = unet_block("block", h, time, m->widths.at[i], m);
        if (i > 0)
            h = conv2d_up("up", h, 2, m->widths.at[i]);
        scope_close(g);
    }
    h = norm_act("norm_out", h, (Layer){ .groups = (int)m->groups, .eps = 1e-5f }, NORM_SILU);
    return conv2d("conv_out", h, m->channels, 3, 1, 1, (Layer){ .zero = true });
}

static Tensor unet_loss(Graph *g, const void *config, int64_t batch, int64_t share)
{
    const Unet *m = config;
    Shape       shape = SHAPE(batch, m->height, m->width, m->channels);
    Tensor      x = feed(g, "x", F32, shape);
    Tensor      t = noise_steps(g, "t", SHAPE(batch), m->timesteps);
    Tensor      noise = noise_normal(g, "noise", shape);
    Tensor      noisy = q_sample(x, noise, schedule_linear(g, m->timesteps, 1e-4, 0.02), t);
    Tensor      predicted = unet_predict(noisy, t, m);
    if (g->build->given_noise) /* for comparison with another program */
        graph_output(predicted, "output");
    return mse_loss(predicted, noise, 1.0f / (float)share);
}

/* ---- sampling ---- */

static void unet_sample_graph(Graph *g, const void *config, const SamplerConfig *sampler, int64_t n)
{
    const Unet *m = config;
    Phase       phase = g->phase;
    (void)sampler;
    g->phase = PHASE_SAMPLE;
    Tensor x = feed(g, "x", F32, SHAPE(n, m->height, m->width, m->channels)),
           t = feed(g, "t", I32, SHAPE(n));
    graph_output(unet_predict(x, t, m), "noise");
    g->phase = phase;
}

static Err unet_check_sampler(const void *config, const SamplerConfig *sampler)
{
    (void)config;
    return sampler_check(sampler, "unet", SAMPLERS_DENOISING, false);
}

/* DDPM (Ho et al. 2020, equation 7), from level `now` to `next`; z NULL: the last step. */
static void unet_ddpm(float *x, const float *noise, const float *z, int64_t count, double now,
                      double next)
{
    double beta = 1 - now / next, added = sqrt(beta * (1 - next) / (1 - now));
    double of_clean = sqrt(next) * beta / (1 - now),
           of_x = sqrt(now / next) * (1 - next) / (1 - now);
    for (int64_t i = 0; i < count; i++) {
        double clean = ((double)x[i] - sqrt(1 - now) * (double)noise[i]) / sqrt(now);
        x[i] = (float)(of_clean * fmin(fmax(clean, -1), 1) + of_x * (double)x[i] +
                       (z ? added * (double)z[i] : 0));
    }
}

/* A chain over respaced times; the predicted image is clipped to [-1,1]. */
static Err unet_sample(Sampler *s, const void *config, SampleResult *result)
{
    const Unet *m = config;
    int64_t     steps = s->config->steps ? s->config->steps : m->timesteps;
    Shape       shape = SHAPE(s->n, m->height, m->width, m->channels);
    int64_t     count = shape_count(shape);
    TRY(unet_check_sampler(m, s->config));
    TRY(sampler_steps_check("unet", steps, m->timesteps));
    const double *bar = alpha_bar_table(s->pool, NOISE_LINEAR, m->timesteps, 1e-4, 0.02);
    float        *x = (s->feed)(s, "x"), *z = NEWN(s->pool, float, count);
    int32_t      *times = (s->feed)(s, "t");
    s->normal(s, "x", 0, x, count);
    for (int64_t k = steps - 1; k >= 0 && !s->dry; k--) {
        int64_t t = respaced_time(m->timesteps, steps, k);
        double  now = bar[t], next = k ? bar[respaced_time(m->timesteps, steps, k - 1)] : 1;
        for (int64_t i = 0; i < s->n; i++)
            times[i] = (int32_t)t;
        TRY(s->run(s, PHASE_SAMPLE));
        const float *noise = s->output(s, "noise");
        int64_t      index = steps - 1 - k;
        if (s->config->kind == SAMPLER_DDIM) {
            ddim_take(s, &(DdimStep){ index, now, next, true }, x, noise, z, count);
        } else {
            if (k)
                s->normal(s, "z", index, z, count);
            unet_ddpm(x, noise, k ? z : NULL, count, now, next);
        }
        s->progress(s, steps - k, steps);
    }
    *result = (SampleResult){ .kind = RESULT_IMAGES, .shape = shape, .data = x };
    return OK;
}

static const ModelWhatIf unet_what_if[] = { { "half the resolution", "height width", SIZE_HALF },
                                            { "half the channels", "widths", SIZE_HALF },
                                            { "twice the heads, half as wide", "heads",
                                              SIZE_TWICE },
                                            { 0 } };

const ModelDef model_unet = {
    .name = "unet",
    .summary = "a small denoising U-Net with attention",
    .fields = unet_fields,
    .config_bytes = sizeof(Unet),
    .defaults = &unet_defaults,
    .check = unet_check,
    .loss = unet_loss,
    .what_if = unet_what_if,
    .check_sampler = unet_check_sampler,
    .sample_graph = unet_sample_graph,
    .sample = unet_sample,
};
