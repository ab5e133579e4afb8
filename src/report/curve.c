/* curve.c -- points of the curve of budget against time. */
#include "report/curve.h"

#include "base/text.h"

void chunks_json(JsonOut *o, const Levers *levers)
{
    json_out_int(o, "sample_chunks", levers->sample_chunks > 1 ? levers->sample_chunks : 1);
    json_out_int(o, "loss_chunks", levers->loss_chunks > 1 ? levers->loss_chunks : 1);
    json_out_string(o, "attention", levers->stored_attention ? "stored" : "streamed");
}

void curve_json(JsonOut *o, const FitPoint *points, int n, double base_ns, double pace)
{
    json_out_array(o, "curve");
    for (int i = 0; i < n; i++) {
        const FitPoint *p = &points[i];
        json_out_object_row(o, NULL);
        json_out_int(o, "peak_bytes", p->peak_bytes);
        json_out_number(o, "step_ms", p->step_ns * pace * 1e-6);
        json_out_number(o, "slowdown", p->step_ns / base_ns);
        json_out_int(o, "micro_batch", p->batch);
        json_out_int(o, "accumulate", p->accumulate);
        json_out_string(o, "precision", recipe_precisions[p->precision]);
        chunks_json(o, &p->levers);
        json_out_bool(o, "release", p->levers.release);
        json_out_int(o, "recompute_nodes", p->recomputed);
        json_out_int(o, "transfers", p->offloaded);
        json_out_end(o);
    }
    json_out_end(o);
}

const char *point_text(Pool *pool, const Recipe *recipe, const FitPoint *p)
{
    Text          text = { .pool = pool };
    const Levers *is = &p->levers, *asked = &recipe->levers;
    if (p->precision != recipe->precision)
        text_add(&text, "  %s", recipe_precisions[p->precision]);
    if (is->release && !asked->release)
        text_add(&text, "  gradients released");
    if (is->sample_chunks > 1)
        text_add(&text, "  %lld sample chunks", (long long)is->sample_chunks);
    if (is->loss_chunks > 1)
        text_add(&text, "  %lld loss chunks", (long long)is->loss_chunks);
    if (is->stored_attention != asked->stored_attention)
        text_add(&text, "  attention %s", is->stored_attention ? "stored" : "streamed");
    if (is->max_workspace && !asked->max_workspace)
        text_add(&text, "  lean algorithms");
    if (p->offloaded)
        text_add(&text, "  %d host transfers", p->offloaded);
    if (is->host > asked->host)
        text_add(&text, is->host == HOST_EMA ? "  EMA on the host" : "  state on the host");
    return text.n ? text.at : "";
}
