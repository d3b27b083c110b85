/* The front door of the library: rooms register their options, then the command line is read. */
#include "renga/private/fetches.h"
#include "renga/private/forecast.h"
#include "renga/private/object.h"
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
  RengaCall(RengaSettingsRegisterPackage());
  RengaCall(RengaPipelineRegisterPackage());
  RengaCall(RengaCheckpointRegisterPackage());
  RengaCall(RengaTrainerRegisterPackage());
  return RENGA_SUCCESS;
}

/* The planner asks the runtime what the stages of its plans take, plan after plan. */
static RengaErrorCode OpenSession(RengaPlan plan, const RengaForecastRun *run, void **session)
{
  RengaPipeline pipeline;
  if (*session) return RENGA_SUCCESS;
  RengaCall(RengaPipelineCreate(((struct _p_RengaObject *)plan)->owner, &pipeline));
  RengaErrorCode code = RENGA_SUCCESS;
  if (run->settings) code = RengaPipelineSetSettings(pipeline, run->settings);
  for (int i = 0; i < run->n_short && !code; i++)
    code = RengaPipelineSetDataShortBatch(pipeline, run->short_batch[i]);
  if (code) RengaPipelineDestroy(&pipeline);
  RengaCall(code);
  *session = pipeline;
  return RENGA_SUCCESS;
}

static RengaForecastMemory TakeForecast(const RengaPipelineMemory *stage,
                                        const RengaForecastExchange *exchange)
{
  return (RengaForecastMemory){.parameters = stage->parameters,
                               .gradients = stage->gradients,
                               .optimizer = stage->optimizer,
                               .saved = stage->saved,
                               .temporary = stage->temporary,
                               .messages = stage->messages,
                               .inputs = stage->inputs,
                               .total = stage->forecast,
                               .exchange = *exchange};
}

static RengaErrorCode ForecastStages(RengaGraph graph, RengaPlan plan, const RengaForecastRun *run,
                                     void **session, RengaForecastMemory memory[])
{
  const int count = RengaPlanGetStageCount(plan);
  RengaPipelineMemory *stage = NULL;
  RengaForecastExchange *exchange = NULL;
  RengaCall(OpenSession(plan, run, session));
  RengaCall(RengaPipelineSetPlan(*session, graph, plan));
  RengaErrorCode code = RengaMalloc(count, &stage);
  if (!code) code = RengaMalloc(count, &exchange);
  if (!code) code = RengaPipelineForecastExchanges_Private(*session, run->fullest, stage, exchange);
  for (int s = 0; s < count && !code; s++) memory[s] = TakeForecast(&stage[s], &exchange[s]);
  RengaFree(&exchange);
  RengaFree(&stage);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode EndSession(void **session)
{
  RengaPipeline pipeline = *session;
  *session = NULL;
  if (pipeline) RengaCall(RengaPipelineDestroy(&pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode StartRooms(void)
{
  static const RengaMemoryForecast forecast = {.stages = ForecastStages, .end = EndSession};
  RengaCall(RegisterPackages());
  RengaCall(RengaPartitionSetForecast_Private(&forecast));
  return RENGA_SUCCESS;
}

/*@
   RengaInitialize - start the library: MPI if it was not, and the options

   Collective on the processes of RengaSetWorld, otherwise MPI_COMM_WORLD

   Input:
   . argc, argv - main's, or NULL; on return only the words that are no options
   . help - a text that says what the program does, for RengaAnswerHelp; lent until RengaFinalize;
     may be NULL

   Options:
   . -options_file FILE - read options; then RENGA_OPTIONS, then the command line; the last one wins
   . -options_view - print what was given
   . -error_trace - with an error, print where it was found and who passed it on
   . -help, -version - for programs that ask RengaAnswerHelp

   Errors: an unknown option (but see RengaOptionsSetUnknown) or a bad value, on every rank, before
   any work. After an error argv, the options and the library are as before, and RengaInitialize
   may be called again; MPI, where this call started it, stays until RengaFinalize.

   Notes: where the program has started MPI, RengaInitialize and RengaFinalize may be called again
   and again. Where this call starts it, RengaFinalize ends it, and as a process can start MPI once
   only a further RengaInitialize is RENGA_ERR_ORDER. MPI is started with MPI_THREAD_FUNNELED; Renga
   calls it from the thread that calls Renga.

   See also: RengaFinalize(), RengaOptionsSetUnknown(), RengaSetWorld()
@*/
RengaErrorCode RengaInitialize(int *argc, char ***argv, const char help[])
{
  RengaCall(RengaSysStartMPI(argc, argv));
  RengaErrorCode code = RengaSysAgree(StartRooms());
  if (!code) code = RengaSysReadOptions(argc, argv, help);
  if (code) RengaSysUndo();
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaFinalize - end the library: reports, leaks, and MPI if RengaInitialize started it

   Collective

   Options:
   . -log_view - print events and memory over all ranks
   . -log_trace FILE - write a timeline of all ranks

   Errors: a report that cannot be written, and memory that was not freed, by the places that asked
   for it. The library ends all the same.

   See also: RengaInitialize()
@*/
RengaErrorCode RengaFinalize(void)
{
  const RengaErrorCode report = RengaSysReport();
  if (report != RENGA_ERR_ORDER) RengaCall(RengaSysFinish());
  RengaCall(report);
  return RENGA_SUCCESS;
}
