/* dit3d.c -- settings that DiT3D refuses, and with which words; the shapes it builds. */
#include "../test.h"

#include "models/dit3d.h"

static const ModelDef *dit3d(void) { return model_find("dit3d"); }

static Dit3d defaults(Dit3dReading reading)
{
    Dit3d m = *(const Dit3d *)dit3d()->defaults;
    m.reading = (int)reading;
    if (reading == DIT3D_FRAMES)
        m.patch = (Ints){ { 4 }, 1 };
    return m;
}

static void refuses(const Dit3d *m, const char *word)
{
    CHECK_INT(dit3d()->check(m), E_USAGE);
    if (!CHECK(strstr(err_text(), word) != NULL))
        fprintf(stderr, "  said: %s\n", err_text());
}

static const char *output_shape(const Graph *graph, int i)
{
    return shape_text(value_at(graph, graph->outputs[i].value)->shape);
}

static void settings(void)
{
    Dit3d m = defaults(DIT3D_PATCHES);
    CHECK_OK(dit3d()->check(&m));
    m.heads = 3;
    refuses(&m, "model.heads");
    m = defaults(DIT3D_PATCHES);
    m.patch = (Ints){ { 4 }, 1 };
    refuses(&m, "three");
    m.patch = (Ints){ { 3, 16, 16 }, 3 };
    refuses(&m, "a number of frames of 16");
    m.patch = (Ints){ { 4, 16, 24 }, 3 };
    refuses(&m, "a width of 64 does not divide by 24");
    m = defaults(DIT3D_PATCHES);
    m.image.n = 1;
    refuses(&m, "height and width");
    m = defaults(DIT3D_PATCHES);
    m.width = 24;
    refuses(&m, "multiple of 16");

    m = defaults(DIT3D_FRAMES);
    CHECK_OK(dit3d()->check(&m));
    m.patch = (Ints){ { 4, 16, 16 }, 3 };
    refuses(&m, "takes one");
    m.patch = (Ints){ { 5 }, 1 };
    refuses(&m, "64 does not divide by 5");
    m = defaults(DIT3D_FRAMES);
    m.width = 12;                            /* four heads fit, eight in time do not */
    refuses(&m, "temporal_heads");
}

/* Sides that differ, an odd number of channels; sampling after training, with the same weights. */
static void odd_sizes(void)
{
    for (int reading = 0; reading < 2; reading++)
        for (int sigma = 0; sigma < 2; sigma++) {
            Pool *pool = pool_new(NULL, "test");
            Dit3d m = defaults((Dit3dReading)reading);
            m.frames = 3;
            m.image = (Ints){ { 12, 20 }, 2 };
            m.image_channels = 5;
            m.width = 16;
            m.heads = 2;
            m.depth = 1;
            m.learn_sigma = sigma;
            m.patch = reading ? (Ints){ { 64 }, 1 } : (Ints){ { 1, 3, 4 }, 3 };
            CHECK_OK(dit3d()->check(&m));
            Graph *graph = graph_new(pool, BF16);
            graph->given_noise = true;
            Tensor loss = dit3d()->loss(graph, &m, 2, 1);
            CHECK_OK(graph_check(graph));
            CHECK_TEXT(shape_text(tensor_shape(loss)), "(1)");
            CHECK_INT(graph->n_outputs, 1);
            CHECK_TEXT(output_shape(graph, 0), sigma ? "(2,3,12,20,10)" : "(2,3,12,20,5)");
            int32_t n_params = graph->n_params;
            dit3d()->sample_graph(graph, &m, &(SamplerConfig){ .guidance = 2 }, 7);
            CHECK_OK(graph_check(graph));
            CHECK_INT(graph->n_params, n_params);        /* the same weights */
            CHECK_INT(graph->part, PART_MICRO);
            CHECK_INT(graph->n_outputs, 2);
            CHECK_TEXT(output_shape(graph, 1), "(7,3,12,20,5)");
            pool_free(pool);
        }
}

int main(void)
{
    RUN(settings);
    RUN(odd_sizes);
    return test_end();
}
