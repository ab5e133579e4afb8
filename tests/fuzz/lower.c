/* lower.c -- fuzz target: programs of calls that parse but may be nonsense: any target with any arguments. Each
 * becomes a graph that passes its check, or is refused with a sentence. The input chooses targets, arguments and
 * sizes one after another. */
#include "import/lower.h"

#include "base/text.h"
#include "ops/ops.h"

#include <string.h>

enum { CALLS = 6, ARGS = 9, RANK = 5 };

typedef struct Choices {
    const unsigned char *at, *end;
} Choices;

static unsigned choose(Choices *c, unsigned n)
{
    unsigned high = c->at < c->end ? *c->at++ : 0, low = n > 256 && c->at < c->end ? *c->at++ : 0;
    return (n > 256 ? high << 8 | low : high) % n;
}

static const LowerDef *const tables[] = {
    lower_pointwise, lower_views,   lower_create,  lower_products,  lower_norms,  lower_attention,
    lower_reduces,   lower_indices, lower_randoms, lower_samples,   lower_shifts, lower_specials,
    lower_rnns,      lower_experts, lower_losses,  lower_complexes, lower_ffts
};

static const char *target_chosen(Choices *c)
{
    static const char *all[1024];
    static unsigned    n;
    for (size_t t = 0; !all[0] || (t && t < sizeof tables / sizeof *tables); t++)
        for (const LowerDef *def = tables[t]; def->target; def++)
            all[n++] = def->target;
    return all[choose(c, n)];
}

static const char *const names[] = {
    "self",
    "dim",
    "weight",
    "eps",
    "keepdim",
    "stride",
    "padding",
    "input",
    "target",
    "value",
    "start",
    "index",
    "dims",
    "bias",
    "reduction",
    "p",
    "hx",
    "dilation",
    "alpha",
    "x2",
    "x1",
    "step",
    "src",
    "other",
    "kernel_size",
    "dim1",
    "window",
    "values",
    "training",
    "train",
    "threshold",
    "tensors",
    "source",
    "repeats",
    "normalized_shape",
    "min",
    "n",
    "max",
    "ignore_index",
    "groups",
    "end",
    "dim0",
    "beta",
    "vec2",
    "tensor",
    "split_size",
    "split_sizes",
    "sizes",
    "size",
    "shifts",
    "sections",
    "s",
    "query",
    "prepend",
    "pos_weight",
    "params",
    "padding_mode",
    "padding_idx",
    "pad",
    "output_padding",
    "ord",
    "num_layers",
    "num_classes",
    "norm",
    "n_fft",
    "mode",
    "mat2",
    "length",
    "key",
    "is_causal",
    "indices",
    "imag",
    "hop_length",
    "has_biases",
    "grid",
    "fill_value",
    "equation",
    "dropout_p",
    "diagonal",
    "k",
    "offsets",
    "running_mean",
    "running_var",
    "momentum",
    "output_size",
    "shape",
    "batch1",
    "batch2",
    "mat1",
    "condition",
    "dtype",
    "fill",
    "exponent",
    "correction",
    "unbiased",
    "scale_factors",
    "a",
    "b",
    "tensor1",
    "tensor2",
    "elements",
    "attn_mask",
    "largest",
    "sorted",
    "descending",
    "lambd",
    "upscale_factor",
    "dimension",
};

static const char *const tensors[] = { "x", "y", "z", "c", "p", "q", "i", "e", "s", "m", "t" };

static const char *const numbers[] = { "0",
                                       "1",
                                       "2",
                                       "3",
                                       "4",
                                       "-1",
                                       "-2",
                                       "-5",
                                       "5",
                                       "7",
                                       "64",
                                       "-9",
                                       "2147483647",
                                       "-2147483648",
                                       "9223372036854775807",
                                       "-9223372036854775807" };

static const char *const floats[] = { "0.5",   "1.0",          "0.0",     "-1.5",    "1e-30",
                                      "1e300", "\"Infinity\"", "\"NaN\"", "-1e-300", "123456.0" };

static const char *const texts[] = { "sum",       "mean",         "none",  "reflect",
                                     "ij,jk->ik", "bhd,bkd->bhk", "tanh",  "constant",
                                     "->",        "same",         "valid", "aaa,,->..." };

#define PICK(c, list) list[choose((c), sizeof list / sizeof *list)]

static void tensor_add(Choices *c, Text *text, int made)
{
    unsigned k = choose(c, sizeof tensors / sizeof *tensors + 3 * (unsigned)made);
    if (k < sizeof tensors / sizeof *tensors)
        text_add(text, "{\"name\":\"%s\"}", tensors[k]);
    else
        text_add(text, "{\"name\":\"r%u\"}",
                 (unsigned)made - 1 -
                     (k - (unsigned)(sizeof tensors / sizeof *tensors)) % (unsigned)made);
}

static void numbers_add(Choices *c, Text *text)
{
    unsigned n = choose(c, RANK + 1);
    for (unsigned i = 0; i < n; i++)
        text_add(text, "%s%s", i ? "," : "", numbers[choose(c, 8) ? choose(c, 8) : choose(c, 16)]);
}

static void arg_add(Choices *c, Text *text, int made, bool first)
{
    text_add(text, "{\"name\":\"%s\",\"arg\":{", first ? "self" : PICK(c, names));
    switch (first ? choose(c, 2) * 7 : choose(c, 14)) {
    case 1:
    case 2: text_add(text, "\"as_int\":%s", PICK(c, numbers)); break;
    case 3: text_add(text, "\"as_float\":%s", PICK(c, floats)); break;
    case 4: text_add(text, "\"as_bool\":%s", choose(c, 2) ? "true" : "false"); break;
    case 5: text_add(text, "\"as_string\":\"%s\"", PICK(c, texts)); break;
    case 6:
        text_add(text, "\"as_ints\":[");
        numbers_add(c, text);
        text_add(text, "]");
        break;
    case 7: {
        unsigned n = choose(c, 5);
        text_add(text, "\"as_tensors\":[");
        for (unsigned i = 0; i < n; i++) {
            text_add(text, "%s", i ? "," : "");
            tensor_add(c, text, made);
        }
        text_add(text, "]");
        break;
    }
    case 8: text_add(text, "\"as_none\":true"); break;
    case 9: text_add(text, "\"as_scalar_type\":%u", choose(c, 36)); break;
    case 10: text_add(text, "\"as_floats\":[%s,%s]", PICK(c, floats), PICK(c, floats)); break;
    case 11: text_add(text, "\"as_sym_int\":{\"as_name\":\"n\"}"); break;
    case 12:
        text_add(text, "\"as_optional_tensors\":[{\"as_none\":true},{\"as_tensor\":");
        tensor_add(c, text, made);
        text_add(text, "}]");
        break;
    default: text_add(text, "\"as_tensor\":"); tensor_add(c, text, made);
    }
    text_add(text, "}}");
}

/* A value r0, r1... of any type and size. */
static void made_add(Choices *c, Text *values, int made)
{
    unsigned rank = choose(c, RANK + 1);
    text_add(values, ",\"r%d\":{\"dtype\":%u,\"sizes\":[", made, choose(c, 3) ? 7 : choose(c, 14));
    for (unsigned a = 0; a < rank; a++)
        if (choose(c, 6))
            text_add(values, "%s{\"as_int\":%u}", a ? "," : "", choose(c, 9));
        else
            text_add(values,
                     "%s{\"as_expr\":{\"expr_str\":\"Symbol('s0')\",\"hint\":{\"as_int\":2}}}",
                     a ? "," : "");
    text_add(values, "]}");
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
#define VALUE(name, type, sizes)                                                                   \
    "\"" name "\":{\"dtype\":" type ",\"requires_grad\":true,\"sizes\":[" sizes "]}"
#define N(n)     "{\"as_int\":" n "}"
#define S        "{\"as_expr\":{\"expr_str\":\"Symbol('s0')\",\"hint\":{\"as_int\":2}}}"
#define USER(n)  "{\"user_input\":{\"arg\":{\"as_tensor\":{\"name\":\"" n "\"}}}},"
#define PARAM(n) "{\"parameter\":{\"arg\":{\"name\":\"" n "\"},\"parameter_name\":\"w." n "\"}},"
    static const char head[] =
        "{\"schema_version\":{\"major\":8,\"minor\":20},\"range_constraints\":{\"s0\":{"
        "\"min_val\":1,\"max_val\":64}},\"graph_module\":{\"signature\":{\"input_specs\":[" PARAM(
            "p") PARAM("q") USER("x") USER("y") USER("z") USER("c") USER("i") USER("e") USER("s")
            USER("m") "{\"buffer\":{\"arg\":{\"name\":\"t\"},\"buffer_name\":\"w.t\"}}"
                      "],\"output_specs\":[{\"user_output\":{\"arg\":{\"as_tensor\":{\"name\":\"",
                      middle[] = "\"}}}}]},\"graph\":{\"outputs\":[{\"as_tensor\":{\"name\":\"";
    static const char known[] =
        "\"}}],\"sym_int_values\":{\"n\":{\"as_expr\":{\"expr_str\":\"Symbol('s0')\",\"hint\":null}"
        "}},"
        "\"tensor_values\":{" VALUE("p", "7", N("3") "," N("4")) "," VALUE("q", "7", N("4") "," N("3") "," N("3")) "," VALUE("x", "7", S "," N("3") "," N("4")) "," VALUE(
            "y", "7",
            N("4")) "," VALUE("z", "7",
                              S "," N("4") "," N("3") "," N(
                                  "3")) "," VALUE("c", "10",
                                                  S "," N(
                                                      "3")) "," VALUE("i", "5",
                                                                      S
                                                                      "," N(
                                                                          "3")) "," VALUE("e", "7",
                                                                                          N("0") "," N(
                                                                                              "3")) "," VALUE("s",
                                                                                                              "7",
                                                                                                              "") "," VALUE("m",
                                                                                                                            "12",
                                                                                                                            S
                                                                                                                            "," N("3") "," N(
                                                                                                                                "4")) "," VALUE("t",
                                                                                                                                                "7",
                                                                                                                                                N("3"));
    Pool   *pool = pool_new(NULL, "fuzz");
    Choices c = { bytes, bytes + n };
    Text    text = { .pool = pool }, values = { .pool = pool }, nodes = { .pool = pool };
    int     made = 0, calls = 1 + (int)choose(&c, CALLS);
    for (int k = 0; k < calls; k++) {
        int n_args = (int)choose(&c, ARGS), n_out = 1 + (choose(&c, 6) ? 0 : (int)choose(&c, 3));
        text_add(&nodes, "%s{\"target\":\"torch.ops.%s\",\"inputs\":[", k ? "," : "",
                 target_chosen(&c));
        for (int a = 0; a < n_args; a++) {
            text_add(&nodes, "%s", a ? "," : "");
            arg_add(&c, &nodes, made, a == 0 && choose(&c, 8));
        }
        text_add(&nodes, "],\"metadata\":{},\"outputs\":[");
        bool list = choose(&c, 8) == 0;
        text_add(&nodes, "%s", list ? "{\"as_tensors\":[" : "");
        for (int o = 0; o < n_out; o++) {
            text_add(&nodes, list ? "%s{\"name\":\"r%d\"}" : "%s{\"as_tensor\":{\"name\":\"r%d\"}}",
                     o ? "," : "", made);
            made_add(&c, &values, made++);
        }
        text_add(&nodes, list ? "]}]}" : "]}");
    }
    text_add(&text, "%sr%d%sr%d%s%s},\"nodes\":[%s]}}}", head, made - 1, middle, made - 1, known,
             values.at, nodes.at);
    Exported *program;
    if (exported_parse(pool, "fuzz", text.at, text.n, &program) == OK) {
        Graph       *graph = graph_new(pool, F32);
        ImportConfig config = { .program = program };
        Lower       *l;
        Operand      item;
        if (lower_program(pool, graph, &config, &l) == OK &&
            lower_output(l, program->outputs[0].arg.values[0], &item) == OK)
            (void)graph_check(graph);
    }
    pool_free(pool);
    return 0;
}
