/* codec.h -- lossless compression of audio by a SaShiMi run: its recurrent form predicts each sample
 * from those before it, and an arithmetic coder spends -log2 of the predicted probability on it.
 *
 * Both directions must predict the same bits: the same weights, ISA and threads, which the file
 * names. Blocks of steps start without a state, so that they run on several threads at once. */
#ifndef CODEC_CODEC_H
#define CODEC_CODEC_H

#include "codec/coded_audio.h"
#include "recipe/recipe.h"
#include "train/checkpoint.h"

typedef struct CodecOptions {
    const char *run, *in, *out;
    int64_t     checkpoint;  /* step; -1: the newest; decompression: the file's */
    int64_t     block_steps; /* 0: an equal share for each thread, at least BLOCK_SHARE lengths */
    int64_t     budget_bytes;
    WeightsKind weights; /* of compression */
    bool        quiet;
} CodecOptions;

typedef struct CodecReport {
    int64_t step;
    bool    averaged;
    int64_t samples, channels, rate, bits, blocks; /* samples: of all channels */
    int64_t wav_bytes, file_bytes, payload_bytes;
    double  nll_bits; /* -log2 of the model's probability of all samples; compression only */
    double  seconds;  /* in step mode */
    int64_t planned_bytes;
} CodecReport;

/* The file's header, to open the device for its threads. */
Err codec_look(Pool *pool, const char *path, CodedAudio *a);

Err codec_compress(Pool *pool, const Recipe *recipe, const Device *device, const CodecOptions *o,
                   CodecReport *report);
Err codec_decompress(Pool *pool, const Recipe *recipe, const Device *device, const CodecOptions *o,
                     CodecReport *report);

/* What compression asks of a recipe (E_USAGE), apart from any file. */
Err codec_suits(const Recipe *recipe);

#endif
