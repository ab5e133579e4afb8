/* systems.c -- the table of systems, by name: the built-in models and imported ones. */
#include "recipe/recipe.h"

#include <string.h>

const ModelDef *const models_all[] = {
#define MODEL(name) &model_##name,
#include "models/models_list.def"
#undef MODEL
};
const int models_count = (int)(sizeof models_all / sizeof *models_all);

const ModelDef *model_find(const char *name)
{
    for (int i = 0; i < models_count; i++)
        if (!strcmp(models_all[i]->name, name))
            return models_all[i];
    return NULL;
}
