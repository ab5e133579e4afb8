/* source.h -- samples by number, written where the trainer says.
 *
 * A source is opened for the inputs of one graph: it knows their names and shapes, looks at the
 * head of every file it will need, and says what is wrong before anything runs. It keeps no
 * position: sample `id` in draw `draw` is a pure function of the two and of the seed, on whichever
 * thread.
 *
 * The order of an epoch is a fixed permutation of (seed, epoch), so the place in the data is a
 * single number: samples drawn so far. What a load needs besides the files is one Work, taken
 * beforehand by whoever calls: after that, loading allocates nothing. */
#ifndef DATA_SOURCE_H
#define DATA_SOURCE_H

#include "base/err.h"
#include "base/pool.h"
#include "base/random.h"
#include "device/type.h"
#include "ir/shape.h"

#include <stdbool.h>

typedef struct DataFeed {            /* an input of the graph */
    const char *name;
    Type        type;
    Shape       shape;               /* of one sample, without the batch axis; channels last */
} DataFeed;

typedef struct DataSpec {            /* what is wanted */
    const char     *kind;  /* a name of data_kinds; NULL: the first that serves all feeds */
    const char     *path;            /* folder or file; NULL: drawn by the program */
    int64_t         samples;         /* drawn kinds: how many */
    uint64_t        seed;
    const DataFeed *feeds;
    int             n_feeds;
    bool            as_input;  /* for sampling: a image is what is given, not what is wanted */
    double          range_low, range_high;   /* range images: metres; both 0: of the data itself */
    int64_t         levels, channels, rate;  /* sound */
    bool            mu_law, keep_rest;
} DataSpec;

typedef struct Work {                /* workspace of one load */
    char  *at;
    size_t n, used;
} Work;

typedef struct DataSource DataSource;
struct DataSource {
    const char *name;
    int64_t     n_samples;
    uint64_t    seed;
    const char *unread;              /* NULL, or a sentence on files that were passed over */
    size_t      work_bytes;          /* of the Work a load is given */
    /* Writes sample `id` to to[i], for every feed i of the spec. */
    Err (*load)(const DataSource *source, int64_t id, int64_t draw, void *const *to, Work *work);
    /* How many targets of the sample count in the loss. NULL: all inputs count alike. */
    int64_t (*counted)(const DataSource *source, int64_t id);
    /* The first sample of what sample `id` belongs with: its file, its sequence. NULL: each stands
     * alone. */
    int64_t (*group)(const DataSource *source, int64_t id);
    /* A word about the sample: its caption, its file. NULL: nothing to say. */
    const char *(*about)(const DataSource *source, int64_t id, char *room, size_t n);
    void       *own;
};

Err data_open(Pool *pool, const DataSpec *spec, DataSource **source);

/* The sample at place `drawn` (0, 1, 2, ...) of a run: each epoch is a permutation of all
 * samples. */
int64_t source_order(const DataSource *source, uint64_t seed, int64_t drawn);

/* ---- for the sources themselves ---- */

typedef struct DataKind {
    const char *name, *feeds;        /* inputs it can serve, ' ' between */
    Err       (*open)(Pool *pool, const DataSpec *spec, DataSource **source);
    const char *drawn;               /* the kind that draws the same itself; NULL: this one does */
    const char *help;
} DataKind;

extern const DataKind data_kinds[];
extern const int      data_kinds_count;

/* A permutation of 0..n-1 that needs no table; at -> its place. */
int64_t shuffled(int64_t n, uint64_t seed, uint64_t epoch, int64_t at);

/* Place of a feed in the spec, or -1. */
int spec_find(const DataSpec *spec, const char *feed);
/* E_USAGE unless every one is there as asked: type and rank (0: absent is fine). */
Err spec_need(const DataSpec *spec, const char *kind, const char *feed, Type type, int rank,
              int *index);

/* Takes the next n bytes, aligned. A source must have counted them in its work_bytes, by
 * work_size. */
void *work_take(Work *work, size_t n);
enum { WORK_ALIGN = 64 };
static inline size_t work_align(size_t n) { return (n + WORK_ALIGN - 1) / WORK_ALIGN * WORK_ALIGN; }
static inline size_t work_size(size_t n) { return work_align(n) + WORK_ALIGN; }
static inline size_t work_start(const Work *work) { return work_align(work->used); }
/* The whole of a file; E_IO where it has grown beyond the room left since it was first looked
 * at. */
Err work_file(Work *work, const char *path, const unsigned char **bytes, size_t *n);

/* Files by their ending, letter case aside: the file itself, or those of a folder and of the
 * folders in it, in the order of file_name_order. None is an error. */
enum { FOLDERS_DEEP = 32 };          /* folders within folders; what lies deeper is an error */

typedef struct PathList {
    const char **paths;
    int32_t      n, cap;
} PathList;

bool name_ends(const char *name, const char *ending);
/* The last of the endings is NULL; `what` names such files where there are none. */
Err  files_list(Pool *pool, const char *path, const char *const *endings, const char *what,
                PathList *list);
Err  folder_needed(const char *path);
Err  folder_deeper(int *depth, const char *path);    /* one less; E_FORMAT below 0 */
/* NULL, or a sentence on files of the folder that hold images or sound in formats of others. */
const char *files_unread(Pool *pool, const char *path);
/* E_FORMAT: none of `what` is there, but perhaps such others. */
Err  files_none(Pool *pool, const char *path, const char *what);

/* The one of n things that has sample `id`: the last whose first sample, at `first` and every
 * `stride` bytes from there, is not after it. */
int32_t span_find(const int64_t *first, size_t stride, int32_t n, int64_t id);

/* Random numbers of a sample: its own for drawn images, those of the draw for what varies. */
static inline RandomKey sample_key(const DataSource *source, const char *what, int64_t number)
{
    return (RandomKey){ source->seed + ((uint64_t)number >> 32), random_stream(what),
                        (uint32_t)number };
}

typedef struct Dice {                /* numbers of a key, one after another */
    RandomKey key;
    uint64_t  next;
} Dice;

static inline float dice_unit(Dice *d)
{
    return random_uniform_at(d->key, d->next++);
}
static inline float dice_range(Dice *d, float low, float high)
{
    return low + (high - low) * dice_unit(d);
}
static inline int dice_below(Dice *d, int n)
{
    return (int)random_below_at(d->key, d->next++, (uint32_t)n);
}

#endif
