/* Tests of import/hlo_read: a small module by hand, a function, a loop, and what is refused.
 * tests/import/stablehlo.py compares losses and gradients with JAX. */
#include "import/exported.h"

#include "base/text.h"
#include "test.h"

#include <string.h>

static Pool *pool;

#define HEAD                                                                                       \
    "module @jit_loss {\n"                                                                         \
    "  func.func public @main(%arg0: tensor<2x3xf32> loc(\"params['Dense_0']['kernel']\"), "       \
    "%arg1: tensor<4x2xf32> loc(\"batch['x']\")) -> (tensor<f32> {jax.result_info = \"\"}) {\n"
#define TAIL                                                                                       \
    "    return %9 : tensor<f32>\n  }\n"                                                           \
    "  func.func private @twice(%arg0: tensor<4x3xf32>) -> tensor<4x3xf32> {\n"                    \
    "    %0 = stablehlo.add %arg0, %arg0 : tensor<4x3xf32>\n"                                      \
    "    return %0 : tensor<4x3xf32>\n  }\n}\n"
#define SUM                                                                                        \
    "    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>\n"                              \
    "    %9 = stablehlo.reduce(%2 init: %cst) applies stablehlo.maximum across dimensions = "      \
    "[0, 1] : (tensor<4x3xf32>, tensor<f32>) -> tensor<f32>\n"
#define DOT                                                                                        \
    "    %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [1] x [0] : "                 \
    "(tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>\n"

static int count(const Exported *p, const char *target)
{
    int n = 0;
    for (int32_t i = 0; i < p->n_calls; i++)
        n += !strcmp(p->calls[i].target, target);
    return n;
}

static void names_and_calls(void)
{
    Exported *p;
    CHECK_OK(hlo_parse(
        pool, "a.mlir",
        HEAD DOT "    %2 = call @twice(%0) : (tensor<4x3xf32>) -> tensor<4x3xf32>\n" SUM TAIL, &p));
    CHECK_INT(p->n_inputs, 2);
    CHECK_TEXT(p->inputs[0].name, "Dense_0.kernel");
    CHECK_INT(p->inputs[0].kind, EX_PARAMETER);
    CHECK_TEXT(p->inputs[1].name, "batch.x");
    CHECK_INT(p->inputs[1].kind, EX_USER_INPUT);
    CHECK_INT(p->n_calls, 4); /* the function's sum in place of its call */
    const ExportedArg *rhs = call_arg(&p->calls[0], "contracting_dims.rhs");
    CHECK(rhs && rhs->n == 1 && rhs->ints[0].value == 0);
    const ExportedArg *body = call_arg(&p->calls[3], "body");
    CHECK(body && !strcmp(body->text, "stablehlo.maximum"));
    const ExportedArg *low = call_arg(&p->calls[2], "value");
    CHECK(low && low->kind == ARG_FLOATS && low->floats[0] < -3e38);
}

static void loop_unrolled(void)
{
    Exported *p;
    CHECK_OK(hlo_parse(
        pool, "a.mlir",
        HEAD DOT "    %c = stablehlo.constant dense<0> : tensor<i32>\n"
                 "    %1:2 = stablehlo.while(%i = %c, %y = %0) : tensor<i32>, tensor<4x3xf32>\n"
                 "    cond {\n"
                 "      %n = stablehlo.constant dense<3> : tensor<i32>\n"
                 "      %t = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> "
                 "tensor<i1>\n"
                 "      stablehlo.return %t : tensor<i1>\n"
                 "    } do {\n"
                 "      %s = stablehlo.tanh %y : tensor<4x3xf32>\n"
                 "      %k = stablehlo.constant dense<1> : tensor<i32>\n"
                 "      %j = stablehlo.add %i, %k : tensor<i32>\n"
                 "      stablehlo.return %j, %s : tensor<i32>, tensor<4x3xf32>\n"
                 "    }\n"
                 "    %2 = stablehlo.negate %1#1 : tensor<4x3xf32>\n" SUM TAIL,
        &p));
    CHECK_INT(count(p, "stablehlo.tanh"), 3);
}

static void refused(const char *text, const char *says)
{
    Exported *p;
    CHECK(hlo_parse(pool, "a.mlir", text, &p) != OK);
    CHECK(strstr(err_text(), says) != NULL);
}

static void damaged(void)
{
    refused("", "no function @main");
    refused("func.func public @main(%arg0: tensor<f32>) -> tensor<f32> {\n return %arg0\n}\n",
            "does not name its arguments");
    refused(HEAD "    %2 = stablehlo.tanh %8 : tensor<4x3xf32>\n" TAIL, "nothing before its use");
    refused(HEAD "    %2 = call @none(%arg0) : (tensor<2x3xf32>) -> tensor<4x3xf32>\n" TAIL,
            "no function @none");
    refused(HEAD "    %2 = stablehlo.constant dense<[1, 2]> : tensor<3xi32>\n" TAIL,
            "another number of elements");
    refused(HEAD DOT, "statement is expected");
}

/* Functions that call the next one twice: a file of a few lines is 2^40 statements. */
static void doubled(void)
{
    Text text = { .pool = pool };
    text_add(&text, "%s", HEAD DOT "    %2 = stablehlo.tanh %0 : tensor<4x3xf32>\n" SUM TAIL);
    char *end = strrchr(text.at, '}');
    *end = '\0';
    text.n = (size_t)(end - text.at);
    for (int i = 0; i < 40; i++)
        text_add(&text,
                 "  func.func private @f%d(%%a: tensor<f32>) -> tensor<f32> {\n"
                 "    %%0 = call @f%d(%%a) : (tensor<f32>) -> tensor<f32>\n"
                 "    %%1 = call @f%d(%%0) : (tensor<f32>) -> tensor<f32>\n"
                 "    return %%1 : tensor<f32>\n  }\n",
                 i, i + 1, i + 1);
    text_add(&text, "  func.func private @f40(%%a: tensor<f32>) -> tensor<f32> {\n"
                    "    return %%a : tensor<f32>\n  }\n}\n");
    const char *at = strstr(text.at, "    return ");
    refused(pool_print(pool, "%.*s    %%8 = call @f0(%%9) : (tensor<f32>) -> tensor<f32>\n%s",
                       (int)(at - text.at), text.at, at),
            "unfold to more than");
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(names_and_calls);
    RUN(loop_unrolled);
    RUN(damaged);
    RUN(doubled);
    pool_free(pool);
    return test_end();
}
