/* compare.c -- rows of a comparison: everything kept, the minimum, and a plan for each budget
 * between them. */
#include "fit/compare.h"

#include "base/clock.h"
#include "base/text.h"

enum { SHORT_EFFORT = 2000 };

/* What fits only re-planned is planned for exactly this budget, to know how much slower it is. */
static Err compare_cell(const Explained *e, int64_t budget, const CompareOptions *options,
                        CompareCell *cell)
{
    *cell = (CompareCell){ .verdict = e->minimum_bytes ? VERDICT_NO : VERDICT_UNKNOWN,
                           .peak_bytes = e->minimum_bytes };
    if (e->sheet->peak_bytes <= budget) {
        *cell = (CompareCell){ VERDICT_FITS, true, e->sheet->peak_bytes, 1, false };
        return OK;
    }
    double left = options->deadline_s - clock_now();
    if (e->minimum_bytes && e->minimum_bytes <= budget)
        cell->verdict = VERDICT_REPLANNED;
    if (budget < 1 || left <= 0)
        return OK;
    Pool      *pool = pool_new(NULL, "cell");
    FitResult *result = NEW(pool, FitResult);
    FitOptions how = { .budget_bytes = budget,
                       .allow = options->allow,
                       .shard_auto = options->shard_auto,
                       .time_limit_s = left,
                       .effort = options->effort ? options->effort : SHORT_EFFORT };
    Err        err = fit_run(pool, e->recipe, e->device, &how, result);
    if (!err)
        *cell = (CompareCell){ VERDICT_REPLANNED, true, result->engine->arena_bytes,
                               result->step_ns / (e->step_ms * 1e6), result->cut };
    else if (err == E_BUDGET)
        *cell = (CompareCell){ VERDICT_NO, true, result->minimum_bytes, 0, result->cut };
    pool_free(pool);
    return err == E_BUDGET ? OK : err;
}

/* Budget i of a row, without the runtime. */
static Err compare_budget(const Explained *e, const Comparison *c, int32_t i, int64_t *bytes)
{
    const char *share = compare_share(c, i);
    *bytes = c->budgets[i] - e->device->runtime_bytes;
    return share ? bytes_read(share, e->sheet->peak_bytes, bytes) : OK;
}

static Err compare_row(Pool *pool, Comparison *c, const Recipe *recipe, const Device *device,
                       const CompareOptions *options, CompareRow *row)
{
    Pool      *own = pool_new(NULL, "row");
    Explained *e;
    double     left = options->deadline_s - clock_now();
    Err        err = explained_new(own, recipe, device,
                                   &(ExplainOptions){ .effort = left > 0 ? options->effort : -1,
                                                      .time_limit_s = left,
                                                      .no_split = !(options->allow & ALLOW_SPLIT) },
                                   &e);
    row->cells = NEWN(pool, CompareCell, c->n_budgets + 1);
    if (!err) {
        row->parameters = e->sheet->parameters;
        row->trained = e->sheet->trained;
        row->batch = recipe->batch;
        row->accumulate = recipe->accumulate;
        row->precision = recipe_precisions[recipe->precision];
        row->peak_bytes = e->sheet->peak_bytes;
        row->minimum_bytes = e->minimum_bytes ? e->minimum_bytes + device->runtime_bytes : 0;
        row->state_bytes = e->sheet->engine->persistent_bytes;
        row->step_ms = e->step_ms * engine_pace(e->sheet->engine);
        c->time_source = pool_text(pool, engine_time_source(e->sheet->engine));
    }
    for (int32_t i = 0; i < c->n_budgets && !err; i++) {
        int64_t budget = 0;
        err = compare_budget(e, c, i, &budget);
        if (!err)
            err = compare_cell(e, budget, options, &row->cells[i]);
        row->cells[i].budget_bytes = budget + e->device->runtime_bytes;
    }
    pool_free(own);
    return err;
}

Err compare_add(Pool *pool, Comparison *c, const char *name, const Recipe *recipe,
                const Device *device, Err read_err, const CompareOptions *options)
{
    CompareRow row = { .name = name };
    Err        err = read_err ? read_err : compare_row(pool, c, recipe, device, options, &row);
    if (err)
        row.error = pool_text(pool, err_text());
    VEC_ADD(pool, c->rows, c->n_rows, c->cap_rows, row);
    return err;
}
