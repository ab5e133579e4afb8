/* models.c -- the table of systems. */
#include "models/model.h"

#include <string.h>

extern const ModelDef model_unet;
extern const ModelDef model_stdiff;
extern const ModelDef model_sashimi;
extern const ModelDef model_lag;
extern const ModelDef model_dit3d;
extern const ModelDef model_stablesr;
extern const ModelDef model_stablesr_vae;

const ModelDef *const models_all[] = {
    &model_unet,
    &model_stdiff,
    &model_sashimi,
    &model_lag,
    &model_dit3d,
    &model_stablesr,
    &model_stablesr_vae,
};
const int             models_count = (int)(sizeof models_all / sizeof *models_all);

const ModelDef *model_find(const char *name)
{
    for (int i = 0; i < models_count; i++)
        if (!strcmp(models_all[i]->name, name))
            return models_all[i];
    return NULL;
}
