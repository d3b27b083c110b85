/* Reverse mode of a stage: its messages say where gradients come in and where they are wanted. */
#include "pipelineimpl.h"

static RengaErrorCode FindHere(RengaGraph sub, int stage, const char *name, RengaValue *value)
{
  *value = RengaGraphFindValue(sub, name);
  RengaCheck(*value != RENGA_VALUE_NONE, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "stage %d has a message of %s but no such value", stage, name);
  return RENGA_SUCCESS;
}

/* value: [4][n] seeds, their gradients, wanted values, their gradients. */
static RengaErrorCode DifferentiateInto(const Outline *outline, int stage, RengaGraph sub,
                                        Link link[], int n, RengaValue value[])
{
  int n_seeds = 0, n_wanted = 0;
  for (int m = 0; m < outline->n_messages; m++) {
    const RengaMessage *message = &outline->message[m];
    if (!message->backward) continue;
    if (message->to == stage) RengaCall(FindHere(sub, stage, message->value, &value[n_seeds++]));
    if (message->from == stage)
      RengaCall(FindHere(sub, stage, message->value, &value[2 * n + n_wanted++]));
  }
  RengaCall(RengaGraphDifferentiate(sub, n_seeds, value, value + n, n_wanted, value + 2 * n,
                                    value + 3 * n));
  n_seeds = n_wanted = 0;
  for (int m = 0; link && m < outline->n_messages; m++) {
    const RengaMessage *message = &outline->message[m];
    if (!message->backward) continue;
    if (message->to == stage) link[m].value = value[n + n_seeds++];
    if (message->from == stage) link[m].value = value[3 * n + n_wanted++];
  }
  return RENGA_SUCCESS;
}

/* Gradients that come in are seeds, gradients that go out are wanted. link, or NULL, gets them. */
RengaErrorCode RengaOutlineDifferentiate_Private(const Outline *outline, int stage, RengaGraph sub,
                                                 Link link[])
{
  const int n = outline->n_messages + 1;
  RengaValue *value;
  RengaCall(RengaMalloc(4 * n, &value));
  const RengaErrorCode code = DifferentiateInto(outline, stage, sub, link, n, value);
  RengaFree(&value);
  RengaCall(code);
  return RENGA_SUCCESS;
}
