/* point_space.c -- the space of a program with its axes joined where nothing tells them apart. */
#include "ops/pointwise/point_space.h"

#include <string.h>

/* May axes a and b, neighbours but for axes of 1, be one? */
static bool axes_join(const PointwiseAttr *p, int a, int b)
{
    for (int i = 0; i < p->n_in; i++)
        if (p->stride[i][a] != p->stride[i][b] * p->dim[b])
            return false;
    for (int r = 0; r < p->n_results; r++)
        if ((p->result[r].axes >> a & 1) != (p->result[r].axes >> b & 1))
            return false;
    return true;
}

void point_space(const PointwiseAttr *p, PointSpace *s)
{
    int last = -1; /* axis of the program that ended the last axis here */
    memset(s, 0, sizeof *s);
    for (int a = 0; a < p->rank; a++) {
        if (p->dim[a] == 1)
            continue;
        if (last < 0 || !axes_join(p, last, a))
            s->dim[s->rank++] = 1;
        int at = s->rank - 1;
        s->dim[at] *= p->dim[a];
        for (int i = 0; i < p->n_in; i++)
            s->stride[i][at] = p->stride[i][a];
        for (int r = 0; r < p->n_results; r++)
            s->reduced[r] |= (p->result[r].axes >> a & 1) << at;
        last = a;
    }
    if (s->rank == 0) /* one point */
        s->dim[s->rank++] = 1;
    s->points = 1;
    for (int a = 0; a < s->rank; a++)
        s->points *= s->dim[a];
    for (int r = 0; r < p->n_results; r++) {
        int64_t next = 1;
        for (int a = s->rank - 1; a >= 0; a--) {
            bool gone = s->reduced[r] >> a & 1;
            s->out_stride[r][a] = gone ? 0 : next;
            next *= gone ? 1 : s->dim[a];
        }
        s->count[r] = next;
    }
}
