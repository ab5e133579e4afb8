/* noise_inputs.c -- finds noise inputs by building the loss with and without given noise. */
#include "evaluate/noise_inputs.h"

#include "base/random.h"
#include "ops/elementwise/basic.h"
#include "ops/ops.h"

#include <string.h>

/* The forward graph of the loss as a validation builds it. */
static Err loss_graph(Pool *pool, const Recipe *recipe, const BuildOptions *build, int64_t batch,
                      Graph **out)
{
    Graph *graph = *out = graph_new_with(pool, recipe_type(recipe), build);
    graph->phase = PHASE_VALIDATE;
    recipe->model->loss(graph, recipe->config, batch, 1);
    return graph_check(graph);
}

static const Node *feed_find(const Graph *graph, const char *name)
{
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op == &op_feed && !strcmp(ATTR(&graph->nodes[i], FeedAttr)->name, name))
            return &graph->nodes[i];
    return NULL;
}

static int axis_grown(Shape one, Shape two)
{
    int axis = 0;
    while (axis < one.rank && one.dim[axis] == two.dim[axis])
        axis++;
    return axis;
}

Err noise_inputs_find(Pool *pool, const Recipe *recipe, const BuildOptions *build, NoiseInputs *out)
{
    Pool        *work = pool_new(pool, "noise");
    BuildOptions plain = *build;
    Graph       *given, *twice, *drawn;
    plain.given_noise = false;
    *out = (NoiseInputs){ .seed = (uint64_t)recipe->seed };
    TRY(loss_graph(work, recipe, build, 1, &given));
    TRY(loss_graph(work, recipe, build, 2, &twice));
    TRY(loss_graph(work, recipe, &plain, 1, &drawn));
    for (int32_t i = 0; i < given->n_nodes; i++) {
        const Node *node = &given->nodes[i];
        if (node->op != &op_feed || feed_find(drawn, ATTR(node, FeedAttr)->name))
            continue;
        const char *name = pool_text(pool, ATTR(node, FeedAttr)->name);
        NoiseInput  input = { .name = name,
                              .one = out_shape(node, 0),
                              .times = out_type(node, 0) == I32 };
        input.axis = axis_grown(input.one, out_shape(feed_find(twice, name), 0));
        VEC_ADD(pool, out->list, out->n, out->cap, input);
    }
    out->names = NEWN(pool, const char *, out->n + 1);
    for (int32_t i = 0; i < out->n; i++)
        out->names[i] = out->list[i].name;
    pool_free(work);
    return OK;
}

bool noise_has_times(const NoiseInputs *inputs)
{
    for (int32_t i = 0; i < inputs->n; i++)
        if (inputs->list[i].times)
            return true;
    return false;
}

void noise_fill(const NoiseInputs *inputs, const char *name, int64_t first, int64_t batch, void *to)
{
    const NoiseInput *input = NULL;
    for (int32_t i = 0; i < inputs->n; i++)
        if (!strcmp(inputs->list[i].name, name))
            input = &inputs->list[i];
    if (!input || input->times)
        return;
    RandomKey key = { .seed = inputs->seed, .stream = random_stream(name) };
    int64_t   count = shape_count(input->one), inner = 1; /* numbers that lie together */
    if (input->axis == input->one.rank) {                 /* the same for all samples */
        random_normals(key, 0, count, to);
        return;
    }
    for (int a = input->axis; a < input->one.rank; a++)
        inner *= input->one.dim[a];
    for (int64_t row = 0; row < batch; row++)
        for (int64_t at = 0; at < count; at += inner)
            random_normals(key, (uint64_t)((first + row) * count + at), inner,
                           (float *)to + at * batch + row * inner);
}
