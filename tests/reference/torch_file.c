/* torch_file.c -- for tests/py/test_torch_file.py: the tensors of a file of torch.save, as JSON.
 *
 *   torch_file FILE            [{"path": GROUP, "tensors": {NAME: [type, hash, storage, sizes...]}}]
 */
#include "base/torch_file.h"

#include "base/crc32.h"
#include "base/json_out.h"

static void tensor_print(JsonOut *o, Pool *pool, const TorchTensor *t)
{
    char hash[24] = "none";
    if (t->wrong) {
        json_out_string(o, t->name, t->wrong);
        return;
    }
    const void *bytes = torch_elements(pool, t);
    size_t      n = (size_t)torch_type_bytes(t->type);
    for (int k = 0; k < t->rank; k++)
        n *= (size_t)t->size[k];
    if (bytes)
        snprintf(hash, sizeof hash, "%08x", crc32_add(0, bytes, n));
    json_out_row(o, t->name);
    json_out_string(o, NULL, torch_type_name(t->type));
    json_out_string(o, NULL, hash);
    json_out_int(o, NULL, t->storage_id);
    for (int k = 0; k < t->rank; k++)
        json_out_int(o, NULL, t->size[k]);
    json_out_end(o);
}

static Err file_print(Pool *pool, const char *path)
{
    TorchFile file;
    JsonOut   o;
    TRY(torch_read(pool, path, &file));
    json_out_stream(&o, stdout, JSON_PRETTY);
    json_out_array(&o, NULL);
    for (int32_t g = 0; g < file.n; g++) {
        json_out_object(&o, NULL);
        json_out_string(&o, "path", file.groups[g].path);
        json_out_object(&o, "tensors");
        for (int32_t i = 0; i < file.groups[g].n; i++)
            tensor_print(&o, pool, &file.groups[g].tensors[i]);
        json_out_end(&o);
        json_out_end(&o);
    }
    json_out_end(&o);
    return json_out_done(&o);
}

int main(int n, char **args)
{
    Pool *pool = pool_new(NULL, "torch file");
    Err   err = n > 1 ? file_print(pool, args[1]) : fail(E_USAGE, "torch_file FILE");
    if (err)
        fprintf(stderr, "%s\n", err_text());
    pool_free(pool);
    return err_exit_code(err);
}
