/* plugin_cuda_memory.c -- how much of the GPU's memory this process holds.
 *
 * The runtime reports the free memory of the whole GPU, which changes with other programs. NVML
 * (the driver's library behind nvidia-smi) counts by process, so it is asked first. It may not know
 * this process (containers with process ids of their own, GPUs that do not count by process). Then
 * the memory in use before the GPU was opened is subtracted from the memory in use now, which is
 * right while no other program starts or ends. Without NVML all memory in use counts.
 */
#include "device/plugin_cuda_memory.h"

#include "device/cuda.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

/* NVML's types, declared here so that its header is not needed: a driver keeps each version's. */
typedef struct NvmlProcess { /* nvmlProcessInfo_v2_t */
    unsigned           pid;
    unsigned long long used; /* all ones: not counted */
    unsigned           instance, compute_instance;
} NvmlProcess;

typedef struct NvmlMemory { /* nvmlMemory_t */
    unsigned long long total, free, used;
} NvmlMemory;

enum { NVML_SUCCESS = 0, NVML_ERROR_INSUFFICIENT_SIZE = 7, PROCESSES = 64 };

static struct {
    void *gpu; /* NULL: no NVML */
    int (*processes)(void *gpu, unsigned *n, NvmlProcess *list);
    int (*memory)(void *gpu, NvmlMemory *memory);
    int64_t before; /* in use by others when the GPU was opened */
} nvml;

void gpu_memory_watch(const char *bus)
{
    int (*init)(void);
    int (*find)(const char *, void **);
    void      *gpu, *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    NvmlMemory now;
    if (!lib)
        return;
    *(void **)&init = dlsym(lib, "nvmlInit_v2");
    *(void **)&find = dlsym(lib, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&nvml.processes = dlsym(lib, "nvmlDeviceGetComputeRunningProcesses_v3");
    *(void **)&nvml.memory = dlsym(lib, "nvmlDeviceGetMemoryInfo");
    if (!init || !find || !nvml.memory || init() != NVML_SUCCESS ||
        find(bus, &gpu) != NVML_SUCCESS || nvml.memory(gpu, &now) != NVML_SUCCESS)
        return;
    nvml.gpu = gpu;
    nvml.before = (int64_t)now.used;
}

/* The memory of this process by NVML; -1: NVML does not know. */
static int64_t memory_of_process(void)
{
    NvmlProcess few[PROCESSES], *list = few;
    unsigned    n = PROCESSES;
    int64_t     used = -1;
    if (!nvml.gpu || !nvml.processes)
        return -1;
    int err = nvml.processes(nvml.gpu, &n, list);
    if (err == NVML_ERROR_INSUFFICIENT_SIZE) {
        n += PROCESSES; /* processes may have started in between */
        list = calloc(n, sizeof *list);
        err = list ? nvml.processes(nvml.gpu, &n, list) : err;
    }
    for (unsigned i = 0; err == NVML_SUCCESS && i < n; i++)
        if (list[i].pid == (unsigned)getpid() && list[i].used != ~0ull)
            used = (int64_t)list[i].used;
    if (list != few)
        free(list);
    return used;
}

Err gpu_memory_ours(int64_t *used)
{
    size_t     free_bytes, total;
    NvmlMemory now;
    *used = memory_of_process();
    if (*used >= 0)
        return OK;
    if (nvml.gpu && nvml.memory(nvml.gpu, &now) == NVML_SUCCESS) {
        *used = (int64_t)now.used > nvml.before ? (int64_t)now.used - nvml.before : 0;
        return OK;
    }
    CUDA_TRY(cudaMemGetInfo(&free_bytes, &total));
    *used = (int64_t)(total - free_bytes);
    return OK;
}
