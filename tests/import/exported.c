/* Tests of import/exported: a small program by hand, in an archive, and what is refused.
 * tests/py/test_exported.py compares programs that PyTorch exported with PyTorch's own. */
#include "import/exported.h"

#include "archive.h"
#include "base/file.h"
#include "test.h"

static Pool      *pool;
static const char path[] = "exported_test.pt2";

/* clang-format off */
#define TENSOR(name, type, sizes) \
    "\"" name "\":{\"dtype\":" type ",\"sizes\":[" sizes "],\"requires_grad\":false}"
#define BATCH \
    "{\"as_expr\":{\"expr_str\":\"Symbol('s0', integer=True)\",\"hint\":{\"as_int\":4}}}"
#define TWO            "{\"as_int\":2}"
#define ARG(name, arg) "{\"name\":\"" name "\",\"arg\":" arg "}"
#define READ(name)     "{\"as_tensor\":{\"name\":\"" name "\"}}"
#define NODE(target, inputs, outputs, meta) \
    "{\"target\":\"" target "\",\"inputs\":[" inputs "],\"outputs\":[" outputs "]," \
    "\"metadata\":{" meta "}}"
#define PARAMETER(arg, name) \
    "{\"parameter\":{\"arg\":{\"name\":\"" arg "\"},\"parameter_name\":\"" name "\"}},"

#define PROGRAM(head, nodes, output) \
    "{" head "\"torch_version\":\"2.13.0\"," \
    "\"range_constraints\":{\"s0\":{\"min_val\":2,\"max_val\":null}}," \
    "\"graph_module\":{\"signature\":{\"input_specs\":[" \
    PARAMETER("p_w", "w") PARAMETER("p_v", "v") \
    "{\"user_input\":{\"arg\":" READ("x") "}}," \
    "{\"constant_input\":{\"name\":\"k\",\"value\":{\"as_int\":3}}}]," \
    "\"output_specs\":[{\"user_output\":{\"arg\":" READ(output) "}}]}," \
    "\"graph\":{\"inputs\":[],\"outputs\":[" READ(output) "],\"nodes\":[" nodes "]," \
    "\"tensor_values\":{" \
    TENSOR("p_w", "7", TWO) "," TENSOR("p_v", "7", TWO) "," TENSOR("x", "7", BATCH "," TWO) "," \
    TENSOR("y", "7", BATCH "," TWO) "," TENSOR("z", "13", BATCH) "," TENSOR("out", "7", "") "}," \
    "\"sym_int_values\":{\"n\":{\"as_expr\":{\"expr_str\":" \
    "\"Mul(Integer(2), Symbol('s0'))\",\"hint\":{\"as_int\":8}}}}}}}"
#define HEAD "\"schema_version\":{\"major\":8,\"minor\":20},"

/* y = x * w, the user's line above one of torch */
#define MUL \
    NODE("torch.ops.aten.mul.Tensor", ARG("self", READ("x")) "," ARG("other", READ("p_w")), \
         READ("y"), \
         "\"stack_trace\":\"File \\\"/home/u/net.py\\\", line 12, in forward\\n    y = self.f(x)" \
         "\\n  File \\\"/usr/lib/python3/dist-packages/torch/nn/modules/linear.py\\\", line 5, in" \
         " forward\\n    return x\",\"nn_module_stack\":\"L__self__,,Net;L__self__f(a,b),f.0,T\"")
/* z = the sum of y, in a body under autocast of no type */
#define BODY \
    "{\"as_graph\":{\"name\":\"body\",\"graph\":{\"inputs\":[" READ("a") "]," \
    "\"outputs\":[" READ("r") "]," \
    "\"nodes\":[" NODE("torch.ops.aten.sum.default", ARG("self", READ("a")), READ("r"), "") "]," \
    "\"tensor_values\":{" TENSOR("r", "13", BATCH) "}}}}"
#define YES ARG("", "{\"as_bool\":true}")
#define AUTOCAST \
    NODE("torch.ops.higher_order.wrap_with_autocast", \
         ARG("", "{\"as_string\":\"cuda\"}") "," ARG("", "{\"as_none\":true}") "," YES "," YES "," \
         ARG("", BODY) "," ARG("", READ("y")), \
         READ("z"), "")
#define SIZE \
    NODE("_operator.mul", ARG("a", TWO), "{\"as_sym_int\":{\"as_name\":\"n\"}}", "")
#define LAST \
    NODE("torch.ops.aten.view.default", \
         ARG("self", READ("z")) "," \
         ARG("size", "{\"as_sym_ints\":[{\"as_name\":\"n\"},{\"as_int\":-1}]}"), \
         READ("out"), "")
/* clang-format on */

static Err read_program(const char *json, Exported **out)
{
    static const float data[2] = { 1.5f, -2 };
    static const char  config[] =
        "{\"config\":{\"w\":{\"path_name\":\"weight_0\",\"tensor_meta\":{"
        "\"dtype\":7,\"sizes\":[{\"as_int\":2}],\"strides\":[{\"as_int\":1}"
        "],\"storage_offset\":{\"as_int\":0}}},\"v\":{\"path_name\":"
        "\"weight_0\",\"tensor_meta\":{\"dtype\":7,\"sizes\":[{\"as_int\":2"
        "}],\"strides\":[{\"as_int\":1}],\"storage_offset\":{\"as_int\":0}}"
        "}}}";
    Member members[] = {
        { .name = "m/archive_format", .data = "pt2", .n = 3 },
        { .name = "m/models/model.json", .data = json, .n = strlen(json) },
        { .name = "m/data/weights/weight_0", .data = data, .n = sizeof data, .extra = 20 },
        { .name = "m/data/weights/model_weights_config.json",
          .data = config,
          .n = sizeof config - 1 },
    };
    Archive *a = archive(pool, members, 4, 1);
    TRY(file_write(path, a->bytes, a->n));
    return exported_read(pool, path, out);
}

static void whole(void)
{
    Exported *p;
    CHECK_OK(read_program(PROGRAM(HEAD, MUL "," AUTOCAST "," SIZE "," LAST, "out"), &p));
    if (!CHECK_INT(p->n_calls, 4) || !CHECK_INT(p->n_inputs, 4))
        return;
    const ExportedCall *mul = &p->calls[0], *sum = &p->calls[1], *view = &p->calls[3];
    CHECK_TEXT(mul->target, "aten.mul.Tensor");
    CHECK_TEXT(mul->file, "net.py");
    CHECK_TEXT(mul->path, "/home/u/net.py");
    CHECK_INT(mul->line, 12);
    CHECK_TEXT(mul->text, "y = self.f(x)");
    CHECK_TEXT(mul->module, "f.0");
    CHECK(call_arg(mul, "other") && !call_arg(mul, "alpha"));
    CHECK_INT(sum->region, 1);
    CHECK(p->regions[1].autocast && p->regions[1].enabled &&
          p->regions[1].autocast_type == EX_F16); /* what torch takes on CUDA */
    CHECK_TEXT(p->values[sum->out[0]].name, "body.r");
    CHECK_INT(sum->args[0].values[0], mul->out[0]);
    CHECK_INT(sum->ordinal, 1);
    CHECK_TEXT(p->calls[2].target, "operator.mul");
    CHECK_INT(p->values[p->calls[2].out[0]].rank, -1);
    CHECK_INT(view->args[0].values[0], sum->out[0]); /* z is what the body returned */
    const ExportedArg *size = call_arg(view, "size");
    CHECK(size->kind == ARG_INTS && size->n == 2 && size->ints[1].value == -1);
    CHECK(size->values[0] == p->calls[2].out[0] && size->values[1] == -1);
    CHECK_INT(p->inputs[1].tied, 0);
    CHECK(p->inputs[3].kind == EX_NUMBER && p->inputs[3].number.ints[0].value == 3);
    const float *w = exported_elements(pool, exported_weight(p, "w"));
    CHECK(w && !memcmp(w, (float[]){ 1.5f, -2 }, 8) && !exported_weight(p, "u"));
    Symbol *s0 = symbol_find(&p->symbols, "s0");
    int64_t rows = 0;
    CHECK(s0 && s0->known && s0->hint == 4 && s0->low == 2 && s0->high == INT64_MAX);
    s0->value = 7;
    CHECK_OK(sym_eval(&p->symbols, size->ints[0], &rows));
    CHECK_INT(rows, 14);
}

static void refuse(const char *json, const char *part)
{
    Exported *p;
    CHECK_INT(read_program(json, &p), E_FORMAT);
    if (!CHECK(strstr(err_text(), part) != NULL))
        fprintf(stderr, "  said:   %s\n  wanted: %s\n", err_text(), part);
}

static void refused(void)
{
    refuse("", "expected a value");
    refuse("[]", "not an exported program");
    refuse("{}", "no schema version");
    refuse(PROGRAM("\"schema_version\":{\"major\":6},", MUL, "y"), "schema 6.0 (PyTorch 2.13.0)");
    refuse(PROGRAM(HEAD, AUTOCAST, "x"), "nothing before its use makes 'y'");
    refuse(PROGRAM(HEAD, MUL "," MUL, "y"), "two things are called 'y'");
    refuse(PROGRAM(HEAD, MUL, "z"), "nothing before its use makes 'z'");
    refuse(PROGRAM(HEAD, "{\"target\":\"x\",\"inputs\":3,\"outputs\":[]}", "x"), "inputs");
    refuse(PROGRAM(HEAD, "{\"target\":\"x\",\"inputs\":[{\"arg\":{}}],\"outputs\":[]}", "x"),
           "a choice of one kind");
}

int main(void)
{
    pool = pool_new(NULL, "exported test");
    RUN(whole);
    RUN(refused);
    CHECK_OK(file_remove(path));
    pool_free(pool);
    return test_end();
}
