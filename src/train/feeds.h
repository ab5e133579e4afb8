/* feeds.h -- host buffers of a graph's inputs, filled from a source or from a given file.
 *
 * With feeds_prefetch threads load the next micro-batches into further sets of buffers while this
 * one runs; feeds_fill then only swaps two. What is loaded is a function of the place in the data
 * alone, so it makes no difference to any number. Everything is taken before the first fill.
 *
 * Where a micro-batch of the recipe is run in pieces (Levers), the whole of it is loaded at once
 * and handed out piece by piece: so what counts in the whole is known before the first piece. */
#ifndef TRAIN_FEEDS_H
#define TRAIN_FEEDS_H

#include "base/safetensors.h"
#include "data/source.h"
#include "exec/session.h"
#include "recipe/recipe.h"

typedef struct FeedBuffer {
    const char *name;
    Type        type;
    Shape       shape;
    void       *bytes;
    const SafeTensor *given;     /* (steps, ...) */
} FeedBuffer;

typedef struct Prefetcher Prefetcher;

typedef struct Feeds {
    Session          *session;
    Phase              phase;      /* whose inputs they are */
    FeedBuffer       *list;
    int32_t           n, cap;
    int64_t           bytes;     /* of all buffers, and of the room loading needs */
    const DataSource *source;    /* serves inputs in `served` */
    uint64_t          seed;
    int64_t           held;      /* samples of the source kept out of training */
    int64_t           first;     /* held-out samples: the first one's number, then in order, again
                                  * from there where they are too few; -1: drawn */
    bool              follow;    /* row r of each micro-batch follows row r of the one before (feed
                                  * `carry`) */
    int32_t          *served;    /* places in list, in the order of the source's spec */
    int32_t           n_served;
    int64_t           share;     /* micro-batches of a step */
    int64_t           split;    /* loaded together */
    Work              work;
    int64_t           loaders;   /* threads that load ahead; 0: as many as the device leaves free */
    Prefetcher       *prefetcher;
} Feeds;

/* One buffer per feed node of the part, given to the session for good. */
Err feeds_new(Pool *pool, Session *session, Phase phase, Feeds *feeds);
Err feeds_from_file(Pool *pool, Feeds *feeds, const char *path, int64_t *n_rows);

/* The recipe's data, or what lies at `input`, for every input but those called `except` (or
 * NULL). */
Err feeds_open(Pool *pool, Feeds *feeds, const Recipe *recipe, const char *input,
               const char *except);
/* The samples that training never sees, for validation: of data.holdout_path, the data.holdout
 * share at the end of the data, or, where the program draws its samples, the next ones. */
Err feeds_open_held(Pool *pool, Feeds *feeds, const Recipe *recipe);
Err feeds_prefetch(Pool *pool, Feeds *feeds);

/* The micro-batch whose first sample is the one at place `drawn`; micro_batch counts over the whole
 * run. */
Err feeds_fill(Feeds *feeds, int64_t micro_batch, int64_t drawn);
/* The same for sampling: rows are samples `first`, `first + 1`, ... in the order of the files. */
Err feeds_fill_in_order(Feeds *feeds, int64_t first);
FeedBuffer *feeds_find(Feeds *feeds, const char *name);      /* NULL if there is none */

#endif
