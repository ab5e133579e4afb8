/* isa.c -- which build of the kernels runs; obeys PLIMSOLL_ISA. */
#include "device/isa.h"

#include "device/amx_unit.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef PLIMSOLL_BUILT_FOR
#define PLIMSOLL_BUILT_FOR "any" /* one set of kernels, for whatever the compiler chose */
#endif
#define ISA_VARIABLE "PLIMSOLL_ISA"
#define ISA_FOLDER   "/glibc-hwcaps/x86-64-"

static const char *isa_wanted(void)
{
    const char *wanted = getenv(ISA_VARIABLE);
    return wanted && *wanted ? wanted : NULL;
}

IsaWish isa_beyond(const char *what)
{
    const char *wanted = isa_wanted();
    return !wanted ? ISA_FREE : !strcmp(wanted, what) ? ISA_ASKED : ISA_WITHOUT;
}

const char *isa_name(void)
{
    static const char *const names[] = {
        [AMX_NONE] = "x86-64-" PLIMSOLL_BUILT_FOR,
        [AMX_VECTORS] = "x86-64-" PLIMSOLL_BUILT_FOR "+bf16",
        [AMX_TILES] = "x86-64-" PLIMSOLL_BUILT_FOR "+amx",
    };
    return !strcmp(PLIMSOLL_BUILT_FOR, "any") ? "any" : names[amx_unit()];
}

/* Runs before main: a wrong value ends the program with the exit code of wrong usage. */
static void __attribute__((noreturn)) isa_refuse(const char *wanted, const char *why)
{
    fprintf(stderr, "plimsoll: " ISA_VARIABLE "=%s: %s; unset it for the best kernels\n", wanted,
            why);
    _exit(2);
}

/* Starts this program again with the library of that level, in the folder beside this one's. */
static void __attribute__((noreturn)) isa_restart(const char *wanted, char **argv)
{
    Dl_info     self = { 0 };
    char        file[4096], paths[8192];
    const char *before = getenv("LD_LIBRARY_PATH");
    char       *folder = NULL;
    if (dladdr(ISA_VARIABLE, &self) && self.dli_fname &&
        strlen(self.dli_fname) < sizeof file - 64) {
        strcpy(file, self.dli_fname);
        folder = strstr(file, ISA_FOLDER);
    }
    if (!folder)
        isa_refuse(wanted, "this build has only one set of kernels");
    char *name = folder + sprintf(folder, ISA_FOLDER "%s", wanted);
    strcpy(name, "/libplimsoll_kernels.so");
    if (access(file, R_OK))
        isa_refuse(wanted, "these kernels were not built");
    *name = '\0';
    bool more = before && *before; /* an empty part would mean the current folder */
    if (snprintf(paths, sizeof paths, "%s%s%s", file, more ? ":" : "", more ? before : "") >=
        (int)sizeof paths)
        isa_refuse(wanted, "LD_LIBRARY_PATH is too long");
    setenv("LD_LIBRARY_PATH", paths, 1);
    execv("/proc/self/exe", argv);
    isa_refuse(wanted, "the program could not restart itself");
}

__attribute__((constructor)) static void isa_obey(int argc, char **argv)
{
    static const char *const levels[] = { "v2", "v3", "v4", "bf16", "amx" };
    enum { V4 = 2, BF16_VECTORS, AMX, N_LEVELS };
    const char *wanted = isa_wanted();
    int         mine = -1, asked = -1;
    (void)argc;
    for (int i = 0; i < N_LEVELS && wanted; i++) {
        if (!strcmp(levels[i], PLIMSOLL_BUILT_FOR))
            mine = i;
        if (!strcmp(levels[i], wanted))
            asked = i;
    }
    if (!wanted)
        return;
    if (asked < 0)
        isa_refuse(wanted, "the choices are v2, v3, v4, bf16 and amx");
    if (asked == BF16_VECTORS && (mine != V4 || amx_unit() != AMX_VECTORS))
        isa_refuse(wanted, "this processor has no VDPBF16PS, or its kernels were not built");
    if (asked == AMX && (mine != V4 || amx_unit() != AMX_TILES))
        isa_refuse(wanted, "this processor or system has no AMX, or its kernels were not built");
    if (asked <= V4 && asked > mine) /* the dynamic linker took the best already */
        isa_refuse(wanted, "this processor or system does not support it, or it was not built");
    if (asked < mine)
        isa_restart(wanted, argv);
}
