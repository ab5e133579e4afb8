/* random_file.h -- the random numbers of a run in a file, so that another program can repeat it. */
#ifndef TRAIN_RANDOM_FILE_H
#define TRAIN_RANDOM_FILE_H

#include "recipe/recipe.h"

/* A safetensors file with a tensor (micro-batches, ...) for each call that draws, by the name of its
 * value in the model's file: noise, uniform numbers and integers as they are, of dropout the factors
 * 0 and 1 / (1 - p). Micro-batches are counted from the run's first step to recipe->steps. */
Err random_file_write(const Recipe *recipe, const char *path);

#endif
