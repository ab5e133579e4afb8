/* plugin_dnnl.h -- hides the differences between the C APIs of oneDNN 2 and 3; for plugin_dnnl.c.
 *
 * Version 2 has memory descriptors as plain structs, operation descriptors, and an iterator over
 * implementations; version 3 has opaque descriptors, and primitive descriptors that advance to the
 * next implementation. Both become a DnnlOp and a DnnlWalk over its implementations.
 */
#ifndef LINALG_PLUGIN_DNNL_H
#define LINALG_PLUGIN_DNNL_H

#include "linalg/linalg.h"

#include <dnnl.h>

#define IS_V3 (DNNL_VERSION_MAJOR >= 3)

typedef struct DnnlOp {
    dnnl_memory_desc_t a, b, c, bias; /* matmul: A, B, C; convolution: x, w, y */
    dnnl_memory_desc_t forward_b;     /* w of the forward convolution, see DnnlWalk */
    bool               is_conv, has_bias, accumulate, wide, depthwise;
    ConvKind           kind;
    dnnl_dims_t        strides, dilates, pad_lo, pad_hi;
} DnnlOp;

#if IS_V3
typedef const_dnnl_memory_desc_t MdRef;
#define MD(md) (md)
#else
typedef const dnnl_memory_desc_t *MdRef;
#define MD(md) (&(md))
#endif

static inline dnnl_status_t md_strided(dnnl_memory_desc_t *md, int n, const dnnl_dims_t dims,
                                       dnnl_data_type_t type, const dnnl_dims_t strides)
{
#if IS_V3
    return dnnl_memory_desc_create_with_strides(md, n, dims, type, strides);
#else
    return dnnl_memory_desc_init_by_strides(md, n, dims, type, strides);
#endif
}

static inline dnnl_status_t md_any(dnnl_memory_desc_t *md, int n, const dnnl_dims_t dims,
                                   dnnl_data_type_t type)
{
#if IS_V3
    return dnnl_memory_desc_create_with_tag(md, n, dims, type, dnnl_format_tag_any);
#else
    return dnnl_memory_desc_init_by_tag(md, n, dims, type, dnnl_format_tag_any);
#endif
}

static inline void md_done(dnnl_memory_desc_t md)
{
#if IS_V3
    dnnl_memory_desc_destroy(md);
#else
    (void)md;
#endif
}

static inline dnnl_status_t post_sum(dnnl_post_ops_t ops)
{
#if IS_V3
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
#else
    return dnnl_post_ops_append_sum(ops, 1.0f);
#endif
}

/* All implementations of a DnnlOp, best first: open, use pd, next until it returns false, close. */
typedef struct DnnlWalk {
    dnnl_primitive_desc_t pd;      /* the current one, owned by the walk */
    dnnl_primitive_desc_t forward; /* the hint for backward convolutions: w in x's
                                              * type, though its gradient is fp32 */
#if !IS_V3
    dnnl_primitive_desc_iterator_t at;
    dnnl_convolution_desc_t        conv; /* the iterator keeps a pointer to its description */
    dnnl_matmul_desc_t             matmul;
#endif
} DnnlWalk;

#if IS_V3
static inline dnnl_status_t walk_open(DnnlWalk *w, const DnnlOp *op, dnnl_primitive_attr_t attr,
                                      dnnl_engine_t engine)
{
    MdRef bias = op->has_bias ? op->bias : NULL;
    if (!op->is_conv)
        return dnnl_matmul_primitive_desc_create(&w->pd, engine, op->a, op->b, bias, op->c, attr);
    dnnl_primitive_desc_t *first = op->kind == CONV_FORWARD ? &w->pd : &w->forward;
    dnnl_status_t          status = dnnl_convolution_forward_primitive_desc_create(
                 first, engine, dnnl_forward_training, dnnl_convolution_direct, op->a, op->forward_b, bias,
                 op->c, op->strides, op->dilates, op->pad_lo, op->pad_hi, attr);
    if (status != dnnl_success || op->kind == CONV_FORWARD)
        return status;
    if (op->kind == CONV_BACKWARD_DATA)
        return dnnl_convolution_backward_data_primitive_desc_create(
            &w->pd, engine, dnnl_convolution_direct, op->a, op->b, op->c, op->strides, op->dilates,
            op->pad_lo, op->pad_hi, w->forward, attr);
    return dnnl_convolution_backward_weights_primitive_desc_create(
        &w->pd, engine, dnnl_convolution_direct, op->a, op->b, NULL, op->c, op->strides,
        op->dilates, op->pad_lo, op->pad_hi, w->forward, attr);
}

static inline bool walk_next(DnnlWalk *w)
{
    return dnnl_primitive_desc_next_impl(w->pd) == dnnl_success;
}
#else
static inline dnnl_status_t walk_op(DnnlWalk *w, const_dnnl_op_desc_t op,
                                    dnnl_primitive_attr_t attr, dnnl_engine_t engine)
{
    dnnl_status_t status = dnnl_primitive_desc_iterator_create(&w->at, op, attr, engine,
                                                               w->forward);
    if (status == dnnl_success)
        w->pd = dnnl_primitive_desc_iterator_fetch(w->at);
    return status;
}

static inline dnnl_status_t walk_open(DnnlWalk *w, const DnnlOp *op, dnnl_primitive_attr_t attr,
                                      dnnl_engine_t engine)
{
    dnnl_status_t status;
    MdRef         bias = op->has_bias ? &op->bias : NULL;
    if (!op->is_conv) {
        status = dnnl_matmul_desc_init(&w->matmul, &op->a, &op->b, bias, &op->c);
        return status == dnnl_success ? walk_op(w, &w->matmul, attr, engine) : status;
    }
    status = dnnl_dilated_convolution_forward_desc_init(
        &w->conv, dnnl_forward_training, dnnl_convolution_direct, &op->a, &op->forward_b, bias,
        &op->c, op->strides, op->dilates, op->pad_lo, op->pad_hi);
    if (status == dnnl_success && op->kind != CONV_FORWARD)
        status = dnnl_primitive_desc_create(&w->forward, &w->conv, attr, engine, NULL);
    if (status != dnnl_success)
        return status;
    if (op->kind == CONV_BACKWARD_DATA)
        status = dnnl_dilated_convolution_backward_data_desc_init(
            &w->conv, dnnl_convolution_direct, &op->a, &op->b, &op->c, op->strides, op->dilates,
            op->pad_lo, op->pad_hi);
    if (op->kind == CONV_BACKWARD_WEIGHTS)
        status = dnnl_dilated_convolution_backward_weights_desc_init(
            &w->conv, dnnl_convolution_direct, &op->a, &op->b, NULL, &op->c, op->strides,
            op->dilates, op->pad_lo, op->pad_hi);
    return status == dnnl_success ? walk_op(w, &w->conv, attr, engine) : status;
}

static inline bool walk_next(DnnlWalk *w)
{
    if (dnnl_primitive_desc_iterator_next(w->at) != dnnl_success)
        return false;
    dnnl_primitive_desc_destroy(w->pd);
    w->pd = dnnl_primitive_desc_iterator_fetch(w->at);
    return true;
}
#endif

static inline void walk_close(DnnlWalk *w)
{
    dnnl_primitive_desc_destroy(w->pd);
    dnnl_primitive_desc_destroy(w->forward);
#if !IS_V3
    dnnl_primitive_desc_iterator_destroy(w->at);
#endif
}

#endif
