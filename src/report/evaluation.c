/* evaluation.c -- the pages of `evaluate`. */
#include "report/evaluation_pages.h"

#include "base/int_math.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { TIME_COLUMNS = 5, SET_ROWS = 32 };

/* ---- a table ---- */

static void head_text(FILE *to, const Recipe *recipe, const Evaluation *e)
{
    fprintf(to, "%s, step %lld, %s weights %016" PRIx64 "\n", recipe->name, (long long)e->step,
            e->averaged ? "averaged" : "raw", e->weights);
    fprintf(to, "%-12s %s: %s of ", "data", e->data ? e->data : e->kind, count_text(e->samples));
    fprintf(to, "%s samples, fingerprint %016" PRIx64 "\n",
            e->of ? count_text(e->of) : "any number of", e->fingerprint);
}

/* Timesteps go down the columns. */
static void times_text(FILE *to, const Evaluation *e)
{
    int64_t rows = ceil_div(e->n_times, TIME_COLUMNS);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t k = r; k < e->n_times; k += rows)
            fprintf(to, "  %6lld %9.5f", (long long)e->times[k], e->losses[k]);
        fprintf(to, "\n");
    }
}

static bool same_class(const EvaluatedSample *sample, const char *name)
{
    return sample->about && !strcmp(sample->about, name);
}

/* The mean loss of every class, in the order of their first samples. */
static void sets_text(FILE *to, const Evaluation *e)
{
    int rows = 0;
    for (int64_t i = 0; i < e->samples; i++) {
        const char *name = e->list[i].about;
        double      sum = 0;
        int64_t     n = 0;
        bool        first = name != NULL;
        for (int64_t k = 0; k < i && first; k++)
            first = !same_class(&e->list[k], name);
        for (int64_t k = i; k < e->samples && first; k++)
            if (same_class(&e->list[k], name)) {
                sum += e->list[k].loss;
                n++;
            }
        if (first && rows++ < SET_ROWS)
            fprintf(to, "  %9.5f  %s (%lld)\n", sum / (double)n, name, (long long)n);
    }
    if (rows > SET_ROWS)
        fprintf(to, "  and %d more (--json lists every sample)\n", rows - SET_ROWS);
}

static void loss_text(FILE *to, const Evaluation *e, bool sets)
{
    fprintf(to, "%-12s %.6f", "loss", e->loss);
    if (e->n_times)
        fprintf(to, ", the mean of %lld timesteps:\n", (long long)e->n_times);
    else
        fprintf(to, "\n");
    times_text(to, e);
    if (!isnan(e->bits))
        fprintf(to, "%-12s %.4f bits per sample\n", "nll", e->bits);
    if (sets && e->list && e->samples && e->list[0].about) { /* known of the first: of most */
        fprintf(to, "loss per set\n");
        sets_text(to, e);
    }
}

static void quality_text(FILE *to, const char *name, const Quality *q)
{
    fprintf(to, "%-12s %8.3f %8.3f %8.4f %8.4f\n", name, q->psnr, q->psnr_y, q->ssim, q->ssim_y);
}

static void results_text(FILE *to, const Evaluation *e)
{
    if (!e->has_images && !e->has_clips)
        return;
    fprintf(to, "drawn results: %s\n", count_text(e->drawn));
    if (e->has_images) {
        fprintf(to, "%-12s %8s %8s %8s %8s\n", "", "PSNR RGB", "PSNR Y", "SSIM RGB", "SSIM Y");
        quality_text(to, "result", &e->images);
        quality_text(to, "input", &e->inputs);
    }
    if (!e->has_clips)
        return;
    const ClipErrors *c = &e->clips;
    const char       *unit = c->metres ? "m" : "levels of 255";
    fprintf(to, "%-12s %.4f %s\n%-12s %.4f %s\n", "MAE", c->mae, unit, "RMSE", c->rmse, unit);
    if (!isnan(c->temporal))
        fprintf(to, "%-12s %.4f %s (mean |d pred - d truth|)\n", "temporal", c->temporal, unit);
    fprintf(to, "%-12s %s of ", "valid", count_text(c->valid));
    fprintf(to, "%s pixels\n", count_text(c->pixels));
}

void evaluation_text(FILE *to, const Recipe *recipe, const Evaluation *e)
{
    head_text(to, recipe, e);
    loss_text(to, e, !strcmp(recipe->model->name, "lag"));
    results_text(to, e);
    fprintf(to, "%s planned = %s measured, %.1f s\n", count_text(e->planned_bytes),
            count_text(e->measured_bytes), e->seconds);
}

void frechet_text(FILE *to, const Frechet *f)
{
    fprintf(to, "Frechet distance %.6f (means %.6f, covariances %.6f); %lld features, %s and ",
            f->distance, f->mean_term, f->trace_term, (long long)f->features, count_text(f->n[0]));
    fprintf(to, "%s samples\n", count_text(f->n[1]));
    if (f->n[0] <= f->features || f->n[1] <= f->features)
        fprintf(to, "no more samples than features: a covariance is singular, and the distance is "
                    "biased upwards\n");
}

/* ---- JSON ---- */

static void hash_json(JsonOut *o, const char *key, uint64_t hash)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    json_out_string(o, key, text);
}

static void number_json(JsonOut *o, const char *key, double x) /* NaN: not defined */
{
    if (isnan(x))
        json_out_null(o, key);
    else
        json_out_number(o, key, x);
}

static void quality_json(JsonOut *o, const char *key, const Quality *q)
{
    json_out_object(o, key);
    number_json(o, "psnr", q->psnr);
    number_json(o, "psnr_y", q->psnr_y);
    number_json(o, "ssim", q->ssim);
    number_json(o, "ssim_y", q->ssim_y);
    json_out_end(o);
}

static void clips_json(JsonOut *o, const ClipErrors *c)
{
    json_out_object(o, "clips");
    json_out_string(o, "unit", c->metres ? "m" : "levels");
    number_json(o, "mae", c->mae);
    number_json(o, "rmse", c->rmse);
    number_json(o, "temporal", c->temporal);
    json_out_int(o, "valid_pixels", c->valid);
    json_out_int(o, "pixels", c->pixels);
    json_out_end(o);
}

static void losses_json(JsonOut *o, const Evaluation *e)
{
    json_out_array(o, "timesteps");
    for (int64_t k = 0; k < e->n_times; k++) {
        json_out_object_row(o, NULL);
        json_out_int(o, "t", e->times[k]);
        number_json(o, "loss", e->losses[k]);
        json_out_end(o);
    }
    json_out_end(o);
    json_out_array(o, "samples");
    for (int64_t i = 0; e->list && i < e->samples; i++) {
        json_out_object_row(o, NULL);
        json_out_int(o, "number", i);
        json_out_string(o, "about", e->list[i].about);
        number_json(o, "loss", e->list[i].loss);
        json_out_end(o);
    }
    json_out_end(o);
}

void evaluation_json(JsonOut *o, const Recipe *recipe, const Evaluation *e)
{
    json_out_object(o, NULL);
    json_out_string(o, "format", "plimsoll-evaluation-1");
    json_out_string(o, "model", recipe->name);
    json_out_string(o, "system", recipe->model->name);
    json_out_object(o, "weights");
    json_out_int(o, "step", e->step);
    json_out_bool(o, "ema", e->averaged);
    hash_json(o, "hash", e->weights);
    json_out_end(o);
    json_out_object(o, "data");
    json_out_string(o, "kind", e->kind);
    json_out_string(o, "path", e->data);
    json_out_int(o, "samples", e->samples);
    hash_json(o, "fingerprint", e->fingerprint);
    json_out_end(o);
    number_json(o, "loss", e->loss);
    if (!isnan(e->bits))
        json_out_number(o, "bits_per_sample", e->bits);
    losses_json(o, e);
    json_out_int(o, "drawn", e->drawn);
    if (e->has_images) {
        json_out_object(o, "images");
        quality_json(o, "result", &e->images);
        quality_json(o, "input", &e->inputs);
        json_out_end(o);
    }
    if (e->has_clips)
        clips_json(o, &e->clips);
    json_out_int(o, "planned_bytes", e->planned_bytes);
    json_out_int(o, "measured_bytes", e->measured_bytes);
    json_out_number(o, "seconds", e->seconds);
    json_out_end(o);
}

void frechet_json(JsonOut *o, const Frechet *f)
{
    json_out_object(o, NULL);
    json_out_string(o, "format", "plimsoll-evaluation-1");
    json_out_number(o, "frechet", f->distance);
    json_out_number(o, "mean_term", f->mean_term);
    json_out_number(o, "trace_term", f->trace_term);
    json_out_int(o, "features", f->features);
    json_out_row(o, "samples");
    json_out_int(o, NULL, f->n[0]);
    json_out_int(o, NULL, f->n[1]);
    json_out_end(o);
    json_out_end(o);
}
