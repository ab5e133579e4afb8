/* plugin.h -- what a vendor plugin is given and what it gives back.
 *
 * A provider of products is one shared file that exports plimsoll_backend(). It reports and allocates
 * through the program's own functions, so that sentences, pools and counts are in one place. */
#ifndef DEVICE_PLUGIN_H
#define DEVICE_PLUGIN_H

#include "device/device.h"

enum { PLUGIN_FORM = 2 };        /* changes with PluginHost, Backend, Prim and the descriptions */

typedef struct PluginHost {
    int   form;                  /* PLUGIN_FORM of the program */
    Err (*fail)(Err code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
    void *(*pool_alloc)(Pool *pool, size_t n, size_t size);
    void (*pool_at_free)(Pool *pool, void (*undo)(void *), void *arg);
} PluginHost;

/* A plugin's file, looked for beside the program, then in ../lib/plimsoll, then by its plain name
 * wherever the loader looks; NULL with the reason in why. */
void *plugin_load(const char *file, char *why, size_t n_why);

/* NULL: another form, or it cannot start */
typedef const Backend *PluginEntry(const PluginHost *host);

#endif
