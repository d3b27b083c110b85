/* TEST ranks: 1 2 */
/* Example 1: options and objects.

   Every Renga program begins with RengaInitialize, which reads the options (file, environment,
   command line) and starts MPI where that has not been done, and ends with RengaFinalize, which
   reports what was not freed. In between, objects live one life: Create, Set..., SetFromOptions,
   SetUp, use, Destroy.

     mpiexec -n 2 ./ex1 -optimizer_type adamw -optimizer_learning_rate 3e-4
     ./ex1 -help                      all options, with defaults and meanings
     ./ex1 -optimiser_type adamw      a misspelt one: the closest name is offered, nothing is run
*/
#include <renga.h>

static const char help[] = "Makes an optimizer from options and shows it.\n";

/* Functions that call Renga return its error code, too: RengaCall passes an error up with a
   trace. */
static RengaErrorCode Run(void)
{
  /* A RengaComm is Renga's private copy of the processes that you give it. Your own messages on
     MPI_COMM_WORLD never meet Renga's. */
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));

  /* Code first, options after: what the user says on the command line wins. */
  RengaOptimizer optimizer;
  RengaCall(RengaOptimizerCreate(comm, &optimizer));
  RengaCall(RengaOptimizerSetType(optimizer, RENGA_OPTIMIZER_SGD));
  RengaCall(RengaOptimizerSetLearningRate(optimizer, 0.1));
  RengaCall(RengaOptimizerSetFromOptions(optimizer));
  RengaCall(RengaOptimizerSetUp(optimizer));

  /* Every Set has a Get, and View shows all that an object knows. */
  double rate;
  RengaCall(RengaOptimizerGetLearningRate(optimizer, 0, &rate));
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "learning rate at step 0: %g\n", rate));
  RengaViewer viewer;
  RengaCall(RengaViewerCreate(comm, "ascii", &viewer));
  RengaCall(RengaOptimizerView(optimizer, viewer));
  RengaCall(RengaViewerDestroy(&viewer));

  RengaCall(RengaOptimizerDestroy(&optimizer));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  /* In main, RengaCallAbort ends all ranks with a non-zero exit code. */
  bool answered;
  RengaCallAbort(RengaInitialize(&argc, &argv, help));
  RengaCallAbort(RengaAnswerHelp(&answered)); /* -help, -version */
  if (!answered) RengaCallAbort(Run());
  RengaCallAbort(RengaFinalize());
  return 0;
}
