/* The build of the kernels that runs, and the wish for another one: this program starts itself with
 * PLIMSOLL_ISA set and reads what the child says. */
#include "test.h"

#include "linalg/amx.h"
#include "device/isa.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char program[4096];

/* The exit code of `PLIMSOLL_ISA=isa program name`, and the first line it prints (either
 * stream). */
static int child(const char *isa, char *line, size_t size)
{
    char command[8192];
    snprintf(command, sizeof command, "PLIMSOLL_ISA=%s '%s' name 2>&1", isa, program);
    FILE *pipe = popen(command, "r");
    line[0] = '\0';
    if (!CHECK(pipe != NULL))
        return -1;
    if (fgets(line, (int)size, pipe))
        line[strcspn(line, "\n")] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void best(void)
{
    CHECK(!strncmp(isa_name(), "x86-64-v", 8) || !strcmp(isa_name(), "any"));
    CHECK_INT(strstr(isa_name(), "+amx") != NULL, amx_unit() == AMX_TILES);
    CHECK_INT(strstr(isa_name(), "+bf16") != NULL, amx_unit() == AMX_VECTORS);
    char line[256];
    CHECK_INT(child("", line, sizeof line), 0); /* empty is not set */
    CHECK_TEXT(line, isa_name());
}

/* Every level up to this machine's starts and says its name; those beyond are refused. */
static void wishes(void)
{
    static const char *const levels[] = { "v2", "v3", "v4" };
    char                     line[256], name[32];
    if (!strcmp(isa_name(), "any"))
        return;
    for (int i = 0; i < 3; i++) {
        int code = child(levels[i], line, sizeof line);
        snprintf(name, sizeof name, "x86-64-%s", levels[i]);
        if (strncmp(name, isa_name(), strlen(name)) <= 0 && code == 0)
            CHECK_TEXT(line, name);
        else
            CHECK(code == 2 && strstr(line, "not built") != NULL);
    }
    bool tiles = amx_unit() == AMX_TILES;
    CHECK_INT(child("amx", line, sizeof line), tiles ? 0 : 2);
    CHECK(strstr(line, tiles ? "+amx" : "no AMX") != NULL);
    int code = child("bf16", line, sizeof line); /* may be asked for where it is not used */
    CHECK(code == (strstr(line, "no VDPBF16PS") ? 2 : 0));
    CHECK(code || strstr(line, "+bf16") != NULL);
    CHECK(!code || amx_unit() != AMX_VECTORS);
}

static void refusals(void)
{
    char line[256];
    CHECK_INT(child("v9", line, sizeof line), 2);
    CHECK(strstr(line, "PLIMSOLL_ISA=v9") && strstr(line, "v2, v3, v4, bf16 and amx"));
    CHECK_INT(child("V3", line, sizeof line), 2);
    CHECK_INT(child("x86-64-v3", line, sizeof line), 2);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "name")) {
        printf("%s\n", isa_name());
        return 0;
    }
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    CHECK(n > 0);
    RUN(best);
    RUN(wishes);
    RUN(refusals);
    return test_end();
}
