/* exported_file.c -- fuzz target: the archive of an exported program with the descriptions of its weights. What
 * is accepted has weights whose elements can be gathered. The input is the JSON of the weights, its entries, the
 * pickle of a tensor, and changes to an archive that is whole. */
#include "import/exported.h"

#include "../archive.h"
#include "base/file.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static volatile unsigned char sum;

static const char path[] = "fuzz_exported.pt2";
static const char model[] =
    "{\"schema_version\":{\"major\":8,\"minor\":20},\"range_constraints\":{},\"graph_module\":{"
    "\"signature\":{\"input_specs\":[{\"parameter\":{\"arg\":{\"name\":\"p\"},\"parameter_name\":"
    "\"w\"}}],\"output_specs\":[{\"user_output\":{\"arg\":{\"as_tensor\":{\"name\":\"p\"}}}}]},"
    "\"graph\":{\"outputs\":[{\"as_tensor\":{\"name\":\"p\"}}],\"tensor_values\":{\"p\":{\"dtype\":"
    "7,"
    "\"sizes\":[{\"as_int\":2}]}},\"sym_int_values\":{},\"nodes\":[]}}}";
static const char config[] =
    "{\"config\":{\"w\":{\"path_name\":\"weight_0\",\"tensor_meta\":{\"dtype\":7,\"sizes\":[{"
    "\"as_int\":2}],\"strides\":[{\"as_int\":1}],\"storage_offset\":{\"as_int\":0}}}}}";
static const char pickled[] =
    "{\"config\":{\"w\":{\"path_name\":\"weight_0\",\"use_pickle\":true,\"tensor_meta\":{\"dtype\":"
    "7,"
    "\"sizes\":[{\"as_int\":2}],\"strides\":[{\"as_int\":1}],\"storage_offset\":{\"as_int\":0}}}}}";

static void look(Pool *pool, const Archive *a)
{
    Exported *program;
    REQUIRE(file_write(path, a->bytes, a->n) == OK);
    if (exported_read(pool, path, &program)) {
        REQUIRE(*err_text());
        return;
    }
    for (int32_t i = 0; i < program->n_weights; i++) {
        const ExportedWeight *w = &program->weights[i];
        int64_t               n = exported_type_bytes(w->type);
        for (int k = 0; k < w->rank && n < 1 << 20; k++)
            n *= w->size[k];
        const unsigned char *at = n < 1 << 20 ? exported_elements(pool, w) : NULL;
        for (int64_t k = 0; at && k < n; k++)
            sum = (unsigned char)(sum + at[k]);
    }
}

static Archive *whole(Pool *pool, const char *weights, size_t n, const void *data, size_t n_data)
{
    Member members[] = {
        { .name = "m/archive_format", .data = "pt2", .n = 3 },
        { .name = "m/models/model.json", .data = model, .n = sizeof model - 1 },
        { .name = "m/data/weights/weight_0", .data = data, .n = n_data, .extra = 20 },
        { .name = "m/data/weights/model_weights_config.json", .data = weights, .n = n },
    };
    return archive(pool, members, 4, 0);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    static const float data[2] = { 1.5f, -2 };
    Pool              *pool = pool_new(NULL, "fuzz");
    Text               text = { .pool = pool };
    Archive           *a = whole(pool, config, sizeof config - 1, data, sizeof data);
    if (n > 16384) { /* an Archive has room for no more */
        pool_free(pool);
        return 0;
    }
    for (size_t i = 0; i + 2 < n; i += 3) /* two bytes of index, one of value */
        a->bytes[((size_t)bytes[i] << 8 | bytes[i + 1]) % a->n] = bytes[i + 2];
    look(pool, a);
    look(pool, whole(pool, n ? (const char *)bytes : "", n, data, sizeof data));
    text_add(&text, "{\"config\":{\"w\":{\"path_name\":\"weight_0\",\"tensor_meta\":{");
    if (n)
        text_addn(&text, (const char *)bytes, n);
    text_add(&text, "}}}}");
    look(pool, whole(pool, text.at, text.n, data, sizeof data));
    look(pool, whole(pool, pickled, sizeof pickled - 1, n ? (const void *)bytes : "", n));
    pool_free(pool);
    REQUIRE(file_remove(path) == OK);
    return 0;
}
