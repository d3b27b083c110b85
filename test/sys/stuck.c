/* A program whose MPI_Finalize never comes back: run by stuck.sh. The word is its exit code. */
#include "../check.h"
#include <stdlib.h>
#include <unistd.h>

int MPI_Finalize(void)
{
  for (;;) pause();
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaSetExitCode(argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0);
  if (RengaGetExitCode() == 0) printf("all is written");
  RengaCallAbort(RengaFinalize());
  return 99;
}
