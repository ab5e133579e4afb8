/* exported.c -- the archive and the program's head: layouts, versions, symbols.
 *
 * torch.export.save has written two layouts. From 2.8 on (P) every member stands below one folder,
 * with the program in models/NAME.json; 2.5 to 2.7 (L) put serialized_exported_program.json at the
 * root. The program's JSON is the same in both.
 */
#include "import/exported.h"

#include <stdlib.h>
#include <string.h>

#include "base/torch_file.h"
#include "import/exported_int.h"
#include "import/sym_expr.h"

const char *exported_type_name(ExportedType type) { return torch_type_name((TorchType)type); }

int exported_type_bytes(ExportedType type) { return torch_type_bytes((TorchType)type); }

const ExportedArg *call_arg(const ExportedCall *call, const char *name)
{
    for (int32_t i = 0; i < call->n_args; i++)
        if (!strcmp(call->args[i].name, name))
            return &call->args[i];
    return NULL;
}

Err exported_union(const Json *json, const char **tag, const Json **value)
{
    if (!json || json->kind != JSON_OBJECT || !json->n)
        return fail(E_FORMAT, "an argument of the program is %s, not a choice of one kind",
                    json_kind_text(json));
    uint32_t i = 0; /* some writers add the other kinds as null */
    while (i + 1 < json->n && json->members[i].value.kind == JSON_NULL)
        i++;
    *tag = json->members[i].key;
    *value = &json->members[i].value;
    return OK;
}

/* ---- sizes ---- */

static Err exported_expr(ExportedIn *in, const char *text, const SymNode **out)
{
    NameSlot *slot = names_slot(in->temp, &in->exprs, exported_text(in, text));
    if (!slot->item) {
        const SymNode *expr = NULL;
        if (sym_parse(in->pool, &in->program->symbols, text, &expr)) {
            char *why = pool_text(in->temp, err_text());
            return fail(E_FORMAT, "%s: %s", in->program->path, why);
        }
        slot->item = expr;
    }
    *out = slot->item;
    return OK;
}

/* The example value of an expression: null, a number, or a choice of one kind. */
static const Json *exported_hint(const Json *expr)
{
    const Json *hint = json_get(expr, "hint"), *value = hint;
    const char *tag;
    if (hint && hint->kind == JSON_OBJECT && exported_union(hint, &tag, &value))
        return NULL;
    return value && (value->kind == JSON_INT || value->kind == JSON_NUMBER ||
                     value->kind == JSON_BOOL)
               ? value
               : NULL;
}

static void exported_hint_use(ExportedIn *in, const SymNode *expr, int64_t hint)
{
    Symbol *symbol = sym_alone(&in->program->symbols, expr);
    if (symbol && !symbol->known) {
        symbol->known = true;
        symbol->hint = symbol->value = hint;
    } else if (!symbol) {
        sym_solve(&in->program->symbols, expr, hint);
    }
}

Err exported_sym_float(ExportedIn *in, const Json *json, SymInt *out, double *real)
{
    const char *tag, *text;
    const Json *value, *hint;
    TRY(exported_union(json, &tag, &value));
    *out = (SymInt){ 0 };
    *real = 0;
    if (value->kind == JSON_INT || value->kind == JSON_BOOL) {
        out->value = value->kind == JSON_INT ? value->integer : value->truth;
        *real = (double)out->value;
        return OK;
    }
    if (value->kind == JSON_NUMBER) {
        *real = value->number;
        return OK;
    }
    TRY(json_need_text(value, "expr_str", &text));
    TRY(exported_expr(in, text, &out->expr));
    hint = exported_hint(value);
    if (!hint)
        return OK;
    if (hint->kind == JSON_NUMBER) {
        *real = hint->number;
        return OK;
    }
    out->value = hint->kind == JSON_INT ? hint->integer : hint->truth;
    *real = (double)out->value;
    if (hint->kind == JSON_INT)
        exported_hint_use(in, out->expr, out->value);
    return OK;
}

Err exported_sym_int(ExportedIn *in, const Json *json, SymInt *out)
{
    double real;
    return exported_sym_float(in, json, out, &real);
}

/* Bounds may be null; those of expressions follow from those of their symbols. */
static Err exported_ranges(ExportedIn *in, const Json *ranges)
{
    for (uint32_t i = 0; ranges && ranges->kind == JSON_OBJECT && i < ranges->n; i++) {
        const JsonMember *member = &ranges->members[i];
        Symbol           *symbol = symbol_find(&in->program->symbols, member->key);
        const Json       *low = json_get(&member->value, "min_val"),
                   *high = json_get(&member->value, "max_val");
        if (symbol && low && low->kind == JSON_INT)
            symbol->low = low->integer;
        if (symbol && high && high->kind == JSON_INT)
            symbol->high = high->integer;
    }
    return OK;
}

/* ---- the archive ---- */

typedef struct Layout {
    const char      *top;   /* folder with its '/'; NULL: layout L */
    const char      *model; /* "model" of models/model.json */
    const ZipMember *json;
} Layout;

static bool text_ends(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* What else users give: weights, TorchScript, an ONNX file in a zip. */
static Err layout_unknown(const ZipFile *zip)
{
    const char *what = "no exported program";
    for (int32_t i = 0; i < zip->n; i++) {
        if (text_ends(zip->members[i].name, "/data.pkl"))
            what = "weights saved by torch.save, not an exported program";
        if (strstr(zip->members[i].name, "/code/")) {
            what = "a TorchScript program, not an exported one";
            break;
        }
    }
    return fail(E_FORMAT,
                "%s holds %s; make one with torch.export.save(torch.export.export(model, args), "
                "'model.pt2')",
                zip->path, what);
}

static Err layout_models(Pool *pool, const ZipFile *zip, const char *top, Layout *out)
{
    const char *prefix = pool_print(pool, "%smodels/", top);
    int         n = 0;
    for (int32_t i = 0; i < zip->n; i++) {
        const char *name = zip->members[i].name;
        if (strncmp(name, prefix, strlen(prefix)) != 0 || !text_ends(name, ".json"))
            continue;
        const char *stem = name + strlen(prefix);
        const char *model = pool_textn(pool, stem, strlen(stem) - 5);
        n++;
        if (out->json && strcmp(model, "model") != 0)
            continue;
        *out = (Layout){ top, model, &zip->members[i] };
    }
    if (!out->json)
        return fail(E_FORMAT, "%s holds no models/*.json: it is a package without a program",
                    zip->path);
    if (n > 1 && strcmp(out->model, "model") != 0)
        return fail(E_FORMAT, "%s holds %d programs and none is called 'model'; save one alone",
                    zip->path, n);
    return OK;
}

static Err layout_find(Pool *pool, const ZipFile *zip, Layout *out)
{
    *out = (Layout){ .json = zip_find(zip, "serialized_exported_program.json") };
    if (out->json)
        return OK;
    for (int32_t i = 0; i < zip->n; i++)
        if (text_ends(zip->members[i].name, "/archive_format")) {
            const unsigned char *bytes;
            size_t               n;
            TRY(zip_content(pool, zip, &zip->members[i], 0, &bytes, &n));
            if (n >= 3 && !memcmp(bytes, "pt2", 3))
                return layout_models(
                    pool, zip,
                    pool_textn(pool, zip->members[i].name, strlen(zip->members[i].name) - 14), out);
        }
    return layout_unknown(zip);
}

static Err layout_byte_order(Pool *pool, const ZipFile *zip, const char *top)
{
    const ZipMember *member = zip_find(zip, pool_print(pool, "%sbyteorder", top));
    if (!member)
        return OK;
    const unsigned char *bytes;
    size_t               n;
    TRY(zip_content(pool, zip, member, 0, &bytes, &n));
    if (n >= 3 && !memcmp(bytes, "big", 3))
        return fail(E_FORMAT, "%s was written on a big-endian machine, which cannot be read",
                    zip->path);
    return OK;
}

static Err exported_head(ExportedIn *in, const Json *root, const Json **graph_module)
{
    Exported   *program = in->program;
    const Json *version = json_get(root, "schema_version");
    const char *torch_version = "<=2.4";
    int64_t     major = 0, minor = 0;
    TRY(json_maybe_text(root, "torch_version", &torch_version));
    program->torch_version = exported_text(in, torch_version);
    if (!version || version->kind != JSON_OBJECT)
        return fail(E_FORMAT, "%s has no schema version: it is not an exported program",
                    program->path);
    TRY(json_need_int(version, "major", &major));
    TRY(json_maybe_int(version, "minor", &minor));
    if (major < 7 || major > 8)
        return fail(E_FORMAT,
                    "%s has schema %lld.%lld (PyTorch %.60s); 7 and 8 can be read: export it with "
                    "PyTorch 2.5 to 2.13",
                    program->path, (long long)major, (long long)minor, torch_version);
    program->schema_major = (int)major;
    program->schema_minor = (int)minor;
    return json_need_object(root, "graph_module", graph_module);
}

static Err exported_json(ExportedIn *in, const char *name, const char *bytes, size_t n)
{
    const Json *root, *graph_module;
    TRY(json_parse(in->temp, name, bytes, n, 0, &root));
    if (root->kind != JSON_OBJECT)
        return fail(E_FORMAT, "%s is %s, not an exported program", name, json_kind_text(root));
    VEC_ADD(in->pool, in->program->regions, in->program->n_regions, in->program->cap_regions,
            (Region){ 0 });
    TRY(exported_head(in, root, &graph_module));
    TRY(exported_graph(in, graph_module));
    return exported_ranges(in, json_get(root, "range_constraints"));
}

static Err exported_archive(ExportedIn *in, const char *path)
{
    ZipFile              zip;
    Layout               layout;
    const unsigned char *bytes;
    size_t               n;
    TRY(zip_read(in->pool, path, &zip));
    TRY(layout_find(in->temp, &zip, &layout));
    if (layout.top)
        TRY(layout_byte_order(in->temp, &zip, layout.top));
    TRY(zip_content(in->temp, &zip, layout.json, 0, &bytes, &n));
    TRY(exported_json(in, pool_print(in->temp, "%s(%s)", path, layout.json->name),
                      (const char *)bytes, n));
    return exported_weights(in, &zip, layout.top, layout.model);
}

static ExportedIn exported_begin(Pool *pool, const char *path)
{
    Exported *program = NEW(pool, Exported);
    program->pool = pool;
    program->path = pool_text(pool, path);
    return (ExportedIn){ .pool = pool,
                         .temp = pool_new(NULL, "exported workspace"),
                         .program = program };
}

Err exported_parse(Pool *pool, const char *name, const char *json, size_t n, Exported **out)
{
    ExportedIn in = exported_begin(pool, name);
    Err        err = exported_json(&in, name, json, n);
    pool_free(in.temp);
    *out = in.program;
    return err;
}

Err exported_read(Pool *pool, const char *path, Exported **out)
{
    ExportedIn in = exported_begin(pool, path);
    Err        err = exported_archive(&in, path);
    pool_free(in.temp);
    *out = in.program;
    return err;
}
