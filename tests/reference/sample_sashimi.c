/* sample_sashimi.c -- compares SaShiMi's generation with PyTorch in fp64, step by step, from the
 * same noise.
 *
 *   sample_sashimi CASE_FOLDER        (tests/ref/case.py makes it)
 *
 * First feeds the reference's tokens back and compares the output of every step and the token
 * picked from it; a token may differ if x is on the edge of a bin, within rounding. Then feeds its
 * own tokens back, also when only the likeliest levels may be picked. */
#include "sampler.h"

#include "models/sashimi.h"

#include <stdlib.h>

typedef struct SashimiTest {
    SampleCase     c;
    const Sashimi *m;
    const float   *gumbel, *uniform, *heads; /* (n,B,choices), (n,B), (B,n,outputs) */
    const int64_t *tokens, *likely;          /* (B,n) */
    int64_t        n;
} SashimiTest;

static const void *tensor(SashimiTest *test, const char *name, SafeType type, int64_t count)
{
    const SafeTensor *t = safetensors_find(&test->c.file, name);
    int64_t           n = 1;
    for (int a = 0; t && a < t->rank; a++)
        n *= t->shape[a];
    if (!t || t->type != type || n != count) {
        fprintf(stderr, "the case has no %s of %lld numbers\n", name, (long long)count);
        exit(1);
    }
    return t->data;
}

static const float *weight_of(Sampler *s, const char *name)
{
    static float *last; /* valid only until the next call, as Sampler allows */
    SashimiTest  *test = s->own;
    Graph        *graph = session_engine(test->c.session)->graph;
    Param        *p = param_find(graph, name);
    if (!p)
        return NULL;
    free(last);
    last = calloc((size_t)shape_count(p->disk), sizeof *last);
    session_get_param(test->c.session, (int32_t)(p - graph->params), p->value, last);
    return last;
}

/* Converts the file's Gumbel numbers to numbers in (0,1) whose -log(-log) they are. */
static void uniform_from_file(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    SashimiTest *test = s->own;
    bool         gumbel = !strcmp(name, "gumbel");
    CHECK(gumbel || !strcmp(name, "uniform"));
    CHECK_INT(n, test->c.recipe->batch * (gumbel ? sashimi_choices(test->m) : 1));
    for (int64_t i = 0; i < n; i++)
        to[i] = gumbel ? (float)exp(-exp(-(double)test->gumbel[index * n + i]))
                       : test->uniform[index * n + i];
}

static void progress_grows(Sampler *s, int64_t done, int64_t of)
{
    SashimiTest *test = s->own;
    CHECK(done > test->c.done && done <= of);
    test->c.done = done;
}

static void forced(SashimiTest *test, Sampler *s)
{
    int64_t batch = test->c.recipe->batch, outputs = sashimi_outputs(test->m),
            choices = sashimi_choices(test->m), same = 0;
    double      worst = 0;
    SashimiNet *net;
    float *out = NEWN(test->c.pool, float, outputs), *choice = NEWN(test->c.pool, float, choices);
    CHECK_OK(sashimi_net_new(test->c.pool, test->m, s, &net));
    for (int64_t b = 0; b < batch; b++) {
        SashimiState *state = sashimi_state_new(test->c.pool, net);
        int64_t       token = sashimi_levels(test->m) / 2;
        for (int64_t t = 0; t < test->n; t++) {
            const float *want = test->heads + (b * test->n + t) * outputs;
            double       apart = 0, size = 0;
            sashimi_step(net, state, token, out);
            for (int64_t i = 0; i < outputs; i++) {
                apart += pow((double)out[i] - (double)want[i], 2);
                size += pow((double)want[i], 2);
            }
            worst = fmax(worst, sqrt(apart / size));
            for (int64_t i = 0; i < choices; i++)
                choice[i] = (float)exp(-exp(-(double)test->gumbel[(t * batch + b) * choices + i]));
            token = test->tokens[b * test->n + t];
            same += sashimi_pick(test->m, test->c.recipe->sampler.temperature, out, choice,
                                 (double)test->uniform[t * batch + b]) == token;
        }
    }
    printf("%lld steps: outputs are off by %.3g at most, %lld of %lld tokens are the same\n",
           (long long)test->n, worst, (long long)same, (long long)(batch * test->n));
    CHECK_NEAR(worst, 0, 1e-5);
    CHECK(same >= batch * test->n * 39 / 40);
}

static void alone(SashimiTest *test, Sampler *s, const int64_t *tokens, const char *name)
{
    int64_t      batch = test->c.recipe->batch, levels = sashimi_levels(test->m), same = 0;
    SampleResult r;
    test->c.done = 0;
    CHECK_OK(test->c.recipe->model->sample(s, test->m, &r));
    CHECK_INT(r.kind, RESULT_AUDIO);
    CHECK_TEXT(shape_text(r.shape), shape_text(SHAPE(batch, test->n, 1)));
    CHECK_INT(test->c.done, test->n);
    for (int64_t i = 0; i < batch * test->n; i++)
        same += llround(((double)r.data[i] + 1) * (double)levels / 2) == tokens[i];
    printf("%s: %lld of %lld tokens are the same\n", name, (long long)same,
           (long long)(batch * test->n));
    CHECK_INT(same, batch * test->n);
}

static void compare_case(SampleCase *c)
{
    SashimiTest *test = (SashimiTest *)c;
    int64_t      batch = c->recipe->batch;
    test->m = c->recipe->config;
    test->n = c->recipe->sampler.length;
    test->gumbel = tensor(test, "noise.gumbel", SAFE_F32,
                          test->n * batch * sashimi_choices(test->m));
    test->uniform = tensor(test, "noise.uniform", SAFE_F32, test->n * batch);
    test->heads = tensor(test, "out.heads", SAFE_F32, batch * test->n * sashimi_outputs(test->m));
    test->tokens = tensor(test, "out.tokens", SAFE_I64, batch * test->n);
    test->likely = tensor(test, "out.likely", SAFE_I64, batch * test->n);
    SamplerConfig likely = c->recipe->sampler;
    likely.temperature = 0.8;
    likely.top_p = 0.7;
    Sampler s = { .pool = c->pool,
                  .n = batch,
                  .config = &c->recipe->sampler,
                  .own = test,
                  .weight = weight_of,
                  .uniform = uniform_from_file,
                  .progress = progress_grows };
    forced(test, &s);
    alone(test, &s, test->tokens, "alone");
    s.config = &likely;
    alone(test, &s, test->likely, "the likeliest");
}

int main(int argc, char **argv)
{
    SashimiTest test = { 0 };
    return case_main(argc, argv, &test.c, false, compare_case);
}
