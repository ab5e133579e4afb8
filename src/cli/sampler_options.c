/* sampler_options.c -- which sampling options a system takes, and their settings. */
#include "cli/sampler_options.h"

#include <math.h>
#include <string.h>

static bool text_or_number(const SamplerOptions *o, const char *name)
{
    return !strcmp(name, "sampler") ? o->sampler != NULL
           : !strcmp(name, "steps") ? o->steps >= 0
                                    : !strcmp(name, "eta") && !isnan(o->eta);
}

/* Systems that draw value after value. */
static Err recurrent_check(const SamplerOptions *o, const char *system)
{
    if (o->steps >= 0)
        return fail(E_USAGE,
                    "--steps: %s draws one value after another and has no denoising steps; "
                    "--length N sets how many values",
                    system);
    static const char *const names[] = { "sampler", "eta" };
    for (int i = 0; i < 2; i++)
        if (text_or_number(o, names[i]))
            return fail(E_USAGE,
                        "--%s: %s draws one value after another and removes no noise; "
                        "--temperature T and --top-p P say how a value is chosen",
                        names[i], system);
    return OK;
}

/* Systems that remove noise in steps. */
static Err denoising_check(const SamplerOptions *o, const char *system)
{
    const char *name = !isnan(o->temperature) ? "temperature" : !isnan(o->top_p) ? "top-p" : NULL;
    if (o->length > 0)
        return fail(E_USAGE, "--length: %s draws results of its own size; --length is for audio",
                    system);
    if (name)
        return fail(
            E_USAGE,
            "--%s: %s removes noise from whole results, it chooses no values as audio does; "
            "--sampler ddim --eta E says how much noise its steps add",
            name, system);
    return OK;
}

/* Systems that compute their results in one pass. */
static Err single_check(const SamplerOptions *o, const char *system)
{
    static const char *const names[] = { "sampler", "steps", "eta" };
    TRY(denoising_check(o, system));
    for (int i = 0; i < 3; i++)
        if (text_or_number(o, names[i]))
            return fail(E_USAGE, "--%s: %s computes its results in one pass; leave it out",
                        names[i], system);
    return !isnan(o->guidance)
               ? fail(E_USAGE, "--guidance: %s has no text, so it cannot be guided; leave it out",
                      system)
               : OK;
}

static Err sampler_values(const SamplerOptions *o, const Recipe *recipe)
{
    bool ddim = o->sampler ? !strcmp(o->sampler, "ddim") : recipe->sampler.kind == SAMPLER_DDIM;
    if (o->sampler && !ddim && strcmp(o->sampler, "ddpm"))
        return fail(E_USAGE, "--sampler takes ddpm or ddim, not '%s'", o->sampler);
    if (!isnan(o->eta) && !(o->eta >= 0 && o->eta <= 1))
        return fail(E_USAGE, "--eta takes 0 (no noise is added) to 1 (as much as ddpm adds)");
    if (!isnan(o->eta) && !ddim)
        return fail(E_USAGE, "--eta: ddpm adds all of its noise; add --sampler ddim to choose a "
                             "share of it");
    if (!isnan(o->temperature) && !(o->temperature >= 0 && o->temperature <= 100))
        return fail(E_USAGE, "--temperature takes 0 (the likeliest) to 100; 1 is as trained");
    if (!isnan(o->top_p) && !(o->top_p > 0 && o->top_p <= 1))
        return fail(E_USAGE, "--top-p takes a probability above 0 and up to 1; 1 leaves out none");
    return OK;
}

static void set_number(Pool *pool, const char *key, double value, const char **sets, int *n)
{
    if (!isnan(value))
        sets[(*n)++] = pool_print(pool, "sampler.%s=%.17g", key, value);
}

Err sampler_sets(Pool *pool, const SamplerOptions *o, const Recipe *recipe, const char **sets,
                 int *n)
{
    const ModelDef *model = recipe->model;
    if (model->sample)
        TRY((!model->check_sampler                       ? single_check
             : recipe->sampler.kind == SAMPLER_RECURRENT ? recurrent_check
                                                         : denoising_check)(o, model->name));
    TRY(sampler_values(o, recipe));
    if (o->sampler)
        sets[(*n)++] = pool_print(pool, "sampler.kind=%s", o->sampler);
    if (o->sampler && !strcmp(o->sampler, "ddpm"))
        set_number(pool, "eta", 0, sets, n); /* the recipe's is for its ddim */
    set_number(pool, "eta", o->eta, sets, n);
    set_number(pool, "guidance", o->guidance, sets, n);
    set_number(pool, "temperature", o->temperature, sets, n);
    set_number(pool, "top_p", o->top_p, sets, n);
    if (o->steps >= 0)
        sets[(*n)++] = pool_print(pool, "sampler.steps=%lld", (long long)o->steps);
    if (o->length > 0)
        sets[(*n)++] = pool_print(pool, "sampler.length=%lld", (long long)o->length);
    return OK;
}
