/* text_encoder.c -- reads a text tower's sizes and weights from a file, and runs it. */
#include "train/text_encoder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/prompt.h"
#include "base/text.h"
#include "text/clip_tokens.h"
#include "text/wordpiece.h"
#include "train/lengths.h"
#include "train/weights.h"
#include "train/weights_file.h"
#include "train/weights_parts.h"
#include "train/weights_hash.h"

enum { TOWER_TOKENS = 77, HEAD_WIDTH = 64 };

struct TextTokens {
    ClipTokens clip;
    Wordpiece  words;
};

/* ---- the file ---- */

typedef struct TowerFile {
    const char *path, *prefix; /* prefix: what stands before the tower's names */
    SafeFile    file;          /* without it */
} TowerFile;

static const char clip_table[] = "token_embedding.weight",
                  bert_table[] = "embeddings.word_embeddings.weight";

static Err weights_path(Pool *pool, const char *given, const char **path)
{
    *path = given;
    return folder_exists(given) ? weights_in_folder(pool, given, path) : OK;
}

static Err tower_size(const TowerFile *in, const char *name, int rank, int64_t *sizes)
{
    const SafeTensor *t = safetensors_find(&in->file, name);
    if (!t || t->rank != rank)
        return fail(E_USAGE, "%s %s %s%s%s, which a text tower of this kind has", in->path,
                    t ? "has other axes in" : "lacks", in->prefix, name, t ? " than that" : "");
    for (int i = 0; i < rank; i++) {
        if (t->shape[i] < 1 || t->shape[i] > INT32_MAX)
            return fail(E_FORMAT, "%s: %s%s has an axis of %lld", in->path, in->prefix, name,
                        (long long)t->shape[i]);
        sizes[i] = t->shape[i];
    }
    return OK;
}

static int64_t layers_count(const TowerFile *in, const char *first, const char *rest)
{
    char    name[128];
    int64_t n = 0;
    do
        snprintf(name, sizeof name, "%s%lld%s", first, (long long)n++, rest);
    while (safetensors_find(&in->file, name));
    return n - 1;
}

/* config.json of DistilBERT, where it lies beside the weights. */
static Err heads_read(Pool *pool, const char *weights, TextTower *tower)
{
    char        folder[FILE_PATH_MAX];
    const Json *root;
    const char *path, *activation = NULL;
    file_folder(weights, folder, sizeof folder);
    path = pool_print(pool, "%s/config.json", folder);
    if (!file_exists(path))
        return OK;
    TRY(json_read(pool, path, 0, &root));
    TRY(json_maybe_int(root, "n_heads", &tower->heads));
    TRY(json_maybe_text(root, "activation", &activation));
    if (activation && strcmp(activation, "gelu") != 0)
        return fail(E_USAGE, "%s: the activation is '%s', and only gelu is supported", path,
                    activation);
    return OK;
}

static Err heads_check(const TowerFile *in, const TextTower *tower)
{
    if (tower->heads < 1 || tower->width % tower->heads || tower->layers < 1)
        return fail(E_USAGE,
                    "%s: %lld heads and %lld layers of width %lld make no text tower; a width is a "
                    "multiple of the heads",
                    in->path, (long long)tower->heads, (long long)tower->layers,
                    (long long)tower->width);
    return OK;
}

static Err openclip_sizes(const TowerFile *in, TextTower *tower)
{
    int64_t     table[2], places[2], inner[1];
    size_t      n = strlen(in->prefix);
    const char *hugging = "embeddings.";
    if (n >= strlen(hugging) && !strcmp(in->prefix + n - strlen(hugging), hugging))
        return fail(E_USAGE,
                    "%s holds a CLIP tower under Hugging Face's names; give a checkpoint of Stable "
                    "Diffusion 2 or StableSR (.ckpt, .safetensors), which has OpenCLIP's",
                    in->path);
    TRY(tower_size(in, clip_table, 2, table));
    TRY(tower_size(in, "positional_embedding", 2, places));
    TRY(tower_size(in, "transformer.resblocks.0.mlp.c_fc.bias", 1, inner));
    *tower = (TextTower){ .kind = TOWER_OPENCLIP,
                          .vocabulary = table[0],
                          .positions = places[0],
                          .tokens = places[0],
                          .width = table[1],
                          .inner = inner[0],
                          .heads = table[1] < HEAD_WIDTH ? 1 : table[1] / HEAD_WIDTH };
    tower->layers = layers_count(in, "transformer.resblocks.", ".attn.in_proj_weight");
    if (tower->vocabulary < CLIP_TOKENS || tower->tokens < 2)
        return fail(E_USAGE,
                    "%s: a table of %lld tokens and %lld positions is not CLIP's, which has %d "
                    "tokens",
                    in->path, (long long)tower->vocabulary, (long long)tower->tokens, CLIP_TOKENS);
    return heads_check(in, tower);
}

static Err distilbert_sizes(Pool *pool, const TowerFile *in, TextTower *tower)
{
    int64_t table[2], places[2], inner[1];
    if (safetensors_find(&in->file, "encoder.layer.0.attention.self.query.weight"))
        return fail(E_USAGE, "%s holds BERT, and only DistilBERT is supported", in->path);
    TRY(tower_size(in, bert_table, 2, table));
    TRY(tower_size(in, "embeddings.position_embeddings.weight", 2, places));
    TRY(tower_size(in, "transformer.layer.0.ffn.lin1.bias", 1, inner));
    *tower = (TextTower){ .kind = TOWER_DISTILBERT,
                          .vocabulary = table[0],
                          .positions = places[0],
                          .tokens = places[0] < TOWER_TOKENS ? places[0] : TOWER_TOKENS,
                          .width = table[1],
                          .inner = inner[0],
                          .heads = table[1] < HEAD_WIDTH ? 1 : table[1] / HEAD_WIDTH };
    tower->layers = layers_count(in, "transformer.layer.", ".attention.q_lin.weight");
    TRY(heads_read(pool, in->path, tower));
    if (tower->tokens < 2)
        return fail(E_USAGE, "%s: a table of %lld positions is too small", in->path,
                    (long long)tower->tokens);
    return heads_check(in, tower);
}

static Err tower_read(Pool *pool, const char *path, TowerFile *in, TextTower *tower)
{
    in->path = path;
    TRY(weights_file_beside(pool, path, bert_table, &in->file, &in->prefix));
    if (in->prefix)
        return distilbert_sizes(pool, in, tower);
    TRY(weights_file_beside(pool, path, clip_table, &in->file, &in->prefix));
    if (in->prefix)
        return openclip_sizes(in, tower);
    return fail(E_USAGE,
                "%s holds no text tower: none of its tensors' names ends in %s (OpenCLIP, as in "
                "checkpoints of Stable Diffusion 2 and StableSR) or %s (DistilBERT)",
                path, clip_table, bert_table);
}

/* ---- the session ---- */

static Err params_load(Pool *pool, const TowerFile *in, Session *session)
{
    const Graph *graph = session_engine(session)->graph;
    for (int32_t i = 0; i < graph->n_params; i++) {
        const Param      *p = &graph->params[i];
        const SafeTensor *t = safetensors_find(&in->file, p->name);
        Pool             *work = pool_new(pool, "tensor");
        float            *data;
        if (!t)
            return fail(E_USAGE, "%s lacks %s%s, which its text tower needs", in->path, in->prefix,
                        p->name);
        if (!tensor_fits(t, p->disk))
            return tensor_misfit(in->path, t, p->disk);
        TRY(tensor_f32(work, in->path, t, &data));
        for (int64_t k = 0; k < shape_count(p->disk); k++)
            if (!isfinite(data[k]))
                return fail(E_FORMAT, "%s: number %lld of %s%s is not finite", in->path,
                            (long long)k, in->prefix, p->name);
        TRY(session_set_param(session, i, data));
        pool_free(work);
    }
    return OK;
}

static Err session_open(Pool *pool, const Device *device, int64_t budget_bytes, TextEncoder *e)
{
    Engine *engine;
    Graph  *graph = graph_new(pool, F32);
    graph->phase = PHASE_SAMPLE_BEGIN;
    graph_output(text_tower(graph, &e->tower, 1), "embedding");
    TRY(graph_check(graph));
    TRY(engine_new(pool, graph, device, NULL, &engine));
    TRY(engine_within(engine, budget_bytes, "the text tower", NULL));
    TRY(session_new(pool, engine, &e->session));
    TRY(session_init_state(e->session, 0));
    for (int32_t i = 0; i < graph->n_params; i++)
        e->params += shape_count(graph->params[i].disk);
    e->ids = NEWN(pool, int32_t, e->tower.tokens + 1); /* one more, to see whether texts are cut */
    TRY(session_feed(e->session, "tokens", e->ids));
    if (e->tower.kind == TOWER_OPENCLIP)
        return OK;
    e->padding = NEWN(pool, float, e->tower.tokens);
    return session_feed(e->session, "padding", e->padding);
}

/* ---- tokens ---- */

static Err vocabulary_open(Pool *pool, TextEncoder *e)
{
    Wordpiece *words = &e->tokens->words;
    char       folder[FILE_PATH_MAX];
    if (!e->files.vocabulary) {
        file_folder(e->files.weights, folder, sizeof folder);
        e->files.vocabulary = pool_print(pool, "%s/vocab.txt", folder);
        if (!file_exists(e->files.vocabulary))
            return fail(E_USAGE,
                        "%s holds DistilBERT, whose vocabulary is needed too, and there is no %s; "
                        "give it by --vocab vocab.txt",
                        e->files.weights, e->files.vocabulary);
    }
    TRY(wordpiece_read(pool, e->files.vocabulary, words));
    return words->n <= e->tower.vocabulary
               ? OK
               : fail(E_USAGE, "%s has %d entries and the tower in %s knows %lld; give its own",
                      e->files.vocabulary, (int)words->n, e->files.weights,
                      (long long)e->tower.vocabulary);
}

static Err tokens_open(Pool *pool, TextEncoder *e)
{
    e->tokens = NEW(pool, TextTokens);
    if (e->tower.kind == TOWER_DISTILBERT)
        return vocabulary_open(pool, e);
    if (e->files.vocabulary)
        return fail(E_USAGE,
                    "--vocab %s: %s holds OpenCLIP's tower, whose tokens come with the program; "
                    "leave it out",
                    e->files.vocabulary, e->files.weights);
    return clip_tokens_open(pool, &e->tokens->clip);
}

/* ---- the whole ---- */

Err text_encoder_open(Pool *pool, const Device *device, const TextEncoderFiles *files,
                      int64_t budget_bytes, TextEncoder **out)
{
    TextEncoder *e = *out = NEW(pool, TextEncoder);
    Pool        *work = pool_new(pool, "weights");
    TowerFile    in;
    uint64_t     weights;
    e->files.vocabulary = files->vocabulary;
    TRY(weights_path(pool, files->weights, &e->files.weights));
    TRY(tower_read(work, e->files.weights, &in, &e->tower));
    e->name = e->tower.kind == TOWER_OPENCLIP ? TEXT_OPENCLIP : TEXT_DISTILBERT;
    e->shape = text_tower_shape(&e->tower);
    TRY(tokens_open(pool, e));
    TRY(session_open(pool, device, budget_bytes, e));
    TRY(params_load(work, &in, e->session));
    TRY(weights_hash(work, e->session, &weights));
    e->hash = hash_int(hash_int(HASH_EMPTY, (int64_t)weights), e->tower.heads);
    e->hash = hash_int(e->hash, (int64_t)e->tokens->words.hash);
    pool_free(work);
    return OK;
}

Err text_encoder_holds(Pool *pool, const char *weights, bool *holds)
{
    static const char *const tables[] = { bert_table, clip_table };
    SafeFile                 file;
    const char              *path, *prefix = NULL;
    *holds = false;
    if (weights_path(pool, weights, &path))
        return OK; /* a folder of other files */
    for (int i = 0; i < 2 && !prefix; i++)
        TRY(weights_file_beside(pool, path, tables[i], &file, &prefix));
    *holds = prefix != NULL;
    return OK;
}

static int text_tokens(const TextEncoder *e, const char *utf8, int32_t *to, int room)
{
    return e->tower.kind == TOWER_OPENCLIP ? clip_tokenize(&e->tokens->clip, utf8, to, room)
                                           : wordpiece_tokenize(&e->tokens->words, utf8, to, room);
}

Err text_encode(TextEncoder *e, const char *utf8, float *to, bool *cut)
{
    int room = (int)e->tower.tokens, n = text_tokens(e, utf8, e->ids, room + 1);
    *cut = n > room;
    n = text_tokens(e, utf8, e->ids, room);
    for (int i = 0; e->padding && i < room; i++)
        e->padding[i] = i < n ? 0 : -INFINITY;
    TRY(session_run(e->session, PHASE_SAMPLE_BEGIN));
    const float *embedding = session_output(e->session, "embedding");
    if (!embedding)
        return fail(E_DEVICE, "the text's embedding could not be read from the device");
    memcpy(to, embedding, (size_t)shape_count(e->shape) * sizeof *to);
    return OK;
}
