/* sheet.h -- the balance sheet of an engine: what is live at the peak, and what it is for.
 *
 * The peak instant is the first step with the largest live sum in the program with the largest
 * arena. Every table (classes, modules, lines, tensors) adds up to peak_bytes: live buffers, the
 * workspace of the node that runs, and one row of gaps (alignment and
 * fragmentation). */
#ifndef FIT_SHEET_H
#define FIT_SHEET_H

#include "plan/engine.h"

typedef struct LiveBuffer {
    int32_t     value;           /* graph value, or -1: the workspace of `node` */
    int32_t     node;            /* that made it, or -1 */
    Class       mem_class;
    int32_t     module;
    Source      source;
    int64_t     bytes;
    int32_t     first_step, last_step;   /* of the peak program; persistent ones: all of it */
} LiveBuffer;

typedef struct SheetRow {        /* a module's own bytes, or a line's */
    const char *name;
    int64_t     bytes;
    int64_t     total;           /* modules: with everything below it */
    int32_t     n;               /* buffers */
} SheetRow;

typedef struct Sheet {
    const Engine  *engine;
    const Program *program;
    int32_t        step;         /* of the program's plan */
    int32_t        node;         /* graph node that runs there */
    Phase           phase;
    int64_t        peak_bytes, live_bytes, gap_bytes;
    int64_t        classes[CLASS_COUNT];
    LiveBuffer    *live;         /* largest first */
    SheetRow      *modules, *lines;      /* largest own bytes first, without the gaps */
    int32_t        n_live, n_modules, n_lines;
    int64_t        parameters, trained;  /* counts of numbers */
    int64_t        parameter_bytes;
} Sheet;

Err sheet_new(Pool *pool, const Engine *engine, Sheet **sheet);

/* What fixes the peak, in words: "conv of edge.3 runs with 6.00 GiB of edge.2 (batchnorm), ... and
 * 5.8 GiB of parameters and state". The three largest buffers that are no state, by name. */
const char *sheet_fullest(Pool *pool, const Engine *engine);

/* What is live at a step of a program's plan: only the list, its sum and the classes. */
void sheet_at(Pool *pool, const Engine *engine, const Program *program, int32_t step, Sheet *sheet);

#endif
