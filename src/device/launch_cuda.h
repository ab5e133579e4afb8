/* launch_cuda.h -- launches that come to their places before the one ahead of them has ended.
 *
 * On Hopper a kernel may be put onto the multiprocessors while the last blocks of the one before it
 * run (programmatic dependent launch). It then waits, in cuda_begin, until all that ran before is
 * done and written: results are the same, but what a launch costs passes meanwhile. In a CUDA graph
 * this holds between kernels that follow one another; behind a copy it is a plain launch.
 */
#ifndef DEVICE_LAUNCH_CUDA_H
#define DEVICE_LAUNCH_CUDA_H

#include <cuda_runtime.h>

/* Of every kernel that cuda_launch starts, before it touches memory that others see: without it the
 * kernel would read what is not yet written. A small one lets the next come at once; blocks of one
 * that fills a GPU need its room (0.93 us a launch of 256 blocks without, 1.15 with, 1.23 where
 * launches are plain; of 16 blocks 0.76 and 0.97). */
__device__ __forceinline__ void cuda_begin()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (gridDim.x * gridDim.y <= 64)
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Where stores are all that is left to do: the next launch may come to the places that blocks
 * leave. It begins when all have said so or ended. */
__device__ __forceinline__ void cuda_ends()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Is it sm_90a's code that runs? On any other GPU older code would, in which cuda_begin waits for
 * nothing. */
static inline bool cuda_early()
{
#ifdef PLIMSOLL_SM90A
    static const bool hopper = [] {
        int device = 0, major = 0, minor = 0;
        return cudaGetDevice(&device) == cudaSuccess &&
               cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
                   cudaSuccess &&
               cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) ==
                   cudaSuccess &&
               major == 9 && minor == 0;
    }();
    return hopper;
#else
    return false;
#endif
}

/* What joins two branches of a CUDA graph comes after both have ended. */
static inline bool cuda_joins(cudaStream_t stream)
{
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    size_t                  ahead = 0;
    cudaError_t err = cudaStreamGetCaptureInfo(stream, &status, NULL, NULL, NULL, NULL, &ahead);
    return err != cudaSuccess || (status == cudaStreamCaptureStatusActive && ahead > 1);
}

/* As kernel<<<blocks, threads, shared, stream>>>(args...); was it taken? CUDA_LAUNCHED says. */
template <class... P, class... A>
static inline void cuda_launch(cudaStream_t stream, void (*kernel)(P...), dim3 blocks, dim3 threads,
                               size_t shared, A... args)
{
    cudaLaunchAttribute early = {};
    cudaLaunchConfig_t  config = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = cuda_early() && !cuda_joins(stream) ? 1 : 0;
    cudaLaunchKernelEx(&config, kernel, args...);
}

#endif
