/* profile_int.h -- members of profile files: figures in safe ranges, and where each comes from. */
#ifndef PROFILE_PROFILE_INT_H
#define PROFILE_PROFILE_INT_H

#include "base/json.h"

/* A number above zero (with `zero`: at least zero), in a range safe for divisions and
 * logarithms. */
Err need_amount(const Json *object, const char *key, bool zero, double *out);
Err need_bytes(const Json *object, const char *key, int64_t *out);
/* A text that is not empty: every number must name its origin. */
Err need_words(Pool *pool, const Json *object, const char *key, const char **out);

#endif
