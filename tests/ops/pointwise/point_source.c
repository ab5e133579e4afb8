/* point_source.c -- the CUDA source of every case's programs, forward and backward, compiles; the
 * code is found again in the cache; a missing compiler is one sentence. */
#include "ops/pointwise/cases_pointwise.c"

#include "test.h"

#include "autodiff/autodiff.h"
#include "ops/elementwise/basic.h"
#include "ops/ops.h"
#include "ops/pointwise/point_source.h"
#include "ops/reduce/reduce.h"

#include <glob.h>
#include <stdlib.h>

struct Case { /* only what building takes */
    Pool  *pool;
    Graph *graph;
    Tensor loss;
};

Graph *case_graph(Case *c) { return c->graph; }

Tensor case_in(Case *c, const char *name, Shape shape, float low, float high)
{
    (void)low, (void)high;
    return param_add(c->graph, name, shape, (Init){ .kind = INIT_ZEROS });
}

Tensor case_ints(Case *c, const char *name, Shape shape, int low, int high)
{
    (void)low, (void)high;
    return constant_add(c->graph, name, I32, shape, NULL, CLASS_INPUTS);
}

Tensor case_bytes(Case *c, const char *name, Shape shape, int low, int high)
{
    (void)low, (void)high;
    return constant_add(c->graph, name, U8, shape, NULL, CLASS_INPUTS);
}

void case_out(Case *c, const char *name, Tensor y)
{
    (void)name;
    Tensor term = cast(sum_axes(y, 0, -1), F32);
    term = reshape(term, SHAPE(1));
    c->loss = tensor_ok(c->loss) ? add(c->loss, term) : term;
}

static int compiled, found;

static void compile_nodes(Pool *pool, const Graph *graph, const char *name, bool unaligned)
{
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        PointSource source;
        const void *code;
        size_t      n;
        bool        cached;
        if (graph->nodes[i].op != &op_pointwise)
            continue;
        for (int width = 8; width > 0; width -= unaligned ? 7 : 8) {
            point_source(pool, &graph->nodes[i], 132, width, &source);
            if (point_compile(pool, source.text, 90, &code, &n, &cached)) {
                fprintf(
                    stderr, "%s, node %d: %s\n%s\n", name, i, err_text(),
                    source.text +
                        (strstr(source.text, "template <int V> DEVICE void points")
                             ? strstr(source.text, "template <int V> DEVICE void poi") - source.text
                             : 0));
                CHECK(false);
                return;
            }
            CHECK(n > 4 && !memcmp(code, "\177ELF", 4));
            compiled++;
            found += cached;
        }
    }
}

static void every_case(void)
{
    for (const OpCase *oc = cases_pointwise; oc->name; oc++)
        for (Type type = F32; type <= F16; type++) {
            float one = 1;
            Case  c = { .pool = pool_new(NULL, "case") };
            c.graph = graph_new(c.pool, type);
            c.loss = tensor_none(c.graph);
            oc->build(&c);
            Tensor seed = constant_add(c.graph, "seed", F32, SHAPE(1), &one, CLASS_CONSTANTS);
            CHECK_OK(autodiff_backward(c.graph, c.loss, seed, NULL));
            compile_nodes(c.pool, c.graph, oc->name,
                          type == F32 && (oc - cases_pointwise) % 8 == 0);
            pool_free(c.pool);
            if ((oc - cases_pointwise) % 8) /* types differ in loads and stores alone */
                break;
        }
}

static void kept_in_the_cache(void)
{
    int before = compiled;
    found = 0;
    every_case();
    CHECK_INT(found, compiled - before);
}

/* The compiler that scripts/setup_cuda.sh fetches, if none is named. */
static void find_compiler(void)
{
    glob_t found = { 0 };
    if (!glob(SOURCE_DIR "/.venv-cuda/lib/python*/site-packages/nvidia/*/lib/libnvrtc.so.13", 0,
              NULL, &found))
        setenv("PLIMSOLL_NVRTC", found.gl_pathv[0], 0);
    globfree(&found);
}

int main(void)
{
    find_compiler();
    if (!point_compiler()) {
        SKIP(
            "libnvrtc is not here; add its folder to LD_LIBRARY_PATH or name it in PLIMSOLL_NVRTC");
        return test_end();
    }
    char folder[] = "/tmp/plimsoll-kernels-XXXXXX", command[128];
    CHECK(mkdtemp(folder) != NULL);
    setenv("XDG_CACHE_HOME", folder, 1);
    RUN(every_case);
    RUN(kept_in_the_cache);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    CHECK_INT(system(command), 0);
    printf("%d kernels\n", compiled);
    return test_end();
}
