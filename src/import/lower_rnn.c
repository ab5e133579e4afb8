/* lower_rnn.c -- recurrent layers, one step of time after another.
 *
 * The products with the inputs are one node for all steps; each step adds the product with the
 * state before it.
 */
#include "import/lower.h"

#include "ops/elementwise/basic.h"
#include "ops/linear/linear.h"

#include <string.h>

typedef enum Cell { CELL_LSTM, CELL_GRU, CELL_TANH, CELL_RELU } Cell;

enum { MAX_RNN_PARAMETERS = 64 };

typedef struct Rnn {
    Lower  *l;
    Cell    cell;
    int     layers, directions;
    bool    biases, batch_first;
    bool    projected; /* the state is a product with the last parameter, of a width of its own */
    double  dropout;   /* between layers */
    int     per_layer; /* parameters of one direction of one layer */
    Operand param[MAX_RNN_PARAMETERS];
    int     n_params;
    int64_t steps, batch, width; /* width of the gates */
} Rnn;

static int gates(const Rnn *r) { return r->cell == CELL_LSTM ? 4 : r->cell == CELL_GRU ? 3 : 1; }

static Err times_weight(const Rnn *r, View x, Operand weight, const Operand *bias, Operand *y)
{
    Lower *l = r->l;
    View   w, b;
    Tensor offset = tensor_none(l->graph);
    TRY(item_view(l, &weight, &w));
    if (bias) {
        TRY(item_view(l, bias, &b));
        offset = view_tensor(b, NULL);
    }
    Tensor rows = view_tensor(x, NULL), matrix = view_tensor(w, NULL);
    rows = cast(rows, tensor_type(matrix));
    Dims dims = view_dims(&x);
    dims.at[dims.rank - 1] = w.dim[0];
    Tensor t = linear_op(rows, matrix, offset, (LinearAttr){ false });
    *y = item_of(l, view_make(t, dims, NULL), EX_F32);
    return graph_check(l->graph);
}

/* The gates of one step, side by side: its own from the inputs and from the state. */
typedef struct Gates {
    Operand x[4], h[4];
} Gates;

static Err gates_of(const Rnn *r, Operand x, Operand h, Gates *g)
{
    int64_t extent[] = { r->width, r->width, r->width, r->width };
    TRY(lower_slices(r->l, x, 1, extent, gates(r), g->x));
    return lower_slices(r->l, h, 1, extent, gates(r), g->h);
}

/* sigma(i) tanh(g) + sigma(f) c, then sigma(o) tanh of it; gates i, f, g, o. */
static Err lstm_step(const Rnn *r, Operand x, Operand h, Operand *state, Operand *cell)
{
    Formula f = formula(r->l), g = formula(r->l);
    Gates   in;
    int     a[4];
    TRY(gates_of(r, x, h, &in));
    for (int i = 0; i < 3; i++)
        a[i] = F2(&f, ADD, formula_input(&f, in.x[i]), formula_input(&f, in.h[i]));
    int c = F2(&f, ADD, F2(&f, MUL, F1(&f, SIGMOID, a[1]), formula_input(&f, *cell)),
               F2(&f, MUL, F1(&f, SIGMOID, a[0]), F1(&f, TANH, a[2])));
    TRY(formula_item(&f, c, EX_F32, cell));
    int o = F2(&g, ADD, formula_input(&g, in.x[3]), formula_input(&g, in.h[3]));
    o = F2(&g, MUL, F1(&g, SIGMOID, o), F1(&g, TANH, formula_input(&g, *cell)));
    return formula_item(&g, o, EX_F32, state);
}

/* n + z (h - n), with n = tanh(x_n + sigma(r) h_n); gates r, z, n. */
static Err gru_step(const Rnn *r, Operand x, Operand h, Operand *state)
{
    Formula f = formula(r->l);
    Gates   in;
    int     a[2];
    TRY(gates_of(r, x, h, &in));
    for (int i = 0; i < 2; i++)
        a[i] = F1(&f, SIGMOID, F2(&f, ADD, formula_input(&f, in.x[i]), formula_input(&f, in.h[i])));
    int n = F1(
        &f, TANH,
        F2(&f, ADD, formula_input(&f, in.x[2]), F2(&f, MUL, a[0], formula_input(&f, in.h[2]))));
    int y = F2(&f, ADD, n, F2(&f, MUL, a[1], F2(&f, SUB, formula_input(&f, *state), n)));
    return formula_item(&f, y, EX_F32, state);
}

static Err plain_step(const Rnn *r, Operand x, Operand h, Operand *state)
{
    Formula f = formula(r->l);
    int     y = F2(&f, ADD, formula_input(&f, x), formula_input(&f, h));
    return formula_item(&f, r->cell == CELL_TANH ? F1(&f, TANH, y) : F1(&f, RELU, y), EX_F32,
                        state);
}

static Err one_step(const Rnn *r, Operand x, const Operand *param, Operand *state, Operand *cell)
{
    Operand h;
    View    before;
    TRY(item_view(r->l, state, &before));
    TRY(times_weight(r, before, param[1], r->biases ? &param[3] : NULL, &h));
    switch (r->cell) {
    case CELL_LSTM:
        TRY(lstm_step(r, x, h, state, cell));
        if (!r->projected)
            return OK;
        TRY(item_view(r->l, state, &before));
        return times_weight(r, before, param[r->per_layer - 1], NULL, state);
    case CELL_GRU: return gru_step(r, x, h, state);
    default: return plain_step(r, x, h, state);
    }
}

/* One direction of one layer: x is (T, B, I); y is (T, B, H). */
static Err run_direction(const Rnn *r, View x, const Operand *param, bool back, Operand *state,
                         Operand *cell, Operand *y)
{
    Operand  all;
    Operand *parts = NEWN(r->l->pool, Operand, r->steps),
            *now = NEWN(r->l->pool, Operand, r->steps);
    int64_t *one = NEWN(r->l->pool, int64_t, r->steps);
    for (int64_t t = 0; t < r->steps; t++)
        one[t] = 1;
    TRY(times_weight(r, x, param[0], r->biases ? &param[2] : NULL, &all));
    TRY(lower_slices(r->l, all, 0, one, (int)r->steps, now));
    for (int64_t i = 0; i < r->steps; i++) {
        int64_t t = back ? r->steps - 1 - i : i;
        Operand x_t = item_with(now[t], view_dropped(now[t].view, 0));
        TRY(one_step(r, x_t, param, state, cell));
        parts[t] = item_with(*state, view_inserted(state->view, 0, 1));
    }
    return lower_join(r->l, parts, (int)r->steps, 0, y);
}

static Err first_states(const Rnn *r, Operand *states, Operand *cells)
{
    Operand list[2];
    Lower  *l = r->l;
    int     n = 1;
    if (r->cell == CELL_LSTM)
        TRY(arg_items(l, "hx", list, 2, &n));
    else
        TRY(arg_item(l, "hx", &list[0]));
    for (int i = 0; i < r->layers * r->directions; i++) {
        states[i] = item_with(list[0], view_selected(list[0].view, 0, i));
        if (r->cell == CELL_LSTM)
            cells[i] = item_with(list[1], view_selected(list[1].view, 0, i));
    }
    return OK;
}

static Err give_states(const Rnn *r, int output, Operand *states)
{
    Operand all;
    int     n = r->layers * r->directions;
    if (output >= r->l->call->n_out || r->l->call->out[output] < 0)
        return OK;
    for (int i = 0; i < n; i++)
        states[i] = item_with(states[i], view_inserted(states[i].view, 0, 1));
    TRY(lower_join(r->l, states, n, 0, &all));
    return give(r->l, output, all);
}

static Err rnn_open(Lower *l, Rnn *r, View *x)
{
    int64_t layers;
    *r = (Rnn){ .l = l, .cell = (Cell)l->def->with };
    TRY(arg_view(l, "input", x));
    TRY(arg_items(l, "params", r->param, MAX_RNN_PARAMETERS, &r->n_params));
    TRY(arg_int(l, "num_layers", 1, &layers));
    TRY(arg_float(l, "dropout", 0, &r->dropout));
    r->dropout = arg_bool(l, "train", false) ? r->dropout : 0;
    r->layers = (int)layers;
    r->directions = 1 + arg_bool(l, "bidirectional", false);
    r->biases = arg_bool(l, "has_biases", true);
    r->batch_first = arg_bool(l, "batch_first", false);
    r->per_layer = r->biases ? 4 : 2;
    r->projected = r->cell == CELL_LSTM &&
                   r->n_params == r->layers * r->directions * (r->per_layer + 1);
    r->per_layer += r->projected;
    if (x->rank != 3)
        return refuse(l, "an input with %d axes; give it a batch axis", x->rank);
    if (r->n_params != r->layers * r->directions * r->per_layer)
        return refuse(l, "%d parameters for %d layers", r->n_params, r->layers);
    if (r->batch_first)
        *x = view_permuted(*x, (int[]){ 1, 0, 2 });
    r->steps = x->dim[0];
    r->batch = x->dim[1];
    r->width = r->param[0].view.dim[0] / gates(r);
    return r->param[1].view.dim[0] == gates(r) * r->width ? OK
                                                          : refuse(l, "weights of another size");
}

/* What the next layer reads: both directions side by side, some of it dropped. */
static Err layer_result(const Rnn *r, int layer, const Operand *sides, Operand *y)
{
    *y = sides[0];
    if (r->directions == 2)
        TRY(lower_join(r->l, sides, 2, 2, y));
    return layer + 1 < r->layers ? lower_dropped(r->l, *y, r->dropout, layer + 1, y) : OK;
}

static Err recurrent(Lower *l)
{
    Rnn     r;
    View    x;
    Operand states[MAX_RNN_PARAMETERS], cells[MAX_RNN_PARAMETERS], y = { 0 };
    TRY(rnn_open(l, &r, &x));
    TRY(first_states(&r, states, cells));
    for (int layer = 0; layer < r.layers; layer++) {
        Operand sides[2];
        for (int d = 0; d < r.directions; d++) {
            int at = layer * r.directions + d;
            TRY(run_direction(&r, x, r.param + at * r.per_layer, d, &states[at], &cells[at],
                              &sides[d]));
        }
        TRY(layer_result(&r, layer, sides, &y));
        TRY(item_view(l, &y, &x));
    }
    if (r.batch_first)
        y.view = view_permuted(y.view, (int[]){ 1, 0, 2 });
    TRY(give(l, 0, y));
    TRY(give_states(&r, 1, states));
    return r.cell == CELL_LSTM ? give_states(&r, 2, cells) : OK;
}

/* A cell alone: hx, w_ih, w_hh, b_ih, b_hh. */
static Err cell_alone(Lower *l)
{
    static const char *const names[] = { "w_ih", "w_hh", "b_ih", "b_hh" };
    Rnn                      r = { .l = l, .cell = (Cell)l->def->with };
    Operand                  state[2], x;
    View                     input;
    int                      n = 1;
    TRY(arg_view(l, "input", &input));
    for (int i = 0; i < 4; i++)
        TRY(arg_item(l, names[i], &r.param[i]));
    if (r.cell == CELL_LSTM)
        TRY(arg_items(l, "hx", state, 2, &n));
    else
        TRY(arg_item(l, "hx", &state[0]));
    if (input.rank != 2)
        return refuse(l, "an input with %d axes; give it a batch axis", input.rank);
    r.biases = r.param[2].set;
    r.width = r.param[1].view.dim[1];
    TRY(times_weight(&r, input, r.param[0], r.biases ? &r.param[2] : NULL, &x));
    TRY(one_step(&r, x, r.param, &state[0], &state[1]));
    TRY(give(l, 0, state[0]));
    return r.cell == CELL_LSTM ? give(l, 1, state[1]) : OK;
}

/* clang-format off */
const LowerDef lower_rnns[] = {
    { "aten.lstm.input", recurrent, CELL_LSTM, false },
    { "aten.gru.input", recurrent, CELL_GRU, false },
    { "aten.rnn_tanh.input", recurrent, CELL_TANH, false },
    { "aten.rnn_relu.input", recurrent, CELL_RELU, false },
    { "aten.lstm_cell.default", cell_alone, CELL_LSTM, false },
    { "aten.gru_cell.default", cell_alone, CELL_GRU, false },
    { "aten.rnn_tanh_cell.default", cell_alone, CELL_TANH, false },
    { "aten.rnn_relu_cell.default", cell_alone, CELL_RELU, false },
    { 0 }
};
/* clang-format on */
