/* pickle.c -- the stack machine of Python's pickles (pickletools.py describes each opcode).
 *
 * Every opcode makes at most one value, and no opcode copies what another made, so that neither
 * time nor memory exceed a multiple of the pickle's length. Nothing recurs.
 */
#include "base/pickle.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/endian.h"
#include "base/json.h"
#include "base/utf8.h"

enum {
    NODES_BLOCK = 512,
    SMALL_INTS = 256,
    MEMO_FIRST = 256,
    ITEMS_MAX = 1 << 30,
    LONG_DIGITS = 128
};

typedef struct PickleIn {
    Pool                *pool, *temp;
    const char          *name;
    const unsigned char *start, *at, *end;
    Pickle             **stack;
    uint32_t             n, cap;
    uint32_t            *marks; /* heights of the stack */
    uint32_t             n_marks, cap_marks;
    Pickle             **memo;
    uint32_t             memo_room, memo_next;
    const Pickle       **persistent;
    int32_t              n_persistent, cap_persistent;
    Pickle              *block; /* values to be used */
    uint32_t             block_left;
    Pickle              *none, *truth[2], *small[SMALL_INTS];
} PickleIn;

static Err pickle_wrong(const PickleIn *in, const char *what)
{
    return fail(E_FORMAT, "%s: %s at byte %td; this is not a pickle that can be read", in->name,
                what, in->at - in->start);
}

/* ---- values ---- */

static Pickle *pickle_new(PickleIn *in, PickleKind kind)
{
    if (!in->block_left) {
        in->block = NEWN(in->pool, Pickle, NODES_BLOCK);
        in->block_left = NODES_BLOCK;
    }
    in->block_left--;
    Pickle *value = in->block++;
    value->kind = kind;
    return value;
}

static void *pickle_wider(PickleIn *in, void *list, uint32_t *cap, size_t size)
{
    uint32_t room = *cap ? 2 * *cap : 64;
    void    *wide = pool_grow(in->temp, list, *cap * size, room * size);
    *cap = room;
    return wide;
}

static void pickle_push(PickleIn *in, Pickle *value)
{
    if (in->n == in->cap)
        in->stack = pickle_wider(in, in->stack, &in->cap, sizeof *in->stack);
    in->stack[in->n++] = value;
}

static Pickle *pickle_shared(PickleIn *in, Pickle **slot, PickleKind kind, int64_t integer)
{
    if (!*slot) {
        *slot = pickle_new(in, kind);
        (*slot)->integer = integer;
    }
    return *slot;
}

static Pickle *pickle_int(PickleIn *in, int64_t integer)
{
    if (integer >= 0 && integer < SMALL_INTS)
        return pickle_shared(in, &in->small[integer], PICKLE_INT, integer);
    Pickle *value = pickle_new(in, PICKLE_INT);
    value->integer = integer;
    return value;
}

static Pickle *pickle_bool(PickleIn *in, bool truth)
{
    return pickle_shared(in, &in->truth[truth], PICKLE_BOOL, truth);
}

/* Little endian, two's complement, any length. */
static Pickle *pickle_long(PickleIn *in, const unsigned char *bytes, size_t n)
{
    bool minus = n && bytes[n - 1] & 0x80;
    while (n > 1 && bytes[n - 1] == (minus ? 0xFF : 0) &&
           (bytes[n - 2] & 0x80) == (minus ? 0x80 : 0))
        n--;
    if (n <= 8) {
        uint64_t integer = minus ? UINT64_MAX : 0;
        for (size_t i = n; i-- > 0;)
            integer = integer << 8 | bytes[i];
        return pickle_int(in, (int64_t)integer);
    }
    Pickle *value = pickle_new(in, PICKLE_BIG);
    value->bytes = pool_textn(in->pool, (const char *)bytes, n);
    value->n = (uint32_t)n;
    return value;
}

static Pickle *pickle_float(PickleIn *in, double number)
{
    Pickle *value = pickle_new(in, PICKLE_FLOAT);
    value->number = number;
    return value;
}

static Pickle *pickle_bytes(PickleIn *in, PickleKind kind, const void *bytes, size_t n)
{
    if (kind == PICKLE_TEXT && json_utf8_bytes(bytes, n) != n)
        kind = PICKLE_BYTES;
    Pickle *value = pickle_new(in, kind);
    char   *copy = pool_alloc(in->pool, n + 1, 1);
    memcpy(copy, bytes, n);
    value->bytes = copy;
    value->n = (uint32_t)n;
    return value;
}

static void pickle_add(PickleIn *in, Pickle *to, Pickle *const *values, uint32_t n)
{
    if (to->n + n > to->cap) {
        uint32_t room = to->n + n;
        if (to->cap && room < 2 * to->cap)
            room = 2 * to->cap;
        to->items = pool_grow(in->pool, (void *)(uintptr_t)to->items, to->n * sizeof *to->items,
                              room * sizeof *to->items);
        to->cap = room;
    }
    for (uint32_t i = 0; i < n; i++)
        to->items[to->n + i] = values[i];
    to->n += n;
}

static Pickle *pickle_sequence(PickleIn *in, PickleKind kind, uint32_t from)
{
    Pickle *value = pickle_new(in, kind);
    if (in->n > from)
        pickle_add(in, value, in->stack + from, in->n - from);
    in->n = from;
    return value;
}

/* ---- the input ---- */

static Err pickle_need(PickleIn *in, uint64_t n)
{
    return n <= (uint64_t)(in->end - in->at) ? OK : pickle_wrong(in, "it ends early");
}

/* A length of 1, 4 or 8 bytes, and as many bytes as it says. */
static Err pickle_counted(PickleIn *in, int width, const unsigned char **bytes, size_t *n)
{
    TRY(pickle_need(in, (uint64_t)width));
    uint64_t length = little_get(in->at, width);
    in->at += width;
    TRY(pickle_need(in, length));
    if (length > ITEMS_MAX)
        return pickle_wrong(in, "a text is too long");
    *bytes = in->at;
    *n = (size_t)length;
    in->at += length;
    return OK;
}

/* Up to the end of the line, without it. */
static Err pickle_line(PickleIn *in, const char **text, size_t *n)
{
    const unsigned char *end = memchr(in->at, '\n', (size_t)(in->end - in->at));
    if (!end)
        return pickle_wrong(in, "it ends early");
    *text = (const char *)in->at;
    *n = (size_t)(end - in->at);
    if (*n > ITEMS_MAX)
        return pickle_wrong(in, "a text is too long");
    in->at = end + 1;
    return OK;
}

static Err pickle_top(PickleIn *in, uint32_t n) /* n values, none below the last mark */
{
    uint32_t floor = in->n_marks ? in->marks[in->n_marks - 1] : 0;
    return in->n - floor >= n ? OK : pickle_wrong(in, "too few values on the stack");
}

static Err pickle_mark(PickleIn *in, uint32_t *from)
{
    if (!in->n_marks)
        return pickle_wrong(in, "a mark is missing");
    *from = in->marks[--in->n_marks];
    return OK;
}

/* ---- the memo ---- */

static Err memo_put(PickleIn *in, uint64_t index)
{
    TRY(pickle_top(in, 1));
    /* picklers count from 0, so that no number exceeds the pickle's bytes */
    if (index > (uint64_t)(in->end - in->start) || index >= ITEMS_MAX)
        return pickle_wrong(in, "a memo number is too large");
    if (index >= in->memo_room) {
        uint32_t room = in->memo_room ? in->memo_room : MEMO_FIRST;
        while (room <= index)
            room *= 2;
        in->memo = pool_grow(in->temp, in->memo, in->memo_room * sizeof *in->memo,
                             room * sizeof *in->memo);
        in->memo_room = room;
    }
    in->memo[index] = in->stack[in->n - 1];
    in->memo_next++;
    return OK;
}

static Err memo_get(PickleIn *in, uint64_t index)
{
    if (index >= in->memo_room || !in->memo[index])
        return pickle_wrong(in, "a memo number that was never set");
    pickle_push(in, in->memo[index]);
    return OK;
}

/* Decimal digits beyond int64, as bytes in two's complement. */
static Err line_long(PickleIn *in, const char *digits, size_t n)
{
    unsigned char bytes[LONG_DIGITS] = { 0 }; /* a digit needs less than a byte */
    bool          minus = n && *digits == '-';
    for (size_t i = minus; i < n; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return pickle_wrong(in, "a number that is none");
        unsigned carry = (unsigned)(digits[i] - '0');
        for (size_t k = 0; k < sizeof bytes; k++) {
            carry += bytes[k] * 10u;
            bytes[k] = (unsigned char)carry;
            carry >>= 8;
        }
    }
    unsigned carry = 1;
    for (size_t k = 0; minus && k < sizeof bytes; k++) {
        carry += (unsigned char)~bytes[k];
        bytes[k] = (unsigned char)carry;
        carry >>= 8;
    }
    pickle_push(in, pickle_long(in, bytes, sizeof bytes));
    return OK;
}

/* A decimal number on a line; 01 and 00 are what protocol 0 writes for True and False. */
static Err line_int(PickleIn *in, bool truths)
{
    const char *text = NULL;
    size_t      n = 0;
    char        copy[LONG_DIGITS], *end;
    TRY(pickle_line(in, &text, &n));
    if (n && text[n - 1] == 'L')
        n--;
    if (truths && n == 2 && text[0] == '0' && (text[1] == '0' || text[1] == '1')) {
        pickle_push(in, pickle_bool(in, text[1] == '1'));
        return OK;
    }
    if (n >= sizeof copy)
        return pickle_wrong(in, "a number is too long");
    memcpy(copy, text, n);
    copy[n] = '\0';
    errno = 0;
    long long integer = strtoll(copy, &end, 10);
    if (errno == ERANGE)
        return line_long(in, copy, n);
    if (!n || *end || errno)
        return pickle_wrong(in, "a number that is none");
    pickle_push(in, pickle_int(in, integer));
    return OK;
}

static Err line_memo(PickleIn *in, bool put)
{
    TRY(line_int(in, false));
    const Pickle *number = in->stack[--in->n];
    if (number->kind != PICKLE_INT || number->integer < 0)
        return pickle_wrong(in, "a memo number is negative");
    return put ? memo_put(in, (uint64_t)number->integer) : memo_get(in, (uint64_t)number->integer);
}

static Err line_float(PickleIn *in)
{
    const char *text = NULL;
    size_t      n = 0;
    char        copy[64], *end;
    TRY(pickle_line(in, &text, &n));
    if (!n || n >= sizeof copy)
        return pickle_wrong(in, "a number that is none");
    memcpy(copy, text, n);
    copy[n] = '\0';
    double number = strtod(copy, &end);
    if (*end)
        return pickle_wrong(in, "a number that is none");
    pickle_push(in, pickle_float(in, number));
    return OK;
}

/* Protocol 0: raw-unicode-escape (only \uXXXX and \UXXXXXXXX; other bytes are Latin-1), or the text
 * between quotes of STRING with Python's escapes. */
static Err line_text(PickleIn *in, bool quoted)
{
    const char *text = NULL, *end;
    size_t      n = 0;
    TRY(pickle_line(in, &text, &n));
    if (quoted) {
        if (n < 2 || (text[0] != '\'' && text[0] != '"') || text[n - 1] != text[0])
            return pickle_wrong(in, "a text without quotes");
        text++;
        n -= 2;
    }
    end = text + n;
    char *plain = pool_alloc(in->temp, 2 * n + 1, 1), *to = plain;
    for (const char *p = text; p < end;) {
        static const char names[] = "\\'\"nrtabfv", values[] = "\\'\"\n\r\t\a\b\f\v";
        const char       *name = p + 1 < end && p[1] ? strchr(names, p[1]) : NULL;
        int64_t           code = -1;
        int               wide = 0;
        if (*p == '\\' && p + 1 < end) {
            wide = !quoted && p[1] == 'u' ? 4 : !quoted && p[1] == 'U' ? 8 : 0;
            wide = quoted && p[1] == 'x' ? 2 : wide;
            code = wide ? hex_number(p + 2, end, wide) : -1;
        }
        if (wide && (code < 0 || code > 0x10FFFF))
            return pickle_wrong(in, "an escape in a text is damaged");
        if (wide) {
            to = wide == 2 ? (*to = (char)code, to + 1) : to + utf8_put((uint32_t)code, to);
            p += 2 + wide;
        } else if (quoted && *p == '\\' && name) {
            *to++ = values[name - names];
            p += 2;
        } else if (quoted || (unsigned char)*p < 0x80) {
            *to++ = *p++;
        } else {
            to += utf8_put((unsigned char)*p++, to);
        }
    }
    pickle_push(in, pickle_bytes(in, PICKLE_TEXT, plain, (size_t)(to - plain)));
    return OK;
}

/* ---- opcodes ---- */

static Pickle *pickle_global(PickleIn *in, const char *module, size_t n_module, const char *name,
                             size_t n_name)
{
    char *text = pool_alloc(in->temp, n_module + n_name + 1, 1);
    memcpy(text, module, n_module);
    text[n_module] = ' ';
    memcpy(text + n_module + 1, name, n_name);
    return pickle_bytes(in, PICKLE_GLOBAL, text, n_module + 1 + n_name);
}

static Err op_global(PickleIn *in)
{
    const char *module = NULL, *name = NULL;
    size_t      n_module = 0, n_name = 0;
    TRY(pickle_line(in, &module, &n_module));
    TRY(pickle_line(in, &name, &n_name));
    pickle_push(in, pickle_global(in, module, n_module, name, n_name));
    return OK;
}

static Err op_stack_global(PickleIn *in)
{
    TRY(pickle_top(in, 2));
    const Pickle *module = in->stack[in->n - 2], *name = in->stack[in->n - 1];
    if (module->kind != PICKLE_TEXT || name->kind != PICKLE_TEXT)
        return pickle_wrong(in, "the name of a global is no text");
    in->n -= 2;
    pickle_push(in, pickle_global(in, module->bytes, module->n, name->bytes, name->n));
    return OK;
}

static Pickle *pickle_call(PickleIn *in, const Pickle *callable, const Pickle *args)
{
    Pickle *value = pickle_new(in, PICKLE_CALL);
    value->call = NEW(in->pool, PickleCall);
    value->call->callable = callable;
    value->call->args = args;
    return value;
}

/* REDUCE, NEWOBJ: callable, args; NEWOBJ_EX: with keyword arguments, which become the state. */
static Err op_call(PickleIn *in, uint32_t n)
{
    TRY(pickle_top(in, n));
    in->n -= n;
    Pickle *value = pickle_call(in, in->stack[in->n], in->stack[in->n + 1]);
    if (n == 3)
        value->call->state = in->stack[in->n + 2];
    pickle_push(in, value);
    return OK;
}

/* INST: the class is named here; OBJ: it is the first value after the mark. */
static Err op_instance(PickleIn *in, bool named)
{
    uint32_t from = 0;
    if (named)
        TRY(op_global(in));
    Pickle *callable = named ? in->stack[--in->n] : NULL;
    TRY(pickle_mark(in, &from));
    if (!named) {
        if (in->n == from)
            return pickle_wrong(in, "the class of an object is missing");
        callable = in->stack[from++];
    }
    Pickle *args = pickle_sequence(in, PICKLE_TUPLE, from);
    in->n -= !named;
    pickle_push(in, pickle_call(in, callable, args));
    return OK;
}

/* The list or dict that takes what is appended to or set in a value. */
static Pickle *pickle_filled(PickleIn *in, Pickle *value, PickleKind kind)
{
    if (value->kind == kind)
        return value;
    if (value->kind != PICKLE_CALL)
        return NULL;
    const Pickle **slot = kind == PICKLE_DICT ? &value->call->dict : &value->call->list;
    if (!*slot)
        *slot = pickle_new(in, kind);
    return (Pickle *)(uintptr_t)*slot;
}

/* Everything above `from` goes into the value below it. */
static Err op_fill(PickleIn *in, PickleKind kind, uint32_t from)
{
    uint32_t n = in->n - from;
    in->n = from;
    TRY(pickle_top(in, 1));
    Pickle *to = pickle_filled(in, in->stack[from - 1], kind);
    if (!to)
        return pickle_wrong(in, "something is put into what holds nothing");
    if (kind == PICKLE_DICT && n % 2)
        return pickle_wrong(in, "a key without a value");
    pickle_add(in, to, in->stack + from, n);
    return OK;
}

static Err op_fill_marked(PickleIn *in, PickleKind kind)
{
    uint32_t from = 0;
    TRY(pickle_mark(in, &from));
    return op_fill(in, kind, from);
}

static Err op_build(PickleIn *in)
{
    TRY(pickle_top(in, 2));
    Pickle *state = in->stack[--in->n], *value = in->stack[in->n - 1];
    if (value->kind == PICKLE_CALL)
        value->call->state = state;
    else if (value->kind != PICKLE_PERSISTENT && value->kind != PICKLE_GLOBAL)
        return pickle_wrong(in, "a state for what has none");
    return OK;
}

static Err op_marked(PickleIn *in, PickleKind kind)
{
    uint32_t from = 0;
    TRY(pickle_mark(in, &from));
    if (kind == PICKLE_DICT && (in->n - from) % 2)
        return pickle_wrong(in, "a key without a value");
    pickle_push(in, pickle_sequence(in, kind, from));
    return OK;
}

static Err op_tuple(PickleIn *in, uint32_t n)
{
    TRY(pickle_top(in, n));
    pickle_push(in, pickle_sequence(in, PICKLE_TUPLE, in->n - n));
    return OK;
}

static Err op_pop(PickleIn *in)
{
    if (in->n_marks && in->marks[in->n_marks - 1] == in->n)
        in->n_marks--; /* the mark itself is on top */
    else if (in->n)
        in->n--;
    else
        return pickle_wrong(in, "too few values on the stack");
    return OK;
}

static Err op_persistent(PickleIn *in, bool line)
{
    const char *text = NULL;
    size_t      n = 0;
    if (line) {
        TRY(pickle_line(in, &text, &n));
        pickle_push(in, pickle_bytes(in, PICKLE_TEXT, text, n));
    }
    TRY(pickle_top(in, 1));
    Pickle *value = pickle_sequence(in, PICKLE_PERSISTENT, in->n - 1);
    VEC_ADD(in->pool, in->persistent, in->n_persistent, in->cap_persistent, value);
    pickle_push(in, value);
    return OK;
}

static Err op_bytes(PickleIn *in, PickleKind kind, int width)
{
    const unsigned char *bytes = NULL;
    size_t               n = 0;
    TRY(pickle_counted(in, width, &bytes, &n));
    pickle_push(in, pickle_bytes(in, kind, bytes, n));
    return OK;
}

static Err op_long(PickleIn *in, int width)
{
    const unsigned char *bytes = NULL;
    size_t               n = 0;
    TRY(pickle_counted(in, width, &bytes, &n));
    pickle_push(in, pickle_long(in, bytes, n));
    return OK;
}

static Err op_int(PickleIn *in, int width)
{
    TRY(pickle_need(in, (uint64_t)width));
    uint64_t number = little_get(in->at, width);
    in->at += width;
    pickle_push(in, pickle_int(in, width == 4 ? (int32_t)(uint32_t)number : (int64_t)number));
    return OK;
}

static Err op_float(PickleIn *in)
{
    TRY(pickle_need(in, 8));
    uint64_t bits = big_get(in->at, 8); /* highest byte first, unlike everything else */
    double   number;
    memcpy(&number, &bits, 8);
    in->at += 8;
    pickle_push(in, pickle_float(in, number));
    return OK;
}

static Err op_memo(PickleIn *in, int width, bool put)
{
    TRY(pickle_need(in, (uint64_t)width));
    uint64_t index = little_get(in->at, width);
    in->at += width;
    return put ? memo_put(in, index) : memo_get(in, index);
}

static Err op_skip(PickleIn *in, int n) /* the protocol's number; the length of a frame */
{
    TRY(pickle_need(in, (uint64_t)n));
    in->at += n;
    return OK;
}

static Err op_mark(PickleIn *in)
{
    if (in->n_marks == in->cap_marks)
        in->marks = pickle_wider(in, in->marks, &in->cap_marks, sizeof *in->marks);
    in->marks[in->n_marks++] = in->n;
    return OK;
}

static Err op_value(PickleIn *in, Pickle *value)
{
    pickle_push(in, value);
    return OK;
}

static Err op_drop_marked(PickleIn *in) { return pickle_mark(in, &in->n); }

static Err op_dup(PickleIn *in)
{
    TRY(pickle_top(in, 1));
    pickle_push(in, in->stack[in->n - 1]);
    return OK;
}

static Err pickle_op(PickleIn *in, unsigned char op)
{
    switch (op) {
    case 0x80: return op_skip(in, 1); /* PROTO */
    case 0x95: return op_skip(in, 8); /* FRAME */
    case '(': return op_mark(in);
    case '0': return op_pop(in);
    case '1': return op_drop_marked(in);
    case '2': return op_dup(in);
    case 'N': return op_value(in, pickle_shared(in, &in->none, PICKLE_NONE, 0));
    case 0x88: return op_value(in, pickle_bool(in, true));
    case 0x89: return op_value(in, pickle_bool(in, false));
    case 'I': return line_int(in, true);
    case 'L': return line_int(in, false);
    case 'F': return line_float(in);
    case 'K': return op_int(in, 1);
    case 'M': return op_int(in, 2);
    case 'J': return op_int(in, 4);
    case 0x8a: return op_long(in, 1);
    case 0x8b: return op_long(in, 4);
    case 'G': return op_float(in);
    case 'S': return line_text(in, true);
    case 'V': return line_text(in, false);
    case 'U': return op_bytes(in, PICKLE_TEXT, 1);
    case 'T': return op_bytes(in, PICKLE_TEXT, 4);
    case 0x8c: return op_bytes(in, PICKLE_TEXT, 1);
    case 'X': return op_bytes(in, PICKLE_TEXT, 4);
    case 0x8d: return op_bytes(in, PICKLE_TEXT, 8);
    case 'C': return op_bytes(in, PICKLE_BYTES, 1);
    case 'B': return op_bytes(in, PICKLE_BYTES, 4);
    case 0x8e:
    case 0x96: return op_bytes(in, PICKLE_BYTES, 8);
    case ')': return op_tuple(in, 0);
    case 0x85: return op_tuple(in, 1);
    case 0x86: return op_tuple(in, 2);
    case 0x87: return op_tuple(in, 3);
    case 't': return op_marked(in, PICKLE_TUPLE);
    case ']': return op_value(in, pickle_new(in, PICKLE_LIST));
    case 'l': return op_marked(in, PICKLE_LIST);
    case '}': return op_value(in, pickle_new(in, PICKLE_DICT));
    case 'd': return op_marked(in, PICKLE_DICT);
    case 0x8f: return op_value(in, pickle_new(in, PICKLE_SET));
    case 0x91: return op_marked(in, PICKLE_SET);
    case 'a': TRY(pickle_top(in, 2)); return op_fill(in, PICKLE_LIST, in->n - 1);
    case 'e': return op_fill_marked(in, PICKLE_LIST);
    case 's': TRY(pickle_top(in, 3)); return op_fill(in, PICKLE_DICT, in->n - 2);
    case 'u': return op_fill_marked(in, PICKLE_DICT);
    case 0x90: return op_fill_marked(in, PICKLE_SET);
    case 'c': return op_global(in);
    case 0x93: return op_stack_global(in);
    case 'R':
    case 0x81: return op_call(in, 2);
    case 0x92: return op_call(in, 3);
    case 'i': return op_instance(in, true);
    case 'o': return op_instance(in, false);
    case 'b': return op_build(in);
    case 'P': return op_persistent(in, true);
    case 'Q': return op_persistent(in, false);
    case 'p': return line_memo(in, true);
    case 'q': return op_memo(in, 1, true);
    case 'r': return op_memo(in, 4, true);
    case 0x94: return memo_put(in, in->memo_next);
    case 'g': return line_memo(in, false);
    case 'h': return op_memo(in, 1, false);
    case 'j': return op_memo(in, 4, false);
    case 0x82:
    case 0x83:
    case 0x84: return pickle_wrong(in, "an extension code, which only the writer knows,");
    case 0x97:
    case 0x98: return pickle_wrong(in, "a buffer outside of the pickle");
    default: return pickle_wrong(in, "an unknown opcode");
    }
}

static Err pickle_run(PickleIn *in, const Pickle **out)
{
    for (;;) {
        TRY(pickle_need(in, 1));
        unsigned char op = *in->at++;
        if (op == '.')
            break;
        TRY(pickle_op(in, op));
    }
    TRY(pickle_top(in, 1));
    *out = in->stack[in->n - 1];
    return OK;
}

Err pickle_parse(Pool *pool, const char *name, const void *bytes, size_t n, PickleTree *out)
{
    PickleIn in = { .pool = pool,
                    .name = name,
                    .start = bytes,
                    .at = bytes,
                    .end = (const unsigned char *)bytes + n };
    if (n > UINT32_MAX)
        return fail(E_FORMAT, "%s: %zu bytes are more than 4 GiB, the limit for a pickle", name, n);
    *out = (PickleTree){ 0 };
    in.temp = pool_new(NULL, "pickle workspace");
    Err err = pickle_run(&in, &out->root);
    pool_free(in.temp);
    out->bytes = (size_t)(in.at - in.start);
    out->persistent = in.persistent;
    out->n_persistent = in.n_persistent;
    return err;
}

/* ---- asking ---- */

bool pickle_is_global(const Pickle *value, const char *name)
{
    return value && value->kind == PICKLE_GLOBAL && value->n == strlen(name) &&
           !memcmp(value->bytes, name, value->n);
}

bool pickle_is_text(const Pickle *value, const char *text)
{
    return value && value->kind == PICKLE_TEXT && !strcmp(value->bytes, text);
}

const Pickle *pickle_dict(const Pickle *value)
{
    if (value && value->kind == PICKLE_DICT)
        return value;
    return value && value->kind == PICKLE_CALL ? value->call->dict : NULL;
}

const Pickle *pickle_get(const Pickle *value, const char *key)
{
    const Pickle *dict = pickle_dict(value), *found = NULL;
    for (uint32_t i = 0; dict && i + 1 < dict->n; i += 2)
        if (pickle_is_text(dict->items[i], key))
            found = dict->items[i + 1]; /* of a key that is set twice, the last one counts */
    return found;
}

const Pickle *pickle_item(const Pickle *value, uint32_t i)
{
    bool list = value && (value->kind == PICKLE_TUPLE || value->kind == PICKLE_LIST);
    return list && i < value->n ? value->items[i] : NULL;
}
