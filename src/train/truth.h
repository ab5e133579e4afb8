/* truth.h -- results beside what the data hold: the truth as images, and how far off results are. */
#ifndef TRAIN_TRUTH_H
#define TRAIN_TRUTH_H

#include "train/feeds.h"
#include "train/results.h"

/* Writes truth.png and error.png, and with FORMAT_NPY truth-000.npy, ...; notes the mean error.
 * truth: of the shape of the results. mask: which pixels of it count, or NULL: all. folder NULL: does
 * everything but write. */
Err truth_write(Pool *pool, const char *folder, const SampleResult *result, const FeedBuffer *truth,
                const FeedBuffer *mask, const ResultForm *form, SampleReport *report);

/* Writes samples of the data as results are written: data.png, and data-000.wav, ... of audio. */
Err beside_write(Pool *pool, const char *folder, const SampleResult *held, const ResultForm *form,
                 SampleReport *report);

#endif
