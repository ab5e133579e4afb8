/* model_options.h -- what explain, fit, train and sample share: a recipe with overrides, a
 * device. */
#ifndef CLI_MODEL_OPTIONS_H
#define CLI_MODEL_OPTIONS_H

#include "cli/cli.h"
#include "device/device.h"
#include "recipe/recipe.h"

typedef struct ModelOptions {
    const char *device, *precision, *backend, *budget, *host_budget;
    bool        runs;            /* the command computes: the device must be this machine */
    int64_t     batch, threads;
    TextList    set;
} ModelOptions;

/* Rows of an option table, for a ModelOptions called o. */
#define MODEL_OPTIONS(o)                                                                         \
    { "budget", OPT_TEXT, &(o).budget, "B",                                                      \
      "16GiB, 24GB, 512MiB or 80%: of the arena, on GPUs with the runtime" },                   \
    { "host-budget", OPT_TEXT, &(o).host_budget, "B",                                            \
      "GPUs: bytes on the host for state and saved values" },                                   \
    { "device", OPT_TEXT, &(o).device, "D",                                                      \
      "cpu, cuda (the GPU here), another by name (h200, ...), a profile.json" },                \
    { "batch", OPT_COUNT, &(o).batch, "N", "samples of one micro-batch" },                       \
    { "precision", OPT_TEXT, &(o).precision, "P", "fp32, bf16, fp16; on GPUs also tf32" },      \
    { "threads", OPT_COUNT, &(o).threads, "N", "of every kernel; a plan holds for one count" },  \
    { "backend", OPT_TEXT, &(o).backend, "NAME", "onednn or own matrix products" },              \
    { "set", OPT_LIST, &(o).set, "KEY=VALUE",                                                    \
      "override a recipe key, e.g. optimizer.lr=1e-3; may be repeated" }

#define ALLOW_OPTION(to)                                                                         \
    { "allow", OPT_TEXT, &(to), "LIST",                                                          \
      "none, or of algorithm,chunk,split (default),precision,batchnorm-split" }

/* The device, and the recipe by name or path with --set, then the named options, then `more` (n of
 * them) applied. *budget_bytes is of the arena, 0 if none was asked for; on a GPU what was asked
 * for also holds the runtime, as the driver counts: not even that is E_BUDGET, with what is left of
 * it, 0 or less. */
Err model_open(Pool *pool, const ModelOptions *o, const char *name, const char *const *more, int n,
               Recipe **recipe, Device **device, int64_t *budget_bytes);

/* RUN/recipe.yaml, which every run has. */
Err run_recipe(Pool *pool, const char *run, const char **path);

#endif
