/* json_build.c -- the tree under construction: its memory, interned keys, the stack of values. */
#include "base/json_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { INDEX_FROM = 12, FIRST_SLOTS = 64, FIRST_BLOCK = 1024, MAX_BLOCK = 64 * 1024 };

void json_build_init(JsonBuild *b, Pool *pool, Pool *temp, const char *name, Err wrong,
                     const char *bytes, size_t n)
{
    *b = (JsonBuild){ .pool = pool,
                      .temp = temp,
                      .start = bytes,
                      .end = bytes + n,
                      .n_slots = FIRST_SLOTS,
                      .block_bytes = FIRST_BLOCK };
    b->keys = NEWN(temp, JsonKey *, b->n_slots);
    b->source = NEW(pool, JsonSource);
    *b->source = (JsonSource){ pool_text(pool, name), wrong };
}

Err json_build_fail(const JsonBuild *b, const char *at, const char *fmt, ...)
{
    char    text[512];
    int     line = 1, column = 1;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    for (const char *p = b->start; p < at; p++) {
        if (*p == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)*p & 0xC0) != 0x80) { /* characters, not bytes */
            column++;
        }
    }
    return fail(E_FORMAT, "%s:%d:%d: %s", b->source->name, line, column, text);
}

/* Memory of the tree, from blocks: the pool would round every allocation up to 16 bytes. */
static char *json_build_alloc(JsonBuild *b, size_t bytes, size_t align)
{
    size_t skip = (size_t)(-(uintptr_t)b->block) & (align - 1);
    if (bytes + skip > b->left) {
        if (bytes > MAX_BLOCK / 4)
            return pool_alloc(b->pool, bytes, 1);
        while (b->block_bytes < bytes)
            b->block_bytes *= 2;
        b->block = pool_alloc(b->pool, b->block_bytes, 1);
        b->left = b->block_bytes;
        if (b->block_bytes < MAX_BLOCK)
            b->block_bytes *= 2;
        skip = 0;
    }
    char *p = b->block + skip;
    b->block += skip + bytes;
    b->left -= skip + bytes;
    return p;
}

const char *json_build_text(JsonBuild *b, const char *bytes, size_t n)
{
    char *text = json_build_alloc(b, n + 1, 1);
    memcpy(text, bytes, n);
    text[n] = '\0';
    return text;
}

uint32_t json_key_hash(const char *bytes, size_t n)
{
    uint64_t hash = n * 0x9E3779B97F4A7C15u;
    for (; n;) {
        uint64_t word = 0;
        size_t   take = n < 8 ? n : 8;
        memcpy(&word, bytes, take);
        hash = (hash ^ word) * 0xD6E8FEB86659FD93u;
        hash ^= hash >> 32;
        bytes += take;
        n -= take;
    }
    return (uint32_t)hash;
}

static JsonKey **json_key_slot(JsonKey **keys, uint32_t n_slots, uint32_t hash, const char *bytes,
                               size_t n)
{
    uint32_t i = hash & (n_slots - 1);
    while (keys[i] &&
           (keys[i]->hash != hash || keys[i]->n != n || memcmp(keys[i]->text, bytes, n) != 0))
        i = (i + 1) & (n_slots - 1);
    return &keys[i];
}

static void json_keys_double(JsonBuild *b)
{
    JsonKey **old = b->keys;
    uint32_t  n_old = b->n_slots;
    b->n_slots *= 2;
    b->keys = NEWN(b->temp, JsonKey *, b->n_slots);
    for (uint32_t i = 0; i < n_old; i++)
        if (old[i])
            *json_key_slot(b->keys, b->n_slots, old[i]->hash, old[i]->text, old[i]->n) = old[i];
}

const char *json_build_key(JsonBuild *b, const char *bytes, size_t n)
{
    uint32_t  hash = json_key_hash(bytes, n);
    JsonKey **slot = json_key_slot(b->keys, b->n_slots, hash, bytes, n);
    if (!*slot) {
        if (2 * ++b->n_keys > b->n_slots) {
            json_keys_double(b);
            slot = json_key_slot(b->keys, b->n_slots, hash, bytes, n);
        }
        JsonKey *key = (JsonKey *)(void *)json_build_alloc(b, sizeof *key + n + 1,
                                                           _Alignof(JsonKey));
        *key = (JsonKey){ .hash = hash, .n = (uint32_t)n };
        memcpy(key->text, bytes, n);
        key->text[n] = '\0';
        *slot = key;
    }
    return (*slot)->text;
}

static JsonKey *json_key_of(const char *text)
{
    return (JsonKey *)(void *)((uintptr_t)text - offsetof(JsonKey, text));
}

void json_build_push(JsonBuild *b, const char *key, const char *key_at, Json value)
{
    if (b->n == b->cap) {
        size_t old = b->cap * sizeof *b->stack;
        b->cap = b->cap ? 2 * b->cap : 64;
        b->stack = pool_grow(b->temp, b->stack, old, b->cap * sizeof *b->stack);
    }
    b->stack[b->n++] = (JsonWaiting){ key, key_at, value };
}

uint32_t json_index_slots(uint32_t n_members)
{
    uint32_t slots = 0;
    if (n_members >= INDEX_FROM)
        for (slots = 16; slots < 2 * (uint64_t)n_members && slots < 1u << 31;)
            slots *= 2;
    return slots;
}

/* Each key remembers the last object that was closed with it, so a key seen twice shows at once. */
static Err json_build_no_twins(JsonBuild *b, const JsonWaiting *waiting, uint32_t n)
{
    uint32_t serial = ++b->n_objects;
    for (uint32_t i = 0; i < n; i++) {
        JsonKey *key = json_key_of(waiting[i].key);
        if (key->last_object == serial)
            return json_build_fail(b, waiting[i].key_at,
                                   "the key '%.100s' is here a second time; "
                                   "keep one of the two",
                                   key->text);
        key->last_object = serial;
    }
    return OK;
}

static void json_build_index(JsonMember *members, uint32_t n, uint32_t *index, uint32_t slots)
{
    for (uint32_t m = 0; m < n; m++) {
        uint32_t i = json_key_of(members[m].key)->hash & (slots - 1);
        while (index[i])
            i = (i + 1) & (slots - 1);
        index[i] = m + 1;
    }
}

Err json_build_close(JsonBuild *b, uint32_t first, Json *out)
{
    const JsonWaiting *waiting = b->stack ? b->stack + first : NULL;
    uint32_t           n = b->n - first, slots = 0;
    size_t             size = sizeof(Json);
    if (out->kind == JSON_OBJECT) {
        TRY(json_build_no_twins(b, waiting, n));
        slots = json_index_slots(n);
        size = sizeof(JsonMember);
    }
    JsonSource **head = (JsonSource **)(void *)json_build_alloc(
        b, sizeof *head + n * size + slots * sizeof(uint32_t), _Alignof(Json));
    *head = b->source;
    if (out->kind == JSON_OBJECT) {
        JsonMember *members = (JsonMember *)(void *)(head + 1);
        for (uint32_t i = 0; i < n; i++)
            members[i] = (JsonMember){ waiting[i].key, waiting[i].value };
        if (slots)
            json_build_index(members, n, (uint32_t *)(void *)(members + n), slots);
        out->members = members;
    } else {
        Json *items = (Json *)(void *)(head + 1);
        for (uint32_t i = 0; i < n; i++)
            items[i] = waiting[i].value;
        out->items = items;
    }
    out->n = n;
    b->n = first;
    return OK;
}

const Json *json_build_root(JsonBuild *b, Json value)
{
    Json *root = NEW(b->pool, Json);
    *root = value;
    return root;
}
