/* plugin_cuda_kernels.c -- the CUDA plugin's entry points and its table of kernels. */
#include "comm/plugin_cuda_queue.h"
#include "device/plugin_cuda.h"
#include "linalg/plugin_cuda_linalg.h"
#include "ops/ops.h"
#include "ops/plugin_cuda_kernels.h"

#include <string.h>

static const Kernel *const kernels[OP_COUNT] = {
#define CUDA_KERNEL(op) [OP_ID_##op] = &cuda_kernel_##op,
#include "ops/cuda_kernels.def"
#undef CUDA_KERNEL
};

static const CudaParts parts = { .kernels = kernels,
                                 .libraries_open = cuda_libraries_open,
                                 .libraries_describe = cuda_libraries_describe,
                                 .versions = cuda_libraries_versions,
                                 .backend = cuda_backend,
                                 .transfers = &cuda_queue_api };

/* The plugin and the program are built from one list of operators: kernels are found by their place
 * in it. A plugin that was built from another list would run the wrong ones. */
static Err plugin_check_list(void)
{
    static const char *const names[OP_COUNT] = {
#define OPERATOR(name)          #name,
#define OPERATOR_INTERNAL(name) #name,
#include "ops/ops_list.def"
#undef OPERATOR
#undef OPERATOR_INTERNAL
    };
    bool same = ops_count == OP_COUNT;
    for (int i = 0; i < OP_COUNT && same; i++)
        same = !strcmp(ops_all[i]->name, names[i]);
    return same
               ? OK
               : fail(E_DEVICE, "libplimsoll_cuda.so was built from another list of operators than "
                                "this program; build both again (make cuda)");
}

Err plimsoll_cuda_open(Pool *pool, const DeviceOptions *options, Device *device)
{
    TRY(plugin_check_list());
    return cuda_device_open(pool, options, &parts, device);
}

Err plimsoll_cuda_describe(Pool *pool, const DeviceOptions *options, const char *json,
                           Device *device)
{
    TRY(plugin_check_list());
    return cuda_device_describe(pool, options, json, &parts, device);
}
