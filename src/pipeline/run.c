/* The loop over the actions of a stage: what a schedule says is what is run. */
#include "pipelineimpl.h"

void *RengaPipelineAt_Private(RengaPipeline pipeline, Place place)
{
  return place.region == REGION_ABSENT ? NULL : pipeline->base[place.region] + place.offset;
}

RengaKernelContext RengaPipelineContext_Private(RengaPipeline pipeline, const Pass *pass,
                                                int64_t number)
{
  return (RengaKernelContext){.seed = (uint64_t)pipeline->settings->seed,
                              .step = pipeline->step,
                              .sample = number * pipeline->microbatch,
                              .samples = RengaPipelineSamples_Private(pipeline, pass, number),
                              .training = pass->training};
}

static RengaErrorCode RunKernel(RengaPipeline pipeline, const Instruction *row,
                                const RengaKernelContext *context)
{
  const void **in = pipeline->argument;
  void **out = (void **)(pipeline->argument + row->n_in);
  for (int i = 0; i < row->n_in; i++) in[i] = RengaPipelineAt_Private(pipeline, row->place[i]);
  for (int o = 0; o < row->n_out; o++)
    out[o] = RengaPipelineAt_Private(pipeline, row->place[row->n_in + o]);
  RengaCall(RengaKernelRun(row->kernel, NULL, context, in, out,
                           RengaPipelineAt_Private(pipeline, row->workspace)));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunInstruction(RengaPipeline pipeline, const Instruction *row,
                                     const RengaKernelContext *context)
{
  if (row->kind == INSTRUCTION_KERNEL) {
    RengaCall(RunKernel(pipeline, row, context));
    return RENGA_SUCCESS;
  }
  const void *from = RengaPipelineAt_Private(pipeline, row->place[0]);
  void *to = RengaPipelineAt_Private(pipeline, row->place[1]);
  if (row->kind == INSTRUCTION_COPY)
    RengaCall(RengaDeviceCopy(pipeline->device, NULL, RENGA_DEVICE_TO_DEVICE, to, from,
                              (size_t)row->bytes));
  else if (row->kind == INSTRUCTION_ZERO)
    RengaCall(RengaDeviceSetBytes(pipeline->device, NULL, to, 0, (size_t)row->bytes));
  else
    RengaCall(
        RengaDeviceAdd(pipeline->device, NULL, row->bytes / (int64_t)sizeof(float), to, from));
  return RENGA_SUCCESS;
}

/* Run one part of a program; the bases are set. Messages move between the kernels. Ends early when
   another rank has failed. */
RengaErrorCode RengaPipelineRunPart_Private(RengaPipeline pipeline, Pass *pass, Program *program,
                                            ProgramPart part, const RengaKernelContext *context)
{
  const Sequence *sequence = &program->part[part];
  for (int i = 0; i < sequence->count && !RengaPipelineHears_Private(pipeline, pass, false); i++) {
    RengaCall(RunInstruction(pipeline, &sequence->row[i], context));
    RengaCall(RengaCommProgress(pipeline->all));
  }
  return RENGA_SUCCESS;
}

/* Bases of the micro-batch in place i. */
void RengaPipelineSetBases_Private(RengaPipeline pipeline, bool training, int64_t i)
{
  char **base = pipeline->base;
  const int64_t slot = i % pipeline->slots, saved = pipeline->slot_bytes[training];
  const int64_t sent = pipeline->sent_bytes[training];
  base[REGION_PERSISTENT] = pipeline->persistent_base;
  base[REGION_FOLDED] = pipeline->folded_base;
  base[REGION_SENT] = pipeline->saved_base + slot * sent;
  base[REGION_SAVED] =
      pipeline->saved_base + (pipeline->recompute ? pipeline->slots * sent : slot * saved);
  base[REGION_TEMPORARY] =
      pipeline->saved_base + RengaPipelineKeptBytes_Private(pipeline, training);
  base[REGION_INPUTS] = pipeline->input_base + slot * pipeline->input_bytes;
  for (int m = 0; m < pipeline->n_messages; m++) {
    const Link *link = &pipeline->link[m];
    base[REGION_MESSAGE + m] = link->base ? link->base + i % link->ring * link->bytes : NULL;
  }
}

/* The program of micro-batch number; what it folds is worked out when another program ran
   before. */
static RengaErrorCode TakeProgram(RengaPipeline pipeline, Pass *pass, int64_t number,
                                  Program **program)
{
  const RengaKernelContext context = RengaPipelineContext_Private(pipeline, pass, number);
  RengaCall(RengaPipelineGetProgram_Private(pipeline, pass->kind, context.samples, pass->target,
                                            program));
  if (pipeline->folded == *program || (*program)->part[PART_CONSTANT].count == 0)
    return RENGA_SUCCESS;
  pipeline->folded = NULL;
  RengaCall(RengaPipelineRunPart_Private(pipeline, pass, *program, PART_CONSTANT, &context));
  if (!pass->failed) pipeline->folded = *program;
  return RENGA_SUCCESS;
}

/* Fields that the program needs, of one micro-batch, into the slot of the bases. */
RengaErrorCode RengaPipelineReadFields_Private(RengaPipeline pipeline, const Pass *pass,
                                               const Program *program, int64_t number)
{
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_READ);
  RengaLogEventBegin(event);
  for (int f = 0; f < pipeline->n_fields; f++) {
    if (!program->reads[f]) continue;
    const Field *field = &pipeline->field[f];
    const RengaErrorCode code =
        pass->batch->read(pass->batch->user, field->field, number * pipeline->microbatch,
                          program->samples, pipeline->base[REGION_INPUTS] + field->offset);
    if (code) {
      RengaLogEventEnd(event, 0, 0, 0);
      RengaCall(code);
    }
  }
  RengaLogEventEnd(event, 0, 0, 0);
  return RENGA_SUCCESS;
}

/* What is wanted of a forward besides what is sent: loss, statistics, an output. */
static RengaErrorCode TakeResults(RengaPipeline pipeline, Pass *pass, const Program *program,
                                  int64_t i)
{
  const int64_t number = pass->order[i];
  if (pass->loss && pipeline->loss != RENGA_VALUE_NONE) {
    float loss;
    RengaCall(RengaDeviceCopy(pipeline->device, NULL, RENGA_DEVICE_TO_HOST, &loss,
                              RengaPipelineAt_Private(pipeline, program->place[pipeline->loss]),
                              sizeof loss));
    RengaCall(RengaStreamSynchronize(pipeline->device, NULL));
    pass->loss[number] = (double)loss;
  }
  if (pass->statistics)
    RengaCall(RengaPipelineKeepStatistics_Private(pipeline, pass, program, number));
  if (pass->output && pass->target != RENGA_VALUE_NONE) {
    const size_t bytes = RengaTensorSpecBytes(&program->spec[pass->target]);
    const size_t before = (size_t)((number - pass->first) * pipeline->microbatch);
    RengaCall(RengaDeviceCopy(pipeline->device, NULL, RENGA_DEVICE_TO_HOST,
                              pass->output + before * (bytes / (size_t)program->samples),
                              RengaPipelineAt_Private(pipeline, program->place[pass->target]),
                              bytes));
    RengaCall(RengaStreamSynchronize(pipeline->device, NULL));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Fill(RengaPipeline pipeline, char *base, int64_t bytes)
{
  if (bytes > 0) RengaCall(RengaDeviceSetBytes(pipeline->device, NULL, base, 0xff, (size_t)bytes));
  return RENGA_SUCCESS;
}

/* With -device_poison: what an action must set before it reads it. */
static RengaErrorCode Poison(RengaPipeline pipeline, bool training, bool adds,
                             const RengaAction *action)
{
  if (!RengaDeviceGetPoison(pipeline->device)) return RENGA_SUCCESS;
  RengaCall(Fill(pipeline, pipeline->base[REGION_TEMPORARY], pipeline->temporary_bytes[training]));
  if (action->kind != RENGA_ACTION_BACKWARD) {
    RengaCall(Fill(pipeline, pipeline->base[REGION_SAVED], pipeline->slot_bytes[training]));
    RengaCall(Fill(pipeline, pipeline->base[REGION_SENT], pipeline->sent_bytes[training]));
  }
  if (action->kind == RENGA_ACTION_FORWARD)
    RengaCall(Fill(pipeline, pipeline->base[REGION_INPUTS], pipeline->input_bytes));
  if (action->kind == RENGA_ACTION_BACKWARD && !adds)
    RengaCall(Fill(pipeline, pipeline->base[REGION_GRADIENTS],
                   pipeline->gradient_count * (int64_t)sizeof(float)));
  return RENGA_SUCCESS;
}

static RengaErrorCode Forward(RengaPipeline pipeline, Pass *pass, const RengaAction *action,
                              int64_t i)
{
  Program *program;
  const int64_t number = action->microbatch;
  const RengaKernelContext context = RengaPipelineContext_Private(pipeline, pass, number);
  RengaCall(Poison(pipeline, pass->training, false, action));
  RengaCall(TakeProgram(pipeline, pass, number, &program));
  RengaCall(RengaPipelineReadFields_Private(pipeline, pass, program, number));
  RengaLogEventBegin(RengaPipelineEvent_Private(EVENT_FORWARD));
  const RengaErrorCode code =
      RengaPipelineRunPart_Private(pipeline, pass, program, PART_FORWARD, &context);
  RengaLogEventEnd(RengaPipelineEvent_Private(EVENT_FORWARD), program->part[PART_FORWARD].flops, 0,
                   0);
  RengaCall(code);
  RengaCall(TakeResults(pipeline, pass, program, i));
  return RENGA_SUCCESS;
}

/* What backward needs is made again, into the slot that all micro-batches share. What was sent may
   still be on its way: it is made elsewhere, behind that slot. */
static void SetRecomputedBases(RengaPipeline pipeline, int64_t i)
{
  RengaPipelineSetBases_Private(pipeline, true, i);
  if (pipeline->recompute)
    pipeline->base[REGION_SENT] = pipeline->base[REGION_SAVED] + pipeline->slot_bytes[true];
}

static RengaErrorCode Recompute(RengaPipeline pipeline, Pass *pass, const RengaAction *action,
                                int64_t i)
{
  Program *program;
  const int64_t number = action->microbatch;
  const RengaKernelContext context = RengaPipelineContext_Private(pipeline, pass, number);
  SetRecomputedBases(pipeline, i);
  RengaCall(Poison(pipeline, true, false, action));
  RengaCall(TakeProgram(pipeline, pass, number, &program));
  RengaLogEventBegin(RengaPipelineEvent_Private(EVENT_RECOMPUTE));
  const RengaErrorCode code =
      RengaPipelineRunPart_Private(pipeline, pass, program, PART_FORWARD, &context);
  RengaLogEventEnd(RengaPipelineEvent_Private(EVENT_RECOMPUTE), program->part[PART_FORWARD].flops,
                   0, 0);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode Backward(RengaPipeline pipeline, Pass *pass, const RengaAction *action)
{
  Program *program;
  bool adds;
  const int64_t number = action->microbatch;
  const RengaKernelContext context = RengaPipelineContext_Private(pipeline, pass, number);
  RengaCall(RengaPipelineTakeGradients_Private(pipeline, pass, number, &adds));
  RengaCall(Poison(pipeline, pass->training, adds, action));
  RengaCall(TakeProgram(pipeline, pass, number, &program));
  if (adds) RengaCall(RengaPipelineGetAdding_Private(pipeline, context.samples, &program));
  RengaLogEventBegin(RengaPipelineEvent_Private(EVENT_BACKWARD));
  const RengaErrorCode code =
      RengaPipelineRunPart_Private(pipeline, pass, program, PART_BACKWARD, &context);
  RengaLogEventEnd(RengaPipelineEvent_Private(EVENT_BACKWARD), program->part[PART_BACKWARD].flops,
                   0, 0);
  RengaCall(code);
  if (!pass->failed) RengaCall(RengaPipelineCloseGradients_Private(pipeline, pass, number));
  return RENGA_SUCCESS;
}

/* Where the pass has failed only what messages need of it is done. */
static RengaErrorCode RunForward(RengaPipeline pipeline, Pass *pass, const RengaAction *action,
                                 int64_t i)
{
  RengaCall(RengaPipelineWaitSends_Private(pipeline, pass, i, false));
  RengaPipelineSetBases_Private(pipeline, pass->training, i);
  if (!RengaPipelineHears_Private(pipeline, pass, true))
    RengaCall(RengaPipelineNote_Private(pipeline, pass, Forward(pipeline, pass, action, i)));
  pass->forward_done++;
  RengaCall(RengaPipelinePostReceives_Private(pipeline, pass));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunBackward(RengaPipeline pipeline, Pass *pass, const RengaAction *action,
                                  int64_t i)
{
  RengaCall(RengaPipelineWaitSends_Private(pipeline, pass, i, true));
  SetRecomputedBases(pipeline, i);
  if (!RengaPipelineHears_Private(pipeline, pass, true))
    RengaCall(RengaPipelineNote_Private(pipeline, pass, Backward(pipeline, pass, action)));
  pass->backward_done++;
  RengaCall(RengaPipelinePostReceives_Private(pipeline, pass));
  return RENGA_SUCCESS;
}

static RengaErrorCode Send(RengaPipeline pipeline, Pass *pass, int row, int64_t i)
{
  RengaPipelineSetBases_Private(pipeline, pass->training, i);
  RengaCall(RengaPipelineSend_Private(pipeline, pass, row, i));
  return RENGA_SUCCESS;
}

/* Fails only where messages are left under way; other errors are noted in the pass. */
static RengaErrorCode RunAction(RengaPipeline pipeline, Pass *pass, const RengaAction *action)
{
  const int64_t i = action->microbatch < 0 ? 0 : pass->place[action->microbatch - pass->first];
  switch (action->kind) {
  case RENGA_ACTION_FORWARD:
    RengaCall(RunForward(pipeline, pass, action, i));
    break;
  case RENGA_ACTION_RECOMPUTE:
    if (!pass->failed)
      RengaCall(RengaPipelineNote_Private(pipeline, pass, Recompute(pipeline, pass, action, i)));
    break;
  case RENGA_ACTION_BACKWARD:
    RengaCall(RunBackward(pipeline, pass, action, i));
    break;
  case RENGA_ACTION_SEND:
    RengaCall(Send(pipeline, pass, action->message, i));
    break;
  case RENGA_ACTION_RECEIVE:
    RengaCall(RengaPipelineReceive_Private(pipeline, pass, action->message, i));
    break;
  case RENGA_ACTION_REDUCE:
  case RENGA_ACTION_UPDATE:
    break; /* the step does both after the last action */
  default:
    RengaRaise(MPI_COMM_SELF, RENGA_ERR_SUPPORT, "the pipeline has no action %s",
               RengaActionName(action->kind));
  }
  return RENGA_SUCCESS;
}

static void Trace(RengaPipeline pipeline, const RengaAction *action, double begin)
{
  char name[160];
  const bool message = action->kind == RENGA_ACTION_SEND || action->kind == RENGA_ACTION_RECEIVE;
  if (!RengaLogTraceIsOn() || action->microbatch < 0) return;
  snprintf(name, sizeof name, "%s %lld%s%s", RengaActionName(action->kind),
           (long long)action->microbatch, message ? " " : "",
           message ? pipeline->message[action->message].value : "");
  RengaLogTrace(message ? "communication" : "compute", name, begin, MPI_Wtime());
}

/* Before an action that sends, or waits for what others send. */
static RengaErrorCode SettleBefore(RengaPipeline pipeline, Pass *pass, const RengaAction *action)
{
  if (action->kind != RENGA_ACTION_SEND && action->kind != RENGA_ACTION_RECEIVE)
    return RENGA_SUCCESS;
  RengaCall(RengaPipelineSettle_Private(pipeline, pass, true));
  RengaCall(RengaPipelinePostReceives_Private(pipeline, pass));
  return RENGA_SUCCESS;
}

/* One pass over this replica's micro-batches. Fails only where messages are left under way. */
RengaErrorCode RengaPipelineRunPass_Private(RengaPipeline pipeline, Pass *pass)
{
  RengaCall(RengaPipelinePostReceives_Private(pipeline, pass));
  for (int64_t a = 0; a < pass->n_actions && !pass->refused; a++) {
    const double begin = MPI_Wtime();
    if (!pass->settled) RengaCall(SettleBefore(pipeline, pass, &pass->action[a]));
    if (pass->refused) break;
    RengaCall(RunAction(pipeline, pass, &pass->action[a]));
    Trace(pipeline, &pass->action[a], begin);
  }
  RengaCall(RengaPipelineSettle_Private(pipeline, pass, true));
  if (!pass->refused) RengaCall(RengaPipelineFinishLinks_Private(pipeline, pass));
  return RENGA_SUCCESS;
}
