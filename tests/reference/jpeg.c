/* jpeg.c -- decodes images with the program's reader, for comparison by tests/py/test_jpeg.py.
 *
 * Reads one path per line. Writes for each "width height channels seconds\n" and the samples, or
 * "- reason\n" if it is refused. The work memory has exactly the size that the header requires. */
#include "base/clock.h"
#include "data/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Err read_one(const char *path)
{
    ImageInfo info;
    Raster    r;
    TRY(image_look(path, &info));
    Work work = { .n = image_open_work(&info) };
    work.at = malloc(work.n);
    double start = clock_now();
    Err    err = image_open(path, &work, &r);
    if (!err) {
        REQUIRE(r.width == info.width && r.height == info.height && r.channels == info.channels);
        printf("%lld %lld %d %.6f\n", (long long)r.width, (long long)r.height, r.channels,
               clock_now() - start);
        fwrite(r.at, (size_t)r.channels, (size_t)(r.height * r.width), stdout);
    }
    free(work.at);
    return err;
}

int main(void)
{
    static char path[4096];
    while (fgets(path, sizeof path, stdin)) {
        path[strcspn(path, "\n")] = '\0';
        if (read_one(path))
            printf("- %s\n", err_text());
        fflush(stdout);
    }
    return 0;
}
