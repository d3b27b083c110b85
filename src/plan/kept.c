/* What a stage that recomputes keeps all the same: names of values of the network. */
#include "planimpl.h"
#include <stdlib.h>
#include <string.h>

static int CompareKept(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void FreeKeptOf(RengaPlanKept *kept)
{
  for (int k = 0; k < kept->count; k++) RengaFree(&kept->name[k]);
  RengaFree(&kept->name);
  kept->count = 0;
}

void RengaPlanFreeKept_Private(RengaPlan plan)
{
  for (int s = 0; plan->kept && s < plan->count; s++) FreeKeptOf(&plan->kept[s]);
  RengaFree(&plan->kept);
}

static RengaErrorCode CopyKept(int count, const char *const names[], RengaPlanKept *kept)
{
  RengaCall(RengaMalloc(count + 1, &kept->name));
  for (; kept->count < count; kept->count++)
    RengaCall(RengaStringCopy(names[kept->count], &kept->name[kept->count]));
  qsort(kept->name, (size_t)count, sizeof *kept->name, CompareKept);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckKeptNames(RengaPlan plan, int stage, const RengaPlanKept *kept)
{
  for (int k = 1; k < kept->count; k++)
    RengaCheck(strcmp(kept->name[k - 1], kept->name[k]), plan->hdr.comm, RENGA_ERR_PLAN,
               "stage %d keeps %s twice", stage, kept->name[k]);
  return RENGA_SUCCESS;
}

/*@
   RengaPlanSetKept - what a stage that recomputes keeps all the same

   Collective

   Input:
   . plan - the plan, with its stages
   . stage - the number of a stage, from 0, whose shape says that it recomputes
   . count - the number of values; 0: none, which is what a new plan has
   . names - [count] of values of the network that the stage makes, each once; copied

   Errors: RENGA_ERR_ORDER before RengaPlanSetStages; RENGA_ERR_ARGUMENT for a stage that there is
   not, a negative count and a name that is NULL; RENGA_ERR_PLAN for a stage that keeps all that
   backward reads, and for a name that is there twice; the plan stays as it was. RengaPlanCheck()
   says where the stage makes no such value.

   Notes: such a value takes memory for each micro-batch in flight, where backward reads it, and is
   not recomputed. Results do not depend on it.

   See also: RengaPlanGetKept(), RengaPlanSetStages()
@*/
RengaErrorCode RengaPlanSetKept(RengaPlan plan, int stage, int count, const char *const names[])
{
  RengaPlanKept kept = {0};
  RengaCheckPointer(plan);
  RengaCheckState(plan, RENGA_STATE_SETUP, "RengaPlanSetStages");
  RengaCheck(stage >= 0 && stage < plan->count, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "stage %d of a plan with %d stages", stage, plan->count);
  RengaCheck(count >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "stage %d keeps %d values", stage,
             count);
  if (count > 0) RengaCheckPointer(names);
  for (int k = 0; k < count; k++)
    RengaCheck(names[k], MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "stage %d keeps %d values, and %d is NULL", stage, count, k);
  RengaCheck(count == 0 || plan->stage[stage].shape.saved == RENGA_SAVED_RECOMPUTE, plan->hdr.comm,
             RENGA_ERR_PLAN,
             "stage %d keeps %s, but it does not recompute: it keeps all that backward reads",
             stage, names[0]);
  if (!plan->kept) RengaCall(RengaMalloc(plan->count, &plan->kept));
  RengaErrorCode code = CopyKept(count, names, &kept);
  if (!code) code = CheckKeptNames(plan, stage, &kept);
  if (code) FreeKeptOf(&kept);
  RengaCall(code);
  FreeKeptOf(&plan->kept[stage]);
  plan->kept[stage] = kept;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanGetKept - what a stage that recomputes keeps all the same

   Input:
   . plan - the plan, with its stages
   . stage - the number of the stage, from 0

   Output:
   . count - the number of values, at least 0
   . names - [count] in the order of strcmp; lent until the plan is changed

   Errors: RENGA_ERR_ARGUMENT for a stage that there is not.
@*/
RengaErrorCode RengaPlanGetKept(RengaPlan plan, int stage, int *count, const char *const **names)
{
  RengaCheckPointers(plan, count, names);
  RengaCheck(stage >= 0 && stage < plan->count, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "stage %d of a plan with %d stages", stage, plan->count);
  *count = plan->kept ? plan->kept[stage].count : 0;
  *names = plan->kept ? (const char *const *)plan->kept[stage].name : NULL;
  return RENGA_SUCCESS;
}

bool RengaPlanIsKept_Private(RengaPlan plan, int stage, const char *name)
{
  const RengaPlanKept *kept = plan->kept ? &plan->kept[stage] : NULL;
  return kept && kept->count &&
         bsearch(&name, kept->name, (size_t)kept->count, sizeof *kept->name, CompareKept);
}

int RengaPlanCountKept_Private(RengaPlan plan, int stage)
{
  return plan->kept ? plan->kept[stage].count : 0;
}

bool RengaPlanKeepsTheSame_Private(RengaPlan plan, int s, RengaPlan other, int t)
{
  const int count = RengaPlanCountKept_Private(plan, s);
  if (count != RengaPlanCountKept_Private(other, t)) return false;
  for (int k = 0; k < count; k++)
    if (strcmp(plan->kept[s].name[k], other->kept[t].name[k]) != 0) return false;
  return true;
}

static RengaErrorCode CheckKeptValue(RengaPlan plan, RengaGraph graph, int s, const char *name)
{
  const RengaPlanStage *stage = &plan->stage[s];
  const RengaValue v = RengaGraphFindValue(graph, name);
  RengaCheck(v != RENGA_VALUE_NONE, plan->hdr.comm, RENGA_ERR_PLAN,
             "stage %d keeps %s, but the network has no such value", s, name);
  const RengaGraphValue *value = RengaGraphGetValue(graph, v);
  RengaCheck(value->producer >= stage->first && value->producer < stage->last && !value->prepared,
             plan->hdr.comm, RENGA_ERR_PLAN,
             "stage %d keeps %s, which it does not make: its nodes are %d to %d", s, name,
             stage->first, stage->last - 1);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPlanCheckKept_Private(RengaPlan plan, RengaGraph graph)
{
  for (int s = 0; plan->kept && s < plan->count; s++)
    for (int k = 0; k < plan->kept[s].count; k++)
      RengaCall(CheckKeptValue(plan, graph, s, plan->kept[s].name[k]));
  return RENGA_SUCCESS;
}
