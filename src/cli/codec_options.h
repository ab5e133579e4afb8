/* codec_options.h -- what `compress` and `decompress` share: the report. */
#ifndef CLI_CODEC_OPTIONS_H
#define CLI_CODEC_OPTIONS_H

#include "codec/codec.h"

Err codec_json(const Recipe *recipe, const CodecReport *r);

#endif
