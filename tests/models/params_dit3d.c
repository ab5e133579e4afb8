/* params_dit3d.c -- DiT3D's recipes: names, shapes and counts of parameters, which are trained, and
 * that the frozen backbone has no backward nodes. */
#include "params_list.h"

#include "base/file.h"
#include "recipe/recipe.h"

#include <stdlib.h>

static const struct {
    const char *recipe;
    int64_t     total, trained;
    int64_t     batch, accumulate;
    bool        listed; /* in tests/models/params */
} rows[] = {
    { "dit3d-tiny", 9202944, 9202944, 1, 2, true },
    { "dit3d-xs", 5526720, 5526720, 1, 2, false },
    { "dit3d-s", 32923800, 32923800, 8, 1, false },
    { "dit3d-b", 130728216, 130728216, 4, 1, false },
    { "dit3d-l", 458652696, 458652696, 4, 1, false },
    { "dit3d-xl", 675895704, 675895704, 4, 1, false },
    { "dit3d-wrap-tiny-4", 9011425, 1700833, 1, 2, true },
    { "dit3d-wrap-tiny-2", 9198817, 1700833, 1, 2, false },
    { "dit3d-wrap-xs-4", 5149473, 1005921, 1, 2, true },
    { "dit3d-wrap-xs-2", 5290017, 1005921, 1, 2, false },
    { "dit3d-wrap-s-2", 36195681, 3631329, 1, 2, false },
    { "dit3d-wrap-b-2", 142872801, 13748193, 1, 2, false },
    { "dit3d-wrap-l-2", 479825377, 24097249, 1, 2, false },
    { "dit3d-wrap-xl-2", 702516321, 30353121, 1, 2, false },
    /* 12 frames more than XL/2, and four times the tokens a frame */
    { "dit3d-wrap-before", 706069089, 30366945, 2, 1, false },
    { "dit3d-small", 1100336, 1100336, 0, 0, false },
    { "dit3d-wrap-small", 339361, 156001, 0, 0, false },
};

static bool in_backbone(const char *name) { return !strncmp(name, "dit_backbone.", 13); }

static void check_frozen(const Graph *graph, bool wrapped)
{
    int forward = 0, backward = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const Node *node = &graph->nodes[i];
        bool        inside = in_backbone(graph->modules[node->module].path);
        forward += inside && !node->backward && node->phase == PHASE_MICRO;
        backward += inside && (node->backward || node->phase == PHASE_UPDATE);
    }
    CHECK(wrapped == (forward > 0));
    CHECK_INT(backward, 0);
    for (int32_t i = 0; i < graph->n_params; i++) {
        const Param *p = &graph->params[i];
        CHECK_INT(p->trained, !in_backbone(p->name));
        CHECK_INT(p->frozen, in_backbone(p->name));
        CHECK(p->trained == (p->grad >= 0) && p->trained == (p->m >= 0));
    }
}

static const char *recipe_path(Pool *pool, const char *name)
{
    return pool_print(pool, SOURCE_DIR "/recipes/%s.yaml", name);
}

static void recipes(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Pool         *pool = pool_new(NULL, "params");
        Recipe       *recipe;
        TrainingGraph train;
        int64_t       total = 0, trained = 0;
        test_name = rows[i].recipe;
        Err err = recipe_read(pool, recipe_path(pool, rows[i].recipe), NULL, 0, &recipe);
        err = err ? err : recipe_graph(pool, recipe, false, &train);
        CHECK_OK(err);
        if (err)
            continue;
        for (int32_t p = 0; p < train.graph->n_params; p++) {
            int64_t count = shape_count(train.graph->params[p].disk);
            total += count;
            trained += train.graph->params[p].trained ? count : 0;
        }
        CHECK_INT(total, rows[i].total);
        CHECK_INT(trained, rows[i].trained);
        if (rows[i].batch) {
            CHECK_INT(recipe->batch, rows[i].batch);
            CHECK_INT(recipe->accumulate, rows[i].accumulate);
        }
        check_frozen(train.graph, strstr(rows[i].recipe, "wrap") != NULL);
        if (rows[i].listed)
            params_compare(train.graph, rows[i].recipe);
        pool_free(pool);
    }
}

/* Only the last layer is wider with learn_sigma. */
static void learn_sigma(void)
{
    static const struct {
        const char *recipe;
        int64_t     more;
    } both[] = {
        { "dit3d-tiny", 3072 * 257 },
        { "dit3d-wrap-tiny-4", 3 * (6 * 27 + 1) },
    };
    for (int i = 0; i < 2; i++) {
        Pool         *pool = pool_new(NULL, "params");
        Recipe       *recipe;
        TrainingGraph train;
        int64_t       total[2] = { 0 };
        for (int sigma = 0; sigma < 2; sigma++) {
            const char *set = sigma ? "model.learn_sigma=true" : "model.learn_sigma=false";
            Err err = recipe_read(pool, recipe_path(pool, both[i].recipe), &set, 1, &recipe);
            err = err ? err : recipe_graph(pool, recipe, false, &train);
            CHECK_OK(err);
            for (int32_t p = 0; !err && p < train.graph->n_params; p++)
                total[sigma] += shape_count(train.graph->params[p].disk);
        }
        CHECK_INT(total[1] - total[0], both[i].more);
        pool_free(pool);
    }
}

int main(void)
{
    RUN(recipes);
    RUN(learn_sigma);
    return test_end();
}
