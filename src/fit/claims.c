/* claims.c -- common beliefs about training memory, tested on this recipe. */
#include "fit/whatif.h"

#include "base/text.h"

typedef struct ClaimSums { /* one variant of the recipe with everything kept */
    int64_t peak_bytes, state_bytes, classes[CLASS_COUNT];
} ClaimSums;

static Err claim_sums(const Explained *e, const Recipe *recipe, ClaimSums *sums)
{
    Pool         *pool = pool_new(NULL, "belief");
    TrainingGraph graph;
    Engine       *engine;
    Sheet        *sheet;
    Err           err = recipe_graph(pool, recipe, false, &graph);
    if (!err)
        err = engine_new(pool, graph.graph, e->device, NULL, &engine);
    if (!err)
        err = sheet_new(pool, engine, &sheet);
    if (!err) {
        *sums = (ClaimSums){ .peak_bytes = sheet->peak_bytes };
        for (int32_t i = 0; i < graph.graph->n_values; i++) {
            const Value *v = value_at(graph.graph, i);
            if (engine->offset[i] >= 0)
                sums->classes[v->mem_class] += v->bytes;
        }
        for (int c = CLASS_PARAMETERS; c <= CLASS_MASTER; c++)
            sums->state_bytes += sums->classes[c];
    }
    pool_free(pool);
    return err;
}

static void belief_add(Pool *pool, Explained *e, int32_t *cap, const char *belief,
                       const char *truth)
{
    VEC_ADD(pool, e->beliefs, e->n_beliefs, *cap, (Belief){ belief, truth });
}

Err beliefs_find(Pool *pool, Explained *e)
{
    const Recipe *asked = e->recipe;
    Recipe       *r = recipe_copy(pool, asked);
    ClaimSums     one, more, low;
    int64_t       trained = e->sheet->trained * 4;
    int32_t       cap = 0;

    r->accumulate = asked->accumulate > 1 ? asked->accumulate : 2;
    TRY(claim_sums(e, r, &one));
    r->accumulate *= 2;
    TRY(claim_sums(e, r, &more));
    belief_add(pool, e, &cap, "Gradient accumulation stores a second set of gradients.",
               pool_print(pool,
                          "Micro-batches are summed in place: %s bytes of gradients at accumulate "
                          "%lld and %s at %lld; the peak moves by %s bytes.",
                          count_text(one.classes[CLASS_GRADIENTS]), (long long)(r->accumulate / 2),
                          count_text(more.classes[CLASS_GRADIENTS]), (long long)r->accumulate,
                          count_text(more.peak_bytes - one.peak_bytes)));
    belief_add(pool, e, &cap, "Gradients take two or three times the model.",
               pool_print(pool,
                          "A trained weight has one gradient of four bytes: %s bytes for %s "
                          "trained weights, %.2f times the "
                          "parameters' bytes.",
                          count_text(trained), count_text(e->sheet->trained),
                          (double)trained / (double)e->sheet->parameter_bytes));
    if (recipe_type(asked) == F32) {
        r = recipe_copy(pool, asked);
        TRY(claim_sums(e, r, &one));
        r->precision = PRECISION_BF16;
        TRY(claim_sums(e, r, &low));
        belief_add(pool, e, &cap,
                   "Half precision halves the memory of weights, gradients, optimizer and EMA.",
                   pool_print(pool,
                              "With fp32 master copies the state goes from %s to %s bytes "
                              "(%+.1f %%): trained weights are stored twice. "
                              "Only activations halve; the peak goes from %s to %s.",
                              count_text(one.state_bytes), count_text(low.state_bytes),
                              100 * ((double)low.state_bytes / (double)one.state_bytes - 1),
                              bytes_text(one.peak_bytes), bytes_text(low.peak_bytes)));
    }
    if (asked->batch > 1) {
        r = recipe_copy(pool, asked);
        r->batch = asked->batch / 2;
        TRY(claim_sums(e, r, &low));
        belief_add(pool, e, &cap, "Memory is proportional to the batch.",
                   pool_print(pool,
                              "Batch %lld needs %s, batch %lld %s: %.2f times, since state "
                              "does not shrink.",
                              (long long)asked->batch, bytes_text(e->sheet->peak_bytes),
                              (long long)r->batch, bytes_text(low.peak_bytes),
                              (double)low.peak_bytes / (double)e->sheet->peak_bytes));
    }
    int64_t scores = 0;
    for (int32_t i = 0; i < e->n_avoided; i++)
        scores += e->avoided[i].bytes * e->avoided[i].count;
    if (scores)
        belief_add(pool, e, &cap, "What a plain implementation stores has to be stored.",
                   pool_print(pool,
                              "%s of scores, kernels and maps before their activation are computed "
                              "where they are needed and not stored; the whole step needs %s.",
                              bytes_text(scores), bytes_text(e->sheet->peak_bytes)));
    belief_add(pool, e, &cap, "The framework adds an overhead that cannot be known.",
               pool_print(pool,
                          "Every buffer is placed before the first step: alignment and "
                          "fragmentation are %s bytes (%.3f %% of the "
                          "peak); nothing else is allocated in the arena.",
                          count_text(e->sheet->gap_bytes),
                          100.0 * (double)e->sheet->gap_bytes / (double)e->sheet->peak_bytes));
    return OK;
}
