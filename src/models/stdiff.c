/* stdiff.c -- STDiff, prediction of video and of range images: keys, training loss, sampling graph.
 *
 *   observed (N,To,H,W,C), future (N,Tp,H,W,C) in [-1,1], mask (N,Tp,H,W)
 *                                       ->  masked L1 of the predicted noise
 *
 * The motion of the observed frames is extrapolated (stdiff_motion.c); each future frame is
 * denoised given the motion at its time and the previous frame (stdiff_unet.c).
 */
#include "models/stdiff.h"
#include "models/layers.h"

static const char *const stdiff_losses[] = { "masked_l1", "l1", NULL };

#define KEY(name, kind, low, high, choices, help)                                                  \
    {                                                                                              \
#name, FIELD_##kind, offsetof(Stdiff, name), low, high, choices, NULL, help                \
    }
static const Field stdiff_fields[] = {
    KEY(image, INTS, 1, 65536, NULL, "height and width of a frame"),
    KEY(image_channels, INT, 1, 64, NULL, "channels of a frame"),
    KEY(observed, INT, 2, STDIFF_MAX_FRAMES, NULL, "frames that are given"),
    KEY(predicted, INT, 1, STDIFF_MAX_FRAMES, NULL, "frames that are predicted"),
    KEY(channels, INTS, 2, 65536, NULL, "channels of each level of the UNet"),
    KEY(layers, INT, 1, STDIFF_MAX_LAYERS, NULL,
        "residual blocks per level; one more on the way up"),
    KEY(attention_from, INT, 0, FIELD_MAX_INTS, NULL, "first level with attention"),
    KEY(groups, INT, 1, 65536, NULL, "groups of the group norms"),
    KEY(head_width, INT, 1, ATTENTION_MAX_WIDTH, NULL, "channels of an attention head"),
    KEY(motion_channels, INT, 1, 65536, NULL, "after the motion encoder's first convolution"),
    KEY(motion_downs, INT, 1, 8, NULL, "halvings of the motion map, doublings of its channels"),
    KEY(sde_layers, INT, 0, 64, NULL, "inner convolutions of drift and diffusion"),
    KEY(sde_dt, NUMBER, 0.001, 1, NULL, "sub-step of the motion's equation, in frames"),
    KEY(loss, CHOICE, 0, 0, stdiff_losses, "masked_l1 or l1"),
    KEY(timesteps, INT, 1, 100000, NULL, "timesteps of the diffusion"),
    KEY(noise_schedule, CHOICE, 0, 0, noise_schedules, "cosine, linear or scaled_linear"),
    KEY(beta_start, NUMBER, 0, 0.999, NULL, "linear schedules: noise of the first step"),
    KEY(beta_end, NUMBER, 0, 0.999, NULL, "linear schedules: noise of the last step"),
    { 0 }
};
#undef KEY

static const Stdiff stdiff_defaults = {
    .image = { { 64, 2048 }, 2 },
    .image_channels = 1,
    .observed = 5,
    .predicted = 5,
    .channels = { { 128, 256, 256, 512, 512 }, 5 },
    .layers = 2,
    .attention_from = 1,
    .groups = 32,
    .head_width = 128,
    .motion_channels = 64,
    .motion_downs = 2,
    .sde_layers = 2,
    .sde_dt = 0.1,
    .loss = STDIFF_MASKED_L1,
    .timesteps = 1000,
    .noise_schedule = NOISE_COSINE,
    .beta_start = 1e-4,
    .beta_end = 0.02,
};

static Err stdiff_check(const void *config)
{
    const Stdiff *m = config;
    if (m->image.n != 2)
        return fail(E_USAGE, "model.image has %d numbers; give two, height and width", m->image.n);
    if (m->channels.n < 1)
        return fail(E_USAGE, "model.channels is empty; give the channels of at least one level");
    int     last = m->channels.n - 1;
    int64_t scale = (int64_t)1 << last;
    for (int i = 0; i < 2; i++) {
        if (m->image.at[i] % scale)
            return fail(E_USAGE, "model.image: %lld is not a multiple of %lld, as %d levels need",
                        (long long)m->image.at[i], (long long)scale, m->channels.n);
        if (m->image.at[i] >> m->motion_downs < 1)
            return fail(E_USAGE, "model.motion_downs: %lld cannot be halved %lld times",
                        (long long)m->image.at[i], (long long)m->motion_downs);
    }
    if (m->channels.at[0] % 2)
        return fail(E_USAGE, "model.channels: the first, %lld, must be even for the time embedding",
                    (long long)m->channels.at[0]);
    for (int i = 0; i <= last; i++) {
        int64_t width = m->channels.at[i];
        if (width % m->groups)
            return fail(E_USAGE, "model.groups: %lld channels do not divide into %lld groups",
                        (long long)width, (long long)m->groups);
        if ((i >= m->attention_from || i == last) && width % m->head_width)
            return fail(E_USAGE, "model.head_width: %lld channels do not divide into heads of %lld",
                        (long long)width, (long long)m->head_width);
    }
    TRY(noise_schedule_check((NoiseSchedule)m->noise_schedule, m->timesteps, m->beta_start,
                             m->beta_end));
    double rest = 1 / m->sde_dt - (double)stdiff_substeps(m);
    if (rest > 1e-6 || rest < -1e-6)
        return fail(E_USAGE,
                    "model.sde_dt: %g does not divide a frame; use 1 divided by an "
                    "integer, e.g. %g",
                    m->sde_dt, 1 / (double)stdiff_substeps(m));
    return OK;
}

double *stdiff_alpha_bar(Pool *pool, const Stdiff *m)
{
    return alpha_bar_table(pool, (NoiseSchedule)m->noise_schedule, m->timesteps, m->beta_start,
                           m->beta_end);
}

static Shape stdiff_frames(const Stdiff *m, int64_t n) /* n single frames */
{
    return SHAPE(n, m->image.at[0], m->image.at[1], m->image_channels);
}

static Shape stdiff_clip(const Stdiff *m, int64_t n, int64_t frames)
{
    return SHAPE(n, frames, m->image.at[0], m->image.at[1], m->image_channels);
}

/* The motion at every future frame, (N Tp,h,w,Cm); the frames of a sample are consecutive. */
static Tensor stdiff_future(Tensor motion, int64_t n, const Stdiff *m)
{
    Graph  *g = motion.graph;
    Shape   s = stdiff_motion_shape(m, n);
    int64_t per_frame = stdiff_substeps(m);
    Tensor  frames[STDIFF_MAX_FRAMES], noise = tensor_none(g);
    if (g->build->given_noise)
        noise = noise_normal(g, "sde",
                             SHAPE(per_frame * m->predicted, n, s.dim[1], s.dim[2], s.dim[3]));
    for (int64_t k = 0; k < m->predicted; k++) {
        motion = stdiff_advance(motion, noise, k * per_frame, m);
        frames[k] = reshape(motion, SHAPE(n, 1, s.dim[1], s.dim[2], s.dim[3]));
    }
    return reshape(concat(frames, (int)m->predicted, 1), stdiff_motion_shape(m, n * m->predicted));
}

static Tensor stdiff_loss(Graph *g, const void *config, int64_t batch, int64_t share)
{
    const Stdiff *m = config;
    int64_t       To = m->observed, Tp = m->predicted;
    Shape         shape = stdiff_frames(m, batch * Tp);
    int64_t       split = g->build->split > 1 ? g->build->split : 1;
    float         scale = 1.0f / (float)share;
    Tensor        observed = feed(g, "observed", F32, stdiff_clip(m, batch, To));
    Tensor        future = feed(g, "future", F32, stdiff_clip(m, batch, Tp));
    Tensor        t = noise_steps(g, "t", SHAPE(batch * Tp), m->timesteps);
    Tensor        eps = noise_normal(g, "eps", shape);
    Tensor        alpha_bar = alpha_bar_constant(g, stdiff_alpha_bar(g->pool, m), m->timesteps);

    Tensor motion = stdiff_future(stdiff_context(observed, m), batch, m);
    Tensor before = slice(observed, 1, To - 1, To);
    if (Tp > 1)
        before = concat((const Tensor[]){ before, slice(future, 1, 0, Tp - 1) }, 2, 1);
    Tensor x = q_sample(reshape(future, shape), eps, alpha_bar, t);
    Tensor predicted = stdiff_unet(concat2(x, reshape(before, shape)), t, motion, m);
    if (g->build->given_noise) /* for comparison with another program */
        graph_output(predicted, "output");
    if (m->loss == STDIFF_L1)
        return l1_loss(predicted, eps, scale);
    /* A mean over the valid pixels of a micro-batch, each with image_channels numbers. The loss
     * counts the pixels itself, except if the micro-batch is split or the loss runs in chunks: then
     * the count over the whole micro-batch is an input. */
    Tensor mask = feed(g, "mask", U8, SHAPE(batch, Tp, m->image.at[0], m->image.at[1]));
    mask = reshape(mask, shape_drop(shape, -1));
    Tensor count = split > 1 || g->build->counts_given ? feed(g, "mask_count", F32, SHAPE(1))
                                                       : tensor_none(g);
    return masked_l1_loss(predicted, eps, mask, count,
                          scale * (float)split / (float)m->image_channels);
}

/* The loader also delivers masks of the observed frames, and the last observed frame once more. */
static int stdiff_batch_rest(const void *config, int64_t batch, BatchRest *rest)
{
    const Stdiff *m = config;
    int64_t       h = m->image.at[0], w = m->image.at[1];
    int           n = 0;
    rest[n++] = (BatchRest){ "observed_last", F32, stdiff_clip(m, batch, 1), "observed" };
    if (m->loss == STDIFF_MASKED_L1) {
        rest[n++] = (BatchRest){ "observed_mask", U8, SHAPE(batch, m->observed, h, w), NULL };
        rest[n++] = (BatchRest){ "observed_last_mask", U8, SHAPE(batch, 1, h, w), NULL };
    }
    return n;
}

static int stdiff_truth(const void *config, int64_t n, BatchRest *rest)
{
    const Stdiff *m = config;
    rest[0] = (BatchRest){ "future", F32, stdiff_clip(m, n, m->predicted), NULL };
    rest[1] = (BatchRest){ "mask", U8, SHAPE(n, m->predicted, m->image.at[0], m->image.at[1]),
                           NULL };
    return 2;
}

/* Begin: the motion at the last observed frame. End, which runs before each frame: the motion one
 * frame later. A step: the noise in x at time t. */
static void stdiff_sample_graph(Graph *g, const void *config, const SamplerConfig *sampler,
                                int64_t n)
{
    (void)sampler;
    const Stdiff *m = config;
    Phase         phase = g->phase;
    Shape         s = stdiff_motion_shape(m, n);
    Tensor        motion = state_add(g, "sample.motion", F32, s, CLASS_CONSTANTS, false);
    g->phase = PHASE_SAMPLE_BEGIN;
    Tensor observed = feed(g, "observed", F32, stdiff_clip(m, n, m->observed));
    assign(motion, cast(stdiff_context(observed, m), F32));
    g->phase = PHASE_SAMPLE_END;
    Tensor noise = feed(g, "sde", F32, SHAPE(stdiff_substeps(m), n, s.dim[1], s.dim[2], s.dim[3]));
    assign(motion, stdiff_advance(motion, noise, 0, m));
    g->phase = PHASE_SAMPLE;
    Tensor x = feed(g, "x", F32, stdiff_frames(m, n));
    Tensor before = feed(g, "before", F32, stdiff_frames(m, n));
    Tensor t = feed(g, "t", I32, SHAPE(n));
    graph_output(stdiff_unet(concat2(x, before), t, motion, m), "noise");
    g->phase = phase;
}

static const ModelWhatIf stdiff_what_if[] = { { "fewer predicted frames", "predicted",
                                                SIZE_HALF_UP },
                                              { "fewer observed frames", "observed", SIZE_HALF_UP },
                                              { "half the resolution", "image", SIZE_HALF },
                                              { "half the channels", "channels", SIZE_HALF },
                                              { "half the head width", "head_width", SIZE_HALF },
                                              { "fewer layers", "layers", SIZE_HALF },
                                              { 0 } };

const ModelDef model_stdiff = {
    .name = "stdiff",
    .summary = "prediction of video and range images by motion and diffusion",
    .fields = stdiff_fields,
    .config_bytes = sizeof(Stdiff),
    .defaults = &stdiff_defaults,
    .check = stdiff_check,
    .loss = stdiff_loss,
    .what_if = stdiff_what_if,
    .batch_rest = stdiff_batch_rest,
    .check_sampler = stdiff_check_sampler,
    .result_kind = RESULT_CLIPS,
    .sample_graph = stdiff_sample_graph,
    .sample = stdiff_sample,
    .truth = stdiff_truth,
};
