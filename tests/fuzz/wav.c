/* wav.c -- fuzz target: the frames of a file that parses lie within the file. The input is used as
 * a file, and with a RIFF header in front of it. */
#include "data/wav.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    for (int with = 0; with < 2; with++) {
        unsigned char *copy = malloc(n + 12);
        memcpy(copy, "RIFF\0\0\0\0WAVE", 12);
        if (n)
            memcpy(copy + 12 * with, bytes, n);
        size_t  size = n + 12 * (size_t)with;
        WavInfo info;
        if (wav_parse("fuzz", copy, size, size, &info) == OK) {
            REQUIRE(info.offset + (size_t)info.frames * wav_frame_bytes(&info) <= size);
            float   x[64];
            int64_t samples = info.frames * info.channels;
            wav_floats(&info, copy + info.offset, samples < 64 ? samples : 64, x);
        }
        free(copy);
    }
    return 0;
}
