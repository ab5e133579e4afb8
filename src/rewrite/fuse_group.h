/* fuse_group.h -- what the files of fusion share: groups, and what stands for one. */
#ifndef REWRITE_FUSE_GROUP_H
#define REWRITE_FUSE_GROUP_H

#include "ops/pointwise/point_space.h"
#include "rewrite/fuse.h"

typedef struct FuseLink { /* an operand that may be an inner value of a group */
    int32_t node;         /* pointwise, that computes it; -1: none */
    int     result;
} FuseLink;

typedef struct FuseTrial { /* the program of a group */
    PointProgram program;
    int32_t      value[POINT_RESULTS]; /* of the old graph: each result */
    int          at[FUSE_SPAN][POINT_STEPS_MAX];
} FuseTrial;

enum { KNOWN_SLOTS = 4 };

typedef struct KnownGroup KnownGroup;

typedef struct KnownMatch { /* nodes that an operator of ours stands for */
    const KnownGroup *of;
    int32_t           value[KNOWN_SLOTS]; /* captured tensors; of an operator: its result */
    float             number;             /* captured */
    int64_t           width;              /* elements of a row that is summed */
    int32_t           root;               /* the node whose result the operator gives */
    int32_t           members[8];
    int               n;
} KnownMatch;

typedef struct Fusing {
    Pool        *pool;
    const Graph *from;
    Graph       *to;
    PointSpace **space;    /* per node: NULL unless pointwise */
    KnownMatch **known;    /* per leader: what stands for the group; NULL: a program */
    FuseLink   **links;    /* per pointwise node and operand */
    int32_t     *after;    /* per node: one that must stay before it, or -1 */
    bool        *stateful; /* per node: touches state that is written */
    int32_t     *lead;     /* per node: the first member of its group, or itself */
    int32_t     *next;     /* per node: the next member, or -1 */
    int32_t     *last;     /* per leader: the last member */
    int32_t     *reads;    /* per value, those of its reshapes included */
    int32_t     *seen, *stack, round;
    bool        *done;  /* per leader: built */
    Tensor      *whole; /* per value, in `to` */
    FuseTrial   *trial;
    int32_t      joined;
} Fusing;

/* The value whose bytes these are under another shape. */
int32_t fuse_resolve(const Graph *graph, int32_t value);

/* Is the operand read once at every point, in the order of the points? */
bool fuse_reads_in_order(const PointSpace *space, int operand);

/* Is this pointwise node the root of a known group? */
bool   fuse_find_known(const Fusing *f, int32_t node, KnownMatch *match);
/* Builds the operator and returns its result. */
Tensor fuse_build_known(const Fusing *f, const KnownMatch *match);
/* The tensor that stands for a value, which is built. */
Tensor fuse_built(const Fusing *f, int32_t value);
void   fuse_built_as(Fusing *f, int32_t value, Tensor t);

/* May operand `operand` of n be result r of p, computed at the same point? */
bool fuse_may_link(const Fusing *f, const Node *p, int r, const Node *n, int operand);

/* The program of these members, which are in the graph's order. whole: the tensors that stand for
 * values; NULL: those of the old graph, for a trial. False: there is no such program, or it is over
 * the limits. */
bool fuse_program(const Fusing *f, const int32_t *members, int n, const Tensor *whole,
                  FuseTrial *trial);

#endif
