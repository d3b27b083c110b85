/* Types of schedules as the planner sees them. */
#pragma once
#include "rengaschedule.h"

/* Buckets of gradients where nothing is said of them. Each has work memory of its own, of a piece
   or two. */
enum { RENGA_BUCKET_SIZE = 4 << 20, RENGA_BUCKETS_ENOUGH = 16 };
/* A program registered it: what it does is not known before it is asked. */
bool RengaScheduleIsOutside_Private(const char *type);
/* Adds the text of a type file:F to the hash; of a file that cannot be read, and of other types,
   nothing. */
void RengaScheduleHashLists_Private(const char *type, uint64_t *hash);
/* As RengaScheduleSimulateWith(), of a schedule that is set up; work: seconds until the last rank
   is done with its own work, be its sums there or not. */
RengaErrorCode RengaScheduleSimulateSums_Private(RengaSchedule schedule,
                                                 const RengaScheduleDurations *durations,
                                                 double *work, double *makespan);
/* As RengaScheduleSetUp(), where it is known that the lists can be proved without the proof. */
RengaErrorCode RengaScheduleSetUpKnown_Private(RengaSchedule schedule);
/* Replicas of a stage give each other the gradients of each micro-batch, and go through one list
   for that. Behind RengaScheduleSetPlan. */
RengaErrorCode RengaScheduleSetFold_Private(RengaSchedule schedule, int stage, bool folds);
/* Whose list that is, once the schedule is set up. */
int RengaScheduleLongestReplica_Private(RengaSchedule schedule, int stage);
/* What the plan says of its stages' seconds, or of their FLOPs, is what auto goes by. */
RengaErrorCode RengaScheduleTakeSeconds_Private(RengaSchedule schedule, RengaPlan plan);
int64_t RengaScheduleEarly(double eager, int following); /* micro-batches, rounded up */
RengaErrorCode RengaScheduleSetSeconds(RengaSchedule schedule, const double forward[],
                                       const double input[], const double weight[],
                                       const double message[]);
RengaErrorCode RengaScheduleGetOrder(RengaSchedule schedule, int stage, int replica, int64_t *count,
                                     const int64_t **order); /* lent */
