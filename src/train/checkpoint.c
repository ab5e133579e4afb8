/* checkpoint.c -- saves and loads checkpoints; the header describes the files. The JSON beside the
 * weights is in checkpoint_state.c. */
#include "train/checkpoint.h"

#include "base/checksum.h"
#include "base/file.h"
#include "base/int_math.h"
#include "base/json.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "comm/comm.h"
#include "train/checkpoint_state.h"
#include "train/lengths.h"
#include "train/weights.h"
#include "train/weights_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct CheckpointEntry { /* one tensor of the file */
    int32_t param;               /* index, or -1: saved state, written as it is */
    int32_t value;
} CheckpointEntry;

struct Saver {
    Session    *session;
    Comm       *comm;    /* NULL: one rank */
    bool        follows; /* writes nothing */
    const char *folder;
    int64_t     keep;
    SafeTensor *tensors; /* in file order; `data` points to a CheckpointEntry */
    int32_t     n;
    const char *header;
    size_t      n_header;
    float      *buffer; /* for the largest tensor */
    int64_t    *whole;  /* steps of the whole checkpoints in the folder, ascending */
    int32_t     n_whole, cap_whole;
    char        note[512]; /* an old checkpoint that could not be removed; "": none */
    FileOut     out;
};

/* Checkpoints more than `keep` that the saver remembers, because they could not be removed. */
enum { WHOLE_ROOM = 64 };

static void entry_add(Pool *pool, SafeTensor **list, int32_t *n, int32_t *cap, const char *name,
                      Shape shape, Type type, CheckpointEntry entry)
{
    CheckpointEntry *kept = NEW(pool, CheckpointEntry);
    int64_t         *dims = NEWN(pool, int64_t, MAX_RANK);
    *kept = entry;
    memcpy(dims, shape.dim, sizeof shape.dim);
    VEC_ADD(pool, *list, *n, *cap,
            (SafeTensor){ .name = name,
                          .type = safe_type(type),
                          .rank = shape.rank,
                          .shape = dims,
                          .data = kept });
}

/* All tensors of a checkpoint. Parameters and their optimizer state are in disk order and fp32. */
static void entries(Pool *pool, const Graph *graph, SafeTensor **list, int32_t *n)
{
    int32_t cap = 0;
    bool   *done = NEWN(pool, bool, graph->n_values);
    for (int32_t i = 0; i < graph->n_params; i++) {
        const Param *p = &graph->params[i];
        entry_add(pool, list, n, &cap, p->name, p->disk, F32,
                  (CheckpointEntry){ i, p->master >= 0 ? p->master : p->value });
        if (p->master >= 0)
            done[p->master] = true;
        const int32_t     state[] = { p->m, p->v, p->ema };
        const char *const word[] = { "optimizer.m", "optimizer.v", "ema" };
        for (int j = 0; j < 3; j++)
            if (state[j] >= 0) {
                entry_add(pool, list, n, &cap, pool_print(pool, "%s/%s", word[j], p->name), p->disk,
                          F32, (CheckpointEntry){ i, state[j] });
                done[state[j]] = true;
            }
    }
    for (int32_t i = 0; i < graph->n_constants; i++) {
        const Constant *c = &graph->constants[i];
        const Value    *value = value_at(graph, c->value);
        if (c->saved && !done[c->value])
            entry_add(pool, list, n, &cap, value->name, value->shape, value->type,
                      (CheckpointEntry){ -1, c->value });
    }
}

static void checkpoint_path(char *to, size_t n, const char *folder, int64_t step,
                            const char *ending)
{
    snprintf(to, n, "%s/step-%06lld%s", folder, (long long)step, ending);
}

/* The step of a file step-NNNNNN with this ending, or -1 if this is not one. */
static int64_t checkpoint_step(const char *name, const char *ending)
{
    long long step;
    char      again[48];
    if (sscanf(name, "step-%lld", &step) != 1 || step < 0)
        return -1;
    snprintf(again, sizeof again, "step-%06lld%s", step, ending);
    return strcmp(name, again) ? -1 : step;
}

static void whole_add(Saver *saver, int64_t step)
{
    int32_t at = saver->n_whole;
    for (int32_t i = 0; i < saver->n_whole; i++)
        if (saver->whole[i] == step)
            return;
    if (saver->n_whole == saver->cap_whole) { /* forgets the oldest, which could not be removed */
        memmove(saver->whole, saver->whole + 1, (size_t)(--at) * sizeof *saver->whole);
        saver->n_whole--;
    }
    for (; at > 0 && saver->whole[at - 1] > step; at--)
        saver->whole[at] = saver->whole[at - 1];
    saver->whole[at] = step;
    saver->n_whole++;
}

/* Notes the checkpoints that are there, so that saving need not list the folder, and removes weights
 * without their JSON: a run that was killed, or a disk that was full, left them. */
static Err saver_look(Pool *pool, Saver *saver)
{
    Pool  *work = pool_new(pool, "look");
    char **names, path[FILE_PATH_MAX];
    int    n;
    TRY(folder_list(work, saver->folder, &names, &n));
    saver->cap_whole = n + (int32_t)int_min(saver->keep, WHOLE_ROOM) + WHOLE_ROOM;
    saver->whole = NEWN(pool, int64_t, saver->cap_whole);
    for (int i = 0; i < n; i++)
        if (checkpoint_step(names[i], ".json") >= 0)
            whole_add(saver, checkpoint_step(names[i], ".json"));
    for (int i = 0; i < n; i++) {
        int64_t step = checkpoint_step(names[i], ".safetensors");
        if (step < 0)
            continue;
        checkpoint_path(path, sizeof path, saver->folder, step, ".json");
        if (file_exists(path))
            continue;
        checkpoint_path(path, sizeof path, saver->folder, step, ".safetensors");
        if (file_remove(path))
            snprintf(saver->note, sizeof saver->note, "%s", err_text());
    }
    pool_free(work);
    return OK;
}

/* All but the newest `keep` and the best one. If one cannot be removed, the next save tries
 * again. */
static void saver_remove_old(Saver *saver, int64_t newest, int64_t best)
{
    char    path[FILE_PATH_MAX];
    int32_t whole = 0, at = 0;
    while (whole < saver->n_whole && saver->whole[whole] <= newest)
        whole++;
    saver->note[0] = '\0';
    for (; whole - at > saver->keep; whole--) {
        if (best && saver->whole[at] == best) {
            at++, whole++;
            continue;
        }
        /* The JSON goes first: weights without it are cleared by the next run. */
        checkpoint_path(path, sizeof path, saver->folder, saver->whole[at], ".json");
        Err err = file_remove(path);
        checkpoint_path(path, sizeof path, saver->folder, saver->whole[at], ".safetensors");
        if (err || file_remove(path)) {
            snprintf(saver->note, sizeof saver->note, "%s", err_text());
            return;
        }
        saver->n_whole--;
        memmove(saver->whole + at, saver->whole + at + 1,
                (size_t)(saver->n_whole - at) * sizeof *saver->whole);
    }
}

/* The header puts the tensors in the file's order, in which all ranks send their parts. */
static Err saver_tensors(Pool *pool, Session *session, Saver **out)
{
    const Engine *engine = session_engine(session);
    Saver        *saver = *out = NEW(pool, Saver);
    int64_t       largest = 1;
    *saver = (Saver){ .session = session, .comm = engine->device->comm };
    entries(pool, engine->graph, &saver->tensors, &saver->n);
    const char *const *metadata = lengths_metadata(
        pool, engine->graph, (const char *const[]){ "format", "plimsoll-checkpoint-1", NULL });
    TRY(safetensors_header(pool, saver->tensors, saver->n, metadata, &saver->header,
                           &saver->n_header));
    for (int32_t i = 0; i < saver->n; i++)
        largest = int_max(largest, (int64_t)saver->tensors[i].n_bytes);
    saver->buffer = NEWN(pool, float, ceil_div(largest, 4));
    return OK;
}

Err saver_new_follower(Pool *pool, Session *session, Saver **out)
{
    TRY(saver_tensors(pool, session, out));
    (*out)->follows = true;
    return OK;
}

Err saver_new(Pool *pool, Session *session, const char *folder, int64_t keep, Saver **out)
{
    TRY(saver_tensors(pool, session, out));
    (*out)->folder = folder;
    (*out)->keep = keep;
    TRY(folder_make(folder));
    folder_tidy(folder);
    return saver_look(pool, *out);
}

const char *saver_note(const Saver *saver) { return saver->note[0] ? saver->note : NULL; }

/* The entry "weights" of the JSON beside a weights file, or NULL. */
static const Json *weights_saved(Pool *pool, const char *weights, const char **beside)
{
    static const char ending[] = ".safetensors";
    size_t            n = strlen(weights), m = sizeof ending - 1;
    const Json       *json;
    if (n <= m || strcmp(weights + n - m, ending))
        return NULL;
    *beside = pool_print(pool, "%.*s.json", (int)(n - m), weights);
    if (!file_exists(*beside) || json_read(pool, *beside, 0, &json))
        return NULL;
    return json_get(json, "weights");
}

Err checkpoint_intact(Pool *pool, const char *weights)
{
    Pool       *work = pool_new(pool, "intact");
    const char *saved_digits, *beside;
    const Json *saved = weights_saved(work, weights, &beside);
    Checksum    sum = checksum_begin();
    int64_t     bytes;
    char        found[17];
    MapFile     file;
    if (!saved || saved->kind != JSON_OBJECT) {
        pool_free(work);
        return OK;
    }
    TRY(json_need_int(saved, "bytes", &bytes));
    TRY(json_need_text(saved, "xxh64", &saved_digits));
    TRY(file_map(work, weights, &file));
    checksum_add(&sum, file.bytes, file.n);
    checkpoint_digits(checksum_end(&sum), found);
    if ((int64_t)file.n != bytes || strcmp(found, saved_digits))
        return fail(E_FORMAT,
                    "%s is damaged: its %zu bytes have the checksum %s, and %lld with %s were "
                    "saved; if it was changed on purpose, remove \"weights\" from %s",
                    weights, file.n, found, (long long)bytes, saved_digits, beside);
    pool_free(work);
    return OK;
}

/* ---- saving and loading ---- */

bool saver_finite(Saver *saver)
{
    for (int32_t i = 0; i < saver->n; i++) {
        const CheckpointEntry *entry = saver->tensors[i].data;
        if (entry->param >= 0 || saver->tensors[i].type != SAFE_F32)
            continue;
        if (session_read(saver->session, entry->value, saver->buffer))
            return false;
        for (size_t k = 0; k < saver->tensors[i].n_bytes / sizeof *saver->buffer; k++)
            if (!isfinite(saver->buffer[k]))
                return false;
    }
    return true;
}

static Err saver_tensor(Saver *saver, int32_t i)
{
    const CheckpointEntry *entry = saver->tensors[i].data;
    return entry->param >= 0
               ? session_get_param_at(saver->session, 0, entry->param, entry->value, saver->buffer)
               : session_read(saver->session, entry->value, saver->buffer);
}

/* Rank 0's result at all ranks; it alone has the sentence. */
static Err saver_agree(Saver *saver, Err err)
{
    int32_t result = (int32_t)err;
    char    why[512];
    if (!saver->comm)
        return err;
    snprintf(why, sizeof why, "%s", err && !saver->follows ? err_text() : "");
    TRY(comm_share(saver->comm, 0, &result, sizeof result));
    return result ? fail((Err)result, "%s", why) : OK;
}

/* *begun: the ranks have agreed that the file could be opened. */
static Err saver_write(Saver *saver, const RunState *state, bool *begun)
{
    FileOut *out = &saver->out;
    Checksum sum = checksum_begin();
    char     path[FILE_PATH_MAX];
    Err      err = OK;

    checkpoint_path(path, sizeof path, saver->folder, state->step, ".safetensors");
    TRY(saver_agree(saver, file_out_init(out, path)));
    *begun = true;
    file_out_add(out, saver->header, saver->n_header);
    checksum_add(&sum, saver->header, saver->n_header);
    for (int32_t i = 0; i < saver->n && !err; i++) {
        err = saver_tensor(saver, i);
        file_out_add(out, saver->buffer, saver->tensors[i].n_bytes);
        checksum_add(&sum, saver->buffer, saver->tensors[i].n_bytes);
    }
    TRY(file_out_done(out, err));

    checkpoint_path(path, sizeof path, saver->folder, state->step, ".json");
    bool again = file_exists(path);
    err = file_out_init(out, path);
    if (!err) {
        checkpoint_state_write(out, state, saver->n, &sum);
        err = file_out_done(out, OK);
    }
    if (err) { /* weights without their JSON are worthless and hold space */
        checkpoint_path(path, sizeof path, saver->folder, state->step, ".safetensors");
        if (!again)
            unlink(path);
        return err;
    }
    whole_add(saver, state->step);
    saver_remove_old(saver, state->step, state->best_step);
    return OK;
}

/* A follower sends its parts; the file is rank 0's. */
static Err saver_send(Saver *saver)
{
    for (int32_t i = 0; i < saver->n; i++) {
        const CheckpointEntry *entry = saver->tensors[i].data;
        const Graph           *graph = session_engine(saver->session)->graph;
        if (entry->param >= 0 && param_shards(graph, &graph->params[entry->param], entry->value))
            TRY(saver_tensor(saver, i));
    }
    return OK;
}

Err saver_save(Saver *saver, const RunState *state)
{
    bool begun = false;
    Err  err = saver->follows ? saver_agree(saver, OK) : saver_write(saver, state, &begun);
    if (saver->follows ? err != OK : !begun)
        return err;
    if (saver->follows)
        TRY(saver_send(saver));
    return saver_agree(saver, err);
}

/* The newest checkpoint before step `end`, or -1. */
static Err checkpoint_before(Pool *pool, const char *folder, int64_t end, int64_t *step)
{
    char **names;
    int    n;
    *step = -1;
    TRY(folder_list(pool, folder, &names, &n));
    for (int i = 0; i < n; i++) {
        int64_t at = checkpoint_step(names[i], ".json");
        if (at > *step && at < end)
            *step = at;
    }
    return OK;
}

Err checkpoint_newest(Pool *pool, const char *folder, int64_t *step)
{
    TRY(checkpoint_before(pool, folder, INT64_MAX, step));
    return *step >= 0 ? OK
                      : fail(E_IO,
                             "%s holds no complete checkpoint: its run ended before the first was "
                             "saved; start again with --out %s",
                             folder, text_word(pool, folder));
}

static Err checkpoint_put(Pool *pool, Session *session, const char *folder, int64_t step,
                          RunState *state)
{
    const Graph *graph = session_engine(session)->graph;
    char         path[FILE_PATH_MAX];
    SafeFile     file;
    SafeTensor  *want = NULL;
    int32_t      n = 0;
    int64_t      tensors;
    Pool        *work = pool_new(pool, "load");

    checkpoint_path(path, sizeof path, folder, step, ".json");
    TRY(checkpoint_state_read(work, path, step, state, &tensors));
    checkpoint_path(path, sizeof path, folder, step, ".safetensors");
    TRY(checkpoint_intact(work, path));
    TRY(safetensors_read(work, path, &file));
    TRY(lengths_same(path, &file, graph));
    entries(work, graph, &want, &n);
    if (tensors >= 0 && tensors != file.n)
        return fail(E_FORMAT, "%s has %d tensors, and %lld were saved", path, file.n,
                    (long long)tensors);
    for (int32_t i = 0; i < n; i++) {
        const CheckpointEntry *entry = want[i].data;
        const SafeTensor      *t = safetensors_find(&file, want[i].name);
        Shape                  shape = shape_of(want[i].shape, want[i].rank);
        if (!t)
            return fail(E_FORMAT, "%s lacks %s: it belongs to another recipe", path, want[i].name);
        if (!tensor_fits(t, shape))
            return tensor_misfit(path, t, shape);
        if (t->type != want[i].type)
            return fail(E_FORMAT, "%s: %s holds %s, not %s", path, t->name, safe_type_name(t->type),
                        safe_type_name(want[i].type));
        if (entry->param >= 0)
            TRY(session_put_param(session, entry->param, entry->value, t->data));
        else
            TRY(session_write(session, entry->value, t->data));
    }
    pool_free(work);
    return OK;
}

/* ---- a damaged checkpoint, and the newest whole one before it ---- */

/* One way of reading a checkpoint. */
typedef struct CheckpointReading CheckpointReading;
struct CheckpointReading {
    Err (*read)(CheckpointReading *reading, int64_t step);
    Pool        *pool;
    Session     *session;
    const char  *folder;
    RunState    *state, before; /* read into; as it was */
    WeightsRead *weights;
    const char **path;
};

/* Reads step *step. If it is damaged, an older one is read, which *note says; or where only that step will do,
 * the sentence names an older one that is whole. */
static Err checkpoint_or_older(CheckpointReading *r, int64_t *step, bool only, const char **note)
{
    Err err = r->read(r, *step);
    *note = NULL;
    if (!err)
        return OK;
    const char *why = pool_text(r->pool, err_text());
    int64_t     at = *step;
    while (!checkpoint_before(r->pool, r->folder, at, &at) && at >= 0) {
        if (r->read(r, at))
            continue;
        if (only)
            return fail(err, "%s; step %lld is intact: use --checkpoint %lld", why, (long long)at,
                        (long long)at);
        *note = pool_print(r->pool, "%s; step %lld is intact and is used instead", why,
                           (long long)at);
        *step = at;
        return OK;
    }
    return fail(err, "%s", why);
}

static Err reading_put(CheckpointReading *r, int64_t step)
{
    *r->state = r->before;
    return checkpoint_put(r->pool, r->session, r->folder, step, r->state);
}

Err checkpoint_load(Pool *pool, Session *session, const char *folder, int64_t step, RunState *state,
                    const char **note)
{
    CheckpointReading r = { .read = reading_put,
                            .pool = pool,
                            .session = session,
                            .folder = folder,
                            .state = state,
                            .before = *state };
    return checkpoint_or_older(&r, &step, false, note);
}

/* The JSON is read too, although sampling needs only the weights: if it is damaged, their checksum
 * cannot be trusted. */
static Err reading_whole(CheckpointReading *r, int64_t step)
{
    RunState state = { 0 };
    char     path[FILE_PATH_MAX];
    int64_t  tensors;
    checkpoint_path(path, sizeof path, r->folder, step, ".json");
    TRY(checkpoint_state_read(r->pool, path, step, &state, &tensors));
    checkpoint_path(path, sizeof path, r->folder, step, ".safetensors");
    *r->path = pool_text(r->pool, path);
    return checkpoint_intact(r->pool, path);
}

static Err reading_weights(CheckpointReading *r, int64_t step)
{
    TRY(reading_whole(r, step));
    return weights_load_run(r->pool, r->session, *r->path, r->weights->kind == WEIGHTS_RAW,
                            &r->weights->averaged);
}

/* The weights of step read->step or, unless it is the `only` one, of an older one. */
static Err checkpoint_weights_of(Pool *pool, Session *session, const char *folder, bool only,
                                 WeightsRead *read)
{
    const char       *path;
    CheckpointReading r = { .read = reading_weights,
                            .pool = pool,
                            .session = session,
                            .folder = folder,
                            .weights = read,
                            .path = &path };
    return checkpoint_or_older(&r, &read->step, only, &read->note);
}

/* Its JSON is written last. */
static Err checkpoint_is_complete(const char *folder, int64_t step)
{
    char path[FILE_PATH_MAX];
    checkpoint_path(path, sizeof path, folder, step, ".json");
    return file_exists(path) ? OK
                             : fail(E_IO, "%s holds no complete checkpoint of step %lld", folder,
                                    (long long)step);
}

/* The newest may be that of a run in progress, which then has removed it; it has a newer one then. */
static Err checkpoint_newest_weights(Pool *pool, Session *session, const char *folder,
                                     WeightsRead *read)
{
    TRY(checkpoint_newest(pool, folder, &read->step));
    for (;;) {
        int64_t newest;
        Err     err = checkpoint_weights_of(pool, session, folder, false, read);
        if (!err)
            err = lengths_as_trained(pool, folder, read->step, read->length);
        if (!err)
            return OK;
        const char *why = pool_text(pool, err_text());
        if (checkpoint_newest(pool, folder, &newest) || newest <= read->step)
            return fail(err, "%s", why);
        read->step = newest;
    }
}

Err checkpoint_weights(Pool *pool, Session *session, const char *folder, WeightsRead *read)
{
    if (read->step >= 0) {
        TRY(checkpoint_is_complete(folder, read->step));
        TRY(checkpoint_weights_of(pool, session, folder, true, read));
        TRY(lengths_as_trained(pool, folder, read->step, read->length));
    } else {
        TRY(checkpoint_newest_weights(pool, session, folder, read));
    }
    if (read->kind == WEIGHTS_AVERAGED && !read->averaged)
        return fail(E_USAGE, "%s keeps no averaged weights (ema.rule is none); use --weights raw",
                    folder);
    return OK;
}

Err checkpoint_file(Pool *pool, const char *folder, int64_t *step, const char **path,
                    const char **note)
{
    bool              only = *step >= 0;
    CheckpointReading r = { .read = reading_whole, .pool = pool, .folder = folder, .path = path };
    if (!only)
        TRY(checkpoint_newest(pool, folder, step));
    TRY(checkpoint_is_complete(folder, *step));
    return checkpoint_or_older(&r, step, only, note);
}

Err checkpoint_best(Pool *pool, const char *folder, int64_t *step)
{
    RunState state = { 0 };
    char     path[FILE_PATH_MAX];
    int64_t  newest, tensors;
    TRY(checkpoint_newest(pool, folder, &newest));
    checkpoint_path(path, sizeof path, folder, newest, ".json");
    TRY(checkpoint_state_read(pool, path, newest, &state, &tensors));
    *step = state.best_step;
    return *step > 0 ? OK
                     : fail(E_USAGE,
                            "%s was never validated, so no checkpoint is the best one; leave out "
                            "--checkpoint best",
                            folder);
}

Err checkpoint_given(Pool *pool, const char *init, const char **path, const char **note)
{
    int64_t step = -1;
    *path = init;
    *note = NULL;
    if (!folder_exists(init))
        return checkpoint_intact(pool, init);
    if (file_exists(pool_print(pool, "%s/_METADATA", init)) ||
        file_exists(pool_print(pool, "%s/_CHECKPOINT_METADATA", init)))
        return fail(E_USAGE,
                    "%s is an Orbax checkpoint, which cannot be read; in Python, "
                    "flax.serialization.to_bytes(tree) makes the bytes of a file that can",
                    init);
    if (!file_exists(pool_print(pool, "%s/recipe.yaml", init)))
        return weights_in_folder(pool, init, path);
    return checkpoint_file(pool, init, &step, path, note);
}
