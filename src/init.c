/* The front door of the library: rooms register their options, then the command line is read. */
#include "renga/private/forecast.h"
#include "renga/private/packages.h"
#include "renga/private/start.h"
#include "rengapipeline.h"

/* One line for each line of packages.h. */
static RengaErrorCode RegisterPackages(void)
{
  RengaCall(RengaSysRegisterPackage());
  RengaCall(RengaDeviceRegisterPackage());
  RengaCall(RengaCommRegisterPackage());
  RengaCall(RengaOptimizerRegisterPackage());
  RengaCall(RengaDataRegisterPackage());
  RengaCall(RengaMachineRegisterPackage());
  RengaCall(RengaProfileRegisterPackage());
  RengaCall(RengaPlanRegisterPackage());
  RengaCall(RengaPartitionRegisterPackage());
  RengaCall(RengaScheduleRegisterPackage());
  RengaCall(RengaGraphRegisterPackage());
  RengaCall(RengaPipelineRegisterPackage());
  RengaCall(RengaCheckpointRegisterPackage());
  return RENGA_SUCCESS;
}

/* The planner asks the runtime what a stage takes. */
static RengaErrorCode ForecastMemory(RengaGraph graph, RengaPlan plan, int stage,
                                     RengaForecastMemory *memory)
{
  RengaPipelineMemory m;
  RengaCall(RengaPipelineForecast(graph, plan, stage, &m));
  *memory = (RengaForecastMemory){.parameters = m.parameters,
                                  .gradients = m.gradients,
                                  .optimizer = m.optimizer,
                                  .saved = m.saved,
                                  .temporary = m.temporary,
                                  .messages = m.messages,
                                  .inputs = m.inputs,
                                  .total = m.forecast};
  return RENGA_SUCCESS;
}

/*@
   RengaInitialize - start the library: MPI if it was not, and the options

   Collective on the processes of RengaSetWorld, otherwise MPI_COMM_WORLD

   Input:
   . argc, argv - of main, or NULL; on return only the words that are no options
   . help - what the program does, printed by -help; may be NULL

   Options:
   . -options_file FILE - read options; then RENGA_OPTIONS, then the command line; the last one wins
   . -options_view - print what was given
   . -help - list all options and end
   . -version - print the version and end

   Notes: an unknown option or a bad value is an error on every rank, before any work.
@*/
RengaErrorCode RengaInitialize(int *argc, char ***argv, const char help[])
{
  static const RengaPartitionCapabilities capabilities = {.unequal_replicas = true,
                                                          .recompute = true};
  RengaCall(RengaSysStartMPI(argc, argv));
  RengaCall(RegisterPackages());
  RengaCall(RengaPartitionSetForecast_Private(ForecastMemory));
  RengaCall(RengaPartitionSetCapabilities_Private(&capabilities));
  RengaCall(RengaSysReadOptions(argc, argv, help));
  return RENGA_SUCCESS;
}

/*@
   RengaFinalize - end the library: reports, leaks, and MPI if RengaInitialize started it

   Collective

   Options:
   . -log_view - print events and memory over all ranks
   . -log_trace FILE - write a timeline of all ranks

   Notes: memory that was not freed is an error that names the place that asked for it.
@*/
RengaErrorCode RengaFinalize(void)
{
  RengaCall(RengaSysReport());
  RengaCall(RengaSysFinish());
  return RENGA_SUCCESS;
}
