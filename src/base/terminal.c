/* terminal.c -- asks the terminal, and draws the progress line. */
#include "base/terminal.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 512, USUAL_WIDTH = 80 };

static bool progress_shown; /* on the terminal's last line */

static bool terminal_dumb(void)
{
    const char *term = getenv("TERM");
    return !term || !*term || !strcmp(term, "dumb");
}

bool terminal_draws(void) { return isatty(2) && !terminal_dumb(); }

bool terminal_colours(FILE *to)
{
    const char *none = getenv("NO_COLOR");
    return isatty(fileno(to)) && !terminal_dumb() && !(none && *none);
}

int terminal_width(void)
{
    struct winsize size;
    if (!ioctl(2, TIOCGWINSZ, &size) && size.ws_col > 0)
        return size.ws_col;
    const char *columns = getenv("COLUMNS");
    long        n = columns ? strtol(columns, NULL, 10) : 0;
    return n > 0 && n < 10000 ? (int)n : USUAL_WIDTH;
}

size_t text_fits(const char *text, int columns)
{
    size_t n = 0;
    for (; text[n]; n++) {
        bool begins = ((unsigned char)text[n] & 0xC0) != 0x80; /* not inside a character */
        if (begins && columns-- <= 0)
            break;
    }
    return n;
}

bool progress_due(double *shown, bool last)
{
    double now = clock_now();
    if (!last && now - *shown < (terminal_draws() ? 0.1 : 5))
        return false;
    *shown = now;
    return true;
}

void progress_show(const char *fmt, ...)
{
    char    line[LINE_MAX_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    line[strcspn(line, "\r\n")] = '\0';
    /* one column less: some terminals wrap when the last one is filled */
    fprintf(stderr, "\r%.*s\033[K", (int)text_fits(line, terminal_width() - 1), line);
    progress_shown = true;
}

void progress_clear(void)
{
    if (progress_shown)
        fprintf(stderr, "\r\033[K");
    progress_shown = false;
}

void progress_end(void)
{
    if (progress_shown)
        fputc('\n', stderr);
    progress_shown = false;
}
