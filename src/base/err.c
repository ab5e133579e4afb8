/* err.c -- the sentence of the last failure, one per thread. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char err_sentence[1024];

static const int err_exit[] = {
#define X(name, exit_code, text) exit_code,
    ERR_LIST(X)
#undef X
};

Err fail(Err code, const char *fmt, ...)
{
    char    text[sizeof err_sentence]; /* an argument may be the old sentence itself */
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    /* One sentence is one line, whatever a file is called; rows of a list follow it, indented. */
    for (char *c = text; *c; c++)
        if (((unsigned char)*c < ' ' && strncmp(c, "\n  ", 3)) || *c == 127)
            *c = '?';
    memcpy(err_sentence, text, sizeof text);
    return code;
}

const char *err_text(void) { return err_sentence; }

int err_exit_code(Err code) { return (unsigned)code < ERR_COUNT ? err_exit[code] : 1; }

void require_failed(const char *cond, const char *file, int line)
{
    fprintf(stderr, "plimsoll: broken promise at %s:%d: %s (this is a bug; please report it)\n",
            file, line, cond);
    abort();
}
