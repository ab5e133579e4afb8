/* graph.c -- fuzz target: graph.json. What is accepted can be planned: everything kept passes the
 * checker, and a plan within half of its bytes passes it or is refused. The input is used as a file, and as
 * changes to a good one. */
#include "plan/plan.h"

#include <string.h>

static const char good[] =
    "{\"format\": \"plimsoll-graph-1\", \"align\": 16, \"base_peak_bytes\": 400,\n"
    " \"bandwidth\": {\"to_host\": 2, \"to_device\": 3},\n"
    " \"finals\": [\"g\"], \"values\": [\n"
    "  {\"id\": \"w\", \"bytes\": 64, \"persistent\": true}, {\"id\": \"m\", \"bytes\": 8, "
    "\"host_resident\": true},\n"
    "  {\"id\": \"a\", \"bytes\": 100}, {\"id\": \"v\", \"bytes\": 0, \"view_of\": \"a\"},\n"
    "  {\"id\": 7, \"bytes\": 50}, {\"id\": \"g\", \"bytes\": 64}], \"nodes\": [\n"
    "  {\"id\": \"n0\", \"cost\": 3, \"inputs\": [\"w\"], \"outputs\": [\"a\"]},\n"
    "  {\"id\": \"n1\", \"cost\": 0.5, \"inputs\": [\"a\"], \"outputs\": [\"v\"]},\n"
    "  {\"id\": \"n2\", \"cost\": 9, \"inputs\": [\"v\", \"w\"], \"outputs\": [7], \"workspace\": "
    "30},\n"
    "  {\"id\": \"n3\", \"cost\": 2, \"inputs\": [7, \"a\"], \"outputs\": [\"g\"], \"inplace\": "
    "[[\"g\", \"a\"]]},\n"
    "  {\"id\": 5, \"cost\": 1, \"inputs\": [\"g\", \"m\"], \"outputs\": [\"w\", \"m\"], \"once\": "
    "true}]}\n";

enum { FUZZ_NODES = 16, FUZZ_EFFORT = 200 };

static void plan_it(Pool *pool, const PGraph *graph)
{
    Plan       *kept, *plan;
    PlanOptions how = { .effort = FUZZ_EFFORT };
    if (graph->n_nodes > FUZZ_NODES || plan_keep_all(pool, graph, &kept))
        return;
    REQUIRE(plan_check(graph, kept, 0) == OK);
    how.budget_bytes = kept->live_bytes / 2 + 1;
    Err err = plan_solve(pool, graph, &how, &plan);
    if (!err)
        REQUIRE(plan_check(graph, plan, how.budget_bytes) == OK);
}

static void try_text(const char *text, size_t n)
{
    Pool   *pool = pool_new(NULL, "fuzz");
    PGraph *graph;
    if (pgraph_parse(pool, "fuzz", text, n, &graph) == OK)
        plan_it(pool, graph);
    pool_free(pool);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    char copy[sizeof good];
    try_text((const char *)bytes, n);
    memcpy(copy, good, sizeof good);
    for (; n >= 3; n -= 3, bytes += 3) /* two bytes of index, one of value */
        copy[((size_t)bytes[0] << 8 | bytes[1]) % (sizeof good - 1)] = (char)bytes[2];
    try_text(copy, sizeof good - 1);
    return 0;
}
