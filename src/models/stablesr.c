/* stablesr.c -- StableSR with an edge branch: super-resolution by diffusion in latent space.
 *
 *   image, image_lq, edge (B,s,s,3) in [-1,1]  ->  mean squared error of the predicted noise
 *
 * Wang et al. (2024). A frozen autoencoder turns both images into latents. The noisy latent of the
 * high-quality image, fused with the processed edge map, goes through a frozen text-to-image UNet,
 * which is conditioned on struct maps of the low-quality latent (stablesr_unet.c). The text is
 * always the empty prompt, so its context is one constant tensor. Trained: SPADE, struct encoder,
 * edge branch, input convolution.
 */
#include "models/stablesr.h"

#include "base/npy.h"
#include "base/random.h"
#include "models/layers.h"

#include <math.h>
#include <string.h>

static const char *const latents_words[] = { "computed", "given", NULL };
static const char *const fusion_words[] = { "conv", "concat", NULL };
static const char *const trained_words[] = { "default", "published", "all", NULL };

#define INT(key, low, high, help)                                                                  \
    {                                                                                              \
#key, FIELD_INT, offsetof(StableSr, key), low, high, NULL, NULL, help                      \
    }
#define INTS(key, low, high, help)                                                                 \
    {                                                                                              \
#key, FIELD_INTS, offsetof(StableSr, key), low, high, NULL, NULL, help                     \
    }
#define NUMBER(key, low, high, help)                                                               \
    {                                                                                              \
#key, FIELD_NUMBER, offsetof(StableSr, key), low, high, NULL, NULL, help                   \
    }

const Field stablesr_fields[] = {
    INT(image, 8, 8192, "side of the images"),
    INT(latent, 1, 1024, "side of the latents"),
    { "latents", FIELD_CHOICE, offsetof(StableSr, latents), 0, 0, latents_words, NULL,
      "computed, or given by the data" },
    INT(channels, 2, 8192, "UNet: width of the first level"),
    INTS(mult, 1, 64, "UNet: width of each level, times channels"),
    INT(layers, 1, STABLESR_LAYERS, "residual blocks per level, in UNet and struct encoder"),
    INT(attention_levels, 0, STABLESR_LEVELS, "number of levels with attention, from the first"),
    INT(head_width, 1, 4096, "UNet: width of an attention head"),
    INT(groups, 1, 4096, "groups of the group norms"),
    { "context", FIELD_TEXT, offsetof(StableSr, context), 0, 0, NULL, NULL,
      "the empty prompt's embedding (.npy); none: a fixed seeded one" },
    INT(context_tokens, 1, 4096, "rows of the context"),
    INT(context_width, 1, 65536, "columns of the context"),
    INT(spade_hidden, 1, 8192, "width between a struct map and its scale and shift"),
    INT(struct_channels, 2, 8192, "struct encoder: width of the first level"),
    INTS(struct_mult, 1, 64, "struct encoder: width of each level"),
    INT(struct_heads, 1, 256, "struct encoder: attention heads"),
    INT(struct_out, 1, 8192, "channels of the struct maps"),
    INT(vae_channels, 1, 8192, "autoencoder: width of the first level"),
    INTS(vae_mult, 1, 64, "autoencoder: width of each level"),
    INT(edge_stem, 0, 8192,
        "edge processor: channels after its first convolution, which has stride 2; 0: none"),
    INT(edge_width, 1, 8192, "edge processor: channels at full size"),
    INT(edge_convs, 1, 64, "edge processor: convolutions at full size"),
    INTS(edge_ladder, 1, 8192, "edge processor: channels after each halving; the last are 4"),
    { "fusion", FIELD_CHOICE, offsetof(StableSr, fusion), 0, 0, fusion_words, NULL,
      "of latent and edge: conv or concat" },
    { "trainable", FIELD_CHOICE, offsetof(StableSr, trained), 0, 0, trained_words, NULL,
      "default; published: without edge branch and input; all: everything but the autoencoder" },
    INT(timesteps, 1, 100000, "timesteps of the diffusion"),
    { "noise_schedule", FIELD_CHOICE, offsetof(StableSr, noise_schedule), 0, 0, noise_schedules,
      NULL, "how noise grows with time" },
    NUMBER(beta_start, 0, 1, "noise of the first step"),
    NUMBER(beta_end, 0, 1, "noise of the last step"),
    { 0 }
};

const StableSr stablesr_defaults = {
    .image = 512,
    .latent = 64,
    .channels = 320,
    .mult = { { 1, 2, 4, 4 }, 4 },
    .layers = 2,
    .attention_levels = 3,
    .head_width = 64,
    .groups = 32,
    .context_tokens = 77,
    .context_width = 1024,
    .spade_hidden = 128,
    .struct_channels = 256,
    .struct_mult = { { 1, 1, 2, 2 }, 4 },
    .struct_heads = 4,
    .struct_out = 256,
    .vae_channels = 128,
    .vae_mult = { { 1, 2, 4, 4 }, 4 },
    .edge_stem = 64,
    .edge_width = 256,
    .edge_convs = 3,
    .edge_ladder = { { 128, 64, 16, 4 }, 4 },
    .timesteps = 1000,
    .noise_schedule = NOISE_SCALED_LINEAR,
    .beta_start = 8.5e-4,
    .beta_end = 0.012,
};

static Err check_widths(const char *key, int64_t channels, const Ints *mult, int64_t by,
                        const char *what)
{
    for (int i = 0; i < mult->n; i++)
        if (channels * mult->at[i] % by)
            return fail(E_USAGE, "model.%s: %lld channels are not divisible by model.%s, %lld", key,
                        (long long)(channels * mult->at[i]), what, (long long)by);
    return OK;
}

/* Reads the stored context. A recipe with a wrong one is refused before anything is built. */
static Err context_read(Pool *pool, const StableSr *m, Npy *npy)
{
    Shape shape = SHAPE(m->context_tokens, m->context_width);
    if (npy_read(pool, m->context, npy))
        return fail(E_FORMAT, "model.context: %s", pool_text(pool, err_text()));
    if (npy->type != NPY_F4 || npy->rank != 2 || npy->shape[0] != m->context_tokens ||
        npy->shape[1] != m->context_width)
        return fail(E_FORMAT, "model.context: %s must be a float32 array of shape %s", m->context,
                    shape_text(shape));
    return OK;
}

static Err context_check(const StableSr *m)
{
    Npy npy;
    if (!m->context)
        return OK;
    Pool *pool = pool_new(NULL, "context");
    Err   err = context_read(pool, m, &npy);
    for (int64_t i = 0; !err && i < npy.count; i++) {
        float x;
        memcpy(&x, (const char *)npy.data + 4 * i, 4);
        if (!isfinite(x))
            err = fail(E_FORMAT, "model.context: number %lld of %s is not finite", (long long)i,
                       m->context);
    }
    pool_free(pool);
    return err;
}

Err stablesr_check(const void *config)
{
    const StableSr   *m = config;
    static const Ints once = { { 1 }, 1 };
    if (m->mult.n < 1 || m->vae_mult.n < 1 || m->edge_ladder.n < 1)
        return fail(E_USAGE,
                    "model.mult, model.vae_mult and model.edge_ladder need at least one level");
    if (m->struct_mult.n != m->mult.n)
        return fail(E_USAGE,
                    "model.struct_mult has %d levels and model.mult %d; every UNet level needs a "
                    "map of its size",
                    m->struct_mult.n, m->mult.n);
    int64_t shrink = (int64_t)1 << (m->vae_mult.n - 1), scale = (int64_t)1 << (m->mult.n - 1);
    if (m->image != m->latent * shrink)
        return fail(E_USAGE,
                    "model.image must be %lld times model.latent for the %d levels of "
                    "model.vae_mult; %lld is not %lld",
                    (long long)shrink, m->vae_mult.n, (long long)m->image,
                    (long long)(m->latent * shrink));
    if (m->latent % scale)
        return fail(E_USAGE,
                    "model.latent must be a multiple of %lld for the %d levels of model.mult",
                    (long long)scale, m->mult.n);
    if (m->edge_ladder.at[m->edge_ladder.n - 1] != STABLESR_LATENT)
        return fail(E_USAGE, "model.edge_ladder must end with %d channels, as many as a latent has",
                    STABLESR_LATENT);
    if (m->image >> (m->edge_ladder.n + (m->edge_stem > 0)) < 1)
        return fail(E_USAGE,
                    "model.edge_ladder halves an image of %lld pixels too often; give fewer "
                    "levels",
                    (long long)m->image);
    if (m->channels % 2 || m->struct_channels % 2)
        return fail(E_USAGE, "model.channels and model.struct_channels must be even: half of a "
                             "time embedding is sines");
    TRY(noise_schedule_check((NoiseSchedule)m->noise_schedule, m->timesteps, m->beta_start,
                             m->beta_end));
    TRY(check_widths("channels", m->channels, &m->mult, m->groups, "groups"));
    TRY(check_widths("struct_channels", m->struct_channels, &m->struct_mult, m->groups, "groups"));
    TRY(check_widths("struct_out", m->struct_out, &once, m->groups, "groups"));
    TRY(check_widths("vae_channels", m->vae_channels, &m->vae_mult, m->groups, "groups"));
    TRY(check_widths("channels", m->channels, &m->mult, m->head_width, "head_width"));
    TRY(check_widths("struct_channels", m->struct_channels, &m->struct_mult, m->struct_heads,
                     "struct_heads"));
    return context_check(m);
}

double *stablesr_alpha_bar(Pool *pool, const StableSr *m)
{
    return alpha_bar_table(pool, (NoiseSchedule)m->noise_schedule, m->timesteps, m->beta_start,
                           m->beta_end);
}

/* ---- edge branch ---- */

static Tensor conv_bn(const char *name, Tensor x, int64_t width, int kernel, int stride,
                      bool relu_after)
{
    scope_open(x.graph, "%s", name);
    x = batch_norm("1", conv2d("0", x, width, kernel, stride, 1, (Layer){ 0 }), relu_after);
    scope_close(x.graph);
    return x;
}

/* The last map is usually smaller than the latent: pooling it to that size repeats its cells. */
Tensor stablesr_edge(Tensor edge, const StableSr *m)
{
    Graph *g = edge.graph;
    Tensor h = edge;
    scope_open(g, "model.diffusion_model.edge_processor");
    if (m->edge_stem)
        h = conv_bn("initial_conv", h, m->edge_stem, 4, 2, true);
    for (int i = 0; i < m->edge_convs; i++)
        h = conv_bn(pool_print(g->pool, "stage1_layers.%d", i), h, m->edge_width, 3, 1, true);
    for (int i = 0; i < m->edge_ladder.n; i++)
        h = conv_bn(pool_print(g->pool, "stage2_layers.%d", i), h, m->edge_ladder.at[i], 4, 2,
                    i + 1 < m->edge_ladder.n);
    h = adaptive_avg_pool(h, m->latent, m->latent);
    scope_close(g);
    return h;
}

static Tensor stablesr_fuse(Tensor latent, Tensor edge, const StableSr *m)
{
    Tensor both = concat2(cast(latent, tensor_type(edge)), edge);
    if (m->fusion == FUSION_CONCAT)
        return both;
    return conv_bn("model.diffusion_model.edge_fusion.fusion_conv", both, 2 * STABLESR_LATENT, 3, 1,
                   true);
}

/* ---- context ---- */

static Tensor stablesr_context(Graph *g, const StableSr *m)
{
    Shape shape = SHAPE(m->context_tokens, m->context_width);
    if (g->build->given_noise && !g->build->own_context) /* given by the program compared with */
        return tensor_class(feed(g, "context", F32, shape), CLASS_CONSTANTS);
    if (!m->context) {
        float *data = NEWN(g->pool, float, shape_count(shape));
        random_normals((RandomKey){ .seed = 77, .stream = random_stream("context") }, 0,
                       shape_count(shape), data);
        return constant_add(g, "context", F32, shape, data, CLASS_CONSTANTS);
    }
    Npy npy;
    Err err = context_read(g->pool, m, &npy);
    if (err)
        return graph_poison(g, err, "%s", err_text());
    return constant_add(g, "context", F32, shape, npy.data, CLASS_CONSTANTS);
}

/* ---- training ---- */

/* All weights of the autoencoder belong to the system, also those that no training step uses: the
 * decoder, and all of them if latents are given. They are built in a graph of their own and copied
 * by name. */
static void vae_params(Graph *g, const StableSr *m)
{
    Graph *aside = graph_new(g->pool, g->compute);
    Shape  z = SHAPE(1, m->latent, m->latent, STABLESR_LATENT);
    stablesr_encode(feed(aside, "image", F32, SHAPE(1, m->image, m->image, 3)),
                    feed(aside, "noise", F32, z), m);
    stablesr_decode(feed(aside, "latent", F32, z), m);
    for (int32_t i = 0; i < aside->n_params; i++) {
        const Param *p = &aside->params[i];
        const char  *end = strrchr(p->name, '.');
        scope_open(g, "%.*s", (int)(end - p->name), p->name);
        param_add_permuted(g, end + 1, p->disk, p->axis, p->init);
        scope_close(g);
    }
}

/* With concatenation, a pretrained input convolution keeps its effect on the latents: the weights
 * of the edge channels start at 0. */
static void zero_edge_channels(float *data, Shape disk, uint64_t seed, const void *arg)
{
    const Init *init = arg;
    int64_t     taps = disk.dim[2] * disk.dim[3];
    RandomKey   key = { .seed = seed, .stream = random_stream("stablesr input") };
    for (int64_t i = 0; i < shape_count(disk); i++)
        data[i] = i / taps % disk.dim[1] < STABLESR_LATENT
                      ? init->scale * (2 * random_uniform_at(key, (uint64_t)i) - 1)
                      : 0;
}

static bool is_trained(const char *name, const StableSr *m)
{
    if (strstr(name, "spade") || strstr(name, "structcond_stage_model"))
        return true;
    if (m->trained == TRAINED_ALL)
        return !strstr(name, "first_stage_model");
    return m->trained == TRAINED_DEFAULT &&
           (strstr(name, "edge_processor") || strstr(name, "edge_fusion") ||
            strstr(name, "diffusion_model.input_blocks.0.0."));
}

static Tensor stablesr_loss(Graph *g, const void *config, int64_t batch, int64_t share)
{
    const StableSr *m = config;
    Shape           images = SHAPE(batch, m->image, m->image, 3),
          z = SHAPE(batch, m->latent, m->latent, STABLESR_LATENT);
    Tensor edge = feed(g, "edge", F32, images), good, low, maps[STABLESR_LEVELS];
    if (m->latents == LATENTS_GIVEN) {
        good = feed(g, "latent", F32, z);
        low = feed(g, "latent_lq", F32, z);
    } else {
        good = stablesr_encode(feed(g, "image", F32, images), noise_normal(g, "vae", z), m);
        low = stablesr_encode(feed(g, "image_lq", F32, images), noise_normal(g, "vae_lq", z), m);
    }
    Tensor t = noise_steps(g, "t", SHAPE(batch), m->timesteps);
    Tensor noise = noise_normal(g, "eps", z);
    Tensor noisy = q_sample(good, noise,
                            alpha_bar_constant(g, stablesr_alpha_bar(g->pool, m), m->timesteps), t);

    Tensor x = stablesr_fuse(noisy, stablesr_edge(edge, m), m);
    stablesr_struct(maps, low, t, m);
    Tensor predicted = stablesr_unet(x, t, stablesr_context(g, m), maps, m);
    graph_output(predicted, "output");
    Tensor loss = mse_loss(predicted, noise, 1.0f / (float)share);

    vae_params(g, m);
    Param *input = param_find(g, "model.diffusion_model.input_blocks.0.0.weight");
    if (input && m->fusion == FUSION_CONCAT) {
        Init *plain = NEW(g->pool, Init);
        *plain = input->init;
        input->init = (Init){ .kind = INIT_CUSTOM, .custom = zero_edge_channels, .arg = plain };
        input->widens = true; /* a pretrained one has the latent's channels only */
    }
    for (int32_t i = 0; i < g->n_params; i++)
        g->params[i].frozen = !is_trained(g->params[i].name, m);
    return loss;
}

/* ---- sampling ---- */

/* Stores what is the same for all steps of the chain. */
static Tensor kept(Tensor x, const char *name)
{
    Tensor state = state_add(x.graph, name, tensor_type(x), tensor_shape(x), CLASS_ACTIVATIONS,
                             false);
    if (tensor_ok(x))
        assign(state, x);
    return state;
}

static void stablesr_sample_graph(Graph *g, const void *config, const SamplerConfig *sampler,
                                  int64_t n)
{
    const StableSr *m = config;
    Shape           images = SHAPE(n, m->image, m->image, 3),
          z = SHAPE(n, m->latent, m->latent, STABLESR_LATENT);
    Phase phase = g->phase;
    (void)sampler;

    g->phase = PHASE_SAMPLE_BEGIN;
    Tensor low = stablesr_encode(feed(g, "image_lq", F32, images), noise_normal(g, "vae_lq", z), m);
    low = kept(low, "sample.latent_lq");
    Tensor edge = kept(stablesr_edge(feed(g, "edge", F32, images), m), "sample.edge");

    g->phase = PHASE_SAMPLE;
    Tensor x = feed(g, "x", F32, z), t = feed(g, "t", I32, SHAPE(n)), maps[STABLESR_LEVELS];
    stablesr_struct(maps, low, t, m);
    graph_output(stablesr_unet(stablesr_fuse(x, edge, m), t, stablesr_context(g, m), maps, m),
                 "noise");

    g->phase = PHASE_SAMPLE_END;
    graph_output(stablesr_decode(feed(g, "result", F32, z), m), "image");
    g->phase = phase;
}

static int64_t stablesr_side(const void *config) { return ((const StableSr *)config)->image; }

static int stablesr_truth(const void *config, int64_t n, BatchRest *rest)
{
    const StableSr *m = config;
    rest[0] = (BatchRest){ .name = "image", .type = F32, .shape = SHAPE(n, m->image, m->image, 3) };
    return m->latents == LATENTS_GIVEN ? 0 : 1;
}

static const ModelWhatIf stablesr_what_if[] = {
    { "half the resolution", "image latent", SIZE_HALF },
    { "half the U-Net's channels", "channels", SIZE_HALF },
    { "half the edge channels", "edge_width", SIZE_HALF },
    { "fewer edge layers", "edge_convs", SIZE_HALF_UP },
    { "half the head width", "head_width", SIZE_HALF },
    { "fewer layers", "layers", SIZE_HALF },
    { 0 }
};

static const char *stablesr_warning(Pool *pool, const void *config)
{
    const StableSr *m = config;
    (void)pool;
    return m->context ? NULL
                      : "model.context is not set: a random tensor stands for the embedding of the "
                        "empty prompt; name its .npy file";
}

const ModelDef model_stablesr = {
    .name = "stablesr",
    .unread = STABLESR_UNREAD,
    .summary = "super-resolution by latent diffusion, with an edge branch",
    .fields = stablesr_fields,
    .config_bytes = sizeof(StableSr),
    .defaults = &stablesr_defaults,
    .check = stablesr_check,
    .warning = stablesr_warning,
    .loss = stablesr_loss,
    .what_if = stablesr_what_if,
    .check_sampler = stablesr_check_sampler,
    .sample_graph = stablesr_sample_graph,
    .sample = stablesr_sample,
    .truth = stablesr_truth,
    .enlarge = stablesr_enlarge,
    .enlarge_bytes = stablesr_enlarge_bytes,
    .side = stablesr_side,
};
