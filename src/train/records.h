/* records.h -- TFRecord framing, as event files use it: each record is
 *
 *   length      8 bytes, little-endian
 *   its check   4 bytes: the masked CRC-32C of the length
 *   data        `length` bytes
 *   its check   4 bytes: the masked CRC-32C of the data
 */
#ifndef TRAIN_RECORDS_H
#define TRAIN_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RECORD_HEAD = 12, RECORD_TAIL = 4 };

void record_head(unsigned char head[RECORD_HEAD], uint64_t length);
void record_tail(unsigned char tail[RECORD_TAIL], uint32_t crc); /* crc32c_add of all the data */

typedef struct Record {
    const unsigned char *data;
    size_t               n;
} Record;

/* The record at *at, which moves past it. False: the bytes end there, or are damaged. */
bool record_next(const unsigned char *bytes, size_t n, size_t *at, Record *record);

/* What an event file says of one event. False: it is not an event. */
typedef struct EventHead {
    int64_t     step;
    const char *tag; /* of its first value, not terminated; NULL: it has none */
    size_t      n_tag;
} EventHead;
bool event_head(const Record *record, EventHead *head);

#endif
