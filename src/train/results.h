/* results.h -- what was sampled, as files: a sheet of all results, and each by itself.
 *
 *   images  samples.png, sample-000.png, ...   (H,W,C)
 *   clips   clips.png, clip-000.png, ...       (F,H,W,C); as an image, a strip of frames
 *   audio   audio.png, audio-000.wav, ...      (L,channels); the sheet has waveforms and spectrograms
 *
 * The sheet is always an image; single results are what `formats` says. Arrays (.npy) hold fp32
 * numbers: in [-1,1], or metres where the data are range images. */
#ifndef TRAIN_RESULTS_H
#define TRAIN_RESULTS_H

#include "train/sample.h"

typedef enum ResultFormat {
    FORMAT_PNG = 1,
    FORMAT_GIF = 2,
    FORMAT_NPY = 4,
    FORMAT_MP4 = 8,
    FORMAT_WEBM = 16,
    FORMAT_WAV = 32
} ResultFormat;

typedef struct ResultForm {
    int    formats;   /* ResultFormat, or-ed; 0: PNG, of audio WAV */
    double rate;      /* of clips: frames a second */
    double low, high; /* metres that are -1 and 1; both 0: numbers in [-1,1] */
} ResultForm;

enum { CLIP_RATE = 8 };   /* frames a second, where the data do not say */
enum { TRUTH_WHITE = 4 }; /* images of errors are white at this part of the range */

/* Reads a list, such as "gif,npy". E_USAGE for a word that results of this kind are not written as. */
Err formats_read(const char *list, ResultKind kind, const char *system, int *formats);

/* folder (below: path) NULL: does everything except writing images and WAV files. */
Err results_write(Pool *pool, const char *folder, const SampleResult *result,
                  const ResultForm *form, SampleReport *report);
/* Writes numbers in [-1,1] of shape (n,H,W,C) or (n,F,H,W,C) as one sheet; ignores other shapes. */
Err results_sheet(Pool *pool, const char *path, const float *data, Shape shape, bool *written);

/* Waveforms and spectrograms, one below the other. */
Err results_audio_image(Pool *pool, const char *path, const SampleResult *result);

#endif
