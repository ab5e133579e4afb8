/* codec.c -- runs SaShiMi step by step over the blocks of a file, coding or decoding. */
#include "codec/codec.h"

#include "base/checksum.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/terminal.h"
#include "base/text.h"
#include "codec/mixture.h"
#include "codec/range_coder.h"
#include "data/wav.h"
#include "device/isa.h"
#include "models/sashimi.h"
#include "train/checkpoint.h"
#include "train/drawing.h"
#include "train/weights_hash.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    BLOCK_SHARE = 16, /* lengths of the model: a shorter block would lose what the state knows */
    TELL_STEPS = 512
};

typedef struct Codec {
    Pool               *pool;
    const CodecOptions *o;
    const Recipe       *recipe;
    const Sashimi      *m;
    Session            *session;
    SashimiNet         *net;
    uint64_t            weights;
    int                 threads;
    CodecReport        *report;
    int64_t             steps; /* in the file */
    atomic_llong        done;
    double              started, shown;
} Codec;

/* ---- the model ---- */

Err codec_suits(const Recipe *recipe)
{
    const Sashimi *m = recipe->config;
    if (strcmp(recipe->model->name, "sashimi"))
        return fail(E_USAGE,
                    "compression needs a run of sashimi, which predicts audio sample by "
                    "sample; this is a run of %s",
                    recipe->model->name);
    if (m->head != HEAD_DML)
        return fail(E_USAGE, "compression needs model.head: dml; this run's head is categorical");
    if (m->encoding != ENCODING_LINEAR)
        return fail(E_USAGE, "compression needs model.encoding: linear; mu-law levels do not hold "
                             "every sample");
    if (m->bits != 8 && m->bits != 16)
        return fail(E_USAGE,
                    "compression needs model.bits 8 or 16, as WAV files have; this run's "
                    "is %lld",
                    (long long)m->bits);
    if (recipe->data.scaling != SCALING_NONE)
        return fail(E_USAGE, "compression needs a run trained with data.scaling: none; this one "
                             "scales every chunk, so its levels are not the file's samples");
    return OK;
}

/* Weights in a sampling session, whose arena is planned; the recurrent form is on the host. */
static Err codec_session(Codec *c, const Device *device)
{
    Engine *engine;
    Graph  *graph = graph_new_with(
         c->pool, recipe_type(c->recipe),
         &(BuildOptions){ .subpixel = recipe_for(c->pool, c->recipe, device)->levers.subpixel });
    TRY(recipe_suits(c->recipe, device));
    c->recipe->model->sample_graph(graph, c->recipe->config, &c->recipe->sampler, 1);
    TRY(graph_check(graph));
    TRY(engine_new(c->pool, graph, device, NULL, &engine));
    TRY(engine_within(engine, c->o->budget_bytes, "the model", NULL));
    c->report->planned_bytes = engine->arena_bytes;
    TRY(session_new(c->pool, engine, &c->session));
    return session_init_state(c->session, (uint64_t)c->recipe->seed);
}

static Err codec_weights(Codec *c, int64_t step, WeightsKind kind)
{
    WeightsRead read = { .step = step, .kind = kind, .length = c->m->length };
    TRY(checkpoint_weights(c->pool, c->session, c->o->run, &read));
    c->report->step = read.step;
    c->report->averaged = read.averaged;
    if (read.note && !c->o->quiet)
        print_sentence(stderr, "%s", read.note);
    return weights_hash(c->pool, c->session, &c->weights);
}

static Err codec_net(Codec *c)
{
    Drawing *drawing;
    TRY(drawing_new(c->pool, c->session, c->recipe,
                    &(DrawingOptions){ .n = 1, .fed = true, .quiet = true }, &drawing));
    Sampler s = drawing_sampler(drawing, c->pool);
    return sashimi_net_new(c->pool, c->m, &s, &c->net);
}

static Codec codec_new(Pool *pool, const Recipe *recipe, const Device *device,
                       const CodecOptions *o, CodecReport *report)
{
    *report = (CodecReport){ 0 };
    return (Codec){ .pool = pool,
                    .o = o,
                    .recipe = recipe,
                    .m = recipe->config,
                    .threads = device->threads,
                    .report = report };
}

/* ---- progress ---- */

static void codec_tell(Codec *c, const char *verb, int64_t more)
{
    int64_t done = atomic_fetch_add(&c->done, more) + more;
    if (c->o->quiet)
        return;
#pragma omp critical(codec_tell)
    if (progress_due(&c->shown, done == c->steps)) {
        double rate = (double)done / fmax(c->shown - c->started, 1e-9);
        if (terminal_draws())
            progress_show("%s %s of %s samples, %s a second, %s left", verb, count_text(done),
                          count_text(c->steps), count_text((int64_t)rate),
                          span_text((double)(c->steps - done) / rate));
        else
            fprintf(stderr, "%s %lld of %lld samples, %.0f a second\n", verb, (long long)done,
                    (long long)c->steps, rate);
        if (done == c->steps)
            progress_end();
    }
}

/* ---- steps ---- */

typedef struct BlockJob {
    Pool         *pool; /* of its thread */
    SashimiState *state;
    float        *outputs;
    int64_t       first, n; /* steps */
    uint8_t      *samples;  /* of the whole file, as in its WAV */
    RangeEncoder  encoder;
    double        bits;
    Err           err;
} BlockJob;

/* A WAV file's samples of 8 bits are unsigned, those of 16 signed. */
static int64_t sample_get(const uint8_t *at, int64_t i, int64_t bits)
{
    return bits == 8 ? at[i] : (int64_t)((at[2 * i] | at[2 * i + 1] << 8) ^ 0x8000);
}

static void sample_put(uint8_t *at, int64_t i, int64_t bits, int64_t level)
{
    if (bits == 8) {
        at[i] = (uint8_t)level;
        return;
    }
    at[2 * i] = (uint8_t)level;
    at[2 * i + 1] = (uint8_t)((level >> 8) ^ 0x80);
}

static void job_begin(const Codec *c, BlockJob *job)
{
    job->pool = pool_new(NULL, "block");
    job->state = sashimi_state_new(job->pool, c->net);
    job->outputs = NEWN(job->pool, float, sashimi_outputs(c->m));
}

/* The distribution of the next step, given the last one. */
static Err job_predict(const Codec *c, BlockJob *job, int64_t token, Mixture *mixture)
{
    sashimi_step(c->net, job->state, token, job->outputs);
    return mixture_set(mixture, c->m, job->outputs)
               ? OK
               : fail(E_NUMBER, "step %lld of the audio: the model's prediction is not finite",
                      (long long)job->first);
}

static Err block_encode(Codec *c, BlockJob *job)
{
    Mixture mixture;
    int64_t token = sashimi_levels(c->m) / 2;
    job->encoder = range_encoder(job->pool);
    for (int64_t i = 0; i < job->n; i++) {
        TRY(job_predict(c, job, token, &mixture));
        token = sample_get(job->samples, job->first + i, c->m->bits);
        uint32_t cum = mixture_cum(&mixture, token);
        range_encode(&job->encoder, cum, mixture_cum(&mixture, token + 1) - cum);
        job->bits += mixture_bits(&mixture, token);
        if ((i + 1) % TELL_STEPS == 0)
            codec_tell(c, "compressing", TELL_STEPS);
    }
    range_encode_end(&job->encoder);
    codec_tell(c, "compressing", job->n % TELL_STEPS);
    return OK;
}

static Err block_decode(Codec *c, BlockJob *job, const CodedBlock *block)
{
    Mixture      mixture;
    int64_t      token = sashimi_levels(c->m) / 2;
    RangeDecoder decoder = range_decoder(block->bytes, block->n);
    for (int64_t i = 0; i < job->n; i++) {
        uint32_t cum, freq;
        TRY(job_predict(c, job, token, &mixture));
        token = mixture_find(&mixture, range_decode_at(&decoder), &cum, &freq);
        range_decode(&decoder, cum, freq);
        sample_put(job->samples, job->first + i, c->m->bits, token);
        if ((i + 1) % TELL_STEPS == 0)
            codec_tell(c, "decompressing", TELL_STEPS);
    }
    codec_tell(c, "decompressing", job->n % TELL_STEPS);
    return OK;
}

/* Block number b on its own thread; its bytes are copied to the codec's pool. */
static void job_run(Codec *c, CodedAudio *a, uint8_t *samples, bool encode, int64_t b,
                    BlockJob *job)
{
    int64_t first = b * a->block_steps;
    *job = (BlockJob){ .first = first,
                       .n = c->steps - first < a->block_steps ? c->steps - first : a->block_steps,
                       .samples = samples };
    job_begin(c, job);
    job->err = encode ? block_encode(c, job) : block_decode(c, job, &a->blocks[b]);
}

/* All blocks; the first failure's sentence is repeated on this thread. */
static Err blocks_run(Codec *c, CodedAudio *a, uint8_t *samples, bool encode)
{
    char   why[512] = "";
    Err    failed = OK;
    double bits = 0;
    c->started = c->shown = clock_now();
#pragma omp parallel for schedule(dynamic, 1) num_threads(c->threads)
    for (int64_t b = 0; b < a->n_blocks; b++) {
        BlockJob job;
        job_run(c, a, samples, encode, b, &job);
#pragma omp critical(codec_block)
        {
            if (job.err && !failed) {
                failed = job.err;
                snprintf(why, sizeof why, "%s", err_text());
            }
            bits += job.bits;
            if (encode && !job.err) {
                uint32_t n = (uint32_t)job.encoder.n;
                uint8_t *copy = NEWN(c->pool, uint8_t, n + 1);
                memcpy(copy, job.encoder.bytes, n);
                a->blocks[b] = (CodedBlock){ copy, n };
            }
        }
        pool_free(job.pool);
    }
    c->report->seconds = clock_now() - c->started;
    c->report->nll_bits = bits;
    return failed ? fail(failed, "%s", why) : OK;
}

static void report_fill(Codec *c, const CodedAudio *a)
{
    CodecReport *r = c->report;
    r->samples = c->steps;
    r->channels = a->channels;
    r->rate = a->rate;
    r->bits = a->bits;
    r->blocks = a->n_blocks;
    r->wav_bytes = a->n_head + a->n_tail + c->steps * a->bits / 8;
    r->file_bytes = coded_bytes(a);
    for (int64_t i = 0; i < a->n_blocks; i++)
        r->payload_bytes += a->blocks[i].n;
}

static uint64_t samples_hash(const uint8_t *samples, int64_t n)
{
    Checksum sum = checksum_begin();
    checksum_add(&sum, samples, (size_t)n);
    return checksum_end(&sum);
}

/* ---- compression ---- */

static Err wav_suits(const char *path, const WavInfo *info, const Sashimi *m)
{
    const char *law = info->floats   ? "floats"
                      : info->a_law  ? "A-law"
                      : info->mu_law ? "mu-law"
                                     : NULL;
    if (law || info->bits != m->bits)
        return fail(E_USAGE,
                    "%s holds %s of %d bits, the model predicts integers of %lld (model.bits); "
                    "convert the file, or take a run of its bits",
                    path, law ? law : "integers", info->bits, (long long)m->bits);
    if (info->channels != m->channels)
        return fail(E_USAGE, "%s has %lld channels, the model %lld (model.channels)", path,
                    (long long)info->channels, (long long)m->channels);
    if (info->rate != m->rate)
        return fail(E_USAGE,
                    "%s has %lld samples a second, the model %lld; --set model.rate=%lld "
                    "compresses it all the same, though less",
                    path, (long long)info->rate, (long long)m->rate, (long long)info->rate);
    if (info->frames < 1)
        return fail(E_USAGE, "%s holds no samples", path);
    return OK;
}

static Err block_steps_choose(const Codec *c, int64_t *steps)
{
    int64_t asked = c->o->block_steps, share = ceil_div(c->steps, c->threads);
    if (asked && (asked < CODED_BLOCK_MIN || asked > CODED_BLOCK_MAX))
        return fail(E_USAGE, "--block takes %d to %d steps, not %lld", CODED_BLOCK_MIN,
                    CODED_BLOCK_MAX, (long long)asked);
    int64_t low = c->m->length * BLOCK_SHARE;
    share = share < low ? low : share;
    *steps = asked ? asked : share > CODED_BLOCK_MAX ? CODED_BLOCK_MAX : share;
    return OK;
}

/* The file that is written takes the place of the other at its path. */
static Err out_is_new(const CodecOptions *o)
{
    return file_same(o->in, o->out)
               ? fail(E_USAGE, "-o %s is the file that is read, which would be lost; name another",
                      o->out)
               : OK;
}

static Err wav_open(Codec *c, MapFile *map, WavInfo *info)
{
    TRY(file_map(c->pool, c->o->in, map));
    TRY(wav_parse(c->o->in, map->bytes, map->n, map->n, info));
    TRY(wav_suits(c->o->in, info, c->m));
    if (map->n - wav_frame_bytes(info) * (size_t)info->frames > UINT32_MAX / 4)
        return fail(E_USAGE, "%s has more than 1 GiB beside its samples", c->o->in);
    c->steps = info->frames * info->channels;
    return OK;
}

Err codec_compress(Pool *pool, const Recipe *recipe, const Device *device, const CodecOptions *o,
                   CodecReport *report)
{
    Codec   c = codec_new(pool, recipe, device, o, report);
    MapFile map;
    WavInfo info;
    TRY(out_is_new(o));
    TRY(codec_suits(recipe));
    TRY(wav_open(&c, &map, &info));
    TRY(folder_hold(pool, o->run));
    TRY(codec_session(&c, device));
    TRY(codec_weights(&c, o->checkpoint, o->weights));
    TRY(codec_net(&c));
    int64_t    bytes = info.frames * (int64_t)wav_frame_bytes(&info);
    CodedAudio a = { .weights = c.weights,
                     .step = report->step,
                     .averaged = report->averaged,
                     .frames = info.frames,
                     .threads = c.threads,
                     .rate = info.rate,
                     .channels = info.channels,
                     .bits = info.bits,
                     .head = map.bytes,
                     .n_head = (int64_t)info.offset,
                     .tail = map.bytes + info.offset + bytes,
                     .n_tail = (int64_t)map.n - (int64_t)info.offset - bytes };
    uint8_t   *samples = NEWN(pool, uint8_t, bytes); /* a copy: the file may change meanwhile */
    memcpy(samples, map.bytes + info.offset, (size_t)bytes);
    a.samples = samples_hash(samples, bytes);
    snprintf(a.isa, sizeof a.isa, "%s", isa_name());
    TRY(block_steps_choose(&c, &a.block_steps));
    a.n_blocks = coded_blocks(a.frames, a.channels, a.block_steps);
    a.blocks = NEWN(pool, CodedBlock, a.n_blocks);
    TRY(blocks_run(&c, &a, samples, true));
    report_fill(&c, &a);
    return coded_write(o->out, &a);
}

/* ---- decompression ---- */

Err codec_look(Pool *pool, const char *path, CodedAudio *a)
{
    MapFile map;
    TRY(file_map(pool, path, &map));
    return coded_parse(pool, path, map.bytes, map.n, a);
}

/* What PLIMSOLL_ISA is called for an ISA: "v3" of x86-64-v3, "amx" of x86-64-v4+amx. */
static const char *isa_word(const char *isa)
{
    const char *plus = strchr(isa, '+'), *dash = strrchr(isa, '-');
    return plus ? plus + 1 : dash ? dash + 1 : isa;
}

static Err machine_suits(const Codec *c, const CodedAudio *a)
{
    if (strcmp(a->isa, isa_name()))
        return fail(E_USAGE,
                    "%s was compressed with the kernels of %s, this process runs those of %s, "
                    "whose results differ in their last bits; set PLIMSOLL_ISA=%s, on a machine "
                    "that has them",
                    c->o->in, a->isa, isa_name(), isa_word(a->isa));
    if (a->threads != c->threads)
        return fail(E_USAGE, "%s was compressed with %lld threads, not %d; use --threads %lld",
                    c->o->in, (long long)a->threads, c->threads, (long long)a->threads);
    return OK;
}

static Err head_suits(const CodecOptions *o, const CodedAudio *a, const Sashimi *m)
{
    WavInfo info;
    size_t  whole = (size_t)(a->n_head + a->n_tail + a->frames * a->channels * a->bits / 8);
    Err     err = wav_parse(o->in, a->head, (size_t)a->n_head, whole, &info);
    if (err || info.offset != (size_t)a->n_head || info.frames != a->frames ||
        info.channels != a->channels || info.bits != a->bits || info.rate != a->rate)
        return fail(E_FORMAT, "%s is damaged: the WAV header in it is not that of its samples",
                    o->in);
    if (a->bits != m->bits || a->channels != m->channels)
        return fail(E_USAGE,
                    "%s holds %lld channels of %lld bits, the run's model predicts %lld of %lld; "
                    "take the run that compressed it",
                    o->in, (long long)a->channels, (long long)a->bits, (long long)m->channels,
                    (long long)m->bits);
    return OK;
}

/* By the file's step, where the run still has it, else the newest. */
static Err weights_as_coded(Codec *c, const CodedAudio *a)
{
    int64_t step = c->o->checkpoint >= 0 ? c->o->checkpoint : a->step;
    if (!file_exists(pool_print(c->pool, "%s/step-%06lld.json", c->o->run, (long long)step)))
        step = c->o->checkpoint;
    TRY(codec_weights(c, step, a->averaged ? WEIGHTS_USUAL : WEIGHTS_RAW));
    if (c->weights == a->weights)
        return OK;
    return fail(E_USAGE,
                "%s was compressed with other weights (%016" PRIx64 ", %s of step %lld) than those "
                "of %s (%016" PRIx64 ", step %lld); take the run and checkpoint that compressed it",
                c->o->in, a->weights, a->averaged ? "averaged" : "raw", (long long)a->step,
                c->o->run, c->weights, (long long)c->report->step);
}

static Err wav_out(const CodecOptions *o, const CodedAudio *a, const uint8_t *samples,
                   int64_t bytes)
{
    FileOut out;
    TRY(file_out_init(&out, o->out));
    file_out_add(&out, a->head, (size_t)a->n_head);
    file_out_add(&out, samples, (size_t)bytes);
    file_out_add(&out, a->tail, (size_t)a->n_tail);
    return file_out_done(&out, OK);
}

Err codec_decompress(Pool *pool, const Recipe *recipe, const Device *device, const CodecOptions *o,
                     CodecReport *report)
{
    Codec      c = codec_new(pool, recipe, device, o, report);
    CodedAudio a;
    TRY(out_is_new(o));
    TRY(codec_look(pool, o->in, &a));
    TRY(codec_suits(recipe));
    TRY(head_suits(o, &a, c.m));
    TRY(machine_suits(&c, &a));
    TRY(folder_hold(pool, o->run));
    TRY(codec_session(&c, device));
    TRY(weights_as_coded(&c, &a));
    TRY(codec_net(&c));
    c.steps = a.frames * a.channels;
    int64_t  bytes = c.steps * a.bits / 8;
    uint8_t *samples = NEWN(pool, uint8_t, bytes);
    TRY(blocks_run(&c, &a, samples, false));
    report_fill(&c, &a);
    if (samples_hash(samples, bytes) != a.samples)
        return fail(E_FORMAT,
                    "%s: the samples that came out are not those that went in; the program or its "
                    "libraries may be of another version than those that compressed it",
                    o->in);
    return wav_out(o, &a, samples, bytes);
}
