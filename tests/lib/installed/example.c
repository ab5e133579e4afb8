/* example.c -- plans a training step of eight layers in less memory than it needs with everything
 * kept.
 *
 *   cc example.c $(pkg-config --cflags --libs plimsoll)
 */
#include <plimsoll.h>

#include <inttypes.h>
#include <stdio.h>

enum { LAYERS = 8, MIB = 1 << 20 };

/* Each layer produces an activation of 64 MiB, which its gradient reads in the backward pass. */
static plimsoll_graph *training_step(void)
{
    plimsoll_graph *graph = plimsoll_graph_new();
    int32_t         weights = plimsoll_value(graph, 32 * MIB, PLIMSOLL_PERSISTENT);
    int32_t         x[LAYERS + 1], gradient;
    x[0] = plimsoll_value(graph, 64 * MIB, PLIMSOLL_PERSISTENT);
    for (int i = 0; i < LAYERS; i++) {
        int32_t in[] = { weights, x[i] };
        x[i + 1] = plimsoll_value(graph, 64 * MIB, 0);
        plimsoll_node(graph, 5.0, 0, in, 2, &x[i + 1], 1);
    }
    gradient = x[LAYERS];
    for (int i = LAYERS - 1; i >= 0; i--) {
        int32_t in[] = { weights, x[i], gradient }, out = plimsoll_value(graph, 64 * MIB, 0);
        plimsoll_node(graph, 10.0, 4 * MIB, in, 3, &out, 1); /* with 4 MiB of workspace */
        gradient = out;
    }
    int32_t in[] = { weights, gradient };
    plimsoll_node(graph, 1.0, 0, in, 2, &weights, 1); /* an update: runs once */
    return graph;
}

int main(void)
{
    plimsoll_graph       *graph = training_step();
    plimsoll_plan_options options = { 0 };
    plimsoll_plan        *plan;
    plimsoll_error        error;
    options.budget_bytes = INT64_C(400) * MIB;
    options.effort = 20000;
    options.place = true;

    plimsoll_status status = plimsoll_find_plan(graph, &options, &plan, &error);
    if (status != PLIMSOLL_OK)
        fprintf(stderr, "%s\n", error.text); /* 3: it names the minimum */
    if (!plan)
        return 1;
    int runs = 0;
    for (size_t i = 0; i < plan->n_steps; i++)
        runs += plan->steps[i].kind == PLIMSOLL_RUN;
    printf("%" PRId64 " MiB, %d runs of %" PRId32 " nodes, cost %g of %g\n",
           plan->arena_bytes / MIB, runs, plimsoll_nodes(graph), plan->cost, plan->base_cost);
    for (size_t i = 0; i < plan->n_live_ranges && i < 4; i++)
        printf("steps %" PRId32 " to %" PRId32 ": value %" PRId32 " at byte %" PRId64 "\n",
               plan->live_ranges[i].first_step, plan->live_ranges[i].last_step,
               plan->live_ranges[i].value, plan->live_ranges[i].offset);
    plimsoll_plan_free(plan);
    plimsoll_graph_free(graph);
    return (int)status;
}
