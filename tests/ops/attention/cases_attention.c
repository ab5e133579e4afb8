/* cases_attention.c -- attention and attention_stored: the same cases. */
#include "ops/cases.h"

#include "ops/attention/attention.h"
#include "ops/elementwise/basic.h"

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
#define TORCH_Q_AND_KV_BY_HEAD \
    SPLIT(3) "k, v = kv.unflatten(-1, (3, 2, 3)).permute(3, 0, 2, 1, 4); q = s(q)\n" LOGITS OUT

static void three(Case *c, AttentionOptions *o, int heads, Shape q, int64_t keys, float range)
{
    Shape  k = shape_with(q, 1, keys);
    Tensor x = case_in(c, "q", q, -range, range);
    Tensor y = case_in(c, "k", k, -range, range), z = case_in(c, "v", k, -1, 1);
    case_out(c, "y", attention(x, y, z, heads, o));
}

static void width_52(Case *c, AttentionOptions o)  { three(c, &o, 1, SHAPE(1, 3, 52), 4, 1); }
static void width_72(Case *c, AttentionOptions o)  { three(c, &o, 1, SHAPE(1, 2, 72), 3, 1); }
static void width_1(Case *c, AttentionOptions o)   { three(c, &o, 3, SHAPE(2, 4, 3), 5, 2); }
static void one_query(Case *c, AttentionOptions o) { three(c, &o, 2, SHAPE(2, 1, 10), 9, 2); }
static void one_key(Case *c, AttentionOptions o)   { three(c, &o, 2, SHAPE(2, 6, 8), 1, 2); }
static void many_keys(Case *c, AttentionOptions o) { three(c, &o, 1, SHAPE(1, 3, 5), 167, 2); }
static void many_queries(Case *c, AttentionOptions o) { three(c, &o, 1, SHAPE(1, 167, 5), 2, 2); }
static void odd_both(Case *c, AttentionOptions o)  { three(c, &o, 3, SHAPE(1, 37, 6), 49, 2); }

static void large_logits(Case *c, AttentionOptions o)    /* sums of 16 products: beyond +-60 */
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

static void masked(Case *c, AttentionOptions o)          /* the diagonal crosses tiles */
{
    o.mask_diagonal = true;
    case_out(c, "y", attention_qkv(case_in(c, "qkv", SHAPE(1, 35, 24), -2, 2), 2, &o));
}
#define TORCH_MASKED THIRDS(2) LOGITS MASK OUT

static void locality(Case *c, AttentionOptions o)        /* LSA: Lee et al. 2021 */
{
    o.mask_diagonal = true;
    o.temperature = case_in(c, "t", SHAPE(1), -1, 0.5f);
    case_out(c, "y", attention_qkv(case_in(c, "qkv", SHAPE(2, 7, 30), -2, 2), 2, &o));
}
#define TORCH_LOCALITY THIRDS(2) "l = t.exp() * (q @ k.mT)\n" MASK OUT

static void temperature_alone(Case *c, AttentionOptions o)   /* only its gradient is wanted */
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

static void several_tiles_whole(Case *c, AttentionOptions o)     /* rows of whole vectors */
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

static void several_80(Case *c, AttentionOptions o)      /* a negative scale, and a mask */
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

static void text(Case *c, AttentionOptions o)      { three(c, &o, 4, SHAPE(2, 200, 256), 77, 1); }
static void tokens(Case *c, AttentionOptions o)    { three(c, &o, 3, SHAPE(3, 258, 48), 258, 1); }

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

static void short_256(Case *c, AttentionOptions o)  { three(c, &o, 2, SHAPE(1, 256, 104), 256, 1); }
static void short_270(Case *c, AttentionOptions o)  { three(c, &o, 1, SHAPE(1, 270, 52), 260, 1); }
static void short_65(Case *c, AttentionOptions o)   { three(c, &o, 2, SHAPE(2, 65, 128), 287, 1); }
static void short_few(Case *c, AttentionOptions o)  { three(c, &o, 1, SHAPE(1, 270, 64), 20, 1); }
static void longer_64(Case *c, AttentionOptions o)  { three(c, &o, 1, SHAPE(1, 350, 64), 330, 1); }
static void longer_52(Case *c, AttentionOptions o)  { three(c, &o, 1, SHAPE(1, 321, 52), 340, 1); }
static void longer_24(Case *c, AttentionOptions o)  { three(c, &o, 1, SHAPE(1, 340, 24), 321, 1); }

static void wide_head(Case *c, AttentionOptions o) { three(c, &o, 1, SHAPE(1, 70, 512), 70, 1); }
static void widest(Case *c, AttentionOptions o)    { three(c, &o, 1, SHAPE(1, 33, 1030), 50, 1); }

static void wide_packed(Case *c, AttentionOptions o)     /* heads at equal strides */
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

static void long_masked(Case *c, AttentionOptions o)     /* exact fp32 may take another kernel */
{
    o.mask_diagonal = true;
    case_out(c, "y", attention_qkv(case_in(c, "qkv", SHAPE(2, 521, 3 * 2 * 40), -1, 1), 2, &o));
}
#define TORCH_LONG_MASKED THIRDS(2) LOGITS MASK OUT

/* In bf16 a temperature's gradient may be off by more: it is a sum of terms that cancel, and delta
 * = rowsum(dy * y) sees the rounding of y (or, stored, that of the probabilities). */
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
      CASE_LIVE_ONLY | CASE_NO_DIFFERENCES, 0)

#define X(title, name, torch, flags, tol)                                                       \
    static void name##_tiled(Case *c)  { name(c, (AttentionOptions){ 0 }); }                    \
    static void name##_stored(Case *c) { name(c, (AttentionOptions){ .stored = true }); }
CASES(X)
#undef X

static void half_tiled(Case *c)  { half(c, (AttentionOptions){ 0 }); }
static void half_stored(Case *c) { half(c, (AttentionOptions){ .stored = true }); }
#define HALF(build) { "f16", build, THIRDS(1) LOGITS OUT, CASE_NO_DIFFERENCES, 2e-3, 1e-2, NULL }

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
    Tensor none = tensor_none(misuse_graph);
    switch (which) {
    case 0: return attention_qkv(given(SHAPE(2, 4, 18)), 4, NULL);           /* 18 / (3 * 4) */
    case 1: return attention_qkv(given(SHAPE(2, 4, 18)), 0, NULL);
    case 2: return attention_qkv(given(SHAPE(4, 18)), 2, NULL);              /* no sequence */
    case 3: return attention_q_kv(given(SHAPE(2, 4, 6)), other(SHAPE(2, 4, 8)), 2, NULL);
    case 4: return attention_q_kv(given(SHAPE(2, 4, 6)), other(SHAPE(3, 4, 12)), 2, NULL);
    case 5: return attention_qkv(given(SHAPE(2, 1, 6)), 1, &mask);           /* sees nothing */
    case 6: return attention_q_kv(given(SHAPE(2, 4, 6)), other(SHAPE(2, 5, 12)), 2, &mask);
    case 7: return attention(given(SHAPE(2, 4, 6)), other(SHAPE(2, 4, 6)), none, 2, NULL);
    case 8: return attention_qkv(given(SHAPE(2, 4, 6)), 1, &scale);
    case 9: return attention_qkv(state_add(misuse_graph, "i", I32, SHAPE(2, 4, 6), CLASS_CONSTANTS,
                                           false), 1, NULL);
    case 10: return attention(given(SHAPE(1, 4, 6)), other(SHAPE(1, 5, 6)), given(SHAPE(1, 4, 6)),
                              1, NULL);
    case 11: return attention_qkv(none, 1, NULL);
    default:
        warm.temperature = other(SHAPE(2));
        return attention_qkv(given(SHAPE(2, 4, 6)), 1, &warm);
    }
}

static const char *misuse_check(Case *c)
{
    for (int i = 0; i <= 12; i++) {
        misuse_graph = graph_new(case_graph(c)->pool, F32);
        Tensor y = misuse_try(i);
        if (y.id != TENSOR_POISONED || graph_check(misuse_graph) != E_SHAPE)
            return "a misuse was not refused";
    }
    return NULL;
}
#define MISUSE { "misuse", misuse, NULL, CASE_NO_TORCH, 0, 0, misuse_check }

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
