/* sheet.h -- the balance sheet of an engine: what is live at the peak, and what it is for.
 *
 * The peak step is the first step with the largest live sum, in the program with the largest arena.
 * Every table (classes, modules, lines, tensors) adds up to peak_bytes: live buffers, the workspace
 * of the running node, and one row of gaps (alignment and fragmentation). */
#ifndef FIT_SHEET_H
#define FIT_SHEET_H

#include "plan/engine.h"

typedef struct LiveBuffer {
    int32_t value; /* graph value, or -1: the workspace of `node` */
    int32_t node;  /* its producer, or -1 */
    Class   mem_class;
    int32_t module;
    Source  source;
    int64_t bytes;
    int32_t first_step, last_step; /* in the peak program; persistent: all its steps */
} LiveBuffer;

typedef struct SheetRow { /* a module, or a line of the model's source */
    const char *name;
    int64_t     bytes; /* of the module itself, without the modules inside it */
    int64_t     total; /* modules: including the modules inside it */
    int32_t     n;     /* buffers */
} SheetRow;

typedef struct Sheet {
    const Engine  *engine;
    const Program *program;
    int32_t        step; /* of the program's plan */
    int32_t        node; /* the graph node that runs at that step */
    Phase          phase;
    int64_t        peak_bytes, live_bytes, gap_bytes;
    int64_t        classes[CLASS_COUNT];
    LiveBuffer    *live;            /* largest first */
    SheetRow      *modules, *lines; /* most bytes first, without the gaps */
    int32_t        n_live, n_modules, n_lines;
    int64_t        parameters, trained; /* numbers, not bytes */
    int64_t        parameter_bytes;
} Sheet;

Err sheet_new(Pool *pool, const Engine *engine, Sheet **sheet);

/* What makes up the peak, in words: "conv of edge.3 runs with 6.00 GiB of edge.2 (batchnorm), ...
 * and 5.8 GiB of parameters and state". Names the three largest buffers that are not state. */
const char *sheet_fullest(Pool *pool, const Engine *engine);

/* What is live at a step of a program's plan: fills only the list, its sum and the classes. */
void sheet_at(Pool *pool, const Engine *engine, const Program *program, int32_t step, Sheet *sheet);

#endif
