/* shipped.h -- files that come with the program: recipes and device profiles, found by name. */
#ifndef BASE_SHIPPED_H
#define BASE_SHIPPED_H

#include "base/err.h"
#include "base/pool.h"

/* The path of NAME if it is a file, or of FOLDER/NAME.EXT under the working folder, beside the
 * program, or where it was installed. E_USAGE with the nearest name otherwise; `what` is the word
 * for it. */
Err shipped_find(Pool *pool, const char *folder, const char *ext, const char *what,
                 const char *name, const char **path);

/* The names in the first such folder that has any, without the ending, in natural
 * order. */
Err shipped_list(Pool *pool, const char *folder, const char *ext, char ***names, int *n);

#endif
