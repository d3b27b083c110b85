/* Checkpoints of learners: under the names of the network the mean of all, with the moments of
   learner 0, so that any command reads them; besides, all that the learners need to go on. */
#include "mean.h"
#include <stdlib.h>

RengaErrorCode RengaLearnersCheckBefore(const RengaLearners *learners, RengaCheckpoint checkpoint)
{
  const char *was;
  bool found;
  int64_t step;
  RengaCall(RengaCheckpointPeek(checkpoint, &found, &step));
  if (!found) return RENGA_SUCCESS;
  RengaCall(RengaCheckpointGetAttribute(checkpoint, "learners", &was));
  const int before = was ? atoi(was) : 1;
  RengaCheck(before == learners->count, learners->printer, RENGA_ERR_OPTION,
             "the run that wrote the checkpoint had %d learner%s, this one has %d: -resume goes on "
             "with as many (-train_learners); -initial begins with the mean of them",
             before, before == 1 ? "" : "s", learners->count);
  return RENGA_SUCCESS;
}

static RengaErrorCode AppendListed(RengaMean mean, const RengaPersistent *row, int learner)
{
  char name[512];
  const char *prefix = learner < 0 ? "" : RENGA_CHECKPOINT_OWN "learner";
  char *copy;
  if (learner < 0)
    snprintf(name, sizeof name, "%s", row->name);
  else
    snprintf(name, sizeof name, "%s%d:%s", prefix, learner, row->name);
  RengaCall(RengaStringCopy(name, &copy));
  mean->listed[mean->n_listed] = *row;
  mean->listed[mean->n_listed++].name = copy;
  return RENGA_SUCCESS;
}

/* The first group: the mean, and the moments of learner 0. */
static RengaErrorCode ListMean(RengaMean mean)
{
  for (int t = 0; t < mean->count; t++) {
    RengaPersistent row = mean->row[0][t];
    if (mean->taken[t]) row.data = mean->values + mean->begin[t];
    RengaCall(AppendListed(mean, &row, -1));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ListLearner(RengaMean mean, int l)
{
  const int number = mean->learners->first + l;
  for (int t = 0; t < mean->count; t++)
    if (mean->taken[t] || number > 0) RengaCall(AppendListed(mean, &mean->row[l][t], number));
  return RENGA_SUCCESS;
}

static RengaErrorCode ListAllTensors(RengaMean mean)
{
  RengaCall(RengaMalloc((int64_t)mean->count * (mean->learners->own + 1) + 1, &mean->listed));
  if (mean->learners->group == 0) RengaCall(ListMean(mean));
  for (int l = 0; l < mean->learners->own; l++) RengaCall(ListLearner(mean, l));
  return RENGA_SUCCESS;
}

/* Before a file is written the mean is that of now. */
static RengaErrorCode GiveTensors(void *user, int *count, const RengaPersistent **tensors)
{
  RengaMean mean = user;
  RengaCall(RengaMeanMake(mean));
  *count = mean->n_listed;
  *tensors = mean->listed;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaLearnersSetCheckpoint(RengaLearners *learners, RengaCheckpoint checkpoint)
{
  char text[16];
  if (!learners->apart) return RENGA_SUCCESS;
  snprintf(text, sizeof text, "%d", learners->count);
  RengaCall(RengaCheckpointSetAttribute(checkpoint, "learners", text));
  RengaCall(RengaMeanTakeLists(learners->mean));
  RengaCall(RengaErrorAgree(learners->printer, ListAllTensors(learners->mean)));
  RengaCall(RengaCheckpointSetTensors(checkpoint, GiveTensors, learners->mean));
  return RENGA_SUCCESS;
}
