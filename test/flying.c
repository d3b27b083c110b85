/* A clock that flies: from when the file that RENGA_TEST_FLY names is there, the seconds of
   MPI_Wtime pass a thousand times as fast. Ranks that wait in vain are given a limit that a slow
   machine does not meet, and meet it soon after what they wait for has failed. Linked with a
   program of the tests, or preloaded (flying.so). */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { TIMES = 1000 };
static pthread_mutex_t flying_lock = PTHREAD_MUTEX_INITIALIZER;
static double flying_last, flying_ahead; /* of the last call: the true time, and what to add */

double MPI_Wtime(void)
{
  const char *file = getenv("RENGA_TEST_FLY");
  pthread_mutex_lock(&flying_lock);
  const double now = PMPI_Wtime();
  if (file && flying_last > 0 && access(file, F_OK) == 0)
    flying_ahead += (TIMES - 1) * (now - flying_last);
  flying_last = now;
  const double time = now + flying_ahead;
  pthread_mutex_unlock(&flying_lock);
  return time;
}
