/* events.c -- fuzz target: what a resumed run keeps of an event file lies within it, and is kept
 * again. The input is used as a file, and as the data of one record with right checks. */
#include "base/crc32.h"
#include "base/err.h"
#include "train/events.h"
#include "train/records.h"

#include <stdlib.h>
#include <string.h>

static void fuzz_file(const unsigned char *bytes, size_t n)
{
    int64_t n_kept, again;
    for (int64_t step = 0; step < 3; step++) {
        size_t kept = events_kept(bytes, n, step, step & 1, &n_kept);
        REQUIRE(kept <= n && events_kept(bytes, kept, step, step & 1, &again) == kept);
        REQUIRE(again == n_kept);
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    unsigned char *framed = malloc(RECORD_HEAD + n + RECORD_TAIL);
    fuzz_file(bytes, n);
    record_head(framed, n);
    if (n)
        memcpy(framed + RECORD_HEAD, bytes, n);
    record_tail(framed + RECORD_HEAD + n, crc32c_add(0, bytes, n));
    fuzz_file(framed, RECORD_HEAD + n + RECORD_TAIL);
    free(framed);
    return 0;
}
