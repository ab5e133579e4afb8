/* text_tower.c -- OpenCLIP's and DistilBERT's transformers as graphs. */
#include "models/text_tower.h"

#include "models/layers.h"

static const Init small = { .kind = INIT_NORMAL, .scale = 0.02f }; /* all weights come from files */

Shape text_tower_shape(const TextTower *tower)
{
    return tower->kind == TOWER_OPENCLIP ? SHAPE(tower->tokens, tower->width) : SHAPE(tower->width);
}

/* ---- OpenCLIP ---- */

/* torch.nn.MultiheadAttention; a token sees those before it. */
static Tensor openclip_attention(Tensor x, const TextTower *m)
{
    Graph *g = x.graph;
    scope_open(g, "attn");
    Tensor w = param_add(g, "in_proj_weight", SHAPE(3 * m->width, m->width), small);
    Tensor b = param_add(g, "in_proj_bias", SHAPE(3 * m->width), small);
    Tensor qkv = linear_op(x, w, b, (LinearAttr){ 0 });
    x = attention_qkv(qkv, (int)m->heads, &(AttentionOptions){ .causal = true });
    x = linear("out_proj", x, m->width, (Layer){ 0 });
    scope_close(g);
    return x;
}

static Tensor openclip_block(Tensor x, const TextTower *m)
{
    x = add(x, openclip_attention(layer_norm("ln_1", x, 1e-5f), m));
    Tensor h = gelu(linear("mlp.c_fc", layer_norm("ln_2", x, 1e-5f), m->inner, (Layer){ 0 }));
    return linear("mlp.c_proj", h, m->width, (Layer){ .onto = x });
}

static Tensor openclip_tower(Tensor tokens, const TextTower *m)
{
    Graph *g = tokens.graph;
    Tensor table = param_add(g, "token_embedding.weight", SHAPE(m->vocabulary, m->width), small);
    Tensor where = param_add(g, "positional_embedding", SHAPE(m->positions, m->width), small);
    Tensor x = add_rows(embedding(table, tokens), reshape(where, SHAPE(1, -1, m->width)));
    for (int64_t i = 0; i + 1 < m->layers; i++) {
        scope_open(g, "transformer.resblocks.%d", (int)i);
        x = openclip_block(x, m);
        scope_close(g);
    }
    return layer_norm("ln_final", x, 1e-5f);
}

/* ---- DistilBERT ---- */

static Tensor distilbert_attention(Tensor x, Tensor padding, const TextTower *m)
{
    scope_open(x.graph, "attention");
    Tensor q = linear("q_lin", x, m->width, (Layer){ 0 });
    Tensor k = linear("k_lin", x, m->width, (Layer){ 0 });
    Tensor v = linear("v_lin", x, m->width, (Layer){ 0 });
    Tensor h = attention(q, k, v, (int)m->heads, &(AttentionOptions){ .bias = padding });
    h = linear("out_lin", h, m->width, (Layer){ .onto = x });
    scope_close(x.graph);
    return h;
}

static Tensor distilbert_layer(Tensor x, Tensor padding, const TextTower *m)
{
    x = layer_norm("sa_layer_norm", distilbert_attention(x, padding, m), 1e-12f);
    Tensor h = gelu(linear("ffn.lin1", x, m->inner, (Layer){ 0 }));
    return layer_norm("output_layer_norm", linear("ffn.lin2", h, m->width, (Layer){ .onto = x }),
                      1e-12f);
}

static Tensor distilbert_tower(Tensor tokens, Tensor padding, const TextTower *m)
{
    Graph *g = tokens.graph;
    scope_open(g, "embeddings");
    Tensor table = param_add(g, "word_embeddings.weight", SHAPE(m->vocabulary, m->width), small);
    Tensor where = param_add(g, "position_embeddings.weight", SHAPE(m->positions, m->width), small);
    where = reshape(slice(where, 0, 0, m->tokens), SHAPE(1, m->tokens, m->width));
    Tensor x = layer_norm("LayerNorm", add_rows(embedding(table, tokens), where), 1e-12f);
    scope_close(g);
    for (int64_t i = 0; i < m->layers; i++) {
        scope_open(g, "transformer.layer.%d", (int)i);
        x = distilbert_layer(x, padding, m);
        scope_close(g);
    }
    return reshape(slice(x, 1, 0, 1), SHAPE(-1, m->width));
}

Tensor text_tower(Graph *graph, const TextTower *tower, int64_t n)
{
    Tensor tokens = feed(graph, "tokens", I32, SHAPE(n, tower->tokens));
    if (tower->kind == TOWER_OPENCLIP)
        return openclip_tower(tokens, tower);
    return distilbert_tower(tokens, feed(graph, "padding", F32, SHAPE(n, 1, 1, tower->tokens)),
                            tower);
}
