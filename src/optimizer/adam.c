/* Optimizer types adam (Kingma and Ba, Adam: a method for stochastic optimization, 2015) and adamw
   (Loshchilov and Hutter, Decoupled weight decay regularization, 2019), as PyTorch writes them.
   With g = scale * gradient, step t = 1, 2, …:

     adam: g += w * parameter;  adamw: parameter *= 1 - rate * w
     m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g * g
     parameter -= rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) */
#include "optimizerimpl.h"
#include "renga/private/kernel.h"

static RengaErrorCode UpdateEither(RengaOptimizer optimizer, RengaDevice device, RengaStream stream,
                                   const RengaOptimizerStep *step, bool decoupled, int count,
                                   const RengaParameterUpdate updates[])
{
  const RengaAdamStep adam = {
      .learning_rate = step->learning_rate,
      .beta1 = optimizer->beta1,
      .beta2 = optimizer->beta2,
      .epsilon = optimizer->epsilon,
      .decoupled = decoupled,
      .step = step->number + 1,
  };
  RengaCall(RengaDeviceUpdateAdam(device, stream, &adam, step->scale, count, updates));
  return RENGA_SUCCESS;
}

static RengaErrorCode UpdateAdam(RengaOptimizer optimizer, RengaDevice device, RengaStream stream,
                                 const RengaOptimizerStep *step, int count,
                                 const RengaParameterUpdate updates[])
{
  return UpdateEither(optimizer, device, stream, step, false, count, updates);
}

static RengaErrorCode UpdateAdamW(RengaOptimizer optimizer, RengaDevice device, RengaStream stream,
                                  const RengaOptimizerStep *step, int count,
                                  const RengaParameterUpdate updates[])
{
  return UpdateEither(optimizer, device, stream, step, true, count, updates);
}

static RengaErrorCode MomentsOfAdam(RengaOptimizer optimizer, int *count, const char *const **names)
{
  static const char *const moment_names[] = {"first_moment", "second_moment"};
  (void)optimizer;
  *count = 2;
  *names = moment_names;
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewAdam(RengaOptimizer optimizer, RengaViewer viewer)
{
  return RengaViewerPrintf(viewer, "  beta1 %g, beta2 %g, epsilon %g\n", optimizer->beta1,
                           optimizer->beta2, optimizer->epsilon);
}

/*@
   RengaOptimizerSetBetas - the averaging of types adam and adamw

   Input:
   . optimizer - the optimizer, of type adam or adamw; another type is an error
   . beta1 - the share of the first moment that stays, at least 0 and less than 1
   . beta2 - the share of the second moment that stays, at least 0 and less than 1
   . epsilon - added to the root of the second moment; larger than 0

   Options:
   . -optimizer_beta1 - the first
   . -optimizer_beta2 - the second
   . -optimizer_epsilon - the third

   Errors: RENGA_ERR_ARGUMENT for a type without betas, or numbers that cannot be.
@*/
RengaErrorCode RengaOptimizerSetBetas(RengaOptimizer optimizer, double beta1, double beta2,
                                      double epsilon)
{
  RengaCheckPointer(optimizer);
  RengaCheck(optimizer->ops->view == ViewAdam, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "RengaOptimizerSetBetas is for types adam and adamw; the type is %s",
             optimizer->hdr.type_name);
  RengaCheck(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1 && epsilon > 0, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT,
             "beta1 %g and beta2 %g must be at least 0 and less than 1, epsilon %g larger than 0",
             beta1, beta2, epsilon);
  optimizer->beta1 = beta1;
  optimizer->beta2 = beta2;
  optimizer->epsilon = epsilon;
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerGetBetas - the averaging of types adam and adamw

   Input:
   . optimizer - the optimizer, of type adam or adamw; another type is an error

   Output:
   . beta1 - the share of the first moment that stays, at least 0 and less than 1
   . beta2 - the share of the second moment that stays, at least 0 and less than 1
   . epsilon - a number above 0 that is added to the root of the second moment

   Errors: RENGA_ERR_ARGUMENT for a type without betas.
@*/
RengaErrorCode RengaOptimizerGetBetas(RengaOptimizer optimizer, double *beta1, double *beta2,
                                      double *epsilon)
{
  RengaCheckPointers(optimizer, beta1, beta2, epsilon);
  RengaCheck(optimizer->ops->view == ViewAdam, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "RengaOptimizerGetBetas is for types adam and adamw; the type is %s",
             optimizer->hdr.type_name);
  *beta1 = optimizer->beta1;
  *beta2 = optimizer->beta2;
  *epsilon = optimizer->epsilon;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOptimizerCreate_Adam(void *object)
{
  RengaOptimizer optimizer = object;
  optimizer->ops->update = UpdateAdam;
  optimizer->ops->moments = MomentsOfAdam;
  optimizer->ops->view = ViewAdam;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOptimizerCreate_AdamW(void *object)
{
  RengaOptimizer optimizer = object;
  RengaCall(RengaOptimizerCreate_Adam(optimizer));
  optimizer->ops->update = UpdateAdamW;
  if (!optimizer->weight_decay_given) optimizer->weight_decay = 0.01;
  return RENGA_SUCCESS;
}
