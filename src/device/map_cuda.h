/* map_cuda.h -- TMA descriptors of tensors of 2-byte numbers. */
#ifndef DEVICE_MAP_CUDA_H
#define DEVICE_MAP_CUDA_H

#include <cuda.h>

extern "C" {
#include "device/cuda.h"
#include "device/type.h"
}

typedef CUresult (*MapEncode)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                              const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                              const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                              CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* A row of a box is as long as the swizzle: 128, 64 or 32 bytes. between: strides of axes 1, 2, ...
 * in elements; NULL: contiguous. every: element strides within a box, 2 for every second element
 * along an axis and so on, at most 256 from first to last; NULL: all elements. */
static inline Err map_make_every(Type type, int rank, const int64_t *extent, const int64_t *between,
                                 const int *box, const int *every, const void *p, CUtensorMap *map)
{
    static MapEncode encode;
    cuuint64_t       dims[5], strides[5], bytes = 2;
    cuuint32_t       sides[5], steps[5];
    if (!encode) {
        cudaDriverEntryPointQueryResult found;
        CUDA_TRY(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", (void **)&encode, 12000,
                                                  cudaEnableDefault, &found));
        if (found != cudaDriverEntryPointSuccess || !encode)
            return fail(E_DEVICE, "the NVIDIA driver has no cuTensorMapEncodeTiled; update it");
    }
    for (int i = 0; i < rank; i++) {
        dims[i] = (cuuint64_t)extent[i];
        steps[i] = every ? (cuuint32_t)every[i] : 1;
        sides[i] = (cuuint32_t)box[i] * steps[i];
        bytes *= dims[i];
        strides[i] = between && i + 1 < rank ? 2 * (cuuint64_t)between[i] : bytes;
    }
    CUtensorMapSwizzle swizzle = box[0] == 64   ? CU_TENSOR_MAP_SWIZZLE_128B
                                 : box[0] == 32 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                : CU_TENSOR_MAP_SWIZZLE_32B;
    CUresult           status = encode(
                  map, type == BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                  (cuuint32_t)rank, (void *)(uintptr_t)p, dims, strides, sides, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS)
        return fail(E_DEVICE, "the TMA does not accept a tensor at %p (CUDA status %d)", p,
                    (int)status);
    return OK;
}

static inline Err map_make(Type type, int rank, const int64_t *extent, const int64_t *between,
                           const int *box, const void *p, CUtensorMap *map)
{
    return map_make_every(type, rank, extent, between, box, NULL, p, map);
}

#endif
