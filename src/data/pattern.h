/* pattern.h -- which files of a folder are read: "**" + "/mixture.wav", "scene_*.npy", "[ab]/?.png".
 *
 *   *    any characters of one name        **   any folders, also none
 *   ?    one character of a name           [a-c] one of these, [!a-c] none of these
 *
 * A pattern without '/' is compared with the name of a file, wherever it lies; another with its path
 * below the folder. */
#ifndef DATA_PATTERN_H
#define DATA_PATTERN_H

#include <stdbool.h>

bool pattern_matches(const char *pattern, const char *path); /* NULL matches all */

#endif
