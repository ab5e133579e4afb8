/* components.c -- one pass over births and deaths divides buffers into components with sections.
 *
 * A section ends where a buffer dies after others were born: what was live just before is a maximal
 * set. A component ends where nothing is live.
 */
#include "layout/layout_int.h"

#include <stdlib.h>

typedef struct Moment {
    int64_t time;
    int32_t buffer;
} Moment;

static int components_compare(const void *a, const void *b)
{
    const Moment *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

static int64_t components_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static Err components_validate(const Buffer *buffers, int n, int64_t *shared_align)
{
    const int64_t max_bytes = (int64_t)1 << 62;
    *shared_align = 0;
    for (int i = 0; i < n; i++) {
        const Buffer *b = &buffers[i];
        int64_t       width;
        if (b->lower >= b->upper || __builtin_sub_overflow(b->upper, b->lower, &width))
            return fail(E_FORMAT,
                        "buffer %d is alive from %lld to %lld: it must live for at "
                        "least one and less than 2^63 units of time",
                        i, (long long)b->lower, (long long)b->upper);
        if (b->size <= 0 || b->size > max_bytes)
            return fail(E_FORMAT, "buffer %d has %lld bytes; a size is 1 to 2^62", i,
                        (long long)b->size);
        if (b->align < 0 || b->align > max_bytes)
            return fail(E_FORMAT, "buffer %d has alignment %lld; an alignment is 0 to 2^62", i,
                        (long long)b->align);
        if (b->fixed &&
            (b->offset < 0 || b->offset > max_bytes || (b->align && b->offset % b->align)))
            return fail(E_FORMAT,
                        "buffer %d is fixed at offset %lld, which is not a multiple of "
                        "%lld from 0 to 2^62",
                        i, (long long)b->offset, (long long)(b->align ? b->align : 1));
        if (b->fixed && b->offset > INT64_MAX - b->size)
            return fail(E_FORMAT,
                        "buffer %d is fixed at offset %lld with %lld bytes: its end is "
                        "beyond 2^63",
                        i, (long long)b->offset, (long long)b->size);
        *shared_align = components_divisor(*shared_align, b->align ? b->align : 1);
    }
    return OK;
}

/* Sets what depends on the whole component: slack of its sections, load of its items, the bound. */
static void components_finish(Pool *pool, Component *component)
{
    Pool   *temp = pool_new(pool, "component");
    Skyline load = skyline_new(temp, component->n_sections);
    Skyline pad = skyline_new(temp, component->n_sections);
    for (int32_t i = 0; i < component->n; i++)
        skyline_raise(&pad, component->items[i].first, component->items[i].end,
                      component->items[i].span - component->items[i].size);
    for (int32_t s = 0; s < component->n_sections; s++) {
        component->slack[s] = skyline_high(&pad, s, s + 1);
        skyline_raise(&load, s, s + 1, component->load[s]);
        if (component->bound < component->load[s] - component->slack[s])
            component->bound = component->load[s] - component->slack[s];
    }
    for (int32_t i = 0; i < component->n; i++) {
        Item *item = &component->items[i];
        item->load = skyline_high(&load, item->first, item->end);
        component->members += item->end - item->first;
        if (item->fixed >= 0 && component->bound < item->fixed + item->size)
            component->bound = item->fixed + item->size;
        component->n_fixed += item->fixed >= 0;
    }
    pool_free(temp);
}

Err components_build(Pool *pool, const Buffer *buffers, int n, Component **components,
                     int *n_components)
{
    int64_t    shared, live = 0;
    Moment    *births = NEWN(pool, Moment, n), *deaths = NEWN(pool, Moment, n);
    Item      *items = NEWN(pool, Item, n);
    int32_t   *item_of = NEWN(pool, int32_t, n);
    int64_t   *load = NEWN(pool, int64_t, n), *slack = NEWN(pool, int64_t, n);
    int64_t   *offset = NEWN(pool, int64_t, n);
    Component *list = NULL;
    int        n_list = 0, cap = 0;

    TRY(components_validate(buffers, n, &shared));
    for (int32_t i = 0; i < n; i++) {
        births[i] = (Moment){ buffers[i].lower, i };
        deaths[i] = (Moment){ buffers[i].upper, i };
    }
    qsort(births, (size_t)n, sizeof *births, components_compare);
    qsort(deaths, (size_t)n, sizeof *deaths, components_compare);

    Component component = { 0 };
    int32_t   born = 0, first_item = 0, sections = 0, first_section = 0;
    bool      grew = false;
    for (int32_t dead = 0; dead < n; dead++) {
        for (; born < n && births[born].time < deaths[dead].time; born++) {
            const Buffer *b = &buffers[births[born].buffer];
            int64_t       align = b->align ? b->align : 1;
            int64_t       span = layout_align(b->size, shared);
            items[born] = (Item){ .first = sections - first_section,
                                  .buffer = births[born].buffer,
                                  .size = b->size,
                                  .span = span,
                                  .align = align,
                                  .fixed = b->fixed ? b->offset : -1,
                                  .width = b->upper - b->lower };
            item_of[births[born].buffer] = born;
            grew = true;
            if (__builtin_add_overflow(live, span, &live))
                return fail(E_FORMAT, "the buffers alive at time %lld add up to 2^63 bytes or more",
                            (long long)b->lower);
        }
        if (grew)
            load[sections++] = live;
        grew = false;
        Item *item = &items[item_of[deaths[dead].buffer]];
        item->end = sections - first_section;
        live -= item->span;
        if (live == 0) { /* nothing is live: the component ends here */
            component = (Component){ .items = items + first_item,
                                     .load = load + first_section,
                                     .slack = slack + first_section,
                                     .offset = offset + first_item,
                                     .n = born - first_item,
                                     .n_sections = sections - first_section,
                                     .top = INT64_MAX };
            components_finish(pool, &component);
            VEC_ADD(pool, list, n_list, cap, component);
            first_item = born;
            first_section = sections;
        }
    }
    *components = list;
    *n_components = n_list;
    return OK;
}
