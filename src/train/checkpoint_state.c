/* checkpoint_state.c -- step-NNNNNN.json: the numbers of a checkpoint beside its weights. */
#include "train/checkpoint_state.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/json_out.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

void checkpoint_digits(uint64_t hash, char text[17])
{
    snprintf(text, 17, "%016llx", (unsigned long long)hash);
}

static void json_out_hash(JsonOut *o, const char *key, uint64_t hash)
{
    char text[17];
    checkpoint_digits(hash, text);
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
               : fail(E_FORMAT, "%s is damaged: its bytes differ from the checksum at its end",
                      path);
}

void checkpoint_state_write(FileOut *out, const RunState *state, int32_t n_tensors,
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
    checkpoint_digits(state_digest(state, p), found);
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

Err checkpoint_state_parse(Pool *pool, const char *path, const char *text, size_t n, int64_t step,
                           RunState *state, int64_t *tensors)
{
    const Json *json;
    Plateau     plateau = { .on = true };
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

Err checkpoint_state_read(Pool *pool, const char *path, int64_t step, RunState *state,
                          int64_t *tensors)
{
    char  *text;
    size_t n;
    TRY(file_read_within(pool, path, STATE_MAX, &text, &n));
    return checkpoint_state_parse(pool, path, text, n, step, state, tensors);
}
