/* lower_fft.c -- Fourier transforms of a program.
 *
 * Long real signals, to and from their spectra, are nodes of rfft and irfft. Everything else is a
 * product with a table: short signals, lengths with other prime factors, complex signals. The two
 * parts of a complex signal lie side by side along the axis, so a transform is one product:
 *
 *   (re | im) [ cos -sin ]  =  (re' | im')
 *             [ sin  cos ]
 */
#include "import/lower.h"

#include "ops/arrange/arrange.h"
#include "ops/arrange/pad_mode.h"
#include "ops/elementwise/basic.h"
#include "ops/fft/rfft.h"
#include "ops/index/gather.h"

#include <math.h>
#include <string.h>

enum {
    FFT_INVERSE = 1,
    FFT_OF_REAL = 2, /* real samples on one side, half of a spectrum on the other */
    FFT_PLANE = 4,   /* the last two axes */
    FFT_AXES = 8     /* all axes */
};

enum { SHORT_SIGNAL = 64, LONGEST_TABLE = 1024 };

typedef struct Fourier {
    int     n_axes, axis[VIEW_RANK];
    int64_t n[VIEW_RANK]; /* samples along each; 0: as many as there are */
    bool    inverse, real;
    double  scale;
} Fourier;

/* ---- arguments ---- */

static Err fourier_axes(Lower *l, int rank, Fourier *f)
{
    int64_t dims[VIEW_RANK], sizes[VIEW_RANK];
    int     n_dims = 0, n_sizes = 0, with = l->def->with;
    bool    several = with & (FFT_PLANE | FFT_AXES);
    TRY(arg_ints(l, several ? "s" : "n", sizes, &n_sizes));
    TRY(arg_ints(l, "dim", dims, &n_dims));
    if (!n_dims) {
        n_dims = !several ? 1 : with & FFT_PLANE ? 2 : n_sizes ? n_sizes : rank;
        for (int i = 0; i < n_dims; i++)
            dims[i] = i - n_dims;
    }
    if (n_sizes && n_sizes != n_dims)
        return refuse(l, "%d lengths for %d axes", n_sizes, n_dims);
    f->n_axes = n_dims;
    for (int i = 0; i < n_dims; i++) {
        int64_t axis = dims[i] + (dims[i] < 0 ? rank : 0);
        if (axis < 0 || axis >= rank)
            return refuse(l, "axis %lld of %d", (long long)dims[i], rank);
        f->axis[i] = (int)axis;
        f->n[i] = n_sizes && sizes[i] > 0 ? sizes[i] : 0;
    }
    return OK;
}

/* Lengths that the call does not give are those of the operand; of half a spectrum, twice that. */
static void fourier_lengths(const View *x, Fourier *f)
{
    double points = 1;
    for (int i = 0; i < f->n_axes; i++) {
        int64_t have = x->dim[f->axis[i]];
        bool    half = f->real && f->inverse && i == f->n_axes - 1;
        if (!f->n[i])
            f->n[i] = half ? 2 * (have - 1) : have;
        points *= (double)f->n[i];
    }
    f->scale = points;
}

/* f->scale: by what the plain sums are multiplied. */
static Err fourier_norm(Lower *l, Fourier *f)
{
    const char *norm = arg_text(l, "norm", "backward");
    if (!strcmp(norm, "ortho"))
        f->scale = 1 / sqrt(f->scale);
    else if (!strcmp(norm, f->inverse ? "backward" : "forward"))
        f->scale = 1 / f->scale;
    else
        f->scale = 1;
    return OK;
}

/* ---- views ---- */

/* The axis becomes the last one. */
static View axis_last(View v, int axis)
{
    int order[VIEW_RANK], n = 0;
    for (int a = 0; a < v.rank; a++)
        if (a != axis)
            order[n++] = a;
    order[n] = axis;
    return view_permuted(v, order);
}

static View axis_back(View v, int axis)
{
    int order[VIEW_RANK];
    for (int a = 0; a < v.rank; a++)
        order[a] = a < axis ? a : a == axis ? v.rank - 1 : a - 1;
    return view_permuted(v, order);
}

/* Cut off, or filled up with zeros. */
static Err resized(Lower *l, Operand *x, int axis, int64_t n)
{
    int64_t    have = x->view.dim[axis];
    HostArray *array;
    if (have > n)
        x->view = view_sliced(x->view, axis, 0, n, 1);
    if (have >= n)
        return OK;
    Operand zero = item_host(l, x->type, (Dims){ 0 }, &array);
    Dims    dims = view_dims(&x->view);
    dims.at[axis] = n - have;
    zero.view = view_expanded(zero.view, dims);
    Operand both[] = { *x, zero };
    return lower_join(l, both, 2, axis, x);
}

/* In fp32, whatever the graph computes in. */
static Err in_fp32(Lower *l, Operand *x)
{
    View v;
    TRY(item_view(l, x, &v));
    if (view_type(&v) != F32)
        v.base = cast(v.base, F32);
    *x = item_of(l, v, x->type);
    return graph_check(l->graph);
}

/* ---- by tables ---- */

static Err too_long(Lower *l, int64_t n)
{
    return refuse(l,
                  "%lld samples; up to %d are supported, and for real signals any number without "
                  "prime factors other than 2, 3 and 5",
                  (long long)n, LONGEST_TABLE);
}

/* Rows: samples, or the parts of a spectrum; columns likewise. `from` and `to`: how many there are
 * of each; 2 parts where they are complex. `weight`: half a spectrum stands for the whole one. */
typedef struct Table {
    int64_t n, from, to;
    bool    from_complex, to_complex, inverse, half;
} Table;

static double half_weight(const Table *t, int64_t k)
{
    return !t->half || k == 0 || 2 * k == t->n ? 1 : 2;
}

static Operand fourier_table(Lower *l, const Table *t, double scale)
{
    HostArray *to;
    int64_t rows = t->from * (t->from_complex ? 2 : 1), columns = t->to * (t->to_complex ? 2 : 1);
    Operand item = item_host(l, EX_F32, (Dims){ 2, { rows, columns } }, &to);
    for (int64_t j = 0; j < t->from; j++)
        for (int64_t k = 0; k < t->to; k++) {
            double turn = 2 * M_PI * (double)(j * k % t->n) / (double)t->n;
            double w = scale * half_weight(t, j), c = w * cos(turn);
            double s = (t->inverse ? w : -w) * sin(turn); /* of exp(+- i turn) */
            to->f[j * columns + k] = c;
            if (t->to_complex)
                to->f[j * columns + t->to + k] = s;
            if (t->from_complex)
                to->f[(t->from + j) * columns + k] = -s;
            if (t->from_complex && t->to_complex)
                to->f[(t->from + j) * columns + t->to + k] = c;
        }
    return item;
}

static Err by_table(Lower *l, ComplexParts *x, int axis, Table t, double scale)
{
    Operand whole = x->re;
    View    y, table;
    if (t.n > LONGEST_TABLE)
        return too_long(l, t.n);
    TRY(resized(l, &x->re, axis, t.from));
    whole = x->re;
    if (t.from_complex) {
        TRY(resized(l, &x->im, axis, t.from));
        Operand both[] = { x->re, x->im };
        TRY(lower_join(l, both, 2, axis, &whole));
    }
    TRY(in_fp32(l, &whole));
    Operand constant = fourier_table(l, &t, scale);
    TRY(item_view(l, &constant, &table));
    View v = axis_last(whole.view, axis);
    bool alone = v.rank == 1;
    if (alone)
        v = view_inserted(v, 0, 1);
    TRY(lower_matmul(l, v, table, &y));
    if (alone)
        y = view_dropped(y, 0);
    y = axis_back(y, axis);
    x->re = item_of(l, view_sliced(y, axis, 0, t.to, 1), EX_F32);
    if (t.to_complex)
        x->im = item_of(l, view_sliced(y, axis, t.to, t.to, 1), EX_F32);
    x->real = !t.to_complex;
    return OK;
}

/* ---- by nodes ---- */

/* (B, axis, C): the first axis apart where the others fill the lanes of a vector. */
static Shape signal_shape(const View *x, int axis, int *order)
{
    int64_t n = x->dim[axis], count = view_count(x), first = x->rank ? x->dim[0] : 1;
    bool    apart = axis > 0 && count / n / first >= FFT_LANES;
    int     k = 0;
    if (apart)
        order[k++] = 0;
    order[k++] = axis;
    for (int a = 0; a < x->rank; a++)
        if (a != axis && (a || !apart))
            order[k++] = a;
    return SHAPE(apart ? first : 1, n, apart ? count / n / first : count / n);
}

static Err times(Lower *l, Operand *x, double scale)
{
    if (scale == 1)
        return OK;
    Formula f = formula(l);
    return formula_item(&f, F2(&f, MUL, formula_input(&f, *x), formula_number(&f, scale)), x->type,
                        x);
}

static Err to_spectrum(Lower *l, ComplexParts *x, int axis, int64_t n, double scale)
{
    int   order[VIEW_RANK];
    Table t = { .n = n, .from = n, .to = n / 2 + 1, .to_complex = true };
    if (n < SHORT_SIGNAL || !fft_valid(n) || x->re.view.rank == VIEW_RANK)
        return by_table(l, x, axis, t, scale);
    TRY(resized(l, &x->re, axis, n));
    TRY(in_fp32(l, &x->re));
    Shape  shape = signal_shape(&x->re.view, axis, order);
    Tensor y = rfft(view_tensor_as(x->re.view, order, shape));
    Dims   dims = view_dims(&x->re.view);
    int    last = dims.rank;
    dims.at[axis] = t.to;
    dims.at[dims.rank++] = 2;
    order[last] = last;
    TRY(graph_check(l->graph));
    View pairs = view_make(y, dims, order);
    x->re = item_of(l, view_selected(pairs, last, 0), EX_F32);
    x->im = item_of(l, view_selected(pairs, last, 1), EX_F32);
    x->real = false;
    TRY(times(l, &x->re, scale));
    return times(l, &x->im, scale);
}

static Err from_spectrum(Lower *l, ComplexParts *x, int axis, int64_t n, double scale)
{
    int   order[VIEW_RANK], last = x->re.view.rank;
    Table t = {
        .n = n, .from = n / 2 + 1, .to = n, .from_complex = true, .inverse = true, .half = true
    };
    if (n < SHORT_SIGNAL || !fft_valid(n) || last == VIEW_RANK)
        return by_table(l, x, axis, t, scale);
    TRY(resized(l, &x->re, axis, t.from));
    TRY(resized(l, &x->im, axis, t.from));
    Shape   shape = signal_shape(&x->re.view, axis, order);
    Operand both[] = { item_with(x->re, view_inserted(x->re.view, last, 1)),
                       item_with(x->im, view_inserted(x->im.view, last, 1)) };
    Operand pairs;
    Dims    dims = view_dims(&x->re.view);
    TRY(lower_join(l, both, 2, last, &pairs));
    TRY(in_fp32(l, &pairs));
    order[last] = last;
    Tensor y = irfft(
        view_tensor_as(pairs.view, order, SHAPE(shape.dim[0], t.from, shape.dim[2], 2)), n);
    TRY(graph_check(l->graph));
    dims.at[axis] = n;
    x->re = item_of(l, view_make(y, dims, order), EX_F32);
    x->real = true;
    return times(l, &x->re, scale * (double)n);
}

static Err complex_signal(Lower *l, ComplexParts *x, int axis, int64_t n, bool inverse,
                          double scale)
{
    Table t = {
        .n = n, .from = n, .to = n, .from_complex = !x->real, .to_complex = true, .inverse = inverse
    };
    return by_table(l, x, axis, t, scale);
}

static Err fourier(Lower *l)
{
    Fourier      f = { .inverse = l->def->with & FFT_INVERSE, .real = l->def->with & FFT_OF_REAL };
    ComplexParts x;
    TRY(complex_arg(l, "self", &x));
    TRY(fourier_axes(l, x.re.view.rank, &f));
    fourier_lengths(&x.re.view, &f);
    TRY(fourier_norm(l, &f));
    int last = f.n_axes - 1; /* the axis of half the spectrum: first on the way there, last back */
    if (f.real && !f.inverse)
        TRY(to_spectrum(l, &x, f.axis[last], f.n[last], f.scale));
    for (int i = 0; i < f.n_axes - f.real; i++)
        TRY(complex_signal(l, &x, f.axis[i], f.n[i], f.inverse, i || f.real ? 1 : f.scale));
    if (!f.real || !f.inverse)
        return complex_give(l, 0, x.re, x.im);
    TRY(from_spectrum(l, &x, f.axis[last], f.n[last], f.scale));
    return give(l, 0, x.re);
}

/* ---- frames of a signal ---- */

typedef struct Frames {
    int64_t n, hop, width; /* samples of a frame, between frames, of the window */
    bool    center, half, pairs;
} Frames;

static Err frames_read(Lower *l, Frames *f)
{
    TRY(arg_int(l, "n_fft", 0, &f->n));
    TRY(arg_int(l, "hop_length", f->n / 4, &f->hop));
    TRY(arg_int(l, "win_length", f->n, &f->width));
    f->center = !strcmp(l->call->target, "aten.stft.center") && arg_bool(l, "center", true);
    f->half = arg_bool(l, "onesided", true);
    f->pairs = !arg_bool(l, "return_complex", false);
    if (f->n < 1 || f->hop < 1 || f->width < 1 || f->width > f->n)
        return refuse(l, "frames of %lld samples with a window of %lld", (long long)f->n,
                      (long long)f->width);
    return OK;
}

/* (B, L) -> (B, frames, n), a view of the padded signal. */
static Err frames_of(Lower *l, const Frames *f, View v, View *frames)
{
    const char *mode = arg_text(l, "pad_mode", "reflect");
    if (f->center) {
        PadAttr at = { .before = { 0, f->n / 2 }, .after = { 0, f->n / 2 } };
        PadMode kind = !strcmp(mode, "reflect")     ? PAD_REFLECT
                       : !strcmp(mode, "replicate") ? PAD_REPLICATE
                       : !strcmp(mode, "circular")  ? PAD_CIRCULAR
                                                    : PAD_CONSTANT;
        Dims    dims = view_dims(&v);
        Tensor  padded = pad_mode(view_tensor(v, NULL), at, kind, 0);
        TRY(graph_check(l->graph));
        dims.at[1] += 2 * (f->n / 2);
        v = view_make(padded, dims, NULL);
    }
    if (v.dim[1] < f->n)
        return refuse(l, "a signal of %lld samples is shorter than a frame", (long long)v.dim[1]);
    *frames = (View){ .base = v.base,
                      .offset = v.offset,
                      .rank = 3,
                      .dim = { v.dim[0], (v.dim[1] - f->n) / f->hop + 1, f->n },
                      .stride = { v.stride[0], v.stride[1] * f->hop, v.stride[1] } };
    return OK;
}

/* The window in the middle of a frame. */
static Err windowed(Lower *l, const Frames *f, Operand *x)
{
    Operand window, zero;
    if (!arg_given(l, "window") && f->width == f->n)
        return OK;
    TRY(arg_item(l, "window", &window));
    if (!window.set) {
        HostArray *ones;
        window = item_host(l, EX_F32, (Dims){ 1, { f->width } }, &ones);
        for (int64_t i = 0; i < f->width; i++)
            ones->f[i] = 1;
    }
    int64_t    left = (f->n - f->width) / 2, right = f->n - f->width - left;
    Operand    parts[3];
    int        n = 0;
    HostArray *array;
    zero = item_host(l, window.type, (Dims){ 1, { f->n } }, &array);
    if (left)
        parts[n++] = item_with(zero, view_sliced(zero.view, 0, 0, left, 1));
    parts[n++] = window;
    if (right)
        parts[n++] = item_with(zero, view_sliced(zero.view, 0, 0, right, 1));
    TRY(lower_join(l, parts, n, 0, &window));
    Formula g = formula(l);
    int     y = F2(&g, MUL, formula_input(&g, *x), formula_input(&g, window));
    return formula_item(&g, y, EX_F32, x);
}

static Err give_spectra(Lower *l, const Frames *f, ComplexParts x, bool alone)
{
    Operand parts[] = { x.re, x.im }, out;
    for (int i = 0; i < 2; i++) {
        View *v = &parts[i].view; /* (B, frequencies, frames) */
        *v = view_permuted(*v, (int[]){ 0, 2, 1 });
        if (alone)
            *v = view_dropped(*v, 0);
    }
    if (!f->pairs)
        return complex_give(l, 0, parts[0], parts[1]);
    int last = parts[0].view.rank;
    for (int i = 0; i < 2; i++)
        parts[i].view = view_inserted(parts[i].view, last, 1);
    TRY(lower_join(l, parts, 2, last, &out));
    return give(l, 0, out);
}

static Err short_time(Lower *l)
{
    Frames       f;
    View         v, frames;
    ComplexParts x = { .real = true };
    TRY(frames_read(l, &f));
    TRY(arg_view(l, "self", &v));
    bool alone = v.rank == 1;
    if (alone)
        v = view_inserted(v, 0, 1);
    if (v.rank != 2)
        return refuse(l, "a signal with %d axes", v.rank);
    TRY(frames_of(l, &f, v, &frames));
    x.re = item_of(l, frames, EX_F32);
    TRY(windowed(l, &f, &x.re));
    double scale = arg_bool(l, "normalized", false) ? 1 / sqrt((double)f.n) : 1;
    if (f.half)
        TRY(to_spectrum(l, &x, 2, f.n, scale));
    else
        TRY(complex_signal(l, &x, 2, f.n, false, scale));
    return give_spectra(l, &f, x, alone);
}

/* ---- a signal of its frames ---- */

/* (B, frames, n) -> (B, samples): what frames share is added. */
static Err overlap_added(Lower *l, const Frames *f, Operand frames, Operand *signal)
{
    View       v, ids, nothing;
    HostArray *at, *zero;
    TRY(item_view(l, &frames, &v));
    int64_t batch = v.dim[0], count = v.dim[1], length = f->n + f->hop * (count - 1);
    Operand places = item_host(l, EX_I64, (Dims){ 1, { count * f->n } }, &at);
    for (int64_t i = 0; i < at->n; i++)
        at->i[i] = i / f->n * f->hop + i % f->n;
    Operand none = item_host(l, EX_F32, (Dims){ 0 }, &zero);
    none.view = view_expanded(none.view, (Dims){ 2, { length, batch } });
    TRY(item_view(l, &places, &ids));
    TRY(item_view(l, &none, &nothing));
    Tensor values = view_tensor_as(v, (int[]){ 1, 2, 0 }, SHAPE(count * f->n, batch));
    Tensor sum = index_put(view_tensor(nothing, NULL), (Tensor[]){ view_tensor(ids, NULL) }, 1,
                           cast(values, F32), true);
    TRY(graph_check(l->graph));
    *signal = item_of(l, view_make(sum, (Dims){ 2, { batch, length } }, (int[]){ 1, 0 }), EX_F32);
    return OK;
}

/* The windows' squares, added in the same way: by what each sample was multiplied. */
static Err window_weight(Lower *l, const Frames *f, int64_t count, Operand *weight)
{
    HostArray *array;
    Operand    ones = item_host(l, EX_F32, (Dims){ 3, { 1, count, f->n } }, &array);
    for (int64_t i = 0; i < array->n; i++)
        array->f[i] = 1;
    for (int i = 0; i < 2; i++)
        TRY(windowed(l, f, &ones));
    return overlap_added(l, f, ones, weight);
}

/* Samples from .. from + n, zeros beyond the last. */
static Err samples_of(Lower *l, Operand *x, int64_t from, int64_t n)
{
    int64_t have = x->view.dim[1] - from;
    if (have < 1)
        return refuse(l, "a signal of %lld samples", (long long)x->view.dim[1]);
    x->view = view_sliced(x->view, 1, from, have < n ? have : n, 1);
    return resized(l, x, 1, n);
}

static Err frames_joined(Lower *l)
{
    Frames       f;
    ComplexParts x;
    Operand      y, weight;
    Err          err;
    TRY(frames_read(l, &f));
    TRY(complex_arg(l, "self", &x));
    Dims dims = out_dims(l, 0, &err);
    TRY(err);
    Operand *parts[] = { &x.re, &x.im };
    int      rank = x.re.view.rank;
    if (rank < 2 || rank > 3 || dims.rank != rank - 1 || type_complex(out_type_of(l, 0)))
        return refuse(l, "a spectrum with %d axes", rank);
    for (int i = 0; i < 2; i++) { /* (B, frames, frequencies) */
        if (rank == 2)
            parts[i]->view = view_inserted(parts[i]->view, 0, 1);
        parts[i]->view = view_permuted(parts[i]->view, (int[]){ 0, 2, 1 });
    }
    double scale = 1 / (arg_bool(l, "normalized", false) ? sqrt((double)f.n) : (double)f.n);
    if (x.re.view.dim[2] != f.n)
        TRY(from_spectrum(l, &x, 2, f.n, scale));
    else
        TRY(complex_signal(l, &x, 2, f.n, true, scale));
    TRY(windowed(l, &f, &x.re));
    TRY(overlap_added(l, &f, x.re, &y));
    TRY(window_weight(l, &f, x.re.view.dim[1], &weight));
    int64_t from = arg_bool(l, "center", true) ? f.n / 2 : 0, n = dims.at[dims.rank - 1];
    TRY(samples_of(l, &y, from, n));
    TRY(samples_of(l, &weight, from, n));
    Formula g = formula(l);
    int     a = formula_input(&g, y), b = formula_input(&g, weight);
    int     some = F2(&g, GT, b, formula_number(&g, 0)), one = formula_number(&g, 1);
    TRY(formula_item(&g, F2(&g, DIV, a, F3(&g, SELECT, some, b, one)), EX_F32, &y));
    return give(l, 0, rank == 2 ? item_with(y, view_dropped(y.view, 0)) : y);
}

/* Hann and Hamming: a - (1 - a) cos(2 pi i / n). */
static Err cosine_window(Lower *l)
{
    Err        err;
    HostArray *to;
    double     a;
    Dims       dims = out_dims(l, 0, &err);
    TRY(err);
    TRY(arg_float(l, "alpha", l->def->with ? 0.54 : 0.5, &a));
    Operand item = item_host(l, out_type_of(l, 0), dims, &to);
    double  n = (double)to->n - !arg_bool(l, "periodic", true);
    for (int64_t i = 0; i < to->n; i++)
        to->f[i] = n > 0 ? a - (1 - a) * cos(2 * M_PI * (double)i / n) : 1;
    return give(l, 0, item);
}

/* ---- beside transforms ---- */

/* The zero frequency to the middle, and back. */
static Err shifted(Lower *l)
{
    Operand x;
    int64_t dims[VIEW_RANK];
    int     n;
    TRY(arg_item(l, "self", &x));
    TRY(arg_ints(l, "dim", dims, &n));
    for (int i = 0; i < (n ? n : x.view.rank); i++) {
        int64_t at = n ? dims[i] : i;
        int     axis = (int)(at < 0 ? at + x.view.rank : at);
        if (axis < 0 || axis >= x.view.rank)
            return refuse(l, "axis %lld of %d", (long long)at, x.view.rank);
        int64_t extent = x.view.dim[axis];
        int64_t front = l->def->with ? extent / 2 : (extent + 1) / 2; /* moves to the end */
        if (extent < 2)
            continue;
        Operand both[] = { item_with(x, view_sliced(x.view, axis, front, extent - front, 1)),
                           item_with(x, view_sliced(x.view, axis, 0, front, 1)) };
        TRY(lower_join(l, both, 2, axis, &x));
    }
    return give(l, 0, x);
}

/* k / (n d), the second half of a whole spectrum negative. */
static Err frequencies(Lower *l)
{
    int64_t    n;
    double     d;
    Err        err;
    HostArray *to;
    Dims       dims = out_dims(l, 0, &err);
    TRY(err);
    TRY(arg_int(l, "n", 1, &n));
    TRY(arg_float(l, "d", 1, &d));
    Operand item = item_host(l, out_type_of(l, 0), dims, &to);
    for (int64_t i = 0; i < to->n; i++) {
        int64_t k = !l->def->with && i > (n - 1) / 2 ? i - n : i;
        to->f[i] = (double)k / ((double)n * d);
    }
    return give(l, 0, item);
}

/* clang-format off */
const LowerDef lower_ffts[] = {
    { "aten.fft_fft.default", fourier, 0, false },
    { "aten.fft_ifft.default", fourier, FFT_INVERSE, false },
    { "aten.fft_rfft.default", fourier, FFT_OF_REAL, false },
    { "aten.fft_irfft.default", fourier, FFT_OF_REAL | FFT_INVERSE, false },
    { "aten.fft_fft2.default", fourier, FFT_PLANE, false },
    { "aten.fft_ifft2.default", fourier, FFT_PLANE | FFT_INVERSE, false },
    { "aten.fft_rfft2.default", fourier, FFT_PLANE | FFT_OF_REAL, false },
    { "aten.fft_irfft2.default", fourier, FFT_PLANE | FFT_OF_REAL | FFT_INVERSE, false },
    { "aten.fft_fftn.default", fourier, FFT_AXES, false },
    { "aten.fft_ifftn.default", fourier, FFT_AXES | FFT_INVERSE, false },
    { "aten.fft_rfftn.default", fourier, FFT_AXES | FFT_OF_REAL, false },
    { "aten.fft_irfftn.default", fourier, FFT_AXES | FFT_OF_REAL | FFT_INVERSE, false },
    { "aten.stft.default", short_time, 0, false }, { "aten.stft.center", short_time, 0, false },
    { "aten.istft.default", frames_joined, 0, false },
    { 0 }
};

const LowerDef lower_shifts[] = {
    { "aten.hann_window.default", cosine_window, 0, false },
    { "aten.hann_window.periodic", cosine_window, 0, false },
    { "aten.hamming_window.default", cosine_window, 1, false },
    { "aten.hamming_window.periodic", cosine_window, 1, false },
    { "aten.fft_fftshift.default", shifted, 0, false },
    { "aten.fft_ifftshift.default", shifted, 1, false },
    { "aten.fft_fftfreq.default", frequencies, 0, false },
    { "aten.fft_rfftfreq.default", frequencies, 1, false },
    { 0 }
};
/* clang-format on */
