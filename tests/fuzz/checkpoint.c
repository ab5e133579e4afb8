/* checkpoint.c -- fuzz target: step-NNNNNN.json. A file whose bytes were changed is refused; what is
 * accepted is a state that a run can go on from. The input is used as a file, as changes to a good file, and
 * with the checksum made right, so that the fuzzer gets past it. */
#include "train/checkpoint_state.h"

#include <stdio.h>
#include <string.h>

static char   good[FILE_BUFFER];
static size_t n_good;

static void fuzz_begin(void)
{
    const char     path[] = "fuzz_checkpoint.json";
    const RunState state = { .step = 12,
                             .drawn = 240,
                             .samples = 1000,
                             .seed = 7,
                             .due = DUE_VALIDATE,
                             .loss = 0.5,
                             .ms = 3.25,
                             .best_step = 10,
                             .best_loss = 0.25,
                             .plateau = { .on = true,
                                          .bad = 1,
                                          .cooldown = 2,
                                          .count = 3,
                                          .sum = 1.5,
                                          .rates = { 0.1, 0.01 },
                                          .seen = true,
                                          .best = 0.75 } };
    Checksum       sum = checksum_begin();
    FileOut        out;
    Pool          *pool = pool_new(NULL, "fuzz");
    char          *text;
    checksum_add(&sum, "weights", 7);
    REQUIRE(file_out_init(&out, path) == OK);
    checkpoint_state_write(&out, &state, 40, &sum);
    REQUIRE(file_out_done(&out, OK) == OK);
    REQUIRE(file_read(pool, path, &text, &n_good) == OK && n_good < sizeof good);
    memcpy(good, text, n_good);
    REQUIRE(file_remove(path) == OK);
    pool_free(pool);
}

/* Is it taken for the checkpoint of step 12? */
static bool accepted(const char *text, size_t n)
{
    Pool    *pool = pool_new(NULL, "fuzz");
    RunState state = { .plateau.on = true };
    int64_t  tensors;
    bool     good_one = checkpoint_state_parse(pool, "fuzz", text, n, 12, &state, &tensors) == OK;
    if (good_one) {
        REQUIRE(state.step == 12 && state.drawn >= 0 && state.samples >= 0);
        REQUIRE(state.drawn < INT64_MAX / 1024); /* the next samples can be counted */
    }
    pool_free(pool);
    return good_one;
}

/* Replaces the digits of the last key by those of the bytes before it. */
static void make_right(char *text, size_t n)
{
    enum { DIGITS = 16, AFTER = 4, KEY = 13 }; /* `,\n  "check": "` before, `"\n}\n` after */
    char     digits[DIGITS + 1];
    Checksum sum = checksum_begin();
    if (n < DIGITS + AFTER + KEY + 1)
        return;
    checksum_add(&sum, text, n - DIGITS - AFTER - KEY - 1);
    checkpoint_digits(checksum_end(&sum), digits);
    memcpy(text + n - DIGITS - AFTER, digits, DIGITS);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    static char copy[FILE_BUFFER];
    if (!n_good)
        fuzz_begin();
    accepted((const char *)bytes, n);
    memcpy(copy, good, n_good);
    for (; n >= 3; n -= 3, bytes += 3) /* two bytes of index, one of value */
        copy[((size_t)bytes[0] << 8 | bytes[1]) % n_good] = (char)bytes[2];
    REQUIRE(accepted(copy, n_good) == !memcmp(copy, good, n_good) ||
            strstr(copy, "plimsoll-checkpoint-1")); /* which has no checksum */
    make_right(copy, n_good);
    accepted(copy, n_good);
    return 0;
}
