/* results_int.h -- between results.c and result_files.c. */
#ifndef TRAIN_RESULTS_INT_H
#define TRAIN_RESULTS_INT_H

#include "train/results.h"

/* A number in [-1,1] as a level of 255; NaN is 0. */
unsigned char result_level(float x);
/* A sheet of n cells (H,W,C), one image each; enlarge: small images are enlarged by whole factors. */
Err     sheet_write(Pool *pool, const char *path, const float *data, int64_t n, int64_t columns,
                    Shape cell, bool enlarge);
/* Frames side by side, or below each other if they are wide. */
int64_t strip_columns(Shape clip);
void    report_file(Pool *pool, SampleReport *report, const char *path);

/* Each result by itself, in every format of the form: folder/WORD-000 and so on. */
Err result_files(Pool *pool, const char *folder, const char *word, const SampleResult *result,
                 const ResultForm *form, SampleReport *report);

#endif
