/* lengths.c -- the length that a parameter is valid for, and its conversion to another. */
#include "train/lengths.h"

#include "device/convert.h"
#include "ops/ops.h"
#include "ops/s4/s4_kernel.h"
#include "ops/s4/s4_step.h"

#include <stdlib.h>
#include <string.h>

/* The S4 kernel whose C this parameter is, or NULL. */
static const Node *s4_kernel_of(const Graph *graph, const Param *param)
{
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op == &op_s4_kernel && graph->nodes[i].in[S4_C] == param->value)
            return &graph->nodes[i];
    return NULL;
}

const char *const *lengths_metadata(Pool *pool, const Graph *graph, const char *const *pairs)
{
    const char **all = NULL;
    int          n = 0, cap = 0;
    for (; pairs && *pairs; pairs++)
        VEC_ADD(pool, all, n, cap, *pairs);
    for (int32_t i = 0; i < graph->n_params; i++) {
        const Node *kernel = s4_kernel_of(graph, &graph->params[i]);
        if (!kernel)
            continue;
        VEC_ADD(pool, all, n, cap, pool_print(pool, "length/%s", graph->params[i].name));
        VEC_ADD(pool, all, n, cap,
                pool_print(pool, "%lld", (long long)ATTR(kernel, S4KernelAttr)->length));
    }
    VEC_ADD(pool, all, n, cap, NULL);
    return all;
}

static const char buffer_name[] = "l_kernel";

/* "a.b.l_kernel" of "a.b.C" */
static const char *buffer_beside(Pool *pool, const char *name)
{
    const char *dot = strrchr(name, '.');
    return pool_print(pool, "%.*s%s", dot ? (int)(dot - name) + 1 : 0, name, buffer_name);
}

const char *lengths_buffer_of(Pool *pool, const Graph *graph, const Param *param, int64_t *length)
{
    const Node *kernel = s4_kernel_of(graph, param);
    if (!kernel)
        return NULL;
    *length = ATTR(kernel, S4KernelAttr)->length;
    return buffer_beside(pool, param->name);
}

bool lengths_buffer(const Graph *graph, const char *name)
{
    size_t n = strlen(name), last = sizeof buffer_name - 1;
    if (n < last || strcmp(name + n - last, buffer_name) != 0)
        return false;
    for (int32_t i = 0; i < graph->n_params; i++) {
        const char *other = graph->params[i].name;
        if (!strncmp(other, name, n - last) && !strchr(other + n - last, '.') &&
            s4_kernel_of(graph, &graph->params[i]))
            return true;
    }
    return false;
}

/* What the original's buffer says, or `otherwise`. */
static Err length_in_buffer(Pool *pool, const char *path, const SafeFile *file, const char *name,
                            int64_t otherwise, int64_t *length)
{
    const SafeTensor *t = safetensors_find(file, buffer_beside(pool, name));
    int32_t           narrow = 0;
    *length = otherwise;
    if (!t)
        return OK;
    if (t->type == SAFE_I64 && t->n_bytes == 8)
        memcpy(length, t->data, 8);
    else if (t->type == SAFE_I32 && t->n_bytes == 4) {
        memcpy(&narrow, t->data, 4);
        *length = narrow;
    } else
        return fail(E_FORMAT, "%s: %s must be one whole number, the length of its kernel", path,
                    t->name);
    if (*length < 0 || *length > (int64_t)1 << 40)
        return fail(E_FORMAT, "%s: %s says length %lld, which must be a number of steps", path,
                    t->name, (long long)*length);
    return OK;
}

/* The length that the file says for this parameter, or `otherwise`. */
static Err length_in(const char *path, const SafeFile *file, const char *name, int64_t otherwise,
                     int64_t *length)
{
    Pool       *pool = pool_new(NULL, "length");
    const char *text = NULL;
    char       *end = NULL;
    Err         err = file->metadata
                          ? json_maybe_text(file->metadata, pool_print(pool, "length/%s", name), &text)
                          : OK;
    if (!err && !text)
        err = length_in_buffer(pool, path, file, name, otherwise, length);
    pool_free(pool);
    TRY(err);
    if (!text)
        return OK;
    *length = strtoll(text, &end, 10);
    if (end == text || *end || *length < 1 || *length > (int64_t)1 << 40)
        return fail(E_FORMAT, "%s: the length of %s is '%s'; it must be a number of steps", path,
                    name, text);
    return OK;
}

Err lengths_max(const char *path, const SafeFile *file, int64_t *max)
{
    *max = 0;
    for (uint32_t i = 0; file->metadata && i < file->metadata->n; i++) {
        const JsonMember *m = &file->metadata->members[i];
        int64_t           length;
        if (strncmp(m->key, "length/", 7))
            continue;
        TRY(length_in(path, file, m->key + 7, 0, &length));
        *max = length > *max ? length : *max;
    }
    return OK;
}

Err lengths_same(const char *path, const SafeFile *file, const Graph *graph)
{
    for (int32_t i = 0; i < graph->n_params; i++) {
        const Node *kernel = s4_kernel_of(graph, &graph->params[i]);
        int64_t     has, wants = kernel ? ATTR(kernel, S4KernelAttr)->length : 0;
        if (!kernel)
            continue;
        TRY(length_in(path, file, graph->params[i].name, wants, &has));
        if (has != wants)
            return fail(E_USAGE,
                        "%s: %s was trained at length %lld, but the model has %lld; a run keeps "
                        "its length, but its weights can start another: --init %s --init-partial",
                        path, graph->params[i].name, (long long)has, (long long)wants, path);
    }
    return OK;
}

Err tensor_f32(Pool *pool, const char *path, const SafeTensor *t, float **out)
{
    static const Type map[SAFE_COUNT] = { [SAFE_F32] = F32, [SAFE_BF16] = BF16, [SAFE_F16] = F16 };
    int64_t           n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->shape[i];
    float *data = NEWN(pool, float, n > 0 ? n : 1);
    if (t->type == SAFE_F64)
        for (int64_t i = 0; i < n; i++) {
            double d;
            memcpy(&d, (const char *)t->data + 8 * i, 8);
            data[i] = (float)d;
        }
    else if (t->type == SAFE_F32)
        memcpy(data, t->data, (size_t)n * 4);
    else if (t->type == SAFE_BF16 || t->type == SAFE_F16)
        convert_rows(F32, data, map[t->type], t->data, (size_t)n);
    else
        return fail(E_FORMAT, "%s: %s holds %s; save it as F32, BF16 or F16", path, t->name,
                    safe_type_name(t->type));
    *out = data;
    return OK;
}

/* The kernel's other parameters are read from the same file: C~ was computed with them. */
static Err kernel_params(Pool *pool, const char *path, const SafeFile *file, const Graph *graph,
                         const Node *kernel, S4Params *params)
{
    float *data[S4_PARAMS] = { 0 };
    for (int i = 0; i < S4_PARAMS; i++) {
        const Param      *p = param_of(graph, kernel->in[i]);
        const SafeTensor *t = p ? safetensors_find(file, p->name) : NULL;
        int64_t           n = 1;
        for (int a = 0; t && a < t->rank; a++)
            n *= t->shape[a];
        if (!p || !t || n != shape_count(p->disk))
            return fail(E_FORMAT,
                        "%s has a C of another length, but not the %s of its layer that its "
                        "conversion needs",
                        path, p ? p->name : "parameter");
        TRY(tensor_f32(pool, path, t, &data[i]));
    }
    Shape c = param_of(graph, kernel->in[S4_C])->disk;
    *params = (S4Params){ .channels = c.dim[1],
                          .pairs = c.dim[2],
                          .inv_dt = data[S4_INV_DT],
                          .c = data[S4_C],
                          .b = data[S4_B],
                          .p = data[S4_P],
                          .a_real = data[S4_A_REAL],
                          .a_imag = data[S4_A_IMAG] };
    return OK;
}

Err lengths_tensor(Pool *pool, const char *path, const SafeFile *file, const Graph *graph,
                   const Param *param, const SafeTensor *tensor, float **out)
{
    const Node *kernel = s4_kernel_of(graph, param);
    int64_t     from, to = kernel ? ATTR(kernel, S4KernelAttr)->length : 0;
    TRY(tensor_f32(pool, path, tensor, out));
    if (!kernel)
        return OK;
    TRY(length_in(path, file, param->name, to, &from));
    if (from == to)
        return OK;
    S4Params params;
    TRY(kernel_params(pool, path, file, graph, kernel, &params));
    return s4_c_convert(&params, from, to, *out);
}

/* An S4 layer's C is valid only for the length it was trained at. */
Err lengths_as_trained(Pool *pool, const char *run, int64_t step, int64_t wants)
{
    const char *path = pool_print(pool, "%s/step-%06lld.safetensors", run, (long long)step);
    int64_t     has;
    SafeFile    file;
    TRY(safetensors_read(pool, path, &file));
    TRY(lengths_max(path, &file, &has));
    if (has && wants && has != wants)
        return fail(E_USAGE,
                    "model.length: %s was trained at %lld, not %lld; leave it as it is, and set "
                    "sampler.length to the number of steps to draw",
                    run, (long long)has, (long long)wants);
    return OK;
}
