/* Factors of updates, found in one place: in double precision, rounded once, whatever the device
   and its instruction set. (ref computes with the numbers of the step themselves.) */
#include "renga/private/device.h"
#include <math.h>

RengaSgdFactors RengaSgdFactorsOf_Private(const RengaSgdStep *step, double scale,
                                          const RengaParameterUpdate *update)
{
  return (RengaSgdFactors){
      .rate = (float)(step->learning_rate * update->rate_scale),
      .decay = (float)update->weight_decay,
      .scale = (float)scale,
      .keep = step->first ? 0 : (float)step->momentum,
      .take = step->first ? 1 : (float)(1 - step->dampening),
      .a = step->nesterov ? 1 : 0,
      .b = step->nesterov ? (float)step->momentum : 1,
  };
}

RengaAdamFactors RengaAdamFactorsOf_Private(const RengaAdamStep *step, double scale,
                                            const RengaParameterUpdate *update)
{
  const double correction1 = 1 - pow(step->beta1, (double)step->step);
  const double correction2 = 1 - pow(step->beta2, (double)step->step);
  const double rate = step->learning_rate * update->rate_scale, decay = update->weight_decay;
  return (RengaAdamFactors){
      .shrink = step->decoupled ? (float)(1 - rate * decay) : 1,
      .decay = step->decoupled ? 0 : (float)decay,
      .scale = (float)scale,
      .keep1 = (float)step->beta1,
      .take1 = (float)(1 - step->beta1),
      .keep2 = (float)step->beta2,
      .take2 = (float)(1 - step->beta2),
      .rate = (float)(rate / correction1),
      .root = (float)(1 / sqrt(correction2)),
      .epsilon = (float)step->epsilon,
  };
}
