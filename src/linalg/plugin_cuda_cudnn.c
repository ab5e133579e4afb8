/* plugin_cuda_cudnn.c -- one convolution through cuDNN's graph interface.
 *
 *   tensors + operation -> operation graph -> engine configurations in the library's order of
 *   preference -> the first that is deterministic, exact enough and modest in workspace
 *
 * With a GPU the plan is complete and can run; with the description of a GPU only, the
 * configuration says how much workspace it will need.
 */
#include "linalg/plugin_cuda_linalg.h"

#include <cudnn.h>
#include <stdio.h>
#include <string.h>

struct CudnnConv {
    const CudaHandle        *handle;
    cudnnBackendDescriptor_t plan, pack;
    size_t                   workspace;
    char                     name[32];
};

typedef cudnnBackendDescriptor_t Desc;

enum { MAX_DESCS = 160, MAX_CONFIGS = 24, X_ID = 1, W_ID = 2, Y_ID = 3 };
#define MAX_WORKSPACE ((int64_t)256 << 20)

typedef struct Descs { /* descriptors to destroy once the plan is made */
    Desc at[MAX_DESCS];
    int  n;
} Descs;

/* cuDNN refuses often and for good reasons. The caller then uses another method, so the sentence is
 * short. */
#define DNN_TRY(call)                                                                              \
    do {                                                                                           \
        cudnnStatus_t dnn_err_ = (call);                                                           \
        if (dnn_err_ != CUDNN_STATUS_SUCCESS)                                                      \
            return fail(E_DEVICE, "%s: %s", #call, cudnnGetErrorString(dnn_err_));                 \
    } while (0)

static Err desc_new(Descs *all, cudnnBackendDescriptorType_t type, Desc *out)
{
    REQUIRE(all->n < MAX_DESCS);
    DNN_TRY(cudnnBackendCreateDescriptor(type, out));
    all->at[all->n++] = *out;
    return OK;
}

static void descs_undo(Descs *all, Desc keep)
{
    for (int i = 0; i < all->n; i++)
        if (all->at[i] != keep)
            cudnnBackendDestroyDescriptor(all->at[i]);
}

static Err desc_set(Desc d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                    int64_t n, const void *data)
{
    DNN_TRY(cudnnBackendSetAttribute(d, name, type, n, data));
    return OK;
}

static cudnnDataType_t dnn_type(Type type)
{
    return type == BF16 ? CUDNN_DATA_BFLOAT16 : type == F16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

/* Channels last: (N or O, C, spatial...) with C's stride 1. */
static Err tensor_desc(Descs *all, int64_t id, Type type, int64_t n, int64_t c,
                       const int64_t *spatial, int axes, Desc *out)
{
    cudnnDataType_t dtype = dnn_type(type);
    int64_t         align = 16, dims[5] = { n, c }, strides[5];
    int64_t         step = c;
    for (int i = axes - 1; i >= 0; i--) {
        dims[2 + i] = spatial[i];
        strides[2 + i] = step;
        step *= spatial[i];
    }
    strides[0] = step;
    strides[1] = 1;
    TRY(desc_new(all, CUDNN_BACKEND_TENSOR_DESCRIPTOR, out));
    TRY(desc_set(*out, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &dtype));
    TRY(desc_set(*out, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, axes + 2, dims));
    TRY(desc_set(*out, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, axes + 2, strides));
    TRY(desc_set(*out, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id));
    TRY(desc_set(*out, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align));
    DNN_TRY(cudnnBackendFinalize(*out));
    return OK;
}

/* Attribute names of the three operations: description, x, w, y, alpha, beta. */
static const struct {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t  conv, x, w, y, alpha, beta;
} operations[] = {
    [CONV_FORWARD] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA },
    [CONV_BACKWARD_DATA] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA },
    [CONV_BACKWARD_WEIGHTS] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA },
};

static Err conv_graph(Descs *all, const CudaHandle *handle, const ConvDesc *c, Desc *graph)
{
    Desc                   x, w, y, conv, op;
    int                    lead = c->in[0] == 1 && c->kernel[0] == 1, axes = 3 - lead;
    int64_t                dilation[3], n_axes = axes;
    float                  alpha = 1, beta = 0;
    cudnnDataType_t        sum = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;

    for (int i = 0; i < axes; i++)
        dilation[i] = conv_dilation(c, i + lead);
    TRY(tensor_desc(all, X_ID, c->type_x, c->n, c->ci, c->in + lead, axes, &x));
    /* cuDNN takes the number of groups from the channels of x and w. */
    TRY(tensor_desc(all, W_ID, c->type_w, c->co, c->ci / conv_groups(c), c->kernel + lead, axes,
                    &w));
    TRY(tensor_desc(all, Y_ID, c->type_y, c->n, c->co, c->out + lead, axes, &y));
    TRY(desc_new(all, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, &conv));
    TRY(desc_set(conv, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &n_axes));
    TRY(desc_set(conv, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sum));
    TRY(desc_set(conv, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
    TRY(desc_set(conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, axes,
                 c->pad_lo + lead));
    TRY(desc_set(conv, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, axes,
                 c->pad_hi + lead));
    TRY(desc_set(conv, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, axes, dilation));
    TRY(desc_set(conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, axes,
                 c->stride + lead));
    DNN_TRY(cudnnBackendFinalize(conv));

    TRY(desc_new(all, operations[c->kind].type, &op));
    TRY(desc_set(op, operations[c->kind].conv, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &conv));
    TRY(desc_set(op, operations[c->kind].x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x));
    TRY(desc_set(op, operations[c->kind].w, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &w));
    TRY(desc_set(op, operations[c->kind].y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y));
    TRY(desc_set(op, operations[c->kind].alpha, CUDNN_TYPE_FLOAT, 1, &alpha));
    TRY(desc_set(op, operations[c->kind].beta, CUDNN_TYPE_FLOAT, 1, &beta));
    DNN_TRY(cudnnBackendFinalize(op));

    TRY(desc_new(all, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, graph));
    TRY(desc_set(*graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &op));
    if (handle->cudnn)
        TRY(desc_set(*graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
                     &handle->cudnn));
    DNN_TRY(cudnnBackendFinalize(*graph));
    return OK;
}

/* Is the engine deterministic, and does it round no fp32 factors unless tf32 was asked for? */
static Err engine_fits(const CudaHandle *handle, const ConvDesc *c, Desc config, bool *fits,
                       int64_t *index)
{
    Desc                        engine;
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t                     n = 0;
    bool                        fp32 = c->type_x == F32 && c->type_y == F32 && !handle->tf32;
    DNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine));
    cudnnStatus_t status = cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine);
    *fits = status == CUDNN_STATUS_SUCCESS && n == 1;
    if (*fits)
        status = cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64,
                                          1, &n, index);
    if (*fits && cudnnBackendGetAttribute(
                     engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                     CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, notes) == CUDNN_STATUS_SUCCESS)
        for (int64_t i = 0; i < n; i++)
            if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
                notes[i] == CUDNN_NUMERICAL_NOTE_FFT || notes[i] == CUDNN_NUMERICAL_NOTE_WINOGRAD ||
                notes[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
                (fp32 && (notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
                          notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)))
                *fits = false;
    cudnnBackendDestroyDescriptor(engine);
    return OK;
}

static Err conv_plan(Descs *all, CudnnConv *conv, Desc config)
{
    int64_t n, bytes = 0;
    TRY(desc_new(all, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &conv->plan));
    if (conv->handle->cudnn)
        TRY(desc_set(conv->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                     &conv->handle->cudnn));
    else
        TRY(desc_set(conv->plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &conv->handle->described));
    TRY(desc_set(conv->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                 1, &config));
    DNN_TRY(cudnnBackendFinalize(conv->plan));
    DNN_TRY(cudnnBackendGetAttribute(conv->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                     CUDNN_TYPE_INT64, 1, &n, &bytes));
    conv->workspace = (size_t)bytes;
    return OK;
}

static Err conv_engine(Descs *all, CudnnConv *conv, const ConvDesc *c, Desc graph,
                       cudnnBackendHeurMode_t mode)
{
    Desc    heur, configs[MAX_CONFIGS];
    int64_t n = 0;
    TRY(desc_new(all, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heur));
    TRY(desc_set(heur, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                 &graph));
    TRY(desc_set(heur, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
    if (!conv->handle->cudnn)
        TRY(desc_set(heur, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                     &conv->handle->described));
    DNN_TRY(cudnnBackendFinalize(heur));
    for (int i = 0; i < MAX_CONFIGS; i++)
        TRY(desc_new(all, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]));
    DNN_TRY(cudnnBackendGetAttribute(heur, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_CONFIGS, &n, configs));
    for (int64_t i = 0; i < n && i < MAX_CONFIGS; i++) {
        bool    fits = false;
        int64_t index = -1;
        TRY(engine_fits(conv->handle, c, configs[i], &fits, &index));
        if (!fits || conv_plan(all, conv, configs[i]) || (int64_t)conv->workspace > MAX_WORKSPACE)
            continue;
        snprintf(conv->name, sizeof conv->name, "cudnn-%lld", (long long)index);
        return OK;
    }
    return fail(E_DEVICE, "cuDNN has no suitable engine for this convolution");
}

Err cudnn_describe(const char *json, void **described)
{
    Desc gpu;
    DNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &gpu));
    TRY(desc_set(gpu, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                 (int64_t)strlen(json), json));
    DNN_TRY(cudnnBackendFinalize(gpu));
    *described = gpu;
    return OK;
}

static void conv_undo(void *arg)
{
    CudnnConv *conv = arg;
    cudnnBackendDestroyDescriptor(conv->plan);
}

Err cudnn_conv_new(Pool *pool, const CudaHandle *handle, const ConvDesc *c, CudnnConv **out)
{
    CudnnConv *conv = NEW(pool, CudnnConv);
    Descs      all = { .n = 0 };
    Desc       graph;
    if (!handle->cudnn && !handle->described)
        return fail(E_DEVICE, "cuDNN needs a GPU or the description of one");
    for (int i = 0; i < 3; i++) /* 9.19 gave wrong weight gradients, without an error (H200) */
        if (c->pad_lo[i] != c->pad_hi[i])
            return fail(E_DEVICE, "cuDNN is not used for uneven padding");
    conv->handle = handle;
    Err err = conv_graph(&all, handle, c, &graph);
    if (!err) {
        err = conv_engine(&all, conv, c, graph, CUDNN_HEUR_MODE_A);
        if (err)
            err = conv_engine(&all, conv, c, graph, CUDNN_HEUR_MODE_FALLBACK);
    }
    descs_undo(&all, err ? NULL : conv->plan);
    TRY(err);
    pool_at_free(pool, conv_undo, conv);
    *out = conv;
    return OK;
}

size_t      cudnn_conv_workspace(const CudnnConv *conv) { return conv->workspace; }
const char *cudnn_conv_name(const CudnnConv *conv) { return conv->name; }

Err cudnn_conv_run(const CudnnConv *conv, void *x, void *w, void *y, void *workspace)
{
    void   *pointers[] = { x, w, y };
    int64_t ids[] = { X_ID, W_ID, Y_ID };
    Desc    pack;
    DNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack));
    Err err = desc_set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3,
                       pointers);
    err = err ? err : desc_set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids);
    err = err ? err
              : desc_set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                         &workspace);
    cudnnStatus_t status = err ? CUDNN_STATUS_INTERNAL_ERROR : cudnnBackendFinalize(pack);
    if (!err && status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendExecute(conv->handle->cudnn, conv->plan, pack);
    cudnnBackendDestroyDescriptor(pack);
    if (!err && status != CUDNN_STATUS_SUCCESS)
        return fail(E_DEVICE, "cuDNN convolution (%s): %s", conv->name,
                    cudnnGetErrorString(status));
    return err;
}
