/* rank_messages.c -- keeps stderr of ranks as lines, and compares them. */
#include "train/rank_messages.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SAID_BYTES = 4096 };

typedef struct Said { /* whole lines; what does not fit is left out */
    char text[SAID_BYTES];
    int  n, line; /* bytes; where the last line begins */
} Said;

static Said  said;
static bool  said_prints;         /* this rank's lines reach the terminal */
static FILE *said_out, *said_err; /* as before; NULL: nothing is kept back */

/* A carriage return begins the line anew: progress is not a message. */
static void said_add(char c)
{
    if (c == '\r')
        said.n = said.line;
    else if (said.n < SAID_BYTES - 1)
        said.text[said.n++] = c;
    if (c == '\n' && said.text[said.n - 1] == '\n')
        said.line = said.n;
}

static ssize_t said_write(void *unused, const char *bytes, size_t n)
{
    (void)unused;
    for (size_t i = 0; i < n; i++)
        said_add(bytes[i]);
    if (said_prints && said_err)
        fwrite(bytes, 1, n, said_err);
    return (ssize_t)n;
}

void rank_messages_begin(Pool *pool, const Comm *comm)
{
    (void)pool;
    if (comm_ranks(comm) == 1 || said_err)
        return;
    FILE *kept = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = said_write });
    FILE *none = comm_rank(comm) ? fopen("/dev/null", "w") : stdout;
    if (!kept || !none)
        return;
    setvbuf(kept, NULL, _IONBF, 0);
    said = (Said){ .n = 0 };
    said_prints = comm_rank(comm) == 0;
    said_out = stdout;
    said_err = stderr;
    stderr = kept;
    stdout = none;
}

void rank_messages_end(void)
{
    if (!said_err)
        return;
    fflush(stderr); /* not closed: a library that was loaded meanwhile may use both at exit */
    fflush(stdout);
    stderr = said_err;
    stdout = said_out;
    said_err = said_out = NULL;
}

/* Is the line among the whole lines of this text? */
static bool said_has(const char *text, const char *line, size_t n)
{
    for (const char *at = text, *end; (end = strchr(at, '\n')); at = end + 1)
        if ((size_t)(end - at) == n && !memcmp(at, line, n))
            return true;
    return false;
}

static void said_tell_line(const Comm *comm, const char *all, int rank, const char *line, size_t n)
{
    int others = 0;
    for (int i = 0; i < comm_ranks(comm); i++)
        if (said_has(all + (size_t)i * SAID_BYTES, line, n)) {
            if (i < rank) /* rank 0 has it too, or it was printed */
                return;
            others += i > rank;
        }
    fprintf(said_err, "rank %d on %s", rank, comm_host(comm, rank));
    if (others)
        fprintf(said_err, " and %d other ranks", others);
    fprintf(said_err, ": %.*s\n", (int)n, line);
}

Err rank_messages_tell(Pool *pool, Comm *comm)
{
    if (!said_err)
        return OK;
    char *all = pool_alloc(pool, (size_t)comm_ranks(comm), SAID_BYTES);
    said.text[said.line] = 0;
    TRY(comm_all(comm, said.text, SAID_BYTES, all));
    said = (Said){ .n = 0 };
    for (int rank = 1; rank < comm_ranks(comm) && said_prints; rank++)
        for (const char *at = all + (size_t)rank * SAID_BYTES, *end; (end = strchr(at, '\n'));
             at = end + 1)
            said_tell_line(comm, all, rank, at, (size_t)(end - at));
    return OK;
}
