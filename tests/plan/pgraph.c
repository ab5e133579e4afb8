/* pgraph.c -- graph.json and plan.json: write and read back, and every kind of mistake in a
 * file. */
#include "test.h"

#include "base/file.h"
#include "plan/make.h"

#include <stdio.h>
#include <unistd.h>

static const char *temp_path(Pool *pool, const char *name)
{
    return pool_print(pool, "plimsoll-test-%d-%s", (int)getpid(), name);
}

static void there_and_back(void)
{
    Pool       *pool = pool_new(NULL, "test");
    MakeBlocks  blocks;
    PGraph     *g = make_transformer(pool, 3, 1000, &blocks), *h;
    Plan       *plan, *read;
    const char *graph_path = temp_path(pool, "graph.json"),
               *plan_path = temp_path(pool, "plan.json");
    g->align = 64;
    g->base_peak_bytes = 12345;
    g->values[g->nodes[5].out[0]].final = true;
    CHECK_OK(pgraph_write(g, graph_path));
    CHECK_OK(pgraph_read(pool, graph_path, &h));
    CHECK_INT(h->n_nodes, g->n_nodes);
    CHECK_INT(h->n_values, g->n_values);
    CHECK_INT(h->align, 64);
    CHECK_INT(h->base_peak_bytes, 12345);
    for (int32_t v = 0; v < g->n_values; v++) {
        CHECK_TEXT(h->values[v].name, g->values[v].name);
        CHECK_INT(h->values[v].bytes, g->values[v].bytes);
        CHECK_INT(h->values[v].producer, g->values[v].producer);
        CHECK_INT(h->values[v].persistent, g->values[v].persistent);
        CHECK_INT(h->values[v].final, g->values[v].final);
    }
    for (int32_t n = 0; n < g->n_nodes; n++) {
        CHECK_NEAR(h->nodes[n].cost, g->nodes[n].cost, 0);
        CHECK_INT(h->nodes[n].once, g->nodes[n].once);
        CHECK_INT(h->nodes[n].n_in, g->nodes[n].n_in);
        CHECK_INT(h->nodes[n].out[0], g->nodes[n].out[0]);
    }
    CHECK_OK(plan_keep_all(pool, g, &plan));
    CHECK_OK(plan_write(plan_path, g, plan));
    CHECK_OK(plan_read(pool, plan_path, h, &read));
    CHECK_INT(read->n_steps, plan->n_steps);
    CHECK(!memcmp(read->steps, plan->steps, sizeof(Step) * (size_t)plan->n_steps));
    CHECK_INT(read->live_bytes, plan->live_bytes);
    CHECK_NEAR(read->cost, plan->cost, 0);
    CHECK_OK(plan_check(h, read, 0));

    PGraph *other = make_layered(pool, 3, 1); /* a plan for another graph */
    CHECK_INT(plan_read(pool, plan_path, other, &read), E_FORMAT);
    CHECK(strstr(err_text(), "another graph") != NULL);
    unlink(graph_path);
    unlink(plan_path);
    pool_free(pool);
}

#define HEAD "{\"format\": \"plimsoll-graph-1\", "

typedef struct Bad {
    const char *says, *text;
} Bad;

/* says NULL: the graph is good. */
static const Bad graphs[] = {
    { NULL, HEAD "\"values\": [], \"nodes\": []}" },
    { NULL, HEAD "\"surprise\": [1], \"values\": [{\"id\": 7, \"bytes\": 1e3, \"x\": 0}], "
                 "\"nodes\": "
                 "[{\"id\": \"n\", \"cost\": 0.5, \"outputs\": [7]}], \"finals\": [7]}" },
    { NULL, HEAD "\"values\": [{\"id\": \"r\", \"bytes\": 4}, {\"id\": \"v\", \"bytes\": 0, "
                 "\"view_of\": \"r\"}, "
                 "{\"id\": \"u\", \"bytes\": 0, \"view_of\": \"v\"}], \"nodes\": [{\"id\": \"a\", "
                 "\"cost\": 1, "
                 "\"outputs\": [\"r\"]}, {\"id\": \"b\", \"cost\": 1, \"inputs\": [\"r\"], "
                 "\"outputs\": [\"v\", \"u\"]}]}" },
    { "format", "{\"values\": [], \"nodes\": []}" },
    { "plimsoll-graph-1", "{\"format\": \"plimsoll-graph-9\", \"values\": [], \"nodes\": []}" },
    { "values", HEAD "\"nodes\": []}" },
    { "object", HEAD "\"values\": [3], \"nodes\": []}" },
    { "id", HEAD "\"values\": [{\"bytes\": 1}], \"nodes\": []}" },
    { "id", HEAD "\"values\": [{\"id\": [], \"bytes\": 1}], \"nodes\": []}" },
    { "bytes", HEAD "\"values\": [{\"id\": \"v\"}], \"nodes\": []}" },
    { "bytes", HEAD "\"values\": [{\"id\": \"v\", \"bytes\": -1, \"persistent\": true}], "
                    "\"nodes\": []}" },
    { "bytes", HEAD "\"values\": [{\"id\": \"v\", \"bytes\": \"x\"}], \"nodes\": []}" },
    { "two values", HEAD "\"values\": [{\"id\": \"v\", \"bytes\": 1}, {\"id\": \"v\", \"bytes\": "
                         "1}], \"nodes\": []}" },
    { "persistent", HEAD "\"values\": [{\"id\": \"v\", \"bytes\": 1}], \"nodes\": []}" },
    { "2^61", HEAD
      "\"values\": [{\"id\": \"v\", \"bytes\": 9223372036854775807, \"persistent\": true}, "
      "{\"id\": \"u\", \"bytes\": 9223372036854775807, \"persistent\": true}], \"nodes\": []}" },
    { "no value", HEAD "\"values\": [], \"nodes\": [{\"id\": \"n\", \"cost\": 1, \"inputs\": "
                       "[\"q\"]}]}" },
    { "two nodes", HEAD "\"values\": [], \"nodes\": [{\"id\": \"n\", \"cost\": 1}, {\"id\": \"n\", "
                        "\"cost\": 1}]}" },
    { "cost", HEAD "\"values\": [], \"nodes\": [{\"id\": \"n\", \"cost\": -1}]}" },
    { "cost", HEAD "\"values\": [], \"nodes\": [{\"id\": \"n\"}]}" },
    { "workspace", HEAD "\"values\": [], \"nodes\": [{\"id\": \"n\", \"cost\": 1, \"workspace\": "
                        "-5}]}" },
    { "before any node",
      HEAD "\"values\": [{\"id\": \"v\", \"bytes\": 1}], \"nodes\": [{\"id\": \"a\", \"cost\": 1, "
           "\"inputs\": [\"v\"]}, {\"id\": \"b\", \"cost\": 1, \"outputs\": [\"v\"]}]}" },
    { "twice", HEAD "\"values\": [{\"id\": \"v\", \"bytes\": 1}], \"nodes\": [{\"id\": \"a\", "
                    "\"cost\": 1, "
                    "\"outputs\": [\"v\", \"v\"]}]}" },
    { "view", HEAD "\"values\": [{\"id\": \"v\", \"bytes\": 0, \"persistent\": true, \"view_of\": "
                   "\"v\"}], \"nodes\": []}" },
    { "view", HEAD
      "\"values\": [{\"id\": \"a\", \"bytes\": 0, \"persistent\": true, \"view_of\": \"b\"}, "
      "{\"id\": \"b\", \"bytes\": 0, \"persistent\": true, \"view_of\": \"a\"}], \"nodes\": []}" },
    { "power of two", HEAD "\"align\": 3, \"values\": [], \"nodes\": []}" },
    { "inplace", HEAD "\"values\": [{\"id\": \"v\", \"bytes\": 1}], \"nodes\": [{\"id\": \"a\", "
                      "\"cost\": 1, "
                      "\"outputs\": [\"v\"], \"inplace\": [[\"v\"]]}]}" },
    { "more than", HEAD "\"values\": [{\"id\": \"v\", \"bytes\": 1}, {\"id\": \"u\", \"bytes\": "
                        "2}], \"nodes\": "
                        "[{\"id\": \"a\", \"cost\": 1, \"outputs\": [\"v\"]}, {\"id\": \"b\", "
                        "\"cost\": 1, \"inputs\": [\"v\"], "
                        "\"outputs\": [\"u\"], \"inplace\": [[\"u\", \"v\"]]}]}" },
    { "taken over", HEAD "\"values\": [{\"id\": \"v\", \"bytes\": 2}, {\"id\": \"u\", \"bytes\": "
                         "2}], \"nodes\": "
                         "[{\"id\": \"a\", \"cost\": 1, \"outputs\": [\"v\"]}, {\"id\": \"b\", "
                         "\"cost\": 1, \"inputs\": [\"v\"], "
                         "\"outputs\": [\"u\"], \"inplace\": [[\"u\", \"v\"]]}, {\"id\": \"c\", "
                         "\"cost\": 1, \"inputs\": [\"v\"]}]}" },
    /* u lies in the bytes of p and is read after p was written: one of the two would be lost */
    { "outputs p, whose bytes node a has taken over",
      HEAD "\"values\": [{\"id\": \"p\", \"bytes\": 2, \"persistent\": true}, {\"id\": \"u\", "
           "\"bytes\": 2}], \"nodes\": [{\"id\": \"a\", \"cost\": 1, \"inputs\": [\"p\"], "
           "\"outputs\": [\"u\"], \"inplace\": [[\"u\", \"p\"]]}, {\"id\": \"b\", \"cost\": 1, "
           "\"outputs\": [\"p\"]}, {\"id\": \"c\", \"cost\": 1, \"inputs\": [\"u\"]}]}" },
    /* a view of bytes that are gone, or are going */
    { "taken over", HEAD "\"values\": [{\"id\": \"v\", \"bytes\": 2}, {\"id\": \"u\", \"bytes\": "
                         "2}, {\"id\": \"w\", \"bytes\": 0, \"view_of\": \"v\"}], \"nodes\": "
                         "[{\"id\": \"a\", \"cost\": 1, \"outputs\": [\"v\"]}, {\"id\": \"b\", "
                         "\"cost\": 1, \"inputs\": [\"v\"], "
                         "\"outputs\": [\"u\"], \"inplace\": [[\"u\", \"v\"]]}, {\"id\": \"c\", "
                         "\"cost\": 1, \"inputs\": [\"u\"], \"outputs\": [\"w\"]}]}" },
    { "takes over", HEAD "\"values\": [{\"id\": \"v\", \"bytes\": 2}, {\"id\": \"u\", \"bytes\": "
                         "2}, {\"id\": \"w\", \"bytes\": 0, \"view_of\": \"v\"}], \"nodes\": "
                         "[{\"id\": \"a\", \"cost\": 1, \"outputs\": [\"v\"]}, {\"id\": \"b\", "
                         "\"cost\": 1, \"inputs\": [\"v\"], "
                         "\"outputs\": [\"u\", \"w\"], \"inplace\": [[\"u\", \"v\"]]}]}" },
    { "outputs v, whose bytes u takes over",
      HEAD "\"values\": [{\"id\": \"v\", \"bytes\": 2}, {\"id\": \"u\", \"bytes\": 2}], "
           "\"nodes\": [{\"id\": \"a\", \"cost\": 1, \"outputs\": [\"v\"]}, {\"id\": \"b\", "
           "\"cost\": 1, \"inputs\": [\"v\"], \"outputs\": [\"u\", \"v\"], \"inplace\": "
           "[[\"u\", \"v\"]]}]}" },
    { "final", HEAD "\"finals\": [\"v\"], \"values\": [{\"id\": \"v\", \"bytes\": 2}, {\"id\": "
                    "\"u\", \"bytes\": 2}], "
                    "\"nodes\": [{\"id\": \"a\", \"cost\": 1, \"outputs\": [\"v\"]}, {\"id\": "
                    "\"b\", \"cost\": 1, "
                    "\"inputs\": [\"v\"], \"outputs\": [\"u\"], \"inplace\": [[\"u\", \"v\"]]}]}" },
    { "further down",
      HEAD "\"values\": [{\"id\": \"v\", \"bytes\": 1}, {\"id\": \"u\", "
           "\"bytes\": 1}], \"nodes\": [{\"id\": \"a\", \"cost\": 1, \"inputs\": [\"u\"], "
           "\"outputs\": [\"v\"]}, {\"id\": \"b\", \"cost\": 1, \"inputs\": [\"v\"], "
           "\"outputs\": [\"u\"]}]}" },
    { "produces it itself",
      HEAD "\"values\": [{\"id\": \"v\", \"bytes\": 1}], \"nodes\": [{\"id\": "
           "\"a\", \"cost\": 1, \"inputs\": [\"v\"], \"outputs\": [\"v\"]}]}" },
    { "add up", HEAD "\"values\": [], \"nodes\": [{\"id\": \"a\", \"cost\": 1e308}, {\"id\": "
                     "\"b\", "
                     "\"cost\": 1e308}]}" },
    { "base_peak_bytes", HEAD "\"base_peak_bytes\": -7, \"values\": [], \"nodes\": []}" },
    { "align", HEAD "\"align\": 4611686018427387904, \"values\": [], \"nodes\": []}" },
    { "", "[1, 2" },
    { "", "" },
    { "object", "[]" },
    { "object", "\"a text\"" },
    { "object", "7" },
};

/* Ids that are numbers in the graph are numbers in the plan and in the graph written again. */
static void ids_keep_their_kind(void)
{
    static const char text[] = "{\"format\": \"plimsoll-graph-1\", \"finals\": [7], \"values\": "
                               "[{\"id\": 7, \"bytes\": 1}, "
                               "{\"id\": \"8\", \"bytes\": 2}], \"nodes\": [{\"id\": 3, \"cost\": "
                               "1, \"outputs\": [\"8\"]}, "
                               "{\"id\": \"n\", \"cost\": 1, \"inputs\": [\"8\"], \"outputs\": "
                               "[7]}]}";
    Pool             *pool = pool_new(NULL, "test");
    const char       *path = temp_path(pool, "ids.json");
    PGraph           *g;
    Plan             *plan, *again;
    char             *written;
    size_t            n;
    CHECK_OK(file_write(path, text, sizeof text - 1));
    CHECK_OK(pgraph_read(pool, path, &g));
    CHECK_OK(plan_keep_all(pool, g, &plan));
    CHECK_OK(plan_write(path, g, plan));
    CHECK_OK(file_read(pool, path, &written, &n));
    CHECK(strstr(written, "[\"run\", 3]") && strstr(written, "[\"run\", \"n\"]") &&
          strstr(written, "[\"drop\", \"8\"]"));
    CHECK_OK(plan_read(pool, path, g, &again));
    CHECK_INT(again->n_steps, plan->n_steps);
    CHECK_OK(pgraph_write(g, path));
    CHECK_OK(file_read(pool, path, &written, &n));
    CHECK(strstr(written, "\"id\": 7") && strstr(written, "\"id\": \"8\"") &&
          strstr(written, "\"id\": 3"));
    unlink(path);
    pool_free(pool);
}

static void bad_files_are_refused(void)
{
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        Pool       *pool = pool_new(NULL, "test");
        const char *path = temp_path(pool, "bad.json");
        PGraph     *g;
        CHECK_OK(file_write(path, graphs[i].text, strlen(graphs[i].text)));
        Err err = pgraph_read(pool, path, &g);
        if (!CHECK((err == OK) == (graphs[i].says == NULL)))
            fprintf(stderr, "  case %zu: %s\n", i, err ? err_text() : "accepted");
        if (err && graphs[i].says && !CHECK(strstr(err_text(), graphs[i].says) != NULL))
            fprintf(stderr, "  case %zu wanted \"%s\", said \"%s\"\n", i, graphs[i].says,
                    err_text());
        if (err && !CHECK(strstr(err_text(), path) != NULL))
            fprintf(stderr, "  case %zu names no file: \"%s\"\n", i, err_text());
        unlink(path);
        pool_free(pool);
    }
    Pool   *pool = pool_new(NULL, "test");
    PGraph *g;
    CHECK_INT(pgraph_read(pool, "no-such-file.json", &g), E_IO);
    pool_free(pool);
}

static void bad_plans_are_refused(void)
{
    static const Bad plans[] = {
        { NULL, "{\"format\": \"plimsoll-plan-1\", \"steps\": [[\"run\", \"n0\"], [\"drop\", "
                "\"v0\"]]}" },
        { "format", "{\"steps\": []}" },
        { "steps", "{\"format\": \"plimsoll-plan-1\"}" },
        { "no step", "{\"format\": \"plimsoll-plan-1\", \"steps\": [[\"walk\", \"n0\"]]}" },
        { "step must be", "{\"format\": \"plimsoll-plan-1\", \"steps\": [[\"run\"]]}" },
        { "another graph", "{\"format\": \"plimsoll-plan-1\", \"steps\": [[\"run\", \"v0\"]]}" },
        { "id", "{\"format\": \"plimsoll-plan-1\", \"steps\": [[\"run\", null]]}" },
        { "object", "true" },
    };
    Pool   *pool = pool_new(NULL, "test");
    PGraph *g = make_layered(pool, 3, 1);
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        const char *path = temp_path(pool, "badplan.json");
        Plan       *plan;
        CHECK_OK(file_write(path, plans[i].text, strlen(plans[i].text)));
        Err err = plan_read(pool, path, g, &plan);
        CHECK((err == OK) == (plans[i].says == NULL));
        if (err && plans[i].says && !CHECK(strstr(err_text(), plans[i].says) != NULL))
            fprintf(stderr, "  wanted \"%s\", said \"%s\"\n", plans[i].says, err_text());
        unlink(path);
    }
    pool_free(pool);
}

int main(void)
{
    RUN(there_and_back);
    RUN(ids_keep_their_kind);
    RUN(bad_files_are_refused);
    RUN(bad_plans_are_refused);
    return test_end();
}
