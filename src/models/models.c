/* models.c -- the table of systems. */
#include "models/model.h"

#include <string.h>

extern const ModelDef model_unet;

const ModelDef *const models_all[] = { &model_unet };
const int             models_count = (int)(sizeof models_all / sizeof *models_all);

const ModelDef *model_find(const char *name)
{
    for (int i = 0; i < models_count; i++)
        if (!strcmp(models_all[i]->name, name))
            return models_all[i];
    return NULL;
}
