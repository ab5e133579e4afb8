/* json_need.c -- asking the tree: members by key, and a sentence when they are not as needed. */
#include "base/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json_int.h"
#include "base/text.h"

const Json *json_get(const Json *object, const char *key)
{
    if (!object || object->kind != JSON_OBJECT)
        return NULL;
    const JsonMember *members = object->members;
    uint32_t          slots = json_index_slots(object->n);
    if (!slots) {
        for (uint32_t i = 0; i < object->n; i++)
            if (!strcmp(members[i].key, key))
                return &members[i].value;
        return NULL;
    }
    const uint32_t *index = (const uint32_t *)(const void *)(members + object->n);
    uint32_t        i = json_key_hash(key, strlen(key)) & (slots - 1);
    for (; index[i]; i = (i + 1) & (slots - 1))
        if (!strcmp(members[index[i] - 1].key, key))
            return &members[index[i] - 1].value;
    return NULL;
}

const char *json_kind_text(const Json *value)
{
    static const char *const names[] = { "null",   "true or false", "a whole number", "a number",
                                         "a text", "an array",      "an object" };
    return value ? names[value->kind] : "nothing";
}

static const JsonSource *json_source(const Json *container)
{
    REQUIRE(container->kind == JSON_ARRAY || container->kind == JSON_OBJECT);
    return ((JsonSource *const *)(const void *)container->items)[-1];
}

const char *json_name(const Json *container) { return json_source(container)->name; }

Err json_fail(const Json *container, const Json *value, const char *fmt, ...)
{
    char    text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const JsonSource *source = json_source(container);
    return fail(source->wrong, "%s:%u: %s", source->name, (value ? value : container)->line, text);
}

/* What was found, in a few words: "the text 'yes'", "2.5", "an array". */
static const char *json_found(const Json *value)
{
    static _Thread_local char text[64];
    switch ((JsonKind)value->kind) {
    case JSON_TEXT:
        snprintf(text, sizeof text, value->n > 40 ? "the text '%.37s...'" : "the text '%.40s'",
                 value->text);
        return text;
    case JSON_INT: snprintf(text, sizeof text, "%lld", (long long)value->integer); return text;
    case JSON_NUMBER: snprintf(text, sizeof text, "%.15g", value->number); return text;
    case JSON_BOOL: return value->truth ? "true" : "false";
    default: return json_kind_text(value);
    }
}

/* Can value be read as kind? Errors name a member by its key, an item by its index. */
static bool json_is(const Json *value, JsonKind kind)
{
    if (kind == JSON_NUMBER)
        return value->kind == JSON_INT || (value->kind == JSON_NUMBER && isfinite(value->number));
    if (kind == JSON_INT && value->kind == JSON_NUMBER)
        return fabs(value->number) <= 0x1p53 && value->number == nearbyint(value->number);
    return value->kind == kind;
}

static const char *json_kind_wanted(JsonKind kind)
{
    return kind == JSON_NUMBER ? "a finite number" : json_kind_text(&(Json){ .kind = kind & 7u });
}

static Err json_member(const Json *object, const char *key, JsonKind kind, bool needed,
                       const Json **out)
{
    if (object->kind != JSON_OBJECT)
        return object->kind == JSON_ARRAY
                   ? json_fail(object, NULL, "an object with '%s' must stand here, not an array",
                               key)
                   : fail(E_FORMAT, "line %u: an object with '%s' must stand here, not %s",
                          object->line, key, json_found(object));
    *out = json_get(object, key);
    if (!*out)
        return needed ? json_fail(object, NULL, "'%s' is missing; it must be %s", key,
                                  json_kind_wanted(kind))
                      : OK;
    if (!json_is(*out, kind))
        return json_fail(object, *out, "'%s' must be %s, not %s", key, json_kind_wanted(kind),
                         json_found(*out));
    return OK;
}

static int64_t json_as_int(const Json *value)
{
    return value->kind == JSON_INT ? value->integer : (int64_t)value->number;
}

static double json_as_number(const Json *value)
{
    return value->kind == JSON_INT ? (double)value->integer : value->number;
}

#define JSON_MEMBER(verb, needed, noun, T, kind, of)                                               \
    Err json_##verb##_##noun(const Json *object, const char *key, T *out)                          \
    {                                                                                              \
        const Json *value = NULL;                                                                  \
        TRY(json_member(object, key, kind, needed, &value));                                       \
        if (value)                                                                                 \
            *out = of;                                                                             \
        return OK;                                                                                 \
    }
/* clang-format off */
#define JSON_MEMBERS(verb, needed)                                                      \
    JSON_MEMBER(verb, needed, int,    int64_t,      JSON_INT,    json_as_int(value))    \
    JSON_MEMBER(verb, needed, number, double,       JSON_NUMBER, json_as_number(value)) \
    JSON_MEMBER(verb, needed, bool,   bool,         JSON_BOOL,   value->truth)          \
    JSON_MEMBER(verb, needed, text,   const char *, JSON_TEXT,   value->text)           \
    JSON_MEMBER(verb, needed, array,  const Json *, JSON_ARRAY,  value)                 \
    JSON_MEMBER(verb, needed, object, const Json *, JSON_OBJECT, value)
/* clang-format on */

JSON_MEMBERS(need, true)
JSON_MEMBERS(maybe, false)

static Err json_item(const Json *array, uint32_t i, JsonKind kind, const Json **out)
{
    REQUIRE(array->kind == JSON_ARRAY && i < array->n);
    *out = &array->items[i];
    if (!json_is(*out, kind))
        return json_fail(array, *out, "item %u of the array must be %s, not %s", i + 1,
                         json_kind_wanted(kind), json_found(*out));
    return OK;
}

#define JSON_ITEM(noun, T, kind, of)                                                               \
    Err json_item_##noun(const Json *array, uint32_t i, T *out)                                    \
    {                                                                                              \
        const Json *value = NULL;                                                                  \
        TRY(json_item(array, i, kind, &value));                                                    \
        *out = of;                                                                                 \
        return OK;                                                                                 \
    }

JSON_ITEM(int, int64_t, JSON_INT, json_as_int(value))
JSON_ITEM(number, double, JSON_NUMBER, json_as_number(value))
JSON_ITEM(text, const char *, JSON_TEXT, value->text)

/* "a, b, c and 4 more" */
static const char *names_text(char *room, size_t n, const char *const *names, int count)
{
    enum { SHOWN = 12 };
    size_t used = 0;
    *room = '\0';
    for (int i = 0; i < count && i < SHOWN && used < n; i++)
        used += (size_t)snprintf(room + used, n - used, "%s%s", i ? ", " : "", names[i]);
    if (count > SHOWN && used < n)
        snprintf(room + used, n - used, " and %d more", count - SHOWN);
    return room;
}

Err json_check_keys(const Json *object, const char *const *known, int n_known)
{
    char list[320];
    if (object->kind != JSON_OBJECT)
        return OK;
    for (uint32_t m = 0; m < object->n; m++) {
        const char *key = object->members[m].key;
        int         i = 0;
        while (i < n_known && strcmp(key, known[i]) != 0)
            i++;
        if (i < n_known)
            continue;
        const char *near = text_nearest(key, known, n_known);
        return json_fail(object, &object->members[m].value,
                         near      ? "unknown key '%.100s', did you mean '%s'?"
                         : n_known ? "unknown key '%.100s'; the keys here are %s"
                                   : "unknown key '%.100s'",
                         key, near ? near : names_text(list, sizeof list, known, n_known));
    }
    return OK;
}
