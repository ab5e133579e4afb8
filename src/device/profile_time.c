/* profile_time.c -- from a profile to the time of one call: measured, else of the same work in its
 * model by another algorithm, else by its family, else a roofline.
 *
 * A family is every measured call of one operator and type. Its points (roofline time, measured
 * time) are made non-decreasing by pooling neighbours that disagree (Ayer et al. 1955) and joined
 * by straight lines on logarithmic axes; outside the measured range time grows as the roofline
 * does. So a call that needs more work is never predicted to be faster, and the error of the
 * roofline is what is interpolated. */
#include "device/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Point {
    double x, y;                 /* logarithms of roofline and measured nanoseconds */
    double weight;
} Point;

struct Family {
    const char *op, *type;
    Point      *points;          /* x rising, y not falling */
    int32_t     n;
};

/* Between two size classes the rate changes evenly with the logarithm of the work. */
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
    if (!below && !above)        /* integers and types nobody rated: as fp32 */
        return strcmp(type, "f32") ? profile_rate(profile, kind, "f32", flops) : 0;
    if (!below || !above || below->flops <= 0)
        return below ? below->flops_per_s : above->flops_per_s;
    double share = log(flops / below->flops) / log(above->flops / below->flops);
    return below->flops_per_s * pow(above->flops_per_s / below->flops_per_s, share);
}

double profile_roofline_ns(const Profile *profile, const char *op, const char *type, double flops,
                           double bytes)
{
    bool   conv = !strncmp(op, "conv", 4) || !strncmp(op, "up_conv", 7);
    double rate = profile_rate(profile, conv ? RATE_CONV : RATE_MATMUL, type, flops);
    double by_flops = rate > 0 ? flops / rate : 0;
    double by_bytes = profile->n_bandwidth
                          ? bytes / profile->bandwidth[profile->n_bandwidth - 1].copy
                          : 0;
    return profile->launch_ns + 1e9 * (by_flops > by_bytes ? by_flops : by_bytes);
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

static int family_order(const void *a, const void *b)
{
    const OpTime *x = *(const OpTime *const *)a, *y = *(const OpTime *const *)b;
    int order = strcmp(x->op, y->op);
    return order ? order : strcmp(x->type, y->type);
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

/* One point for each x; then neighbours whose y falls share their mean, until none falls. */
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
    Pool          *work = pool_new(NULL, "families");
    const OpTime **by_family = NEWN(work, const OpTime *, profile->n_ops + 1);
    qsort(profile->ops, (size_t)profile->n_ops, sizeof *profile->ops, op_order);
    for (int32_t i = 0; i < profile->n_ops; i++)
        by_family[i] = &profile->ops[i];
    qsort(by_family, (size_t)profile->n_ops, sizeof *by_family, family_order);
    for (int32_t i = 0, end; i < profile->n_ops; i = end) {
        for (end = i + 1; end < profile->n_ops && !family_order(&by_family[i], &by_family[end]);
             end++)
            ;
        Family family = { by_family[i]->op, by_family[i]->type, NEWN(pool, Point, end - i), 0 };
        for (int32_t k = i; k < end; k++) {
            const OpTime *op = by_family[k];
            double roofline = profile_roofline_ns(profile, op->op, op->type, op->flops, op->bytes);
            family.points[family.n++] = (Point){ log(roofline), log(op->ns), 1 };
        }
        family.n = points_rise(work, family.points, family.n);
        VEC_ADD(pool, profile->families, profile->n_families, profile->cap_families, family);
    }
    pool_free(work);
}

/* An operator measured in another type only: how far it stays behind its roofline is the best guess
 * there is. */
static const Family *profile_family(const Profile *profile, const char *op, const char *type)
{
    int32_t low = 0, high = profile->n_families;
    while (low < high) {
        int32_t       middle = low + (high - low) / 2;
        const Family *family = &profile->families[middle];
        int           order = strcmp(op, family->op);
        order = order ? order : strcmp(type, family->type);
        if (!order)
            return family;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    for (int32_t i = low - 1; i <= low; i++)  /* its neighbours in order of operator, then type */
        if (i >= 0 && i < profile->n_families && !strcmp(op, profile->families[i].op))
            return &profile->families[i];
    return NULL;
}

static double family_ns(const Family *family, double roofline_ns)
{
    const Point *points = family->points;
    double       x = log(roofline_ns);
    int32_t      i = 0;
    while (i < family->n && points[i].x < x)
        i++;
    if (i == 0 || i == family->n) {          /* outside: as the roofline grows */
        const Point *edge = &points[i ? i - 1 : 0];
        return exp(edge->y + x - edge->x);
    }
    double share = (x - points[i - 1].x) / (points[i].x - points[i - 1].x);
    return exp(points[i - 1].y + share * (points[i].y - points[i - 1].y));
}

/* The call's time in its own graph, else its mean over the graphs it was measured in; 0: in
 * none. */
static double measured_ns(const Profile *profile, const OpTime *call)
{
    int32_t low = 0, high = profile->n_ops, n = 0;
    double  sum = 0;
    while (low < high) {                             /* the first with this key */
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

/* The same work by another algorithm, as for a card whose kernels are not here to choose one: the
 * mean of those in its own graph; 0: there are none. */
static double alike_ns(const Profile *profile, const OpTime *call)
{
    double  sum = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < profile->n_ops; i++) {
        const OpTime *op = &profile->ops[i];
        if (op->graph != call->graph || op->flops != call->flops || op->bytes != call->bytes ||
            strcmp(op->op, call->op) || strcmp(op->type, call->type))
            continue;
        sum += op->ns;
        n++;
    }
    return n ? sum / n : 0;
}

/* An operator that was never measured beside one that does the same and was: as far behind its
 * roofline, and no faster than any measured call of its kin that needs no more. Its own roofline is
 * a floor: beside measured times it would win by not having been tried. */
static double kin_ns(const Profile *profile, const OpTime *call, const Family *kin,
                     double roofline_ns)
{
    double ns = family_ns(kin, roofline_ns);
    for (int32_t i = 0; i < profile->n_ops; i++) {
        const OpTime *op = &profile->ops[i];
        if (strcmp(op->op, call->kin) || strcmp(op->type, call->type) || op->ns <= ns)
            continue;
        if (profile_roofline_ns(profile, op->op, op->type, op->flops, op->bytes) <= roofline_ns)
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
    double roofline = profile_roofline_ns(profile, call->op, call->type, call->flops, call->bytes);
    const Family *family = profile_family(profile, call->op, call->type);
    const Family *kin = call->kin ? profile_family(profile, call->kin, call->type) : NULL;
    *basis = family || kin ? TIME_FAMILY : TIME_ROOFLINE;
    return family ? family_ns(family, roofline)
           : kin  ? kin_ns(profile, call, kin, roofline)
                  : roofline;
}
