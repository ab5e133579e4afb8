/* recipe_pages.h -- the reference of a recipe's keys, made from the tables that read recipes. */
#ifndef REPORT_RECIPE_PAGES_H
#define REPORT_RECIPE_PAGES_H

#include "base/text.h"
#include "recipe/recipe.h"

/* Every section, with type, range, default and meaning of each key, as text of at most 100 columns
 * or as Markdown. only: the `model` section of this system alone; NULL: of every system. */
void recipe_reference(Text *to, const ModelDef *only, bool markdown);

#endif
