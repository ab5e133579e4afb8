/* point_compile.c -- compiles generated CUDA C with NVRTC, and keeps the machine code in a folder of
 * the user's cache, by a hash of the text, the GPU and the compiler. */
#include "ops/pointwise/point_source.h"

#include "base/file.h"
#include "base/hash.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NVRTC's functions, as nvrtc.h declares them; its header need not be here. */
typedef struct NvrtcProgram NvrtcProgram;

typedef struct Nvrtc {
    int (*version)(int *major, int *minor);
    int (*create)(NvrtcProgram **program, const char *text, const char *name, int n,
                  const char *const *headers, const char *const *names);
    int (*destroy)(NvrtcProgram **program);
    int (*compile)(NvrtcProgram *program, int n, const char *const *options);
    int (*code_size)(NvrtcProgram *program, size_t *n);
    int (*code)(NvrtcProgram *program, char *code);
    int (*log_size)(NvrtcProgram *program, size_t *n);
    int (*log)(NvrtcProgram *program, char *log);
} Nvrtc;

static Nvrtc          nvrtc;
static bool           nvrtc_here;
static pthread_once_t nvrtc_once = PTHREAD_ONCE_INIT;

/* NVRTC opens its builtins by name alone: loaded from its own folder first, they are found. */
static void builtins_open(void *of)
{
    Dl_info info;
    glob_t  names = { 0 };
    char    pattern[FILE_PATH_MAX];
    if (!dladdr(of, &info) || !info.dli_fname || !strrchr(info.dli_fname, '/'))
        return;
    int n = (int)(strrchr(info.dli_fname, '/') - info.dli_fname);
    snprintf(pattern, sizeof pattern, "%.*s/libnvrtc-builtins.so.*", n, info.dli_fname);
    if (!glob(pattern, 0, NULL, &names))
        (void)dlopen(names.gl_pathv[0], RTLD_NOW | RTLD_GLOBAL);
    globfree(&names);
}

static void nvrtc_open(void)
{
    static const char *const names[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so" };
    const char              *given = getenv("PLIMSOLL_NVRTC");
    void                    *library = given ? dlopen(given, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    struct {
        const char *name;
        void       *fn;
    } wanted[] = {
        { "nvrtcVersion", &nvrtc.version },
        { "nvrtcCreateProgram", &nvrtc.create },
        { "nvrtcDestroyProgram", &nvrtc.destroy },
        { "nvrtcCompileProgram", &nvrtc.compile },
        { "nvrtcGetCUBINSize", &nvrtc.code_size },
        { "nvrtcGetCUBIN", &nvrtc.code },
        { "nvrtcGetProgramLogSize", &nvrtc.log_size },
        { "nvrtcGetProgramLog", &nvrtc.log },
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *fn = dlsym(library, wanted[i].name);
        if (!fn)
            return;
        memcpy(wanted[i].fn, &fn, sizeof fn);
    }
    builtins_open((void *)dlsym(library, "nvrtcVersion"));
    nvrtc_here = true;
}

bool point_compiler(void)
{
    pthread_once(&nvrtc_once, nvrtc_open);
    return nvrtc_here;
}

/* Where the code of this text is kept; NULL: nowhere. */
static const char *cache_path(Pool *pool, const char *text, int capability)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME"), *folder;
    int         major = 0, minor = 0;
    if (cache && *cache)
        folder = pool_print(pool, "%s/plimsoll/kernels", cache);
    else if (home && *home)
        folder = pool_print(pool, "%s/.cache/plimsoll/kernels", home);
    else
        return NULL;
    if (point_compiler())
        nvrtc.version(&major, &minor);
    uint64_t one = hash_text(hash_int(hash_int(HASH_EMPTY, capability), major * 1000 + minor),
                             text);
    uint64_t two = hash_text(hash_int(one, 1), text);
    if (!folder_exists(folder) && folder_make(folder))
        return NULL;
    return pool_print(pool, "%s/%016llx%016llx.cubin", folder, (unsigned long long)one,
                      (unsigned long long)two);
}

static Err compile_text(Pool *pool, const char *text, int capability, const void **code, size_t *n)
{
    NvrtcProgram *program;
    const char   *arch = pool_print(pool, "--gpu-architecture=sm_%d", capability);
    const char   *options[] = { arch, "--fmad=false", "--std=c++17", "-default-device" };
    if (!point_compiler())
        return fail(E_DEVICE,
                    "libnvrtc.so.13, with which kernels of this model are compiled, was not found; "
                    "install it (pip install nvidia-cuda-nvrtc) and add its folder to "
                    "LD_LIBRARY_PATH, or name it in PLIMSOLL_NVRTC");
    if (nvrtc.create(&program, text, "pointwise.cu", 0, NULL, NULL))
        return fail(E_DEVICE, "NVRTC cannot start");
    int err = nvrtc.compile(program, 3, options);
    if (!err)
        err = nvrtc.code_size(program, n);
    if (!err) {
        char *bytes = pool_alloc(pool, *n, 1);
        err = nvrtc.code(program, bytes);
        *code = bytes;
    }
    if (err) {
        size_t size = 0;
        char  *log = nvrtc.log_size(program, &size) ? NULL : pool_alloc(pool, size + 1, 1);
        if (log)
            nvrtc.log(program, log);
        nvrtc.destroy(&program);
        return fail(E_DEVICE,
                    "NVRTC does not compile a pointwise kernel for sm_%d (error %d): %.300s",
                    capability, err, log ? log : "");
    }
    nvrtc.destroy(&program);
    return OK;
}

Err point_compile(Pool *pool, const char *text, int capability, const void **code, size_t *n,
                  bool *cached)
{
    const char *path = cache_path(pool, text, capability);
    char       *bytes;
    if (cached)
        *cached = false;
    if (path && file_exists(path) && !file_read(pool, path, &bytes, n) && *n > 4 &&
        !memcmp(bytes, "\177ELF", 4)) {
        *code = bytes;
        if (cached)
            *cached = true;
        return OK;
    }
    TRY(compile_text(pool, text, capability, code, n));
    if (path && file_write(path, *code, *n))
        return OK; /* a cache that cannot be written is none */
    return OK;
}
