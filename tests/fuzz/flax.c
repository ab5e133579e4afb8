/* flax.c -- fuzz target: the input as a file of Flax; every array of it looked at. */
#include "base/flax_file.h"

#include "base/msgpack.h"

static volatile unsigned char sum;

static void look(const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum = (unsigned char)(sum + ((const unsigned char *)bytes)[i]);
}

static void value_look(const MsgPack *v, int depth)
{
    REQUIRE(depth <= MSGPACK_DEPTH);
    if (v->kind == MSG_TEXT || v->kind == MSG_BYTES || v->kind == MSG_EXT)
        look(v->bytes, v->n);
    for (size_t i = 0; (v->kind == MSG_ARRAY || v->kind == MSG_MAP) && i < v->n; i++)
        value_look(&v->items[i], depth + 1);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    Pool    *pool = pool_new(NULL, "fuzz");
    MsgPack  root;
    FlaxFile file;
    (void)flax_likely(bytes, n);
    if (msgpack_parse(pool, "fuzz", bytes, n, &root) == OK)
        value_look(&root, 0);
    if (flax_parse(pool, "fuzz", bytes, n, &file) == OK)
        for (int32_t i = 0; i < file.n; i++) {
            const SafeTensor *t = &file.tensors[i].tensor;
            REQUIRE(t->name && (file.tensors[i].wrong || t->data));
            if (!file.tensors[i].wrong)
                look(t->data, t->n_bytes);
        }
    pool_free(pool);
    return 0;
}
