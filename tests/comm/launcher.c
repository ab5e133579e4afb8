/* launcher.c -- which launcher an environment stands for. */
#include "comm/launcher.h"

#include "test.h"

#include <stdlib.h>

/* Variables that any launcher sets; the test may itself run under one. */
static const char *const known[] = { "OMPI_COMM_WORLD_SIZE",
                                     "OMPI_COMM_WORLD_RANK",
                                     "PMI_SIZE",
                                     "PMI_RANK",
                                     "PMIX_RANK",
                                     "SLURM_STEP_ID",
                                     "SLURM_STEP_NUM_TASKS",
                                     "SLURM_NTASKS",
                                     "SLURM_PROCID",
                                     "SLURM_MPI_TYPE",
                                     "WORLD_SIZE",
                                     "RANK" };

/* The environment as NAME=VALUE words. */
static Launcher find(const char *environment)
{
    char words[512];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        unsetenv(known[i]);
    snprintf(words, sizeof words, "%s", environment);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) {
        char *value = strchr(word, '=');
        *value++ = 0;
        setenv(word, value, 1);
    }
    return launcher_find();
}

static void check(const char *environment, const char *name, const char *library, int ranks,
                  int rank)
{
    Launcher l = find(environment);
    CHECK_TEXT(l.name ? l.name : "nothing", name);
    CHECK_TEXT(l.library ? l.library : "none", library);
    CHECK_INT(l.ranks, ranks);
    CHECK_INT(l.rank, rank);
}

static void launchers_are_known(void)
{
    check("", "nothing", "none", 0, -1);
    check("OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=3 PMIX_RANK=3", "mpirun of Open MPI",
          "openmpi", 4, 3);
    check("PMI_SIZE=2 PMI_RANK=1", "mpirun of MPICH", "mpich", 2, 1);
    check("PMIX_RANK=1", "a launcher with PMIx", "openmpi", 0, 1);
    check("WORLD_SIZE=8 RANK=2", "torchrun", "none", 8, 2);
    check("WORLD_SIZE=1 RANK=0", "nothing", "none", 0, 0);
}

static void slurm_is_known_by_its_steps(void)
{
    const char *pmix = "SLURM_STEP_ID=0 SLURM_MPI_TYPE=pmix SLURM_STEP_NUM_TASKS=2 SLURM_NTASKS=4 "
                       "SLURM_PROCID=1 PMIX_RANK=1";
    check(pmix, "srun --mpi=pmix", "openmpi", 2, 1);
    check("SLURM_STEP_ID=0 SLURM_MPI_TYPE=pmi2 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 PMI_RANK=1 "
          "PMI_SIZE=2",
          "srun --mpi=pmi2", "mpich", 2, 1);
    check("SLURM_STEP_ID=0 SLURM_NTASKS=3 SLURM_PROCID=2", "srun", "none", 3, 2);
    /* a batch script: nothing launched it */
    check("SLURM_NTASKS=4 SLURM_PROCID=0", "nothing", "none", 0, 0);
    /* mpirun within a step */
    check(
        "SLURM_STEP_ID=0 SLURM_MPI_TYPE=pmix SLURM_NTASKS=2 SLURM_PROCID=0 PMIX_RANK=0 PMI_SIZE=4 "
        "PMI_RANK=2",
        "mpirun of MPICH", "mpich", 4, 2);
    check("SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 PMIX_RANK=0 "
          "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=2",
          "mpirun of Open MPI", "openmpi", 4, 2);
}

static void numbers_that_are_none_are_left_out(void)
{
    check("OMPI_COMM_WORLD_SIZE=x", "mpirun of Open MPI", "openmpi", 0, -1);
    check("PMI_SIZE=-3", "mpirun of MPICH", "mpich", 0, -1);
}

int main(void)
{
    RUN(launchers_are_known);
    RUN(slurm_is_known_by_its_steps);
    RUN(numbers_that_are_none_are_left_out);
    return test_end();
}
