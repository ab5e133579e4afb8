/* layernorm_cuda.cu -- norms over the last axis on CUDA: how rows are cut, and the operators. */
#include "ops/norm/layernorm_cuda.h"

extern "C" {
#include "ops/norm/layernorm.h"
}

/* How a row of `count` packs lies in the lanes of a warp: the least room, then the fewest packs in
 * a lane. packs 0: it is too long. */
typedef struct Team {
    int lanes, packs;
} Team;

static Team team_of(int64_t count)
{
    Team best = { 32, 0 };
    for (int lanes = 32; lanes >= 1; lanes /= 2) {
        int64_t packs = ceil_div(count, lanes);
        bool    may = packs <= (lanes == 32 ? 5 : lanes >= 8 ? 3 : 1);
        if (may && (!best.packs || packs * lanes < best.packs * best.lanes))
            best = Team{ lanes, (int)packs };
    }
    return best;
}

/* Blocks that take part in sums over rows: as many as the GPU holds at once. Workspace depends on
 * it, so it follows from the shape alone, not from how a pointer is aligned. */
static int64_t rows_blocks(const RowsCuda *job, int sms)
{
    int  wide = 16 / (int)type_bytes(job->type), v = job->width % wide == 0 ? wide
                                                     : job->width % 4 == 0  ? 4
                                                                            : 1;
    Team team = team_of(job->width / v);
    int  numbers = team.packs * v, bytes = numbers * (int)type_bytes(job->type);
    return (int64_t)sms * (!team.packs              ? 4
                           : v > 1 && !job->scalar  ? ring_blocks(numbers, bytes)
                                                    : back_blocks(numbers, job->scalar));
}

static RowsCuda rows_of(const Node *n, int64_t samples, int sms, bool scalar)
{
    const int64_t least = BACK_THREADS / 32;     /* rows of a piece: one for each warp */
    Shape    x = in_shape(n, 0);
    RowsCuda job = {};
    job.width = dim(x, -1);
    job.rows = shape_count(x) / job.width;
    job.per = job.rows / samples;
    job.type = in_type(n, 0);
    job.type_w = F32;
    job.scalar = scalar;
    job.eps = ATTR(n, LayernormAttr)->eps;
    int64_t want = rows_blocks(&job, sms) / samples, most = ceil_div(job.per, least);
    want = want < 1 ? 1 : want;              /* no more than the GPU holds: one too many doubles */
    job.piece = ceil_div(job.per, want < most ? want : most);
    job.pieces = ceil_div(job.per, job.piece);
    return job;
}

static size_t rows_bytes(const RowsCuda *job)
{
    return (size_t)(job->rows / job->per * job->pieces * 2 * (job->scalar ? 1 : job->width)) *
           sizeof(float);
}

/* To packs of v, or to 16 bytes where that is less. */
static bool aligned(const void *p, Type type, int v)
{
    int64_t bytes = v * type_bytes(type);
    return (intptr_t)p % (bytes < 16 ? bytes : 16) == 0;
}

static bool vectors_fit(RowsCuda *job, int v)
{
    const void *rows[] = { job->x, job->dy, job->y, job->before };
    if (v > 1 && job->width % v)
        return false;
    for (const void *p : rows)
        if (v > 1 && !aligned(p, job->type, v))
            return false;
    job->vectors_w = v > 1 && aligned(job->weight, job->type_w, v) &&
                     aligned(job->bias, job->type_w, v) && job->pitch % v == 0;
    return true;
}

/* Runs the statements with K the packs of a lane, a constant. */
#define WITH_PACKS(packs, K, ...)                               \
    switch (packs) {                                            \
    case 1:  { constexpr int K = 1; __VA_ARGS__ } break;        \
    case 2:  { constexpr int K = 2; __VA_ARGS__ } break;        \
    case 3:  { constexpr int K = 3; __VA_ARGS__ } break;        \
    case 4:  { constexpr int K = 4; __VA_ARGS__ } break;        \
    default: { constexpr int K = 5; __VA_ARGS__ } break;        \
    }

/* One number at a time needs no forms. */
#define WITH_AFFINE(form, FORM, ...)                                                            \
    switch (V > 1 ? (form) : AFFINE_ANY) {                                                      \
    case AFFINE_SAME: {                                                                         \
        constexpr Affine FORM = V > 1 ? AFFINE_SAME : AFFINE_ANY;                               \
        __VA_ARGS__                                                                             \
    } break;                                                                                    \
    case AFFINE_SCALAR: {                                                                       \
        constexpr Affine FORM = V > 1 ? AFFINE_SCALAR : AFFINE_ANY;                             \
        __VA_ARGS__                                                                             \
    } break;                                                                                    \
    default: {                                                                                  \
        constexpr Affine FORM = AFFINE_ANY;                                                     \
        __VA_ARGS__                                                                             \
    } break;                                                                                    \
    }

static Affine affine_of(const RowsCuda *job, bool both)
{
    bool given = job->weight && (!both || job->bias);
    return job->scalar                                                  ? AFFINE_SCALAR
           : given && job->vectors_w && job->type_w == job->type        ? AFFINE_SAME
                                                                        : AFFINE_ANY;
}

/* Ring kernels count a sample's rows in int. */
static bool ring_takes(const RowsCuda *job, int v)
{
    return v > 1 && !job->scalar && job->rows < 1 << 30;
}

static void ring_launch(const Call *call, void (*kernel)(RowsCuda), unsigned blocks,
                        unsigned threads, int shared, const RowsCuda &job)
{
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    cuda_launch(cuda_stream(call), kernel, blocks, threads, (size_t)shared, job);
}

/* Measured on an H200: rings of up to 16 numbers a lane are faster (468 and 256 wide), of 24 and 40
 * slower, where registers hold as many blocks without. */
template <class T, int V>
static bool ring_forward(const Call *call, const RowsCuda &job, Team team, Affine form)
{
    if (!ring_takes(&job, V) || !team.packs || team.packs * V > 16)
        return false;
    if constexpr (V > 1) {
        unsigned sms = (unsigned)cuda_handle(call)->sms;
        unsigned blocks = cuda_blocks(call, job.rows * job.lanes, ROW_THREADS);
        WITH_PACKS(team.packs, K, {
            constexpr int P = K * V > 16 ? 1 : K;
            constexpr int bytes = RING * P * (int)sizeof(Pack<T, V>) * ROW_THREADS;
            unsigned      turn = sms * (unsigned)forward_blocks(P * V, false);
            ring_launch(call, form == AFFINE_SAME ? rows_forward_ring<T, V, P, AFFINE_SAME>
                                                  : rows_forward_ring<T, V, P, AFFINE_ANY>,
                        blocks < turn ? blocks : turn, ROW_THREADS, bytes, job);
        })
    }
    return true;
}

template <class T, int V>
static bool ring_backward(const Call *call, const RowsCuda &job, Team team, Affine form)
{
    if (!ring_takes(&job, V) || !team.packs)
        return false;
    if constexpr (V > 1) {
        int join = BACK_THREADS / 32 * join_numbers(team.lanes, team.packs * V) *
                   (int)sizeof(float);
        int ring = back_ring(team.packs * (int)sizeof(Pack<T, V>));
        WITH_PACKS(team.packs, K, {
            ring_launch(call, form == AFFINE_SAME ? rows_backward_ring<T, V, K, AFFINE_SAME>
                                                  : rows_backward_ring<T, V, K, AFFINE_ANY>,
                        (unsigned)(job.rows / job.per * job.pieces), BACK_THREADS,
                        ring < join ? join : ring, job);
        })
    }
    return true;
}

template <class T, int V> static void launch_forward(const Call *call, RowsCuda job)
{
    int64_t      count = job.width / V;
    Team         team = team_of(count);
    cudaStream_t stream = cuda_stream(call);
    job.lanes = team.lanes;
    unsigned     blocks = cuda_blocks(call, job.rows * job.lanes, ROW_THREADS);
    Affine       form = affine_of(&job, true);
    if (ring_forward<T, V>(call, job, team, form))
        return;
    if (team.packs) {
        WITH_AFFINE(form, FORM, WITH_PACKS(team.packs, K,
                                           cuda_launch(stream, rows_forward<T, V, K, false, FORM>,
                                                       blocks, ROW_THREADS, 0, job);))
    } else if (count <= BLOCK_ROW_THREADS) {
        job.lanes = (int)ceil_div(count, 32) * 32;
        blocks = cuda_blocks(call, job.rows * job.lanes, job.lanes);
        WITH_AFFINE(form, FORM, cuda_launch(stream, rows_forward<T, V, 1, true, FORM>, blocks,
                                            (unsigned)job.lanes, 0, job);)
    } else {
        blocks = cuda_blocks(call, job.rows * ROW_THREADS, ROW_THREADS);
        job.vectors_w = false;
        cuda_launch(stream, rows_forward_wide<T>, blocks, ROW_THREADS, 0, job);
    }
}

template <class T, int V> static void launch_backward(const Call *call, RowsCuda job)
{
    int64_t      count = job.width / V;
    Team         team = team_of(count);
    cudaStream_t stream = cuda_stream(call);
    unsigned     blocks = (unsigned)(job.rows / job.per * job.pieces);
    Affine       form = affine_of(&job, false);
    job.lanes = team.lanes;
    if (ring_backward<T, V>(call, job, team, form))
        return;
    if (team.packs) {
        size_t shared = 0;
        if (job.partial && !job.scalar)
            shared = (size_t)(BACK_THREADS / 32 * join_numbers(team.lanes, team.packs * V)) *
                     sizeof(float);
        WITH_AFFINE(form, FORM, WITH_PACKS(team.packs, K,
                                           cuda_launch(stream, rows_backward<T, V, K, false, FORM>,
                                                       blocks, BACK_THREADS, shared, job);))
    } else if (count <= BLOCK_ROW_THREADS) {
        job.lanes = (int)ceil_div(count, 32) * 32;
        WITH_AFFINE(form, FORM, cuda_launch(stream, rows_backward<T, V, 1, true, FORM>, blocks,
                                            (unsigned)job.lanes, 0, job);)
    } else {
        job.vectors_w = false;
        cuda_launch(stream, rows_backward_wide<T>, blocks, ROW_THREADS, 0, job);
    }
}

#define WITH_VECTORS(job, launch)                                        \
    WITH_FLOAT((job).type, T, {                                          \
        constexpr int wide = 16 / (int)sizeof(T);                        \
        if (vectors_fit(&(job), wide))                                   \
            launch<T, wide>(call, job);                                  \
        else if (vectors_fit(&(job), 4))                                 \
            launch<T, 4>(call, job);                                     \
        else if (vectors_fit(&(job), 1))                                 \
            launch<T, 1>(call, job);                                     \
    })

static Err rows_run_forward(const Call *call, RowsCuda job)
{
    job.x = call->in[0];
    job.y = call->out[0];
    WITH_VECTORS(job, launch_forward);
    CUDA_LAUNCHED();
    return OK;
}

/* in: x ... dy, and behind it what dx is added to or none */
static Err rows_run_backward(const Call *call, RowsCuda job, int dy, bool sums)
{
    if (in_type(call->node, dy) != job.type)
        return fail(E_DEVICE, "%s: x and dy differ in type, which has no CUDA kernel",
                    call->node->op->name);
    job.x = call->in[0];
    job.dy = call->in[dy];
    job.before = call->in[dy + 1];
    job.y = call->out[0];
    job.partial = sums ? (float *)call->workspace : NULL;
    WITH_VECTORS(job, launch_backward);
    CUDA_LAUNCHED();
    return OK;
}

static Err rows_run_totals(const Call *call, const RowsCuda *job, Totals to)
{
    to.partial = (const float *)call->workspace;
    to.pieces = job->pieces;
    to.width = job->scalar ? 1 : job->width;
    dim3 blocks((unsigned)ceil_div(to.columns, 32), (unsigned)(job->rows / job->per));
    /* many blocks shall all be there at once, few shall have all loads under way */
    unsigned lines = blocks.x * blocks.y > (unsigned)cuda_handle(call)->sms ? 8 : 32;
    cuda_launch(cuda_stream(call), rows_totals, blocks, dim3(32, lines), 0, to);
    CUDA_LAUNCHED();
    return OK;
}

static int sms_of(const Device *device) { return ((const CudaHandle *)device->handle)->sms; }

/* ---- layernorm ---- */

static RowsCuda layernorm_rows(const Call *call)
{
    RowsCuda job = rows_of(call->node, 1, cuda_handle(call)->sms, false);
    if (in_given(call->node, 1))
        job.type_w = in_type(call->node, 1);
    job.weight = call->in[1];
    return job;
}

extern "C" Err layernorm_cuda(const Call *call)
{
    RowsCuda job = layernorm_rows(call);
    job.bias = call->in[2];
    return rows_run_forward(call, job);
}

static bool layernorm_sums(const Node *n)
{
    return ATTR(n, LayernormAttr)->wants[1] || ATTR(n, LayernormAttr)->wants[2];
}

extern "C" Err layernorm_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    RowsCuda job = rows_of(n, 1, sms_of(device), false);
    choice->workspace_bytes = layernorm_sums(n) ? rows_bytes(&job) : 0;
    choice->name = "builtin";
    return OK;
}

extern "C" Err layernorm_grad_cuda(const Call *call)
{
    RowsCuda job = layernorm_rows(call);
    bool     sums = layernorm_sums(call->node);
    TRY(rows_run_backward(call, job, 2, sums));
    if (!sums)
        return OK;
    Totals to = {};
    to.columns = 2 * job.width;
    to.at[1] = job.width;
    to.type = F32;
    to.out[0] = call->out[1];
    to.out[1] = call->out[2];
    return rows_run_totals(call, &job, to);
}

/* ---- layernorm_modulate ---- */

static RowsCuda modulate_rows(const Node *n, const void *packed, int sms)
{
    const LayernormAttr *attr = ATTR(n, LayernormAttr);
    Shape                shape = in_shape(n, 1);
    RowsCuda             job = rows_of(n, shape.dim[0], sms, false);
    size_t               bytes = in_type(n, 1) == F32 ? 4 : 2;
    job.type_w = in_type(n, 1);
    job.pitch = shape.dim[1];
    job.plus = 1;
    job.weight = (const char *)packed + (size_t)attr->scale_at * bytes;
    job.bias = (const char *)packed + (size_t)attr->shift_at * bytes;
    return job;
}

extern "C" Err layernorm_modulate_cuda(const Call *call)
{
    return rows_run_forward(call, modulate_rows(call->node, call->in[1], cuda_handle(call)->sms));
}

extern "C" Err layernorm_modulate_grad_choose_cuda(const Node *n, const Device *device,
                                                   Choice *choice)
{
    RowsCuda job = rows_of(n, in_shape(n, 1).dim[0], sms_of(device), false);
    choice->workspace_bytes = ATTR(n, LayernormAttr)->wants[1] ? rows_bytes(&job) : 0;
    choice->name = "builtin";
    return OK;
}

extern "C" Err layernorm_modulate_grad_cuda(const Call *call)
{
    const LayernormAttr *attr = ATTR(call->node, LayernormAttr);
    RowsCuda             job = modulate_rows(call->node, call->in[1], cuda_handle(call)->sms);
    TRY(rows_run_backward(call, job, 2, attr->wants[1]));
    if (!attr->wants[1])
        return OK;
    Totals to = {};
    to.columns = job.pitch;
    to.at[0] = attr->scale_at;
    to.at[1] = attr->shift_at;
    to.type = out_type(call->node, 1);
    to.out[0] = to.out[1] = call->out[1];
    to.packed = true;
    return rows_run_totals(call, &job, to);
}

/* ---- scalar_norm ---- */

static RowsCuda scalar_rows(const Node *n, int sms)
{
    RowsCuda job = rows_of(n, 1, sms, true);
    job.eps = 0;
    return job;
}

/* m and s of one type: the common case; else each would need its own. */
static Err scalar_numbers(const Call *call, RowsCuda *job)
{
    if (in_type(call->node, 1) != in_type(call->node, 2))
        return fail(E_DEVICE, "%s: m and s differ in type, which has no CUDA kernel",
                    call->node->op->name);
    job->type_w = in_type(call->node, 1);
    job->bias = call->in[1];
    job->weight = call->in[2];
    return OK;
}

extern "C" Err scalar_norm_cuda(const Call *call)
{
    RowsCuda job = scalar_rows(call->node, cuda_handle(call)->sms);
    TRY(scalar_numbers(call, &job));
    return rows_run_forward(call, job);
}

static bool scalar_sums(const Node *n)
{
    return ATTR(n, LayernormAttr)->wants[1] || ATTR(n, LayernormAttr)->wants[2];
}

extern "C" Err scalar_norm_grad_choose_cuda(const Node *n, const Device *device, Choice *choice)
{
    RowsCuda job = scalar_rows(n, sms_of(device));
    choice->workspace_bytes = scalar_sums(n) ? rows_bytes(&job) : 0;
    choice->name = "builtin";
    return OK;
}

extern "C" Err scalar_norm_grad_cuda(const Call *call)
{
    RowsCuda job = scalar_rows(call->node, cuda_handle(call)->sms);
    TRY(scalar_numbers(call, &job));
    TRY(rows_run_backward(call, job, 3, scalar_sums(call->node)));
    if (!scalar_sums(call->node))
        return OK;
    Totals to = {};
    to.columns = 2;
    to.at[1] = 1;
    to.type = F32;
    to.out[0] = call->out[2];                /* s stands where the weight does */
    to.out[1] = call->out[1];
    return rows_run_totals(call, &job, to);
}

CUDA_KERNEL(layernorm, .run = layernorm_cuda)
CUDA_KERNEL(layernorm_grad, .choose = layernorm_grad_choose_cuda, .run = layernorm_grad_cuda)
CUDA_KERNEL(layernorm_modulate, .run = layernorm_modulate_cuda)
CUDA_KERNEL(layernorm_modulate_grad, .choose = layernorm_modulate_grad_choose_cuda,
            .run = layernorm_modulate_grad_cuda)
CUDA_KERNEL(scalar_norm, .run = scalar_norm_cuda)
CUDA_KERNEL(scalar_norm_grad, .choose = scalar_norm_grad_choose_cuda, .run = scalar_norm_grad_cuda)
