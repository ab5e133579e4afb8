/* launcher.c -- reads the environment variables of mpirun, srun and others.
 *
 * A batch script of Slurm has SLURM_NTASKS and SLURM_PROCID too, though nothing launched what it
 * runs; only a job step, which is what srun starts, has SLURM_STEP_ID. */
#include "comm/launcher.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int launcher_number(const char *variable)
{
    const char *text = getenv(variable);
    char       *end;
    long        n = text ? strtol(text, &end, 10) : 0;
    return text && end > text && !*end && n > 0 && n < 1 << 24 ? (int)n : 0;
}

static bool launcher_has(const char *variable) { return getenv(variable) != NULL; }

static bool launcher_step(void) { return launcher_has("SLURM_STEP_ID"); }

static int launcher_step_ranks(void)
{
    int tasks = launcher_number("SLURM_STEP_NUM_TASKS");
    return tasks ? tasks : launcher_number("SLURM_NTASKS");
}

/* PMI: mpirun of MPICH and of its kin, also inside a step of Slurm, or srun --mpi=pmi2. */
static Launcher launcher_pmi(void)
{
    const char *mpi = getenv("SLURM_MPI_TYPE");
    bool        srun = launcher_step() && mpi && !strncmp(mpi, "pmi2", 4);
    return (Launcher){ .name = srun ? "srun --mpi=pmi2" : "mpirun of MPICH",
                       .library = "mpich",
                       .ranks = launcher_number("PMI_SIZE") };
}

static Launcher launcher_pmix(void)
{
    return (Launcher){ .name = launcher_step() ? "srun --mpi=pmix" : "a launcher with PMIx",
                       .library = "openmpi",
                       .ranks = launcher_step() ? launcher_step_ranks() : 0 };
}

/* Its own number as the launcher gave it; -1: it did not. */
static int launcher_rank(void)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                         "SLURM_PROCID", "RANK" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (launcher_has(names[i]))
            return atoi(getenv(names[i]));
    return -1;
}

/* The most particular first: mpirun may have been started inside a step of srun. */
static Launcher launcher_kind(void)
{
    if (launcher_has("OMPI_COMM_WORLD_SIZE"))
        return (Launcher){ .name = "mpirun of Open MPI",
                           .library = "openmpi",
                           .ranks = launcher_number("OMPI_COMM_WORLD_SIZE") };
    if (launcher_has("PMI_SIZE"))
        return launcher_pmi();
    if (launcher_has("PMIX_RANK"))
        return launcher_pmix();
    if (launcher_step())
        return (Launcher){ .name = "srun",
                           .ranks = launcher_step_ranks(),
                           .remedy = "start it with srun --mpi=pmix for Open MPI or srun "
                                     "--mpi=pmi2 for MPICH; srun --mpi=list says what there is" };
    if (launcher_number("WORLD_SIZE") > 1 && launcher_has("RANK"))
        return (Launcher){ .name = "torchrun",
                           .ranks = launcher_number("WORLD_SIZE"),
                           .remedy = "start it with mpirun or srun, or unset WORLD_SIZE and RANK" };
    return (Launcher){ 0 };
}

Launcher launcher_find(void)
{
    Launcher l = launcher_kind();
    l.rank = launcher_rank();
    return l;
}
