/* Fetches: with RENGA_SHARD_PARAMETERS a replica has the values of its share of the parameters, and
   of the others while kernels read them.

   Whoever comes to a part of a program that reads a bucket asks the other replicas for their blocks
   of it, and they answer, whatever they do: shares do not change during a pass, and whoever waits
   in the replicas' comm, or moves it on between kernels, looks for questions. So nobody has to be
   at the same action: replicas may have other numbers of micro-batches, and who has none answers. A
   question is the number of a bucket. At the end of its list a replica says that it asks no more,
   and waits until all have said so: then shares may change. In a pass that has failed nobody asks
   any more. */
#include "pipelineimpl.h"
#include "renga/private/line.h"
#include "renga/private/log.h"

enum { TAG_QUESTION, TAG_ANSWER };
static const int64_t no_more = -1;

static int BucketsToFetch(const Chunk *chunk)
{
  return RengaOutlineCountBuckets_Private(chunk->outline, chunk->stage).shared;
}

/* A bucket's block of a replica, in bytes of the bucket. */
static void BlockOfReplica(const Chunk *chunk, int b, int replica, int64_t *begin, int64_t *bytes)
{
  int64_t first, last;
  RengaBlocksGetRange(chunk->gradients.bucket[b].blocks, replica, &first, &last);
  *begin = RengaChunkRoleBytes_Private(chunk, ROLE_VALUE, first);
  *bytes = RengaChunkRoleBytes_Private(chunk, ROLE_VALUE, last - first);
}

static Fetch *FetchOf(const Chunk *chunk, int b, int replica)
{
  return &chunk->window.fetch[b * chunk->replicas + replica];
}

/* This replica's block of a bucket, among its shares. */
static const char *OwnBlock(const Chunk *chunk, int b)
{
  return chunk->at.shares +
         RengaChunkRoleBytes_Private(chunk, ROLE_VALUE, chunk->gradients.bucket[b].own);
}

static RengaErrorCode ListenTo(Chunk *chunk, int replica)
{
  Asker *asker = &chunk->window.asker[replica];
  RengaCall(RengaCommReceive(chunk->group, &asker->question, sizeof asker->question, replica,
                             TAG_QUESTION, &asker->request));
  return RENGA_SUCCESS;
}

/* The question that has come from a replica: where the last answer has not left it stays. */
static RengaErrorCode Answer(Chunk *chunk, int replica)
{
  Asker *asker = &chunk->window.asker[replica];
  int64_t begin, bytes;
  bool left;
  if (asker->question == no_more) {
    asker->done = true;
    asker->asked = false;
    return RENGA_SUCCESS;
  }
  const int b = (int)asker->question;
  RengaCheck(b >= 0 && b < BucketsToFetch(chunk), MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "replica %d asks for bucket %d of %d", replica, b, BucketsToFetch(chunk));
  Fetch *fetch = FetchOf(chunk, b, replica);
  RengaCall(RengaParcelTest_Private(fetch->answer, &left));
  if (!left) return RENGA_SUCCESS;
  BlockOfReplica(chunk, b, chunk->replica, &begin, &bytes);
  RengaCall(RengaParcelSend_Private(fetch->answer, OwnBlock(chunk, b), (size_t)bytes, replica,
                                    TAG_ANSWER + b));
  asker->asked = false;
  return RENGA_SUCCESS;
}

static RengaErrorCode LookForQuestions(Chunk *chunk)
{
  for (int r = 0; r < chunk->replicas; r++) {
    Asker *asker = &chunk->window.asker[r];
    bool came = false;
    if (r == chunk->replica || asker->done) continue;
    if (!asker->asked && !asker->request) RengaCall(ListenTo(chunk, r));
    if (!asker->asked) {
      RengaCall(RengaCommTest(chunk->group, &asker->request, &came));
      asker->asked = came;
    }
    if (asker->asked) RengaCall(Answer(chunk, r));
    if (came) RengaCommMoved_Private(chunk->group);
  }
  return RENGA_SUCCESS;
}

/* Whoever waits for anything calls it; not from within itself. */
static RengaErrorCode AnswerQuestions(RengaCommDriven *driven)
{
  ParameterWindow *window = (ParameterWindow *)(void *)driven;
  if (window->busy) return RENGA_SUCCESS;
  window->busy = true;
  const RengaErrorCode code = LookForQuestions(window->chunk);
  window->busy = false;
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeFetch(Chunk *chunk, int b, int replica)
{
  const Rank *rank = &chunk->pipeline->rank;
  Fetch *fetch = FetchOf(chunk, b, replica);
  int64_t begin, bytes;
  if (replica == chunk->replica) return RENGA_SUCCESS;
  BlockOfReplica(chunk, b, replica, &begin, &bytes);
  RengaCall(RengaParcelCreate_Private(rank->transport, chunk->group, (size_t)bytes, &fetch->block));
  BlockOfReplica(chunk, b, chunk->replica, &begin, &bytes);
  RengaCall(
      RengaParcelCreate_Private(rank->transport, chunk->group, (size_t)bytes, &fetch->answer));
  return RENGA_SUCCESS;
}

/* After the buckets. */
RengaErrorCode RengaChunkSetUpFetches_Private(Chunk *chunk)
{
  ParameterWindow *window = &chunk->window;
  const int buckets = BucketsToFetch(chunk);
  if (!RengaChunkFetches_Private(chunk)) return RENGA_SUCCESS;
  window->chunk = chunk;
  window->driven.advance = AnswerQuestions;
  RengaCall(RengaMalloc(buckets + 1, &window->state));
  RengaCall(RengaMalloc(buckets * chunk->replicas + 1, &window->fetch));
  RengaCall(RengaMalloc(chunk->replicas, &window->asker));
  for (int b = 0; b < buckets; b++)
    for (int r = 0; r < chunk->replicas; r++) RengaCall(MakeFetch(chunk, b, r));
  RengaCall(RengaCommReserve_Private(chunk->group, (2 + 3 * buckets) * chunk->replicas));
  return RENGA_SUCCESS;
}

/* However far it came. */
RengaErrorCode RengaChunkFreeFetches_Private(Chunk *chunk)
{
  ParameterWindow *window = &chunk->window;
  RengaErrorCode code = RENGA_SUCCESS;
  if (window->open) RengaCommUndrive_Private(chunk->group, &window->driven);
  for (int i = 0; window->fetch && i < BucketsToFetch(chunk) * chunk->replicas; i++) {
    if (window->fetch[i].block)
      RengaKeepFirst_Private(&code, RengaParcelDestroy_Private(&window->fetch[i].block));
    if (window->fetch[i].answer)
      RengaKeepFirst_Private(&code, RengaParcelDestroy_Private(&window->fetch[i].answer));
  }
  RengaFree(&window->place);
  RengaFree(&window->state);
  RengaFree(&window->fetch);
  RengaFree(&window->asker);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* All ranks make the pass: from now on others may ask. */
void RengaChunkOpenFetches_Private(Chunk *chunk)
{
  ParameterWindow *window = &chunk->window;
  if (!window->fetch || window->open) return;
  for (int b = 0; b < BucketsToFetch(chunk); b++) window->state[b] = BUCKET_AWAY;
  for (int r = 0; r < chunk->replicas; r++) window->asker[r].done = window->asker[r].asked = false;
  RengaCommDrive_Private(chunk->group, &window->driven);
  window->open = true;
}

static void DescribeFetch(const Chunk *chunk, size_t size, char what[])
{
  snprintf(what, size,
           "rank %d (stage %d, replica %d) asks the other replicas for parameters in step %lld",
           RengaCommGetRank(chunk->pipeline->rank.all), chunk->stage, chunk->replica,
           (long long)chunk->pipeline->step);
}

static RengaErrorCode AskQuestion(Chunk *chunk, Pass *pass, Fetch *fetch, int b, int replica)
{
  RengaErrorCode code;
  int attempt = 0;
  fetch->number = b;
  do
    code = RengaCommSend(chunk->group, &fetch->number, sizeof fetch->number, replica, TAG_QUESTION,
                         &fetch->question);
  while (RengaPipelineTryAgain_Private(chunk->pipeline, pass, code, &attempt));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* An answer that cannot be taken stays under way. */
static RengaErrorCode AwaitAnswer(Chunk *chunk, Pass *pass, const Fetch *fetch, int b, int replica)
{
  int64_t begin, bytes;
  RengaErrorCode code;
  int attempt = 0;
  BlockOfReplica(chunk, b, replica, &begin, &bytes);
  char *to = chunk->at.window + chunk->window.place[b] + begin;
  do code = RengaParcelReceive_Private(fetch->block, to, (size_t)bytes, replica, TAG_ANSWER + b);
  while (RengaPipelineTryAgain_Private(chunk->pipeline, pass, code, &attempt));
  if (code) RengaPipelineBreak_Private(chunk->pipeline, code);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode AskReplica(Chunk *chunk, Pass *pass, int b, int replica)
{
  Fetch *fetch = FetchOf(chunk, b, replica);
  int64_t begin, bytes;
  char what[160];
  BlockOfReplica(chunk, b, replica, &begin, &bytes);
  if (replica == chunk->replica || bytes == 0) return RENGA_SUCCESS;
  DescribeFetch(chunk, sizeof what, what);
  if (fetch->question) RengaCall(RengaCommWait(chunk->group, &fetch->question, what));
  RengaCall(AskQuestion(chunk, pass, fetch, b, replica));
  RengaCall(AwaitAnswer(chunk, pass, fetch, b, replica));
  return RENGA_SUCCESS;
}

static bool ShareWindow(const Chunk *chunk, int a, int b)
{
  const int64_t *place = chunk->window.place;
  const GradientBucket *bucket = chunk->gradients.bucket;
  const int64_t x = RengaChunkRoleBytes_Private(chunk, ROLE_VALUE, bucket[a].count);
  const int64_t y = RengaChunkRoleBytes_Private(chunk, ROLE_VALUE, bucket[b].count);
  return place[a] < place[b] + y && place[b] < place[a] + x;
}

static RengaErrorCode WaitForBlocks(Chunk *chunk, int b)
{
  char what[160];
  DescribeFetch(chunk, sizeof what, what);
  for (int r = 0; r < chunk->replicas; r++)
    if (r != chunk->replica) RengaCall(RengaParcelWait_Private(FetchOf(chunk, b, r)->block, what));
  return RENGA_SUCCESS;
}

/* Of a bucket that is not there, nor asked for. What lies in its place is read no more. */
static RengaErrorCode AskForBucket(Chunk *chunk, Pass *pass, int b)
{
  ParameterWindow *window = &chunk->window;
  int64_t begin, bytes;
  for (int other = 0; other < BucketsToFetch(chunk); other++) {
    if (other == b || window->state[other] == BUCKET_AWAY || !ShareWindow(chunk, b, other))
      continue;
    if (window->state[other] == BUCKET_COMES) RengaCall(WaitForBlocks(chunk, other));
    window->state[other] = BUCKET_AWAY;
  }
  BlockOfReplica(chunk, b, chunk->replica, &begin, &bytes);
  window->state[b] = BUCKET_COMES;
  if (RengaDeviceGetPoison(chunk->device))
    RengaCall(RengaDeviceSetBytes(
        chunk->device, NULL, chunk->at.window + window->place[b], 0xff,
        (size_t)RengaChunkRoleBytes_Private(chunk, ROLE_VALUE, chunk->gradients.bucket[b].count)));
  if (bytes > 0)
    RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_DEVICE_TO_DEVICE,
                              chunk->at.window + window->place[b] + begin, OwnBlock(chunk, b),
                              (size_t)bytes));
  for (int step = 1; step < chunk->replicas; step++)
    RengaCall(AskReplica(chunk, pass, b, (chunk->replica + step) % chunk->replicas));
  return RENGA_SUCCESS;
}

static RengaErrorCode AwaitBucket(Chunk *chunk, Pass *pass, int b)
{
  ParameterWindow *window = &chunk->window;
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_GATHER);
  if (window->state[b] == BUCKET_AWAY) RengaCall(AskForBucket(chunk, pass, b));
  if (window->state[b] == BUCKET_HERE) return RENGA_SUCCESS;
  RengaLogEventBegin(event);
  const RengaErrorCode code = WaitForBlocks(chunk, b);
  RengaLogEventEnd(
      event, 0, 1,
      RengaChunkRoleBytes_Private(chunk, ROLE_VALUE, chunk->gradients.bucket[b].count));
  RengaCall(code);
  window->state[b] = BUCKET_HERE;
  return RENGA_SUCCESS;
}

/* Before a row of a part: what it reads is here, what comes next is asked for. */
RengaErrorCode RengaChunkFetchRows_Private(Chunk *chunk, Pass *pass, const Sequence *sequence,
                                           int row)
{
  if (!chunk->window.fetch || !sequence->reads) return RENGA_SUCCESS;
  for (int b = 0; b < BucketsToFetch(chunk); b++) {
    const BucketReads *reads = &sequence->reads[b];
    if (reads->ask < 0) continue;
    if (reads->first == row) RengaCall(AwaitBucket(chunk, pass, b));
  }
  for (int b = 0; b < BucketsToFetch(chunk); b++)
    if (sequence->reads[b].ask == row && chunk->window.state[b] == BUCKET_AWAY &&
        chunk->outline->settings->overlap)
      RengaCall(AskForBucket(chunk, pass, b));
  return RENGA_SUCCESS;
}

/* Answers that this replica waits for, and those that it gave. */
static RengaErrorCode EndParcels(Chunk *chunk, const char *what)
{
  for (int i = 0; i < BucketsToFetch(chunk) * chunk->replicas; i++) {
    Fetch *fetch = &chunk->window.fetch[i];
    if (fetch->block) RengaCall(RengaParcelWait_Private(fetch->block, what));
    if (fetch->answer) RengaCall(RengaParcelWait_Private(fetch->answer, what));
    if (fetch->question) RengaCall(RengaCommWait(chunk->group, &fetch->question, what));
  }
  return RENGA_SUCCESS;
}

static bool AllHaveAsked(const Chunk *chunk)
{
  for (int r = 0; r < chunk->replicas; r++)
    if (r != chunk->replica && !chunk->window.asker[r].done) return false;
  return true;
}

static RengaErrorCode AwaitAskers(Chunk *chunk, const char *what)
{
  MPI_Comm mpi;
  RengaCall(RengaObjectGetComm(chunk->group, &mpi));
  RengaWait wait = {.comm = mpi, .what = what};
  while (!AllHaveAsked(chunk)) RengaCall(RengaCommPause_Private(chunk->group, &wait));
  return RENGA_SUCCESS;
}

static RengaErrorCode SayNoMore(Chunk *chunk, Pass *pass, int replica)
{
  Asker *asker = &chunk->window.asker[replica];
  RengaErrorCode code;
  int attempt = 0;
  if (replica == chunk->replica) return RENGA_SUCCESS;
  do
    code = RengaCommSend(chunk->group, &no_more, sizeof no_more, replica, TAG_QUESTION,
                         &asker->farewell);
  while (RengaPipelineTryAgain_Private(chunk->pipeline, pass, code, &attempt));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* This rank's list is done: it answers until all are done. Fails only where messages are left under
   way. */
RengaErrorCode RengaChunkCloseFetches_Private(Chunk *chunk, Pass *pass)
{
  ParameterWindow *window = &chunk->window;
  char what[160];
  RengaChunkOpenFetches_Private(chunk);
  if (!window->open) return RENGA_SUCCESS;
  snprintf(what, sizeof what,
           "rank %d (stage %d, replica %d) answers the other replicas, which ask for parameters in "
           "step %lld",
           RengaCommGetRank(chunk->pipeline->rank.all), chunk->stage, chunk->replica,
           (long long)chunk->pipeline->step);
  for (int r = 0; r < chunk->replicas; r++) RengaCall(SayNoMore(chunk, pass, r));
  RengaCall(AwaitAskers(chunk, what));
  RengaCall(EndParcels(chunk, what));
  for (int r = 0; r < chunk->replicas; r++)
    if (window->asker[r].farewell)
      RengaCall(RengaCommWait(chunk->group, &window->asker[r].farewell, what));
  RengaCommUndrive_Private(chunk->group, &window->driven);
  window->open = false;
  return RENGA_SUCCESS;
}
