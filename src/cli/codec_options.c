/* codec_options.c -- the JSON of `compress` and `decompress`. */
#include "cli/codec_options.h"

#include "base/json_out.h"

Err codec_json(const Recipe *recipe, const CodecReport *r)
{
    JsonOut o;
    json_out_stream(&o, stdout, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_string(&o, "model", recipe->name);
    json_out_int(&o, "step", r->step);
    json_out_bool(&o, "ema", r->averaged);
    json_out_int(&o, "samples", r->samples);
    json_out_int(&o, "channels", r->channels);
    json_out_int(&o, "rate", r->rate);
    json_out_int(&o, "bits", r->bits);
    json_out_int(&o, "blocks", r->blocks);
    json_out_int(&o, "wav_bytes", r->wav_bytes);
    json_out_int(&o, "file_bytes", r->file_bytes);
    json_out_int(&o, "payload_bytes", r->payload_bytes);
    if (r->nll_bits > 0) /* compression */
        json_out_number(&o, "nll_bits", r->nll_bits);
    json_out_int(&o, "planned_bytes", r->planned_bytes);
    json_out_number(&o, "seconds", r->seconds);
    json_out_end(&o);
    return json_out_done(&o);
}
