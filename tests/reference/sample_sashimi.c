/* sample_sashimi.c -- SaShiMi's generation against PyTorch in fp64, step by step, from the same
 * noise.
 *
 *   sample_sashimi CASE_FOLDER        (tests/ref/case.py makes it)
 *
 * First with the reference's tokens fed back: the head's output of every step, and the token picked
 * from it. Then on its own. A token may differ where x lies on a bin's edge, within rounding. */
#include "sampler.h"

#include "models/sashimi.h"

#include <stdlib.h>

typedef struct Judge {
    SampleCase    c;
    const Sashimi *m;
    const float  *gumbel, *uniform, *heads;  /* (n,B,choices), (n,B), (B,n,outputs) */
    const int64_t *tokens;                   /* (B,n) */
    int64_t       n;
} Judge;

static const void *tensor(Judge *j, const char *name, SafeType type, int64_t count)
{
    const SafeTensor *t = safetensors_find(&j->c.file, name);
    int64_t           n = 1;
    for (int a = 0; t && a < t->rank; a++)
        n *= t->shape[a];
    if (!t || t->type != type || n != count) {
        fprintf(stderr, "the case has no %s of %lld numbers\n", name, (long long)count);
        exit(1);
    }
    return t->data;
}

static const float *judge_weight(Sampler *s, const char *name)
{
    static float *last;                      /* good only until the next call, as the form allows */
    Judge *j = s->own;
    Graph *graph = session_engine(j->c.session)->graph;
    Param *p = param_find(graph, name);
    if (!p)
        return NULL;
    free(last);
    last = calloc((size_t)shape_count(p->disk), sizeof *last);
    session_get_param(j->c.session, (int32_t)(p - graph->params), p->value, last);
    return last;
}

/* As a number in (0,1) whose -log(-log) is the file's. */
static void judge_uniform(Sampler *s, const char *name, int64_t index, float *to, int64_t n)
{
    Judge *j = s->own;
    bool   gumbel = !strcmp(name, "gumbel");
    CHECK(gumbel || !strcmp(name, "uniform"));
    CHECK_INT(n, j->c.recipe->batch * (gumbel ? sashimi_choices(j->m) : 1));
    for (int64_t i = 0; i < n; i++)
        to[i] = gumbel ? (float)exp(-exp(-(double)j->gumbel[index * n + i]))
                       : j->uniform[index * n + i];
}

static void judge_progress(Sampler *s, int64_t done, int64_t of)
{
    Judge *j = s->own;
    CHECK(done > j->c.done && done <= of);
    j->c.done = done;
}

static void forced(Judge *j, Sampler *s)
{
    int64_t batch = j->c.recipe->batch, outputs = sashimi_outputs(j->m),
            choices = sashimi_choices(j->m), same = 0;
    double  worst = 0;
    SashimiNet *net;
    float  *out = NEWN(j->c.pool, float, outputs), *choice = NEWN(j->c.pool, float, choices);
    CHECK_OK(sashimi_net_new(j->c.pool, j->m, s, &net));
    for (int64_t b = 0; b < batch; b++) {
        SashimiState *state = sashimi_state_new(j->c.pool, net);
        int64_t       token = sashimi_levels(j->m) / 2;
        for (int64_t t = 0; t < j->n; t++) {
            const float *want = j->heads + (b * j->n + t) * outputs;
            double       apart = 0, size = 0;
            sashimi_step(net, state, token, out);
            for (int64_t i = 0; i < outputs; i++) {
                apart += pow((double)out[i] - (double)want[i], 2);
                size += pow((double)want[i], 2);
            }
            worst = fmax(worst, sqrt(apart / size));
            for (int64_t i = 0; i < choices; i++)
                choice[i] = (float)exp(-exp(-(double)j->gumbel[(t * batch + b) * choices + i]));
            token = j->tokens[b * j->n + t];
            same += sashimi_pick(j->m, j->c.recipe->sampler.temperature, out, choice,
                                 (double)j->uniform[t * batch + b]) == token;
        }
    }
    printf("%lld steps: outputs are off by %.3g at most, %lld of %lld tokens are the same\n",
           (long long)j->n, worst, (long long)same, (long long)(batch * j->n));
    CHECK_NEAR(worst, 0, 1e-5);
    CHECK(same >= batch * j->n * 39 / 40);
}

static void alone(Judge *j, Sampler *s)
{
    int64_t batch = j->c.recipe->batch, levels = sashimi_levels(j->m), same = 0;
    SampleResult r;
    CHECK_OK(j->c.recipe->model->sample(s, j->m, &r));
    CHECK_INT(r.kind, RESULT_AUDIO);
    CHECK_TEXT(shape_text(r.shape), shape_text(SHAPE(batch, j->n, 1)));
    CHECK_INT(j->c.done, j->n);
    for (int64_t i = 0; i < batch * j->n; i++)
        same += llround(((double)r.data[i] + 1) * (double)levels / 2) == j->tokens[i];
    printf("alone: %lld of %lld tokens are the same\n", (long long)same, (long long)(batch * j->n));
    CHECK_INT(same, batch * j->n);
}

static void judge(SampleCase *c)
{
    Judge  *j = (Judge *)c;
    int64_t batch = c->recipe->batch;
    j->m = c->recipe->config;
    j->n = c->recipe->sampler.length;
    j->gumbel = tensor(j, "noise.gumbel", SAFE_F32, j->n * batch * sashimi_choices(j->m));
    j->uniform = tensor(j, "noise.uniform", SAFE_F32, j->n * batch);
    j->heads = tensor(j, "out.heads", SAFE_F32, batch * j->n * sashimi_outputs(j->m));
    j->tokens = tensor(j, "out.tokens", SAFE_I64, batch * j->n);
    Sampler s = { .pool = c->pool,
                  .n = batch,
                  .config = &c->recipe->sampler,
                  .own = j,
                  .weight = judge_weight,
                  .uniform = judge_uniform,
                  .progress = judge_progress };
    forced(j, &s);
    alone(j, &s);
}

int main(int argc, char **argv)
{
    Judge j = { 0 };
    return case_judge(argc, argv, &j.c, false, judge);
}
