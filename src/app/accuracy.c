/* Accuracy: how often the class with the largest score is the label, where a cross-entropy of the
   network compares scores with an input. The scores come to rank 0, which counts. */
#include "app.h"
#include <string.h>

/* The input whose elements, in their order, are those of a value, or of which a lane has them; -1:
   none. */
static int FieldOf(RengaGraph graph, const RengaDataFields *fields, bool lane, RengaValue value)
{
  const RengaGraphValue *at = RengaGraphGetValue(graph, value);
  while (at->producer >= 0) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, at->producer);
    const bool cut = lane && strcmp(node->op->name, "Split") == 0;
    if (!cut && strcmp(node->op->name, "Reshape") && strcmp(node->op->name, "Cast") &&
        strcmp(node->op->name, "Identity"))
      return -1;
    at = RengaGraphGetValue(graph, node->in[0]);
  }
  for (int f = 0; f < fields->count && at->kind == RENGA_VALUE_INPUT; f++)
    if (!strcmp(fields->names[f], at->name)) return f;
  return -1;
}

/* What puts the parts of lanes together, of which this is the first, those of heads before those of
   tokens; NONE: nothing does. */
static RengaValue JoinedOf(RengaGraph graph, RengaValue part)
{
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *join = RengaGraphGetNode(graph, n);
    if (strcmp(join->op->name, "Concat") || join->in[0] != part) continue;
    part = join->out[0];
    if (join->lane == 0) return part;
  }
  return RENGA_VALUE_NONE;
}

/* It compares the scores of its own tokens (-graph_token_lanes). */
static bool ComparesTokens(const RengaGraphNode *node)
{
  return node->lane > 0 && strcmp(node->op->name, "CrossEntropyLane") != 0;
}

/* The scores that a node compares; where their classes are in lanes (-graph_lanes), what puts them
   together. NONE: it compares none, or those of another lane than the first. */
static RengaValue ScoresOf(RengaGraph graph, const RengaGraphNode *node)
{
  if (!strcmp(node->op->name, "CrossEntropy") || !strcmp(node->op->name, "LogLikelihood"))
    return node->in[0];
  if (strcmp(node->op->name, "CrossEntropyLane") ||
      RengaAttributesInt(&node->attributes, "first", 0) != 0)
    return RENGA_VALUE_NONE;
  return JoinedOf(graph, node->in[0]);
}

/* Scores must be rows of the batch, and have one label for each row of classes. */
static bool DescribeAccuracy(RengaGraph graph, const RengaGraphNode *node, RengaValue scores,
                             const RengaDataFields *fields, AppAccuracy *accuracy)
{
  const RengaGraphValue *value = RengaGraphGetValue(graph, scores);
  RengaTensorSpec one = RengaTensorSpecAt(&value->spec, 1);
  int64_t axis = RengaAttributesInt(&node->attributes, "axis", -1);
  if (axis < 0) axis += one.ndim;
  accuracy->field = FieldOf(graph, fields, node->lane > 0, node->in[1]);
  bool good = accuracy->field >= 0 && value->spec.type == RENGA_FLOAT32 && value->producer >= 0 &&
              one.ndim >= 2 && value->spec.dim[0] < 0 && axis >= 1 && axis < one.ndim;
  if (!good) return false;
  accuracy->inner = 1;
  for (int d = (int)axis + 1; d < one.ndim; d++) accuracy->inner *= one.dim[d];
  accuracy->classes = one.dim[axis];
  accuracy->labels = RengaTensorSpecCount(&fields->specs[accuracy->field]);
  accuracy->type = fields->specs[accuracy->field].type;
  return RengaTensorSpecCount(&one) == accuracy->labels * accuracy->classes &&
         accuracy->classes > 0 && (accuracy->type == RENGA_INT64 || accuracy->type == RENGA_INT32);
}

/* Where lanes have tokens, each compares its own: nothing puts the scores together. */
static RengaErrorCode WarnOfLanes(RengaGraph graph)
{
  const MPI_Comm printer = AppPrinter(graph);
  RengaWarning(printer,
               "accuracy is not counted: tokens are in lanes (-graph_token_lanes), and the network "
               "has no output of the scores as they are compared");
  return RENGA_SUCCESS;
}

/* What compares scores in a network, one for each lane of tokens. */
typedef struct {
  int count, lanes, firsts; /* lanes: of these in one; firsts: in the first, or in none */
  const RengaGraphNode *first;
  RengaValue scores; /* that the first compares */
} Comparisons;

static Comparisons FindComparisons(RengaGraph graph)
{
  Comparisons all = {.scores = RENGA_VALUE_NONE};
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    const RengaValue compared = ScoresOf(graph, node);
    if (compared == RENGA_VALUE_NONE) continue;
    if (!all.first) all.first = node;
    if (!all.count++) all.scores = compared;
    all.lanes += ComparesTokens(node);
    all.firsts += !ComparesTokens(node) || node->lane == all.first->lane;
  }
  return all;
}

/* Parts of a divided network compare each its own: the answer is their mean. */
static RengaErrorCode TakeMeanOfParts(RengaGraph graph, Comparisons *all)
{
  RengaGraphDivision division;
  RengaCall(RengaGraphGetDivision(graph, &division));
  if (division.parts <= 1 || !all->first) return RENGA_SUCCESS;
  *all = (Comparisons){.count = 1,
                       .first = all->first,
                       .scores = RengaGraphFindValue(graph, RENGA_GRAPH_MEAN_OF_PARTS)};
  return RENGA_SUCCESS;
}

RengaErrorCode AppAccuracyCreate(RengaGraph graph, const RengaDataFields *fields,
                                 AppAccuracy *accuracy)
{
  Comparisons all = FindComparisons(graph);
  const int compared = all.count;
  RengaCall(TakeMeanOfParts(graph, &all));
  const bool tokens = all.lanes > 0 && all.lanes == all.count && all.firsts == 1;
  *accuracy = (AppAccuracy){.ignored = fields->ignored, .likelihood = tokens};
  if (tokens) all.scores = JoinedOf(graph, all.first->in[0]);
  if (tokens && all.scores == RENGA_VALUE_NONE) RengaCall(WarnOfLanes(graph));
  if ((!tokens && all.count != 1) || all.scores == RENGA_VALUE_NONE ||
      !DescribeAccuracy(graph, all.first, all.scores, fields, accuracy))
    return RENGA_SUCCESS;
  accuracy->likelihood = tokens || compared == 1;
  RengaCall(RengaStringCopy(RengaGraphGetValue(graph, all.scores)->name, &accuracy->scores));
  RengaCall(RengaGraphAddOutput(graph, all.scores));
  return RENGA_SUCCESS;
}

void AppAccuracyBegin(AppAccuracy *accuracy)
{
  accuracy->right = accuracy->counted = 0;
}

static int64_t TrueLabel(const AppAccuracy *accuracy, int64_t at)
{
  return accuracy->type == RENGA_INT64 ? ((const int64_t *)(const void *)accuracy->label)[at]
                                       : ((const int32_t *)(const void *)accuracy->label)[at];
}

static int64_t LikeliestClass(const float scores[], int64_t classes, int64_t stride)
{
  int64_t best = 0;
  for (int64_t c = 1; c < classes; c++)
    if (scores[c * stride] > scores[best * stride]) best = c;
  return best;
}

static void CountRight(AppAccuracy *accuracy, int64_t samples)
{
  const int64_t inner = accuracy->inner, classes = accuracy->classes;
  for (int64_t i = 0; i < samples * accuracy->labels; i++) {
    int64_t label = TrueLabel(accuracy, i);
    if (label == accuracy->ignored) continue;
    const float *scores = accuracy->buffer + i / inner * classes * inner + i % inner;
    accuracy->counted++;
    accuracy->right += LikeliestClass(scores, classes, inner) == label;
  }
}

/* On rank 0, memory for as many samples. */
static RengaErrorCode MakeRoom(AppAccuracy *accuracy, int64_t samples)
{
  if (samples <= accuracy->room) return RENGA_SUCCESS;
  const int64_t labels = samples * accuracy->labels;
  RengaFree(&accuracy->buffer);
  RengaFree(&accuracy->label);
  RengaCall(RengaMalloc(labels * accuracy->classes, &accuracy->buffer));
  RengaCall(RengaMalloc(labels * (int64_t)RengaDataTypeSize(accuracy->type), &accuracy->label));
  accuracy->room = samples;
  return RENGA_SUCCESS;
}

RengaErrorCode AppAccuracyAdd(AppAccuracy *accuracy, RengaComm comm, RengaPipeline pipeline,
                              const RengaBatch *batch)
{
  const bool counts = RengaCommGetRank(comm) == 0;
  if (accuracy->scores == NULL) return RENGA_SUCCESS;
  if (counts) RengaCall(MakeRoom(accuracy, batch->samples));
  RengaCall(RengaPipelineForward(pipeline, batch, accuracy->scores, accuracy->buffer));
  if (!counts) return RENGA_SUCCESS;
  RengaCall(batch->read(batch->user, accuracy->field, 0, batch->samples, accuracy->label));
  CountRight(accuracy, batch->samples);
  return RENGA_SUCCESS;
}

void AppAccuracyDestroy(AppAccuracy *accuracy)
{
  RengaFree(&accuracy->scores);
  RengaFree(&accuracy->buffer);
  RengaFree(&accuracy->label);
}
