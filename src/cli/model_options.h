/* model_options.h -- the options that commands on a recipe share: overrides, budget, device. */
#ifndef CLI_MODEL_OPTIONS_H
#define CLI_MODEL_OPTIONS_H

#include "cli/cli.h"
#include "device/device.h"
#include "fit/fit.h"
#include "recipe/recipe.h"
#include "train/checkpoint.h"

typedef struct ModelOptions {
    const char *device, *precision, *backend, *budget, *host_budget, *loss;
    bool        runs;   /* the command computes: the device must be in this machine */
    bool        shares; /* it takes a share of everything kept as budget: model_share */
    bool        paced;  /* it shows predicted times: on an unprobed processor a few kernels are
                        * measured for them, once (profile/pace.h) */
    int64_t     batch, threads;
    TextList    set;
    /* several ranks, planned for without them (RANK_OPTIONS) */
    int64_t     ranks, per_node;
    const char *shard, *bucket, *wire;
    int         place; /* DeviceOptions */
} ModelOptions;

/* --budget as a share of everything kept ("80%kept"); NULL: another budget or none. model_open leaves
 * it to commands that take it, which ask model_kept_share, or know what everything kept needs. */
const char *model_share(const ModelOptions *o);
/* The bytes that it comes to, if there is one. */
Err model_kept_share(Pool *pool, const ModelOptions *o, const Recipe *recipe, Device *device,
                     const FitOptions *how, int64_t *budget_bytes);

/* " --batch 8 --set KEY=VALUE": what was asked for the model and how it runs, for the next command. */
const char *model_words(Pool *pool, const ModelOptions *o);

/* Rows of an option table, for a ModelOptions called o. */
#define MODEL_OPTIONS(o)                                                                           \
    { "budget",                                                                                    \
      OPT_TEXT,                                                                                    \
      &(o).budget,                                                                                 \
      "B",                                                                                         \
      "bytes to stay within: 16GiB, 512MiB, 80%; on GPUs with the runtime",                        \
      GROUP_MODEL },                                                                               \
        { "host-budget",                                                                           \
          OPT_TEXT,                                                                                \
          &(o).host_budget,                                                                        \
          "B",                                                                                     \
          "GPUs: pinned host memory for state and offloaded values",                               \
          GROUP_MODEL },                                                                           \
        { "device",                                                                                \
          OPT_TEXT,                                                                                \
          &(o).device,                                                                             \
          "D",                                                                                     \
          "cpu, cuda (the GPU here), or a profile: its name (h200) or file",                       \
          GROUP_MODEL },                                                                           \
        { "batch", OPT_COUNT, &(o).batch, "N", "samples of one micro-batch", GROUP_MODEL },        \
        { "precision", OPT_TEXT, &(o).precision, "P", "fp32, bf16, fp16; on GPUs also tf32",       \
          GROUP_MODEL },                                                                           \
        { "threads",                                                                               \
          OPT_COUNT,                                                                               \
          &(o).threads,                                                                            \
          "N",                                                                                     \
          "threads of every kernel; a plan is valid for one number",                               \
          GROUP_MODEL },                                                                           \
        { "backend",                                                                               \
          OPT_TEXT,                                                                                \
          &(o).backend,                                                                            \
          "NAME",                                                                                  \
          "library for products and convolutions: onednn or builtin",                              \
          GROUP_MODEL },                                                                           \
    {                                                                                              \
        "set", OPT_LIST, &(o).set, "KEY=VALUE",                                                    \
            "override a recipe key, e.g. optimizer.lr=1e-3; may be repeated", GROUP_MODEL          \
    }

#define LOSS_OPTION(o)                                                                             \
    {                                                                                              \
        "loss", OPT_TEXT, &(o).loss, "KIND[:OUTPUT[:TARGET]]",                                     \
            "loss of a .pt2 file that returns none: mse, l1, cross-entropy", GROUP_MODEL           \
    }

#define ALLOW_OPTION(to)                                                                           \
    {                                                                                              \
        "allow", OPT_TEXT, &(to), "LIST",                                                          \
            "none, or algorithm,chunk,split (default),precision,batchnorm-split"                   \
    }

#define SHARD_OPTIONS(shard_, bucket_)                                                             \
    { "shard",                                                                                     \
      OPT_TEXT,                                                                                    \
      &(shard_),                                                                                   \
      "LEVEL",                                                                                     \
      "what ranks divide: auto, 0 (sums), 1 or 2 (also state), 3 (all)",                           \
      GROUP_RANKS },                                                                               \
    {                                                                                              \
        "bucket", OPT_TEXT, &(bucket_), "SIZE",                                                    \
            "gradients that ranks exchange together; default 1MiB to 32MiB", GROUP_RANKS           \
    }

#define WIRE_OPTION(to)                                                                            \
    {                                                                                              \
        "wire", OPT_TEXT, &(to), "PROFILE",                                                        \
            "wire profile of the links between ranks, by name or file", GROUP_RANKS                \
    }

/* Rows of commands that plan for several ranks without being one of them. */
#define RANK_OPTIONS(o)                                                                            \
    { "ranks",    OPT_COUNT, &(o).ranks, "N", "plan for one of N ranks that share each step",      \
      GROUP_RANKS },                                                                               \
        { "per-node",                                                                              \
          OPT_COUNT,                                                                               \
          &(o).per_node,                                                                           \
          "G",                                                                                     \
          "ranks on one machine; default: 8 on GPUs, 1 on CPUs",                                   \
          GROUP_RANKS },                                                                           \
        SHARD_OPTIONS((o).shard, (o).bucket), WIRE_OPTION((o).wire)

/* Rows of commands that read samples, for a struct with loader_memory and cache; `folder` is the
 * default of the cache, as text. */
#define LOADER_OPTIONS(o, folder)                                                                  \
    { "loader-memory", OPT_TEXT, &(o).loader_memory, "SIZE",                                       \
      "memory limit of the data loader; default " LOADER_MEMORY },                                 \
    {                                                                                              \
        "cache", OPT_TEXT, &(o).cache, "DIR",                                                      \
            "folder for decoded video and audio; default: " folder                                 \
    }

/* Rows of commands that show progress, for a struct with quiet and json. */
#define PROGRESS_OPTIONS(o)                                                                        \
    { "quiet", OPT_FLAG, &(o).quiet, NULL, "no progress" },                                        \
    {                                                                                              \
        "json", OPT_FLAG, &(o).json, NULL, "print the result as JSON"                              \
    }

/* --shard and --bucket, each NULL if it is not given. *shard is -1 for auto. */
Err shard_read(const char *shard, const char *bucket, int *level, int64_t *bucket_bytes);

/* Opens the device, and reads the recipe by name or path. Settings apply in this order: --set, the
 * named options, `more` (n of them). *budget_bytes is for the arena, 0 if no budget was given. On a
 * GPU the runtime is subtracted; if nothing remains, the answer is E_BUDGET and *budget_bytes is 0
 * or less. */
Err model_open(Pool *pool, const ModelOptions *o, const char *name, const char *const *more, int n,
               Recipe **recipe, Device **device, int64_t *budget_bytes);

/* --shard auto, or none, of several ranks: the planner chooses. */
bool model_shards(const ModelOptions *o);

/* --checkpoint STEP or best; NULL is -1, the newest. */
#define CHECKPOINT_HELP "checkpoint: its step, or best; default: the newest"
Err checkpoint_option(Pool *pool, const char *run, const char *text, int64_t *step);

/* --weights ema or raw of commands that read a run's weights; NULL: the usual ones. */
#define WEIGHTS_OPTION(to)                                                                         \
    {                                                                                              \
        "weights", OPT_TEXT, &(to), "W", "ema (default, if the run keeps one) or raw"              \
    }
Err weights_option(const char *text, WeightsKind *kind);

/* The path of RUN/recipe.yaml, which every run has. */
Err run_recipe(Pool *pool, const char *run, const char **path);

#endif
