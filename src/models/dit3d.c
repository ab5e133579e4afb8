/* dit3d.c -- DiT3D, text to video: keys, loss and sampling graph of both readings (dit3d.h).
 *
 *   clip (B,F,H,W,C) in [-1,1],  text (B,768)  ->  mean squared error of the predicted noise
 *
 * A share of the texts is replaced by zeros in training, so that sampling can use classifier-free
 * guidance (Ho and Salimans 2022).
 */
#include "models/dit3d.h"
#include "models/layers.h"

#include <math.h>

static const char *const dit3d_readings[] = { "patches", "frames", NULL };

/* Keys have the names of the members. */
#define KEY(key, kind, ...)                                                                        \
    {                                                                                              \
#key, kind, offsetof(Dit3d, key), __VA_ARGS__                                              \
    }
#define INT(key, high, help)     KEY(key, FIELD_INT, 1, high, NULL, NULL, help)
#define INTS(key, high, help)    KEY(key, FIELD_INTS, 1, high, NULL, NULL, help)
#define SHARE(key, help)         KEY(key, FIELD_NUMBER, 0, 0.999, NULL, NULL, help)
#define CHOICE(key, words, help) KEY(key, FIELD_CHOICE, 0, 0, words, NULL, help)

static const Field dit3d_fields[] = {
    CHOICE(reading, dit3d_readings,
           "patches: tokens are 3-D patches; frames: a frozen backbone encodes each frame"),
    INT(frames, 4096, "frames in a clip"),
    INTS(image, 4096, "height and width of a frame"),
    INT(image_channels, 64, "channels of a frame"),
    INT(width, 65536, "width of a token"),
    INT(depth, 1000, "blocks"),
    INT(heads, 1024, "attention heads of a block"),
    INT(mlp_ratio, 64, "inner width of the blocks' MLP, in widths"),
    INTS(patch, 4096, "frames, rows, columns; reading frames: one side"),
    INT(temporal_heads, 1024, "reading frames: of the attention over time"),
    KEY(learn_sigma, FIELD_BOOL, 0, 0, NULL, NULL, "twice the output channels, half not used"),
    SHARE(text_dropout, "share of samples trained without text"),
    INT(timesteps, 100000, "timesteps of the diffusion"),
    CHOICE(noise_schedule, noise_schedules, "cosine, linear or scaled_linear"),
    SHARE(beta_start, "linear schedules: noise of the first step"),
    SHARE(beta_end, "linear schedules: noise of the last step"),
    { 0 }
};

static const Dit3d dit3d_defaults = {
    .reading = DIT3D_PATCHES,
    .frames = 16,
    .image = { { 64, 64 }, 2 },
    .image_channels = 3,
    .width = 256,
    .depth = 6,
    .heads = 4,
    .mlp_ratio = 4,
    .patch = { { 4, 16, 16 }, 3 },
    .temporal_heads = 8,
    .text_dropout = 0.1,
    .timesteps = 1000,
    .noise_schedule = NOISE_COSINE,
    .beta_start = 1e-4,
    .beta_end = 0.02,
};

static Err check_divides(const char *key, int64_t divisor, const char *what, int64_t whole)
{
    if (whole % divisor)
        return fail(E_USAGE, "model.%s: %s of %lld does not divide by %lld", key, what,
                    (long long)whole, (long long)divisor);
    return OK;
}

static Err dit3d_check(const void *config)
{
    const Dit3d *m = config;
    TRY(noise_schedule_check((NoiseSchedule)m->noise_schedule, m->timesteps, m->beta_start,
                             m->beta_end));
    if (m->image.n != 2)
        return fail(E_USAGE, "model.image has %d numbers; give two, height and width", m->image.n);
    TRY(check_divides("heads", m->heads, "model.width", m->width));
    if (m->reading == DIT3D_FRAMES) {
        if (m->patch.n != 1)
            return fail(E_USAGE, "model.patch has %d numbers; reading frames takes one, e.g. [4]",
                        m->patch.n);
        TRY(check_divides("patch", m->patch.at[0], "the backbone's frame side", dit3d_side(m)));
        return check_divides("temporal_heads", m->temporal_heads, "model.width", m->width);
    }
    if (m->patch.n != 3)
        return fail(E_USAGE,
                    "model.patch has %d numbers; reading patches takes three: frames, "
                    "rows, columns",
                    m->patch.n);
    TRY(check_divides("patch", m->patch.at[0], "model.frames", m->frames));
    TRY(check_divides("patch", m->patch.at[1], "a height (model.image)", m->image.at[0]));
    TRY(check_divides("patch", m->patch.at[2], "a width (model.image)", m->image.at[1]));
    if (m->width % 16) /* a quarter and three eighths of it, both even */
        return fail(E_USAGE, "model.width: %lld is not a multiple of 16, as the positions need",
                    (long long)m->width);
    return OK;
}

Tensor dit3d_time(Tensor t, const Dit3d *m)
{
    scope_open(t.graph, "t_embedder");
    Tensor h = linear("mlp.0", time_embedding(t, DIT3D_WAVES, 10000), m->width, (Layer){ 0 });
    h = linear("mlp.2", silu(h), m->width, (Layer){ 0 });
    scope_close(t.graph);
    return h;
}

Tensor dit3d_block(Tensor x, Tensor condition, const Dit3d *m, Dit3dAttention *attend,
                   bool starts_zero)
{
    int64_t D = m->width;
    Tensor  six = linear("adaLN_modulation.1", condition, 6 * D, (Layer){ .zero = starts_zero });
    Tensor  h = attend(layernorm_modulate(x, six, 0, D, 1e-6f), m->heads);
    x = gated_add(x, slice(six, -1, 2 * D, 3 * D), h);
    h = layernorm_modulate(x, six, 3 * D, 4 * D, 1e-6f);
    h = linear("mlp.0", h, m->mlp_ratio * D, (Layer){ 0 });
    h = linear("mlp.2", gelu_tanh(h), D, (Layer){ 0 });
    return gated_add(x, slice(six, -1, 5 * D, 6 * D), h);
}

static Tensor dit3d_predict(Tensor x, Tensor t, Tensor text, const Dit3d *m)
{
    return m->reading == DIT3D_PATCHES ? dit3d_patches(x, t, text, m) : dit3d_frames(x, t, text, m);
}

Shape dit3d_clip(const Dit3d *m, int64_t n)
{
    return SHAPE(n, m->frames, m->image.at[0], m->image.at[1], m->image_channels);
}

int64_t dit3d_side(const Dit3d *m)
{
    return m->image.at[0] > m->image.at[1] ? m->image.at[0] : m->image.at[1];
}

double *dit3d_alpha_bar(Pool *pool, const Dit3d *m, bool clipped)
{
    double *table = alpha_bar_table(pool, (NoiseSchedule)m->noise_schedule, m->timesteps,
                                    m->beta_start, m->beta_end);
    for (int64_t i = 0; clipped && i < m->timesteps; i++)
        table[i] = fmin(fmax(table[i], 1e-6), 1 - 1e-6);
    return table;
}

static Tensor dit3d_loss(Graph *g, const void *config, int64_t batch, int64_t share)
{
    const Dit3d *m = config;
    Shape        shape = dit3d_clip(m, batch);
    Tensor       clip = feed(g, "clip", F32, shape);
    Tensor       text = feed(g, "text", F32, SHAPE(batch, DIT3D_TEXT));
    text = noise_keep(text, "keep", (float)m->text_dropout);
    Tensor t = noise_steps(g, "t", SHAPE(batch), m->timesteps);
    Tensor eps = noise_normal(g, "eps", shape);
    Tensor alpha_bar = alpha_bar_constant(g, dit3d_alpha_bar(g->pool, m, true), m->timesteps);
    Tensor predicted = dit3d_predict(q_sample(clip, eps, alpha_bar, t), t, text, m);
    if (g->build->given_noise) /* for comparison with another program */
        graph_output(predicted, "output");
    return mse_loss(slice(predicted, -1, 0, m->image_channels), eps, 1.0f / (float)share);
}

/* Begin: stores the texts. A step: the noise in x at time t, with the texts (keep 1) or without
 * (0). */
static void dit3d_sample_graph(Graph *g, const void *config, const SamplerConfig *sampler,
                               int64_t n)
{
    (void)sampler;
    const Dit3d *m = config;
    Phase        phase = g->phase;
    Tensor text = state_add(g, "sample.text", F32, SHAPE(n, DIT3D_TEXT), CLASS_CONSTANTS, false);
    g->phase = PHASE_SAMPLE_BEGIN;
    assign(text, feed(g, "text", F32, SHAPE(n, DIT3D_TEXT)));
    g->phase = PHASE_SAMPLE;
    Tensor x = feed(g, "x", F32, dit3d_clip(m, n)), t = feed(g, "t", I32, SHAPE(n));
    Tensor predicted = dit3d_predict(x, t, mul_rows(text, feed(g, "keep", F32, SHAPE(n, 1))), m);
    graph_output(slice(predicted, -1, 0, m->image_channels), "noise");
    g->phase = phase;
}

static const ModelWhatIf dit3d_what_if[] = { { "half the frames", "frames", SIZE_HALF },
                                             { "half the resolution", "image", SIZE_HALF },
                                             { "patches of twice the side", "patch", SIZE_TWICE },
                                             { "half the width", "width", SIZE_HALF },
                                             { "twice the heads, half as wide", "heads",
                                               SIZE_TWICE },
                                             { "fewer layers", "depth", SIZE_TWO_THIRDS },
                                             { 0 } };

const ModelDef model_dit3d = {
    .name = "dit3d",
    .summary = "text to video: a diffusion transformer over 3-D patches, or over frames",
    .fields = dit3d_fields,
    .config_bytes = sizeof(Dit3d),
    .defaults = &dit3d_defaults,
    .check = dit3d_check,
    .loss = dit3d_loss,
    .what_if = dit3d_what_if,
    .check_sampler = dit3d_check_sampler,
    .result_kind = RESULT_CLIPS,
    .sample_graph = dit3d_sample_graph,
    .sample = dit3d_sample,
};
