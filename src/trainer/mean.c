/* The mean of the parameters and states of learners. They are added by the tree of their numbers,
   whichever ranks have them, so that its bits depend on the learners alone. */
#include "mean.h"
#include "renga/private/rectangle.h"
#include <string.h>

static RengaErrorCode AddPart(void *user, RengaDataType type, int64_t count, void *y, const void *x)
{
  float *to = y;
  const float *from = x;
  (void)user;
  (void)type;
  for (int64_t i = 0; i < count; i++) to[i] += from[i];
  return RENGA_SUCCESS;
}

static bool NetworkLists(int count, const RengaPipelineParameter list[], const char *name)
{
  for (int i = 0; i < count; i++)
    if (strcmp(list[i].name, name) == 0) return true;
  return false;
}

/* The same for all learners: they have the same plan. */
static RengaErrorCode PlaceTensors(RengaMean mean)
{
  const RengaPipelineParameter *list;
  int listed;
  RengaCall(RengaPipelineListParameters(mean->learners->pipeline[0], &listed, &list));
  RengaCall(RengaPipelineGetPersistents(mean->learners->pipeline[0], &mean->count, &mean->row[0]));
  RengaCall(RengaMalloc(mean->count + 1, &mean->taken));
  RengaCall(RengaMalloc(mean->count + 1, &mean->begin));
  for (int t = 0; t < mean->count; t++) {
    const RengaPersistent *row = &mean->row[0][t];
    mean->begin[t] = mean->elements;
    mean->taken[t] = NetworkLists(listed, list, row->name);
    if (!mean->taken[t]) continue;
    RengaCheck(row->spec.type == RENGA_FLOAT32, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
               "%s: -train_average local and gossip are not supported for %s, which frozen "
               "parameters have: give -precision fp32",
               row->name, RengaDataTypeName(row->spec.type));
    mean->elements += RengaRectangleCount(&row->spec, &row->part);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeSums(RengaMean mean)
{
  const RengaLearners *learners = mean->learners;
  const int last = learners->first + learners->own;
  mean->n_sums = RengaCommTreeBuffers(learners->count, true, learners->first, last);
  RengaCall(RengaMalloc(RENGA_COMM_TREE_PIECES, &mean->sum));
  for (int i = 0; i < mean->n_sums; i++) {
    float *buffer;
    RengaCall(RengaMalloc(RENGA_MEAN_PART, &buffer));
    mean->sum[i].data = buffer;
  }
  RengaCall(RengaMalloc(learners->groups + 1, &mean->leaves));
  for (int g = 0; g <= learners->groups; g++) mean->leaves[g] = (int64_t)g * learners->own;
  mean->work_bytes = RengaCommTreeWork(learners->groups, learners->count, mean->leaves,
                                       RENGA_FLOAT32, RENGA_MEAN_PART);
  RengaCall(RengaMalloc((int64_t)mean->work_bytes + 1, &mean->work));
  return RENGA_SUCCESS;
}

static RengaErrorCode PairLearners(RengaMean mean)
{
  const int64_t own = mean->learners->own;
  RengaCall(RengaMalloc(mean->learners->count, &mean->partner));
  RengaCall(RengaMalloc(2 * own, &mean->request));
  RengaCall(RengaMalloc(own * RENGA_MEAN_PART, &mean->sent));
  RengaCall(RengaMalloc(own * RENGA_MEAN_PART, &mean->received));
  return RENGA_SUCCESS;
}

static RengaErrorCode FillMean(RengaMean mean)
{
  RengaCall(RengaMalloc(mean->learners->own, &mean->row));
  RengaCall(PlaceTensors(mean));
  RengaCall(RengaMalloc(mean->elements + 1, &mean->values));
  RengaCall(RengaMalloc(mean->elements + 1, &mean->kept));
  RengaCall(MakeSums(mean));
  if (mean->learners->gossip) RengaCall(PairLearners(mean));
  return RENGA_SUCCESS;
}

/* Once the pipelines are set up. */
RengaErrorCode RengaMeanCreate(const RengaLearners *learners, RengaMean *mean)
{
  RengaMean made;
  RengaCall(RengaMalloc(1, &made));
  made->learners = learners;
  RengaErrorCode code = FillMean(made);
  if (code) RengaMeanDestroy(&made);
  RengaCall(code);
  *mean = made;
  return RENGA_SUCCESS;
}

void RengaMeanDestroy(RengaMean *mean)
{
  RengaMean gone = *mean;
  if (!gone) return;
  for (int i = 0; gone->sum && i < RENGA_COMM_TREE_PIECES; i++) RengaFree(&gone->sum[i].data);
  for (int i = 0; i < gone->n_listed; i++) {
    char *name = (char *)(uintptr_t)gone->listed[i].name;
    RengaFree(&name);
  }
  RengaFree(&gone->listed);
  RengaFree(&gone->sum);
  RengaFree(&gone->leaves);
  RengaFree(&gone->work);
  RengaFree(&gone->partner);
  RengaFree(&gone->request);
  RengaFree(&gone->sent);
  RengaFree(&gone->received);
  RengaFree(&gone->values);
  RengaFree(&gone->kept);
  RengaFree(&gone->taken);
  RengaFree(&gone->begin);
  RengaFree(&gone->row);
  RengaFree(mean);
}

RengaErrorCode RengaMeanTakeLists(RengaMean mean)
{
  for (int l = 0; l < mean->learners->own; l++) {
    int count;
    RengaCall(RengaPipelineGetPersistents(mean->learners->pipeline[l], &count, &mean->row[l]));
  }
  return RENGA_SUCCESS;
}

/* Elements of the vector that stand in one tensor. */
typedef struct {
  float *here;    /* in the tensor */
  int64_t offset; /* in the elements that were asked for */
  int64_t count;
} Overlap;

static Overlap FindOverlap(RengaMean mean, int l, int t, int64_t first, int64_t count)
{
  const RengaPersistent *row = &mean->row[l][t];
  const int64_t begin = mean->begin[t];
  int64_t end = begin + RengaRectangleCount(&row->spec, &row->part);
  const int64_t from = begin > first ? begin : first;
  if (end > first + count) end = first + count;
  if (!mean->taken[t] || end <= from) return (Overlap){NULL, 0, 0};
  return (Overlap){(float *)row->data + (from - begin), from - first, end - from};
}

void RengaMeanRead(RengaMean mean, int l, int64_t first, int64_t count, float vector[])
{
  for (int t = 0; t < mean->count; t++) {
    const Overlap part = FindOverlap(mean, l, t, first, count);
    if (part.count > 0)
      memcpy(vector + part.offset, part.here, (size_t)part.count * sizeof *vector);
  }
}

void RengaMeanWrite(RengaMean mean, int l, int64_t first, int64_t count, const float vector[])
{
  for (int t = 0; t < mean->count; t++) {
    const Overlap part = FindOverlap(mean, l, t, first, count);
    if (part.count > 0)
      memcpy(part.here, vector + part.offset, (size_t)part.count * sizeof *vector);
  }
}

/* This rank's learners, as far as they can be added without those of others; pieces: left over. */
static RengaErrorCode AddOwn(RengaMean mean, int64_t first, int64_t count, int *pieces)
{
  const RengaLearners *learners = mean->learners;
  const RengaCommAdder adder = {.begin = AddPart};
  *pieces = 0;
  for (int l = 0; l < learners->own; l++) {
    RengaPartialSum *piece = &mean->sum[(*pieces)++];
    piece->first = learners->first + l;
    piece->count = 1;
    RengaMeanRead(mean, l, first, count, piece->data);
    RengaCall(RengaCommTreeMerge(learners->count, pieces, mean->sum, RENGA_FLOAT32, count, &adder));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AddAcross(RengaMean mean, RengaBlocks blocks)
{
  bool whole;
  RengaCommSum sum;
  const RengaCommSumTask task = {.blocks = blocks,
                                 .type = RENGA_FLOAT32,
                                 .n_leaves = mean->learners->count,
                                 .leaves = mean->leaves,
                                 .pieces = mean->sum,
                                 .result = mean->sum[0].data,
                                 .work = mean->work,
                                 .work_bytes = mean->work_bytes,
                                 .adder = {.begin = AddPart}};
  RengaCall(RengaCommSumBegin(mean->learners->across, &task, &sum));
  RengaCall(RengaCommSumEnd(&sum, "learners to average their parameters", &whole));
  RengaCheck(whole, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "the mean of learners is not whole");
  return RENGA_SUCCESS;
}

static RengaErrorCode MakePart(RengaMean mean, int64_t first, int64_t count)
{
  const int64_t bounds[] = {0, count};
  const float share = 1 / (float)mean->learners->count;
  RengaBlocks blocks = NULL;
  int pieces;
  RengaCall(AddOwn(mean, first, count, &pieces));
  if (mean->learners->across) {
    RengaCall(RengaBlocksCreate(mean->learners->groups, 1, bounds, &blocks));
    const RengaErrorCode code = AddAcross(mean, blocks);
    RengaCall(RengaBlocksDestroy(&blocks));
    RengaCall(code);
  }
  const float *sum = mean->sum[0].data;
  for (int64_t i = 0; i < count; i++) mean->values[first + i] = sum[i] * share;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaMeanMake(RengaMean mean)
{
  RengaCall(RengaMeanTakeLists(mean));
  for (int64_t at = 0; at < mean->elements; at += RENGA_MEAN_PART) {
    const int64_t left = mean->elements - at;
    RengaCall(MakePart(mean, at, left < RENGA_MEAN_PART ? left : RENGA_MEAN_PART));
  }
  return RENGA_SUCCESS;
}
