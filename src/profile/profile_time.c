/* profile_time.c -- predicts the time of one call from a profile.
 *
 * The first of these that exists is used: the measured time of this call; that of the same work in
 * the same model by another algorithm or at another batch; the family; the roofline.
 *
 * A family is every measured call of one operator and type, in one model or (graph 0) in all
 * models. Its points (roofline time, measured time) are made non-decreasing by pooling adjacent
 * violators (Ayer et al. 1955) and joined by straight lines on logarithmic axes. Outside the
 * measured range, time grows as the roofline does. So more work is never predicted to be faster,
 * and what is interpolated is the error of the roofline. */
#include "profile/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Point {
    double x, y; /* logarithms of roofline and measured nanoseconds */
    double weight;
} Point;

struct Family {
    const char *op, *type;
    uint64_t    graph;  /* 0: all models */
    Point      *points; /* x rising, y not falling */
    int32_t     n;
};

/* Between two size classes, the logarithm of the rate is linear in the logarithm of the work. */
static double profile_rate(const Profile *profile, RateKind kind, const char *type, double flops)
{
    const Rate *below = NULL, *above = NULL;
    for (int32_t i = 0; i < profile->n_rates; i++) {
        const Rate *rate = &profile->rates[i];
        if (rate->kind != kind || strcmp(rate->type, type))
            continue;
        if (rate->flops <= flops && (!below || rate->flops > below->flops))
            below = rate;
        if (rate->flops > flops && (!above || rate->flops < above->flops))
            above = rate;
    }
    if (!below && !above) /* integers and types without a rate: as fp32 */
        return strcmp(type, "f32") ? profile_rate(profile, kind, "f32", flops) : 0;
    if (!below || !above || below->flops <= 0)
        return below ? below->flops_per_s : above->flops_per_s;
    double share = log(flops / below->flops) / log(above->flops / below->flops);
    return below->flops_per_s * pow(above->flops_per_s / below->flops_per_s, share);
}

double profile_roofline_ns(const Profile *profile, int rate, const char *type, double flops,
                           double bytes)
{
    double flops_per_s = profile_rate(profile, (RateKind)rate, type, flops);
    double by_flops = flops_per_s > 0 ? flops / flops_per_s : 0;
    double by_bytes = profile->n_bandwidth
                          ? bytes / profile->bandwidth[profile->n_bandwidth - 1].copy
                          : 0;
    return profile->launch_ns + 1e9 * (by_flops > by_bytes ? by_flops : by_bytes);
}

static double call_roofline_ns(const Profile *profile, const OpTime *call)
{
    return profile_roofline_ns(profile, call->rate, call->type, call->flops, call->bytes);
}

void profile_add_op(Pool *pool, Profile *profile, OpTime op)
{
    for (int32_t i = 0; i < profile->n_ops; i++)
        if (profile->ops[i].key == op.key && profile->ops[i].graph == op.graph) {
            profile->ops[i] = op;
            return;
        }
    VEC_ADD(pool, profile->ops, profile->n_ops, profile->cap_ops, op);
}

void profile_add_tight(Pool *pool, Profile *profile, Tightness tight)
{
    for (int32_t i = 0; i < profile->n_tight; i++)
        if (profile->tight[i].graph == tight.graph) {
            profile->tight[i] = tight;
            return;
        }
    VEC_ADD(pool, profile->tight, profile->n_tight, profile->cap_tight, tight);
}

double profile_tight(const Profile *profile, uint64_t graph, double saved)
{
    for (int32_t i = 0; i < profile->n_tight; i++) {
        const Tightness *t = &profile->tight[i];
        if (t->graph == graph)
            return 1 + (t->ratio - 1) * fmin(fmax(saved / t->saved, 0), 1);
    }
    return 1;
}

static int op_order(const void *a, const void *b)
{
    const OpTime *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key)
                            : (x->graph > y->graph) - (x->graph < y->graph);
}

typedef struct GraphOp {
    uint64_t graph;
    int32_t  op;
} GraphOp;

static int graph_order(const void *a, const void *b)
{
    const GraphOp *x = a, *y = b;
    return x->graph != y->graph ? (x->graph > y->graph) - (x->graph < y->graph)
                                : (x->op > y->op) - (x->op < y->op);
}

static void ops_by_graph(Pool *pool, Profile *profile)
{
    Pool    *temp = pool_new(NULL, "graphs");
    GraphOp *list = NEWN(temp, GraphOp, profile->n_ops);
    for (int32_t i = 0; i < profile->n_ops; i++)
        list[i] = (GraphOp){ profile->ops[i].graph, i };
    qsort(list, (size_t)profile->n_ops, sizeof *list, graph_order);
    profile->by_graph = NEWN(pool, int32_t, profile->n_ops);
    for (int32_t i = 0; i < profile->n_ops; i++)
        profile->by_graph[i] = list[i].op;
    pool_free(temp);
}

/* The first place of a graph in by_graph; its operations follow each other. */
static int32_t ops_of_graph(const Profile *profile, uint64_t graph)
{
    int32_t low = 0, high = profile->n_ops;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (profile->ops[profile->by_graph[middle]].graph < graph)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

typedef struct GroupMember { /* of a family */
    const OpTime *op;
    uint64_t      graph;
} GroupMember;

static int family_order(const void *a, const void *b)
{
    const GroupMember *x = a, *y = b;
    int                order = strcmp(x->op->op, y->op->op);
    order = order ? order : strcmp(x->op->type, y->op->type);
    return order ? order : (x->graph > y->graph) - (x->graph < y->graph);
}

static int point_order(const void *a, const void *b)
{
    const Point *x = a, *y = b;
    return (x->x > y->x) - (x->x < y->x);
}

static void point_pool(Point *a, const Point *b)
{
    a->y = (a->y * a->weight + b->y * b->weight) / (a->weight + b->weight);
    a->weight += b->weight;
}

/* Merges points of equal x, then pools neighbours whose y falls until none falls. */
static int32_t points_rise(Pool *pool, Point *points, int32_t n)
{
    int32_t kept = 0, n_levels = 0, *from = NEWN(pool, int32_t, n + 1);
    Point  *levels = NEWN(pool, Point, n + 1);
    qsort(points, (size_t)n, sizeof *points, point_order);
    for (int32_t i = 0; i < n; i++)
        if (kept && points[i].x - points[kept - 1].x < 1e-9)
            point_pool(&points[kept - 1], &points[i]);
        else
            points[kept++] = points[i];
    for (int32_t i = 0; i < kept; i++) {
        levels[n_levels] = points[i];
        from[n_levels++] = i;
        for (; n_levels > 1 && levels[n_levels - 1].y < levels[n_levels - 2].y; n_levels--)
            point_pool(&levels[n_levels - 2], &levels[n_levels - 1]);
    }
    for (int32_t level = 0; level < n_levels; level++)
        for (int32_t i = from[level]; i < (level + 1 < n_levels ? from[level + 1] : kept); i++)
            points[i].y = levels[level].y;
    return kept;
}

void profile_ready(Pool *pool, Profile *profile)
{
    profile->n_families = 0;
    if (!profile->n_ops)
        return;
    Pool        *work = pool_new(NULL, "families");
    GroupMember *members = NEWN(work, GroupMember, 2 * profile->n_ops + 1);
    int32_t      n = 0;
    qsort(profile->ops, (size_t)profile->n_ops, sizeof *profile->ops, op_order);
    ops_by_graph(pool, profile);
    for (int32_t i = 0; i < profile->n_ops; i++) {
        members[n++] = (GroupMember){ &profile->ops[i], 0 };
        if (profile->ops[i].graph)
            members[n++] = (GroupMember){ &profile->ops[i], profile->ops[i].graph };
    }
    qsort(members, (size_t)n, sizeof *members, family_order);
    for (int32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && !family_order(&members[i], &members[end]); end++)
            ;
        Family family = { members[i].op->op, members[i].op->type, members[i].graph,
                          NEWN(pool, Point, end - i), 0 };
        for (int32_t k = i; k < end; k++) {
            const OpTime *op = members[k].op;
            family.points[family.n++] = (Point){ log(call_roofline_ns(profile, op)), log(op->ns),
                                                 1 };
        }
        family.n = points_rise(work, family.points, family.n);
        VEC_ADD(pool, profile->families, profile->n_families, profile->cap_families, family);
    }
    pool_free(work);
}

static const Family *family_find(const Profile *profile, const char *op, const char *type,
                                 uint64_t graph)
{
    int32_t low = 0, high = profile->n_families;
    while (low < high) {
        int32_t       middle = low + (high - low) / 2;
        const Family *family = &profile->families[middle];
        int           order = strcmp(op, family->op);
        order = order ? order : strcmp(type, family->type);
        order = order ? order : (graph > family->graph) - (graph < family->graph);
        if (!order)
            return family;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* The family in the call's own model first: its smaller and larger calls are as far from the
 * roofline, and compared steps then have times of the same origin. Then the family over all models.
 * Then, if the operator was measured in other types only, the family of one of those: its distance
 * from the roofline is the best guess available. */
static const Family *profile_family(const Profile *profile, const char *op, const char *type,
                                    uint64_t graph)
{
    const Family *family = family_find(profile, op, type, graph);
    family = family ? family : family_find(profile, op, type, 0);
    for (int32_t i = 0; i < profile->n_families && !family; i++)
        if (!strcmp(op, profile->families[i].op) && profile->families[i].graph == 0)
            family = &profile->families[i];
    return family;
}

static double family_ns(const Family *family, double roofline_ns)
{
    const Point *points = family->points;
    double       x = log(roofline_ns);
    int32_t      i = 0;
    while (i < family->n && points[i].x < x)
        i++;
    if (i == 0 || i == family->n) { /* outside the range: as the roofline */
        const Point *edge = &points[i ? i - 1 : 0];
        return exp(edge->y + x - edge->x);
    }
    double share = (x - points[i - 1].x) / (points[i].x - points[i - 1].x);
    return exp(points[i - 1].y + share * (points[i].y - points[i - 1].y));
}

/* The call's time in its own graph, else its mean over the graphs it was measured in; 0 if there is
 * none. */
static double measured_ns(const Profile *profile, const OpTime *call)
{
    int32_t low = 0, high = profile->n_ops, n = 0;
    double  sum = 0;
    while (low < high) { /* the first with this key */
        int32_t middle = low + (high - low) / 2;
        if (profile->ops[middle].key < call->key)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < profile->n_ops && profile->ops[low].key == call->key; low++, n++) {
        if (profile->ops[low].graph == call->graph)
            return profile->ops[low].ns;
        sum += profile->ops[low].ns;
    }
    return n ? sum / n : 0;
}

/* The mean time of the same work by other algorithms in the same graph; 0 if there is none. Needed
 * for a described GPU whose kernels are not here to choose an algorithm. */
static double alike_ns(const Profile *profile, const OpTime *call)
{
    double  sum = 0;
    int32_t n = 0;
    for (int32_t i = ops_of_graph(profile, call->graph); i < profile->n_ops; i++) {
        const OpTime *op = &profile->ops[profile->by_graph[i]];
        if (op->graph != call->graph)
            break;
        if (op->flops != call->flops || op->bytes != call->bytes || strcmp(op->op, call->op) ||
            strcmp(op->type, call->type))
            continue;
        sum += op->ns;
        n++;
    }
    return n ? sum / n : 0;
}

/* The time of the same call at another batch in the same model, scaled by the rooflines; 0 if there
 * is none. Its work is an integer fraction or multiple of this call's, its bytes as near to that as
 * possible (weights are always read whole). A call of nearly the same size is preferred: updates of
 * all sizes share a launch, and the time of the smallest says nothing about the largest. The call
 * is taken to be as far from its roofline as the measured one, so n shares of a call are never
 * predicted to be faster than the whole. */
static double scaled_ns(const Profile *profile, const OpTime *call, double roofline_ns)
{
    double nearest = log(4), ns = 0; /* beyond this distance it is another call */
    for (int32_t i = ops_of_graph(profile, call->graph); i < profile->n_ops; i++) {
        const OpTime *op = &profile->ops[profile->by_graph[i]];
        if (op->graph != call->graph)
            break;
        if (strcmp(op->op, call->op) || strcmp(op->type, call->type))
            continue;
        bool   by_flops = op->flops > 0 && call->flops > 0;
        double ratio = by_flops ? op->flops / call->flops : op->bytes / call->bytes;
        double n = ratio >= 1 ? ratio : 1 / ratio;
        double apart = fabs(log(ratio * call->bytes / op->bytes)) + 0.05 * log(n);
        if (!(fabs(n - round(n)) <= 1e-6 * n && apart < nearest))
            continue;
        nearest = apart;
        ns = op->ns * roofline_ns / call_roofline_ns(profile, op);
    }
    return ns;
}

/* The time of an operator that was never measured, by its kin, an operator that computes the same
 * and was measured. It is as far from its roofline as the kin, and no faster than any measured call
 * of the kin with no more work. Its own roofline would be a lower bound, and the operator would win
 * against measured ones only because nobody measured it. */
static double kin_ns(const Profile *profile, const OpTime *call, const Family *kin,
                     double roofline_ns)
{
    double ns = family_ns(kin, roofline_ns);
    for (int32_t i = 0; i < profile->n_ops; i++) {
        const OpTime *op = &profile->ops[i];
        if (strcmp(op->op, call->kin) || strcmp(op->type, call->type) || op->ns <= ns)
            continue;
        if (call_roofline_ns(profile, op) <= roofline_ns)
            ns = op->ns;
    }
    return ns;
}

double profile_ns(const Profile *profile, const OpTime *call, TimeBasis *basis)
{
    double measured = measured_ns(profile, call);
    *basis = TIME_MEASURED;
    if (measured > 0)
        return measured;
    double alike = alike_ns(profile, call);
    *basis = TIME_FAMILY;
    if (alike > 0)
        return alike;
    double roofline = call_roofline_ns(profile, call);
    double scaled = scaled_ns(profile, call, roofline);
    if (scaled > 0)
        return scaled;
    const Family *family = profile_family(profile, call->op, call->type, call->graph);
    const Family *kin = NULL;
    if (!family && call->kin)
        kin = profile_family(profile, call->kin, call->type, call->graph);
    *basis = family || kin ? TIME_FAMILY : TIME_ROOFLINE;
    return family ? family_ns(family, roofline)
           : kin  ? kin_ns(profile, call, kin, roofline)
                  : roofline;
}
