/* What the planner expects of a plan and why it made it: kept with the plan, for people and for the
   run that compares. */
#include "planimpl.h"
#include "rengacomm.h"
#include <math.h>
#include <string.h>

/*@
   RengaPlanSetSchedule - say with which schedule the plan was made

   Input:
   . type - a type that RengaScheduleSetType takes; NULL leaves it to the run

   Notes: there are no extra warm-up micro-batches after this call.

   See also: RengaPlanGetSchedule(), RengaScheduleSetType()
@*/
RengaErrorCode RengaPlanSetSchedule(RengaPlan plan, const char *type)
{
  char *copy = NULL;
  RengaCheckPointer(plan);
  if (type) RengaCall(RengaStringCopy(type, &copy));
  RengaFree(&plan->schedule);
  plan->schedule = copy;
  plan->eager = 0;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPlanGetSchedule(RengaPlan plan, const char **type)
{
  RengaCheckPointers(plan, type);
  *type = plan->schedule;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanSetEager - say extra warm-up micro-batches of the plan's schedule

   Input:
   . plan - the plan, with schedule 1f1b
   . eager - extra warm-up micro-batches for each stage that follows, at least 0: see
     RengaScheduleSetEager()

   Errors: RENGA_ERR_ARGUMENT for a number that is negative or not finite.

   See also: RengaPlanGetEager(), RengaScheduleSetEager()
@*/
RengaErrorCode RengaPlanSetEager(RengaPlan plan, double eager)
{
  RengaCheckPointer(plan);
  RengaCheck(eager >= 0 && isfinite(eager), plan->hdr.comm, RENGA_ERR_ARGUMENT,
             "%g extra warm-up micro-batches for each stage", eager);
  plan->eager = eager;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanGetEager - extra warm-up micro-batches of the plan's schedule

   Output:
   . eager - extra warm-up micro-batches for each stage that follows; 0 where the schedule is not
     1f1b
@*/
RengaErrorCode RengaPlanGetEager(RengaPlan plan, double *eager)
{
  RengaCheckPointers(plan, eager);
  *eager = plan->eager;
  return RENGA_SUCCESS;
}

static RengaErrorCode ReplaceText(const char *text, char **held)
{
  char *copy = NULL;
  if (text) RengaCall(RengaStringCopy(text, &copy));
  RengaFree(held);
  *held = copy;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanSetOrigin - say for which machine the plan was made

   Input:
   . machine - its name; NULL: not known
   . costs - the type of the profile that the costs are from; NULL: not known
   . memory - bytes of a device; 0: not known

   Errors: RENGA_ERR_ARGUMENT for negative memory.

   Notes: all three are kept in the plan's file, so that a run on another machine can say so.
@*/
RengaErrorCode RengaPlanSetOrigin(RengaPlan plan, const char *machine, const char *costs,
                                  int64_t memory)
{
  RengaCheckPointer(plan);
  RengaCheck(memory >= 0, plan->hdr.comm, RENGA_ERR_ARGUMENT, "devices of %lld bytes",
             (long long)memory);
  RengaCall(ReplaceText(machine, &plan->machine));
  RengaCall(ReplaceText(costs, &plan->costs));
  plan->device_memory = memory;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanGetOrigin - for which machine the plan was made

   Output:
   . machine, costs - the names, lent by the plan; NULL where they are not known
   . memory - bytes of a device; 0: not known
@*/
RengaErrorCode RengaPlanGetOrigin(RengaPlan plan, const char **machine, const char **costs,
                                  int64_t *memory)
{
  RengaCheckPointers(plan, machine, costs, memory);
  *machine = plan->machine;
  *costs = plan->costs;
  *memory = plan->device_memory;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanSetPrediction - keep what the planner expects of a step

   Input:
   . prediction - seconds of a step, its parts, and the proved bound
@*/
RengaErrorCode RengaPlanSetPrediction(RengaPlan plan, const RengaPlanPrediction *prediction)
{
  RengaCheckPointers(plan, prediction);
  plan->prediction = *prediction;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPlanGetPrediction(RengaPlan plan, RengaPlanPrediction *prediction)
{
  RengaCheckPointers(plan, prediction);
  *prediction = plan->prediction;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanAddReason - keep a sentence that explains the plan

   Input:
   . topic - one or two words, such as "limit" or "runner-up"
   . sentence - the sentence, with its values and units

   See also: RengaPlanGetReason(), RengaPlanExplain()
@*/
RengaErrorCode RengaPlanAddReason(RengaPlan plan, const char *topic, const char *sentence)
{
  RengaCheckPointers(plan, topic, sentence);
  const int n = 2 * plan->n_reasons;
  RengaCall(RengaRealloc(n + 2, &plan->reason));
  plan->reason[n] = plan->reason[n + 1] = NULL;
  plan->n_reasons++;
  RengaCall(RengaStringCopy(topic, &plan->reason[n]));
  RengaCall(RengaStringCopy(sentence, &plan->reason[n + 1]));
  return RENGA_SUCCESS;
}

bool RengaPlanHasReason_Private(RengaPlan plan, const char *topic)
{
  for (int r = 0; r < plan->n_reasons; r++)
    if (!strcmp(plan->reason[2 * r], topic)) return true;
  return false;
}

bool RengaPlanSpeaksOfBound_Private(const char *topic)
{
  static const char *const topics[] = {RENGA_PLAN_BOUND, "proof", "covered", "left out"};
  for (size_t t = 0; t < sizeof topics / sizeof topics[0]; t++)
    if (!strcmp(topic, topics[t])) return true;
  return false;
}

static void DropReason(RengaPlan plan, int number)
{
  char **row = plan->reason + 2 * number;
  RengaFree(&row[0]);
  RengaFree(&row[1]);
  plan->n_reasons--;
  memmove(row, row + 2, (size_t)(plan->n_reasons - number) * 2 * sizeof *row);
}

void RengaPlanDropReasons_Private(RengaPlan plan, const char *topic)
{
  for (int r = plan->n_reasons - 1; r >= 0; r--)
    if (!strcmp(plan->reason[2 * r], topic)) DropReason(plan, r);
}

void RengaPlanDropReasonsIf_Private(RengaPlan plan, bool (*is)(const char *topic))
{
  for (int r = plan->n_reasons - 1; r >= 0; r--)
    if (is(plan->reason[2 * r])) DropReason(plan, r);
}

/*@
   RengaPlanGetReason - a sentence that explains the plan

   Input:
   . number - 0, 1, …

   Output:
   . topic, sentence - the texts, lent by the plan; NULL after the last

   See also: RengaPlanAddReason()
@*/
RengaErrorCode RengaPlanGetReason(RengaPlan plan, int number, const char **topic,
                                  const char **sentence)
{
  RengaCheckPointers(plan, topic, sentence);
  const bool there = number >= 0 && number < plan->n_reasons;
  *topic = there ? plan->reason[2 * number] : NULL;
  *sentence = there ? plan->reason[2 * number + 1] : NULL;
  return RENGA_SUCCESS;
}
