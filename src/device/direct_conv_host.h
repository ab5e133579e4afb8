/* direct_conv_host.h -- what direct_conv_cuda.cu and phase_conv_cuda.cu share on the host: boxes of
 * positions, and the copy engine's maps of tensors. */
#ifndef DEVICE_DIRECT_CONV_HOST_H
#define DEVICE_DIRECT_CONV_HOST_H

static int64_t product3(const int64_t *x) { return x[0] * x[1] * x[2]; }
static int64_t pieces_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Powers of two whose product is `positions` and that cover the extents in the fewest boxes. */
static void boxes_choose(int positions, const int64_t *extent, DirectConv *conv)
{
    int64_t best = INT64_MAX;
    for (int w = positions; w >= 1; w /= 2)
        for (int h = positions / w; h >= 1; h /= 2)
            for (int d = positions / w / h; d >= 1; d /= 2) {
                int     box[4] = { positions / w / h / d, d, h, w };
                int64_t all = 1;
                for (int i = 0; i < 4; i++)
                    all *= pieces_of(extent[i], box[i]);
                for (int i = 0; all < best && i < 4; i++) {
                    conv->box[i] = box[i];
                    conv->blocks[i] = (int)pieces_of(extent[i], box[i]);
                }
                best = all < best ? all : best;
            }
}

enum { LEAST_CHANNELS = 32, MOST_SPLITS = 32, LEAST_STEPS = 6, MOST_PIECES = 64 << 20 };

#ifdef PLIMSOLL_SM90A

typedef CUresult (*MapEncode)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                              const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                              const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                              CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* between: elements from one to the next along axes 1, 2, ...; NULL: they lie close. */
static Err map_make(Type type, int rank, const int64_t *extent, const int64_t *between,
                    const int *box, const void *p, CUtensorMap *map)
{
    static MapEncode encode;
    cuuint64_t       dims[5], strides[5], bytes = 2;
    cuuint32_t       sides[5], ones[5] = { 1, 1, 1, 1, 1 };
    if (!encode) {
        cudaDriverEntryPointQueryResult found;
        CUDA_TRY(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", (void **)&encode, 12000,
                                                  cudaEnableDefault, &found));
        if (found != cudaDriverEntryPointSuccess || !encode)
            return fail(E_DEVICE, "the NVIDIA driver has no cuTensorMapEncodeTiled; update it");
    }
    for (int i = 0; i < rank; i++) {
        dims[i] = (cuuint64_t)extent[i];
        sides[i] = (cuuint32_t)box[i];
        bytes *= dims[i];
        strides[i] = between && i + 1 < rank ? 2 * (cuuint64_t)between[i] : bytes;
    }
    CUresult status = encode(
        map, type == BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        (cuuint32_t)rank, (void *)(uintptr_t)p, dims, strides, sides, ones,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS)
        return fail(E_DEVICE, "the copy engine does not take a tensor at %p (status %d)", p,
                    (int)status);
    return OK;
}

#endif

#endif
