/* formats_dump.c -- base's readers and writers as a filter, for test_formats.py.
 *
 *   formats_dump json|yaml IN OUT            the tree, as compact JSON
 *   formats_dump safetensors|npy IN OUT      the same tensors, written by us
 */
#include <stdio.h>
#include <string.h>

#include "base/json_out.h"
#include "base/npy.h"
#include "base/safetensors.h"
#include "base/yaml.h"

static Err dump_tree(const Json *root, const char *path)
{
    FileOut out;
    JsonOut o;
    TRY(file_out_init(&out, path));
    json_out_file(&o, &out, JSON_COMPACT);
    json_out_value(&o, NULL, root);
    return file_out_done(&out, json_out_done(&o));
}

static Err dump_safetensors(Pool *pool, const char *in, const char *out)
{
    SafeFile     file;
    const char **metadata = NULL;
    TRY(safetensors_read(pool, in, &file));
    if (file.metadata) {
        metadata = NEWN(pool, const char *, 2 * file.metadata->n + 1);
        for (uint32_t i = 0; i < file.metadata->n; i++) {
            metadata[2 * i] = file.metadata->members[i].key;
            metadata[2 * i + 1] = file.metadata->members[i].value.text;
        }
    }
    return safetensors_write(out, file.tensors, file.n, metadata);
}

static Err dump(Pool *pool, const char *format, const char *in, const char *out)
{
    const Json *root;
    Npy         array;
    if (!strcmp(format, "json")) {
        TRY(json_read(pool, in, 0, &root));
        return dump_tree(root, out);
    }
    if (!strcmp(format, "yaml")) {
        TRY(yaml_read(pool, in, &root));
        return dump_tree(root, out);
    }
    if (!strcmp(format, "safetensors"))
        return dump_safetensors(pool, in, out);
    TRY(npy_read(pool, in, &array));
    return npy_write(out, array.type, array.rank, array.shape, array.data);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    Pool *pool = pool_new(NULL, "dump");
    Err   err = dump(pool, argv[1], argv[2], argv[3]);
    if (err)
        fprintf(stderr, "%s\n", err_text());
    pool_free(pool);
    return err_exit_code(err);
}
