/* amx_unit.c -- finds the unit that multiplies bf16 tiles: AMX, AVX-512 BF16 vectors, or none. */
#include "device/amx_unit.h"

#include "base/err.h"
#include "device/isa.h"

#if defined __AVX512F__ && defined __linux__

#include <cpuid.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WITH_TILES __attribute__((target("amx-tile,amx-bf16")))

/* Checks the processor's flags, the registers that the system saves (XCR0), and permission: Linux
 * gives tiles only to processes that ask (arch_prctl). CPUID leaf 1DH, the tile sizes, is not read:
 * some virtual machines leave it out, and there is only one palette. */
static bool amx_has_tiles(void)
{
    enum { ASK_PERMISSION = 0x1023, TILE_DATA = 18, TILES = 3 << 17 };
    enum { HAS_BF16 = 1 << 22, HAS_TILE = 1 << 24 }; /* leaf 7, EDX */
    unsigned eax, ebx, ecx, edx, low, high;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_OSXSAVE))
        return false;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & TILES) == TILES && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) &&
           (edx & HAS_TILE) && (edx & HAS_BF16) &&
           syscall(SYS_arch_prctl, ASK_PERMISSION, TILE_DATA) == 0;
}

/* On Intel VDPBF16PS takes two cycles, and fp32 is faster: there it is used only on request. */
static bool amx_has_vectors(bool asked)
{
    enum { HAS_BF16 = 1 << 5 }; /* leaf 7.1, EAX */
    unsigned eax, ebx, ecx, edx;
    if (!__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) || !(eax & HAS_BF16))
        return false;
    return asked || (__get_cpuid(0, &eax, &ebx, &ecx, &edx) && ebx != signature_INTEL_ebx);
}

static AmxUnit amx_find(void)
{
    if (isa_beyond("amx") != ISA_WITHOUT && amx_has_tiles())
        return AMX_TILES;
    IsaWish vectors = isa_beyond("bf16");
    return vectors != ISA_WITHOUT && amx_has_vectors(vectors == ISA_ASKED) ? AMX_VECTORS : AMX_NONE;
}

AmxUnit amx_unit(void)
{
    static int known; /* 1 + the unit; every thread finds the same one */
    int        now = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!now) {
        now = 1 + (int)amx_find();
        __atomic_store_n(&known, now, __ATOMIC_RELAXED);
    }
    return (AmxUnit)(now - 1);
}

/* Eight tiles of 16 rows of 64 bytes. Constant, because gcc's intrinsic does not tell the compiler
 * that all 64 bytes are read. */
static const struct {
    uint8_t  palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t  rows[16];
} amx_tiles = {
    .palette = 1,
    .row_bytes = { 64, 64, 64, 64, 64, 64, 64, 64 },
    .rows = { 16, 16, 16, 16, 16, 16, 16, 16 },
};
_Static_assert(sizeof amx_tiles == 64, "the layout that LDTILECFG reads");

WITH_TILES static void tiles_begin(void) { _tile_loadconfig(&amx_tiles); }
WITH_TILES static void tiles_end(void) { _tile_release(); }

void amx_begin(void)
{
    if (amx_unit() == AMX_TILES)
        tiles_begin();
}

void amx_end(void)
{
    if (amx_unit() == AMX_TILES)
        tiles_end();
}

#else

AmxUnit amx_unit(void) { return AMX_NONE; }
void    amx_begin(void) { REQUIRE(amx_ready()); }
void    amx_end(void) { REQUIRE(amx_ready()); }

#endif
