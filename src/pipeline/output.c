/* Outputs of the network: a forward pass, and its rows where they are wanted. */
#include "pipelineimpl.h"
#include <string.h>

/* An output: where it is made, and what a sample has of it. */
typedef struct {
  const char *name;
  bool float32;    /* nothing else is allowed */
  int stage, root; /* root: a rank, or RENGA_TO_... */
  size_t row_bytes;
  char *buffer; /* of the caller */
  char *rows;   /* of this replica, on the ranks of the stage, where they go elsewhere */
} Output;

static RengaErrorCode FindOutput(RengaPipeline pipeline, Output *output)
{
  int count, found = 0;
  const RengaValue *all;
  RengaCheck(output->name, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the name of the output is a null pointer");
  RengaCall(RengaGraphGetOutputs(pipeline->graph, &count, &all));
  while (found < count &&
         strcmp(RengaGraphGetValue(pipeline->graph, all[found])->name, output->name) != 0)
    found++;
  RengaCheck(found < count, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "the network has no output %s",
             output->name);
  const RengaGraphValue *value = RengaGraphGetValue(pipeline->graph, all[found]);
  const RengaTensorSpec one = RengaTensorSpecAt(&value->spec, 1);
  bool rows = value->spec.ndim > 0 && value->spec.dim[0] < 0;
  for (int d = 1; d < value->spec.ndim; d++) rows = rows && value->spec.dim[d] >= 0;
  RengaCheck(rows && value->producer >= 0, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "output %s is not made of rows, one or more for each sample", output->name);
  RengaCheck(!output->float32 || value->spec.type == RENGA_FLOAT32, MPI_COMM_SELF,
             RENGA_ERR_SUPPORT, "output %s is not float32: call RengaPipelineForwardTo",
             output->name);
  RengaCheck(value->in_order, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "output %s runs through all samples more than once (parts joined along the batch): it "
             "cannot be put together from micro-batches. Make the parts outputs of their own",
             output->name);
  output->stage = RengaPlanStageOfNode(pipeline->plan, value->producer);
  output->row_bytes = RengaTensorSpecBytes(&one);
  return RENGA_SUCCESS;
}

/* Samples [first, last) of a batch are those of a replica of the stage. */
static void FindRows(RengaPipeline pipeline, int stage, int replica, int64_t samples,
                     int64_t *first, int64_t *last)
{
  const int replicas = RengaPlanGetStage(pipeline->plan, stage)->shape.replicas;
  const int64_t m = RengaPlanMicrobatches(pipeline->plan, samples),
                size = pipeline->outline->microbatch;
  *first = RengaPlanLeafBound(m, pipeline->outline->leaf, replicas, replica) * size;
  *last = RengaPlanLeafBound(m, pipeline->outline->leaf, replicas, replica + 1) * size;
  if (*first > samples) *first = samples;
  if (*last > samples) *last = samples;
}

/* What one rank may find wrong, before the ranks agree. */
static RengaErrorCode PrepareOutput(RengaPipeline pipeline, Pass *pass, Output *output)
{
  const int rank = RengaCommGetRank(pipeline->rank->all),
            size = RengaCommGetSize(pipeline->rank->all);
  int64_t first = 0, last = 0;
  RengaCall(FindOutput(pipeline, output));
  RengaCheck(output->root >= RENGA_TO_NONE && output->root < size, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "output %s to rank %d of %d ranks", output->name, output->root,
             size);
  const uint64_t hash = RengaHash(output->name, strlen(output->name), (uint64_t)output->root);
  memcpy(&pass->want[WANT_OUTPUT], &hash, sizeof hash);
  RengaCheck(pass->batch, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "the batch is a null pointer");
  Chunk *chunk = RengaPipelineFindChunk_Private(pipeline, output->stage);
  if (chunk) chunk->portion->target = RengaGraphFindValue(chunk->sub, output->name);
  if (chunk && RengaChunkSpeaks_Private(chunk)) {
    FindRows(pipeline, output->stage, chunk->replica, pass->batch->samples, &first, &last);
    if (output->root != RENGA_TO_NONE)
      RengaCall(RengaMalloc((size_t)(last - first) * output->row_bytes + 1, &output->rows));
    chunk->portion->output = output->root == RENGA_TO_NONE ? output->buffer : output->rows;
  }
  const bool gets = output->root == rank || output->root == RENGA_TO_ALL ||
                    (output->root == RENGA_TO_NONE && last > first);
  RengaCheck(!gets || output->buffer, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "rank %d has no buffer for %s", rank, output->name);
  return RENGA_SUCCESS;
}

/* To one rank: each replica of the stage sends its rows there. */
static RengaErrorCode CollectOutput(RengaPipeline pipeline, const Output *output, int root,
                                    int64_t samples)
{
  const int rank = RengaCommGetRank(pipeline->rank->all);
  for (int r = 0; r < RengaPlanGetStage(pipeline->plan, output->stage)->shape.replicas; r++) {
    int64_t first, last;
    FindRows(pipeline, output->stage, r, samples, &first, &last);
    if (first >= last) continue;
    const int from = RengaPlanGetRank(pipeline->plan, output->stage, r);
    const size_t bytes = (size_t)(last - first) * output->row_bytes;
    char *place = rank == root ? output->buffer + (size_t)first * output->row_bytes : NULL;
    if (from == root && rank == root)
      memcpy(place, output->rows, bytes);
    else if (rank == root || rank == from)
      RengaCall(RengaPipelineTransfer_Private(pipeline, rank == root ? place : output->rows, bytes,
                                              from, root,
                                              "an output of the network to be collected"));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Deliver(RengaPipeline pipeline, const Pass *pass, const Output *output)
{
  const int64_t samples = pass->batch->samples;
  if (output->root == RENGA_TO_NONE) return RENGA_SUCCESS;
  RengaCall(CollectOutput(pipeline, output, output->root < 0 ? 0 : output->root, samples));
  if (output->root == RENGA_TO_ALL)
    RengaCall(RengaCommBroadcast(pipeline->rank->all, output->buffer,
                                 (size_t)samples * output->row_bytes, 0,
                                 "all ranks to get an output of the network"));
  return RENGA_SUCCESS;
}

/* Rows that are kept in 16 bits have come to the begin of the place where they are wanted. */
static RengaErrorCode WidenRows(RengaPipeline pipeline, const Pass *pass, const Output *output)
{
  int64_t first, last;
  const Chunk *chunk = RengaPipelineFindChunk_Private(pipeline, output->stage);
  if (!chunk || !chunk->portion->output) return RENGA_SUCCESS;
  const RengaGraphValue *value = RengaGraphGetValue(chunk->sub, chunk->portion->target);
  if (value->stored == value->spec.type) return RENGA_SUCCESS;
  FindRows(pipeline, output->stage, chunk->replica, pass->batch->samples, &first, &last);
  RengaCall(RengaDataWiden(value->stored,
                           (last - first) * (int64_t)(output->row_bytes / sizeof(float)),
                           chunk->portion->output, (float *)(void *)chunk->portion->output));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunOutputForward(RengaPipeline pipeline, const RengaBatch *batch,
                                       Output *output, const char *function)
{
  Pass pass = {.kind = PROGRAM_EVALUATION, .call = CALL_FORWARD, .batch = batch};
  RengaCall(RengaPipelineCheckReady_Private(pipeline, function));
  pass.code = PrepareOutput(pipeline, &pass, output);
  RengaErrorCode code = RengaPipelineRunTogether_Private(pipeline, &pass);
  if (!code) {
    code = WidenRows(pipeline, &pass, output);
    if (!code) code = Deliver(pipeline, &pass, output);
    if (code) RengaPipelineBreak_Private(pipeline, code);
  }
  RengaFree(&output->rows);
  RengaPipelineFreePass_Private(pipeline, &pass);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineForwardTo - run the network forward and bring an output where it is wanted

   Collective

   Input:
   . pipeline - the pipeline, set up
   . batch - number of samples over all replicas, and how to read them; fields that the output does
     not need are not read
   . output - name of an output of the network, [samples, ...], of any type
   . to - the rank that gets it; RENGA_TO_ALL: every rank; RENGA_TO_NONE: it is left where it is

   Output:
   . buffer - the output of all samples in order. With RENGA_TO_NONE it has the rows of the samples
     that RengaPipelineGetOutputRows says. It is not looked at on other ranks, where NULL is allowed

   Errors: as of RengaPipelineStep; a rank without a buffer, or with another output or rank to bring
   it to, is an error on all ranks.

   See also: RengaPipelineForward(), RengaPipelineGetOutputRows(), RengaPipelineEvaluate(),
   RengaGraphAddOutput()
@*/
RengaErrorCode RengaPipelineForwardTo(RengaPipeline pipeline, const RengaBatch *batch,
                                      const char *output, int to, void *buffer)
{
  Output wanted = {.name = output, .root = to, .buffer = buffer};
  RengaCall(RunOutputForward(pipeline, batch, &wanted, __func__));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineForward - run the network forward and collect a float32 output on rank 0

   Collective

   Input:
   . pipeline - the pipeline, set up
   . batch - number of samples over all replicas, and how to read them; fields that the output does
     not need are not read
   . output - name of an output of the network, [samples, ...], float32

   Output:
   . buffer - the output of all samples in order, on rank 0; it is not looked at on other ranks

   Errors: as of RengaPipelineForwardTo.

   See also: RengaPipelineForwardTo(), RengaPipelineEvaluate()
@*/
RengaErrorCode RengaPipelineForward(RengaPipeline pipeline, const RengaBatch *batch,
                                    const char *output, float *buffer)
{
  Output wanted = {.name = output, .float32 = true, .buffer = (char *)buffer};
  RengaCall(RunOutputForward(pipeline, batch, &wanted, __func__));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetOutputRows - the samples whose part of an output this rank makes

   Input:
   . pipeline - the pipeline, set up
   . output - name of an output of the network
   . samples - samples of the batch, at least 1

   Output:
   . first - the number of the first of them in the batch, from 0
   . count - the number of samples; 0 on ranks that do not make the output

   Errors: RENGA_ERR_ORDER before set-up, or for a pipeline that can only be destroyed
   (RengaPipelineStep); RENGA_ERR_ARGUMENT for an output that the network does not have, or no
   samples; RENGA_ERR_SUPPORT for an output that is not made of rows of samples in their order.

   See also: RengaPipelineForwardTo()
@*/
RengaErrorCode RengaPipelineGetOutputRows(RengaPipeline pipeline, const char *output,
                                          int64_t samples, int64_t *first, int64_t *count)
{
  Output wanted = {.name = output};
  int64_t begin = 0, end = 0;
  RengaCall(RengaPipelineCheckReady_Private(pipeline, __func__));
  RengaCheckPointers(first, count);
  RengaCheck(samples > 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "a batch of %lld samples",
             (long long)samples);
  RengaCall(FindOutput(pipeline, &wanted));
  const Chunk *chunk = RengaPipelineFindChunk_Private(pipeline, wanted.stage);
  if (chunk && RengaChunkSpeaks_Private(chunk))
    FindRows(pipeline, wanted.stage, chunk->replica, samples, &begin, &end);
  *first = begin;
  *count = end - begin;
  return RENGA_SUCCESS;
}
