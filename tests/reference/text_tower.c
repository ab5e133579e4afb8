/* text_tower.c -- for tests/py/text_towers.py: the embeddings of texts on the standard input, a '\0'
 * behind each.
 *
 *   text_tower WEIGHTS VOCAB.txt|- OUT.npy */
#include "base/file.h"
#include "base/npy.h"
#include "train/text_encoder.h"

#include "test_device.h"

#include <stdio.h>
#include <string.h>

static Err texts_encode(Pool *pool, char **args)
{
    TextEncoder *e;
    Device      *device;
    char        *texts;
    size_t       n, count = 0;
    bool         cut;
    bool         listed = strcmp(args[2], "-") != 0;
    TRY(file_read(pool, "-", &texts, &n));
    TRY(test_device(pool, &(DeviceOptions){ 0 }, &device));
    TRY(text_encoder_open(pool, device, &(TextEncoderFiles){ args[1], listed ? args[2] : NULL }, 0,
                          &e));
    for (size_t i = 0; i < n; i++)
        count += !texts[i];
    int64_t each = shape_count(e->shape), shape[] = { (int64_t)count, each };
    float  *to = NEWN(pool, float, each *(int64_t)count + 1);
    for (const char *at = texts; at < texts + n; at += strlen(at) + 1, to += each)
        TRY(text_encode(e, at, to, &cut));
    printf("%s %lld %016llx\n", e->name, (long long)e->params, (unsigned long long)e->hash);
    return npy_write(args[3], NPY_F4, 2, shape, to - each * (int64_t)count);
}

int main(int n, char **args)
{
    Pool *pool = pool_new(NULL, "text tower");
    Err   err = n == 4 ? texts_encode(pool, args)
                       : fail(E_USAGE, "text_tower WEIGHTS VOCAB.txt|- OUT.npy");
    if (err)
        fprintf(stderr, "%s\n", err_text());
    pool_free(pool);
    return err_exit_code(err);
}
