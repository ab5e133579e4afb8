/* clip_file.c -- writes a clip as a file, for comparison with other readers.
 *
 *   clip_file CLIP.npy STEM gif|mp4|webm RATE       uint8 (frames, height, width, 3)
 *
 * Prints the path of what was written. */
#include "base/npy.h"
#include "data/gif.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Err clip_file(Pool *pool, char **argv)
{
    Npy a;
    TRY(npy_read(pool, argv[1], &a));
    if (a.type != NPY_U1 || a.rank != 4 || a.shape[3] != 3)
        return fail(E_FORMAT, "%s is no clip", argv[1]);
    VideoClip   clip = { a.data, a.shape[0], a.shape[1], a.shape[2], atof(argv[4]) };
    VideoForm   form = strcmp(argv[3], "mp4") ? VIDEO_WEBM : VIDEO_MP4;
    const char *path = pool_print(pool, "%s.gif", argv[2]);
    if (!strcmp(argv[3], "gif"))
        TRY(gif_write(pool, path, &clip));
    else
        TRY(video_write(pool, argv[2], &clip, &form, &path));
    printf("%s\n", path);
    return OK;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 77;
    Pool *pool = pool_new(NULL, "clip");
    Err   err = clip_file(pool, argv);
    if (err)
        fprintf(stderr, "%s\n", err_text());
    pool_free(pool);
    return err != OK;
}
