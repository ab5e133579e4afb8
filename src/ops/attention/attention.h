/* attention.h -- y = softmax(scale * q k^T) v for every head.
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
 */
#ifndef OPS_ATTENTION_ATTENTION_H
#define OPS_ATTENTION_ATTENTION_H

#include "ir/op.h"

enum {                           /* inputs of both operators */
    ATTENTION_SOURCE = 0,        /* 0..2: up to three tensors that hold q, k, v */
    ATTENTION_TEMPERATURE = 3,   /* [1] or none */
    ATTENTION_INPUTS = 4,
    ATTENTION_MAX_WIDTH = 4096,
};

typedef struct AttentionSlice {  /* head h of a row: width columns from column + h*head_stride on */
    int     source;              /* which input */
    int64_t column, head_stride;
} AttentionSlice;

typedef struct AttentionAttr {
    int64_t        heads, width;
    AttentionSlice q, k, v;
    float          scale;            /* without a temperature */
    bool           mask_diagonal;    /* position i does not see position i */
    bool           wants[ATTENTION_INPUTS];   /* gradient operators: wanted gradients */
} AttentionAttr;

typedef struct AttentionOptions {
    float  scale;                /* 0 stands for 1/sqrt(width) */
    Tensor temperature;          /* if given, scale = exp(temperature), which is learned */
    bool   mask_diagonal;
    bool   by_head;              /* packed as [head][q|k|v][width], not as [q|k|v][head][width] */
    bool   stored;               /* keep the probabilities */
} AttentionOptions;

/* (B, ..., heads*width); options may be NULL. */
Tensor attention_qkv(Tensor qkv, int heads, const AttentionOptions *options);
Tensor attention_q_kv(Tensor q, Tensor kv, int heads, const AttentionOptions *options);
Tensor attention(Tensor q, Tensor k, Tensor v, int heads, const AttentionOptions *options);

int64_t attention_length(Shape s);   /* of the sequence: all axes but the first and the last */

Err attention_choose(const Node *n, const Device *device, Choice *choice);
Err attention_cpu(const Call *call);
Err attention_grad_choose(const Node *n, const Device *device, Choice *choice);
Err attention_grad_cpu(const Call *call);

Err attention_stored_choose(const Node *n, const Device *device, Choice *choice);
Err attention_stored_cpu(const Call *call);
Err attention_stored_grad_choose(const Node *n, const Device *device, Choice *choice);
Err attention_stored_grad_cpu(const Call *call);

#endif
