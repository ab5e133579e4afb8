/* cases.h -- test cases of operators: a few lines of building, and the same in PyTorch beside them.
 *
 *   static void two_rows(Case *c)
 *   {
 *       Tensor x = case_in(c, "x", SHAPE(2, 3), -1, 1);
 *       case_out(c, "y", silu(x));
 *   }
 *   const OpCase cases_silu[] = {
 *       { "two rows", two_rows, "y = F.silu(x)" },
 *       { 0 }
 *   };
 *
 * The harness (tests/ops/harness.c) runs every case in fp32 and bf16, on GPUs in fp16 too, and
 * checks outputs and gradients against PyTorch in fp64 (values kept in tests/ops/FAMILY/ref, made
 * by tests/ops/reference.py; tolerances as in contract section 6), gradients against finite
 * differences, guard bytes around every buffer, in place against not in place, run against run.
 * With --backend builtin, an operator with a chunking rule (OpDef.chunk) also runs in chunks and
 * must give the same outputs; at least one of its cases must allow that. Inputs are numbers that
 * bf16 holds exactly, so one reference serves all types.
 *
 * Inputs of the torch text are fp64 tensors of the shapes given here (ints: int64); it assigns the
 * outputs by name, in the shapes we give: channels-last, weights as in the arena.
 */
#ifndef TESTS_OPS_CASES_H
#define TESTS_OPS_CASES_H

#include "ir/op.h"

typedef struct Case Case;

enum {
    CASE_NO_DIFFERENCES = 1, /* has kinks or jumps where a finite difference misleads */
    CASE_F32_ONLY = 2,       /* fp32 by contract (S4 kernel, FFT) */
    /* too large to keep a reference of; compared where torch is installed */
    CASE_LIVE_ONLY = 4,
    CASE_NO_TORCH = 8, /* checked by its own function (random numbers, feeds) */
    CASE_NO_F16 = 16,  /* its results are smaller than fp16 can hold */
};

typedef struct OpCase {
    const char *name;
    void (*build)(Case *c);
    const char *torch;
    unsigned    flags;
    double      tol_f32;           /* ||ours - r|| / ||r||; 0: 1e-5 */
    double      tol_bf16;          /* 0: 1e-2 */
    const char *(*check)(Case *c); /* CASE_NO_TORCH: NULL if fine, else what is wrong */
} OpCase;

Graph *case_graph(Case *c);
Tensor case_in(Case *c, const char *name, Shape shape, float low, float high); /* gets a gradient */
/* f32 also in bf16 runs */
Tensor case_in_f32(Case *c, const char *name, Shape shape, float low, float high);
Tensor case_const(Case *c, const char *name, Shape shape, float low, float high); /* no gradient */
/* i32 in [low, high) */
Tensor case_ints(Case *c, const char *name, Shape shape, int low, int high);
/* u8 in [low, high) */
Tensor case_bytes(Case *c, const char *name, Shape shape, int low, int high);
Tensor case_feed(Case *c, const char *name, Type type, Shape shape, const void *data);
void   case_out(Case *c, const char *name, Tensor y); /* compared; integers as they are */
const float *case_result(Case *c, const char *name);  /* in check: an output as fp32 */

#endif
