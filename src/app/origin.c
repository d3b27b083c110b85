/* What a checkpoint tells about its run: with the step, where the run was in its data. */
#include "app.h"
#include <inttypes.h>
#include <string.h>

enum { VALUE = 64 };

/* What decides the order of the samples and the random numbers, and so how a run goes on. */
static const struct {
  const char *name, *consequence;
} deciders[] = {
    {"seed", "the order of the samples and all random numbers change"},
    {"batch_size", "the run goes on at another place of the data"},
    {"graph_digest", "the operators of the network are not those that it was trained with"},
};
enum { DECIDERS = sizeof deciders / sizeof deciders[0] };

static void Describe(RengaGraph graph, int64_t seed, int64_t batch, char values[DECIDERS][VALUE])
{
  snprintf(values[0], VALUE, "%" PRId64, seed);
  snprintf(values[1], VALUE, "%" PRId64, batch);
  snprintf(values[2], VALUE, "%016" PRIx64, RengaGraphGetDigest(graph));
}

RengaErrorCode AppSetOrigin(RengaCheckpoint checkpoint, RengaGraph graph, int64_t seed,
                            int64_t batch)
{
  static const char *const texts[] = {"graph", "data"};
  char values[DECIDERS][VALUE];
  Describe(graph, seed, batch, values);
  for (int i = 0; i < DECIDERS; i++)
    RengaCall(RengaCheckpointSetAttribute(checkpoint, deciders[i].name, values[i]));
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    const char *text;
    RengaCall(RengaOptionsGetString(texts[i], &text, NULL));
    if (text) RengaCall(RengaCheckpointSetAttribute(checkpoint, texts[i], text));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode AppCompareOrigin(RengaComm comm, RengaCheckpoint checkpoint, RengaGraph graph,
                                int64_t seed, int64_t batch)
{
  char values[DECIDERS][VALUE];
  MPI_Comm printer;
  RengaCall(RengaObjectGetComm(comm, &printer));
  Describe(graph, seed, batch, values);
  for (int i = 0; i < DECIDERS; i++) {
    const char *before;
    RengaCall(RengaCheckpointGetAttribute(checkpoint, deciders[i].name, &before));
    if (before && strcmp(before, values[i]) != 0)
      RengaWarning(printer, "%s is %s, and was %s in the run that wrote the checkpoint: %s",
                   deciders[i].name, values[i], before, deciders[i].consequence);
  }
  return RENGA_SUCCESS;
}
