/* codec.c -- WAV files come back byte for byte, at the cost that the model's loss says; other
 * weights, threads and files are refused. */
#include "tiny_run.h"

#include "base/random.h"
#include "codec/codec.h"
#include "evaluate/evaluate.h"
#include "models/sashimi.h"

#define RUN_FOLDER "codec_run"
#define WAV        "codec_in.wav"
#define PLZ        "codec.plz"
#define BACK       "codec_out.wav"

static const char *const small[] = { "data.scaling=none", "model.length=256", "model.width=8",
                                     "model.layers=1",    "batch=2",          "data.samples=8",
                                     "validate.every=0",  "steps=3",          "save.every=3" };
enum { N_SMALL = sizeof small / sizeof *small };

static Recipe *recipe_of(Pool *pool, const char *more, const char *more2)
{
    const char *sets[N_SMALL + 2];
    int         n = 0;
    for (; n < N_SMALL; n++)
        sets[n] = small[n];
    if (more)
        sets[n++] = more;
    if (more2)
        sets[n++] = more2;
    return tiny_recipe(pool, "sashimi-small", sets, n);
}

static void put(FileOut *out, uint32_t x, int n)
{
    unsigned char bytes[4] = { (unsigned char)x, (unsigned char)(x >> 8), (unsigned char)(x >> 16),
                               (unsigned char)(x >> 24) };
    file_out_add(out, bytes, (size_t)n);
}

/* A tone with noise, or noise alone (kind 1), extremes alone (2), silence (3); with a chunk before
 * the samples and one behind them. */
static void wav_make(int kind, int bits, int channels, int64_t frames)
{
    FileOut out;
    int64_t bytes = frames * channels * bits / 8;
    CHECK_OK(file_out_init(&out, WAV));
    file_out_add(&out, "RIFF", 4);
    put(&out, (uint32_t)(4 + 24 + 12 + 8 + bytes + 12), 4);
    file_out_add(&out, "WAVEfmt ", 8);
    put(&out, 16, 4);
    put(&out, 1, 2);
    put(&out, (uint32_t)channels, 2);
    put(&out, 8000, 4);
    put(&out, (uint32_t)(8000 * channels * bits / 8), 4);
    put(&out, (uint32_t)(channels * bits / 8), 2);
    put(&out, (uint32_t)bits, 2);
    file_out_add(&out, "LIST\4\0\0\0note", 12);
    file_out_add(&out, "data", 4);
    put(&out, (uint32_t)bytes, 4);
    for (int64_t i = 0; i < frames * channels; i++) {
        float  noise = random_normal_at((RandomKey){ .seed = 1 }, (uint64_t)i);
        double x = kind == 0   ? 0.6 * sin(0.1 * (double)(i / channels)) + 0.02 * (double)noise
                   : kind == 1 ? (double)noise
                   : kind == 2 ? (i % 7 < 3 ? -2 : 2)
                               : 0;
        double level = floor(fmin(fmax((x + 1) / 2, 0), 1) * (pow(2, bits) - 1));
        put(&out, bits == 8 ? (uint32_t)level : (uint32_t)level ^ 0x8000, bits / 8);
    }
    file_out_add(&out, "id3 \4\0\0\0tail", 12);
    CHECK_OK(file_out_done(&out, OK));
}

static bool same_files(Pool *pool, const char *a, const char *b)
{
    char  *x, *y;
    size_t n, m;
    CHECK_OK(file_read(pool, a, &x, &n));
    CHECK_OK(file_read(pool, b, &y, &m));
    return n == m && !memcmp(x, y, n);
}

static CodecOptions both(const char *in, const char *out)
{
    return (
        CodecOptions){ .run = RUN_FOLDER, .in = in, .out = out, .checkpoint = -1, .quiet = true };
}

static void goes_round(Pool *pool, const Recipe *recipe, int kind, int64_t frames, int64_t block)
{
    const Sashimi *m = recipe->config;
    CodecOptions   to = both(WAV, PLZ), back = both(PLZ, BACK);
    CodecReport    report, again;
    wav_make(kind, (int)m->bits, (int)m->channels, frames);
    to.block_steps = block;
    CHECK_OK(file_remove(BACK));
    CHECK_OK(codec_compress(pool, recipe, tiny_device(pool, 2), &to, &report));
    CHECK_OK(codec_decompress(pool, recipe, tiny_device(pool, 2), &back, &again));
    CHECK(same_files(pool, WAV, BACK));
    CHECK_INT(report.samples, frames * m->channels);
    /* within 1 %, and two bytes for the end of a block; the coder's floor is better than a hopeless
     * prediction */
    double payload = 8 * (double)report.payload_bytes;
    CHECK(payload <= 1.01 * report.nll_bits + 16 * (double)report.blocks);
    if (kind == 0)
        CHECK(payload >= 0.99 * report.nll_bits);
    char  *bytes;
    size_t n;
    CHECK_OK(file_read(pool, PLZ, &bytes, &n));
    CHECK_INT(n, report.file_bytes);
}

static void every_form(void)
{
    static const struct {
        const char *bits, *channels;
    } forms[] = { { "model.bits=8", "model.channels=1" }, { "model.bits=16", "model.channels=2" } };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        Pool   *pool = pool_new(NULL, "form");
        Recipe *recipe = recipe_of(pool, forms[i].bits, forms[i].channels);
        tiny_train(pool, recipe, RUN_FOLDER);
        goes_round(pool, recipe, 0, 3000, 0);
        goes_round(pool, recipe, 0, 3000, 700); /* several blocks, the last one shorter */
        for (int kind = 1; kind < 4; kind++)
            goes_round(pool, recipe, kind, 600, 0);
        goes_round(pool, recipe, 0, 1, 0);
        pool_free(pool);
    }
}

/* The recurrent form's cost of a file of one chunk is the training form's loss on it. */
static void costs_the_loss(void)
{
    Pool        *pool = pool_new(NULL, "cost");
    Recipe      *recipe = recipe_of(pool, NULL, NULL);
    CodecOptions to = both(WAV, PLZ);
    CodecReport  report;
    Evaluation   e;
    tiny_train(pool, recipe, RUN_FOLDER);
    wav_make(0, 8, 1, 256);
    CHECK_OK(codec_compress(pool, recipe, tiny_device(pool, 2), &to, &report));
    CHECK_OK(evaluate_run(
        pool, RUN_FOLDER, recipe, tiny_device(pool, 2),
        &(EvaluateOptions){ .data = WAV, .batch = 1, .seed = -1, .checkpoint = -1, .quiet = true },
        &e));
    CHECK_INT(e.samples, 1);
    CHECK_NEAR(report.nll_bits / 256, e.bits, 1e-4);
    pool_free(pool);
}

static void says(Err err, Err want, const char *words)
{
    CHECK_INT(err, want);
    if (err && !CHECK(strstr(err_text(), words) != NULL))
        fprintf(stderr, "  said: %s\n", err_text());
}

static void refuses(void)
{
    Pool        *pool = pool_new(NULL, "refuses");
    Recipe      *recipe = recipe_of(pool, NULL, NULL);
    CodecOptions to = both(WAV, PLZ), back = both(PLZ, BACK);
    CodecReport  r;
    tiny_train(pool, recipe, RUN_FOLDER);
    wav_make(0, 16, 1, 100);
    says(codec_compress(pool, recipe, tiny_device(pool, 2), &to, &r), E_USAGE, "model.bits");
    wav_make(0, 8, 2, 100);
    says(codec_compress(pool, recipe, tiny_device(pool, 2), &to, &r), E_USAGE, "model.channels");
    wav_make(0, 8, 1, 0);
    says(codec_compress(pool, recipe, tiny_device(pool, 2), &to, &r), E_USAGE, "no samples");
    wav_make(0, 8, 1, 300);
    Recipe *rate = recipe_of(pool, "model.rate=16000", NULL);
    says(codec_compress(pool, rate, tiny_device(pool, 2), &to, &r), E_USAGE, "model.rate=8000");
    Recipe *scaled = recipe_of(pool, "data.scaling=chunk", NULL);
    says(codec_compress(pool, scaled, tiny_device(pool, 2), &to, &r), E_USAGE, "data.scaling");
    Recipe *law = recipe_of(pool, "model.encoding=mu_law", NULL);
    says(codec_compress(pool, law, tiny_device(pool, 2), &to, &r), E_USAGE, "linear");
    says(codec_compress(pool, tiny_recipe(pool, "unet-small", NULL, 0), tiny_device(pool, 2), &to,
                        &r),
         E_USAGE, "sashimi");
    to.budget_bytes = 1000;
    says(codec_compress(pool, recipe, tiny_device(pool, 2), &to, &r), E_BUDGET,
         "the budget is 1000");
    to.budget_bytes = 0;
    to.block_steps = 3;
    says(codec_compress(pool, recipe, tiny_device(pool, 2), &to, &r), E_USAGE, "--block");
    to.block_steps = 0;
    CHECK_OK(codec_compress(pool, recipe, tiny_device(pool, 2), &to, &r));
    CodecOptions over = to;
    over.out = over.in;
    says(codec_compress(pool, recipe, tiny_device(pool, 2), &over, &r), E_USAGE,
         "is the file that is read");
    over = back;
    over.out = over.in;
    says(codec_decompress(pool, recipe, tiny_device(pool, 2), &over, &r), E_USAGE,
         "is the file that is read");
    says(codec_decompress(pool, recipe, tiny_device(pool, 1), &back, &r), E_USAGE, "--threads 2");
    recipe->seed = 9; /* other weights */
    tiny_train(pool, recipe, RUN_FOLDER);
    says(codec_decompress(pool, recipe, tiny_device(pool, 2), &back, &r), E_USAGE, "other weights");
    pool_free(pool);
}

int main(void)
{
    RUN(every_form);
    RUN(costs_the_loss);
    RUN(refuses);
    return test_end();
}
