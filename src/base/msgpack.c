/* msgpack.c -- the reader follows the first byte of each value; lengths are big endian. */
#include "base/msgpack.h"

#include "base/endian.h"

#include <string.h>

typedef struct MsgIn {
    Pool                *pool;
    const char          *name;
    const unsigned char *start, *at, *end;
} MsgIn;

static Err msg_wrong(const MsgIn *in, const char *what)
{
    return fail(E_FORMAT, "%s: %s at byte %td; this is not MessagePack that can be read", in->name,
                what, in->at - in->start);
}

static Err msg_number(MsgIn *in, int width, uint64_t *out)
{
    if (in->end - in->at < width)
        return msg_wrong(in, "it ends early");
    *out = big_get(in->at, width);
    in->at += width;
    return OK;
}

static Err msg_bytes(MsgIn *in, MsgKind kind, size_t n, MsgPack *out)
{
    if (n > (size_t)(in->end - in->at))
        return msg_wrong(in, "it ends early");
    out->kind = kind;
    out->n = n;
    out->bytes = in->at;
    in->at += n;
    return OK;
}

static Err msg_value(MsgIn *in, int depth, MsgPack *out);

static Err msg_items(MsgIn *in, MsgKind kind, uint64_t n, int depth, MsgPack *out)
{
    MsgPack *items = NULL;
    int32_t  n_items = 0, cap = 0;
    uint64_t count = kind == MSG_MAP ? 2 * n : n;
    if (depth == MSGPACK_DEPTH)
        return msg_wrong(in, "values are nested too deeply");
    if (count > (uint64_t)(in->end - in->at) || count > INT32_MAX / 2)
        return msg_wrong(in, "it ends early");
    for (uint64_t i = 0; i < count; i++) {
        MsgPack item;
        TRY(msg_value(in, depth + 1, &item));
        VEC_ADD(in->pool, items, n_items, cap, item);
    }
    *out = (MsgPack){ .kind = kind, .n = (size_t)count, .items = items };
    return OK;
}

static Err msg_counted(MsgIn *in, MsgKind kind, int width, int depth, MsgPack *out)
{
    uint64_t n = 0;
    TRY(msg_number(in, width, &n));
    if (kind == MSG_ARRAY || kind == MSG_MAP)
        return msg_items(in, kind, n, depth, out);
    return msg_bytes(in, kind, (size_t)n, out);
}

static Err msg_extension(MsgIn *in, uint64_t n, MsgPack *out)
{
    uint64_t type = 0;
    TRY(msg_number(in, 1, &type));
    out->ext = (int8_t)type;
    return msg_bytes(in, MSG_EXT, (size_t)n, out);
}

static Err msg_whole(MsgIn *in, int width, bool sign, MsgPack *out)
{
    uint64_t raw = 0;
    TRY(msg_number(in, width, &raw));
    if (sign && width < 8 && raw >> (8 * width - 1))
        raw |= UINT64_MAX << (8 * width);
    if (!sign && raw > INT64_MAX)
        *out = (MsgPack){ .kind = MSG_NUMBER, .number = (double)raw };
    else
        *out = (MsgPack){ .kind = MSG_INT, .integer = (int64_t)raw };
    return OK;
}

static Err msg_float(MsgIn *in, int width, MsgPack *out)
{
    uint64_t raw = 0;
    float    narrow;
    TRY(msg_number(in, width, &raw));
    uint32_t raw32 = (uint32_t)raw;
    *out = (MsgPack){ .kind = MSG_NUMBER };
    memcpy(&narrow, &raw32, 4);
    if (width == 4)
        out->number = narrow;
    else
        memcpy(&out->number, &raw, 8);
    return OK;
}

/* First bytes from 0xc0 to 0xdf. */
static Err msg_marked(MsgIn *in, unsigned mark, int depth, MsgPack *out)
{
    uint64_t n = 0;
    switch (mark) {
    case 0xc0: *out = (MsgPack){ .kind = MSG_NIL }; return OK;
    case 0xc2:
    case 0xc3: *out = (MsgPack){ .kind = MSG_BOOL, .integer = mark & 1 }; return OK;
    case 0xc4:
    case 0xc5:
    case 0xc6: return msg_counted(in, MSG_BYTES, 1 << (mark - 0xc4), depth, out);
    case 0xc7:
    case 0xc8:
    case 0xc9: TRY(msg_number(in, 1 << (mark - 0xc7), &n)); return msg_extension(in, n, out);
    case 0xca:
    case 0xcb: return msg_float(in, mark == 0xca ? 4 : 8, out);
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf: return msg_whole(in, 1 << (mark - 0xcc), false, out);
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3: return msg_whole(in, 1 << (mark - 0xd0), true, out);
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8: return msg_extension(in, 1u << (mark - 0xd4), out);
    case 0xd9:
    case 0xda:
    case 0xdb: return msg_counted(in, MSG_TEXT, 1 << (mark - 0xd9), depth, out);
    case 0xdc:
    case 0xdd: return msg_counted(in, MSG_ARRAY, mark == 0xdc ? 2 : 4, depth, out);
    case 0xde:
    case 0xdf: return msg_counted(in, MSG_MAP, mark == 0xde ? 2 : 4, depth, out);
    default: return msg_wrong(in, "an unknown first byte of a value");
    }
}

static Err msg_value(MsgIn *in, int depth, MsgPack *out)
{
    uint64_t mark = 0;
    *out = (MsgPack){ 0 };
    TRY(msg_number(in, 1, &mark));
    if (mark < 0x80 || mark >= 0xe0) {
        *out = (MsgPack){ .kind = MSG_INT, .integer = (int8_t)mark };
        return OK;
    }
    if (mark < 0x90)
        return msg_items(in, MSG_MAP, mark & 15, depth, out);
    if (mark < 0xa0)
        return msg_items(in, MSG_ARRAY, mark & 15, depth, out);
    if (mark < 0xc0)
        return msg_bytes(in, MSG_TEXT, mark & 31, out);
    return msg_marked(in, (unsigned)mark, depth, out);
}

Err msgpack_parse(Pool *pool, const char *name, const void *bytes, size_t n, MsgPack *out)
{
    const unsigned char *start = bytes;
    MsgIn                in = { pool, name, start, start, start + n };
    TRY(msg_value(&in, 0, out));
    return in.at == in.end ? OK : msg_wrong(&in, "something follows the value");
}

bool msgpack_is_text(const MsgPack *value, const char *text)
{
    return (value->kind == MSG_TEXT || value->kind == MSG_BYTES) && value->n == strlen(text) &&
           !memcmp(value->bytes, text, value->n);
}

const MsgPack *msgpack_get(const MsgPack *map, const char *key)
{
    for (size_t i = 0; map->kind == MSG_MAP && i < map->n; i += 2)
        if (msgpack_is_text(&map->items[i], key))
            return &map->items[i + 1];
    return NULL;
}

/* ---- writing ---- */

static size_t msg_put(unsigned char *to, unsigned mark, int width, uint64_t number)
{
    *to++ = (unsigned char)mark;
    big_put(to, number, width);
    return (size_t)width + 1;
}

/* The shortest form: `few` with counts below `n_few`, else a mark for 1, 2 or 4 bytes (0: none). */
static size_t msg_length(unsigned char *to, size_t n, unsigned few, size_t n_few,
                         const unsigned char marks[3])
{
    if (n < n_few)
        return msg_put(to, few | (unsigned)n, 0, 0);
    if (marks[0] && n < 256)
        return msg_put(to, marks[0], 1, n);
    if (n < 65536)
        return msg_put(to, marks[1], 2, n);
    REQUIRE(n <= UINT32_MAX);
    return msg_put(to, marks[2], 4, n);
}

size_t msgpack_head(unsigned char *to, MsgKind kind, size_t n)
{
    static const unsigned char bytes[] = { 0xc4, 0xc5, 0xc6 }, text[] = { 0xd9, 0xda, 0xdb },
                               array[] = { 0, 0xdc, 0xdd }, map[] = { 0, 0xde, 0xdf };
    switch (kind) {
    case MSG_TEXT: return msg_length(to, n, 0xa0, 32, text);
    case MSG_BYTES: return msg_length(to, n, 0, 0, bytes);
    case MSG_ARRAY: return msg_length(to, n, 0x90, 16, array);
    case MSG_MAP: return msg_length(to, n, 0x80, 16, map);
    default: REQUIRE(kind == MSG_NIL); return msg_put(to, 0xc0, 0, 0);
    }
}

size_t msgpack_ext(unsigned char *to, int type, size_t n)
{
    static const unsigned char marks[] = { 0xc7, 0xc8, 0xc9 };
    size_t                     head = 0;
    for (unsigned k = 0; k < 5 && !head; k++)
        if (n == (size_t)1 << k)
            head = msg_put(to, 0xd4 + k, 0, 0);
    if (!head)
        head = msg_length(to, n, 0, 0, marks);
    to[head] = (unsigned char)type;
    return head + 1;
}

size_t msgpack_int(unsigned char *to, uint64_t integer)
{
    if (integer < 128)
        return msg_put(to, (unsigned)integer, 0, 0);
    int power = integer < 256 ? 0 : integer < 65536 ? 1 : integer <= UINT32_MAX ? 2 : 3;
    return msg_put(to, 0xcc + (unsigned)power, 1 << power, integer);
}
