/* whatif_model.c -- what-if rows that change the model: fewer frames, channels, layers. Each is the
 * recipe with other values of its system's keys (ModelDef.what_if), built and planned again. fit
 * never does this.
 */
#include "fit/whatif_int.h"

#include "base/text.h"

#include <string.h>

static int64_t scaled(SizeFactor factor, int64_t v)
{
    switch (factor) {
    case SIZE_HALF: return v / 2;
    case SIZE_HALF_UP: return (v + 1) / 2;
    case SIZE_TWICE: return 2 * v;
    case SIZE_THREE_QUARTERS: return v * 3 / 4;
    case SIZE_TWO_THIRDS: return v * 2 / 3;
    }
    return v;
}

/* "model.key=value" with the scaled value; NULL if nothing would change. */
static const char *scaled_setting(Pool *pool, const Recipe *recipe, const char *key, size_t n,
                                  SizeFactor factor)
{
    const Field *f = recipe->model->fields;
    while (f->key && (strlen(f->key) != n || memcmp(f->key, key, n)))
        f++;
    REQUIRE(f->key && (f->kind == FIELD_INT || f->kind == FIELD_INTS));
    const void *at = (const char *)recipe->config + f->offset;
    if (f->kind == FIELD_INT) {
        int64_t was = *(const int64_t *)at, now = scaled(factor, was);
        return now == was || now < 1 ? NULL
                                     : pool_print(pool, "model.%s=%lld", f->key, (long long)now);
    }
    Text text = { .pool = pool };
    for (int i = 0; i < ((const Ints *)at)->n; i++)
        text_add(&text, "%s%lld", i ? "," : "[",
                 (long long)scaled(factor, ((const Ints *)at)->at[i]));
    return pool_print(pool, "model.%s=%s]", f->key, text.at);
}

static Err run_change(WhatIfRun *run, const ModelWhatIf *change)
{
    Recipe *r = recipe_copy(run->pool, run->e->recipe);
    Text    how = { .pool = run->pool };
    WhatIf  row = { .name = change->text, .effort = EFFORT_LONG };
    for (const char *key = change->keys; *key; key += strspn(key, " ")) {
        size_t      n = strcspn(key, " ");
        const char *setting = scaled_setting(run->pool, r, key, n, change->factor);
        if (!setting)
            return OK;
        text_add(&how, "%s--set %s", how.n ? " " : "", setting);
        row.how = how.at;
        if (recipe_set(run->pool, r, setting)) {
            run_refuse(run, row, pool_text(run->pool, err_text()));
            return OK;
        }
        key += n;
    }
    if (r->model->check && r->model->check(r->config)) {
        run_refuse(run, row, pool_text(run->pool, err_text()));
        return OK;
    }
    return run_row(run, row, r, SEARCH_NONE);
}

Err run_changes(WhatIfRun *run)
{
    const ModelWhatIf *change = run->e->recipe->model->what_if;
    for (; change && change->text; change++)
        TRY(run_change(run, change));
    Recipe *r = recipe_copy(run->pool, run->e->recipe);
    r->batch /= 2;
    if (r->batch < 1)
        return OK;
    return run_row(run,
                   (WhatIf){ .name = "half the batch, and half the effective batch",
                             .effort = EFFORT_LONG,
                             .how = pool_print(run->pool, "--batch %lld", (long long)r->batch) },
                   r, SEARCH_NONE);
}
