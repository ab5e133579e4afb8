/* hopper.h -- Hopper instructions that every user of the TMA and tensor cores needs: shared memory
 * addresses, barriers that count bytes, and the order of products. */
#ifndef DEVICE_HOPPER_H
#define DEVICE_HOPPER_H

#include <stdint.h>

__device__ __forceinline__ uint32_t smem_at(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- barriers ---- */

__device__ __forceinline__ void bar_init(uint64_t *b, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_at(b)), "r"(count)
                 : "memory");
}
__device__ __forceinline__ void bar_arrive(uint64_t *b)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem_at(b)) : "memory");
}
/* Arrives too. */
__device__ __forceinline__ void bar_expect(uint64_t *b, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem_at(b)),
                 "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void bar_wait(uint64_t *b, int parity)
{
    asm volatile("{\n .reg .pred p;\n"
                 "WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 " @p bra DONE;\n bra WAIT;\nDONE:\n}" ::"r"(smem_at(b)),
                 "r"(parity)
                 : "memory");
}

/* ---- products ---- */

/* Shared memory written by copies or stores may now be read by the tensor cores. */
__device__ __forceinline__ void smem_writes_visible()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void products_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void products_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int N> __device__ __forceinline__ void products_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

#endif
#endif
