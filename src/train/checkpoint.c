/* checkpoint.c -- saves and loads checkpoints; the header describes the files. */
#include "train/checkpoint.h"

#include "base/checksum.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/int_math.h"
#include "base/json_out.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "train/lengths.h"
#include "train/weights.h"

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

Err saver_new(Pool *pool, Session *session, const char *folder, int64_t keep, Saver **out)
{
    const Graph *graph = session_engine(session)->graph;
    Saver       *saver = NEW(pool, Saver);
    int64_t      largest = 1;
    *saver = (Saver){ .session = session, .folder = folder, .keep = keep };
    entries(pool, graph, &saver->tensors, &saver->n);
    const char *const *metadata = lengths_metadata(
        pool, graph, (const char *const[]){ "format", "plimsoll-checkpoint-1", NULL });
    TRY(safetensors_header(pool, saver->tensors, saver->n, metadata, &saver->header,
                           &saver->n_header));
    for (int32_t i = 0; i < saver->n; i++)
        if ((int64_t)saver->tensors[i].n_bytes > largest)
            largest = (int64_t)saver->tensors[i].n_bytes;
    saver->buffer = NEWN(pool, float, ceil_div(largest, 4));
    TRY(folder_make(folder));
    folder_tidy(folder);
    *out = saver;
    return saver_look(pool, saver);
}

const char *saver_note(const Saver *saver) { return saver->note[0] ? saver->note : NULL; }

/* ---- the JSON ---- */

static uint64_t hash_number(uint64_t hash, double number)
{
    number = isnan(number) ? (double)NAN : number; /* one bit pattern for all NaNs */
    return hash_bytes(hash, &number, sizeof number);
}

/* A digest of the JSON's numbers, which the checksum of the weights does not cover. */
static uint64_t state_digest(const RunState *state, const Plateau *p)
{
    uint64_t hash = hash_int(HASH_EMPTY, state->step);
    hash = hash_int(hash_int(hash, state->drawn), state->seed);
    if (state->samples)
        hash = hash_int(hash, state->samples);
    if (state->due)
        hash = hash_number(hash_number(hash_int(hash, state->due), state->loss), state->ms);
    if (!p)
        return hash;
    hash = hash_int(hash_int(hash_int(hash, p->bad), p->cooldown), p->count);
    hash = hash_number(hash_number(hash_number(hash, p->sum), p->rates[0]), p->rates[1]);
    return p->seen ? hash_number(hash, p->best) : hash;
}

static void hash_digits(uint64_t hash, char text[17])
{
    snprintf(text, 17, "%016llx", (unsigned long long)hash);
}

static void json_out_hash(JsonOut *o, const char *key, uint64_t hash)
{
    char text[17];
    hash_digits(hash, text);
    json_out_string(o, key, text);
}

static const char *const due_words[] = { "", "validation", "results" };

static void due_write(JsonOut *o, const RunState *state)
{
    json_out_object_row(o, "due");
    json_out_string(o, "what", due_words[state->due]);
    if (isfinite(state->loss)) /* JSON cannot express others */
        json_out_number(o, "loss", state->loss);
    json_out_number(o, "ms", state->ms);
    json_out_end(o);
}

static Err due_read(const Json *checkpoint, RunState *state)
{
    const Json *json;
    const char *what;
    TRY(json_need_object(checkpoint, "due", &json));
    TRY(json_need_text(json, "what", &what));
    state->due = !strcmp(what, due_words[DUE_VALIDATE]) ? DUE_VALIDATE : DUE_SAMPLE;
    if (state->due == DUE_SAMPLE && strcmp(what, due_words[DUE_SAMPLE]))
        return json_fail(json, json_get(json, "what"), "'what' must be '%s' or '%s', not '%s'",
                         due_words[DUE_VALIDATE], due_words[DUE_SAMPLE], what);
    state->loss = NAN;
    if (json_get(json, "loss"))
        TRY(json_need_number(json, "loss", &state->loss));
    return json_need_number(json, "ms", &state->ms);
}

/* ---- the JSON's checksum ---- */

/* Version 1 has a digest of some numbers ("check", or nothing in the oldest files). Version 2 ends
 * with the checksum of all bytes before it, so that a change of any byte is noticed. */
static const char checkpoint_format[] = "plimsoll-checkpoint-2",
                  checkpoint_format_1[] = "plimsoll-checkpoint-1";
enum { SIGN_ROOM = 64, STATE_MAX = FILE_BUFFER }; /* bytes */

static int sign_text(char to[SIGN_ROOM], const char *text, size_t n)
{
    Checksum sum = checksum_begin();
    checksum_add(&sum, text, n);
    return snprintf(to, SIGN_ROOM, ",\n  \"check\": \"%016llx\"\n}\n",
                    (unsigned long long)checksum_end(&sum));
}

static void state_sign(FileOut *out) /* ends the file, all of which is still in the buffer */
{
    char sign[SIGN_ROOM];
    int  n = sign_text(sign, out->buffer, out->n_buffered);
    REQUIRE(out->buffer[0] == '{');
    file_out_add(out, sign, (size_t)n);
}

static Err sign_check(const char *path, const char *text, size_t n)
{
    char   sign[SIGN_ROOM];
    size_t end = (size_t)sign_text(sign, "", 0); /* always as long */
    if (n > end)
        sign_text(sign, text, n - end);
    return n > end && !memcmp(text + n - end, sign, end)
               ? OK
               : fail(E_FORMAT,
                      "%s is damaged: its bytes are not those that were saved, by the checksum at "
                      "its end",
                      path);
}

static void state_write(FileOut *out, const RunState *state, int32_t n_tensors,
                        const Checksum *weights)
{
    const Plateau *p = &state->plateau;
    JsonOut        o;
    json_out_file(&o, out, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_string(&o, "format", checkpoint_format);
    json_out_int(&o, "step", state->step);
    json_out_int(&o, "drawn", state->drawn);
    if (state->samples)
        json_out_int(&o, "samples", state->samples);
    json_out_int(&o, "seed", state->seed);
    if (state->due)
        due_write(&o, state);
    if (p->on) {
        json_out_object_row(&o, "plateau");
        json_out_int(&o, "bad", p->bad);
        json_out_int(&o, "cooldown", p->cooldown);
        json_out_number(&o, "sum", p->sum);
        json_out_int(&o, "count", p->count);
        json_out_array(&o, "rates");
        json_out_number(&o, NULL, p->rates[0]);
        json_out_number(&o, NULL, p->rates[1]);
        json_out_end(&o);
        if (p->seen)
            json_out_number(&o, "best", p->best);
        json_out_end(&o);
    }
    if (state->best_step) {
        json_out_object_row(&o, "best");
        json_out_int(&o, "step", state->best_step);
        json_out_number(&o, "loss", state->best_loss);
        json_out_end(&o);
    }
    json_out_int(&o, "tensors", n_tensors);
    json_out_object_row(&o, "weights");
    json_out_int(&o, "bytes", (int64_t)weights->n);
    json_out_hash(&o, "xxh64", checksum_end(weights));
    json_out_end(&o);
    state_sign(out);
}

static Err plateau_read(const Json *checkpoint, Plateau *p)
{
    const Json *json, *rates;
    TRY(json_need_object(checkpoint, "plateau", &json));
    TRY(json_need_int(json, "bad", &p->bad));
    TRY(json_need_int(json, "cooldown", &p->cooldown));
    TRY(json_need_int(json, "count", &p->count));
    TRY(json_need_number(json, "sum", &p->sum));
    TRY(json_need_array(json, "rates", &rates));
    if (rates->n != 2)
        return json_fail(json, rates, "a plateau has 2 rates, not %u", rates->n);
    for (uint32_t i = 0; i < 2; i++)
        TRY(json_item_number(rates, i, &p->rates[i]));
    p->seen = json_get(json, "best") != NULL;
    return p->seen ? json_need_number(json, "best", &p->best) : OK;
}

static Err best_read(const Json *checkpoint, RunState *state)
{
    const Json *json;
    TRY(json_need_object(checkpoint, "best", &json));
    TRY(json_need_int(json, "step", &state->best_step));
    return json_need_number(json, "loss", &state->best_loss);
}

/* The digest of version 1, which its oldest files lack. */
static Err state_check(const char *path, const Json *json, const RunState *state, const Plateau *p)
{
    const char *saved_digits;
    char        found[17];
    const char *format;
    TRY(json_need_text(json, "format", &format));
    if (!json_get(json, "check") || strcmp(format, checkpoint_format_1))
        return OK;
    TRY(json_need_text(json, "check", &saved_digits));
    hash_digits(state_digest(state, p), found);
    if (strcmp(saved_digits, found))
        return fail(E_FORMAT,
                    "%s is damaged: its numbers are not those that were saved "
                    "(digest %s, expected %s)",
                    path, found, saved_digits);
    return OK;
}

static Err format_check(const char *path, const Json *json, const char *text, size_t n)
{
    const char *format;
    TRY(json_need_text(json, "format", &format));
    if (!strcmp(format, checkpoint_format_1))
        return OK;
    if (strcmp(format, checkpoint_format))
        return json_fail(json, json_get(json, "format"), "'%s' is no format of checkpoints: '%s'",
                         format, checkpoint_format);
    static const char *const keys[] = { "format",  "step", "drawn",   "samples", "seed", "due",
                                        "plateau", "best", "tensors", "weights", "check" };
    TRY(json_check_keys(json, keys, sizeof keys / sizeof *keys));
    return sign_check(path, text, n);
}

/* No run draws so many samples; larger numbers would overflow when the next are counted. */
static const int64_t drawn_max = (int64_t)1 << 52;

/* Reads step, position in the data, seed and schedule, and how many tensors there are (-1: an older
 * version, which does not say). If the checkpoint has no plateau, a plateau schedule starts from the
 * beginning. */
static Err state_read(Pool *pool, const char *path, int64_t step, RunState *state, int64_t *tensors)
{
    const Json *json;
    Plateau     plateau = { .on = true };
    char       *text;
    size_t      n;
    TRY(file_read_within(pool, path, STATE_MAX, &text, &n));
    TRY(json_parse(pool, path, text, n, 0, &json));
    TRY(format_check(path, json, text, n));
    *tensors = -1;
    if (json_get(json, "tensors"))
        TRY(json_need_int(json, "tensors", tensors));
    TRY(json_need_int(json, "step", &state->step));
    TRY(json_need_int(json, "drawn", &state->drawn));
    TRY(json_need_int(json, "seed", &state->seed));
    state->samples = 0;
    if (json_get(json, "samples"))
        TRY(json_need_int(json, "samples", &state->samples));
    state->due = DUE_NOTHING;
    if (json_get(json, "due"))
        TRY(due_read(json, state));
    state->best_step = 0;
    if (json_get(json, "best"))
        TRY(best_read(json, state));
    bool has = json_get(json, "plateau") != NULL;
    if (has)
        TRY(plateau_read(json, &plateau));
    if (state->step != step || state->step > INT32_MAX || state->drawn < 0 ||
        state->drawn > drawn_max || state->samples < 0)
        return fail(E_FORMAT,
                    "%s says step %lld with %lld samples drawn: it is damaged or was renamed", path,
                    (long long)state->step, (long long)state->drawn);
    TRY(state_check(path, json, state, has ? &plateau : NULL));
    if (has && state->plateau.on)
        state->plateau = plateau;
    return OK;
}

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
    hash_digits(checksum_end(&sum), found);
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

Err saver_save(Saver *saver, const RunState *state)
{
    FileOut *out = &saver->out;
    Checksum sum = checksum_begin();
    char     path[FILE_PATH_MAX];
    Err      err = OK;

    checkpoint_path(path, sizeof path, saver->folder, state->step, ".safetensors");
    TRY(file_out_init(out, path));
    file_out_add(out, saver->header, saver->n_header);
    checksum_add(&sum, saver->header, saver->n_header);
    for (int32_t i = 0; i < saver->n && !err; i++) {
        const CheckpointEntry *entry = saver->tensors[i].data;
        err = entry->param >= 0
                  ? session_get_param(saver->session, entry->param, entry->value, saver->buffer)
                  : session_read(saver->session, entry->value, saver->buffer);
        file_out_add(out, saver->buffer, saver->tensors[i].n_bytes);
        checksum_add(&sum, saver->buffer, saver->tensors[i].n_bytes);
    }
    TRY(file_out_done(out, err));

    checkpoint_path(path, sizeof path, saver->folder, state->step, ".json");
    bool again = file_exists(path);
    err = file_out_init(out, path);
    if (!err) {
        state_write(out, state, saver->n, &sum);
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
    return *step >= 0
               ? OK
               : fail(E_IO,
                      "%s holds no whole checkpoint: its run ended before the first was saved; "
                      "start again with --out %s",
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
    TRY(state_read(work, path, step, state, &tensors));
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

/* One sentence for both users of an older checkpoint. */
static const char *older_text(Pool *pool, const char *why, int64_t step)
{
    return pool_print(pool, "%s; step %lld is whole and is used instead", why, (long long)step);
}

Err checkpoint_load(Pool *pool, Session *session, const char *folder, int64_t step, RunState *state,
                    const char **note)
{
    RunState before = *state;
    Err      err = checkpoint_put(pool, session, folder, step, state);
    *note = NULL;
    if (!err)
        return OK;
    const char *why = pool_text(pool, err_text());
    while (!checkpoint_before(pool, folder, step, &step) && step >= 0) {
        *state = before;
        if (checkpoint_put(pool, session, folder, step, state))
            continue;
        *note = older_text(pool, why, step);
        return OK;
    }
    return fail(err, "%s", why);
}

/* The JSON is read too, although sampling needs only the weights: if it is damaged, their checksum
 * cannot be trusted. */
static Err checkpoint_put_weights(Pool *pool, Session *session, const char *folder, int64_t step,
                                  bool raw, bool *averaged)
{
    RunState state = { 0 };
    char     path[FILE_PATH_MAX];
    int64_t  tensors;
    checkpoint_path(path, sizeof path, folder, step, ".json");
    TRY(state_read(pool, path, step, &state, &tensors));
    checkpoint_path(path, sizeof path, folder, step, ".safetensors");
    TRY(checkpoint_intact(pool, path));
    return weights_load_run(pool, session, path, raw, averaged);
}

Err checkpoint_weights(Pool *pool, Session *session, const char *folder, int64_t *step,
                       const CheckpointWish *wish, bool *averaged, const char **note)
{
    int64_t asked = *step;
    Err     err = checkpoint_put_weights(pool, session, folder, asked, wish->raw, averaged);
    *note = NULL;
    if (!err)
        return OK;
    const char *why = pool_text(pool, err_text());
    while (!checkpoint_before(pool, folder, asked, &asked) && asked >= 0) {
        if (checkpoint_put_weights(pool, session, folder, asked, wish->raw, averaged))
            continue;
        if (wish->only)
            return fail(err, "%s; step %lld is whole: use --checkpoint %lld", why, (long long)asked,
                        (long long)asked);
        *step = asked;
        *note = older_text(pool, why, asked);
        return OK;
    }
    return fail(err, "%s", why);
}

Err checkpoint_file(Pool *pool, const char *folder, int64_t *step, const char **path)
{
    RunState state = { 0 };
    char     name[FILE_PATH_MAX];
    if (*step < 0)
        TRY(checkpoint_newest(pool, folder, step));
    checkpoint_path(name, sizeof name, folder, *step, ".json");
    if (!file_exists(name))
        return fail(E_IO, "%s holds no whole checkpoint of step %lld", folder, (long long)*step);
    int64_t tensors;
    TRY(state_read(pool, name, *step, &state, &tensors));
    checkpoint_path(name, sizeof name, folder, *step, ".safetensors");
    *path = pool_text(pool, name);
    return checkpoint_intact(pool, name);
}

Err checkpoint_best(Pool *pool, const char *folder, int64_t *step)
{
    RunState state = { 0 };
    char     path[FILE_PATH_MAX];
    int64_t  newest, tensors;
    TRY(checkpoint_newest(pool, folder, &newest));
    checkpoint_path(path, sizeof path, folder, newest, ".json");
    TRY(state_read(pool, path, newest, &state, &tensors));
    *step = state.best_step;
    return *step > 0 ? OK
                     : fail(E_USAGE,
                            "%s was never validated, so no checkpoint is the best one; leave out "
                            "--checkpoint best",
                            folder);
}
