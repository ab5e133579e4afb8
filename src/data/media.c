/* media.c -- finds the plugins for video and audio. */
#include "data/media.h"

#include "data/source.h"
#include "device/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

const char *const video_endings[] = {
    ".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".gif", NULL
};
const char *const audio_endings[] = { ".flac", ".ogg", ".oga", ".opus", ".mp3", NULL };

static bool has_ending(const char *name, const char *const *endings)
{
    for (; *endings; endings++)
        if (name_ends(name, *endings))
            return true;
    return false;
}

bool video_name(const char *name) { return has_ending(name, video_endings); }
bool audio_name(const char *name) { return has_ending(name, audio_endings); }

typedef struct Plugin {
    const char *file, *entry, *libraries, *packages;
    bool        looked;
    void       *at; /* what the entry returned */
    char        why[256];
} Plugin;

static pthread_mutex_t plugin_lock = PTHREAD_MUTEX_INITIALIZER;
static Plugin          video_plugin = { "libplimsoll_video.so", "plimsoll_video", "FFmpeg's libav",
                                        "libavformat-dev libavcodec-dev libswscale-dev" };
static Plugin          audio_plugin = { "libplimsoll_audio.so", "plimsoll_audio",
                                        "libsndfile and libsamplerate",
                                        "libsndfile1-dev libsamplerate0-dev" };

static void plugin_find(Plugin *p)
{
    static const MediaHost host = { MEDIA_FORM, fail };
    void                  *lib = plugin_load(p->file, p->why, sizeof p->why);
    void *(*entry)(const MediaHost *);
    p->looked = true;
    if (!lib)
        return;
    *(void **)&entry = dlsym(lib, p->entry);
    p->at = entry ? entry(&host) : NULL;
    if (!p->at) {
        snprintf(p->why, sizeof p->why, "%s is of another version", p->file);
        dlclose(lib);
    }
}

static Err plugin_need(Plugin *p, const char *path, const char *verb)
{
    pthread_mutex_lock(&plugin_lock);
    if (!p->looked)
        plugin_find(p);
    pthread_mutex_unlock(&plugin_lock);
    return p->at ? OK
                 : fail(E_USAGE,
                        "%s is %s with %s, and the plugin for it is not here (%s): install %s "
                        "and build again, as make media does",
                        path, verb, p->libraries, p->why, p->packages);
}

Err media_video(const char *path, const VideoPlugin **out)
{
    TRY(plugin_need(&video_plugin, path, "read"));
    *out = video_plugin.at;
    return OK;
}

Err media_video_out(const char *path, const VideoPlugin **out)
{
    TRY(plugin_need(&video_plugin, path, "written"));
    *out = video_plugin.at;
    return OK;
}

Err media_audio(const char *path, const AudioPlugin **out)
{
    TRY(plugin_need(&audio_plugin, path, "read"));
    *out = audio_plugin.at;
    return OK;
}
