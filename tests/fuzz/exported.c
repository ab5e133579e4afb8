/* exported.c -- fuzz target: the input as the JSON of an exported program, and as the nodes of one
 * whose head is valid, so that the fuzzer gets past it. */
#include "import/exported.h"

#include <stdlib.h>
#include <string.h>

static void fuzz_program(const char *bytes, size_t n)
{
    Pool     *pool = pool_new(NULL, "fuzz");
    Exported *program;
    if (exported_parse(pool, "fuzz", bytes, n, &program) == OK)
        for (int32_t i = 0; i < program->n_calls; i++) {
            const ExportedCall *call = &program->calls[i];
            REQUIRE(call->target && call->module && call->region < program->n_regions);
            for (int32_t k = 0; k < call->n_args; k++) {
                const ExportedArg *arg = &call->args[k];
                for (int32_t v = 0; arg->values && v < arg->n; v++)
                    REQUIRE(arg->values[v] < program->n_values);
            }
            for (int32_t k = 0; k < call->n_out; k++)
                REQUIRE(call->out[k] < program->n_values);
        }
    pool_free(pool);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    static const char head[] =
        "{\"schema_version\":{\"major\":8,\"minor\":20},\"range_constraints\":{\"s0\":{"
        "\"min_val\":2,\"max_val\":null}},\"graph_module\":{\"signature\":{\"input_specs\":["
        "{\"parameter\":{\"arg\":{\"name\":\"p\"},\"parameter_name\":\"w\"}},{\"user_input\""
        ":{\"arg\":{\"as_tensor\":{\"name\":\"x\"}}}}],\"output_specs\":[{\"user_output\":{"
        "\"arg\":{\"as_tensor\":{\"name\":\"x\"}}}}]},\"graph\":{\"outputs\":[{\"as_tensor\""
        ":{\"name\":\"x\"}}],\"tensor_values\":{\"p\":{\"dtype\":7,\"sizes\":[{\"as_int\":4}"
        "]},\"x\":{\"dtype\":7,\"sizes\":[{\"as_expr\":{\"expr_str\":\"Symbol('s0')\","
        "\"hint\":{\"as_int\":4}}}]},\"y\":{\"dtype\":7,\"sizes\":[]},\"z\":{\"dtype\":13,"
        "\"sizes\":[{\"as_int\":2}]}},\"sym_int_values\":{\"n\":{\"as_expr\":{\"expr_str\":"
        "\"2*s0\",\"hint\":null}}},\"nodes\":[",
                      tail[] = "]}}}";
    fuzz_program((const char *)bytes, n);
    size_t all = sizeof head - 1 + n + sizeof tail - 1;
    char  *copy = malloc(all);
    memcpy(copy, head, sizeof head - 1);
    if (n)
        memcpy(copy + sizeof head - 1, bytes, n);
    memcpy(copy + sizeof head - 1 + n, tail, sizeof tail - 1);
    fuzz_program(copy, all);
    free(copy);
    return 0;
}
