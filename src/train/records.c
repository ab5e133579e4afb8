/* records.c -- frames records, and reads what was written: the framing, and the head of an event. */
#include "train/records.h"

#include "base/crc32.h"
#include "base/endian.h"

/* A check that is stored beside its data is masked, so that a check of both is not trivial. */
static uint32_t masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282EAD8u; }

void record_head(unsigned char head[RECORD_HEAD], uint64_t length)
{
    little_put(head, length, 8);
    little_put(head + 8, masked(crc32c_add(0, head, 8)), 4);
}

void record_tail(unsigned char tail[RECORD_TAIL], uint32_t crc)
{
    little_put(tail, masked(crc), 4);
}

bool record_next(const unsigned char *bytes, size_t n, size_t *at, Record *record)
{
    size_t left = n - *at;
    if (left < RECORD_HEAD + RECORD_TAIL)
        return false;
    const unsigned char *head = bytes + *at;
    uint64_t             length = little_get(head, 8);
    if (length > left - RECORD_HEAD - RECORD_TAIL ||
        little_get(head + 8, 4) != masked(crc32c_add(0, head, 8)))
        return false;
    *record = (Record){ head + RECORD_HEAD, (size_t)length };
    if (little_get(record->data + length, 4) != masked(crc32c_add(0, record->data, record->n)))
        return false;
    *at += RECORD_HEAD + record->n + RECORD_TAIL;
    return true;
}

/* ---- protocol buffers, as far as an event needs them ---- */

typedef struct Proto {
    const unsigned char *at, *end;
    bool                 bad;
} Proto;

enum { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_32 = 5 };

static uint64_t proto_varint(Proto *p)
{
    uint64_t number = 0;
    for (int shift = 0; shift < 64 && p->at < p->end; shift += 7) {
        unsigned char byte = *p->at++;
        number |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return number;
    }
    p->bad = true;
    return 0;
}

/* The next field and, for WIRE_BYTES, what it holds. False at the end, or where it is damaged. */
static bool proto_next(Proto *p, uint64_t *field, uint64_t *number, Proto *inside)
{
    if (p->at == p->end || p->bad)
        return false;
    uint64_t tag = proto_varint(p), left = (uint64_t)(p->end - p->at);
    int      wire = (int)(tag & 7);
    uint64_t n = wire == WIRE_64 ? 8 : wire == WIRE_32 ? 4 : 0;
    *field = tag >> 3;
    *number = wire == WIRE_VARINT || wire == WIRE_BYTES ? proto_varint(p) : 0;
    if (wire == WIRE_BYTES) {
        n = *number;
        left = (uint64_t)(p->end - p->at);
    }
    p->bad |= n > left || wire == 3 || wire == 4 || wire > WIRE_32;
    if (p->bad)
        return false;
    *inside = (Proto){ .at = p->at, .end = p->at + n };
    p->at += n;
    return true;
}

static bool proto_find(Proto *p, uint64_t wanted, Proto *inside) /* the first such field */
{
    uint64_t field, number;
    while (proto_next(p, &field, &number, inside))
        if (field == wanted)
            return true;
    return false;
}

bool event_head(const Record *record, EventHead *head)
{
    Proto    event = { record->data, record->data + record->n, false }, inside, value, tag;
    uint64_t field, number;
    *head = (EventHead){ 0 };
    while (proto_next(&event, &field, &number, &inside)) {
        if (field == 2)
            head->step = (int64_t)number;
        if (field == 5 && !head->tag && proto_find(&inside, 1, &value) &&
            proto_find(&value, 1, &tag)) {
            head->tag = (const char *)tag.at;
            head->n_tag = (size_t)(tag.end - tag.at);
        }
    }
    return !event.bad;
}
