/* Which numbers of tensor- and context-parallel ranks are open, and in which order they are looked
   at. */
#include "degrees.h"
#include "renga/private/graph.h"
#include "rengamachine.h"
#include <string.h>

/* Of open lanes; more ranks are in powers of two. */
enum { LANES_MOST = 8, RANKS_FEW = 64 };

/* Costs that were measured are a few percent off, differently in lanes. */
static const double gain_measured = 0.05;

static const double links_alike = 0.5; /* share of the bandwidth within a node from which on */

static RengaErrorCode FindGain(DegreeTask *task)
{
  const RengaPartition partition = task->partition;
  RengaProfile profile = partition->profile ? partition->profile : partition->own.profile;
  RengaMachine machine;
  const char *type = RENGA_PROFILE_MEASURED;
  RengaCall(RengaPartitionGetMachine(partition, &machine));
  if (profile) RengaCall(RengaProfileGetType(profile, &type));
  const bool measured = !machine || !strcmp(type, RENGA_PROFILE_MEASURED);
  task->gain = measured ? gain_measured : RENGA_DEGREES_GAIN;
  return RENGA_SUCCESS;
}

/* Which numbers are open, and up to which. */
RengaErrorCode RengaDegreesFindOpen_Private(DegreeTask *task)
{
  const RengaPartition partition = task->partition;
  const bool asked = partition->sequence == RENGA_PARTITION_TENSOR_AUTO;
  task->open = RengaPartitionChoosesLanes_Private(partition);
  task->tokens_open = RengaPartitionChoosesTokens_Private(partition);
  RengaGraphCountLanes_Private(partition->graph, RENGA_LANES_OF_HEADS, &task->lanes, NULL);
  RengaGraphCountLanes_Private(partition->graph, RENGA_LANES_OF_TOKENS, &task->contexts, NULL);
  task->tensor_chosen = partition->tensor == RENGA_PARTITION_TENSOR_AUTO ||
                        (partition->tensor == 0 && (task->open || task->lanes > 1 || !asked));
  task->context_chosen =
      asked || (task->searches && partition->sequence == 0 &&
                (task->contexts > 1 ||
                 (task->tokens_open && RengaPartitionHasLongInput_Private(partition))));
  if (task->open) task->lanes = LANES_MOST;
  if (task->tokens_open) task->contexts = LANES_MOST;
  if (task->open || task->tokens_open) RengaCall(FindGain(task));
  return RENGA_SUCCESS;
}

/* Links that are no slower than half of those within a node are as good. */
RengaErrorCode RengaDegreesFindNode_Private(DegreeTask *task)
{
  RengaMachine machine;
  const RengaMachineLevel *levels;
  int count = 0, level = 0;
  task->node = task->ranks;
  RengaCall(RengaPartitionGetMachine(task->partition, &machine));
  if (!machine) return RENGA_SUCCESS;
  RengaCall(RengaMachineGetLevels(machine, &count, &levels));
  while (level < count - 1 &&
         (levels[level].devices < 2 ||
          levels[level + 1].bandwidth >= links_alike * levels[level].bandwidth))
    level++;
  if (count) task->node = levels[level].devices;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDegreesAdd_Private(int tensor, int context, int lanes, DegreeChoice *choice)
{
  RengaCall(RengaRealloc(choice->n_numbers + 1, &choice->number));
  choice->number[choice->n_numbers++] =
      (DegreeNumber){.tensor = tensor, .context = context, .lanes = lanes};
  return RENGA_SUCCESS;
}

/* Of tensor ranks, with so many context ranks. Of those that are not looked at it is said why. */
static RengaErrorCode ListTensor(const DegreeTask *task, int context, DegreeChoice *choice)
{
  const int ranks = task->ranks / context, most = task->lanes < ranks ? task->lanes : ranks;
  for (int tensor = 1; tensor <= most; tensor++) {
    const bool power = !(tensor & (tensor - 1));
    if (ranks % tensor || (task->open && !power && task->ranks > RANKS_FEW)) continue;
    RengaCall(RengaDegreesAdd_Private(tensor, context, tensor, choice));
    DegreeNumber *number = &choice->number[choice->n_numbers - 1];
    number->left_out = tensor > task->node || (ranks > task->node && task->node % tensor);
    if (tensor > task->node) {
      snprintf(number->said, DEGREE_TEXT,
               "%d and more: not looked at, as a group would not be in one node", tensor);
      break;
    }
    if (number->left_out)
      snprintf(number->said, DEGREE_TEXT,
               "%d: not looked at, as groups would lie across nodes of %lld devices", tensor,
               (long long)task->node);
  }
  return RENGA_SUCCESS;
}

/* Context ranks besides the first number of them, of each that is looked at. */
RengaErrorCode RengaDegreesListContext_Private(const DegreeTask *task, DegreeChoice *choice)
{
  const int count = choice->n_numbers;
  for (int i = 0; i < count; i++) {
    const int tensor = choice->number[i].tensor;
    for (int context = 2; context <= task->contexts && !choice->number[i].left_out; context++) {
      const int64_t group = (int64_t)tensor * context;
      if (task->ranks % group || (task->node % group && group % task->node) ||
          ((task->tokens_open || task->ranks > RANKS_FEW) && context & (context - 1)))
        continue;
      RengaCall(RengaDegreesAdd_Private(tensor, context, tensor, choice));
    }
  }
  return RENGA_SUCCESS;
}

/* With one context rank, or as many as are given. */
RengaErrorCode RengaDegreesList_Private(const DegreeTask *task, DegreeChoice *choice)
{
  const int tensor = RengaPartitionTensorRanks_Private(task->partition),
            context = RengaPartitionContextRanks_Private(task->partition);
  if (task->tensor_chosen)
    RengaCall(ListTensor(task, context, choice));
  else
    RengaCall(RengaDegreesAdd_Private(tensor, context, tensor, choice));
  return RENGA_SUCCESS;
}

/* The order of looking, from the middle on, which is seldom far from the best: with few tensor
   ranks there are many stages, or much is made again, with many exchanges take long. */
static int FromMiddle(int count, int turn)
{
  const int middle = count / 2, step = (turn + 1) / 2;
  const int shorter = count - 1 - middle; /* of both sides, or as long as the other */
  if (turn > 2 * shorter) return middle - (turn - shorter);
  return turn % 2 ? middle + step : middle - step;
}

/* Which number is looked at next. Where lanes are open that of one rank is the first. */
int RengaDegreesTurn_Private(const DegreeTask *task, int count, int turn)
{
  if (!task->gives_up || (task->open && turn == 0)) return turn;
  return task->open ? 1 + FromMiddle(count - 1, turn - 1) : FromMiddle(count, turn);
}
