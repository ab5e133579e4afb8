/* recipe_phases.h -- validation and sampling between steps, as graphs in the training arena. */
#ifndef RECIPE_RECIPE_PHASES_H
#define RECIPE_RECIPE_PHASES_H

#include "recipe/recipe.h"

/* Adds the graphs of the phases `validate` and `sample`, if the recipe turns them on. They read the
 * averaged weights where the recipe has an average, and change nothing that a step reads. */
Err phases_build(const Recipe *recipe, TrainingGraph *graph);

#endif
