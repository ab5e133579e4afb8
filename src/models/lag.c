/* lag.c -- few-shot set diffusion in "lag" mode (Giannone et al. 2022): images are denoised given
 * the tokens of their set.
 *
 *   images (b,ns,H,W,c) sets in [-1,1],  t (b) one per set  ->  mean squared error of the noise
 *
 * A set encoder (Lee et al. 2021, ViT for small datasets: shifted patch tokens, locality
 * self-attention) reads each set with one image left out; a DiT (Peebles & Xie 2023) denoises that
 * image while it cross-attends to the tokens. Names, kernels (in, out) and starting values are
 * those of the JAX/Flax program.
 */
#include "models/lag.h"
#include "models/layers.h"

#include <math.h>

static const float lag_eps = 1e-6f; /* of every layer norm */
enum { LAG_FREQUENCIES = 256 };     /* of the DiT's time embedding */

/* The set encoder's layers start as Flax's do by default, the DiT's by Xavier's rule. */
static const Layer flax = { .flax = true }, flax_zero = { .flax = true, .zero = true };
static const Layer dit = { .flax = true, .xavier = true };
static const Layer dit_mlp = { .flax = true, .xavier = true, .bias_deviation = 1e-6f };
static const Init  unit_normal = { .kind = INIT_NORMAL, .scale = 1 };

static Layer flax_onto(Tensor x) { return (Layer){ .flax = true, .onto = x }; }

#define SIZE(key, low, high, help)                                                                 \
    {                                                                                              \
#key, FIELD_INT, offsetof(Lag, key), low, high, NULL, NULL, help                           \
    }
static const Field lag_fields[] = {
    SIZE(set_size, 2, ARRANGE_MAX, "images per set"),
    SIZE(image, 2, 4096, "height and width of the images"),
    { "image_channels", FIELD_INT, offsetof(Lag, channels), 1, 64, NULL, NULL, "channels" },
    SIZE(patch, 1, 64, "height and width of a patch"),
    SIZE(context_width, 1, 65536, "width of set encoder and context"),
    SIZE(encoder_depth, 1, 1000, "layers of the set encoder"),
    SIZE(encoder_heads, 1, 1024, "attention heads of the set encoder"),
    SIZE(encoder_head_width, 1, 4096, "width of one of these heads"),
    SIZE(encoder_mlp, 1, 65536, "hidden width of the set encoder's MLPs"),
    SIZE(time_width, 2, 65536, "frequencies of the set encoder's time embedding"),
    SIZE(hidden, 4, 65536, "width of the DiT"),
    SIZE(depth, 1, 1000, "blocks of the DiT"),
    SIZE(heads, 1, 1024, "attention heads of the DiT"),
    SIZE(mlp_ratio, 1, 64, "hidden width of the DiT's MLPs over its width"),
    SIZE(timesteps, 1, 100000, "timesteps of the diffusion"),
    { "noise_schedule", FIELD_CHOICE, offsetof(Lag, noise_schedule), 0, 0, noise_schedules, NULL,
      "cosine, linear or scaled_linear" },
    { "beta_start", FIELD_NUMBER, offsetof(Lag, beta_start), 0, 1, NULL, NULL, "first beta" },
    { "beta_end", FIELD_NUMBER, offsetof(Lag, beta_end), 0, 1, NULL, NULL, "last beta" },
    { 0 }
};

static const Lag lag_defaults = {
    .set_size = 6,
    .image = 32,
    .channels = 3,
    .patch = 2,
    .context_width = 256,
    .encoder_depth = 6,
    .encoder_heads = 12,
    .encoder_head_width = 64,
    .encoder_mlp = 256,
    .time_width = 64,
    .hidden = 468,
    .depth = 6,
    .heads = 9,
    .mlp_ratio = 3,
    .timesteps = 250,
    .noise_schedule = NOISE_LINEAR,
    .beta_start = 4e-4,
    .beta_end = 0.08,
};

static Err lag_check(const void *config)
{
    const Lag *m = config;
    if (m->image % m->patch)
        return fail(E_USAGE, "model.patch: %lld does not divide the image's %lld rows",
                    (long long)m->patch, (long long)m->image);
    if (m->hidden % m->heads)
        return fail(E_USAGE, "model.heads: %lld does not divide the hidden width %lld",
                    (long long)m->heads, (long long)m->hidden);
    if (m->hidden % 4)
        return fail(E_USAGE, "model.hidden: %lld is not a multiple of 4, as the positions need",
                    (long long)m->hidden);
    if (m->time_width % 2)
        return fail(E_USAGE, "model.time_width: %lld is odd; it holds sines and cosines",
                    (long long)m->time_width);
    return noise_schedule_check((NoiseSchedule)m->noise_schedule, m->timesteps, m->beta_start,
                                m->beta_end);
}

static Tensor lag_mlp(const char *name, Tensor x, int64_t hidden, Layer first, Layer last)
{
    int64_t width = dim(tensor_shape(x), -1);
    scope_open(x.graph, "%s", name);
    x = linear("Dense_1", gelu_tanh(linear("Dense_0", x, hidden, first)), width, last);
    scope_close(x.graph);
    return x;
}

static Tensor lag_time(const char *name, Tensor t, int64_t frequencies, int64_t width, Layer how)
{
    scope_open(t.graph, "%s", name);
    t = linear("Dense_0", time_embedding(t, frequencies, 10000), width, how);
    t = linear("Dense_1", silu(t), width, how);
    scope_close(t.graph);
    return t;
}

/* ---- set encoder ---- */

/* Locality self-attention: a learned temperature, and no token sees itself. */
static Tensor lag_lsa(Tensor x, Layer last, const Lag *m)
{
    int64_t width = dim(tensor_shape(x), -1), inner = m->encoder_heads * m->encoder_head_width;
    float   start = (float)(-0.5 * log((double)m->encoder_head_width)); /* 1/sqrt(width) */
    scope_open(x.graph, "LSA_0");
    Tensor temperature = param_add_f32(x.graph, "temperature", (Shape){ 0 },
                                       (Init){ .kind = INIT_CONSTANT, .scale = start });
    x = linear("Dense_0", x, 3 * inner, (Layer){ .flax = true, .no_bias = true });
    x = attention_qkv(x, (int)m->encoder_heads,
                      &(AttentionOptions){ .temperature = temperature, .mask_diagonal = true });
    x = linear("Dense_1", x, width, last);
    scope_close(x.graph);
    return x;
}

/* (N,ns,H,W,c) -> (N, patches, p p c ns): the images of a set are channels of one stack. */
static Tensor lag_stack_patches(Tensor sets, const Lag *m)
{
    Shape   s = tensor_shape(sets);
    int64_t p = m->patch, side = m->image / p;
    return permute_as(
        sets,
        (PermuteAttr){ .rank = 7,
                       .dim = { s.dim[0], s.dim[1], side, p, side, p, m->channels },
                       .axis = { 0, 2, 4, 3, 5, 6, 1 },
                       .shape = SHAPE(s.dim[0], side * side, p * p * m->channels * s.dim[1]) });
}

/* sets (N,ns,H,W,c), first (N,2,C) the class and time tokens -> patch tokens (N,n,C). */
static Tensor lag_encode(Tensor sets, Tensor first, const Lag *m)
{
    Graph  *g = sets.graph;
    int64_t width = m->context_width;
    Tensor  x = lag_stack_patches(sets, m);
    int64_t n = dim(tensor_shape(x), 1);
    x = flax_norm("to_patch_embedding.norm", x, lag_eps);
    x = linear("to_patch_embedding.proj", x, width, flax);
    x = concat((const Tensor[]){ first, x }, 2, 1);
    x = add_rows(x, param_add(g, "pos_embedding", SHAPE(1, n + 2, width), unit_normal));
    for (int i = 0; i < m->encoder_depth; i++) {
        scope_open(g, "transformer.layer_%d", i);
        x = lag_lsa(flax_norm("LayerNorm_0", x, lag_eps), flax_onto(x), m);
        x = lag_mlp("FeedForward_0", flax_norm("LayerNorm_1", x, lag_eps), m->encoder_mlp, flax,
                    flax_onto(x));
        scope_close(g);
    }
    return slice(x, 1, 2, n + 2);
}

/* The pooled head of the published encoder: stored with the weights but not used in this mode. */
static void lag_unused_head(Graph *g, int64_t width)
{
    Init zeros = { .kind = INIT_ZEROS }, ones = { .kind = INIT_ONES };
    param_add(g, "mlp_norm.scale", SHAPE(width), ones);
    param_add(g, "mlp_norm.bias", SHAPE(width), zeros);
    param_add(g, "mlp_dense.kernel", SHAPE(width, width), init_lecun(width));
    param_add(g, "mlp_dense.bias", SHAPE(width), zeros);
}

/* (b,ns,H,W,c) -> (b ns,ns,H,W,c), leave one out: for each image the others of its set in their
 * order, then a zero image. */
static Tensor lag_others(Tensor images, const Lag *m)
{
    Shape   s = tensor_shape(images);
    int64_t b = s.dim[0], ns = m->set_size;
    Tensor  others[ARRANGE_MAX];
    Tensor  sets = pad_axis(cast(images, images.graph->compute), 1, 0, 1);
    for (int64_t i = 0; i < ns; i++) {
        others[i] = slice(sets, 1, i + 1, ns + 1);
        if (i > 0)
            others[i] = concat((const Tensor[]){ slice(sets, 1, 0, i), others[i] }, 2, 1);
    }
    return reshape(concat(others, (int)ns, 1), SHAPE(b * ns, ns, s.dim[2], s.dim[3], s.dim[4]));
}

/* The context of each image from the others of its set: images (b,ns,H,W,c), t (b) -> (b ns, n, C).
 * All passes of the encoder are one batch: its products have ns times the rows, and the gradient of
 * each of its weights is one sum. */
static Tensor lag_context(Tensor images, Tensor t, const Lag *m)
{
    Graph  *g = images.graph;
    int64_t b = dim(tensor_shape(images), 0), ns = m->set_size, width = m->context_width;
    Tensor  time = lag_time("time_embed.params", t, m->time_width, width, flax);
    scope_open(g, "encoder.params");
    Tensor class_token = param_add(g, "cls_token", SHAPE(1, 1, width), unit_normal);
    time = reshape(linear("to_time_embedding", time, width, flax), SHAPE(b, 1, width));
    Tensor first = concat((const Tensor[]){ tile(class_token, 0, b), time }, 2, 1);
    Tensor context = lag_encode(lag_others(images, m), repeat_each(first, 0, ns), m);
    lag_unused_head(g, width);
    scope_close(g);
    return tensor_name(context, "context");
}

/* ---- DiT ---- */

static Tensor lag_attention(const char *name, Tensor x, Tensor context, Layer last, const Lag *m)
{
    int64_t c = m->hidden, heads = m->heads;
    Shape   split = SHAPE(c, heads, c / heads), join = SHAPE(heads, c / heads, c);
    scope_open(x.graph, "%s", name);
    Tensor q = dense_general("query", x, split, 1, dit);
    Tensor k = dense_general("key", context, split, 1, dit);
    Tensor v = dense_general("value", context, split, 1, dit);
    x = dense_general("out", attention(q, k, v, (int)heads, NULL), join, 2, last);
    scope_close(x.graph);
    return x;
}

/* Columns i C to (i + 1) C of packed, one row for each of n samples. */
static Tensor lag_gate(Tensor packed, int i, int64_t n, const Lag *m)
{
    int64_t rows = dim(tensor_shape(packed), 0), c = m->hidden;
    return repeat_each(slice(packed, 1, i * c, (i + 1) * c), 0, n / rows);
}

static Tensor lag_block(Tensor x, Tensor condition, Tensor context, const Lag *m)
{
    int64_t c = m->hidden, n = dim(tensor_shape(x), 0);
    /* packed: shift, scale and gate of the self-attention, then of the MLP */
    Tensor  none = tensor_none(x.graph), y;
    Tensor  packed = linear("Dense_0", condition, 6 * c, flax_zero);
    y = layernorm_modulate(x, packed, 0, c, lag_eps);
    y = lag_attention("MultiHeadDotProductAttention_0", y, y, dit, m);
    x = gated_add(x, lag_gate(packed, 2, n, m), y);
    y = layernorm(x, none, none, lag_eps);
    context = linear("Dense_1", context, c, dit);
    Layer onto = dit;
    onto.onto = x;
    x = lag_attention("MultiHeadDotProductAttention_1", y, context, onto, m);
    y = layernorm_modulate(x, packed, 3 * c, 4 * c, lag_eps);
    y = lag_mlp("MlpBlock_0", y, m->mlp_ratio * c, dit_mlp, dit_mlp);
    return gated_add(x, lag_gate(packed, 5, n, m), y);
}

/* Fixed positions (1, side side, c): the first half of the channels encodes the column, the second
 * the row, each as [sin | cos] of c/4 frequencies. */
static void lag_positions(float *data, Shape shape, uint64_t seed, const void *arg)
{
    int64_t c = shape.dim[2], quarter = c / 4, side = *(const int64_t *)arg;
    (void)seed;
    for (int64_t at = 0; at < side * side; at++)
        for (int64_t half = 0; half < 2; half++)
            for (int64_t k = 0; k < quarter; k++) {
                double place = (double)(half ? at / side : at % side);
                double angle = place * pow(10000, -(double)k / (double)quarter);
                float *to = data + at * c + half * 2 * quarter + k;
                to[0] = (float)sin(angle);
                to[quarter] = (float)cos(angle);
            }
}

/* The predicted noise of x (N,H,W,c) given its context (N,n,C). t has N rows, or a divisor of N:
 * consecutive images then share one. */
static Tensor lag_predict(Tensor x, Tensor t, Tensor context, const Lag *m)
{
    Graph   *g = x.graph;
    Shape    image = tensor_shape(x);
    int64_t  c = m->hidden, p = m->patch, side = m->image / p;
    int64_t *arg = NEW(g->pool, int64_t);
    *arg = side;
    scope_open(g, "dit.params");
    Tensor places = param_add(g, "pos_embed", SHAPE(1, side * side, c),
                              (Init){ .kind = INIT_CUSTOM, .custom = lag_positions, .arg = arg });
    if (tensor_ok(places))
        param_of(g, places.id)->frozen = true;
    x = patchify2d(cast(x, g->compute), (int)p, (int)p);
    x = dense_general("PatchEmbed_0.Conv_0", x, SHAPE(p, p, m->channels, c), 3, dit);
    x = add_rows(x, places);
    Tensor condition = silu(lag_time("TimestepEmbedder_0", t, LAG_FREQUENCIES, c,
                                     (Layer){ .flax = true, .deviation = 0.02f }));
    for (int i = 0; i < m->depth; i++) {
        scope_open(g, "DiTBlock_%d", i);
        x = lag_block(x, condition, context, m);
        scope_close(g);
    }
    scope_open(g, "FinalLayer_0");
    x = layernorm_modulate(x, linear("Dense_0", condition, 2 * c, flax_zero), 0, c, lag_eps);
    x = linear("Dense_1", x, p * p * m->channels, flax_zero);
    scope_close(g);
    scope_close(g);
    return unpatchify2d(x, image, (int)p, (int)p);
}

static Tensor lag_loss(Graph *g, const void *config, int64_t batch, int64_t share)
{
    const Lag    *m = config;
    int64_t       ns = m->set_size, side = m->image;
    Shape         shape = SHAPE(batch * ns, side, side, m->channels);
    Tensor        images = feed(g, "images", F32, SHAPE(batch, ns, side, side, m->channels));
    Tensor        t = noise_steps(g, "t", SHAPE(batch), m->timesteps);
    Tensor        eps = noise_normal(g, "eps", shape);
    const double *table = alpha_bar_table(g->pool, (NoiseSchedule)m->noise_schedule, m->timesteps,
                                          m->beta_start, m->beta_end);
    Tensor        levels = alpha_bar_constant(g, table, m->timesteps);
    Tensor        noisy = q_sample(reshape(images, shape), eps, levels, t);
    Tensor        predicted = lag_predict(noisy, t, lag_context(images, t, m), m);
    graph_output(predicted, "output");
    return mse_loss(predicted, eps, 1.0f / (float)share);
}

/* The context is computed once for the whole chain; all images of a step have the same timestep. */
static void lag_sample_graph(Graph *g, const void *config, const SamplerConfig *sampler, int64_t n)
{
    const Lag *m = config;
    Phase      phase = g->phase;
    int64_t    ns = m->set_size, side = m->image, c = m->channels;
    (void)sampler;
    g->phase = PHASE_SAMPLE_BEGIN;
    Tensor support = feed(g, "support", F32, SHAPE(n, ns, side, side, c));
    Tensor zeros = constant_add(g, "support_time", I32, SHAPE(n), NULL, CLASS_CONSTANTS);
    Tensor context = lag_context(support, zeros, m);
    Tensor kept = state_add(g, "support_context", tensor_type(context), tensor_shape(context),
                            CLASS_CONSTANTS, false);
    assign(kept, context);

    g->phase = PHASE_SAMPLE;
    Tensor x = feed(g, "x", F32, SHAPE(n * ns, side, side, c));
    graph_output(lag_predict(x, feed(g, "t", I32, SHAPE(1)), kept, m), "prediction");
    g->phase = phase;
}

static const ModelWhatIf lag_what_if[] = {
    { "fewer images a set", "set_size", SIZE_HALF_UP },
    { "half the resolution", "image", SIZE_HALF },
    { "patches of twice the side", "patch", SIZE_TWICE },
    { "half the channels", "hidden", SIZE_HALF },
    { "half the encoder's head width", "encoder_head_width", SIZE_HALF },
    { "fewer DiT layers", "depth", SIZE_TWO_THIRDS },
    { "fewer encoder layers", "encoder_depth", SIZE_TWO_THIRDS },
    { "half the encoder's heads", "encoder_heads", SIZE_HALF },
    { 0 }
};

const ModelDef model_lag = {
    .name = "lag",
    .flax = true,
    .summary = "few-shot set diffusion: images denoised given their set",
    .fields = lag_fields,
    .config_bytes = sizeof(Lag),
    .defaults = &lag_defaults,
    .check = lag_check,
    .loss = lag_loss,
    .what_if = lag_what_if,
    .check_sampler = lag_check_sampler,
    .sampler_kind = SAMPLER_DDIM,
    .sample_graph = lag_sample_graph,
    .sample = lag_sample,
};
