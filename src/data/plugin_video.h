/* plugin_video.h -- between the two files of the video plugin. */
#ifndef DATA_PLUGIN_VIDEO_H
#define DATA_PLUGIN_VIDEO_H

#include "data/media.h"

extern const MediaHost *video_host; /* the program */

/* VideoPlugin.encode */
Err video_encode(const char *path, const VideoClip *clip, VideoForm *form, VideoBytes *give,
                 void *to);

#endif
