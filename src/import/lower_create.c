/* lower_create.c -- tensors made from nothing: positions, fills, triangles; numbers of sizes. */
#include "import/lower.h"

#include <math.h>
#include <string.h>

/* A constant with one element that is repeated: it takes no room. */
static Err give_filled(Lower *l, double value)
{
    Err        err;
    HostArray *array;
    Dims       dims = out_dims(l, 0, &err);
    TRY(err);
    ExportedType type = out_type_of(l, 0);
    if (!type_supported(type))
        return refuse(l, "elements of type %s are not supported", exported_type_name(type));
    Operand item = item_host(l, type, (Dims){ 0 }, &array);
    if (array->integer)
        array->i[0] = (int64_t)value;
    else
        array->f[0] = value;
    return give(l, 0, item_with(item, view_expanded(item.view, dims)));
}

static Err filled(Lower *l) { return give_filled(l, l->def->with); }

static Err full(Lower *l)
{
    double value;
    TRY(arg_float(l, "fill_value", 0, &value));
    return give_filled(l, value);
}

static Err arange(Lower *l)
{
    Err        err;
    HostArray *to;
    double     start, step;
    Dims       dims = out_dims(l, 0, &err);
    TRY(err);
    TRY(arg_float(l, "start", 0, &start));
    TRY(arg_float(l, "step", 1, &step));
    Operand item = item_host(l, out_type_of(l, 0), dims, &to);
    for (int64_t i = 0; i < to->n; i++) {
        double x = start + step * (double)i;
        if (to->integer)
            to->i[i] = int_of(x);
        else
            to->f[i] = x;
    }
    return give(l, 0, item);
}

static Err linspace(Lower *l)
{
    Err        err;
    HostArray *to;
    double     start, end;
    Dims       dims = out_dims(l, 0, &err);
    TRY(err);
    TRY(arg_float(l, "start", 0, &start));
    TRY(arg_float(l, "end", 1, &end));
    Operand item = item_host(l, out_type_of(l, 0), dims, &to);
    for (int64_t i = 0; i < to->n; i++) {
        double x = to->n > 1 ? start + (end - start) * (double)i / (double)(to->n - 1) : start;
        x = l->def->with ? pow(10, x) : x;
        if (to->integer)
            to->i[i] = int_of(x);
        else
            to->f[i] = x;
    }
    return give(l, 0, item);
}

static Err eye(Lower *l)
{
    Err        err;
    HostArray *to;
    Dims       dims = out_dims(l, 0, &err);
    TRY(err);
    Operand item = item_host(l, out_type_of(l, 0), dims, &to);
    for (int64_t i = 0; i < dims.at[0] && i < dims.at[1]; i++)
        if (to->integer)
            to->i[i * dims.at[1] + i] = 1;
        else
            to->f[i * dims.at[1] + i] = 1;
    return give(l, 0, item);
}

static Err scalar_tensor(Lower *l)
{
    double value;
    TRY(arg_float(l, "s", 0, &value));
    return give_filled(l, value);
}

Operand lower_positions(Lower *l, int rank, int axis, int64_t n)
{
    HostArray *to;
    Dims       dims = { .rank = rank };
    for (int a = 0; a < rank; a++)
        dims.at[a] = a == axis ? n : 1;
    Operand item = item_host(l, EX_I64, dims, &to);
    for (int64_t i = 0; i < n; i++)
        to->i[i] = i;
    return item;
}

/* tril keeps column <= row + diagonal, triu column >= row + diagonal. */
static Err triangle(Lower *l)
{
    Operand item;
    int64_t diagonal;
    TRY(arg_item(l, "self", &item));
    TRY(arg_int(l, "diagonal", 0, &diagonal));
    int rank = item.view.rank;
    if (rank < 2)
        return refuse(l, "a tensor of %d axes", rank);
    Formula f = formula(l);
    int     x = formula_input(&f, item);
    int     row = formula_input(&f, lower_positions(l, rank, rank - 2, item.view.dim[rank - 2]));
    int     column = formula_input(&f, lower_positions(l, rank, rank - 1, item.view.dim[rank - 1]));
    int     edge = F2(&f, ADD, row, formula_integer(&f, diagonal));
    int     keep = l->def->with ? F2(&f, GE, column, edge) : F2(&f, LE, column, edge);
    int     nil = f.step[x].integer ? formula_integer(&f, 0) : formula_number(&f, 0);
    return formula_give(&f, F3(&f, SELECT, keep, x, nil), 0);
}

/* ---- numbers ---- */

static Err give_number(Lower *l, Operand item)
{
    int32_t value = l->call->n_out ? l->call->out[0] : -1;
    if (value >= 0) {
        item.set = true;
        l->items[value] = item;
    }
    return OK;
}

/* The file states what each number is in terms of the symbols; what is not stated is computed. */
static Err size_of(Lower *l)
{
    Operand item;
    int     axis;
    TRY(arg_item(l, "self", &item));
    TRY(arg_axis(l, "dim", item.view.rank, 0, &axis));
    return give_number(l, item_integer(l, item.view.dim[axis]));
}

static Err count_of(Lower *l)
{
    Operand item;
    TRY(arg_item(l, "self", &item));
    return give_number(l, item_integer(l, view_count(&item.view)));
}

static Err number_pair(Lower *l, double *a, double *b, bool *whole)
{
    Operand x[2];
    for (int i = 0; i < 2; i++) {
        const ExportedArg *at = i < l->call->n_args ? &l->call->args[i] : NULL;
        x[i] = item_integer(l, 0);
        if (at && at->kind == ARG_VALUE)
            x[i] = l->items[at->values[0]];
        else if (at && at->kind == ARG_FLOAT)
            x[i] = item_number(l, at->floats[0]);
        else if (at && at->kind == ARG_INT) {
            int64_t value;
            TRY(sym_eval(&l->program->symbols, at->ints[0], &value));
            x[i] = item_integer(l, value);
        }
        if (!x[i].host || view_count(&x[i].view) != 1)
            return refuse(l, "arithmetic with numbers that depend on the data is not supported");
    }
    *a = host_f(&x[0], x[0].view.offset);
    *b = host_f(&x[1], x[1].view.offset);
    *whole = x[0].host->integer && x[1].host->integer;
    return OK;
}

static Err number(Lower *l)
{
    double a = 0, b = 0, y;
    bool   whole = true;
    TRY(number_pair(l, &a, &b, &whole));
    switch (l->def->with) {
    case '+': y = a + b; break;
    case '-': y = a - b; break;
    case '*': y = a * b; break;
    case 'q': y = floor(a / b); break;
    case '%': y = a - b * floor(a / b); break;
    case '/':
        y = a / b;
        whole = false;
        break;
    case '^': y = pow(a, b); break;
    case 'n': y = -a; break;
    case 'M': y = a > b ? a : b; break;
    case 'm': y = a < b ? a : b; break;
    case 't':
        y = trunc(a);
        whole = true;
        break;
    case 'f':
        y = a;
        whole = false;
        break;
    case 'r':
        y = sqrt(a);
        whole = false;
        break;
    case '=': y = a == b; break;
    case '!': y = a != b; break;
    case '<': y = a < b; break;
    case '>': y = a > b; break;
    case 'L': y = a <= b; break;
    default: y = a >= b; break;
    }
    return give_number(l, whole ? item_integer(l, int_of(y)) : item_number(l, y));
}

/* A tensor's one element as a number: constants only. */
static Err item_of_one(Lower *l)
{
    Operand item;
    TRY(arg_item(l, "self", &item));
    if (!item.host)
        return refuse(l, "a number read from a tensor at run time is not supported");
    return give_number(l, item);
}

#define FILLED(name, value)                                                                        \
    {                                                                                              \
        "aten." name ".default", filled, value, false                                              \
    }
#define NUMBER(name, with)                                                                         \
    {                                                                                              \
        "operator." name, number, with, false                                                      \
    }

/* clang-format off */
const LowerDef lower_create[] = {
    FILLED("zeros", 0), FILLED("ones", 1), FILLED("zeros_like", 0), FILLED("ones_like", 1),
    FILLED("new_zeros", 0), FILLED("new_ones", 1), FILLED("new_empty", 0), FILLED("empty_like", 0),
    { "aten.empty.memory_format", filled, 0, false }, { "aten.new_empty_strided.default", filled, 0, false },
    { "aten.full.default", full, 0, false }, { "aten.full_like.default", full, 0, false },
    { "aten.new_full.default", full, 0, false },
    { "aten.arange.default", arange, 0, false }, { "aten.arange.start", arange, 0, false },
    { "aten.arange.start_step", arange, 0, false },
    { "aten.linspace.default", linspace, 0, false }, { "aten.logspace.default", linspace, 1, false },
    { "aten.eye.default", eye, 0, false }, { "aten.eye.m", eye, 0, false },
    { "aten.scalar_tensor.default", scalar_tensor, 0, false },
    { "aten.tril.default", triangle, 0, false }, { "aten.triu.default", triangle, 1, false },
    { "aten.sym_size.int", size_of, 0, false }, { "sym_size.int", size_of, 0, false }, { "aten.sym_numel.default", count_of, 0, false }, { "sym_numel.default", count_of, 0, false },
    { "aten.item.default", item_of_one, 0, false },
    NUMBER("add", '+'), NUMBER("sub", '-'), NUMBER("mul", '*'), NUMBER("floordiv", 'q'),
    NUMBER("mod", '%'), NUMBER("truediv", '/'), NUMBER("pow", '^'), NUMBER("neg", 'n'),
    NUMBER("eq", '='), NUMBER("ne", '!'), NUMBER("lt", '<'), NUMBER("gt", '>'), NUMBER("le", 'L'),
    NUMBER("ge", 'G'),
    { "sym_max", number, 'M', false }, { "sym_min", number, 'm', false },
    { "sym_int", number, 't', false }, { "sym_float", number, 'f', false },
    { "math.trunc", number, 't', false }, { "_sym_sqrt", number, 'r', false },
    { 0 }
};
/* clang-format on */
