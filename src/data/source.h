/* source.h -- training samples by number, loaded into buffers that the caller gives.
 *
 * A source is opened for the inputs of one graph: it knows their names and shapes, reads the head
 * of every file it will need, and reports what is wrong before anything runs. It keeps no position:
 * sample `id` in draw `draw` is a pure function of these two and the seed, on any thread.
 *
 * The order of an epoch is a permutation fixed by (seed, epoch), so the position in the data is a
 * single number: the samples drawn so far. A load works in one Work that the caller allocates
 * beforehand; loading itself allocates nothing. */
#ifndef DATA_SOURCE_H
#define DATA_SOURCE_H

#include "base/err.h"
#include "base/int_math.h"
#include "base/pool.h"
#include "base/random.h"
#include "data/text_space.h"
#include "device/type.h"
#include "ir/shape.h"

#include <stdbool.h>

typedef struct DataFeed { /* an input of the graph */
    const char *name;
    Type        type;
    Shape       shape; /* of one sample, without the batch axis; channels last */
    int32_t     below; /* integers are below this; 0: not known */
    bool        whole; /* one tensor for all samples: shape is all of it */
} DataFeed;

typedef struct DataSpec {    /* what a run asks for */
    const char     *kind;    /* a name of data_kinds; NULL: the first that has all feeds */
    const char     *path;    /* folder or file; NULL: drawn by the program */
    int64_t         samples; /* drawn kinds: how many */
    uint64_t        seed;
    const DataFeed *feeds;
    int             n_feeds;  /* those that are whole come last */
    bool            by_name;  /* files are found by the names of the feeds */
    bool            as_input; /* for sampling: an image is an input, not a target, and of a sequence
                               * the newest frames are observed */
    int64_t         hold_back;              /* as_input: frames at its end that are not observed */
    double          range_low, range_high;  /* range images: metres; both 0: from the data */
    int64_t         levels, channels, rate; /* audio */
    bool            mu_law, keep_rest, unscaled;
    int64_t         memory;  /* bytes that loading may take; more is refused. 0: any */
    const char     *pattern; /* of the files that are read (pattern.h); NULL: all */
    const char     *cache;   /* folder for decoded files (cache.h); NULL: a temporary one */
    bool            quiet;   /* says nothing while files are decoded */
    double          frame_rate, from, seconds; /* video: as in media.h; 0: all there is */
    bool            any_excerpt;   /* a clip is any part of a longer one, drawn anew each time */
    int64_t         range_channel; /* of range images with several; -1: not said */
    const char     *array;         /* the array of an .npz file; NULL: the only one */
    const char     *texts;         /* folder with embeddings of captions; NULL: beside these */
} DataSpec;

typedef struct Work { /* workspace of one load */
    char  *at;
    size_t n, used;
} Work;

typedef struct DataSource DataSource;
struct DataSource {
    const char *name;
    int64_t     n_samples;
    uint64_t    seed;
    const char *unread;                /* NULL, or a sentence about files that are ignored */
    const char *note;                  /* NULL, or what is trained on, instead of name and number */
    bool        alpha;                 /* some images have transparency, which is ignored */
    const char *detail;                /* NULL, or more about it: classes, pairs, embeddings */
    TextSpace   text;                  /* of the feed `text` */
    size_t      work_bytes;            /* size of the Work that load needs */
    const char *largest;               /* the file that needs the most of it; NULL: not known */
    double      range_low, range_high; /* range images: metres that are -1 and 1; both 0: none */
    /* Writes sample `id` to to[i], for every feed i of the spec that is not whole. */
    Err (*load)(const DataSource *source, int64_t id, int64_t draw, void *const *to, Work *work);
    /* Writes the feeds that are whole, once, to to[i] of feed i. NULL: it has none. */
    Err (*load_whole)(const DataSource *source, void *const *to);
    /* How many targets of the sample count in the loss. NULL: the same for all samples. */
    int64_t (*counted)(const DataSource *source, int64_t id);
    /* The first sample of the group (file or sequence) that sample `id` is in. NULL: each sample is
     * its own group. */
    int64_t (*group)(const DataSource *source, int64_t id);
    /* A description of the sample: its caption or file; `room` may hold it. NULL: there is none. */
    const char *(*about)(const DataSource *source, int64_t id, char *room, size_t n);
    void *own;
};

/* E_BUDGET if the source needs more memory than the spec allows. */
Err source_fits(const DataSpec *spec, const DataSource *source);

Err data_open(Pool *pool, const DataSpec *spec, DataSource **source);

/* The sample at position `drawn` (0, 1, 2, ...) of a run; each epoch is a permutation of all
 * samples. */
int64_t source_order(const DataSource *source, uint64_t seed, int64_t drawn);

/* ---- for implementing sources ---- */

typedef struct DataKind {
    const char *name, *feeds; /* inputs it can provide, separated by ' '; "*": any, by name */
    Err (*open)(Pool *pool, const DataSpec *spec, DataSource **source);
    const char        *drawn; /* the kind that draws the same inputs; NULL: this one draws */
    const char        *help;
    const char *const *media; /* endings of files that it reads through a plugin; NULL: none */
} DataKind;

extern const DataKind data_kinds[];
extern const int      data_kinds_count;

/* Where a permutation of 0..n-1 maps `at`; no table is needed. */
int64_t shuffled(int64_t n, uint64_t seed, uint64_t epoch, int64_t at);

/* Index of a feed in the spec, or -1. */
int spec_find(const DataSpec *spec, const char *feed);
/* E_USAGE unless the feed is there with this type and rank. Rank 0: any, and it may be absent. */
Err spec_need(const DataSpec *spec, const char *kind, const char *feed, Type type, int rank,
              int *index);

/* Takes the next n bytes, aligned. A source must have counted them in its work_bytes, by
 * work_size. */
void *work_take(Work *work, size_t n);
enum { WORK_ALIGN = 64 };
static inline size_t work_align(size_t n) { return align_bytes(n, WORK_ALIGN); }
static inline size_t work_size(size_t n) { return work_align(n) + WORK_ALIGN; }
static inline size_t work_start(const Work *work) { return work_align(work->used); }
/* E_IO unless n more bytes are left, counted by work_size: the file of that name needs them, and
 * it is not the one of which the workspace was made. */
Err                  work_left(const Work *work, const char *path, size_t n);
/* Reads a whole file into the workspace. E_IO where it has grown beyond what is left of it. */
Err work_file(Work *work, const char *path, const unsigned char **bytes, size_t *n);

/* Files by their ending, in any letter case: the file itself, or all in a folder and its subfolders
 * in the order of file_name_order. It is an error if there are none. */
enum { FOLDERS_DEEP = 32 }; /* deeper nesting is an error */

/* Is it the folder of a run, or runs/ with some in it? Their samples and caches are no data. */
bool folder_of_runs(const char *path);

typedef struct PathList {
    const char **paths;
    int32_t      n, cap;
} PathList;

typedef struct FilePick {       /* which files below the folder `root`; see pattern.h */
    const char *root, *pattern; /* NULL: all */
} FilePick;

static inline FilePick spec_pick(const DataSpec *spec)
{
    return (FilePick){ spec->path, spec->pattern };
}
bool file_picked(FilePick pick, const char *path); /* of a file below root */

bool        name_ends(const char *name, const char *ending);
/* The last ending is NULL; `what` names the files in the message if there are none. */
Err         files_list(Pool *pool, const char *path, FilePick pick, const char *const *endings,
                       const char *what, PathList *list);
Err         folder_needed(const char *path);
Err         folder_deeper(int *depth, const char *path); /* one less; E_FORMAT below 0 */
/* NULL, or a sentence about images or audio in the folder whose formats are not read. read: endings
 * of those that are, or NULL. */
const char *files_unread(Pool *pool, const char *path, const char *const *read);
/* E_FORMAT: the folder has none of `what`; files in other formats are mentioned. */
Err         files_none(Pool *pool, const char *path, FilePick pick, const char *what);

/* Which of n items holds sample `id`: the last whose first sample is not after it. The first
 * samples are at `first` and every `stride` bytes from there. */
int32_t span_find(const int64_t *first, size_t stride, int32_t n, int64_t id);

/* The random numbers of a sample: by its id for what is drawn once, by the draw for what varies. */
static inline RandomKey sample_key(const DataSource *source, const char *what, int64_t number)
{
    return (RandomKey){ source->seed + ((uint64_t)number >> 32), random_stream(what),
                        (uint32_t)number };
}

typedef struct Dice { /* the random numbers of a key, one after another */
    RandomKey key;
    uint64_t  next;
} Dice;

static inline float dice_unit(Dice *d) { return random_uniform_at(d->key, d->next++); }
static inline float dice_range(Dice *d, float low, float high)
{
    return low + (high - low) * dice_unit(d);
}
static inline int dice_below(Dice *d, int n)
{
    return (int)random_below_at(d->key, d->next++, (uint32_t)n);
}

#endif
