/* recipe_pages.c -- the reference of a recipe's keys, as text and as Markdown.
 *
 * A key that is not given has its default. The text shows `key: default` as a recipe would have it,
 * then the type and range, and below them the meaning. */
#include "report/recipe_pages.h"

#include <ctype.h>
#include <string.h>

enum { KEY_WIDTH = 34, LINE_WIDTH = 100 };

typedef struct Reference {
    Text           *to;
    const ModelDef *only; /* NULL: every system */
    bool            markdown;
} Reference;

/* 1e+12 as 1e12 */
static const char *number_text(Pool *pool, double number)
{
    char *text = pool_print(pool, "%.10g", number), *plus = strstr(text, "e+");
    if (plus)
        memmove(plus + 1, plus + 2, strlen(plus + 2) + 1);
    return text;
}

static const char *choices_text(Pool *pool, const char *const *choices)
{
    Text text = { .pool = pool };
    for (int i = 0; choices[i]; i++)
        text_add(&text, "%s%s", i ? ", " : "", choices[i]);
    return text.at;
}

static const char *type_text(const Field *f)
{
    switch (f->kind) {
    case FIELD_INT: return "integer";
    case FIELD_NUMBER: return "number";
    case FIELD_BOOL: return "boolean";
    case FIELD_TEXT: return "text";
    case FIELD_CHOICE: return "choice";
    case FIELD_INTS: return "list of integers";
    case FIELD_TEXTS: return "list of texts";
    case FIELD_GROUP: return "section";
    }
    return "";
}

/* "0 to 100", "adamw, adam, sgd", or "" where any value will do. */
static const char *range_text(Pool *pool, const Field *f)
{
    if (f->kind == FIELD_CHOICE)
        return choices_text(pool, f->choices);
    if (f->low == 0 && f->high == 0)
        return "";
    return pool_print(pool, "%s to %s", number_text(pool, f->low), number_text(pool, f->high));
}

/* The default of a key; "" for a text that is not set. */
static const char *default_text(Pool *pool, const Field *f, const void *config)
{
    const void *at = (const char *)config + f->offset;
    Text        text = { .pool = pool };
    switch (f->kind) {
    case FIELD_INT: return pool_print(pool, "%lld", (long long)*(const int64_t *)at);
    case FIELD_NUMBER: return number_text(pool, *(const double *)at);
    case FIELD_BOOL: return *(const bool *)at ? "true" : "false";
    case FIELD_TEXT: return *(const char *const *)at ? *(const char *const *)at : "";
    case FIELD_CHOICE: return f->choices[*(const int *)at];
    case FIELD_INTS:
        text_add(&text, "[");
        for (int i = 0; i < ((const Ints *)at)->n; i++)
            text_add(&text, "%s%lld", i ? ", " : "", (long long)((const Ints *)at)->at[i]);
        text_add(&text, "]");
        return text.at;
    case FIELD_TEXTS: return "[]";
    case FIELD_GROUP: break;
    }
    return "";
}

static void add_row(const Reference *r, const char *section, const char *key, const char *type,
                    const char *range, const char *value, const char *help)
{
    Pool *pool = r->to->pool;
    if (r->markdown) {
        text_add(r->to, "| `%s%s%s` | %s | %s%s%s | %s | %s |\n", section, *section ? "." : "", key,
                 type, *value ? "`" : "", value, *value ? "`" : "", range, help);
        return;
    }
    const char *left = pool_print(pool, "%s%s:%s%s", *section ? "  " : "", key, *value ? " " : "",
                                  value);
    const char *right = *range ? pool_print(pool, "%s: %s", type, range) : type;
    bool        fits = strlen(left) < KEY_WIDTH && KEY_WIDTH + strlen(right) <= LINE_WIDTH;
    text_add(r->to, "%-*s%s%s\n", fits ? KEY_WIDTH : 0, left, fits ? "" : "\n        ", right);
    text_add(r->to, "        %s\n", help);
}

static void add_heading(const Reference *r, const char *title, const char *help)
{
    if (r->markdown)
        text_add(r->to, "\n### %s\n\n%c%s.\n\n", title, toupper((unsigned char)*help), help + 1);
    else
        text_add(r->to, "\n%s -- %s\n", title, help);
}

static void add_table_head(const Reference *r)
{
    if (r->markdown)
        text_add(r->to, "| key | type | default | range | meaning |\n|---|---|---|---|---|\n");
}

static void add_fields(const Reference *r, const char *section, const Field *fields,
                       const void *config)
{
    Pool *pool = r->to->pool;
    for (const Field *f = fields; f->key; f++) {
        if (f->kind == FIELD_GROUP)
            add_fields(r, pool_print(pool, "%s%s%s", section, *section ? "." : "", f->key),
                       f->fields, (const char *)config + f->offset);
        else
            add_row(r, section, f->key, type_text(f), range_text(pool, f),
                    default_text(pool, f, config), f->help);
    }
}

/* Rows that the tables do not describe fully: `system`, which must be given, and a default that
 * each system chooses. True: the row was added. */
static bool add_special(const Reference *r, const char *section, const Field *f)
{
    Pool *pool = r->to->pool;
    Text  names = { .pool = pool };
    if (!*section && !strcmp(f->key, "system")) {
        for (int i = 0; i < models_count; i++)
            text_add(&names, "%s%s", i ? ", " : "", models_all[i]->name);
        add_row(r, section, f->key, "choice", names.at, "",
                pool_print(pool, "%s; must be given", f->help));
        return true;
    }
    if (!r->only && !strcmp(section, "sampler") && !strcmp(f->key, "kind")) {
        add_row(r, section, f->key, "choice", range_text(pool, f), "", f->help);
        return true;
    }
    return false;
}

static void add_section(const Reference *r, const char *section, const Field *fields,
                        const void *config)
{
    for (const Field *f = fields; f->key; f++)
        if (f->kind != FIELD_GROUP && !add_special(r, section, f))
            add_fields(r, section, (const Field[]){ *f, { 0 } }, config);
}

static void add_model(const Reference *r, const ModelDef *model)
{
    Pool *pool = r->to->pool;
    add_heading(
        r, pool_print(pool, r->markdown ? "`model`, system `%s`" : "model, system %s", model->name),
        model->summary);
    for (int i = 0; i < models_count && models_all[i] != model && !r->only; i++)
        if (models_all[i]->fields == model->fields && models_all[i]->defaults == model->defaults) {
            text_add(r->to, r->markdown ? "The same keys as `%s`.\n" : "  the same keys as %s\n",
                     models_all[i]->name);
            return;
        }
    add_table_head(r);
    add_fields(r, "model", model->fields, model->defaults);
}

void recipe_reference(Text *to, const ModelDef *only, bool markdown)
{
    Reference       r = { to, only, markdown };
    const ModelDef *model = only ? only : models_all[0];
    const Field    *fields = recipe_fields(to->pool, model);
    const Recipe   *defaults = recipe_defaults(to->pool, model);

    add_heading(&r, markdown ? "Keys without a section" : "keys without a section",
                "what is trained, and for how long");
    add_table_head(&r);
    add_section(&r, "", fields, defaults);
    for (const Field *f = fields; f->key; f++) {
        if (f->kind != FIELD_GROUP || !strcmp(f->key, "model"))
            continue;
        add_heading(&r, markdown ? pool_print(to->pool, "`%s`", f->key) : f->key, f->help);
        add_table_head(&r);
        add_section(&r, f->key, f->fields, (const char *)defaults + f->offset);
    }
    for (int i = 0; i < models_count; i++)
        if (!only || models_all[i] == only)
            add_model(&r, models_all[i]);
}
