/* coded_audio.c -- writes and checks .plz files. */
#include "codec/coded_audio.h"

#include "base/checksum.h"
#include "base/endian.h"
#include "base/file.h"

#include <inttypes.h>
#include <string.h>

enum { TRAILER = 8, RATE_MAX = 10000000, FLAG_AVERAGED = 1 };
static const uint64_t samples_max = UINT32_MAX - 64; /* bytes of samples in a WAV file */

/* ---- writing ---- */

typedef struct Writing {
    FileOut *out;
    Checksum sum;
} Writing;

static void put(Writing *w, const void *bytes, size_t n)
{
    checksum_add(&w->sum, bytes, n);
    file_out_add(w->out, bytes, n);
}

static void put_number(Writing *w, uint64_t x, int n)
{
    unsigned char bytes[8];
    little_put(bytes, x, n);
    put(w, bytes, (size_t)n);
}

int64_t coded_bytes(const CodedAudio *a)
{
    int64_t n = CODED_FIXED + 4 * a->n_blocks + a->n_head + a->n_tail + TRAILER;
    for (int64_t i = 0; i < a->n_blocks; i++)
        n += a->blocks[i].n;
    return n;
}

static void put_all(Writing *w, const CodedAudio *a)
{
    char isa[CODED_ISA] = { 0 };
    memcpy(isa, a->isa, strlen(a->isa) < CODED_ISA ? strlen(a->isa) : CODED_ISA);
    put(w, "PLZAUDIO", 8);
    put_number(w, CODED_VERSION, 4);
    put_number(w, a->averaged ? FLAG_AVERAGED : 0, 4);
    put_number(w, a->weights, 8);
    put_number(w, (uint64_t)a->step, 8);
    put_number(w, a->samples, 8);
    put_number(w, (uint64_t)a->frames, 8);
    put_number(w, (uint64_t)a->threads, 4);
    put_number(w, (uint64_t)a->rate, 4);
    put_number(w, (uint64_t)a->channels, 2);
    put_number(w, (uint64_t)a->bits, 2);
    put(w, isa, sizeof isa);
    put_number(w, (uint64_t)a->block_steps, 4);
    put_number(w, (uint64_t)a->n_head, 4);
    put_number(w, (uint64_t)a->n_tail, 4);
    for (int64_t i = 0; i < a->n_blocks; i++)
        put_number(w, a->blocks[i].n, 4);
    put(w, a->head, (size_t)a->n_head);
    put(w, a->tail, (size_t)a->n_tail);
    for (int64_t i = 0; i < a->n_blocks; i++)
        put(w, a->blocks[i].bytes, a->blocks[i].n);
}

Err coded_write(const char *path, const CodedAudio *a)
{
    FileOut out;
    Writing w = { &out, checksum_begin() };
    TRY(file_out_init(&out, path));
    put_all(&w, a);
    put_number(&w, checksum_end(&w.sum), TRAILER);
    return file_out_done(&out, OK);
}

/* ---- reading ---- */

static Err damaged(const char *name, const char *what)
{
    return fail(E_FORMAT, "%s is damaged: %s; take another copy of it", name, what);
}

static bool isa_plain(const char *isa) /* it is printed */
{
    for (int i = 0; i < CODED_ISA; i++)
        if (isa[i] && (isa[i] < '+' || isa[i] > 'z'))
            return false;
    return isa[0] != '\0';
}

static Err fixed_read(const char *name, const unsigned char *b, CodedAudio *a)
{
    uint64_t version = little_get(b + 8, 4), flags = little_get(b + 12, 4);
    if (version != CODED_VERSION)
        return fail(E_FORMAT, "%s is in version %" PRIu64 " of the format; this program reads %d",
                    name, version, CODED_VERSION);
    a->averaged = flags & FLAG_AVERAGED;
    a->weights = little_get(b + 16, 8);
    uint64_t step = little_get(b + 24, 8), frames = little_get(b + 40, 8);
    a->samples = little_get(b + 32, 8);
    a->threads = (int64_t)little_get(b + 48, 4);
    a->rate = (int64_t)little_get(b + 52, 4);
    a->channels = (int64_t)little_get(b + 56, 2);
    a->bits = (int64_t)little_get(b + 58, 2);
    memcpy(a->isa, b + 60, CODED_ISA);
    a->block_steps = (int64_t)little_get(b + 84, 4);
    a->n_head = (int64_t)little_get(b + 88, 4);
    a->n_tail = (int64_t)little_get(b + 92, 4);
    if (!isa_plain(a->isa) || flags > FLAG_AVERAGED || step > INT64_MAX || a->threads < 1 ||
        a->threads > CODED_THREADS || a->rate < 1 || a->rate > RATE_MAX || a->channels < 1 ||
        a->channels > 2 || (a->bits != 8 && a->bits != 16) || a->block_steps < CODED_BLOCK_MIN ||
        a->block_steps > CODED_BLOCK_MAX)
        return damaged(name, "its header holds numbers that no compression writes");
    a->step = (int64_t)step;
    if (frames > samples_max / (uint64_t)(a->channels * a->bits / 8))
        return damaged(name, "it has more samples than a WAV file can hold");
    a->frames = (int64_t)frames;
    return OK;
}

/* Sizes in 64 bits that cannot overflow: at most 2^32 samples, so 2^28 blocks of 2^32 bytes. */
static Err sizes_check(const char *name, const unsigned char *b, size_t n, CodedAudio *a)
{
    uint64_t at = CODED_FIXED, end = n - TRAILER;
    a->n_blocks = coded_blocks(a->frames, a->channels, a->block_steps);
    if ((uint64_t)a->n_blocks * 4 > end - at)
        return damaged(name, "it is too short for its table of blocks");
    uint64_t sum = at + (uint64_t)a->n_blocks * 4 + (uint64_t)a->n_head + (uint64_t)a->n_tail;
    for (int64_t i = 0; i < a->n_blocks; i++)
        sum += little_get(b + at + 4 * (uint64_t)i, 4);
    if (sum != end)
        return damaged(name,
                       sum > end ? "it is shorter than its table says" : "bytes follow its end");
    return OK;
}

Err coded_parse(Pool *pool, const char *name, const unsigned char *bytes, size_t n, CodedAudio *a)
{
    *a = (CodedAudio){ 0 };
    if (!coded_is(bytes, n))
        return fail(E_USAGE, "%s is not a file of plimsoll compress (.plz)", name);
    if (n < CODED_FIXED + TRAILER)
        return damaged(name, "it is too short for its header");
    TRY(fixed_read(name, bytes, a));
    TRY(sizes_check(name, bytes, n, a));
    Checksum sum = checksum_begin();
    checksum_add(&sum, bytes, n - TRAILER);
    if (checksum_end(&sum) != little_get(bytes + n - TRAILER, TRAILER))
        return damaged(name, "its checksum is wrong");
    const unsigned char *at = bytes + CODED_FIXED + 4 * a->n_blocks;
    a->head = at;
    a->tail = at += a->n_head;
    at += a->n_tail;
    a->blocks = NEWN(pool, CodedBlock, a->n_blocks + 1);
    for (int64_t i = 0; i < a->n_blocks; i++) {
        a->blocks[i] = (CodedBlock){ at, (uint32_t)little_get(bytes + CODED_FIXED + 4 * i, 4) };
        at += a->blocks[i].n;
    }
    return OK;
}
