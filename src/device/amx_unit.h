/* amx_unit.h -- which unit of this processor multiplies tiles of bf16 (linalg/amx.h). */
#ifndef DEVICE_AMX_UNIT_H
#define DEVICE_AMX_UNIT_H

#include <stdbool.h>

typedef enum AmxUnit { AMX_NONE, AMX_VECTORS, AMX_TILES } AmxUnit;

/* The unit that processor, system and this build allow. A thread calls amx_begin before its first
 * product and amx_end after its last. */
AmxUnit amx_unit(void);
void    amx_begin(void);
void    amx_end(void);

static inline bool amx_ready(void) { return amx_unit() != AMX_NONE; }

/* One of two names, by the unit: part of algorithm names. */
static inline const char *amx_word(const char *vectors, const char *tiles)
{
    return amx_unit() == AMX_TILES ? tiles : vectors;
}

#endif
