/* pickle.c -- fuzz target: the input as a pickle, every value of it looked at once; and as a file
 * of torch.save in its old form and, with a directory behind it, in the zip form. */
#include "base/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "../archive.h"
#include "base/torch_file.h"

static volatile unsigned char sum;

static void bytes_look(const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum = (unsigned char)(sum + (unsigned char)bytes[i]);
}

static void value_look(const Pickle *p)
{
    switch (p->kind) {
    case PICKLE_TEXT: REQUIRE(strlen(p->bytes) == p->n); break;
    case PICKLE_BIG:
    case PICKLE_BYTES:
    case PICKLE_GLOBAL: bytes_look(p->bytes, p->n); break;
    case PICKLE_CALL: REQUIRE(p->call->callable && p->call->args); break;
    case PICKLE_DICT: REQUIRE(p->n % 2 == 0); /* fall through */
    case PICKLE_TUPLE:
    case PICKLE_LIST:
    case PICKLE_SET:
    case PICKLE_PERSISTENT:
        for (uint32_t i = 0; i < p->n; i++)
            REQUIRE(p->items[i]);
        break;
    default: break;
    }
}

static void tensors_look(Pool *pool, const TorchFile *file)
{
    for (int32_t g = 0; g < file->n; g++)
        for (int32_t i = 0; i < file->groups[g].n; i++) {
            const TorchTensor *t = &file->groups[g].tensors[i];
            int64_t            n = torch_type_bytes(t->type);
            for (int k = 0; !t->wrong && k < t->rank && n < 1 << 20; k++)
                n *= t->size[k];
            if (!t->wrong && n < 1 << 20 && t->storage)
                bytes_look(torch_elements(pool, t), (size_t)n);
        }
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    static const float data[64];
    PickleTree         tree;
    TorchFile          file;
    if (n > 32768) /* an Archive has room for no more */
        return 0;
    Pool *pool = pool_new(NULL, "fuzz");
    if (pickle_parse(pool, "fuzz", bytes, n, &tree) == OK) {
        REQUIRE(tree.bytes <= n);
        const Pickle *p = tree.root;
        for (int depth = 0; p && depth < 1000; depth++) {
            value_look(p);
            p = p->kind == PICKLE_CALL ? p->call->args : pickle_item(p, p->n ? p->n - 1 : 0);
        }
        Member   members[] = { { .name = "a/data.pkl", .data = bytes, .n = n },
                               { .name = "a/data/0", .data = data, .n = sizeof data } };
        Archive *a = archive(pool, members, 2, 0);
        if (torch_parse(pool, "fuzz", a->bytes, a->n, &file) == OK)
            tensors_look(pool, &file);
    }
    /* what stands before the object in the old form */
    static const char before[] =
        "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\2M\xe9"
        "\3.\x80\2}.";
    unsigned char *old = malloc(sizeof before - 1 + n);
    memcpy(old, before, sizeof before - 1);
    if (n)
        memcpy(old + sizeof before - 1, bytes, n);
    if (torch_parse(pool, "fuzz", old, sizeof before - 1 + n, &file) == OK)
        tensors_look(pool, &file);
    free(old);
    pool_free(pool);
    return 0;
}
