/* What the planner expects of a plan and why it made it: kept with the plan, for people and for the
   run that compares. */
#include "planimpl.h"
#include "rengacomm.h"

/*@
   RengaPlanSetSchedule - say with which schedule the plan was made

   Not collective (the same on all ranks)

   Input:
   . plan - the plan
   . type - of RengaScheduleSetType; NULL leaves it to the run
@*/
RengaErrorCode RengaPlanSetSchedule(RengaPlan plan, const char *type)
{
  char *copy = NULL;
  RengaCheckPointer(plan);
  if (type) RengaCall(RengaStringCopy(type, &copy));
  RengaFree(&plan->schedule);
  plan->schedule = copy;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanGetSchedule - the schedule that the plan was made for

   Not collective

   Input:
   . plan - the plan

   Output:
   . type - lent; NULL where the plan leaves it open
@*/
RengaErrorCode RengaPlanGetSchedule(RengaPlan plan, const char **type)
{
  RengaCheckPointer(plan);
  RengaCheckPointer(type);
  *type = plan->schedule;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanSetPrediction - keep what the planner expects of a step

   Not collective (the same on all ranks)

   Input:
   . plan - the plan
   . prediction - seconds of a step, its parts, and the proved bound
@*/
RengaErrorCode RengaPlanSetPrediction(RengaPlan plan, const RengaPlanPrediction *prediction)
{
  RengaCheckPointer(plan);
  RengaCheckPointer(prediction);
  plan->prediction = *prediction;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanGetPrediction - what the planner expects of a step

   Not collective

   Input:
   . plan - the plan

   Output:
   . prediction - seconds; all zero where nothing was predicted
@*/
RengaErrorCode RengaPlanGetPrediction(RengaPlan plan, RengaPlanPrediction *prediction)
{
  RengaCheckPointer(plan);
  RengaCheckPointer(prediction);
  *prediction = plan->prediction;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanAddReason - keep a sentence that explains the plan

   Not collective (the same on all ranks)

   Input:
   . plan - the plan
   . topic - one or two words, such as "limit" or "runner-up"
   . sentence - with its values and units
@*/
RengaErrorCode RengaPlanAddReason(RengaPlan plan, const char *topic, const char *sentence)
{
  RengaCheckPointer(plan);
  RengaCheckPointer(topic);
  RengaCheckPointer(sentence);
  const int n = 2 * plan->n_reasons;
  RengaCall(RengaRealloc(n + 2, &plan->reason));
  plan->reason[n] = plan->reason[n + 1] = NULL;
  plan->n_reasons++;
  RengaCall(RengaStringCopy(topic, &plan->reason[n]));
  RengaCall(RengaStringCopy(sentence, &plan->reason[n + 1]));
  return RENGA_SUCCESS;
}

/*@
   RengaPlanGetReason - a sentence that explains the plan

   Not collective

   Input:
   . plan - the plan
   . number - 0, 1, …

   Output:
   . topic, sentence - lent; NULL after the last
@*/
RengaErrorCode RengaPlanGetReason(RengaPlan plan, int number, const char **topic,
                                  const char **sentence)
{
  RengaCheckPointer(plan);
  RengaCheckPointer(topic);
  RengaCheckPointer(sentence);
  const bool there = number >= 0 && number < plan->n_reasons;
  *topic = there ? plan->reason[2 * number] : NULL;
  *sentence = there ? plan->reason[2 * number + 1] : NULL;
  return RENGA_SUCCESS;
}
