/* isa.h -- which build of the kernels runs.
 *
 * The rooms base, device, ir and ops are one shared library, libplimsoll_kernels.so, built once for
 * every level of x86-64 (v2, v3, v4). The dynamic linker takes the best that processor and system
 * support, from glibc-hwcaps/x86-64-LEVEL beside the program; what goes beyond a level (AMX) is
 * looked for by the kernels themselves (amx.h).
 *
 * PLIMSOLL_ISA=v2, v3, v4 (nothing beyond), bf16 (VDPBF16PS) or amx asks for another one than the
 * best: the program then starts again with that library. Results repeat bit for bit with one of
 * them, not between them, and a plan holds for one of them: isa_name() is part of what a device
 * says of itself.
 */
#ifndef DEVICE_ISA_H
#define DEVICE_ISA_H

typedef enum IsaWish { ISA_FREE, ISA_ASKED, ISA_WITHOUT } IsaWish;

const char *isa_name(void);      /* "x86-64-v3", "x86-64-v4+amx" */

/* What was said about "bf16" or "amx": nothing, that it be used, that something else be used. */
IsaWish isa_beyond(const char *what);

#endif
