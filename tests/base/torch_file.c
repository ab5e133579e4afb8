/* Tests of base/torch_file: small files put together here, whole and hostile.
 * tests/py/test_torch_file.py reads what PyTorch writes. */
#include "base/torch_file.h"

#include <stdlib.h>

#include "archive.h"
#include "test.h"

static Pool *pool;

/* {"w": tensor of storage 0, with sizes (2, 3), strides (3, 1), offset 0, float32} */
#define TENSOR(offset, sizes, strides)                                                             \
    "ctorch._utils\n_rebuild_tensor_v2\n((S'storage'\nctorch\nFloatStorage\nS'0'\nS'cpu'\nI6\ntQ"  \
    "I" offset "\n" sizes strides "I00\nNtR"
#define WHOLE TENSOR("0", "(I2\nI3\nt", "(I3\nI1\nt")

static const float six[6] = { 1, 2, 3, 4, 5, 6 };

static Err parse(const char *pickle, size_t n, const void *data, size_t n_data, TorchFile *out)
{
    Member   members[] = { { .name = "a/data.pkl", .data = pickle, .n = n },
                           { .name = "a/data/0", .data = data, .n = n_data, .extra = 11 } };
    Archive *a = archive(pool, members, 2, 1);
    return torch_parse(pool, "t.pt", a->bytes, a->n, out);
}

#define PARSE(pickle, out) parse(pickle, sizeof(pickle) - 1, six, sizeof six, out)

static void reads(void)
{
    TorchFile file;
    CHECK_OK(PARSE("(S'w'\n" WHOLE "S'n'\nI3\nd.", &file));
    if (!CHECK_INT(file.n, 1) || !CHECK_INT(file.groups[0].n, 1))
        return;
    const TorchTensor *t = torch_find(&file.groups[0], "w");
    CHECK_TEXT(file.groups[0].path, "");
    CHECK(t && t->type == TORCH_F32 && t->rank == 2 && t->size[1] == 3 && !t->wrong);
    CHECK(t && !memcmp(torch_elements(pool, t), six, sizeof six));
    CHECK(!torch_find(&file.groups[0], "x"));
    CHECK_TEXT(torch_type_name(TORCH_BF16), "bfloat16");
    CHECK_INT(torch_type_bytes(TORCH_C128), 16);
    CHECK_INT(torch_type_bytes((TorchType)20), 0);
}

static void transposed(void)
{
    TorchFile file;
    CHECK_OK(PARSE("(S'w'\n" TENSOR("1", "(I2\nI2\nt", "(I1\nI3\nt") "d.", &file));
    const float *data = torch_elements(pool, torch_find(&file.groups[0], "w"));
    CHECK(data && data[0] == 2 && data[1] == 5 && data[2] == 3 && data[3] == 6);
}

static void nested(void)
{
    TorchFile file;
    CHECK_OK(PARSE("(S'state_dict'\n(S'w'\n" WHOLE "dS'callbacks'\n(S'x'\ncgone\nCallback\n)Rd"
                   "S'list'\n(" WHOLE "ld.",
                   &file));
    CHECK_INT(file.n, 2);
    CHECK_TEXT(file.groups[0].path, "state_dict");
    CHECK_TEXT(file.groups[1].path, "list");
    CHECK_TEXT(file.groups[1].tensors[0].name, "0");
}

static void wrong_is(const char *pickle, size_t n, const char *part)
{
    TorchFile file;
    CHECK_OK(parse(pickle, n, six, sizeof six, &file));
    const TorchTensor *t = file.n ? torch_find(&file.groups[0], "w") : NULL;
    if (CHECK(t && t->wrong) && !CHECK(strstr(t->wrong, part) != NULL))
        fprintf(stderr, "  said: %s\n", t->wrong);
    CHECK(!t || !torch_elements(pool, t));
}

#define WRONG(pickle, part) wrong_is("(S'w'\n" pickle "d.", sizeof("(S'w'\n" pickle "d.") - 1, part)

/* The tensor is listed with what is wrong; the rest of the file can be used. */
static void tensors_that_cannot_be_read(void)
{
    WRONG(TENSOR("1", "(I2\nI3\nt", "(I3\nI1\nt"), "past the end");
    WRONG(TENSOR("0", "(I2\nI3\nt", "(I4\nI1\nt"), "past the end");
    WRONG(TENSOR("-1", "(I2\nI3\nt", "(I3\nI1\nt"), "damaged");
    WRONG(TENSOR("0", "(I2\nI-3\nt", "(I3\nI1\nt"), "damaged");
    WRONG(TENSOR("0", "(I2\nI3\nt", "(I-3\nI1\nt"), "damaged");
    WRONG(TENSOR("0", "(I2\nI3\nt", "(I3\nt"), "damaged");
    WRONG(TENSOR("0", "S'x'\n", "(I3\nt"), "damaged");
    WRONG(TENSOR("0", "(I4611686018427387904\nI4\nt", "(I4\nI1\nt"), "past the end");
    WRONG(TENSOR("0", "(I1099511627776\nI1099511627776\nt", "(I0\nI0\nt"), "past the end");
    WRONG("ctorch._utils\n_rebuild_tensor_v2\n((S'storage'\ncevil\nFloatStorage\nS'0'\nS'cpu'\nI6\n"
          "tQI0\n(t(tI00\nNtR",
          "which is unknown");
    WRONG("ctorch._utils\n_rebuild_tensor_v2\n(S'0'\nQI0\n(t(tI00\nNtR", "not described");
    WRONG("cevil\nbuild\n((S'storage'\nctorch\nFloatStorage\nS'0'\nS'cpu'\nI6\ntQtR", "evil build");
}

static void refuse(const char *pickle, size_t n, size_t n_data, const char *part)
{
    TorchFile file;
    CHECK_INT(parse(pickle, n, six, n_data, &file), E_FORMAT);
    if (!CHECK(strstr(err_text(), part) != NULL))
        fprintf(stderr, "  said: %s\n", err_text());
}

static void files_that_cannot_be_read(void)
{
    static const char whole[] = "(S'w'\n" WHOLE "d.",
                      other[] = "(S'w'\nctorch._utils\n_rebuild_tensor_v2\n((S'storage'\nctorch\n"
                                "FloatStorage\nS'9'\nS'cpu'\nI6\ntQI0\n(t(tI00\nNtRd.";
    TorchFile file;
    refuse(whole, sizeof whole - 1, 20, "too few for 6 elements");
    refuse(other, sizeof other - 1, 24, "the archive lacks the data");
    refuse("(S'w", 4, 24, "ends early");
    CHECK_INT(torch_parse(pool, "t", "hello", 5, &file), E_FORMAT);
    CHECK_INT(torch_parse(pool, "t", "", 0, &file), E_FORMAT);
    CHECK_INT(torch_parse(pool, "t", "\x80\2K\1.", 5, &file), E_FORMAT);
    CHECK(strstr(err_text(), "torch.save did not write it") != NULL);
}

/* Each list holds the one before it ten times: walked once each, not 10^40 times. */
static void doubling(void)
{
    char      pickle[4096];
    size_t    n = 0;
    TorchFile file;
    n += (size_t)sprintf(pickle + n, "(S'w'\n" WHOLE "dp0\n0");
    for (int i = 1; i < 40; i++) {
        n += (size_t)sprintf(pickle + n, "(");
        for (int k = 0; k < 10; k++)
            n += (size_t)sprintf(pickle + n, "g%d\n", i - 1);
        n += (size_t)sprintf(pickle + n, "lp%d\n0", i);
    }
    n += (size_t)sprintf(pickle + n, "g20\n.");
    CHECK_OK(parse(pickle, n, six, sizeof six, &file));
    CHECK_INT(file.n, 1);
    CHECK_OK(PARSE("]p0\ng0\na.", &file)); /* a list that holds itself */
    CHECK_INT(file.n, 0);
}

static void module_saved_whole(void)
{
    TorchFile file;
    CHECK_OK(PARSE("cuser\nNet\n)\x81(S'_parameters'\n(dS'_buffers'\n(S'n'\n" WHOLE
                   "dS'_modules'\n(S'layer'\ncuser\nLayer\n)\x81(S'_parameters'\n(S'weight'\n" WHOLE
                   "dS'_buffers'\n(dS'_modules'\n(ddbddb.",
                   &file));
    if (!CHECK_INT(file.n, 1) || !CHECK_INT(file.groups[0].n, 2))
        return;
    CHECK_TEXT(file.groups[0].tensors[0].name, "n");
    CHECK_TEXT(file.groups[0].tensors[1].name, "layer.weight");
    CHECK_INT(file.groups[0].tensors[0].storage_id, file.groups[0].tensors[1].storage_id);
}

int main(void)
{
    pool = pool_new(NULL, "torch file test");
    RUN(reads);
    RUN(transposed);
    RUN(nested);
    RUN(tensors_that_cannot_be_read);
    RUN(files_that_cannot_be_read);
    RUN(doubling);
    RUN(module_saved_whole);
    pool_free(pool);
    return test_end();
}
