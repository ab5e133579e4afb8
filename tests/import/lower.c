/* Tests of import/lower: programs whose calls contradict themselves are refused with a sentence, before anything
 * outside of a tensor is read or written. tests/fuzz/lower.c draws such programs at random. */
#include "import/lower.h"

#include "base/text.h"
#include "test.h"

static Pool *pool;

#define VALUE(name, type, sizes)                                                                   \
    "\"" name "\":{\"dtype\":" type ",\"requires_grad\":false,\"sizes\":[" sizes "]}"
#define N(n)           "{\"as_int\":" n "}"
#define ARG(name, arg) "{\"name\":\"" name "\",\"arg\":{" arg "}}"
#define TENSOR(name)   "\"as_tensor\":{\"name\":\"" name "\"}"
#define INT(n)         "\"as_int\":" n
#define INTS(n)        "\"as_ints\":[" n "]"
#define SELF           ARG("self", TENSOR("x"))

/* One call of `target` with x (2,3,4), i (2,3) of integers and the scalar s; its result r. */
static Err lowered(const char *target, const char *args, const char *sizes)
{
    Text text = { .pool = pool };
    text_add(&text,
             "{\"schema_version\":{\"major\":8,\"minor\":20},\"range_constraints\":{},"
             "\"graph_module\":{\"signature\":{\"input_specs\":["
             "{\"user_input\":{\"arg\":{\"as_tensor\":{\"name\":\"x\"}}}},"
             "{\"user_input\":{\"arg\":{\"as_tensor\":{\"name\":\"i\"}}}},"
             "{\"user_input\":{\"arg\":{\"as_tensor\":{\"name\":\"s\"}}}}],"
             "\"output_specs\":[{\"user_output\":{\"arg\":{\"as_tensor\":{\"name\":\"r\"}}}}]},"
             "\"graph\":{\"outputs\":[{\"as_tensor\":{\"name\":\"r\"}}],"
             "\"tensor_values\":{%s,%s,%s,\"r\":{\"dtype\":7,\"sizes\":[%s]}},"
             "\"nodes\":[{\"target\":\"torch.ops.%s\",\"inputs\":[%s],\"metadata\":{},"
             "\"outputs\":[{\"as_tensor\":{\"name\":\"r\"}}]}]}}}",
             VALUE("x", "7", N("2") "," N("3") "," N("4")), VALUE("i", "5", N("2") "," N("3")),
             VALUE("s", "7", ""), sizes, target, args);
    Exported    *program;
    Lower       *l;
    ImportConfig config = { 0 };
    TRY(exported_parse(pool, "hostile", text.at, text.n, &program));
    config.program = program;
    return lower_program(pool, graph_new(pool, F32), &config, &l);
}

static void refused(const char *target, const char *args, const char *sizes, const char *says)
{
    Err err = lowered(target, args, sizes);
    CHECK(err != OK);
    if (!CHECK(!err || strstr(err_text(), says)))
        fprintf(stderr, "  %s said: %s\n", target, err_text());
}

static void what_is_right_is_taken(void)
{
    CHECK_OK(lowered("aten.permute.default", SELF "," ARG("dims", INTS("2,0,-2")),
                     N("4") "," N("2") "," N("3")));
    CHECK_OK(lowered("aten.select.int", SELF "," ARG("dim", INT("1")) "," ARG("index", INT("-1")),
                     N("2") "," N("4")));
    CHECK_OK(lowered("aten.movedim.int",
                     SELF "," ARG("source", INTS("0")) "," ARG("destination", INTS("-1")),
                     N("3") "," N("4") "," N("2")));
    CHECK_OK(
        lowered("aten.logsumexp.default", ARG("self", TENSOR("s")) "," ARG("dim", INTS("0")), ""));
}

static void axes(void)
{
    refused("aten.permute.default", SELF "," ARG("dims", INTS("0,1,9")), N("2"), "axis 9 of 3");
    refused("aten.permute.default", SELF "," ARG("dims", INTS("0,1,1")), N("2"),
            "axis 1 of 3 twice");
    refused("aten.movedim.int",
            SELF "," ARG("source", INTS("0")) "," ARG("destination", INTS("100000")),
            N("3") "," N("4") "," N("2"), "axis 100000 of 3");
    refused("aten.flip.default", SELF "," ARG("dims", INTS("-4")), N("2"), "axis -4 of 3");
    refused("aten.sum.dim_IntList", SELF "," ARG("dim", INTS("9223372036854775807")), N("2"),
            "axis 9223372036854775807 of 3");
    refused("aten.transpose.int",
            SELF "," ARG("dim0", INT("-9223372036854775808")) "," ARG("dim1", INT("0")), N("2"),
            "axis -9223372036854775808 of 3");
}

static void places(void)
{
    refused("aten.select.int", SELF "," ARG("dim", INT("1")) "," ARG("index", INT("3")),
            N("2") "," N("4"), "element 3 of 3");
    refused("aten.narrow.default",
            SELF "," ARG("dim", INT("0")) "," ARG("start", INT("1")) "," ARG("length", INT("2")),
            N("2") "," N("3") "," N("4"), "beyond");
    refused("aten.diagonal.default", SELF "," ARG("offset", INT("70")), N("4") "," N("2"),
            "beyond");
    refused("aten.unfold.default",
            SELF "," ARG("dimension", INT("2")) "," ARG("size", INT("2")) "," ARG("step", INT("0")),
            N("2"), "windows");
    refused("aten.slice.Tensor", SELF "," ARG("step", INT("0")), N("2"), "step of 0");
    refused("aten.expand.default", SELF, N("2") "," N("5") "," N("4"), "expanded");
}

static void arguments(void)
{
    refused("aten.permute.default", "", N("2"), "no argument");
    refused("aten.abs.default", ARG("other", TENSOR("x")), N("2"), "missing");
    refused("aten.matmul.default", SELF, N("2"), "missing");
    refused("aten.matmul.default", ARG("self", TENSOR("s")) "," ARG("other", TENSOR("x")), N("2"),
            "0 and 3 axes");
    refused("aten.index.Tensor", SELF "," ARG("indices", INT("3")), N("2"), "index");
    refused("aten.select.int", SELF "," ARG("dim", "\"as_string\":\"one\""), N("2"), "no number");
    refused("aten.chunk.default", SELF "," ARG("chunks", INT("0")), N("2"), "0 parts");
    refused("aten.abs.default", SELF, N("9223372036854775807") "," N("9"), "2^48");
    /* asked for its size before it is lowered, as a part of a known group might be */
    refused("aten.mul.Tensor", SELF "," ARG("other", TENSOR("x")),
            N("4611686018427387904") "," N("4"), "2^48");
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(what_is_right_is_taken);
    RUN(axes);
    RUN(places);
    RUN(arguments);
    pool_free(pool);
    return test_end();
}
