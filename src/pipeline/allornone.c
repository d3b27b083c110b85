/* All ranks make a pass, or none does.

   A step, an evaluation or a forward pass begins with an agreement: a small sum says whether all
   ranks want the same and could prepare it. It is waited for before the first message leaves, so
   that a rank which may not go on leaves nothing behind. After it each rank goes through all its
   messages and sums, whatever happens: where a kernel, a read or a call on a message fails, the
   rank notes the error, tells all others, which then compute no more either, and goes on with
   messages alone. So none is left under way, and the last sum of the pass counts the ranks that
   failed. Where there are any, all ranks return the same error, and nothing has changed. What may
   still fail after it is the update (update.c). */
#include "pipelineimpl.h"
#include "renga/private/number.h"
#include "renga/private/wait.h"
#include <string.h>

enum { TAG_NOTICE = 0, ATTEMPTS = 3 };

static const double listen_seconds = 0.01; /* a rank that computes looks for notices so often */

static const char *const calls[] = {[CALL_STEP] = "step",
                                    [CALL_EVALUATE] = "evaluation",
                                    [CALL_FORWARD] = "forward pass",
                                    [CALL_COUNT] = "count of a batch"};

/* "step 3", "the evaluation after 3 steps". */
static void NamePass(RengaPipeline pipeline, const Pass *pass, size_t size, char text[])
{
  snprintf(text, size, pass->call == CALL_STEP ? "%s %lld" : "the %s after %lld steps",
           calls[pass->call], (long long)pipeline->step);
}

RengaErrorCode RengaPipelineCheckWhole_Private(RengaPipeline pipeline)
{
  RengaCheck(!pipeline->rank->together.broken, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "an earlier call ended in the middle of its messages or of an update (%s): the "
             "pipeline cannot go on, destroy it",
             RengaErrorText(pipeline->rank->together.broken));
  return RENGA_SUCCESS;
}

/* Public calls on a pipeline begin here: it is set up, and its messages are in order. */
RengaErrorCode RengaPipelineCheckReady_Private(RengaPipeline pipeline, const char *function)
{
  RengaCheckPointerOf(function, pipeline);
  RengaCheckState(pipeline, RENGA_STATE_SETUP, "RengaPipelineSetUp");
  RengaCall(RengaPipelineCheckWhole_Private(pipeline));
  return RENGA_SUCCESS;
}

/* After an error that leaves messages under way, for ever: no wait for others makes sense, and
   memory that MPI may write stays. What the device does with messages ends. */
void RengaPipelineBreak_Private(RengaPipeline pipeline, RengaErrorCode code)
{
  if (!pipeline->rank->together.left) RengaTransportAbort_Private(pipeline->rank->transport);
  pipeline->rank->together.broken = code;
  pipeline->rank->together.left = true;
  RengaWatchBreak_Private(pipeline->hdr.comm);
}

/* After an error that leaves parameters half updated, and no message under way. */
void RengaPipelineSpoil_Private(RengaPipeline pipeline, RengaErrorCode code)
{
  pipeline->rank->together.broken = code;
}

static RengaErrorCode SendNotices(RengaPipeline pipeline)
{
  const int rank = RengaCommGetRank(pipeline->rank->together.side),
            size = RengaCommGetSize(pipeline->rank->together.side);
  for (int r = 0; r < size; r++) {
    RengaErrorCode code = RENGA_SUCCESS;
    if (r == rank) continue;
    for (int attempt = 0; attempt == 0 || (code && attempt < ATTEMPTS); attempt++)
      code = RengaCommSend(pipeline->rank->together.side, NULL, 0, r, TAG_NOTICE,
                           &pipeline->rank->together.notice[r]);
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}

/* Notes an error of this rank in the pass, and tells the others. Fails itself only where they
   cannot be told. */
RengaErrorCode RengaPipelineNote_Private(RengaPipeline pipeline, Pass *pass, RengaErrorCode code)
{
  if (!code) return RENGA_SUCCESS;
  if (!pass->code) pass->code = code;
  if (pass->failed) return RENGA_SUCCESS;
  pass->failed = pass->told = true;
  RengaCall(SendNotices(pipeline));
  return RENGA_SUCCESS;
}

/* Whether a call on a message is made once more: others wait for it. Its error is noted. A wait
   that has reached the time limit is not begun again. */
bool RengaPipelineTryAgain_Private(RengaPipeline pipeline, Pass *pass, RengaErrorCode code,
                                   int *attempt)
{
  if (!code || RengaPipelineNote_Private(pipeline, pass, code)) return false;
  return code != RENGA_ERR_TIMEOUT && ++*attempt < ATTEMPTS;
}

static RengaErrorCode Listen(RengaPipeline pipeline, Pass *pass)
{
  MPI_Comm comm;
  MPI_Status status;
  int comes;
  RengaCall(RengaObjectGetComm(pipeline->rank->together.side, &comm));
  RengaCallMPI(MPI_Iprobe(MPI_ANY_SOURCE, TAG_NOTICE, comm, &comes, &status));
  if (!comes) return RENGA_SUCCESS;
  RengaCallMPI(MPI_Recv(NULL, 0, MPI_BYTE, status.MPI_SOURCE, TAG_NOTICE, comm, MPI_STATUS_IGNORE));
  pipeline->rank->together.heard[status.MPI_SOURCE] = true;
  pass->failed = true;
  return RENGA_SUCCESS;
}

/* Whether some rank is known to have failed. now: also look if that was done a moment ago. */
bool RengaPipelineHears_Private(RengaPipeline pipeline, Pass *pass, bool now)
{
  if (pass->failed || RengaCommGetSize(pipeline->rank->together.side) == 1) return pass->failed;
  const double time = MPI_Wtime();
  if (!now && time < pass->listen) return false;
  pass->listen = time + listen_seconds;
  const RengaErrorCode code = Listen(pipeline, pass);
  (void)RengaPipelineNote_Private(pipeline, pass, code); /* failed, whether others hear it or not */
  return pass->failed;
}

static uint64_t HashWants(const Pass *pass)
{
  return RengaHash(pass->want, sizeof pass->want, 0);
}

/* Starts the agreement: pass->code says whether this rank could prepare the pass. */
RengaErrorCode RengaPipelineAskAll_Private(RengaPipeline pipeline, Pass *pass)
{
  RengaErrorCode code;
  int attempt = 0;
  int64_t *agree = pipeline->rank->together.agree;
  const uint64_t hash = HashWants(pass);
  memset(pipeline->rank->together.heard, 0,
         (size_t)RengaCommGetSize(pipeline->rank->together.side) *
             sizeof *pipeline->rank->together.heard);
  pass->prepared = !pass->code;
  agree[0] = pass->code;
  memcpy(&agree[1], &hash, sizeof hash);
  agree[2] = ~agree[1];
  agree[3] = pipeline->rank->rewritten;
  do code = RengaCommStartLargest(pipeline->rank->all, 4, agree, &pass->agreement);
  while (RengaPipelineTryAgain_Private(pipeline, pass, code, &attempt));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Whether the agreement has come; waits for it where asked. pass->refused: the pass is not made. */
RengaErrorCode RengaPipelineSettle_Private(RengaPipeline pipeline, Pass *pass, bool wait)
{
  RengaErrorCode code;
  int attempt = 0;
  bool done = true;
  const int64_t *agree = pipeline->rank->together.agree;
  char name[64], what[96];
  if (pass->settled) return RENGA_SUCCESS;
  NamePass(pipeline, pass, sizeof name, name);
  snprintf(what, sizeof what, "all ranks to begin %s", name);
  do
    code = wait ? RengaCommWait(pipeline->rank->all, &pass->agreement, what)
                : RengaCommTest(pipeline->rank->all, &pass->agreement, &done);
  while (RengaPipelineTryAgain_Private(pipeline, pass, code, &attempt));
  RengaCall(code);
  pass->settled = done;
  pass->refused = done && (agree[0] != 0 || agree[1] != ~agree[2]);
  return RENGA_SUCCESS;
}

/* Notices that this rank sent have left, those of others are taken. */
static RengaErrorCode EndNotices(RengaPipeline pipeline)
{
  const int rank = RengaCommGetRank(pipeline->rank->together.side),
            size = RengaCommGetSize(pipeline->rank->together.side);
  for (int r = 0; r < size; r++) {
    RengaRequest request = NULL;
    if (r != rank && pipeline->rank->together.standing[r].told &&
        !pipeline->rank->together.heard[r])
      RengaCall(RengaCommReceive(pipeline->rank->together.side, NULL, 0, r, TAG_NOTICE, &request));
    if (request)
      RengaCall(RengaCommWait(pipeline->rank->together.side, &request, "the news of an error"));
    if (pipeline->rank->together.notice[r])
      RengaCall(RengaCommWait(pipeline->rank->together.side, &pipeline->rank->together.notice[r],
                              "to tell of an error"));
  }
  return RENGA_SUCCESS;
}

/* What rank r wants otherwise than rank 0; -1: nothing. */
static int FindDifferentWish(const Standing standing[], int r)
{
  for (int w = 0; w < WANT_COUNT; w++)
    if (standing[r].want[w] != standing[0].want[w]) return w;
  return -1;
}

static void DescribeWant(int want, int64_t value, size_t size, char text[])
{
  double real;
  memcpy(&real, &value, sizeof real);
  switch (want) {
  case WANT_CALL:
    snprintf(text, size, value == CALL_EVALUATE ? "an %s" : "a %s", calls[value]);
    break;
  case WANT_STEP:
    snprintf(text, size, "step %lld", (long long)value);
    break;
  case WANT_SAMPLES:
    snprintf(text, size, "%lld samples", (long long)value);
    break;
  case WANT_RATE:
    RengaTextFormat(text, size, "learning rate %.17g", real);
    break;
  case WANT_SETTINGS:
    snprintf(text, size, "other settings of the optimizer or another -pipeline_on_nonfinite");
    break;
  case WANT_SCALE:
    snprintf(text, size, "a loss scale of %lld", (long long)value);
    break;
  default:
    snprintf(text, size, "another output, or to another rank");
  }
}

static RengaErrorCode RaiseDifference(RengaPipeline pipeline, const char *name)
{
  const Standing *standing = pipeline->rank->together.standing;
  for (int r = 1; r < RengaCommGetSize(pipeline->rank->all); r++) {
    char there[96], here[96];
    const int want = FindDifferentWish(standing, r);
    if (want < 0) continue;
    DescribeWant(want, standing[r].want[want], sizeof there, there);
    DescribeWant(want, standing[0].want[want], sizeof here, here);
    const bool same = strcmp(there, here) == 0;
    RengaRaise(pipeline->hdr.comm, RENGA_ERR_ARGUMENT,
               "in %s rank %d has %s%s%s: all ranks must call with the same; nothing was changed",
               name, r, there, same ? " than rank 0" : ", rank 0 has ", same ? "" : here);
  }
  RengaRaise(pipeline->hdr.comm, RENGA_ERR_INTERNAL, "%s was refused by no rank", name);
}

/* A rank lacks what others have updated: nobody goes on. */
static RengaErrorCode CheckTorn(RengaPipeline pipeline, const Pass *pass, const char *name)
{
  const Standing *standing = pipeline->rank->together.standing;
  for (int r = 0; r < RengaCommGetSize(pipeline->rank->all); r++) {
    if (!standing[r].torn) continue;
    RengaErrorCode code = (RengaErrorCode)standing[r].code;
    if (!code) code = RENGA_ERR_LIBRARY; /* it found nothing else wrong: another refused the pass */
    RengaPipelineSpoil_Private(pipeline, code);
    if (pass->code) RengaCall(code);
    RengaRaise(pipeline->hdr.comm, code,
               "rank %d did not get all parameters that other replicas updated, as %s shows: the "
               "pipeline cannot go on, destroy it",
               r, name);
  }
  return RENGA_SUCCESS;
}

/* Collective: all ranks fail with the error of the first rank that found one. */
RengaErrorCode RengaPipelineFailTogether_Private(RengaPipeline pipeline, const Pass *pass)
{
  Standing mine = {.code = pass->code, .told = pass->told, .torn = pipeline->rank->torn};
  char name[64];
  NamePass(pipeline, pass, sizeof name, name);
  memcpy(mine.want, pass->want, sizeof mine.want);
  RengaErrorCode code = RengaCommGather(pipeline->rank->together.side, &mine, sizeof mine,
                                        pipeline->rank->together.standing, -1,
                                        "all ranks to say why the pass failed");
  if (!code) code = EndNotices(pipeline);
  if (code) RengaPipelineBreak_Private(pipeline, code);
  RengaCall(code);
  RengaCall(CheckTorn(pipeline, pass, name));
  for (int r = 0; r < RengaCommGetSize(pipeline->rank->all); r++) {
    code = (RengaErrorCode)pipeline->rank->together.standing[r].code;
    if (!code) continue;
    if (pass->code) RengaCall(code);
    RengaRaise(pipeline->hdr.comm, code, "rank %d failed in %s: nothing was changed on any rank", r,
               name);
  }
  RengaCall(RaiseDifference(pipeline, name));
  return RENGA_SUCCESS;
}

/* The last sum of the pass, which counts the ranks that failed. */
RengaErrorCode RengaPipelineSumValues_Private(RengaPipeline pipeline, Pass *pass)
{
  char name[64], what[128];
  NamePass(pipeline, pass, sizeof name, name);
  snprintf(what, sizeof what, "all ranks to end %s%s", name,
           pass->call == CALL_STEP ? " (loss and norm)" : "");
  pass->values[pass->n_values - 1] = pass->code ? 1 : 0;
  RengaCall(RengaCommSumExact(pipeline->rank->all, pass->n_values, pass->values, what));
  return RENGA_SUCCESS;
}
