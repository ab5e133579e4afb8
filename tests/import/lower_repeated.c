/* Tests of import/lower_repeated: equal calls are computed once; those that differ, whose operand was
 * written to in between, or that draw random numbers, are not. */
#include "import/lower.h"

#include "base/text.h"
#include "test.h"

static Pool *pool;

#define TENSOR(name)         "\"as_tensor\":{\"name\":\"" name "\"}"
#define ARG(name, arg)       "{\"name\":\"" name "\",\"arg\":{" arg "}}"
#define NODE(target, to, in) NODE_WITH(target, to, ARG("self", TENSOR(in)))
#define NODE_WITH(target, to, args)                                                                \
    "{\"target\":\"torch.ops.aten." target "\",\"inputs\":[" args                                  \
    "],\"metadata\":{},\"outputs\":[{" TENSOR(to) "}]}"
#define SUM NODE_WITH("add.Tensor", "r", ARG("self", TENSOR("a")) "," ARG("other", TENSOR("b")))

/* Nodes of the graph that x -> a, x -> b, r = a + b becomes, besides the feed; -1: it fails. */
static int nodes_of(const char *nodes)
{
    static const char *const names[] = { "x", "a", "b", "c", "r" };
    Text                     text = { .pool = pool };
    text_add(&text,
             "{\"schema_version\":{\"major\":8,\"minor\":20},\"range_constraints\":{},"
             "\"graph_module\":{\"signature\":{\"input_specs\":["
             "{\"user_input\":{\"arg\":{" TENSOR(
                 "x") "}}}],"
                      "\"output_specs\":[{\"user_output\":{\"arg\":{" TENSOR(
                          "r") "}}}]},"
                               "\"graph\":{\"outputs\":[{" TENSOR("r") "}],\"tensor_values\":{");
    for (int i = 0; i < 5; i++)
        text_add(&text,
                 "%s\"%s\":{\"dtype\":7,\"requires_grad\":false,"
                 "\"sizes\":[{\"as_int\":2},{\"as_int\":3}]}",
                 i ? "," : "", names[i]);
    text_add(&text, "},\"nodes\":[%s," SUM "]}}}", nodes);
    Exported    *program;
    Lower       *l;
    ImportConfig config = { 0 };
    Graph       *graph = graph_new(pool, F32);
    Err          err = exported_parse(pool, "repeated", text.at, text.n, &program);
    config.program = err ? NULL : program;
    err = err ? err : lower_program(pool, graph, &config, &l);
    CHECK_OK(err);
    return err ? -1 : graph->n_nodes - 1;
}

static void equal_calls(void)
{
    CHECK_INT(nodes_of(NODE("sin.default", "a", "x") "," NODE("sin.default", "b", "x")), 2);
    CHECK_INT(nodes_of(NODE("sin.default", "a", "x") "," NODE("cos.default", "b", "x")), 3);
}

static void other_numbers(void)
{
#define POWER(to, n)                                                                               \
    NODE_WITH("pow.Tensor_Scalar", to,                                                             \
              ARG("self", TENSOR("x")) "," ARG("exponent", "\"as_float\":" n))
    CHECK_INT(nodes_of(POWER("a", "2.5") "," POWER("b", "2.5")), 2);
    CHECK_INT(nodes_of(POWER("a", "2.5") "," POWER("b", "3.5")), 3);
}

static void written_in_between(void)
{
    CHECK_INT(nodes_of(NODE("sin.default", "a", "x") "," NODE("relu_.default", "c", "x") "," NODE(
                  "sin.default", "b", "x")),
              4);
    CHECK_INT(nodes_of(NODE("sin.default", "a", "x") "," NODE("relu_.default", "c", "a") "," NODE(
                  "sin.default", "b", "x")),
              4);
}

static void random_numbers(void)
{
    CHECK_INT(nodes_of(NODE("rand_like.default", "a", "x") "," NODE("rand_like.default", "b", "x")),
              3);
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(equal_calls);
    RUN(other_numbers);
    RUN(written_in_between);
    RUN(random_numbers);
    pool_free(pool);
    return test_end();
}
