/* plugin.h -- the interface between the program and a plugin with a vendor's library.
 *
 * A backend plugin is a shared library that exports plimsoll_backend(). It reports errors and
 * allocates through the program's functions, so that errors, pools and counts are in one place. */
#ifndef DEVICE_PLUGIN_H
#define DEVICE_PLUGIN_H

#include "device/device.h"

enum { PLUGIN_FORM = 2 }; /* changes with PluginHost, Backend, Prim and the descriptions */

typedef struct PluginHost {
    int form; /* PLUGIN_FORM of the program */
    Err (*fail)(Err code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
    void *(*pool_alloc)(Pool *pool, size_t n, size_t size);
    void (*pool_at_free)(Pool *pool, void (*undo)(void *), void *arg);
} PluginHost;

/* Loads a plugin from the program's folder, from ../lib/plimsoll, or from the loader's search path;
 * NULL with the reason in why. */
void *plugin_load(const char *file, char *why, size_t n_why);

/* returns NULL if the form differs or the library cannot start */
typedef const Backend *PluginEntry(const PluginHost *host);

#endif
