/* linalg.c -- loads the oneDNN backend, chooses backends, and caches primitives.
 *
 *   description, threads, preferred backend -> a primitive, made once in the life of the process
 *
 * A missing oneDNN plugin is not an error: the built-in backend can do everything.
 */
#include "linalg/linalg.h"

#include "base/hash.h"
#include "linalg/builtin.h"
#include "device/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#define PLUGIN_FILE "libplimsoll_dnnl.so"

/* Fields are copied into zeroed memory, so that keys compare as bytes. Fields that do not matter
 * stay zero: one primitive then serves all descriptions that mean the same. */
typedef struct PrimKey {
    const Backend *backend;
    int64_t        threads, is_conv;
    int64_t        numbers[32];
} PrimKey;

typedef struct PrimEntry {
    PrimKey     key;
    const Prim *prim;
} PrimEntry;

static struct {
    pthread_mutex_t lock;
    Pool           *pool;  /* lives as long as the process */
    PrimEntry     **slots; /* open addressing; n_slots is a power of two */
    size_t          n_slots, n_used;
    bool            looked;
    const Backend  *dnnl;
    char            why[512];
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* --- the plugin --- */

static void linalg_find(void)
{
    static const PluginHost host = { PLUGIN_FORM, fail, pool_alloc, pool_at_free };
    void                   *lib = plugin_load(PLUGIN_FILE, state.why, sizeof state.why);
    state.looked = true;
    if (!lib)
        return;
    PluginEntry *entry;
    *(void **)&entry = dlsym(lib, "plimsoll_backend");
    state.dnnl = entry ? entry(&host) : NULL;
    if (!state.dnnl) {
        snprintf(state.why, sizeof state.why, "%s %s", PLUGIN_FILE,
                 entry ? "is of another version or cannot start" : "has no plimsoll_backend()");
        dlclose(lib);
    }
}

const Backend *backend_dnnl(void)
{
    pthread_mutex_lock(&state.lock);
    if (!state.looked)
        linalg_find();
    pthread_mutex_unlock(&state.lock);
    return state.dnnl;
}

const char *backend_why(void) { return backend_dnnl() ? "" : state.why; }

/* --- the cache --- */

static void key_of_matmul(PrimKey *key, const MatmulDesc *d)
{
    bool    many = d->batch > 1;
    int64_t numbers[] = {
        d->batch,
        d->m,
        d->n,
        d->k,
        d->lda,
        d->ldb,
        d->ldc,
        many ? d->stride_a : 0,
        many ? d->stride_b : 0,
        many ? d->stride_c : 0,
        d->type_a,
        d->type_b,
        d->type_c,
        d->bias ? d->type_bias : 0,
        d->trans_a,
        d->trans_b,
        d->bias,
        d->accumulate,
    };
    memcpy(key->numbers, numbers, sizeof numbers);
}

static void key_of_conv(PrimKey *key, const ConvDesc *d)
{
    int64_t             *at = key->numbers;
    const int64_t *const axes[] = { d->in, d->out, d->kernel, d->stride, d->pad_lo, d->pad_hi };
    int64_t              numbers[] = { d->kind,   d->n,      d->ci,
                                       d->co,     d->type_x, d->type_w,
                                       d->type_y, d->bias,   d->bias ? d->type_bias : 0 };
    memcpy(at, numbers, sizeof numbers);
    at += sizeof numbers / sizeof *numbers;
    for (int i = 0; i < 6; i++, at += 3)
        memcpy(at, axes[i], 3 * sizeof *at);
    for (int i = 0; i < 3; i++)
        *at++ = conv_dilation(d, i);
    *at++ = conv_groups(d);
    *at++ = conv_samples(d);
}

static size_t key_hash(const PrimKey *key)
{
    uint64_t hash = hash_bytes(HASH_EMPTY, key, sizeof *key);
    return (size_t)(hash ^ hash >> 32);
}

static PrimEntry **slot_find(PrimEntry **slots, size_t n_slots, const PrimKey *key)
{
    size_t at = key_hash(key) & (n_slots - 1);
    while (slots[at] && memcmp(&slots[at]->key, key, sizeof *key) != 0)
        at = (at + 1) & (n_slots - 1);
    return &slots[at];
}

static void slots_grow(void)
{
    size_t      n = state.n_slots ? 2 * state.n_slots : 256;
    PrimEntry **slots = NEWN(state.pool, PrimEntry *, n);
    for (size_t i = 0; i < state.n_slots; i++)
        if (state.slots[i])
            *slot_find(slots, n, &state.slots[i]->key) = state.slots[i];
    state.slots = slots;
    state.n_slots = n;
}

static Err linalg_make(const Backend *backend, const void *desc, const PrimKey *key, Prim **prim)
{
    int threads = (int)key->threads;
    return key->is_conv ? backend->conv(state.pool, desc, threads, prim)
                        : backend->matmul(state.pool, desc, threads, prim);
}

/* The key's slot in the cache; the caller holds the lock. *slot is NULL if nothing is cached. */
static PrimEntry **linalg_slot(const PrimKey *key)
{
    if (!state.pool)
        state.pool = pool_new(NULL, "linalg");
    if (2 * state.n_used >= state.n_slots)
        slots_grow();
    return slot_find(state.slots, state.n_slots, key);
}

static void slot_keep(PrimEntry **slot, const PrimKey *key, Prim *prim)
{
    *slot = NEW(state.pool, PrimEntry);
    (*slot)->key = *key;
    (*slot)->prim = prim;
    state.n_used++;
}

static Err linalg_get(const Backend *preferred, bool bf16, const void *desc, PrimKey *key,
                      const Prim **out)
{
    key->backend = preferred && (preferred->bf16_pays || !bf16) ? preferred : backend_builtin();
    pthread_mutex_lock(&state.lock);
    PrimEntry **slot = linalg_slot(key);
    Err         err = OK;
    if (!*slot) {
        Prim *prim = NULL;
        err = linalg_make(key->backend, desc, key, &prim);
        if (err == E_DEVICE && key->backend != backend_builtin() && !key->backend->alone)
            err = linalg_make(backend_builtin(), desc, key, &prim);
        if (!err)
            slot_keep(slot, key, prim);
    }
    if (!err)
        *out = (*slot)->prim;
    pthread_mutex_unlock(&state.lock);
    return err;
}

static void backend_widen(const ConvDesc *desc, const Prim *inner, PrimKey *key, const Prim **out)
{
    key->backend = conv_widen_backend();
    pthread_mutex_lock(&state.lock);
    PrimEntry **slot = linalg_slot(key);
    if (!*slot)
        slot_keep(slot, key, conv_widen(state.pool, desc, inner, (int)key->threads));
    *out = (*slot)->prim;
    pthread_mutex_unlock(&state.lock);
}

Err linalg_matmul(const Backend *preferred, const MatmulDesc *desc, int threads, const Prim **prim)
{
    PrimKey key;
    memset(&key, 0, sizeof key);
    key.threads = threads;
    key_of_matmul(&key, desc);
    if (preferred && !preferred->alone && builtin_pays_matmul(desc))
        preferred = backend_builtin();
    return linalg_get(preferred, desc->type_a == BF16, desc, &key, prim);
}

Err linalg_conv(const Backend *preferred, const ConvDesc *desc, int threads, const Prim **prim)
{
    PrimKey key;
    memset(&key, 0, sizeof key);
    key.threads = threads;
    key.is_conv = 1;
    key_of_conv(&key, desc);
    if (preferred && !preferred->alone && preferred != backend_lean() &&
        (conv_depth_pays(desc) || conv_thin_fits(desc, threads) || conv_wino_fits(desc, threads) ||
         conv_wino_bf16_fits(desc, threads) || builtin_pays_conv(desc)))
        preferred = backend_builtin();
    bool bf16 = desc->type_w == BF16 || desc->type_y == BF16;
    if (bf16 && preferred && !preferred->alone && !preferred->bf16_pays && conv_widen_fits(desc)) {
        ConvDesc    wide = conv_widened(desc);
        const Prim *inner;
        TRY(linalg_conv(preferred, &wide, threads, &inner));
        if (inner->backend == preferred || conv_thin_fits(&wide, threads)) {
            backend_widen(desc, inner, &key, prim);
            return OK;
        }
    }
    return linalg_get(preferred, bf16, desc, &key, prim);
}
