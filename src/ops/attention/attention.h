/* attention.h -- y = softmax(scale * q k^T + bias) v for every head.
 *
 * q, k and v may be packed into one, two or three tensors. Each is described by its columns, so
 * packed tensors are read, and their gradients written, in place, without copies. Tensors are
 * (B, ..., C): all axes between the first and the last form the sequence, so an image needs no
 * reshape.
 *
 *   attention          tile by tile, without storing the scores (Dao et al. 2022, FlashAttention;
 *                      2023 for the order of the backward loops): keeps q, k, v, y and one
 *                      log-sum-exp per row
 *   attention_stored   the plain form: keeps the probabilities instead of y and the log-sum-exp
 *
 * The forms of F.scaled_dot_product_attention: a causal mask, an additive bias, fewer heads of keys
 * and values than of queries, values of another width than keys, dropout of probabilities. The
 * dropout mask is a function of (step, stream, element) as in ops/random/noise.h and is never
 * stored. A query that sees no key gets zeros and gives zero gradients. Logits below -1e30 count as
 * minus infinity.
 */
#ifndef OPS_ATTENTION_ATTENTION_H
#define OPS_ATTENTION_ATTENTION_H

#include "ir/op.h"

enum {                             /* inputs of both operators */
       ATTENTION_SOURCE = 0,       /* 0..2: up to three tensors that hold q, k, v */
       ATTENTION_TEMPERATURE = 3,  /* [1] or none */
       ATTENTION_PLAIN_INPUTS = 4, /* all there are without bias and dropout */
       ATTENTION_BIAS = 4,         /* (B or 1, heads or 1, Lq or 1, Lk), or none */
       ATTENTION_COUNTERS = 5,     /* of the step, for dropout, or none */
       ATTENTION_INPUTS = 6,
       ATTENTION_MAX_WIDTH = 4096,
};

typedef struct AttentionSlice { /* head h of a row: width columns from column + h*head_stride on */
    int     source;             /* which input */
    int64_t column, head_stride;
} AttentionSlice;

typedef struct AttentionAttr {
    int64_t        heads, width;
    AttentionSlice q, k, v;
    float          scale;                   /* without a temperature */
    bool           mask_diagonal;           /* position i does not see position i */
    bool           wants[ATTENTION_INPUTS]; /* gradient operators: wanted gradients */
    bool           causal;                  /* query i sees keys 0 to i */
    int64_t        kv_heads;                /* head h reads key head h / (heads / kv_heads) */
    int64_t        v_width;                 /* columns of a value and of a result */
    float          dropout;                 /* share of the probabilities that is zeroed */
    uint32_t       stream;                  /* of its random numbers */
    Type           bias_type;               /* gradient of the bias: its type */
} AttentionAttr;

typedef struct AttentionOptions {
    float    scale;       /* 0 stands for 1/sqrt(width) */
    Tensor   temperature; /* if given, scale = exp(temperature), which is learned */
    bool     mask_diagonal;
    bool     by_head; /* packed as [head][q|k|v][width], not as [q|k|v][head][width] */
    bool     stored;  /* keep the probabilities */
    bool     causal;  /* query i sees keys 0 to i, whatever the lengths */
    /* Added to the scaled scores: (B or 1, heads or 1, Lq or 1, Lk), fp32 or the type of q. Entries
     * may be minus infinity. */
    Tensor   bias;
    int      kv_heads; /* heads of k and of v; a divisor of heads; 0: as many */
    int      v_width;  /* of a head of v; 0: as k */
    float    dropout;  /* 0: none; what is kept is multiplied by 1 / (1 - dropout) */
    uint32_t stream;   /* of dropout's random numbers */
    Tensor   counters; /* of the step, for dropout; absent: those of the graph */
} AttentionOptions;

/* (B, ..., heads * v_width); options may be NULL. */
Tensor attention_qkv(Tensor qkv, int heads, const AttentionOptions *options);
Tensor attention_q_kv(Tensor q, Tensor kv, int heads, const AttentionOptions *options);
Tensor attention(Tensor q, Tensor k, Tensor v, int heads, const AttentionOptions *options);

int64_t attention_length(Shape s); /* of the sequence: all axes but the first and the last */
/* Whether a node of these operators or of their gradients has a forward input; and, in a gradient
 * operator, the first input after the forward ones: y, the log-sum-exp or probabilities, dy. */
bool    attention_given(const Node *n, int input);
int     attention_kept(const Node *n);

Err attention_choose(const Node *n, const Device *device, Choice *choice);
Err attention_cpu(const Call *call);
Err attention_grad_choose(const Node *n, const Device *device, Choice *choice);
Err attention_grad_cpu(const Call *call);

Err attention_bias_grad_choose(const Node *n, const Device *device, Choice *choice);
Err attention_bias_grad_cpu(const Call *call);

Err attention_stored_choose(const Node *n, const Device *device, Choice *choice);
Err attention_stored_cpu(const Call *call);
Err attention_stored_grad_choose(const Node *n, const Device *device, Choice *choice);
Err attention_stored_grad_cpu(const Call *call);

#endif
