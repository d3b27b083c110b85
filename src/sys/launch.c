/* Launchers that start several processes of which each believes to be alone, since they speak
   another language than its MPI library. */
#include "sys.h"
#include <stdlib.h>

static const char other_mpiexec[] = "use the mpiexec of the MPI library that Renga was built with";
static const struct {
  const char *tasks; /* a variable of the environment that holds their number */
  const char *launcher, *advice;
} launchers[] = {
    {"SLURM_STEP_NUM_TASKS", "Slurm",
     "give srun the --mpi that this MPI library knows (srun --mpi=list names all), or use mpiexec"},
    {"OMPI_COMM_WORLD_SIZE", "Open MPI", other_mpiexec},
    {"PMI_SIZE", "mpiexec", other_mpiexec},
    {"FLUX_JOB_SIZE", "Flux", other_mpiexec},
    {"JSM_NAMESPACE_SIZE", "jsrun", other_mpiexec},
};

RengaErrorCode RengaLaunchCheck_Private(void)
{
  int size;
  RengaCallMPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
  for (size_t i = 0; size == 1 && i < sizeof launchers / sizeof *launchers; i++) {
    const char *text = getenv(launchers[i].tasks);
    const long tasks = text ? strtol(text, NULL, 10) : 1;
    if (tasks < 2) continue;
    RengaWarning(MPI_COMM_SELF,
                 "%s started %ld tasks (%s), but to MPI this process is the only one: each task "
                 "does all of the work alone; %s",
                 launchers[i].launcher, tasks, launchers[i].tasks, launchers[i].advice);
    return RENGA_SUCCESS;
  }
  return RENGA_SUCCESS;
}
