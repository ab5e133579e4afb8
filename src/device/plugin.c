/* plugin.c -- finding a plugin's file. */
#include "device/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

static void *plugin_try(const char *path, char *why, size_t n_why)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        snprintf(why, n_why, "%s", dlerror());
    return lib;
}

void *plugin_load(const char *file, char *why, size_t n_why)
{
    static const char *const places[] = { "", "../lib/plimsoll/" };
    char                     path[4096];
    ssize_t                  n = readlink("/proc/self/exe", path, sizeof path - 64);
    while (n > 0 && path[n - 1] != '/')
        n--;
    for (int i = 0; n > 0 && i < 2; i++) {
        snprintf(path + n, sizeof path - (size_t)n, "%s%s", places[i], file);
        if (access(path, R_OK) == 0)
            /* if it is there but does not load, that is the error to report */
            return plugin_try(path, why, n_why);
    }
    return plugin_try(file, why, n_why);
}
