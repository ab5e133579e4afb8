/* import_model.h -- the system `import`: a model read from a file of torch.export. */
#ifndef IMPORT_IMPORT_MODEL_H
#define IMPORT_IMPORT_MODEL_H

#include "import/exported.h"
#include "models/model.h"

typedef enum ImportLoss { IMPORT_NO_LOSS, IMPORT_MSE, IMPORT_L1, IMPORT_CROSS_ENTROPY } ImportLoss;

typedef enum ImportWeights { IMPORT_OF_FILE, IMPORT_DRAWN } ImportWeights;

typedef struct ImportConfig { /* the `model:` section */
    const char *file;
    struct {
        int         kind;   /* ImportLoss; none: the program's first output is the loss */
        const char *output; /* name, or number from 0; NULL: the first floating one */
        const char *target; /* an input of the file, or a new one; NULL: `target` */
    } loss;
    Texts       train, freeze; /* patterns of parameter names, as in a shell */
    int         weights;       /* ImportWeights */
    const char *batch;         /* symbol of the batch size; NULL: the first input's axis 0 */
    const char *hash;          /* of the file, which a run was begun with; NULL: any */
    Exported   *program;       /* of `file`; not a key */
} ImportConfig;

#endif
