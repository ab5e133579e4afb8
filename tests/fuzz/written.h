/* written.h -- a parsed tree as JSON text, for the fuzz targets that read it again. */
#ifndef TESTS_FUZZ_WRITTEN_H
#define TESTS_FUZZ_WRITTEN_H

#include "base/json_out.h"

static inline Text fuzz_written(Pool *pool, const Json *root)
{
    Text    text = { .pool = pool };
    JsonOut o;
    json_out_text(&o, &text, JSON_PRETTY);
    json_out_value(&o, NULL, root);
    REQUIRE(json_out_done(&o) == OK);
    return text;
}

#endif
