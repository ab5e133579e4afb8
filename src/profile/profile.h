/* profile.h -- what is known of a machine, as data: memory, rates, measured times, and where each
 * number comes from.
 *
 * Profiles of common GPUs are shipped (profiles/NAME.json, figures of their vendors); `plimsoll
 * probe` writes one of the machine it runs on. A profile serves two ends: planning for a machine
 * that is not here (its memory), and predicting time (its rates and the times of single operators).
 * The file is plimsoll-profile-1, docs/FORMATS.md. */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include "base/err.h"
#include "base/pool.h"
#include "device/device.h"

#include <stdbool.h>

typedef enum RateKind { RATE_MATMUL, RATE_CONV, RATE_KINDS } RateKind;

typedef struct Rate {
    RateKind    kind;
    const char *type;            /* f32, tf32, bf16, f16 */
    double      flops;           /* of one call: the size class; 0: any size */
    double      flops_per_s;
    const char *origin;
} Rate;

typedef struct OpTime {          /* one distinct node: operator, shapes, types, work, algorithm */
    uint64_t    key;
    /* the model it was measured in: among other buffers caches serve it otherwise */
    uint64_t    graph;
    const char *op, *type;
    const char *kin;             /* of a call to be predicted: an operator that does the same, or
                                  * NULL */
    double      flops, bytes;    /* as the operator's cost rule counts them */
    double      ns;
} OpTime;

typedef struct Family Family;    /* the times of one operator and type as a function of size */

/* How a model's step fares when its arena is as small as can be: buffers used again soon are found
 * in the caches. */
typedef struct Tightness {
    uint64_t graph;
    double   saved;              /* of the arena that keeps everything: this share, 0 to 1 */
    double   ratio;              /* the step, measured / the sum of its nodes' times */
} Tightness;

struct Profile {
    const char *name, *title;
    bool        gpu;            /* kind: "cuda", not "cpu" */
    int64_t     threads;         /* cpu: of every kernel when it was measured */
    const char *library;         /* vendor libraries and versions; "" if none were used */

    int64_t     total_bytes;     /* what the system or driver reports */
    int64_t     usable_bytes;    /* what one arena can really have */
    int64_t     runtime_bytes;   /* what lies outside the arena: context, code, handles */
    const char *memory_origin;

    Bandwidth  *bandwidth;       /* by rising threads; the last is the whole machine */
    int32_t     n_bandwidth, cap_bandwidth;
    const char *bandwidth_origin;
    double      to_device, to_host;      /* bytes per second; 0 on the CPU */
    const char *transfer_origin;
    double      launch_ns;       /* of one call that does nothing */
    const char *launch_origin;

    Rate       *rates;
    int32_t     n_rates, cap_rates;
    OpTime     *ops;             /* by key, then graph */
    int32_t     n_ops, cap_ops;
    const char *ops_origin;      /* NULL: none were measured */
    Tightness  *tight;           /* one for each model that has one */
    int32_t     n_tight, cap_tight;
    Family     *families;        /* by operator and type */
    int32_t     n_families, cap_families;
};

/* name is a shipped profile's, or a path. An unknown name is E_USAGE with the nearest one. */
Err profile_open(Pool *pool, const char *name, Profile **profile);
Err profile_read(Pool *pool, const char *path, Profile **profile);
Err profile_parse(Pool *pool, const char *name, const char *bytes, size_t n, Profile **profile);
Err profile_write(const Profile *profile, const char *path);

/* Where probe leaves this machine's profile and every command looks for it: plimsoll/cpu.json (or
 * cuda.json) in $XDG_CONFIG_HOME or ~/.config. NULL: there is no such folder. */
const char *profile_home(Pool *pool, const char *device);

/* Sets or replaces one operator's time in one graph. profile_ready sorts and must come before
 * profile_ns. */
void profile_add_op(Pool *pool, Profile *profile, OpTime op);
void profile_ready(Pool *pool, Profile *profile);

/* Sets or replaces a model's. What the sum of node times is to be multiplied by for a plan that
 * saves this share of the arena: 1 at 0, in a straight line to what was measured. */
void   profile_add_tight(Pool *pool, Profile *profile, Tightness tight);
double profile_tight(const Profile *profile, uint64_t graph, double saved);

/* How a time was found. */
typedef enum TimeBasis {
    TIME_MEASURED,               /* this very call was measured, in this model or else in others */
    /* calls of this operator or its kin were, by another algorithm, at other sizes or in another
     * type */
    TIME_FAMILY,
    TIME_ROOFLINE,               /* from rates and bandwidth alone */
    TIME_BASES
} TimeBasis;

/* The predicted time of one call; within a family it never falls as work grows, and parts of a
 * measured call never take less together than the call. */
double profile_ns(const Profile *profile, const OpTime *call, TimeBasis *basis);
double profile_roofline_ns(const Profile *profile, const char *op, const char *type, double flops,
                           double bytes);

#endif
