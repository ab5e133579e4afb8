/* text.c -- growing text, byte counts in and out, nearest word. */
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS = 100, MIN_COLUMNS = 20 };

static void text_room(Text *text, size_t more)
{
    if (text->n + more + 1 <= text->cap)
        return;
    size_t cap = 2 * text->cap > text->n + more + 1 ? 2 * text->cap : text->n + more + 1;
    if (cap < 256)
        cap = 256;
    text->at = pool_grow(text->pool, text->at, text->n, cap);
    text->cap = cap;
}

void text_addn(Text *text, const char *bytes, size_t n)
{
    text_room(text, n);
    memcpy(text->at + text->n, bytes, n);
    text->n += n;
    text->at[text->n] = '\0';
}

static void text_addv(Text *text, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n > 0) {
        text_room(text, (size_t)n);
        vsnprintf(text->at + text->n, (size_t)n + 1, fmt, args);
        text->n += (size_t)n;
    }
}

void text_add(Text *text, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    text_addv(text, fmt, args);
    va_end(args);
}

/* Where lines end: a terminal may be narrower, and a log of stderr has one line for a sentence. */
static int line_columns(FILE *to)
{
    struct winsize size;
    int            fd = fileno(to);
    if (fd < 0 || !isatty(fd))
        return to == stderr ? INT_MAX : COLUMNS;
    if (ioctl(fd, TIOCGWINSZ, &size) || size.ws_col < MIN_COLUMNS)
        return COLUMNS;
    return size.ws_col < COLUMNS ? size.ws_col : COLUMNS;
}

/* Words after `at` columns of the first line; further lines begin after `margin` columns. */
static void print_words(FILE *to, int at, int margin, const char *word)
{
    int columns = line_columns(to);
    for (; *word; word += strspn(word, " ")) {
        int n = (int)strcspn(word, " ");
        if (at > margin && at + 1 + n > columns)
            at = fprintf(to, "\n%*s", margin, "") - 1;
        at += fprintf(to, at >= margin ? " %.*s" : "%.*s", n, word);
        word += n;
    }
    fputc('\n', to);
}

void print_row(FILE *to, int width, const char *name, const char *text)
{
    int at = fprintf(to, "  %-*s", width, name);
    print_words(to, at, width + 2, text);
}

void print_sentence(FILE *to, const char *fmt, ...)
{
    Text    text = { .pool = pool_new(NULL, "sentence") };
    va_list args;
    text_addn(&text, "", 0);
    va_start(args, fmt);
    text_addv(&text, fmt, args);
    va_end(args);

    int at = fprintf(to, "%.*s", (int)strspn(text.at, " "), text.at);
    print_words(to, at, at + 1, text.at + at);
    pool_free(text.pool);
}

enum { SLOT_BYTES = 64 };

static char *text_slot(void)
{
    static _Thread_local char     slots[8][SLOT_BYTES];
    static _Thread_local unsigned next;
    return slots[next++ % 8];
}

const char *text_quoted(Pool *pool, const char *path, const char *quote)
{
    Text text = { .pool = pool };
    text_add(&text, "'");
    for (; *path; path++)
        text_addn(&text, *path == '\'' ? quote : path, *path == '\'' ? strlen(quote) : 1);
    text_add(&text, "'");
    return text.at;
}

const char *text_word(Pool *pool, const char *path)
{
    bool plain = *path != '\0' && *path != '~';
    for (const char *at = path; *at && plain; at++)
        plain = (unsigned char)*at >= 0x80 || isalnum((unsigned char)*at) ||
                strchr("/._-+,:=@%~", *at);
    return plain ? path : text_quoted(pool, path, "'\\''");
}

const char *bytes_text(int64_t bytes)
{
    static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    char                    *slot = text_slot();
    double                   size = (double)bytes;
    int                      u = 0;
    while (fabs(size) >= 1023.995 && u < 5) {
        size /= 1024;
        u++;
    }
    if (u == 0)
        snprintf(slot, SLOT_BYTES, "%lld B", (long long)bytes);
    else
        snprintf(slot, SLOT_BYTES, "%.*f %s",
                 fabs(size) < 9.995   ? 2
                 : fabs(size) < 99.95 ? 1
                                      : 0,
                 size, unit[u]);
    return slot;
}

const char *bytes_exact(int64_t bytes)
{
    char *slot = text_slot(), rounded[24];
    snprintf(rounded, sizeof rounded, "%s", bytes_text(bytes));
    if (bytes < 1024)
        snprintf(slot, SLOT_BYTES, "%lld byte%s", (long long)bytes, bytes == 1 ? "" : "s");
    else
        snprintf(slot, SLOT_BYTES, "%s (%lld bytes)", rounded, (long long)bytes);
    return slot;
}

const char *count_text(int64_t count)
{
    char *slot = text_slot(), digits[24];
    int   n = snprintf(digits, sizeof digits, "%lld", (long long)count), out = 0;
    for (int i = 0; i < n; i++) {
        slot[out++] = digits[i];
        if (digits[i] != '-' && i + 1 < n && (n - i - 1) % 3 == 0)
            slot[out++] = ',';
    }
    slot[out] = '\0';
    return slot;
}

const char *span_text(double seconds)
{
    char     *slot = text_slot();
    long long s = seconds > 0 ? seconds < 1e15 ? (long long)seconds : (long long)1e15 : 0;
    if (s < 3600)
        snprintf(slot, SLOT_BYTES, "%lld:%02lld", s / 60, s % 60);
    else
        snprintf(slot, SLOT_BYTES, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    return slot;
}

Err bytes_read(const char *text, int64_t whole, int64_t *bytes)
{
    static const struct {
        const char *name;
        double      scale;
    } unit[] = {
        { "", 1 },
        { "B", 1 },
        { "K", 1024. },
        { "KiB", 1024. },
        { "KB", 1e3 },
        { "M", 1048576. },
        { "MiB", 1048576. },
        { "MB", 1e6 },
        { "G", 1073741824. },
        { "GiB", 1073741824. },
        { "GB", 1e9 },
        { "T", 1099511627776. },
        { "TiB", 1099511627776. },
        { "TB", 1e12 },
    };
    char *end;
    errno = 0;
    long double number = strtold(text, &end); /* every byte count has its 64 bits */
    if (end == text || !isfinite(number) || number < 0 || !isdigit((unsigned char)end[-1]) ||
        strpbrk(text, "xXpP"))
        return fail(E_USAGE, "'%s' is not a size; write 16GiB, 24GB, 512MiB or 80%%", text);
    while (*end == ' ')
        end++;
    if (!strcmp(end, "%")) {
        if (whole <= 0)
            return fail(E_USAGE, "'%s': a percentage needs a device whose memory is known", text);
        long double part = number * (long double)whole / 100;
        if (part > 9e18L)
            return fail(E_USAGE, "'%s' is too many bytes", text);
        /* A part of a byte is a byte, but 0.1 % of 1000 is 1, whatever 0.1 is in binary. */
        long double whole_bytes = roundl(part);
        *bytes = (int64_t)(fabsl(part - whole_bytes) < 1e-18L * part ? whole_bytes : ceill(part));
        return OK;
    }
    for (size_t i = 0; i < sizeof unit / sizeof *unit; i++)
        if (!strcasecmp(end, unit[i].name)) {
            long double size = number * unit[i].scale;
            if (size > 9e18L)
                return fail(E_USAGE, "'%s' is too many bytes", text);
            *bytes = (int64_t)llroundl(size);
            return OK;
        }
    return fail(E_USAGE, "'%s': unknown unit '%s'; write 16GiB, 24GB, 512MiB or 80%%", text, end);
}

static int text_distance(const char *a, const char *b)
{
    enum { MAX_LENGTH = 64 };
    int n = (int)strlen(b), row[MAX_LENGTH + 1];
    if (n > MAX_LENGTH || strlen(a) > MAX_LENGTH)
        return INT_MAX; /* too long to be near anything */
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int swap = diagonal +
                       (tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]));
            int best = swap;
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[n];
}

const char *text_nearest(const char *word, const char *const *candidates, int n)
{
    const char *best = NULL;
    int         nearest = 1 + (int)strlen(word) / 2;
    for (int i = 0; i < n; i++) {
        int d = text_distance(word, candidates[i]);
        if (d < nearest) {
            nearest = d;
            best = candidates[i];
        }
    }
    return best;
}
