/* lower_stablehlo.h -- what the lowerings of StableHLO share. Not for other rooms. */
#ifndef IMPORT_LOWER_STABLEHLO_H
#define IMPORT_LOWER_STABLEHLO_H

#include "import/lower.h"

Err hlo_operand(Lower *l, int i, Operand *item);
Err hlo_operand_view(Lower *l, int i, View *view); /* in the graph */

/* Products, windows and elements by index (lower_stablehlo_product.c, lower_stablehlo_index.c). */
Err hlo_dot(Lower *l);
Err hlo_convolution(Lower *l);
Err hlo_window(Lower *l);
Err hlo_gather(Lower *l);

#endif
