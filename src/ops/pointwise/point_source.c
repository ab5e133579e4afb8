/* point_source.c -- writes a pointwise program as CUDA C.
 *
 * Results that are stored share one kernel: each thread computes several neighbouring points, read
 * and written 16 bytes at a time where they lie so. Results that are reduced over the same axes
 * share one kernel (and, where the sum is divided among blocks, a second that adds the partial sums
 * in order): a warp or block for each sum along the innermost axis, else a thread for each column.
 * All extents and strides are numbers in the text, so that divisions become products.
 *
 * Compiled without contraction of products and sums: every step rounds as a step of its own, in the
 * forward and the backward pass alike, so that a largest element is found again.
 */
#include "ops/pointwise/point_source.h"

#include "base/int_math.h"
#include "base/text.h"
#include "ops/pointwise/pointwise_int.h"

#include <stdio.h>
#include <string.h>

static const char prelude[] =
    "struct bf16 { unsigned short bits; };\n"
    "struct f16 { unsigned short bits; };\n"
    "template <class T, int N> struct alignas(sizeof(T) * N) Pack { T at[N]; };\n"
    "#define DEVICE static __device__ __forceinline__\n"
    "DEVICE float get(const float *p) { return *p; }\n"
    "DEVICE float get(const bf16 *p) { return __uint_as_float((unsigned)p->bits << 16); }\n"
    "DEVICE float get(const f16 *p)\n"
    "{ float y; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(p->bits)); return y; }\n"
    "DEVICE int get(const int *p) { return *p; }\n"
    "DEVICE int get(const unsigned char *p) { return *p; }\n"
    "DEVICE void put(float *p, float x) { *p = x; }\n"
    "DEVICE void put(bf16 *p, float x)\n"
    "{ asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(p->bits) : \"f\"(x)); }\n"
    "DEVICE void put(f16 *p, float x)\n"
    "{ asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(p->bits) : \"f\"(x)); }\n"
    "DEVICE void put(int *p, int x) { *p = x; }\n"
    "DEVICE void put(unsigned char *p, int x) { *p = (unsigned char)x; }\n"
    "template <int N, class T, class R> DEVICE void get_pack(const T *p, R *x)\n"
    "{ Pack<T, N> pack = *(const Pack<T, N> *)p;\n"
    "#pragma unroll\n"
    "  for (int j = 0; j < N; j++) x[j] = get(&pack.at[j]); }\n"
    "template <int N, class T, class R> DEVICE void put_pack(T *p, const R *x)\n"
    "{ Pack<T, N> pack;\n"
    "#pragma unroll\n"
    "  for (int j = 0; j < N; j++) put(&pack.at[j], x[j]);\n"
    "  *(Pack<T, N> *)p = pack; }\n"
    "DEVICE float round_bf16(float x) { bf16 y; put(&y, x); return get(&y); }\n"
    "DEVICE float round_f16(float x) { f16 y; put(&y, x); return get(&y); }\n"
    "DEVICE void begin()\n"
    "{\n"
    "#if __CUDA_ARCH__ >= 900\n"
    "  asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
    "  if (gridDim.x * gridDim.y <= 64)\n"
    "    asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\");\n"
    "#endif\n"
    "}\n"
    "DEVICE float smaller(float x, float y) { return x < y || x != x ? x : y; }\n"
    "DEVICE float larger(float x, float y) { return x > y || x != x ? x : y; }\n"
    "DEVICE int smaller(int x, int y) { return x < y ? x : y; }\n"
    "DEVICE int larger(int x, int y) { return x > y ? x : y; }\n"
    "DEVICE float mod(float x, float y)\n"
    "{ float r = fmodf(x, y); return r != 0 && (y < 0) != (r < 0) ? r + y : r; }\n"
    "DEVICE int fmod_int(int x, int y) { return y == 0 || y == -1 ? 0 : x % y; }\n"
    "DEVICE int mod(int x, int y)\n"
    "{ int r = fmod_int(x, y); return r != 0 && (y < 0) != (r < 0) ? r + y : r; }\n"
    "DEVICE float quotient(float x, float y)\n"
    "{ if (y == 0) return x / y;\n"
    "  float r = fmodf(x, y), q = (x - r) / y;\n"
    "  if (r != 0 && (y < 0) != (r < 0)) q -= 1;\n"
    "  if (q == 0) return copysignf(0.0f, x / y);\n"
    "  float whole = floorf(q);\n"
    "  return q - whole > 0.5f ? whole + 1 : whole; }\n"
    "DEVICE int quotient(int x, int y)\n"
    "{ return y == 0 ? 0 : y == -1 ? (int)(0u - (unsigned)x) : (x - mod(x, y)) / y; }\n"
    "DEVICE int shift_left(int x, int y) { return (unsigned)y < 32 ? (int)((unsigned)x << y) : 0; "
    "}\n"
    "DEVICE int shift_right(int x, int y) { return x >> ((unsigned)y < 32 ? y : 31); }\n"
    "DEVICE float sigmoid(float x) { return __fdividef(1.0f, 1.0f + expf(-x)); }\n"
    "DEVICE float softplus(float x) { return (x > 0 ? x : 0.0f) + log1pf(expf(-fabsf(x))); }\n"
    "DEVICE float silu_slope(float x)\n"
    "{ float s = sigmoid(x); return s * fmaf(x, 1.0f - s, 1.0f); }\n"
    "DEVICE float cdf(float x) { return fmaf(0.5f, erff(x * 0.70710678f), 0.5f); }\n"
    "DEVICE float gelu_slope(float x)\n"
    "{ return fmaf(x, 0.39894228f * expf(-0.5f * x * x), cdf(x)); }\n"
    "#define GELU_A 0.7978845608f\n"
    "#define GELU_B (0.044715f * 0.7978845608f)\n"
    "DEVICE float gelu_tanh(float x)\n"
    "{ return x * sigmoid(2.0f * x * fmaf(GELU_B, x * x, GELU_A)); }\n"
    "DEVICE float gelu_tanh_slope(float x)\n"
    "{ float z = x * x, s = sigmoid(2.0f * x * fmaf(GELU_B, z, GELU_A));\n"
    "  return s * fmaf(2.0f * x * (1.0f - s), fmaf(3.0f * GELU_B, z, GELU_A), 1.0f); }\n"
    "DEVICE float mish(float x)\n"
    "{ float e = expf(x > 20.0f ? 20.0f : x), n = e * (e + 2.0f);\n"
    "  return x > 20.0f ? x : x * (n / (n + 2.0f)); }\n"
    "DEVICE float mish_slope(float x)\n"
    "{ float e = expf(x > 20.0f ? 20.0f : x), n = e * (e + 2.0f), m = n + 2.0f;\n"
    "  return x > 20.0f ? 1.0f : fmaf(x * sigmoid(x), 4.0f * (n + 1.0f) / (m * m), n / m); }\n"
    "DEVICE float join_sum(float x, float y) { return x + y; }\n"
    "DEVICE int join_sum(int x, int y) { return (int)((unsigned)x + (unsigned)y); }\n";

/* How a step is written: $a, $b, $c are its operands. NULL: not an operation of that kind. */
static const char *float_text(PointOp op)
{
    switch (op) {
    case POINT_ADD: return "$a + $b";
    case POINT_SUB: return "$a - $b";
    case POINT_MUL: return "$a * $b";
    case POINT_DIV: return "$a / $b";
    case POINT_FLOOR_DIV: return "quotient($a, $b)";
    case POINT_REMAINDER: return "mod($a, $b)";
    case POINT_FMOD: return "fmodf($a, $b)";
    case POINT_POW: return "powf($a, $b)";
    case POINT_ATAN2: return "atan2f($a, $b)";
    case POINT_MIN:
    case POINT_CLAMP_MAX: return "smaller($a, $b)";
    case POINT_MAX:
    case POINT_CLAMP_MIN: return "larger($a, $b)";
    case POINT_EQ: return "$a == $b";
    case POINT_NE: return "$a != $b";
    case POINT_LT: return "$a < $b";
    case POINT_LE: return "$a <= $b";
    case POINT_GT: return "$a > $b";
    case POINT_GE: return "$a >= $b";
    case POINT_SELECT: return "$a ? $b : $c";
    case POINT_TO_F32:
    case POINT_DETACH: return "$a";
    case POINT_TO_I32: return "__float2int_rz($a)";
    case POINT_TO_TRUTH: return "$a != 0";
    case POINT_ROUND_BF16: return "round_bf16($a)";
    case POINT_ROUND_F16: return "round_f16($a)";
    case POINT_NEG: return "-$a";
    case POINT_ABS: return "fabsf($a)";
    case POINT_SIGN: return "(float)(($a > 0) - ($a < 0))";
    case POINT_SQUARE: return "$a * $a";
    case POINT_SQRT: return "sqrtf($a)";
    case POINT_RSQRT: return "1.0f / sqrtf($a)";
    case POINT_RECIPROCAL: return "1.0f / $a";
    case POINT_EXP: return "expf($a)";
    case POINT_EXP2: return "exp2f($a)";
    case POINT_EXPM1: return "expm1f($a)";
    case POINT_LOG: return "logf($a)";
    case POINT_LOG2: return "log2f($a)";
    case POINT_LOG1P: return "log1pf($a)";
    case POINT_SIN: return "sinf($a)";
    case POINT_COS: return "cosf($a)";
    case POINT_TAN: return "tanf($a)";
    case POINT_ASIN: return "asinf($a)";
    case POINT_ACOS: return "acosf($a)";
    case POINT_ATAN: return "atanf($a)";
    case POINT_SINH: return "sinhf($a)";
    case POINT_COSH: return "coshf($a)";
    case POINT_TANH: return "tanhf($a)";
    case POINT_SIGMOID: return "sigmoid($a)";
    case POINT_LOG_SIGMOID: return "-softplus(-$a)";
    case POINT_SOFTPLUS: return "softplus($a)";
    case POINT_RELU: return "$a < 0 ? 0.0f : $a";
    case POINT_SILU: return "$a * sigmoid($a)";
    case POINT_GELU: return "$a * cdf($a)";
    case POINT_GELU_TANH: return "gelu_tanh($a)";
    case POINT_MISH: return "mish($a)";
    case POINT_ERF: return "erff($a)";
    case POINT_FLOOR: return "floorf($a)";
    case POINT_CEIL: return "ceilf($a)";
    case POINT_ROUND: return "rintf($a)";
    case POINT_TRUNC: return "truncf($a)";
    case POINT_IS_NAN: return "$a != $a";
    case POINT_IS_INF: return "fabsf($a) == __int_as_float(0x7f800000)";
    case POINT_SILU_SLOPE: return "silu_slope($a)";
    case POINT_GELU_SLOPE: return "gelu_slope($a)";
    case POINT_GELU_TANH_SLOPE: return "gelu_tanh_slope($a)";
    case POINT_MISH_SLOPE: return "mish_slope($a)";
    default: return NULL;
    }
}

static const char *integer_text(PointOp op)
{
    switch (op) {
    case POINT_ADD: return "(int)((unsigned)$a + (unsigned)$b)";
    case POINT_SUB: return "(int)((unsigned)$a - (unsigned)$b)";
    case POINT_MUL: return "(int)((unsigned)$a * (unsigned)$b)";
    case POINT_FLOOR_DIV: return "quotient($a, $b)";
    case POINT_REMAINDER: return "mod($a, $b)";
    case POINT_FMOD: return "fmod_int($a, $b)";
    case POINT_AND: return "$a & $b";
    case POINT_OR: return "$a | $b";
    case POINT_XOR: return "$a ^ $b";
    case POINT_SHIFT_LEFT: return "shift_left($a, $b)";
    case POINT_SHIFT_RIGHT: return "shift_right($a, $b)";
    case POINT_NOT: return "$a == 0";
    case POINT_TO_F32: return "(float)$a";
    case POINT_TO_I32: return "$a";
    case POINT_NEG: return "(int)(0u - (unsigned)$a)";
    case POINT_ABS: return "$a < 0 ? (int)(0u - (unsigned)$a) : $a";
    case POINT_SIGN: return "($a > 0) - ($a < 0)";
    case POINT_SQUARE: return "(int)((unsigned)$a * (unsigned)$a)";
    default: return float_text(op); /* comparisons, choices and copies are written alike */
    }
}

static const char *c_type(Type type)
{
    static const char *const names[] = { "float", "bf16", "f16", "int", "unsigned char" };
    return names[type];
}

typedef struct Writer {
    Text                *out; /* NULL: nothing is written */
    const Node          *n;
    const PointwiseAttr *p;
    PointSpace           space;
    bool                 live[POINT_STEPS_MAX]; /* steps of the kernel being written */
    int                  max_width;
} Writer;

#define SAY(...)                                                                                   \
    do {                                                                                           \
        if (w->out)                                                                                \
            text_add(w->out, __VA_ARGS__);                                                         \
    } while (0)

typedef long long Long;

/* Steps that the results of a mask need. */
static void mark_live(Writer *w, uint32_t results)
{
    const PointwiseAttr *p = w->p;
    memset(w->live, 0, sizeof w->live);
    for (int r = 0; r < p->n_results; r++)
        if (results >> r & 1)
            w->live[p->result[r].step] = true;
    for (int i = p->n_steps - 1; i >= 0; i--) {
        const PointStep *s = &p->step[i];
        int              n = point_op_operands(s->op), reads[] = { s->a, s->b, s->c };
        for (int k = 0; w->live[i] && k < n; k++)
            w->live[reads[k]] = true;
    }
}

static void write_step(Writer *w, int i)
{
    const PointStep *s = &w->p->step[i];
    const char      *form;
    uint32_t         bits;
    SAY("    const %s s%d = ", s->integer ? "int" : "float", i);
    if (s->op == POINT_CONSTANT) {
        memcpy(&bits, &s->value, 4);
        if (s->integer)
            SAY("(int)0x%xu;\n", bits);
        else
            SAY("__uint_as_float(0x%xu);\n", bits);
        return;
    }
    int of = s->op == POINT_SELECT ? s->b : s->a;
    form = w->p->step[of].integer ? integer_text(s->op) : float_text(s->op);
    REQUIRE(form);
    for (; *form; form++)
        if (*form == '$') {
            form++;
            SAY("s%d", *form == 'a' ? s->a : *form == 'b' ? s->b : s->c);
        } else
            SAY("%c", *form);
    SAY(";\n");
}

/* Every kernel has the same parameters; `call`: as arguments. */
static void write_params(Writer *w, bool call)
{
    for (int i = 0; i < w->p->n_in; i++) {
        if (!call)
            SAY("const %s *", c_type(in_type(w->n, i)));
        SAY("x%d, ", i);
    }
    for (int r = 0; r < w->p->n_results; r++) {
        if (!call)
            SAY("%s *", c_type(w->p->result[r].type));
        SAY("y%d, ", r);
    }
    SAY("%ssums", call ? "" : "float *");
}

/* Coordinates c<axis> of those axes of a mask, from their number `from`. */
static void write_coordinates(Writer *w, const char *from, uint32_t axes)
{
    const PointSpace *s = &w->space;
    bool              first = true;
    int               last = 0;
    while (last < s->rank && !(axes >> last & 1))
        last++;
    for (int a = s->rank - 1; a >= 0; a--) {
        if (!(axes >> a & 1))
            continue;
        if (a == last)
            SAY("    const I c%d = %s%s;\n", a, from, first ? "" : "_");
        else {
            SAY("    const I c%d = %s%s %% %lldu;\n", a, from, first ? "" : "_", (Long)s->dim[a]);
            if (first)
                SAY("    I %s_ = %s / %lldu;\n", from, from, (Long)s->dim[a]);
            else
                SAY("    %s_ /= %lldu;\n", from, (Long)s->dim[a]);
        }
        first = false;
    }
}

static void write_offset(Writer *w, const int64_t *stride)
{
    bool any = false;
    for (int a = 0; a < w->space.rank; a++)
        if (stride[a] > 0) {
            SAY("%sc%d", any ? " + " : "", a);
            if (stride[a] > 1)
                SAY(" * %lldu", (Long)stride[a]);
            any = true;
        }
    if (!any)
        SAY("0");
}

/* ---- stored results ---- */

/* Do all rows of an operand begin at a multiple of its pack? */
static bool packs(const PointSpace *s, int i, int width)
{
    for (int a = 0; a < s->rank - 1; a++)
        if (s->stride[i][a] % width)
            return false;
    return s->stride[i][s->rank - 1] == 1;
}

static int pack_width(const Writer *w)
{
    const PointwiseAttr *p = w->p;
    int                  widest = 1;
    for (int i = 0; i < p->n_in; i++)
        if (w->space.stride[i][w->space.rank - 1] == 1 && type_bytes(in_type(w->n, i)) > widest)
            widest = type_bytes(in_type(w->n, i));
    for (int r = 0; r < p->n_results; r++)
        if (p->result[r].reduce == POINT_STORED && type_bytes(p->result[r].type) > widest)
            widest = type_bytes(p->result[r].type);
    int width = 16 / widest > 8 ? 8 : 16 / widest;
    if (width > w->max_width)
        width = w->max_width;
    if (p->n_steps > 60 && width > 4)
        width = 4;
    /* in one axis what is left is computed singly */
    while (width > 1 && w->space.rank > 1 && w->space.dim[w->space.rank - 1] % width)
        width /= 2;
    return width;
}

static void write_loads(Writer *w, int width)
{
    const PointSpace *s = &w->space;
    for (int i = 0; i < w->p->n_steps; i++) {
        const PointStep *step = &w->p->step[i];
        if (!w->live[i] || step->op != POINT_INPUT)
            continue;
        int64_t inner = s->stride[step->a][s->rank - 1];
        SAY("    %s v%d[V]; { const I o = ", step->integer ? "int" : "float", i);
        write_offset(w, s->stride[step->a]);
        SAY("; ");
        if (packs(s, step->a, width))
            SAY("get_pack<V>(x%d + o, v%d); }\n", step->a, i);
        else if (inner == 0)
            SAY("const %s t = get(x%d + o);\n#pragma unroll\n      for (int j = 0; j < V; j++) "
                "v%d[j] = t; }\n",
                step->integer ? "int" : "float", step->a, i);
        else
            SAY("\n#pragma unroll\n      for (int j = 0; j < V; j++) v%d[j] = get(x%d + o + j * "
                "%lld); }\n",
                i, step->a, (Long)inner);
    }
}

static void write_stored(Writer *w, uint32_t results, int multiprocessors, PointSource *source)
{
    const PointwiseAttr *p = w->p;
    const PointSpace    *s = &w->space;
    int                  width = pack_width(w), threads = 256;
    mark_live(w, results);
    SAY("template <int V> DEVICE void points(const I at, ");
    write_params(w, false);
    SAY(")\n{\n");
    write_coordinates(w, "at", (1u << s->rank) - 1);
    write_loads(w, width);
    for (int r = 0; r < p->n_results; r++)
        if (results >> r & 1)
            SAY("    %s r%d[V];\n", p->step[p->result[r].step].integer ? "int" : "float", r);
    SAY("#pragma unroll\n    for (int j = 0; j < V; j++) {\n");
    for (int i = 0; i < p->n_steps; i++) {
        if (!w->live[i])
            continue;
        if (p->step[i].op == POINT_INPUT)
            SAY("    const %s s%d = v%d[j];\n", p->step[i].integer ? "int" : "float", i, i);
        else
            write_step(w, i);
    }
    for (int r = 0; r < p->n_results; r++)
        if (results >> r & 1)
            SAY("    r%d[j] = s%d;\n", r, p->result[r].step);
    SAY("    }\n");
    for (int r = 0; r < p->n_results; r++)
        if (results >> r & 1)
            SAY("    put_pack<V>(y%d + at, r%d);\n", r, r);
    SAY("}\nextern \"C\" __global__ void __launch_bounds__(%d) stored(", threads);
    write_params(w, false);
    SAY(")\n{\n    begin();\n    const I first = (I)blockIdx.x * %du + threadIdx.x, step = "
        "(I)gridDim.x "
        "* %du;\n    for (I k = first; k < %lldu; k += step) points<%d>(k * %du, ",
        threads, threads, (Long)(s->points / width), width, width);
    write_params(w, true);
    SAY(");\n");
    if (s->points % width) {
        SAY("    for (I k = %lldu + first; k < %lldu; k += step) points<1>(k, ",
            (Long)(s->points / width * width), (Long)s->points);
        write_params(w, true);
        SAY(");\n");
    }
    SAY("}\n");
    int64_t need = ceil_div(s->points / width, threads),
            most = (int64_t)multiprocessors * (2048 / threads) * 4;
    need = need < 1 ? 1 : need < most ? need : most;
    PointKernel *k = &source->kernel[source->n_kernels++];
    *k = (PointKernel){ .name = "stored",
                        .grid = { (unsigned)need, 1 },
                        .block = { (unsigned)threads, 1 } };
}

/* ---- reduced results ---- */

typedef struct Sums {             /* results that are reduced over the same axes */
    uint32_t results, gone, kept; /* masks of results and of axes */
    int64_t  outputs, extent;     /* sums, and elements of each */
    int64_t  splits, each;        /* of the extent, among blocks; elements of a split */
    bool     columns;             /* neighbouring threads have neighbouring sums */
    int      threads;             /* for a sum, if not columns: a warp or a block */
} Sums;

static const char *join_text(PointReduce how)
{
    return how == POINT_SUM ? "join_sum" : how == POINT_AMAX ? "larger" : "smaller";
}

static const char *start_text(PointReduce how, bool integer)
{
    if (integer)
        return how == POINT_SUM ? "0" : how == POINT_AMAX ? "(int)0x80000000" : "0x7fffffff";
    return how == POINT_SUM    ? "0.0f"
           : how == POINT_AMAX ? "__int_as_float(0xff800000)"
                               : "__int_as_float(0x7f800000)";
}

static Sums sums_of(const PointSpace *s, uint32_t results, uint32_t gone, int multiprocessors)
{
    Sums    u = { .results = results, .gone = gone, .kept = ((1u << s->rank) - 1) & ~gone };
    int64_t blocks = (int64_t)multiprocessors * 8;
    u.outputs = u.extent = 1;
    for (int a = 0; a < s->rank; a++)
        *(gone >> a & 1 ? &u.extent : &u.outputs) *= s->dim[a];
    u.columns = u.kept >> (s->rank - 1) & 1;
    u.threads = u.extent <= 1024 ? 32 : 256;
    int64_t rows = u.columns         ? ceil_div(u.outputs, 32)
                   : u.threads == 32 ? ceil_div(u.outputs, 8)
                                     : u.outputs;
    int64_t shortest = u.columns ? 64 : 4096;
    u.splits = blocks / (rows < 1 ? 1 : rows);
    if (u.splits > ceil_div(u.extent, shortest))
        u.splits = ceil_div(u.extent, shortest);
    if (u.splits > 1024)
        u.splits = 1024;
    if (u.splits < 1)
        u.splits = 1;
    u.each = ceil_div(u.extent, u.splits);
    u.splits = ceil_div(u.extent, u.each);
    return u;
}

/* The value of each result at the point whose coordinates are known, joined to a<result>. */
static void write_point(Writer *w, const Sums *u)
{
    const PointwiseAttr *p = w->p;
    for (int i = 0; i < p->n_steps; i++) {
        const PointStep *s = &p->step[i];
        if (!w->live[i])
            continue;
        if (s->op != POINT_INPUT) {
            write_step(w, i);
            continue;
        }
        SAY("    const %s s%d = get(x%d + (", s->integer ? "int" : "float", i, s->a);
        write_offset(w, w->space.stride[s->a]);
        SAY("));\n");
    }
    for (int r = 0; r < p->n_results; r++)
        if (u->results >> r & 1)
            SAY("    a%d = %s(s%d, a%d);\n", r, join_text(p->result[r].reduce), p->result[r].step,
                r);
}

/* a<result>, the sum of output m and split s, goes to the result or to the partial sums. */
static void write_end(Writer *w, const Sums *u, int64_t at)
{
    const PointwiseAttr *p = w->p;
    for (int r = 0; r < p->n_results; r++) {
        if (!(u->results >> r & 1))
            continue;
        bool integer = p->step[p->result[r].step].integer;
        if (u->splits > 1) {
            SAY("    sums[%lldu + s * %lldu + m] = %sa%d%s;\n", (Long)at, (Long)u->outputs,
                integer ? "__int_as_float(" : "", r, integer ? ")" : "");
            at += u->splits * u->outputs;
        } else {
            uint32_t bits;
            memcpy(&bits, &p->result[r].scale, 4);
            if (p->result[r].reduce == POINT_SUM && !integer && p->result[r].scale != 1)
                SAY("    put(y%d + m, a%d * __uint_as_float(0x%xu));\n", r, r, bits);
            else
                SAY("    put(y%d + m, a%d);\n", r, r);
        }
    }
}

static void write_accumulators(Writer *w, const Sums *u)
{
    for (int r = 0; r < w->p->n_results; r++)
        if (u->results >> r & 1) {
            bool integer = w->p->step[w->p->result[r].step].integer;
            SAY("    %s a%d = %s;\n", integer ? "int" : "float", r,
                start_text(w->p->result[r].reduce, integer));
        }
}

/* Over the lanes of a warp; afterwards, if the sum has a block, over its warps. */
static void write_tree(Writer *w, const Sums *u)
{
    for (int r = 0; r < w->p->n_results; r++) {
        if (!(u->results >> r & 1))
            continue;
        PointReduce how = w->p->result[r].reduce;
        bool        integer = w->p->step[w->p->result[r].step].integer;
        const char *type = integer ? "int" : "float";
        SAY("#pragma unroll\n    for (int d = 16; d; d >>= 1)\n        a%d = %s(__shfl_xor_sync("
            "0xffffffffu, a%d, d), a%d);\n",
            r, join_text(how), r, r);
        if (u->threads == 32)
            continue;
        SAY("    { __shared__ %s t[8];\n      if (threadIdx.x %% 32 == 0) t[threadIdx.x / 32] = "
            "a%d;\n      __syncthreads();\n      a%d = t[0];\n#pragma unroll\n      for (int k = "
            "1; "
            "k < 8; k++) a%d = %s(t[k], a%d); }\n",
            type, r, r, r, join_text(how), r);
    }
}

static void write_row_sums(Writer *w, const Sums *u, int number, int64_t at)
{
    SAY("extern \"C\" __global__ void __launch_bounds__(256) sums%d(", number);
    write_params(w, false);
    SAY(")\n{\n    begin();\n");
    if (u->threads == 32)
        SAY("    const I b = (I)blockIdx.x * 8u + threadIdx.x / 32u, lane = threadIdx.x %% 32u;\n"
            "    if (b >= %lldu) return;\n",
            (Long)(u->outputs * u->splits));
    else
        SAY("    const I b = blockIdx.x, lane = threadIdx.x;\n");
    SAY("    const I m = b / %lldu, s = b %% %lldu, end = s * %lldu + %lldu;\n", (Long)u->splits,
        (Long)u->splits, (Long)u->each, (Long)u->each);
    write_coordinates(w, "m", u->kept);
    write_accumulators(w, u);
    SAY("    for (I l = s * %lldu + lane; l < %lldu && l < end; l += %du) {\n", (Long)u->each,
        (Long)u->extent, u->threads);
    write_coordinates(w, "l", u->gone);
    write_point(w, u);
    SAY("    }\n");
    write_tree(w, u);
    SAY("    if (lane) return;\n");
    write_end(w, u, at);
    SAY("}\n");
}

static void write_column_sums(Writer *w, const Sums *u, int number, int64_t at)
{
    const PointwiseAttr *p = w->p;
    SAY("extern \"C\" __global__ void __launch_bounds__(256) sums%d(", number);
    write_params(w, false);
    SAY(")\n{\n    begin();\n    const I m = (I)blockIdx.x * 32u + threadIdx.x, s = blockIdx.y, "
        "end "
        "= s * %lldu + %lldu;\n",
        (Long)u->each, (Long)u->each);
    write_accumulators(w, u);
    SAY("    if (m < %lldu) {\n", (Long)u->outputs);
    write_coordinates(w, "m", u->kept);
    SAY("    for (I l = s * %lldu + threadIdx.y; l < %lldu && l < end; l += 8u) {\n", (Long)u->each,
        (Long)u->extent);
    write_coordinates(w, "l", u->gone);
    write_point(w, u);
    SAY("    }\n    }\n");
    for (int r = 0; r < p->n_results; r++)
        if (u->results >> r & 1) {
            const char *type = p->step[p->result[r].step].integer ? "int" : "float";
            SAY("    __shared__ %s t%d[8][32];\n    t%d[threadIdx.y][threadIdx.x] = a%d;\n", type,
                r, r, r);
        }
    SAY("    __syncthreads();\n    if (threadIdx.y || m >= %lldu) return;\n", (Long)u->outputs);
    for (int r = 0; r < p->n_results; r++)
        if (u->results >> r & 1)
            SAY("#pragma unroll\n    for (int k = 1; k < 8; k++) a%d = %s(t%d[k][threadIdx.x], "
                "a%d);\n",
                r, join_text(p->result[r].reduce), r, r);
    write_end(w, u, at);
    SAY("}\n");
}

/* The partial sums of each output, in order. */
static void write_last(Writer *w, const Sums *u, int number, int64_t at)
{
    const PointwiseAttr *p = w->p;
    Sums                 whole = *u;
    whole.splits = 1;
    SAY("extern \"C\" __global__ void __launch_bounds__(128) last%d(", number);
    write_params(w, false);
    SAY(")\n{\n    begin();\n    const I m = (I)blockIdx.x * 128u + threadIdx.x;\n    if (m >= "
        "%lldu) "
        "return;\n",
        (Long)u->outputs);
    write_accumulators(w, u);
    for (int r = 0; r < p->n_results; r++) {
        if (!(u->results >> r & 1))
            continue;
        bool integer = p->step[p->result[r].step].integer;
        SAY("#pragma unroll 8\n    for (int s = 0; s < %lld; s++) a%d = %s(%ssums[%lldu + s * "
            "%lldu "
            "+ m]%s, a%d);\n",
            (Long)u->splits, r, join_text(p->result[r].reduce), integer ? "__float_as_int(" : "",
            (Long)at, (Long)u->outputs, integer ? ")" : "", r);
        at += u->splits * u->outputs;
    }
    write_end(w, &whole, 0);
    SAY("}\n");
}

static void write_sums(Writer *w, const Sums *u, int number, PointSource *source)
{
    int64_t at = source->workspace_bytes / 4;
    mark_live(w, u->results);
    if (u->columns)
        write_column_sums(w, u, number, at);
    else
        write_row_sums(w, u, number, at);
    PointKernel *k = &source->kernel[source->n_kernels++];
    int64_t      blocks = u->columns         ? ceil_div(u->outputs, 32)
                          : u->threads == 32 ? ceil_div(u->outputs * u->splits, 8)
                                             : u->outputs * u->splits;
    *k = (PointKernel){ .grid = { (unsigned)blocks, u->columns ? (unsigned)u->splits : 1 },
                        .block = { u->columns ? 32 : 256, u->columns ? 8 : 1 } };
    snprintf(k->name, sizeof k->name, "sums%d", number);
    if (u->splits == 1)
        return;
    write_last(w, u, number, at);
    k = &source->kernel[source->n_kernels++];
    *k = (PointKernel){ .grid = { (unsigned)ceil_div(u->outputs, 128), 1 }, .block = { 128, 1 } };
    snprintf(k->name, sizeof k->name, "last%d", number);
    for (int r = 0; r < w->p->n_results; r++)
        if (u->results >> r & 1)
            source->workspace_bytes += u->splits * u->outputs * 4;
}

void point_source(Pool *pool, const Node *n, int multiprocessors, int max_width,
                  PointSource *source)
{
    Text   text = { .pool = pool };
    Writer writer = {
        .out = pool ? &text : NULL, .n = n, .p = ATTR(n, PointwiseAttr), .max_width = max_width
    };
    Writer *w = &writer;
    memset(source, 0, sizeof *source);
    point_space(w->p, &w->space);
    SAY("typedef %s I;\n", w->space.points < INT32_MAX ? "unsigned" : "unsigned long long");
    SAY("%s", prelude);
    uint32_t stored = 0, done = 0;
    for (int r = 0; r < w->p->n_results && r < POINT_RESULTS; r++)
        stored |= (uint32_t)(w->p->result[r].reduce == POINT_STORED) << r;
    done = stored;
    for (int r = 0, number = 0; r < w->p->n_results; r++) {
        uint32_t same = 0;
        if (done >> r & 1)
            continue;
        for (int q = r; q < w->p->n_results; q++)
            if (!(done >> q & 1) && w->space.reduced[q] == w->space.reduced[r])
                same |= 1u << q;
        Sums u = sums_of(&w->space, same, w->space.reduced[r], multiprocessors);
        write_sums(w, &u, number++, source);
        done |= same;
    }
    if (stored) /* last: result 0 may take the bytes of an operand that sums read */
        write_stored(w, stored, multiprocessors, source);
    source->text = text.at;
}
