/* profile.h -- a device profile: memory, rates and measured times of a machine, and where each
 * number comes from.
 *
 * Profiles of common GPUs are shipped (profiles/NAME.json, with their vendors' figures); `plimsoll
 * probe` writes one for the machine it runs on. A profile serves two purposes: planning for a
 * machine that is not here (by its memory), and predicting time (by its rates and the times of
 * single operators). The file format is plimsoll-profile-1, docs/user/FORMATS.md. */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include "base/err.h"
#include "base/pool.h"
#include "device/device.h"
#include "ir/op.h"

#include <stdbool.h>

typedef struct Rate {
    RateKind    kind;
    const char *type;  /* f32, tf32, bf16, f16 */
    double      flops; /* of one call: the size class; 0: any size */
    double      flops_per_s;
    const char *origin;
} Rate;

typedef struct OpTime { /* one distinct node: operator, shapes, types, work, algorithm */
    uint64_t    key;
    uint64_t    graph; /* the model it was measured in: caches behave differently in
                                  * another */
    const char *op, *type;
    int         rate;         /* RateKind of the operator */
    const char *kin;          /* of a call to predict: an operator that computes the same, or
                                  * NULL */
    double      flops, bytes; /* as the operator's cost rule counts them */
    double      ns;
} OpTime;

typedef struct Family Family; /* the times of one operator and type as a function of size */

/* How a model's step time changes when its arena is as small as possible: buffers that are soon
 * reused stay in the caches. */
typedef struct Tightness {
    uint64_t graph;
    double   saved; /* share of the everything-kept arena that was saved, 0 to 1 */
    double   ratio; /* measured time of the step / sum of its nodes' times */
} Tightness;

struct Profile {
    const char *name, *title;
    bool        gpu;        /* kind: "cuda", not "cpu" */
    double      capability; /* of a GPU: 7.5, 8.0, ...; 0: not known */
    int64_t     threads;    /* cpu: threads of every kernel when it was measured */
    const char *library;    /* vendor libraries and versions; "" if none were used */

    int64_t     total_bytes;   /* as the system or driver reports it */
    int64_t     usable_bytes;  /* the largest arena that can be allocated */
    int64_t     runtime_bytes; /* memory outside the arena: context, code, handles */
    const char *memory_origin;

    Bandwidth  *bandwidth; /* by rising threads; the last is the whole machine */
    int32_t     n_bandwidth, cap_bandwidth;
    const char *bandwidth_origin;
    double      to_device, to_host; /* bytes per second; 0 on the CPU */
    const char *transfer_origin;
    double      launch_ns; /* of an empty call */
    const char *launch_origin;

    Rate       *rates;
    int32_t     n_rates, cap_rates;
    OpTime     *ops; /* by key, then graph */
    int32_t     n_ops, cap_ops;
    int32_t    *by_graph;   /* indices of ops, by graph */
    const char *ops_origin; /* NULL: none were measured */
    Tightness  *tight;      /* one for each model that has one */
    int32_t     n_tight, cap_tight;
    Family     *families;                /* by operator and type */
    double      pace;                    /* more than 0: nothing else is known (pace.h) */
    double      pace_of[RATE_KINDS + 1]; /* of products, convolutions, and of moving bytes */
    int32_t     n_families, cap_families;
};

/* name: a shipped profile, or a path. An unknown name is E_USAGE and suggests the nearest one. */
Err profile_open(Pool *pool, const char *name, Profile **profile);
Err profile_read(Pool *pool, const char *path, Profile **profile);
Err profile_parse(Pool *pool, const char *name, const char *bytes, size_t n, Profile **profile);
Err profile_write(const Profile *profile, const char *path);

/* Where probe writes this machine's profile and every command looks for it: plimsoll/cpu.json (or
 * cuda.json) in $XDG_CONFIG_HOME or ~/.config. NULL if neither variable is set. */
const char *profile_home(Pool *pool, const char *device);

/* Adds one operator's time in one graph, or replaces it. Call profile_ready afterwards and before
 * profile_ns: it sorts the times and builds the families. */
void profile_add_op(Pool *pool, Profile *profile, OpTime op);
void profile_ready(Pool *pool, Profile *profile);

/* Adds a model's tightness, or replaces it. profile_tight is the factor on the sum of node times
 * for a plan that saves this share of the arena: 1 at 0, then linear up to what was measured. */
void   profile_add_tight(Pool *pool, Profile *profile, Tightness tight);
double profile_tight(const Profile *profile, uint64_t graph, double saved);

/* How a time was found. */
typedef enum TimeBasis {
    TIME_MEASURED, /* this exact call was measured, in this model or in others */
    TIME_FAMILY,   /* calls of this operator or its kin were measured, by another
                                  * algorithm, at other sizes or in another type */
    TIME_ROOFLINE, /* from rates and bandwidth alone */
    TIME_BASES
} TimeBasis;

/* The predicted time of one call. Within a family it never falls as work grows, and n equal shares
 * of a measured call are never predicted to be faster than the whole. */
double profile_ns(const Profile *profile, const OpTime *call, TimeBasis *basis);
double profile_roofline_ns(const Profile *profile, int rate, const char *type, double flops,
                           double bytes);

#endif
