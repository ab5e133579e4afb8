/* terminal.h -- what the terminal can show, and the progress line: one line on stderr that is drawn
 * over itself.
 *
 *   if (terminal_draws())
 *       progress_show("step %d of %d", step, steps);     as often as wanted
 *   progress_end();                                       it stays; the next output is below
 *
 * The line is cut to the terminal's width, so that it never wraps. Before any other output to the
 * terminal comes progress_clear or progress_end; where no line is shown they do nothing. */
#ifndef BASE_TERMINAL_H
#define BASE_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* Can a line on stderr be drawn over itself? Not in a file or pipe, nor with TERM=dumb. */
bool terminal_draws(void);
/* Are colours wanted? In a terminal, without NO_COLOR and TERM=dumb. */
bool terminal_colours(FILE *to);
int  terminal_width(void); /* columns of stderr; 80 if they are not known */

/* Is it time to show progress again? Ten times a second on a terminal, else every five seconds, and
 * the last time always. *shown: when it last was, as by clock_now; 0: never. */
bool progress_due(double *shown, bool last);
void progress_show(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void progress_clear(void);
void progress_end(void);

/* How many bytes of a UTF-8 text fit in `columns`, each character taken as one column. */
size_t text_fits(const char *text, int columns);

#endif
