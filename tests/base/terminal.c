/* Tests of base/terminal: how often progress is shown, the width, and characters that fit. */
#include "test.h"

#include "base/clock.h"
#include "base/terminal.h"

#include <stdlib.h>

/* Standard error is no terminal here. */
static void due(void)
{
    double never = 0, now = clock_now(), old = now - 6;
    CHECK(progress_due(&never, false));
    CHECK(never >= now);
    CHECK(!progress_due(&now, false));
    CHECK(progress_due(&now, true)); /* the last time always */
    CHECK(progress_due(&old, false));
}

static void fits(void)
{
    CHECK_INT(text_fits("abc", 2), 2);
    CHECK_INT(text_fits("abc", 9), 3);
    CHECK_INT(text_fits("a\xc3\xa4o", 2), 3); /* a character of two bytes stays whole */
    CHECK_INT(text_fits("\xe2\x82\xac", 0), 0);
    CHECK_INT(text_fits("", 5), 0);
}

static void not_drawn(void)
{
    setenv("TERM", "dumb", 1);
    CHECK(!terminal_draws());
    CHECK(!terminal_colours(stdout));
}

int main(void)
{
    if (terminal_draws()) /* started by hand */
        setenv("TERM", "dumb", 1);
    RUN(due);
    RUN(fits);
    RUN(not_drawn);
    return test_end();
}
