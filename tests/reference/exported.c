/* exported.c -- for tests/py/test_exported.py: what was read of a program, as JSON; and the values
 * of expressions.
 *
 *   exported PROGRAM.pt2 [SYMBOL=VALUE...]      sizes are those of the symbols' values
 *   exported --sizes FILE                       lines of EXPRESSION <tab> SYMBOL=VALUE,... ;
 *                                               prints a number or "-" for each
 */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/crc32.h"
#include "base/json_out.h"
#include "import/sym_expr.h"

static void size_print(JsonOut *o, const Symbols *symbols, SymInt size)
{
    int64_t value;
    if (sym_eval(symbols, size, &value))
        json_out_string(o, NULL, err_text());
    else
        json_out_int(o, NULL, value);
}

static void value_print(JsonOut *o, const char *key, const Exported *p, int32_t id)
{
    if (id < 0) {
        json_out_null(o, key);
        return;
    }
    const ExportedValue *v = &p->values[id];
    json_out_row(o, key);
    json_out_string(o, NULL, v->name);
    json_out_string(o, NULL, exported_type_name(v->type));
    json_out_int(o, NULL, v->rank);
    for (int i = 0; i < v->rank; i++)
        size_print(o, &p->symbols, v->size[i]);
    json_out_end(o);
}

static void arg_print(JsonOut *o, const Exported *p, const ExportedArg *arg)
{
    json_out_object_row(o, NULL);
    json_out_string(o, "name", arg->name);
    json_out_int(o, "kind", arg->kind);
    json_out_int(o, "n", arg->n);
    if (arg->values) {
        json_out_row(o, "values");
        for (int32_t i = 0; i < arg->n; i++)
            json_out_int(o, NULL, arg->values[i]);
        json_out_end(o);
    }
    if (arg->ints) {
        json_out_row(o, "ints");
        for (int32_t i = 0; i < arg->n; i++)
            size_print(o, &p->symbols, arg->ints[i]);
        json_out_end(o);
    }
    if (arg->floats) {
        json_out_row(o, "floats");
        for (int32_t i = 0; i < arg->n; i++)
            json_out_number(o, NULL, arg->floats[i]);
        json_out_end(o);
    }
    if (arg->text)
        json_out_string(o, "text", arg->text);
    json_out_end(o);
}

static void call_print(JsonOut *o, const Exported *p, const ExportedCall *call)
{
    const Region *region = &p->regions[call->region];
    json_out_object(o, NULL);
    json_out_string(o, "target", call->target);
    json_out_int(o, "ordinal", call->ordinal);
    json_out_bool(o, "no_grad", region->no_grad);
    json_out_string(o, "autocast",
                    !region->autocast  ? "none"
                    : !region->enabled ? "off"
                                       : exported_type_name(region->autocast_type));
    json_out_array(o, "args");
    for (int32_t i = 0; i < call->n_args; i++)
        arg_print(o, p, &call->args[i]);
    json_out_end(o);
    json_out_row(o, "out");
    for (int32_t i = 0; i < call->n_out; i++)
        json_out_int(o, NULL, call->out[i]);
    json_out_end(o);
    json_out_string(o, "file", call->file ? call->file : "");
    json_out_string(o, "path", call->path ? call->path : "");
    json_out_int(o, "line", call->line);
    json_out_string(o, "text", call->text ? call->text : "");
    json_out_string(o, "module", call->module);
    json_out_end(o);
}

static void inputs_print(JsonOut *o, const Exported *p)
{
    json_out_array(o, "inputs");
    for (int32_t i = 0; i < p->n_inputs; i++) {
        const ExportedInput *input = &p->inputs[i];
        json_out_object_row(o, NULL);
        json_out_int(o, "kind", input->kind);
        json_out_string(o, "name", input->name);
        json_out_int(o, "value", input->value);
        json_out_bool(o, "persistent", input->persistent);
        json_out_int(o, "tied", input->tied);
        json_out_end(o);
    }
    json_out_end(o);
    json_out_array(o, "numbers");
    for (int32_t i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].kind == EX_NUMBER)
            arg_print(o, p, &p->inputs[i].number);
    json_out_end(o);
    json_out_array(o, "outputs");
    for (int32_t i = 0; i < p->n_outputs; i++) {
        json_out_object_row(o, NULL);
        json_out_int(o, "kind", p->outputs[i].kind);
        json_out_int(o, "value", p->outputs[i].arg.values ? p->outputs[i].arg.values[0] : -1);
        json_out_string(o, "target", p->outputs[i].target ? p->outputs[i].target : "");
        json_out_end(o);
    }
    json_out_end(o);
}

static void weights_print(JsonOut *o, Pool *pool, const Exported *p)
{
    json_out_object(o, "weights");
    for (int32_t i = 0; i < p->n_weights; i++) {
        const ExportedWeight *w = &p->weights[i];
        const void           *bytes = exported_elements(pool, w);
        size_t                n = (size_t)exported_type_bytes(w->type);
        char                  hash[24] = "none";
        for (int k = 0; k < w->rank; k++)
            n *= (size_t)w->size[k];
        if (bytes)
            snprintf(hash, sizeof hash, "%08x", crc32_add(0, bytes, n));
        json_out_row(o, w->name);
        json_out_string(o, NULL, exported_type_name(w->type));
        json_out_string(o, NULL, hash);
        for (int k = 0; k < w->rank; k++)
            json_out_int(o, NULL, w->size[k]);
        json_out_end(o);
    }
    json_out_end(o);
}

static Err program_print(Pool *pool, const Exported *p)
{
    JsonOut o;
    json_out_stream(&o, stdout, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_string(&o, "torch", p->torch_version);
    json_out_int(&o, "major", p->schema_major);
    json_out_int(&o, "minor", p->schema_minor);
    json_out_object(&o, "symbols");
    for (int32_t i = 0; i < p->symbols.n; i++) {
        const Symbol *s = &p->symbols.list[i];
        json_out_row(&o, s->name);
        json_out_bool(&o, NULL, s->known);
        json_out_int(&o, NULL, s->hint);
        json_out_int(&o, NULL, s->low);
        json_out_int(&o, NULL, s->high);
        json_out_end(&o);
    }
    json_out_end(&o);
    inputs_print(&o, p);
    json_out_array(&o, "values");
    for (int32_t i = 0; i < p->n_values; i++)
        value_print(&o, NULL, p, i);
    json_out_end(&o);
    json_out_array(&o, "calls");
    for (int32_t i = 0; i < p->n_calls; i++)
        call_print(&o, p, &p->calls[i]);
    json_out_end(&o);
    weights_print(&o, pool, p);
    json_out_end(&o);
    return json_out_done(&o);
}

static Err program_read(Pool *pool, int n, char **args)
{
    Exported *p;
    TRY(exported_read(pool, args[0], &p));
    for (int i = 1; i < n; i++) {
        char   *equals = strchr(args[i], '=');
        Symbol *symbol = NULL;
        if (equals) {
            *equals = '\0';
            symbol = symbol_find(&p->symbols, args[i]);
        }
        if (!symbol)
            return fail(E_USAGE, "no symbol %s", args[i]);
        symbol->value = atoll(equals + 1);
    }
    return program_print(pool, p);
}

static void size_line(Pool *pool, char *line)
{
    char          *tab = strchr(line, '\t'), *save = NULL;
    Symbols        symbols = { 0 };
    const SymNode *expr = NULL;
    int64_t        value;
    if (!tab) {
        printf("-\n");
        return;
    }
    *tab = '\0';
    if (sym_parse(pool, &symbols, line, &expr)) {
        printf("- %s\n", err_text());
        return;
    }
    for (char *word = strtok_r(tab + 1, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        char *equals = strchr(word, '=');
        if (!equals)
            continue;
        *equals = '\0';
        Symbol *symbol = symbol_find(&symbols, word);
        if (symbol) {
            symbol->known = true;
            symbol->value = atoll(equals + 1);
        }
    }
    if (sym_eval(&symbols, (SymInt){ 0, expr }, &value))
        printf("- %s\n", err_text());
    else
        printf("%lld\n", (long long)value);
}

static Err sizes_read(Pool *pool, const char *path)
{
    char  *bytes, *save = NULL;
    size_t n;
    TRY(file_read(pool, path, &bytes, &n));
    for (char *line = strtok_r(bytes, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        size_line(pool, line);
    return OK;
}

int main(int n, char **args)
{
    Pool *pool = pool_new(NULL, "exported");
    Err   err = n > 2 && !strcmp(args[1], "--sizes") ? sizes_read(pool, args[2])
                : n > 1                              ? program_read(pool, n - 1, args + 1)
                                                     : fail(E_USAGE, "exported FILE");
    if (err)
        fprintf(stderr, "%s\n", err_text());
    pool_free(pool);
    return err_exit_code(err);
}
