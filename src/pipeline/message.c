/* Messages of a chunk with other ranks, and sums over the replicas: what fails is tried again
   (allornone.c), and a wait says who waits for what. */
#include "pipelineimpl.h"

/* "rank 3 (stage 1, replica 0) adds up gradients in step 7": does, in the present. */
void RengaChunkDescribe_Private(const Chunk *chunk, const char *does, size_t size, char text[])
{
  snprintf(text, size, "rank %d (stage %d, replica %d) %s step %lld",
           RengaCommGetRank(chunk->pipeline->rank->all), chunk->stage, chunk->replica, does,
           (long long)chunk->pipeline->step);
}

/* Fails only where messages are left under way, as the wait for it. */
RengaErrorCode RengaChunkPost_Private(Chunk *chunk, Pass *pass, const ChunkMessage *message)
{
  RengaErrorCode code;
  int attempt = 0;
  do
    code = message->receives
               ? RengaParcelReceive_Private(message->parcel, message->data, message->bytes,
                                            message->peer, message->tag)
               : RengaParcelSend_Private(message->parcel, message->data, message->bytes,
                                         message->peer, message->tag);
  while (RengaPipelineTryAgain_Private(chunk->pipeline, pass, code, &attempt));
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChunkAwait_Private(Chunk *chunk, Pass *pass, RengaParcel parcel,
                                       const char *what)
{
  RengaErrorCode code;
  int attempt = 0;
  do code = RengaParcelWait_Private(parcel, what);
  while (RengaPipelineTryAgain_Private(chunk->pipeline, pass, code, &attempt));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* A sum that found no memory has sent nothing, and is begun once more. */
RengaErrorCode RengaChunkStartSum_Private(Chunk *chunk, Pass *pass, RengaComm comm,
                                          const RengaCommSumTask *task, SumStart start,
                                          RengaCommSum *sum)
{
  RengaErrorCode code;
  int attempt = 0;
  do code = start(comm, task, sum);
  while (RengaPipelineTryAgain_Private(chunk->pipeline, pass, code, &attempt));
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChunkEndSum_Private(Chunk *chunk, Pass *pass, const char *does,
                                        RengaCommSum *sum)
{
  char what[160];
  RengaErrorCode code;
  int attempt = 0;
  bool whole, again;
  RengaChunkDescribe_Private(chunk, does, sizeof what, what);
  do {
    code = RengaCommSumEnd(sum, what, &whole);
    again = *sum && RengaPipelineTryAgain_Private(chunk->pipeline, pass, code, &attempt);
  } while (again);
  if (!*sum) code = RengaPipelineNote_Private(chunk->pipeline, pass, code);
  RengaCall(code);
  if (!whole) pass->failed = true;
  return RENGA_SUCCESS;
}
