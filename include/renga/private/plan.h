/* Plans that are only weighed: of the many that a search makes one is shown. */
#pragma once
#include "rengaplan.h"

/* RengaPlanSetStages without what is only shown: parameters, FLOPs, bytes over the cuts and names,
   which takes a look at every node. Each stage has work. */
RengaErrorCode RengaPlanSetCuts_Private(RengaPlan plan, RengaGraph graph, int count,
                                        const RengaPlanStage stages[]);
