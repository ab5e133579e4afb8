/* Tests of report/evaluation: the table and the JSON of figures made by hand, undefined ones too. */
#include "test.h"

#include "report/evaluation_pages.h"

#include <math.h>

static const ModelDef lag = { .name = "lag" };
static Recipe         recipe = { .name = "lag-small", .model = &lag };

static int64_t         times[] = { 0, 100, 200, 300, 400, 500 };
static double          losses[] = { 0.1, 0.2, 0.3, 0.4, 0.5, 0.6 };
static EvaluatedSample samples[] = { { "box", 1 }, { "ring", 2 }, { NULL, 9 }, { "box", 4 } };

static Evaluation by_hand(void)
{
    return (Evaluation){ .step = 20,
                         .averaged = true,
                         .weights = 0xabc,
                         .kind = "coloured-sets",
                         .samples = 4,
                         .fingerprint = 0x10,
                         .loss = 0.35,
                         .bits = NAN,
                         .n_times = 6,
                         .times = times,
                         .losses = losses,
                         .list = samples,
                         .planned_bytes = 6375424,
                         .measured_bytes = 6375424,
                         .seconds = 1.25 };
}

static const char *text_of(Pool *pool, const Evaluation *e)
{
    char *page = pool_alloc(pool, 4096, 1);
    FILE *to = fmemopen(page, 4096, "w");
    evaluation_text(to, &recipe, e);
    fclose(to);
    return page;
}

static void table(void)
{
    Pool      *pool = pool_new(NULL, "evaluation");
    Evaluation e = by_hand();
    CHECK_TEXT(text_of(pool, &e),
               "lag-small, step 20, averaged weights 0000000000000abc\n"
               "data         coloured-sets: 4 of any number of samples, fingerprint "
               "0000000000000010\n"
               "loss         0.350000, the mean of 6 timesteps:\n"
               "       0   0.10000     200   0.30000     400   0.50000\n" /* down, then right */
               "     100   0.20000     300   0.40000     500   0.60000\n"
               "loss per set\n"
               "    2.50000  box (2)\n"
               "    2.00000  ring (1)\n"
               "6,375,424 planned = 6,375,424 measured, 1.2 s\n");
    pool_free(pool);
}

static void results(void)
{
    Pool      *pool = pool_new(NULL, "evaluation");
    Evaluation e = by_hand();
    e.n_times = 0;
    e.list = NULL;
    e.bits = 7.5;
    e.has_images = e.has_clips = true;
    e.images = e.inputs = (Quality){ 30, 31, 0.9, NAN };
    e.clips = (ClipErrors){
        .metres = true, .mae = 1.5, .rmse = 2, .temporal = NAN, .valid = 5868, .pixels = 8192
    };
    const char *page = text_of(pool, &e);
    CHECK(NULL != strstr(page, "loss         0.350000\nnll          7.5000 bits per sample\n"));
    CHECK(NULL != strstr(page, "result         30.000   31.000   0.9000      nan\n"));
    CHECK(NULL !=
          strstr(page, "MAE          1.5000 m\nRMSE         2.0000 m\nvalid        5,868 of 8,192 "
                       "pixels\n")); /* one frame: no temporal row */
    pool_free(pool);
}

static void json(void)
{
    Pool       *pool = pool_new(NULL, "evaluation");
    Evaluation  e = by_hand();
    Text        text = { .pool = pool };
    JsonOut     o;
    const Json *root;
    e.has_clips = true;
    e.clips = (ClipErrors){ .mae = 1.5, .temporal = NAN };
    json_out_text(&o, &text, JSON_PRETTY);
    evaluation_json(&o, &recipe, &e);
    CHECK_OK(json_out_done(&o));
    CHECK_OK(json_parse(pool, "evaluation", text.at, text.n, 0, &root));
    CHECK_TEXT(json_get(root, "format")->text, "plimsoll-evaluation-1");
    CHECK_TEXT(json_get(json_get(root, "weights"), "hash")->text, "0000000000000abc");
    CHECK_INT(json_get(root, "timesteps")->n, 6);
    CHECK_INT(json_get(root, "samples")->n, 4);
    CHECK(!json_get(root, "bits_per_sample")); /* not of this system */
    CHECK_INT(json_get(json_get(root, "clips"), "temporal")->kind, JSON_NULL);
    CHECK_TEXT(json_get(json_get(root, "clips"), "unit")->text, "levels");
    pool_free(pool);
}

static void frechet(void)
{
    char    page[512] = "";
    FILE   *to = fmemopen(page, sizeof page, "w");
    Frechet f = {
        .distance = 3, .mean_term = 1, .trace_term = 2, .n = { 2048, 1000 }, .features = 2048
    };
    frechet_text(to, &f);
    fclose(to);
    CHECK_TEXT(page, "Frechet distance 3.000000 (means 1.000000, covariances 2.000000); 2048 "
                     "features, 2,048 and 1,000 samples\n"
                     "no more samples than features: a covariance is singular, and the distance is "
                     "biased upwards\n");
}

int main(void)
{
    RUN(table);
    RUN(results);
    RUN(json);
    RUN(frechet);
    return test_end();
}
