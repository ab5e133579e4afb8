/* torch_file.h -- tensors of files that torch.save wrote: .pt, .pth, .ckpt, and parts of .pt2.
 *
 * Both forms are read: a zip archive (from PyTorch 1.6 on) and a sequence of pickles with the data
 * behind them. Nothing of the file is executed. Objects of classes that are not known, such as the
 * callbacks in a checkpoint of Lightning, are left alone; a tensor that depends on one is listed
 * with the reason why it cannot be read.
 *
 * Tensors are in groups. A group is a dict that holds tensors, named by the keys that lead to it:
 * "" of a plain state dict, "state_dict", "model", "ema", "optimizer.state.0". A module that was
 * saved whole is a group too, with the names that its state dict would have.
 */
#ifndef BASE_TORCH_FILE_H
#define BASE_TORCH_FILE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/pool.h"

typedef enum TorchType { /* numbered as in the schema of torch.export (import/exported.h) */
                         TORCH_UNKNOWN = 0,
                         TORCH_U8 = 1,
                         TORCH_I8 = 2,
                         TORCH_I16 = 3,
                         TORCH_I32 = 4,
                         TORCH_I64 = 5,
                         TORCH_F16 = 6,
                         TORCH_F32 = 7,
                         TORCH_F64 = 8,
                         TORCH_C32 = 9,
                         TORCH_C64 = 10,
                         TORCH_C128 = 11,
                         TORCH_BOOL = 12,
                         TORCH_BF16 = 13,
                         TORCH_U16 = 28,
                         TORCH_F8_E4M3FN = 29,
                         TORCH_F8_E5M2 = 30,
                         TORCH_F8_E4M3FNUZ = 31,
                         TORCH_F8_E5M2FNUZ = 32,
                         TORCH_F8_E8M0FNU = 33,
                         TORCH_U32 = 34,
                         TORCH_U64 = 35,
                         TORCH_TYPES = 36
} TorchType;

const char *torch_type_name(TorchType type);  /* "float32" */
int         torch_type_bytes(TorchType type); /* 0: not known */

typedef struct TorchTensor {
    const char    *name; /* within its group */
    TorchType      type;
    int            rank;
    const int64_t *size, *stride; /* strides and offset in elements; none negative */
    int64_t        offset;
    const void    *storage; /* in the file; any alignment; NULL: it has no data (meta tensor) */
    size_t         storage_bytes;
    int32_t        storage_id; /* equal numbers: the same storage; -1: none */
    const char    *wrong;      /* why it cannot be read, as the end of a sentence; NULL: it can */
} TorchTensor;

typedef struct TorchGroup {
    const char  *path;
    int32_t      n, cap;
    TorchTensor *tensors; /* in the order of the file */
} TorchGroup;

typedef struct TorchFile {
    const char *path;
    int32_t     n, cap;
    TorchGroup *groups;
} TorchFile;

/* Does the file begin as one that torch.save wrote? */
bool torch_likely(const void *bytes, size_t n);

Err torch_read(Pool *pool, const char *path, TorchFile *out);
Err torch_parse(Pool *pool, const char *name, const void *bytes, size_t n, TorchFile *out);

const TorchTensor *torch_find(const TorchGroup *group, const char *name); /* NULL: absent */

/* The elements one after another, the last dimension fastest: as they lie in the file if that is
 * their order, else a copy in the pool. NULL if the tensor has no data. */
const void *torch_elements(Pool *pool, const TorchTensor *tensor);
/* The same of any view: the bytes of n elements from `data` on, gathered by strides. */
const void *torch_gather(Pool *pool, const void *storage, int64_t offset, int rank,
                         const int64_t *size, const int64_t *stride, size_t element);
/* Bytes from the storage's start to the view's end; 0: it is empty; -1: they or the view's own
 * bytes are more than there can be. */
int64_t     torch_extent(int64_t offset, int rank, const int64_t *size, const int64_t *stride,
                         size_t element);

#endif
