/* pattern.c -- compares a path with a pattern, name by name. */
#include "data/pattern.h"

#include <fnmatch.h>
#include <stddef.h>
#include <string.h>

enum { NAME_BYTES = 512 };

static size_t part_length(const char *at) { return strcspn(at, "/"); }

static const char *part_next(const char *at)
{
    at += part_length(at);
    return *at ? at + 1 : NULL;
}

/* Are the first parts of both alike? */
static bool part_matches(const char *pattern, const char *path)
{
    char   a[NAME_BYTES], b[NAME_BYTES];
    size_t n = part_length(pattern), m = part_length(path);
    if (n >= NAME_BYTES || m >= NAME_BYTES)
        return false;
    memcpy(a, pattern, n);
    memcpy(b, path, m);
    a[n] = b[m] = '\0';
    return fnmatch(a, b, 0) == 0;
}

/* At most one "**" needs to be tried at longer lengths: the newest. */
static bool parts_match(const char *pattern, const char *path)
{
    const char *retry_pattern = NULL, *retry_path = NULL;
    while (path) {
        if (pattern && part_length(pattern) == 2 && !strncmp(pattern, "**", 2)) {
            retry_pattern = pattern = part_next(pattern);
            retry_path = path;
            if (!pattern)
                return true;
            continue;
        }
        if (pattern && part_matches(pattern, path)) {
            pattern = part_next(pattern);
            path = part_next(path);
            if (path || !pattern)
                continue;
        }
        if (!retry_pattern)
            return false;
        pattern = retry_pattern;
        path = retry_path = part_next(retry_path);
    }
    return !pattern;
}

bool pattern_matches(const char *pattern, const char *path)
{
    const char *name = strrchr(path, '/');
    if (!pattern)
        return true;
    if (!strchr(pattern, '/'))
        return part_matches(pattern, name ? name + 1 : path);
    return parts_match(pattern, path);
}
