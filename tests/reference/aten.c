/* aten.c -- for tests/import/aten.py and stablehlo.py: loss and gradients of many exported programs, in one
 * process.
 *
 *   aten CASE_FOLDER...     each holds model.pt2, config.json and batch.safetensors, or model.mlir,
 *                           weights.safetensors and batch.safetensors; writes ours.safetensors
 *                           (loss, grad.NAME) or said.txt (why there is none), and used.txt (the
 *                           targets that the program calls)
 *   aten --targets          the operators that the importer has, one per line
 */
#include "test_device.h"
#include "test.h"

#include "base/file.h"
#include "base/safetensors.h"
#include "import/lower.h"
#include "ops/optimizer/optim.h"
#include "recipe/recipe.h"
#include "train/feeds.h"
#include "train/weights.h"

static const LowerDef *const tables[] = {
    lower_pointwise, lower_views,    lower_create,   lower_products, lower_norms,
    lower_attention, lower_reduces,  lower_indices,  lower_randoms,  lower_samples,
    lower_shifts,    lower_specials, lower_rnns,     lower_experts,  lower_losses,
    lower_complexes, lower_ffts,     lower_matrices, lower_orders,   lower_bags
};

static void print_targets(void)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const LowerDef *def = tables[t]; def->target; def++)
            printf("%s\n", def->target);
}

static Err fill_feeds(Pool *pool, const SafeFile *batch, Feeds *feeds)
{
    for (int32_t f = 0; f < feeds->n; f++) {
        FeedBuffer       *feed = &feeds->list[f];
        const SafeTensor *t = safetensors_find(batch, feed->name);
        int64_t           n = shape_count(feed->shape), have = 1;
        for (int a = 0; t && a < t->rank; a++)
            have *= t->shape[a];
        if (!t || have != n)
            return fail(E_FORMAT, "the batch has no '%s' of %s", feed->name,
                        shape_text(feed->shape));
        for (int64_t i = 0; i < n; i++) {
            double x = t->type == SAFE_F32 ? (double)((const float *)t->data)[i]
                                           : (double)((const int64_t *)t->data)[i];
            if (feed->type == F32)
                ((float *)feed->bytes)[i] = (float)x;
            else if (feed->type == I32)
                ((int32_t *)feed->bytes)[i] = (int32_t)x;
            else
                ((uint8_t *)feed->bytes)[i] = (uint8_t)x;
        }
    }
    (void)pool;
    return OK;
}

static Err write_results(Pool *pool, const char *folder, Session *session, TrainingGraph *g,
                         double share)
{
    Graph      *graph = g->graph;
    SafeTensor *list = NEWN(pool, SafeTensor, graph->n_params + 1);
    int         n = 0;
    float      *loss = NEWN(pool, float, 1);
    int64_t    *one = NEWN(pool, int64_t, 1);
    *one = 1;
    TRY(session_read(session, g->train.loss.id, loss));
    *loss *= (float)share;
    list[n++] = (SafeTensor){ "loss", SAFE_F32, 1, one, loss, 4 };
    for (int32_t i = 0; i < graph->n_params; i++) {
        const Param *p = &graph->params[i];
        if (!p->trained)
            continue;
        int64_t count = shape_count(p->disk), *shape = NEWN(pool, int64_t, 1);
        float  *grad = NEWN(pool, float, count);
        *shape = count;
        TRY(session_get_param(session, i, p->grad, grad));
        for (int64_t k = 0; k < count; k++)
            grad[k] *= (float)share;
        list[n++] = (SafeTensor){
            pool_print(pool, "grad.%s", p->name), SAFE_F32, 1, shape, grad, (size_t)count * 4
        };
    }
    return safetensors_write(pool_print(pool, "%s/ours.safetensors", folder), list, n, NULL);
}

static void write_used(const char *path, const Exported *program)
{
    FILE *f = fopen(path, "w");
    for (int32_t i = 0; f && i < program->n_calls; i++)
        fprintf(f, "%s\n", program->calls[i].target);
    if (f)
        fclose(f);
}

/* Two micro-batches per update: then gradients are kept in tensors of their own. */
static Err run_case(Pool *pool, Device *device, const char *folder)
{
    Recipe       *recipe;
    TrainingGraph graph;
    Engine       *engine;
    Session      *session;
    SafeFile      batch;
    Feeds         feeds;
    Exported     *program;
    const char   *sets[] = { "precision=fp32", "accumulate=2" };
    const char   *hlo = pool_print(pool, "%s/model.mlir", folder);
    bool          jax = file_exists(hlo);
    TRY(jax ? hlo_read(pool, hlo, &program)
            : exported_read(pool, pool_print(pool, "%s/model.pt2", folder), &program));
    write_used(pool_print(pool, "%s/used.txt", folder), program);
    TRY(recipe_read(pool, jax ? hlo : pool_print(pool, "%s/config.json", folder), sets, 2,
                    &recipe));
    TRY(safetensors_read(pool, pool_print(pool, "%s/batch.safetensors", folder), &batch));
    TRY(recipe_graph(pool, recipe, true, &graph));
    TRY(engine_new(pool, graph.graph, device, NULL, &engine));
    TRY(session_new(pool, engine, &session));
    TRY(session_init(session, 1));
    if (jax)
        TRY(weights_load(pool, session, pool_print(pool, "%s/weights.safetensors", folder), false,
                         NULL));
    TRY(feeds_new(pool, session, PHASE_MICRO, &feeds));
    TRY(fill_feeds(pool, &batch, &feeds));
    TRY(session_run(session, PHASE_MICRO));
    if (session_measured_bytes(session, PHASE_MICRO) != session_planned_bytes(session, PHASE_MICRO))
        return fail(E_FORMAT, "used %lld bytes, planned %lld",
                    (long long)session_measured_bytes(session, PHASE_MICRO),
                    (long long)session_planned_bytes(session, PHASE_MICRO));
    return write_results(pool, folder, session, &graph, 2);
}

int main(int argc, char **argv)
{
    Pool   *all = pool_new(NULL, "aten");
    Device *device;
    if (argc == 2 && !strcmp(argv[1], "--targets")) {
        print_targets();
        return 0;
    }
    if (argc < 2) {
        SKIP("no cases given");
        return test_end();
    }
    if (test_device(all, &(DeviceOptions){ .threads = 1 }, &device)) {
        fprintf(stderr, "%s\n", err_text());
        return 1;
    }
    for (int i = 1; i < argc; i++) {
        Pool *pool = pool_new(all, "case");
        if (run_case(pool, device, argv[i])) {
            FILE *f = fopen(pool_print(pool, "%s/said.txt", argv[i]), "w");
            if (f) {
                fprintf(f, "%s\n", err_text());
                fclose(f);
            }
        }
        pool_free(pool);
    }
    pool_free(all);
    return 0;
}
