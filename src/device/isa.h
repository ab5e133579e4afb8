/* isa.h -- which build of the kernels runs.
 *
 * The rooms base, device, ir, linalg and ops are one shared library, libplimsoll_kernels.so, built
 * once for each level of x86-64 (v2, v3, v4). The dynamic linker loads the best one that processor
 * and system support, from glibc-hwcaps/x86-64-LEVEL beside the program. Kernels check for features
 * beyond a level (AMX) themselves (device/amx_unit.h).
 *
 * PLIMSOLL_ISA=v2, v3, v4 (no further features), bf16 (VDPBF16PS) or amx asks for another one: the
 * program then starts again with that library. Results repeat bit for bit within one ISA, not
 * between two, and a plan is valid for one ISA: isa_name() is part of a device's description.
 */
#ifndef DEVICE_ISA_H
#define DEVICE_ISA_H

typedef enum IsaWish { ISA_FREE, ISA_ASKED, ISA_WITHOUT } IsaWish;

const char *isa_name(void); /* "x86-64-v3", "x86-64-v4+amx" */

/* What PLIMSOLL_ISA says about "bf16" or "amx": nothing, use it, or use something else. */
IsaWish isa_beyond(const char *what);

#endif
