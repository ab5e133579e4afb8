/* hlo.c -- fuzz target: StableHLO text is refused, or becomes a graph that passes its check. The input is used as a
 * file, and as changes to a good one. */
#include "import/lower.h"

#include <string.h>

static const char good[] =
    "module @jit_loss {\n"
    "  func.func public @main(%arg0: tensor<2x3xf32> loc(\"params['w']\"), %arg1: tensor<4x2xf32> "
    "loc(\"batch['x']\"), %arg2: tensor<4x1xi32> loc(\"batch['i']\")) -> (tensor<f32>) {\n"
    "    %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [1] x [0] : (tensor<4x2xf32>, "
    "tensor<2x3xf32>) -> tensor<4x3xf32>\n"
    "    %1 = stablehlo.slice %0 [0:4, 1:3:1] : (tensor<4x3xf32>) -> tensor<4x2xf32>\n"
    "    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>\n"
    "    %3 = stablehlo.reshape %2 : (tensor<2x4xf32>) -> tensor<8xf32>\n"
    "    %c = stablehlo.constant dense<[1, 2]> : tensor<2xi32>\n"
    "    %4 = stablehlo.broadcast_in_dim %c, dims = [0] : (tensor<2xi32>) -> tensor<2x4xi32>\n"
    "    %5 = stablehlo.convert %4 : (tensor<2x4xi32>) -> tensor<2x4xf32>\n"
    "    %6 = stablehlo.reshape %5 : (tensor<2x4xf32>) -> tensor<8xf32>\n"
    "    %7 = stablehlo.iota dim = 0 : tensor<8xf32>\n"
    "    %8 = stablehlo.multiply %3, %6 : tensor<8xf32>\n"
    "    %10 = stablehlo.concatenate %8, %7, dim = 0 : (tensor<8xf32>, tensor<8xf32>) -> "
    "tensor<16xf32>\n"
    "    %cst = stablehlo.constant dense<0.0> : tensor<f32>\n"
    "    %11 = stablehlo.pad %10, %cst, low = [1], high = [1], interior = [0] : (tensor<16xf32>, "
    "tensor<f32>) -> tensor<18xf32>\n"
    "    %9 = stablehlo.reduce(%11 init: %cst) applies stablehlo.add across dimensions = [0] : "
    "(tensor<18xf32>, tensor<f32>) -> tensor<f32>\n"
    "    return %9 : tensor<f32>\n  }\n}\n";

static void try_text(const char *bytes, size_t n)
{
    Pool        *pool = pool_new(NULL, "fuzz");
    ImportConfig config = { 0 };
    Lower       *l;
    Operand      item;
    if (hlo_parse(pool, "fuzz.mlir", pool_textn(pool, bytes, n), &config.program) == OK) {
        Graph *graph = graph_new(pool, F32);
        if (lower_program(pool, graph, &config, &l) == OK && config.program->n_outputs &&
            config.program->outputs[0].arg.kind == ARG_VALUE &&
            lower_output(l, config.program->outputs[0].arg.values[0], &item) == OK)
            (void)graph_check(graph);
    }
    pool_free(pool);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    char text[sizeof good + 64];
    memcpy(text, good, sizeof good);
    size_t length = sizeof good - 1;
    try_text((const char *)bytes, n);
    for (size_t i = 0; i + 2 < n && i < 60; i += 3) { /* a place, and what stands there */
        size_t at = ((size_t)bytes[i] << 8 | bytes[i + 1]) % length;
        if (bytes[i + 2] < 0x80)
            text[at] = (char)bytes[i + 2];
        else if (bytes[i + 2] < 0xC0)
            memmove(text + at, text + at + 1, length-- - at);
        else { /* once more */
            memmove(text + at + 1, text + at, length - at);
            length++;
        }
    }
    try_text(text, length);
    return 0;
}
