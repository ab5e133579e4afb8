/* feeds.h -- host buffers of a graph's inputs, filled from a data source or from a given file.
 *
 * After feeds_prefetch, threads load the next micro-batches into further sets of buffers while the
 * current one runs, and feeds_fill only swaps buffers. What is loaded depends on the position in
 * the data alone, so prefetching changes no number. All memory is allocated before the first fill.
 *
 * Where the lever `split` divides a recipe's micro-batch, the whole micro-batch is loaded at once
 * and its slices are used one after another: what a loss counts over the whole micro-batch is then
 * known before the first slice. */
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
    bool        apart; /* loaded, but no input of the graph */
    bool        given; /* (micro-batches, ...) of the given file */
    int64_t     given_rows;
    size_t      given_at; /* offset in the file */
    int32_t     below;    /* see FeedAttr */
    bool        whole;
    const char *all_of; /* another feed, whose samples before the split this one reads; or NULL */
} FeedBuffer;

typedef struct Prefetcher Prefetcher;

typedef struct Feeds {
    Session           *session;
    Phase              phase; /* whose inputs they are */
    FeedBuffer        *list;
    int32_t            n, cap;
    int64_t            bytes;    /* of all buffers and of the loaders' work memory */
    int                given_fd; /* of the given file, if a feed is given */
    const char        *given_path;
    const DataSource  *source; /* of the inputs in `served`; NULL: none */
    uint64_t           seed;
    int64_t            held;     /* samples of the source held out of training */
    int64_t            first;    /* number of the first held-out sample, read in order and
                                  * repeatedly; -1: samples in random order */
    bool               shuffled; /* the held-out samples in random order too */
    bool               follow;   /* row r of each micro-batch continues row r of the one before
                                  * (feed `carry`) */
    int32_t           *served;   /* indices into list, in the order of the source's spec */
    int32_t            n_served;
    int32_t            n_whole; /* loaded once; after the others in `served` */
    const char *const *aside;  /* names of inputs that the caller fills, NULL at the end; or NULL */
    bool               named;  /* inputs have their user's names; none is computed here */
    int64_t            share;  /* micro-batches of a step */
    int64_t            split;  /* micro-batches loaded together */
    int64_t            ranks;  /* of the run, which take micro-batches in turn; 0: one */
    int64_t            loaded; /* number + 1 of the micro-batches loaded last; 0: none */
    Work               work;
    const char        *cache; /* folder for decoded files; NULL: a temporary one */
    bool               quiet; /* says nothing while files are decoded */
    TextSpace          text;  /* of the run's texts: others are refused; encoder NULL: any */
    int64_t            limit; /* of `bytes`; more is refused, and fewer loaders prefetch. 0: none */
    int64_t            hold_back; /* frames of a sequence that is given as input; see DataSpec */
    int64_t            loaders;   /* prefetching threads; 0: as many as the device leaves free */
    Prefetcher        *prefetcher;
} Feeds;

/* One buffer per feed node of the phase, registered with the session. */
Err feeds_new(Pool *pool, Session *session, Phase phase, Feeds *feeds);
Err feeds_from_file(Pool *pool, Feeds *feeds, const char *path, int64_t *n_rows);

/* A buffer that is loaded with the others and is no input of the graph. Before the data are opened. */
void feeds_add(Pool *pool, Feeds *feeds, const char *name, Type type, Shape shape);

/* Opens the recipe's data for every input. */
Err feeds_open(Pool *pool, Feeds *feeds, const Recipe *recipe);
/* For sampling: opens the file or folder `input`, or else samples that were held out of training, or
 * all where there are none, for every input except the one called `except` (or NULL). */
Err feeds_open_drawn(Pool *pool, Feeds *feeds, const Recipe *recipe, const char *input,
                     const char *except);
/* Opens the held-out samples, for validation: those of data.holdout_path, or the data.holdout share
 * at the end of the data. Where the program generates the samples, those after the training set. */
Err feeds_open_held(Pool *pool, Feeds *feeds, const Recipe *recipe);
Err feeds_prefetch(Pool *pool, Feeds *feeds);

/* Fills the buffers with micro-batch number micro_batch of the run, whose first sample is at
 * position `drawn`. */
Err         feeds_fill(Feeds *feeds, int64_t micro_batch, int64_t drawn);
/* The same for sampling: row i is sample first + i in the order of the files. */
Err         feeds_fill_in_order(Feeds *feeds, int64_t first);
/* Of what the first and the middle micro-batch of the data would be; before feeds_prefetch. */
Err         feeds_digest(Feeds *feeds, uint64_t *digest);
FeedBuffer *feeds_find(Feeds *feeds, const char *name); /* NULL if there is none */
/* The number of the sample at a position of the run. */
int64_t     feeds_sample(const Feeds *feeds, int64_t place);

#endif
