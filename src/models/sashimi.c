/* sashimi.c -- SaShiMi: state spaces over raw audio at several rates (Goel et al. 2022).
 *
 *   tokens (B,L) of 2^bits levels  ->  for each step, a distribution of the next token
 *
 * Each of `pools` pools turns four steps into one. S4 and feed-forward blocks are on the way up
 * only, and skips are added. The head gives a mixture of logistics over the levels, or a logit for
 * each. An S4 layer's C is stored as C~ for the length of its stage (ops/s4/s4_step.h).
 *
 * With state_carry the state is carried from chunk to chunk of a file (truncated back-propagation
 * through time). The S4 states and the last step that each UpPool shifts out are kept as constants
 * for the next micro-batch, whose row r is the chunk after this one's row r. The feed `carry` is 0
 * where a file begins. Pools need no state: a chunk's length is a multiple of theirs. Only training
 * carries; in other phases every chunk starts without a state. */
#include "models/sashimi.h"

#include "base/random.h"
#include "models/layers.h"
#include "ops/fft/rfft.h"
#include "ops/s4/s4_init.h"
#include "ops/s4/s4_step.h"

#include <string.h>

static const char *const sashimi_heads[] = { "dml", "categorical", NULL };
static const char *const sashimi_rounds[] = { "nearest", "floor", NULL };
static const char *const sashimi_encodings[] = { "linear", "mu_law", NULL };

static const Field sashimi_fields[] = {
    { "length", FIELD_INT, offsetof(Sashimi, length), 1, 1 << 26, NULL, NULL,
      "steps per sample, over all channels" },
    { "bits", FIELD_INT, offsetof(Sashimi, bits), 1, 16, NULL, NULL, "bits of a step" },
    { "width", FIELD_INT, offsetof(Sashimi, width), 2, 4096, NULL, NULL,
      "channels at the full rate" },
    { "layers", FIELD_INT, offsetof(Sashimi, layers), 1, 256, NULL, NULL,
      "pairs of S4 and feed-forward blocks at each rate" },
    { "pools", FIELD_INT, offsetof(Sashimi, pools), 0, SASHIMI_MAX_POOLS, NULL, NULL,
      "how often the rate is divided by 4" },
    { "expand", FIELD_INT, offsetof(Sashimi, expand), 1, 8, NULL, NULL,
      "factor of the width at each lower rate" },
    { "ff", FIELD_INT, offsetof(Sashimi, ff), 1, 16, NULL, NULL,
      "factor of the feed-forward width" },
    { "state", FIELD_INT, offsetof(Sashimi, state), 2, 1024, NULL, NULL,
      "size of an S4 channel's state" },
    { "head", FIELD_CHOICE, offsetof(Sashimi, head), 0, 0, sashimi_heads, NULL,
      "dml or categorical" },
    { "components", FIELD_INT, offsetof(Sashimi, components), 1, DML_MAX, NULL, NULL,
      "dml: of the mixture" },
    { "dml_round", FIELD_CHOICE, offsetof(Sashimi, dml_round), 0, 0, sashimi_rounds, NULL,
      "dml sampling: nearest or floor" },
    { "channels", FIELD_INT, offsetof(Sashimi, channels), 1, 2, NULL, NULL,
      "channels of the audio, interleaved" },
    { "rate", FIELD_INT, offsetof(Sashimi, rate), 1, 1e6, NULL, NULL,
      "samples per second of the audio" },
    { "encoding", FIELD_CHOICE, offsetof(Sashimi, encoding), 0, 0, sashimi_encodings, NULL,
      "scale of the levels: linear or mu_law" },
    { "state_carry", FIELD_BOOL, offsetof(Sashimi, state_carry), 0, 0, NULL, NULL,
      "carries the state from chunk to chunk of a file" },
    { 0 }
};

static const Sashimi sashimi_defaults = {
    .length = 24576,
    .bits = 8,
    .width = 64,
    .layers = 8,
    .pools = 2,
    .expand = 2,
    .ff = 2,
    .state = 64,
    .components = 6,
    .channels = 1,
    .rate = 16000,
};

/* The multiple of unit nearest to length that has only the factors 2, 3 and 5, as the FFT needs. */
static int64_t sashimi_near(int64_t length, int64_t unit)
{
    int64_t below = length / unit, above = fft_next(below + 1);
    while (below > 0 && !fft_valid(below))
        below--;
    bool down = below > 0 && length - below * unit <= above * unit - length;
    return unit * (down ? below : above);
}

static Err sashimi_check(const void *config)
{
    const Sashimi *m = config;
    int64_t        unit = (int64_t)1 << 2 * m->pools, near = sashimi_near(m->length, unit);
    if (near != m->length)
        return fail(E_USAGE,
                    "model.length is %lld; with %lld pools it must be a multiple of %lld with "
                    "no prime factors but 2, 3 and 5, such as %lld",
                    (long long)m->length, (long long)m->pools, (long long)unit, (long long)near);
    if (m->state % 2)
        return fail(E_USAGE,
                    "model.state is %lld; it counts pairs of conjugate states and must be even",
                    (long long)m->state);
    if (m->length % m->channels)
        return fail(E_USAGE, "model.length: %lld steps do not divide into %lld channels",
                    (long long)m->length, (long long)m->channels);
    return OK;
}

/* ---- starting values ---- */

typedef struct Hippo { /* HiPPO matrices, the same for every layer */
    int64_t pairs;
    float  *a_real, *a_imag, *b, *p;
} Hippo;

typedef struct S4Init { /* of one layer */
    const Hippo *hippo;
    const char  *inv_dt, *c; /* parameter names: they select the random numbers */
    int64_t      length;     /* of C~ */
} S4Init;

static Hippo *hippo_new(Pool *pool, int64_t pairs)
{
    Hippo *h = NEW(pool, Hippo);
    *h = (Hippo){
        .pairs = pairs,
        .a_real = NEWN(pool, float, pairs),
        .a_imag = NEWN(pool, float, pairs),
        .b = NEWN(pool, float, 2 * pairs),
        .p = NEWN(pool, float, 2 * pairs),
    };
    s4_init(pairs, h->a_real, h->a_imag, h->b, h->p);
    return h;
}

static void init_copy(float *data, Shape shape, uint64_t seed, const void *arg)
{
    (void)seed;
    memcpy(data, arg, (size_t)shape_count(shape) * sizeof *data);
}

/* softplus(inv_dt) is log-uniform in [1e-3, 1e-1]. */
static void init_inv_dt(float *data, Shape shape, uint64_t seed, const void *arg)
{
    RandomKey key = { .seed = seed, .stream = random_stream(((const S4Init *)arg)->inv_dt) };
    for (int64_t i = 0; i < shape_count(shape); i++)
        data[i] = (float)log(expm1(1e-3 * pow(100, (double)random_uniform_at(key, (uint64_t)i))));
}

/* C is complex N(0,1), converted to C~ for the layer's length. */
static void init_c(float *data, Shape shape, uint64_t seed, const void *arg)
{
    const S4Init *start = arg;
    const Hippo  *h = start->hippo;
    int64_t       channels = shape.dim[1], count = shape_count(shape);
    RandomKey     key = { .seed = seed, .stream = random_stream(start->c) };
    Pool         *pool = pool_new(NULL, "start");
    float        *inv_dt = NEWN(pool, float, channels);
    init_inv_dt(inv_dt, SHAPE(channels), seed, start);
    random_normals(key, 0, count, data);
    for (int64_t i = 0; i < count; i++)
        data[i] *= 0.70710678f;
    S4Params params = { channels, h->pairs, inv_dt, data, h->b, h->p, h->a_real, h->a_imag };
    s4_c_store(&params, start->length, data);
    pool_free(pool);
}

typedef struct NormInit {
    const char *v; /* the direction's name */
    int64_t     fan_in;
} NormInit;

/* The lengths of the rows of v at the start, so that g v / |v| starts as v. */
static void init_g(float *data, Shape shape, uint64_t seed, const void *arg)
{
    const NormInit *start = arg;
    RandomKey       key = { .seed = seed, .stream = random_stream(start->v) };
    double          bound = 1 / sqrt((double)start->fan_in);
    for (int64_t r = 0; r < shape.dim[0]; r++) {
        double sum = 0;
        for (int64_t i = 0; i < start->fan_in; i++) {
            float u = random_uniform_at(key, (uint64_t)(r * start->fan_in + i));
            sum += pow(bound * (2 * (double)u - 1), 2);
        }
        data[r] = (float)sqrt(sum);
    }
}

typedef void SashimiInit(float *data, Shape shape, uint64_t seed, const void *arg);

static Init init_by(SashimiInit *start, const void *arg)
{
    return (Init){ .kind = INIT_CUSTOM, .custom = start, .arg = arg };
}

/* ---- the model ---- */

/* u (B,L,H) through the layer's state space, in fp32 in every precision. It starts from the state
 * of the previous chunk where `carry` is given and not 0. */
static Tensor sashimi_ssm(Tensor u, Tensor carry, const Hippo *hippo, int64_t length)
{
    Graph  *g = u.graph;
    Shape   s = tensor_shape(u);
    int64_t width = dim(s, -1), n = hippo->pairs;
    S4Init *start = NEW(g->pool, S4Init);
    *start = (S4Init){ .hippo = hippo, .length = length };
    Tensor d = param_add_f32(g, "D", SHAPE(1, width), (Init){ .kind = INIT_NORMAL, .scale = 1 });
    scope_open(g, "kernel");
    Tensor inv_dt = param_add_f32(g, "inv_dt", SHAPE(width, 1), init_by(init_inv_dt, start));
    Tensor c = param_add_f32(g, "C", SHAPE(1, width, n, 2), init_by(init_c, start));
    Tensor b = param_add_f32(g, "B", SHAPE(1, 1, n, 2), init_by(init_copy, hippo->b));
    Tensor a_real = param_add_f32(g, "A_real", SHAPE(1, n), init_by(init_copy, hippo->a_real));
    Tensor a_imag = param_add_f32(g, "A_imag", SHAPE(1, n), init_by(init_copy, hippo->a_imag));
    Tensor p = param_add_f32(g, "P", SHAPE(1, 1, n, 2), init_by(init_copy, hippo->p));
    start->inv_dt = param_of(g, inv_dt.id)->name;
    start->c = param_of(g, c.id)->name;
    Tensor kernel = s4_kernel(inv_dt, c, b, a_real, a_imag, p, s.dim[1]);
    Tensor y = fft_conv(u, kernel, d);
    if (tensor_ok(carry)) {
        Tensor state = state_add(g, "state", F32, SHAPE(s.dim[0], width, n, 2), CLASS_CONSTANTS,
                                 true);
        Tensor begin = s4_begin(state, carry, inv_dt, a_real, a_imag, p);
        Tensor rest = s4_kernel(tile(inv_dt, 0, s.dim[0]), tile(c, 1, s.dim[0]), begin, a_real,
                                a_imag, p, s.dim[1]);
        y = add(
            y, permute_as(rest, (PermuteAttr){ 3, { s.dim[1], s.dim[0], width }, { 1, 0, 2 }, s }));
        s4_end(state, carry, u, inv_dt, b, a_real, a_imag, p);
    }
    scope_close(g);
    return y;
}

/* x (B,L,C) shifted by one step. The first step is 0, or the last step of the previous chunk. */
static Tensor sashimi_shift(Tensor x, Tensor carry)
{
    Shape s = tensor_shape(x);
    if (!tensor_ok(carry) || !tensor_ok(x))
        return shift(x, 1, 1);
    Tensor last = state_add(x.graph, "last", F32, SHAPE(s.dim[0], 1, s.dim[2]), CLASS_CONSTANTS,
                            true);
    Tensor first = cast(mul_rows(last, carry), tensor_type(x));
    Tensor y = s.dim[1] > 1 ? concat((const Tensor[]){ first, slice(x, 1, 0, s.dim[1] - 1) }, 2, 1)
                            : first;
    assign(last, cast(slice(x, 1, s.dim[1] - 1, s.dim[1]), F32));
    return y;
}

static Tensor sashimi_norm(Tensor x)
{
    scope_open(x.graph, "norm.norm");
    Tensor m = param_add_f32(x.graph, "m", SHAPE(1), (Init){ .kind = INIT_ZEROS });
    Tensor s = param_add_f32(x.graph, "s", SHAPE(1), (Init){ .kind = INIT_ONES });
    x = scalar_norm(x, m, s);
    scope_close(x.graph);
    return x;
}

/* `layers` pairs of an S4 block and a feed-forward block, numbered from `first`. */
static Tensor sashimi_blocks(Tensor x, Tensor carry, const Sashimi *m, const Hippo *hippo,
                             int64_t stage, int first)
{
    Graph  *g = x.graph;
    int64_t width = sashimi_width(m, stage);
    for (int i = first; i < first + 2 * m->layers; i += 2) {
        scope_open(g, "%d", i);
        Tensor h = sashimi_norm(x);
        scope_open(g, "layer.layer");
        h = gelu(sashimi_ssm(h, carry, hippo, sashimi_length(m, stage)));
        scope_close(g);
        x = add(x, glu(linear("layer.output_linear.0", h, 2 * width, (Layer){ 0 })));
        scope_close(g);

        scope_open(g, "%d", i + 1);
        h = gelu(linear("layer.ff.0.0", sashimi_norm(x), m->ff * width, (Layer){ 0 }));
        x = linear("layer.ff.2", h, width, (Layer){ .onto = x });
        scope_close(g);
    }
    return x;
}

/* A pool's linear layer with weight normalisation. On disk, a feature of the finer side is h*4+s,
 * with s the step among the four. The weight is permuted to s*H+h, so that pooling the signal is
 * only a reshape. */
static Tensor sashimi_pool(Tensor x, int64_t out, bool down)
{
    Graph    *g = x.graph;
    int64_t   in = dim(tensor_shape(x), -1);
    NormInit *start = NEW(g->pool, NormInit);
    scope_open(g, "linear");
    Tensor b = param_add(g, "bias", SHAPE(out), init_fan_in(in));
    Tensor size = param_add(g, "weight_g", SHAPE(out, 1), init_by(init_g, start));
    Tensor v = param_add(g, "weight_v", SHAPE(out, in), init_fan_in(in));
    *start = (NormInit){ param_of(g, v.id)->name, in };
    Tensor w = weight_norm(size, v);
    if (down) {
        w = permute_as(w, (PermuteAttr){ 3, { out, in / 4, 4 }, { 0, 2, 1 }, SHAPE(out, in) });
    } else {
        w = permute_as(w, (PermuteAttr){ 3, { out / 4, 4, in }, { 1, 0, 2 }, SHAPE(out, in) });
        b = permute_as(b, (PermuteAttr){ 2, { out / 4, 4 }, { 1, 0 }, SHAPE(out) });
    }
    x = linear_op(x, w, b, (LinearAttr){ 0 });
    scope_close(g);
    return x;
}

/* tokens (B,L) -> (B,L,outputs). carry (B,1); tensor_none: every row starts without a state. */
static Tensor sashimi_predict(Tensor tokens, Tensor carry, const Sashimi *m)
{
    Graph *g = tokens.graph;
    Shape  s = tensor_shape(tokens);
    Hippo *hippo = hippo_new(g->pool, m->state / 2);
    Tensor skips[SASHIMI_MAX_POOLS + 1];
    Init   normal = { .kind = INIT_NORMAL, .scale = (float)(1 / sqrt((double)m->width)) };
    Tensor table = param_add(g, "encoder.0.embedding.weight", SHAPE(sashimi_levels(m), m->width),
                             normal);
    Tensor x = skips[0] = skip(embedding(table, tokens));

    scope_open(g, "model");
    for (int i = 0; i < m->pools; i++) {
        scope_open(g, "d_layers.%d", i);
        x = reshape(x, SHAPE(s.dim[0], -1, 4 * sashimi_width(m, i)));
        x = skips[i + 1] = skip(sashimi_pool(x, sashimi_width(m, i + 1), true));
        scope_close(g);
    }
    scope_open(g, "c_layers");
    x = add(sashimi_blocks(x, carry, m, hippo, m->pools, 0), skips[m->pools]);
    scope_close(g);
    for (int i = (int)m->pools - 1; i >= 0; i--) {
        int64_t width = sashimi_width(m, i);
        scope_open(g, "u_layers.%d", (int)m->pools - 1 - i);
        scope_open(g, "0");
        /* the shift keeps the model causal */
        x = sashimi_shift(sashimi_pool(x, 4 * width, false), carry);
        scope_close(g);
        x = add(reshape(x, SHAPE(s.dim[0], -1, width)), skips[i]);
        x = add(sashimi_blocks(x, carry, m, hippo, i, 1), x);
        scope_close(g);
    }
    x = layer_norm("norm", x, 1e-5f);
    x = linear("output_head.projection", x, sashimi_outputs(m), (Layer){ 0 });
    scope_close(g);
    return x;
}

static Tensor sashimi_loss(Graph *g, const void *config, int64_t batch, int64_t share)
{
    const Sashimi *m = config;
    Tensor         tokens = feed(g, "tokens", I32, SHAPE(batch, m->length));
    Tensor         target = feed(g, "target", I32, SHAPE(batch, m->length));
    Tensor         carry = m->state_carry && g->phase == PHASE_MICRO
                               ? feed(g, "carry", F32, SHAPE(batch, 1))
                               : tensor_none(g);
    Tensor         heads = sashimi_predict(tokens, carry, m);
    graph_output(heads, "output");
    /* Padded targets do not count: the loss of each micro-batch or chunk is divided by the number
     * of targets that count in all of them. */
    Tensor all = share > 1 || g->build->counts_given ? feed(g, "denominator", F32, SHAPE(1))
                                                     : tensor_none(g);
    if (m->head == HEAD_CATEGORICAL)
        return cross_entropy(heads, target, all, 1);
    return dml_loss(heads, target, all, (int)sashimi_levels(m), 1);
}

/* The recurrent form draws samples on the host. The graph only holds the weights: it is the model
 * over its shortest sequence. */
static void sashimi_sample_graph(Graph *g, const void *config, const SamplerConfig *sampler,
                                 int64_t n)
{
    const Sashimi *m = config;
    (void)sampler;
    (void)n;
    g->phase = PHASE_SAMPLE;
    Tensor tokens = feed(g, "tokens", I32, SHAPE(1, (int64_t)1 << 2 * m->pools));
    graph_output(sashimi_predict(tokens, tensor_none(g), m), "output");
}

static const char *sashimi_no_split(const void *config)
{
    return ((const Sashimi *)config)->state_carry
               ? "each of its rows carries its own state (model.state_carry)"
               : NULL;
}

static const ModelWhatIf sashimi_what_if[] = { { "half the sequence length", "length", SIZE_HALF },
                                               { "fewer layers", "layers", SIZE_THREE_QUARTERS },
                                               { "fewer mixtures", "components", SIZE_TWO_THIRDS },
                                               { "half the channels", "width", SIZE_HALF },
                                               { "half the state", "state", SIZE_HALF },
                                               { 0 } };

const ModelDef model_sashimi = {
    .name = "sashimi",
    .summary = "state spaces over raw audio, with a mixture of logistics",
    .fields = sashimi_fields,
    .config_bytes = sizeof(Sashimi),
    .defaults = &sashimi_defaults,
    .check = sashimi_check,
    .loss = sashimi_loss,
    .what_if = sashimi_what_if,
    .no_split = sashimi_no_split,
    .unread = "decoder.", /* the original's, which its loss does not use */
    .slow_params = "kernel.A_real|kernel.A_imag|kernel.P|kernel.B|kernel.inv_dt",
    .check_sampler = sashimi_check_sampler,
    .sampler_kind = SAMPLER_RECURRENT,
    .result_kind = RESULT_AUDIO,
    .sample_graph = sashimi_sample_graph,
    .sample = sashimi_sample,
};
