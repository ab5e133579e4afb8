/* cases_attention.c -- attention and attention_stored: the same cases. */
#include "ops/cases.h"

#include "ops/attention/attention.h"
#include "ops/elementwise/basic.h"
#include "ops/elementwise/binary.h"
#include "ops/optimizer/optim.h"

#include <math.h>

/* Torch: q, k, v as (B, heads, L, width), then y = softmax(l) v. */
#define SPLIT(heads)  "s = lambda x: x.unflatten(-1, (" #heads ", -1)).transpose(1, 2)\n"
#define THIRDS(heads) SPLIT(heads) "q, k, v = (s(x) for x in qkv.chunk(3, -1))\n"
#define THREE(heads)  SPLIT(heads) "q, k, v = s(q), s(k), s(v)\n"
#define LOGITS        "l = q @ k.mT * q.shape[-1] ** -0.5\n"
#define OUT           "y = (l.softmax(-1) @ v).transpose(1, 2).flatten(2)"
#define MASK          "l = l.masked_fill(torch.eye(l.shape[-1], dtype=bool), -math.inf)\n"

static void thirds(Case *c, AttentionOptions o)
{
    case_out(c, "y", attention_qkv(case_in(c, "qkv", SHAPE(2, 5, 24), -2, 2), 2, &o));
}
#define TORCH_THIRDS THIRDS(2) LOGITS OUT

static void by_head(Case *c, AttentionOptions o)
{
    o.by_head = true;
    case_out(c, "y", attention_qkv(case_in(c, "qkv", SHAPE(2, 7, 30), -2, 2), 2, &o));
}
#define TORCH_BY_HEAD "q, k, v = qkv.unflatten(-1, (2, 3, 5)).permute(3, 0, 2, 1, 4)\n" LOGITS OUT

static void q_and_kv(Case *c, AttentionOptions o)
{
    Tensor q = case_in(c, "q", SHAPE(2, 3, 6), -2, 2),
           kv = case_in(c, "kv", SHAPE(2, 5, 12), -2, 2);
    case_out(c, "y", attention_q_kv(q, kv, 2, &o));
}
#define TORCH_Q_AND_KV SPLIT(2) "k, v = (s(x) for x in kv.chunk(2, -1)); q = s(q)\n" LOGITS OUT

static void q_and_kv_by_head(Case *c, AttentionOptions o)
{
    Tensor q = case_in(c, "q", SHAPE(1, 4, 9), -2, 2),
           kv = case_in(c, "kv", SHAPE(1, 6, 18), -2, 2);
    o.by_head = true;
    case_out(c, "y", attention_q_kv(q, kv, 3, &o));
}
#define TORCH_Q_AND_KV_BY_HEAD                                                                     \
    SPLIT(3) "k, v = kv.unflatten(-1, (3, 2, 3)).permute(3, 0, 2, 1, 4); q = s(q)\n" LOGITS OUT

static void three(Case *c, AttentionOptions *o, int heads, Shape q, int64_t keys, float range)
{
    Shape  k = shape_with(q, 1, keys);
    Tensor x = case_in(c, "q", q, -range, range);
    Tensor y = case_in(c, "k", k, -range, range), z = case_in(c, "v", k, -1, 1);
    case_out(c, "y", attention(x, y, z, heads, o));
}

static void width_52(Case *c, AttentionOptions o) { three(c, &o, 1, SHAPE(1, 3, 52), 4, 1); }
static void width_72(Case *c, AttentionOptions o) { three(c, &o, 1, SHAPE(1, 2, 72), 3, 1); }
static void width_1(Case *c, AttentionOptions o) { three(c, &o, 3, SHAPE(2, 4, 3), 5, 2); }
static void one_query(Case *c, AttentionOptions o) { three(c, &o, 2, SHAPE(2, 1, 10), 9, 2); }
static void one_key(Case *c, AttentionOptions o) { three(c, &o, 2, SHAPE(2, 6, 8), 1, 2); }
static void many_keys(Case *c, AttentionOptions o) { three(c, &o, 1, SHAPE(1, 3, 5), 167, 2); }
static void many_queries(Case *c, AttentionOptions o) { three(c, &o, 1, SHAPE(1, 167, 5), 2, 2); }
static void odd_both(Case *c, AttentionOptions o) { three(c, &o, 3, SHAPE(1, 37, 6), 49, 2); }

static void large_logits(Case *c, AttentionOptions o) /* sums of 16 products: beyond +-60 */
{
    o.scale = 1;
    three(c, &o, 1, SHAPE(1, 9, 16), 40, 4);
}
#define TORCH_LARGE THREE(1) "l = q @ k.mT\n" OUT

static void scaled(Case *c, AttentionOptions o)
{
    o.scale = -0.375f;
    case_out(c, "y", attention_qkv(case_in(c, "qkv", SHAPE(1, 6, 21), -2, 2), 1, &o));
}
#define TORCH_SCALED THIRDS(1) "l = q @ k.mT * -0.375\n" OUT

static void masked_pair(Case *c, AttentionOptions o)
{
    o.mask_diagonal = true;
    case_out(c, "y", attention_qkv(case_in(c, "qkv", SHAPE(2, 2, 12), -2, 2), 2, &o));
}
#define TORCH_MASKED_PAIR THIRDS(2) LOGITS MASK OUT

static void masked(Case *c, AttentionOptions o) /* the diagonal crosses tiles */
{
    o.mask_diagonal = true;
    case_out(c, "y", attention_qkv(case_in(c, "qkv", SHAPE(1, 35, 24), -2, 2), 2, &o));
}
#define TORCH_MASKED THIRDS(2) LOGITS MASK OUT

static void locality(Case *c, AttentionOptions o) /* LSA: Lee et al. 2021 */
{
    o.mask_diagonal = true;
    o.temperature = case_in(c, "t", SHAPE(1), -1, 0.5f);
    case_out(c, "y", attention_qkv(case_in(c, "qkv", SHAPE(2, 7, 30), -2, 2), 2, &o));
}
#define TORCH_LOCALITY THIRDS(2) "l = t.exp() * (q @ k.mT)\n" MASK OUT

static void temperature_alone(Case *c, AttentionOptions o) /* only its gradient is wanted */
{
    o.temperature = case_in_f32(c, "t", SHAPE(1), -1, 0.5f);
    case_out(c, "y", attention_qkv(case_const(c, "qkv", SHAPE(2, 40, 12), -1, 2), 1, &o));
}
#define TORCH_TEMPERATURE THIRDS(1) "l = t.exp() * (q @ k.mT)\n" OUT

static void image(Case *c, AttentionOptions o)
{
    case_out(c, "y", attention_qkv(case_in(c, "qkv", SHAPE(2, 3, 4, 12), -2, 2), 2, &o));
}
#define TORCH_IMAGE "qkv = qkv.flatten(1, 2)\n" THIRDS(2) LOGITS OUT ".unflatten(1, (3, 4))"

static void same_k_and_v(Case *c, AttentionOptions o)
{
    Tensor q = case_in(c, "q", SHAPE(1, 4, 6), -2, 2), x = case_in(c, "x", SHAPE(1, 5, 6), -2, 2);
    case_out(c, "y", attention(q, x, x, 2, &o));
}
#define TORCH_SAME SPLIT(2) "q, k, v = s(q), s(x), s(x)\n" LOGITS OUT

static void frozen_context(Case *c, AttentionOptions o)
{
    Tensor q = case_in(c, "q", SHAPE(1, 5, 8), -2, 2),
           kv = case_const(c, "kv", SHAPE(1, 33, 16), -2, 2);
    case_out(c, "y", attention_q_kv(q, kv, 2, &o));
}

static void frozen_query(Case *c, AttentionOptions o)
{
    Tensor q = case_const(c, "q", SHAPE(1, 5, 8), -2, 2),
           kv = case_in(c, "kv", SHAPE(1, 33, 16), -2, 2);
    case_out(c, "y", attention_q_kv(q, kv, 2, &o));
}

static void only_v(Case *c, AttentionOptions o)
{
    Tensor q = case_const(c, "q", SHAPE(1, 5, 8), -2, 2),
           k = case_const(c, "k", SHAPE(1, 6, 8), -2, 2);
    case_out(c, "y", attention(q, k, case_in(c, "v", SHAPE(1, 6, 8), -2, 2), 2, &o));
}

static void half(Case *c, AttentionOptions o)
{
    Tensor qkv = cast(case_in(c, "qkv", SHAPE(1, 9, 18), -2, 2), F16);
    case_out(c, "y", cast(attention_qkv(qkv, 1, &o), F32));
}

/* Several tiles and groups of queries and keys; heads divided between threads. */
static void several_tiles(Case *c, AttentionOptions o)
{
    case_out(c, "y", attention_qkv(case_in(c, "qkv", SHAPE(1, 301, 360), -1, 1), 3, &o));
}

static void several_tiles_whole(Case *c, AttentionOptions o) /* rows of whole vectors */
{
    three(c, &o, 1, SHAPE(1, 333, 48), 291, 1);
}

static void several_masked(Case *c, AttentionOptions o)
{
    o.mask_diagonal = true;
    o.temperature = case_in(c, "t", SHAPE(1), -1.5f, -0.5f);
    case_out(c, "y", attention_qkv(case_in(c, "qkv", SHAPE(1, 300, 180), -1, 1), 3, &o));
}
#define TORCH_SEVERAL_MASKED THIRDS(3) "l = t.exp() * (q @ k.mT)\n" MASK OUT

/* Widths that use different tensor-core kernels, with lengths that end inside a tile. */
static void several_72(Case *c, AttentionOptions o)
{
    case_out(c, "y", attention_qkv(case_in(c, "qkv", SHAPE(1, 205, 432), -1, 1), 2, &o));
}

static void several_80(Case *c, AttentionOptions o) /* a negative scale, and a mask */
{
    o.scale = -0.125f;
    o.mask_diagonal = true;
    case_out(c, "y", attention_qkv(case_in(c, "qkv", SHAPE(1, 193, 240), -1, 1), 1, &o));
}
#define TORCH_SEVERAL_80 THIRDS(1) "l = q @ k.mT * -0.125\n" MASK OUT

static void several_128(Case *c, AttentionOptions o)
{
    three(c, &o, 1, SHAPE(1, 197, 128), 131, 1);
}

static void text(Case *c, AttentionOptions o) { three(c, &o, 4, SHAPE(2, 200, 256), 77, 1); }
static void tokens(Case *c, AttentionOptions o) { three(c, &o, 3, SHAPE(3, 258, 48), 258, 1); }

/* Sequences short enough for one block per head on a GPU, with lengths that end at each of its
 * steps; then longer ones. */
static void short_masked(Case *c, AttentionOptions o)
{
    o.mask_diagonal = true;
    o.temperature = case_in(c, "t", SHAPE(1), -2.5f, -1.5f);
    case_out(c, "y", attention_qkv(case_in(c, "qkv", SHAPE(1, 258, 384), -1, 1), 2, &o));
}
#define TORCH_SHORT_MASKED THIRDS(2) "l = t.exp() * (q @ k.mT)\n" MASK OUT

static void short_negative(Case *c, AttentionOptions o)
{
    o.scale = -0.1f;
    three(c, &o, 1, SHAPE(1, 288, 64), 129, 1);
}
#define TORCH_SHORT_NEGATIVE THREE(1) "l = q @ k.mT * -0.1\n" OUT

static void short_256(Case *c, AttentionOptions o) { three(c, &o, 2, SHAPE(1, 256, 104), 256, 1); }
static void short_270(Case *c, AttentionOptions o) { three(c, &o, 1, SHAPE(1, 270, 52), 260, 1); }
static void short_65(Case *c, AttentionOptions o) { three(c, &o, 2, SHAPE(2, 65, 128), 287, 1); }
static void short_few(Case *c, AttentionOptions o) { three(c, &o, 1, SHAPE(1, 270, 64), 20, 1); }
static void longer_64(Case *c, AttentionOptions o) { three(c, &o, 1, SHAPE(1, 350, 64), 330, 1); }
static void longer_52(Case *c, AttentionOptions o) { three(c, &o, 1, SHAPE(1, 321, 52), 340, 1); }
static void longer_24(Case *c, AttentionOptions o) { three(c, &o, 1, SHAPE(1, 340, 24), 321, 1); }

static void wide_head(Case *c, AttentionOptions o) { three(c, &o, 1, SHAPE(1, 70, 512), 70, 1); }
static void widest(Case *c, AttentionOptions o) { three(c, &o, 1, SHAPE(1, 33, 1030), 50, 1); }

static void wide_packed(Case *c, AttentionOptions o) /* heads at equal strides */
{
    o.mask_diagonal = true;
    case_out(c, "y", attention_qkv(case_in(c, "qkv", SHAPE(2, 41, 3 * 3 * 136), -1, 1), 3, &o));
}
#define TORCH_WIDE_PACKED THIRDS(3) LOGITS MASK OUT

static void wide_batch(Case *c, AttentionOptions o) { three(c, &o, 1, SHAPE(3, 45, 160), 29, 1); }
/* more scores than one chunk holds */
static void wide_long(Case *c, AttentionOptions o)
{
    three(c, &o, 1, SHAPE(1, 2100, 132), 2051, 1);
}

static void long_masked(Case *c, AttentionOptions o) /* exact fp32 may take another kernel */
{
    o.mask_diagonal = true;
    case_out(c, "y", attention_qkv(case_in(c, "qkv", SHAPE(2, 521, 3 * 2 * 40), -1, 1), 2, &o));
}
#define TORCH_LONG_MASKED THIRDS(2) LOGITS MASK OUT

/* ---- forms of F.scaled_dot_product_attention ---- */

/* Heads of k and v repeated for the heads of q that share them. */
#define SHARED(heads, kv_heads)                                                                    \
    "s = lambda x, n: x.unflatten(-1, (n, -1)).transpose(1, 2)\n"                                  \
    "r = lambda x: s(x, " #kv_heads ").repeat_interleave(" #heads " // " #kv_heads ", 1)\n"        \
    "q, k, v = s(q, " #heads "), r(k), r(v)\n"
#define CAUSAL "l = l.masked_fill(torch.ones(l.shape[-2:]).tril() == 0, -math.inf)\n"
/* The softmax that is 0 where a query sees nothing. */
#define PROBABILITIES                                                                              \
    "e = (l - l.detach().amax(-1, keepdim=True).clamp(min=-1e30)).exp()\n"                         \
    "p = e / e.sum(-1, keepdim=True).clamp(min=1e-30)\n"
#define OUT_OF_P  "y = (p @ v).transpose(1, 2).flatten(2)"
#define MASK_RULE "((3 * i + 5 * j + b + 2 * h) % 4 == 0) | (i % 5 == 2)"
#define MASK_OF(shape)                                                                             \
    "b, h, i, j = torch.meshgrid(*(torch.arange(n) for n in " shape "), indexing='ij')\n"          \
    "m = torch.where(" MASK_RULE ", -math.inf, 0.0).double()\n"

/* A mask as an importer makes it of booleans. In all of its rows 2, 7, ... no key is seen. */
static Tensor mask_of(Case *c, Shape s)
{
    static float entries[40000];
    float       *at = entries;
    if (shape_count(s) > (int64_t)(sizeof entries / sizeof *entries))
        return graph_poison(case_graph(c), E_SHAPE, "mask_of: too small a table");
    for (int64_t b = 0; b < s.dim[0]; b++)
        for (int64_t h = 0; h < s.dim[1]; h++)
            for (int64_t i = 0; i < s.dim[2]; i++)
                for (int64_t j = 0; j < s.dim[3]; j++)
                    *at++ = (3 * i + 5 * j + b + 2 * h) % 4 == 0 || i % 5 == 2 ? -INFINITY : 0;
    return constant_add(case_graph(c), "mask", F32, s, entries, CLASS_CONSTANTS);
}

static void shared(Case *c, AttentionOptions *o, int heads, int kv_heads, Shape q, int64_t keys,
                   int v_width)
{
    int64_t width = q.dim[2] / heads;
    o->kv_heads = kv_heads;
    o->v_width = v_width;
    Tensor x = case_in(c, "q", q, -1, 1);
    Tensor y = case_in(c, "k", SHAPE(q.dim[0], keys, kv_heads * width), -1, 1);
    Tensor z = case_in(c, "v", SHAPE(q.dim[0], keys, kv_heads * (v_width ? v_width : width)), -1,
                       1);
    case_out(c, "y", attention(x, y, z, heads, o));
}

static void causal(Case *c, AttentionOptions o)
{
    o.causal = true;
    case_out(c, "y", attention_qkv(case_in(c, "qkv", SHAPE(2, 7, 24), -2, 2), 2, &o));
}
#define TORCH_CAUSAL THIRDS(2) LOGITS CAUSAL OUT

static void causal_few_keys(Case *c, AttentionOptions o)
{
    o.causal = true;
    three(c, &o, 2, SHAPE(2, 9, 6), 4, 2);
}

static void causal_many_keys(Case *c, AttentionOptions o) /* the last keys are never seen */
{
    o.causal = true;
    three(c, &o, 2, SHAPE(2, 5, 8), 50, 2);
}
#define TORCH_CAUSAL_THREE THREE(2) LOGITS CAUSAL OUT

static void causal_one_query(Case *c, AttentionOptions o)
{
    o.causal = true;
    three(c, &o, 2, SHAPE(1, 1, 8), 5, 2);
}

static void causal_one_key(Case *c, AttentionOptions o)
{
    o.causal = true;
    three(c, &o, 2, SHAPE(1, 5, 8), 1, 2);
}

static void causal_masked(Case *c, AttentionOptions o) /* query 0 sees nothing */
{
    o.causal = o.mask_diagonal = true;
    o.temperature = case_in(c, "t", SHAPE(1), -1, 0.5f);
    case_out(c, "y", attention_qkv(case_in(c, "qkv", SHAPE(2, 7, 30), -1, 1), 2, &o));
}
#define TORCH_CAUSAL_MASKED                                                                        \
    THIRDS(2) "l = t.exp() * (q @ k.mT)\n" MASK CAUSAL PROBABILITIES OUT_OF_P

static void causal_tiles(Case *c, AttentionOptions o)
{
    o.causal = true;
    case_out(c, "y", attention_qkv(case_in(c, "qkv", SHAPE(2, 301, 3 * 3 * 16), -1, 1), 3, &o));
}
#define TORCH_CAUSAL_TILES THIRDS(3) LOGITS CAUSAL OUT

static void causal_128(Case *c, AttentionOptions o)
{
    o.causal = true;
    three(c, &o, 1, SHAPE(1, 333, 128), 291, 1);
}
#define TORCH_CAUSAL_ONE THREE(1) LOGITS CAUSAL OUT

static void causal_64(Case *c, AttentionOptions o)
{
    o.causal = true;
    three(c, &o, 2, SHAPE(1, 193, 128), 420, 1);
}

static void causal_wide(Case *c, AttentionOptions o)
{
    o.causal = true;
    three(c, &o, 1, SHAPE(1, 70, 200), 75, 1);
}

static void shared_pairs(Case *c, AttentionOptions o)
{
    shared(c, &o, 4, 2, SHAPE(2, 5, 24), 7, 0);
}
#define TORCH_SHARED_PAIRS SHARED(4, 2) LOGITS OUT

static void shared_by_all(Case *c, AttentionOptions o)
{
    shared(c, &o, 3, 1, SHAPE(2, 9, 24), 9, 0);
}
#define TORCH_SHARED_BY_ALL SHARED(3, 1) LOGITS OUT

static void shared_packed(Case *c, AttentionOptions o)
{
    o.kv_heads = 2;
    case_out(c, "y", attention_qkv(case_in(c, "x", SHAPE(2, 5, (6 + 4) * 4), -1, 1), 6, &o));
}
#define TORCH_SHARED_PACKED "q, k, v = x.split((24, 8, 8), -1)\n" SHARED(6, 2) LOGITS OUT

static void shared_causal(Case *c, AttentionOptions o)
{
    o.causal = true;
    shared(c, &o, 4, 2, SHAPE(2, 9, 32), 9, 0);
}
#define TORCH_SHARED_CAUSAL SHARED(4, 2) LOGITS CAUSAL OUT

static void shared_tiles(Case *c, AttentionOptions o)
{
    shared(c, &o, 6, 2, SHAPE(1, 150, 6 * 16), 133, 0);
}
#define TORCH_SHARED_TILES SHARED(6, 2) LOGITS OUT

static void shared_causal_tiles(Case *c, AttentionOptions o)
{
    o.causal = true;
    shared(c, &o, 4, 1, SHAPE(1, 313, 4 * 64), 313, 0);
}
#define TORCH_SHARED_CAUSAL_TILES SHARED(4, 1) LOGITS CAUSAL OUT

static void shared_temperature(Case *c, AttentionOptions o)
{
    o.temperature = case_in(c, "t", SHAPE(1), -1, 0.5f);
    shared(c, &o, 4, 2, SHAPE(1, 35, 4 * 8), 35, 0);
}
#define TORCH_SHARED_TEMPERATURE SHARED(4, 2) "l = t.exp() * (q @ k.mT)\n" OUT

static void wide_values(Case *c, AttentionOptions o)
{
    shared(c, &o, 2, 2, SHAPE(2, 5, 12), 7, 10);
}
#define TORCH_TWO SHARED(2, 2) LOGITS OUT

static void narrow_values(Case *c, AttentionOptions o)
{
    shared(c, &o, 2, 2, SHAPE(2, 37, 2 * 40), 41, 9);
}

static void packed_values(Case *c, AttentionOptions o)
{
    o.v_width = 5;
    o.by_head = true;
    case_out(c, "y", attention_qkv(case_in(c, "x", SHAPE(1, 6, 2 * 11), -1, 1), 2, &o));
}
#define TORCH_PACKED_VALUES                                                                        \
    "q, k, v = (z.transpose(1, 2) for z in x.unflatten(-1, (2, 11)).split((3, 3, 5), "             \
    "-1))\n" LOGITS OUT

static void values_tiles(Case *c, AttentionOptions o)
{
    o.causal = true;
    shared(c, &o, 4, 2, SHAPE(1, 150, 4 * 72), 150, 128);
}
#define TORCH_VALUES_TILES SHARED(4, 2) LOGITS CAUSAL OUT

/* A bias of every kind: learned, or not. */
static void biased(Case *c, AttentionOptions *o, Shape bias, bool learned)
{
    o->bias = learned ? case_in(c, "bias", bias, -2, 2) : case_const(c, "bias", bias, -2, 2);
    three(c, o, 3, SHAPE(2, 5, 12), 7, 1);
}
#define TORCH_BIASED THREE(3) LOGITS "l = l + bias\n" OUT

/* clang-format off */
static void bias_bhqk(Case *c, AttentionOptions o) { biased(c, &o, SHAPE(2, 3, 5, 7), true); }
static void bias_hqk(Case *c, AttentionOptions o)  { biased(c, &o, SHAPE(1, 3, 5, 7), true); }
static void bias_bqk(Case *c, AttentionOptions o)  { biased(c, &o, SHAPE(2, 1, 5, 7), true); }
static void bias_bhk(Case *c, AttentionOptions o)  { biased(c, &o, SHAPE(2, 3, 1, 7), true); }
static void bias_qk(Case *c, AttentionOptions o)   { biased(c, &o, SHAPE(1, 1, 5, 7), true); }
static void bias_hk(Case *c, AttentionOptions o)   { biased(c, &o, SHAPE(1, 3, 1, 7), true); }
static void bias_bk(Case *c, AttentionOptions o)   { biased(c, &o, SHAPE(2, 1, 1, 7), true); }
static void bias_k(Case *c, AttentionOptions o)    { biased(c, &o, SHAPE(1, 1, 1, 7), true); }
static void given_bhqk(Case *c, AttentionOptions o) { biased(c, &o, SHAPE(2, 3, 5, 7), false); }
static void given_hqk(Case *c, AttentionOptions o)  { biased(c, &o, SHAPE(1, 3, 5, 7), false); }
static void given_bk(Case *c, AttentionOptions o)   { biased(c, &o, SHAPE(2, 1, 1, 7), false); }
/* clang-format on */

static void bias_f32(Case *c, AttentionOptions o) /* in every precision */
{
    o.bias = case_in_f32(c, "bias", SHAPE(1, 3, 5, 7), -2, 2);
    three(c, &o, 3, SHAPE(2, 5, 12), 7, 1);
}

static void bias_alone(Case *c, AttentionOptions o) /* only its gradient is wanted */
{
    o.bias = case_in(c, "bias", SHAPE(1, 2, 6, 6), -2, 2);
    case_out(c, "y", attention_qkv(case_const(c, "qkv", SHAPE(3, 6, 24), -1, 1), 2, &o));
}
#define TORCH_BIAS_ALONE THIRDS(2) LOGITS "l = l + bias\n" OUT

static void bias_computed(Case *c, AttentionOptions o)
{
    Tensor bias = case_in(c, "bias", SHAPE(2, 3, 5, 7), -1, 1);
    o.bias = mul(bias, bias);
    three(c, &o, 3, SHAPE(2, 5, 12), 7, 1);
}
#define TORCH_BIAS_COMPUTED THREE(3) LOGITS "l = l + bias * bias\n" OUT

static void bias_tiles(Case *c, AttentionOptions o) /* as of relative positions */
{
    o.bias = case_in(c, "bias", SHAPE(1, 2, 150, 139), -1, 1);
    three(c, &o, 2, SHAPE(3, 150, 2 * 24), 139, 1);
}
#define TORCH_BIAS_TILES THREE(2) LOGITS "l = l + bias\n" OUT

static void bias_windows(Case *c, AttentionOptions o) /* many small windows */
{
    o.bias = case_in(c, "bias", SHAPE(1, 3, 49, 49), -1, 1);
    three(c, &o, 3, SHAPE(40, 49, 3 * 32), 49, 1);
}
#define TORCH_BIAS_WINDOWS THREE(3) LOGITS "l = l + bias\n" OUT

static void bias_keys_tiles(Case *c, AttentionOptions o)
{
    o.bias = case_in(c, "bias", SHAPE(2, 1, 1, 300), -1, 1);
    three(c, &o, 2, SHAPE(2, 290, 2 * 64), 300, 1);
}

static void masked_rows(Case *c, AttentionOptions o)
{
    o.bias = mask_of(c, SHAPE(2, 2, 8, 9));
    three(c, &o, 2, SHAPE(2, 8, 12), 9, 1);
}
#define TORCH_MASKED_ROWS                                                                          \
    MASK_OF("(2, 2, 8, 9)") THREE(2) LOGITS "l = l + m\n" PROBABILITIES OUT_OF_P

static void masked_samples(Case *c, AttentionOptions o) /* a mask of each sample, and causal */
{
    o.bias = mask_of(c, SHAPE(3, 1, 35, 35));
    o.causal = true;
    three(c, &o, 2, SHAPE(3, 35, 2 * 8), 35, 1);
}
#define TORCH_MASKED_SAMPLES                                                                       \
    MASK_OF("(3, 1, 35, 35)") THREE(2) LOGITS "l = l + m\n" CAUSAL PROBABILITIES OUT_OF_P

static void masked_tiles(Case *c, AttentionOptions o)
{
    o.bias = mask_of(c, SHAPE(1, 1, 190, 200));
    shared(c, &o, 4, 2, SHAPE(2, 190, 4 * 64), 200, 0);
}
#define TORCH_MASKED_TILES                                                                         \
    MASK_OF("(1, 1, 190, 200)") SHARED(4, 2) LOGITS "l = l + m\n" PROBABILITIES OUT_OF_P

static void masked_bias(Case *c, AttentionOptions o) /* learned, and masked: everything at once */
{
    Tensor bias = case_in_f32(c, "bias", SHAPE(1, 4, 11, 13), -1, 1);
    o.bias = weighted_sum(bias, 1, mask_of(c, SHAPE(1, 4, 11, 13)), 1);
    o.causal = true;
    shared(c, &o, 4, 2, SHAPE(2, 11, 4 * 8), 13, 12);
}
#define TORCH_MASKED_BIAS                                                                          \
    MASK_OF("(1, 4, 11, 13)")                                                                      \
    SHARED(4, 2) LOGITS "l = l + bias + m\n" CAUSAL PROBABILITIES OUT_OF_P

static void bias_wide(Case *c, AttentionOptions o)
{
    o.bias = case_in(c, "bias", SHAPE(1, 1, 70, 75), -1, 1);
    three(c, &o, 1, SHAPE(1, 70, 256), 75, 1);
}
#define TORCH_BIAS_WIDE THREE(1) LOGITS "l = l + bias\n" OUT

/* The random numbers of base/random.h, for the elements of `shape` in micro-batch 2. */
#define DROPPED(shape)                                                                             \
    "def four(n):\n"                                                                               \
    "    c0, c1, c2, c3, k0, k1, m = n & 0xffffffff, n >> 32, 9, 5, 17, 0xfffffffd, 0xffffffff\n"  \
    "    for _ in range(10):\n"                                                                    \
    "        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2\n"                                            \
    "        c0, c1, c2, c3 = b >> 32 ^ c1 ^ k0, b & m, a >> 32 ^ c3 ^ k1, a & m\n"                \
    "        k0, k1 = k0 + 0x9E3779B9 & m, k1 + 0xBB67AE85 & m\n"                                  \
    "    return c0, c1, c2, c3\n"                                                                  \
    "n = math.prod(" shape "); at = 2 * n\n"                                                       \
    "w = [x for i in range(at // 4, (at + n + 3) // 4) for x in four(i)][at % 4:at % 4 + n]\n"     \
    "u = torch.tensor([((x >> 9) + 0.5) * 2 ** -23 for x in w]).reshape(" shape ")\n"              \
    "p = torch.where(u < 0.25, 0, p / 0.75)\n"

static void drop_quarter(Case *c, AttentionOptions *o)
{
    static const int32_t words[COUNTER_WORDS] = {
        [COUNTER_SEED_LOW] = 17, [COUNTER_SEED_HIGH] = -3, [COUNTER_STEP] = 5, [COUNTER_MICRO] = 2
    };
    o->dropout = 0.25f;
    o->stream = 9;
    o->counters = constant_add(case_graph(c), "counters", I32, SHAPE(COUNTER_WORDS), words,
                               CLASS_INPUTS);
}

static void dropped(Case *c, AttentionOptions o)
{
    drop_quarter(c, &o);
    three(c, &o, 2, SHAPE(2, 5, 12), 7, 1);
}
#define TORCH_DROPPED THREE(2) LOGITS PROBABILITIES DROPPED("(2, 2, 5, 7)") OUT_OF_P

static void dropped_all(Case *c, AttentionOptions o) /* with everything else */
{
    Tensor bias = case_in_f32(c, "bias", SHAPE(1, 1, 37, 37), -1, 1);
    drop_quarter(c, &o);
    o.bias = weighted_sum(bias, 1, mask_of(c, SHAPE(1, 1, 37, 37)), 1);
    o.causal = true;
    shared(c, &o, 4, 2, SHAPE(2, 37, 4 * 8), 37, 12);
}
#define TORCH_DROPPED_ALL                                                                          \
    MASK_OF("(1, 1, 37, 37)")                                                                      \
    SHARED(4, 2)                                                                                   \
    LOGITS "l = l + bias + m\n" CAUSAL PROBABILITIES DROPPED("(2, 4, 37, 37)") OUT_OF_P

static void dropped_tiles(Case *c, AttentionOptions o)
{
    drop_quarter(c, &o);
    three(c, &o, 1, SHAPE(1, 205, 64), 193, 1);
}
#define TORCH_DROPPED_TILES THREE(1) LOGITS PROBABILITIES DROPPED("(1, 1, 205, 193)") OUT_OF_P

static void dropped_fours(Case *c, AttentionOptions o) /* rows of keys begin at multiples of 4 */
{
    drop_quarter(c, &o);
    o.causal = true;
    three(c, &o, 2, SHAPE(1, 140, 128), 140, 1);
}
#define TORCH_DROPPED_FOURS                                                                        \
    THREE(2) LOGITS CAUSAL PROBABILITIES DROPPED("(1, 2, 140, 140)") OUT_OF_P

/* In bf16 a temperature's gradient may be off by more: it is a sum of terms that cancel, and delta
 * = rowsum(dy * y) sees the rounding of y (or, stored, that of the probabilities). */
/* clang-format off */
#define CASES(X)                                                                                  \
    X("thirds",                   thirds,              TORCH_THIRDS, 0, 0)                        \
    X("by head",                  by_head,             TORCH_BY_HEAD, 0, 0)                       \
    X("q and kv",                 q_and_kv,            TORCH_Q_AND_KV, 0, 0)                      \
    X("q and kv by head",         q_and_kv_by_head,    TORCH_Q_AND_KV_BY_HEAD, 0, 0)              \
    X("three, width 52",          width_52,            THREE(1) LOGITS OUT, 0, 0)                 \
    X("three, width 72",          width_72,            THREE(1) LOGITS OUT, 0, 0)                 \
    X("width 1",                  width_1,             THREE(3) LOGITS OUT, 0, 0)                 \
    X("one query",                one_query,           THREE(2) LOGITS OUT, 0, 0)                 \
    X("one key",                  one_key,             THREE(2) LOGITS OUT, 0, 0)                 \
    X("many keys",                many_keys,           THREE(1) LOGITS OUT, 0, 0)                 \
    X("many queries",             many_queries,        THREE(1) LOGITS OUT, 0, 0)                 \
    X("odd lengths",              odd_both,            THREE(3) LOGITS OUT, 0, 0)                 \
    X("large logits",             large_logits,        TORCH_LARGE, CASE_NO_DIFFERENCES, 0)       \
    X("negative scale",           scaled,              TORCH_SCALED, 0, 0)                        \
    X("masked pair",              masked_pair,         TORCH_MASKED_PAIR, 0, 0)                   \
    X("masked diagonal",          masked,              TORCH_MASKED, 0, 0)                        \
    X("mask and temperature",     locality,            TORCH_LOCALITY, 0, 0.1)                    \
    X("temperature alone",        temperature_alone,   TORCH_TEMPERATURE, 0, 0.1)                 \
    X("image",                    image,               TORCH_IMAGE, 0, 0)                         \
    X("k is v",                   same_k_and_v,        TORCH_SAME, 0, 0)                          \
    X("frozen context",           frozen_context,      TORCH_Q_AND_KV, 0, 0)                      \
    X("frozen query",             frozen_query,        TORCH_Q_AND_KV, 0, 0)                      \
    X("only v trained",           only_v,              THREE(2) LOGITS OUT, 0, 0)                 \
    X("several tiles",            several_tiles,       THIRDS(3) LOGITS OUT, CASE_LIVE_ONLY, 0)   \
    X("several tiles, one head",  several_tiles_whole, THREE(1) LOGITS OUT, CASE_LIVE_ONLY, 0)    \
    X("several tiles, masked",    several_masked,      TORCH_SEVERAL_MASKED, CASE_LIVE_ONLY, 0.1) \
    X("several tiles of 72",      several_72,          THIRDS(2) LOGITS OUT, CASE_LIVE_ONLY, 0)   \
    X("several tiles of 80",      several_80,          TORCH_SEVERAL_80, CASE_LIVE_ONLY, 0)       \
    X("several tiles of 128",     several_128,         THREE(1) LOGITS OUT, CASE_LIVE_ONLY, 0)    \
    X("77 words",                 text,                THREE(4) LOGITS OUT, CASE_LIVE_ONLY, 0)    \
    X("258 tokens",               tokens,              THREE(3) LOGITS OUT, CASE_LIVE_ONLY, 0)    \
    X("258 masked",               short_masked,        TORCH_SHORT_MASKED, CASE_LIVE_ONLY, 0.1)   \
    X("288 and a negative scale", short_negative,      TORCH_SHORT_NEGATIVE, CASE_LIVE_ONLY, 0)   \
    X("256 of 52",                short_256,           THREE(2) LOGITS OUT, CASE_LIVE_ONLY, 0)    \
    X("270 of 52",                short_270,           THREE(1) LOGITS OUT, CASE_LIVE_ONLY, 0)    \
    X("65 and 287",               short_65,            THREE(2) LOGITS OUT, CASE_LIVE_ONLY, 0)    \
    X("270 and 20",               short_few,           THREE(1) LOGITS OUT, CASE_LIVE_ONLY, 0)    \
    X("350 of 64",                longer_64,           THREE(1) LOGITS OUT, CASE_LIVE_ONLY, 0)    \
    X("321 of 52",                longer_52,           THREE(1) LOGITS OUT, CASE_LIVE_ONLY, 0)    \
    X("340 of 24",                longer_24,           THREE(1) LOGITS OUT, CASE_LIVE_ONLY, 0)    \
    X("one head of 512",          wide_head,           THREE(1) LOGITS OUT, CASE_LIVE_ONLY, 0)    \
    X("one head of 1030",         widest,              THREE(1) LOGITS OUT, CASE_LIVE_ONLY, 0)    \
    X("three of 136, masked",     wide_packed,         TORCH_WIDE_PACKED, CASE_LIVE_ONLY, 0)      \
    X("three times 160",          wide_batch,          THREE(1) LOGITS OUT, CASE_LIVE_ONLY, 0)    \
    X("521 masked",               long_masked,         TORCH_LONG_MASKED,                         \
      CASE_LIVE_ONLY | CASE_NO_DIFFERENCES, 0)                                                    \
    X("2100 of 132",              wide_long,           THREE(1) LOGITS OUT,                       \
      CASE_LIVE_ONLY | CASE_NO_DIFFERENCES, 0)                                                    \
    X("causal",                   causal,              TORCH_CAUSAL, 0, 0)                        \
    X("causal, few keys",         causal_few_keys,     TORCH_CAUSAL_THREE, 0, 0)                  \
    X("causal, many keys",        causal_many_keys,    TORCH_CAUSAL_THREE, 0, 0)                  \
    X("causal, one query",        causal_one_query,    TORCH_CAUSAL_THREE, 0, 0)                  \
    X("causal, one key",          causal_one_key,      TORCH_CAUSAL_THREE, 0, 0)                  \
    X("causal and masked",        causal_masked,       TORCH_CAUSAL_MASKED, 0, 0.1)               \
    X("causal tiles",             causal_tiles,        TORCH_CAUSAL_TILES, CASE_LIVE_ONLY, 0)     \
    X("causal tiles of 128",      causal_128,          TORCH_CAUSAL_ONE, CASE_LIVE_ONLY, 0)       \
    X("causal tiles of 64",       causal_64,           TORCH_CAUSAL_THREE, CASE_LIVE_ONLY, 0)     \
    X("causal, 200 wide",         causal_wide,         TORCH_CAUSAL_ONE, CASE_LIVE_ONLY, 0)       \
    X("shared by pairs",          shared_pairs,        TORCH_SHARED_PAIRS, 0, 0)                  \
    X("shared by all",            shared_by_all,       TORCH_SHARED_BY_ALL, 0, 0)                 \
    X("shared, packed",           shared_packed,       TORCH_SHARED_PACKED, 0, 0)                 \
    X("shared, causal",           shared_causal,       TORCH_SHARED_CAUSAL, 0, 0)                 \
    X("shared tiles",             shared_tiles,        TORCH_SHARED_TILES, CASE_LIVE_ONLY, 0)     \
    X("shared, causal tiles",     shared_causal_tiles, TORCH_SHARED_CAUSAL_TILES,                 \
      CASE_LIVE_ONLY, 0)                                                                          \
    X("shared, temperature",      shared_temperature,  TORCH_SHARED_TEMPERATURE, 0, 0.1)          \
    X("wide values",              wide_values,         TORCH_TWO, 0, 0)                           \
    X("narrow values",            narrow_values,       TORCH_TWO, CASE_LIVE_ONLY, 0)              \
    X("packed values",            packed_values,       TORCH_PACKED_VALUES, 0, 0)                 \
    X("tiles of 72 and 128",      values_tiles,        TORCH_VALUES_TILES, CASE_LIVE_ONLY, 0)     \
    X("bias bhqk",                bias_bhqk,           TORCH_BIASED, 0, 0)                        \
    X("bias hqk",                 bias_hqk,            TORCH_BIASED, 0, 0)                        \
    X("bias bqk",                 bias_bqk,            TORCH_BIASED, 0, 0)                        \
    X("bias bhk",                 bias_bhk,            TORCH_BIASED, 0, 0)                        \
    X("bias qk",                  bias_qk,             TORCH_BIASED, 0, 0)                        \
    X("bias hk",                  bias_hk,             TORCH_BIASED, 0, 0)                        \
    X("bias bk",                  bias_bk,             TORCH_BIASED, 0, 0)                        \
    X("bias k",                   bias_k,              TORCH_BIASED, 0, 0)                        \
    X("given bias bhqk",          given_bhqk,          TORCH_BIASED, 0, 0)                        \
    X("given bias hqk",           given_hqk,           TORCH_BIASED, 0, 0)                        \
    X("given bias bk",            given_bk,            TORCH_BIASED, 0, 0)                        \
    X("bias in fp32",             bias_f32,            TORCH_BIASED, 0, 0)                        \
    X("bias alone",               bias_alone,          TORCH_BIAS_ALONE, 0, 0)                    \
    X("computed bias",            bias_computed,       TORCH_BIAS_COMPUTED, 0, 0)                 \
    X("bias tiles",               bias_tiles,          TORCH_BIAS_TILES, CASE_LIVE_ONLY, 0)       \
    X("bias of windows",          bias_windows,        TORCH_BIAS_WINDOWS, CASE_LIVE_ONLY, 0)     \
    X("bias of 300 keys",         bias_keys_tiles,     TORCH_BIAS_TILES, CASE_LIVE_ONLY, 0)       \
    X("bias, 256 wide",           bias_wide,           TORCH_BIAS_WIDE, CASE_LIVE_ONLY, 0)        \
    X("masked rows",              masked_rows,         TORCH_MASKED_ROWS, 0, 0)                   \
    X("masked samples",           masked_samples,      TORCH_MASKED_SAMPLES, 0, 0)                \
    X("masked tiles",             masked_tiles,        TORCH_MASKED_TILES, CASE_LIVE_ONLY, 0)     \
    X("masked bias",              masked_bias,         TORCH_MASKED_BIAS, 0, 0)                   \
    X("dropped",                  dropped,             TORCH_DROPPED, 0, 0)                       \
    X("dropped, all forms",       dropped_all,         TORCH_DROPPED_ALL, CASE_LIVE_ONLY, 0)      \
    X("dropped tiles",            dropped_tiles,       TORCH_DROPPED_TILES, CASE_LIVE_ONLY, 0)    \
    X("dropped fours",            dropped_fours,       TORCH_DROPPED_FOURS, CASE_LIVE_ONLY, 0)
/* clang-format on */

#define X(title, name, torch, flags, tol)                                                          \
    static void name##_tiled(Case *c) { name(c, (AttentionOptions){ 0 }); }                        \
    static void name##_stored(Case *c) { name(c, (AttentionOptions){ .stored = true }); }
CASES(X)
#undef X

static void half_tiled(Case *c) { half(c, (AttentionOptions){ 0 }); }
static void half_stored(Case *c) { half(c, (AttentionOptions){ .stored = true }); }
#define HALF(build)                                                                                \
    {                                                                                              \
        "f16", build, THIRDS(1) LOGITS OUT, CASE_NO_DIFFERENCES, 2e-3, 1e-2, NULL                  \
    }

/* What builders must refuse. */
static void misuse(Case *c)
{
    case_out(c, "y", attention_qkv(case_const(c, "qkv", SHAPE(1, 2, 6), -1, 1), 1, NULL));
}

static Graph *misuse_graph;

static Tensor given(Shape shape)
{
    return state_add(misuse_graph, "x", F32, shape, CLASS_CONSTANTS, false);
}

static Tensor other(Shape shape)
{
    return state_add(misuse_graph, "z", F32, shape, CLASS_CONSTANTS, false);
}

static Tensor misuse_try(int which)
{
    AttentionOptions mask = { .mask_diagonal = true }, warm = { 0 }, scale = { .scale = INFINITY };
    Tensor           none = tensor_none(misuse_graph);
    switch (which) {
    case 0: return attention_qkv(given(SHAPE(2, 4, 18)), 4, NULL); /* 18 / (3 * 4) */
    case 1: return attention_qkv(given(SHAPE(2, 4, 18)), 0, NULL);
    case 2: return attention_qkv(given(SHAPE(4, 18)), 2, NULL); /* no sequence */
    case 3: return attention_q_kv(given(SHAPE(2, 4, 6)), other(SHAPE(2, 4, 8)), 2, NULL);
    case 4: return attention_q_kv(given(SHAPE(2, 4, 6)), other(SHAPE(3, 4, 12)), 2, NULL);
    case 5: return attention_qkv(given(SHAPE(2, 1, 6)), 1, &mask); /* sees nothing */
    case 6: return attention_q_kv(given(SHAPE(2, 4, 6)), other(SHAPE(2, 5, 12)), 2, &mask);
    case 7: return attention(given(SHAPE(2, 4, 6)), other(SHAPE(2, 4, 6)), none, 2, NULL);
    case 8: return attention_qkv(given(SHAPE(2, 4, 6)), 1, &scale);
    case 9:
        return attention_qkv(
            state_add(misuse_graph, "i", I32, SHAPE(2, 4, 6), CLASS_CONSTANTS, false), 1, NULL);
    case 10:
        return attention(given(SHAPE(1, 4, 6)), other(SHAPE(1, 5, 6)), given(SHAPE(1, 4, 6)), 1,
                         NULL);
    case 11: return attention_qkv(none, 1, NULL);
    case 12: return attention_qkv(given(SHAPE(2, 4, 24)), 4, &(AttentionOptions){ .kv_heads = 3 });
    case 13: return attention_qkv(given(SHAPE(2, 4, 6)), 1, &(AttentionOptions){ .dropout = 1 });
    case 14:
        return attention_qkv(given(SHAPE(2, 4, 6)), 1,
                             &(AttentionOptions){ .bias = other(SHAPE(2, 1, 4, 1)) });
    case 15:
        return attention_qkv(given(SHAPE(2, 4, 6)), 1,
                             &(AttentionOptions){ .bias = other(SHAPE(3, 1, 4, 4)) });
    case 16:
        return attention_qkv(given(SHAPE(2, 4, 16)), 2,
                             &(AttentionOptions){ .kv_heads = 1, .by_head = true });
    case 17: /* values as wide as keys unless said otherwise */
        return attention(given(SHAPE(2, 4, 6)), other(SHAPE(2, 4, 6)), other(SHAPE(2, 4, 8)), 2,
                         NULL);
    default:
        warm.temperature = other(SHAPE(2));
        return attention_qkv(given(SHAPE(2, 4, 6)), 1, &warm);
    }
}

static const char *misuse_check(Case *c)
{
    for (int i = 0; i <= 18; i++) {
        misuse_graph = graph_new(case_graph(c)->pool, F32);
        Tensor y = misuse_try(i);
        if (y.id != TENSOR_POISONED || graph_check(misuse_graph) != E_SHAPE)
            return "a misuse was not refused";
    }
    return NULL;
}
#define MISUSE                                                                                     \
    {                                                                                              \
        "misuse", misuse, NULL, CASE_NO_TORCH, 0, 0, misuse_check                                  \
    }

const OpCase cases_attention[] = {
#define X(title, name, torch, flags, tol) { title, name##_tiled, torch, flags, 0, tol, NULL },
    CASES(X)
#undef X
        HALF(half_tiled),
    MISUSE,
    { 0 }
};

const OpCase cases_attention_stored[] = {
#define X(title, name, torch, flags, tol) { title, name##_stored, torch, flags, 0, tol, NULL },
    CASES(X)
#undef X
        HALF(half_stored),
    { 0 }
};
