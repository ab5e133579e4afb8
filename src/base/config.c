/* config.c -- recipes into structs and back. */
#include "base/config.h"

#include "base/yaml.h"

#include <math.h>
#include <string.h>

static Err config_range(const Json *map, const Json *at, const Field *f, double x)
{
    if ((f->low != 0 || f->high != 0) && !(x >= f->low && x <= f->high))
        return json_fail(map, at, "%s must be from %.10g to %.10g, not %.10g", f->key, f->low,
                         f->high, x);
    return OK;
}

static Err config_choice(const Json *map, const Json *at, const Field *f, int *out)
{
    int  n = 0;
    char all[256] = "";
    for (; f->choices[n]; n++) {
        if (at->kind == JSON_TEXT && !strcmp(at->text, f->choices[n])) {
            *out = n;
            return OK;
        }
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", n ? ", " : "", f->choices[n]);
    }
    const char *near = at->kind == JSON_TEXT ? text_nearest(at->text, f->choices, n) : NULL;
    if (near)
        return json_fail(map, at, "%s cannot be '%s'; did you mean '%s'? (%s)", f->key, at->text,
                         near, all);
    return json_fail(map, at, "%s must be one of: %s", f->key, all);
}

static Err config_value(Pool *pool, const Json *map, const Json *at, const Field *f, void *config)
{
    void *to = (char *)config + f->offset;
    switch (f->kind) {
    case FIELD_INT:
        TRY(json_need_int(map, f->key, to));
        return config_range(map, at, f, (double)*(int64_t *)to);
    case FIELD_NUMBER:
        TRY(json_need_number(map, f->key, to));
        return config_range(map, at, f, *(double *)to);
    case FIELD_BOOL: return json_need_bool(map, f->key, to);
    case FIELD_TEXT:
        if (at->kind == JSON_NULL) {
            *(const char **)to = NULL;
            return OK;
        }
        TRY(json_need_text(map, f->key, to));
        *(const char **)to = pool_text(pool, *(const char **)to);
        return OK;
    case FIELD_CHOICE: return config_choice(map, at, f, to);
    case FIELD_INTS: {
        const Json *array;
        Ints        ints = { 0 };
        TRY(json_need_array(map, f->key, &array));
        if (array->n > FIELD_MAX_INTS)
            return json_fail(map, at, "%s has %u entries; at most %d are possible", f->key,
                             array->n, FIELD_MAX_INTS);
        for (uint32_t i = 0; i < array->n; i++) {
            TRY(json_item_int(array, i, &ints.at[i]));
            TRY(config_range(map, at, f, (double)ints.at[i]));
        }
        ints.n = (int)array->n;
        *(Ints *)to = ints;
        return OK;
    }
    case FIELD_TEXTS: {
        const Json *array;
        Texts       texts = { 0 };
        TRY(json_need_array(map, f->key, &array));
        if (array->n > FIELD_MAX_TEXTS)
            return json_fail(map, at, "%s has %u entries; at most %d are possible", f->key,
                             array->n, FIELD_MAX_TEXTS);
        for (uint32_t i = 0; i < array->n; i++) {
            TRY(json_item_text(array, i, &texts.at[i]));
            texts.at[i] = pool_text(pool, texts.at[i]);
        }
        texts.n = (int)array->n;
        *(Texts *)to = texts;
        return OK;
    }
    case FIELD_GROUP: {
        const Json *group;
        TRY(json_need_object(map, f->key, &group));
        return config_read(pool, group, f->fields, to);
    }
    }
    return OK;
}

static const Field *field_find(const Field *fields, const char *key)
{
    while (fields->key && strcmp(fields->key, key))
        fields++;
    return fields->key ? fields : NULL;
}

/* Names the group, or the groups, that an unknown key belongs to. */
static Err config_misplaced(Pool *pool, const Json *map, const Field *fields)
{
    for (uint32_t m = 0; map->kind == JSON_OBJECT && m < map->n; m++) {
        const char *key = map->members[m].key;
        Text        where = { .pool = pool };
        if (field_find(fields, key))
            continue;
        for (const Field *f = fields; f->key; f++)
            if (f->kind == FIELD_GROUP && field_find(f->fields, key))
                text_add(&where, "%s'%s.%s'", where.n ? " or " : "", f->key, key);
        if (where.n)
            return json_fail(map, &map->members[m].value, "unknown key '%s', did you mean %s?", key,
                             where.at);
    }
    return OK;
}

Err config_read(Pool *pool, const Json *map, const Field *fields, void *config)
{
    const char *known[128];
    int         n = 0;
    TRY(config_misplaced(pool, map, fields));
    for (const Field *f = fields; f->key && n < 128; f++)
        known[n++] = f->key;
    TRY(json_check_keys(map, known, n));
    for (const Field *f = fields; f->key; f++) {
        const Json *at = json_get(map, f->key);
        if (at)
            TRY(config_value(pool, map, at, f, config));
    }
    return OK;
}

/* The error of an assignment without line and column: it has one line only. */
static Err set_fail(Pool *pool, const char *name)
{
    const char *said = pool_text(pool, err_text());
    size_t      n = strlen(name);
    if (!strncmp(said, name, n))
        said += n + strspn(said + n, ":0123456789");
    else
        name = "";
    return fail(E_USAGE, "%s%s%s", name, *name ? ":" : "", said);
}

Err config_set(Pool *pool, const char *assignment, const Field *fields, void *config)
{
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment)
        return fail(E_USAGE, "--set takes key=value, not '%s'", assignment);

    /* a.b=1 becomes the line of YAML {a: {b: 1}}, so the same checks apply. */
    Text text = { .pool = pool };
    int  depth = 0;
    for (const char *at = assignment, *end; at <= equals; at = end + 1, depth++) {
        end = at + strcspn(at, ".=");
        text_add(&text, "{%.*s: ", (int)(end - at), at);
    }
    text_add(&text, "%s", equals + 1);
    for (int i = 0; i < depth; i++)
        text_add(&text, "}");
    const char *name = pool_print(pool, "--set %s", assignment);
    const Json *map;
    if (yaml_parse(pool, name, text.at, text.n, &map) || config_read(pool, map, fields, config))
        return set_fail(pool, name);
    return OK;
}

void config_write(JsonOut *out, const Field *fields, const void *config)
{
    for (const Field *f = fields; f->key; f++) {
        const void *from = (const char *)config + f->offset;
        switch (f->kind) {
        case FIELD_INT: json_out_int(out, f->key, *(const int64_t *)from); break;
        case FIELD_NUMBER: json_out_number(out, f->key, *(const double *)from); break;
        case FIELD_BOOL: json_out_bool(out, f->key, *(const bool *)from); break;
        case FIELD_TEXT: json_out_string(out, f->key, *(const char *const *)from); break;
        case FIELD_CHOICE: json_out_string(out, f->key, f->choices[*(const int *)from]); break;
        case FIELD_INTS:
            json_out_row(out, f->key);
            for (int i = 0; i < ((const Ints *)from)->n; i++)
                json_out_int(out, NULL, ((const Ints *)from)->at[i]);
            json_out_end(out);
            break;
        case FIELD_TEXTS:
            json_out_row(out, f->key);
            for (int i = 0; i < ((const Texts *)from)->n; i++)
                json_out_string(out, NULL, ((const Texts *)from)->at[i]);
            json_out_end(out);
            break;
        case FIELD_GROUP:
            json_out_object(out, f->key);
            config_write(out, f->fields, from);
            json_out_end(out);
            break;
        }
    }
}

static void yaml_text(Text *text, const char *value)
{
    if (!value) {
        text_add(text, "null");
        return;
    }
    text_add(text, "\"");
    for (; *value; value++) {
        unsigned char c = (unsigned char)*value;
        text_add(text, c < ' ' || c == 127 ? "\\u%04x" : c == '"' || c == '\\' ? "\\%c" : "%c", c);
    }
    text_add(text, "\"");
}

void config_write_yaml(Text *text, const Field *fields, const void *config, int indent)
{
    for (const Field *f = fields; f->key; f++) {
        const void *from = (const char *)config + f->offset;
        char        number[32];
        text_add(text, "%*s%s:", indent, "", f->key);
        switch (f->kind) {
        case FIELD_INT: text_add(text, " %lld", (long long)*(const int64_t *)from); break;
        case FIELD_NUMBER:
            json_number_text(number, *(const double *)from);
            text_add(text, " %s", number);
            break;
        case FIELD_BOOL: text_add(text, " %s", *(const bool *)from ? "true" : "false"); break;
        case FIELD_TEXT:
            text_add(text, " ");
            yaml_text(text, *(const char *const *)from);
            break;
        case FIELD_CHOICE: text_add(text, " %s", f->choices[*(const int *)from]); break;
        case FIELD_INTS:
            text_add(text, " [");
            for (int i = 0; i < ((const Ints *)from)->n; i++)
                text_add(text, "%s%lld", i ? ", " : "", (long long)((const Ints *)from)->at[i]);
            text_add(text, "]");
            break;
        case FIELD_TEXTS:
            text_add(text, " [");
            for (int i = 0; i < ((const Texts *)from)->n; i++) {
                text_add(text, i ? ", " : "");
                yaml_text(text, ((const Texts *)from)->at[i]);
            }
            text_add(text, "]");
            break;
        case FIELD_GROUP:
            text_add(text, "\n");
            config_write_yaml(text, f->fields, from, indent + 2);
            continue;
        }
        text_add(text, "\n");
    }
}
