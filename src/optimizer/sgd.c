/* Optimizer type sgd: stochastic gradient descent with momentum (Polyak 1964; Sutskever, Martens,
   Dahl and Hinton, On the importance of initialization and momentum in deep learning, 2013),
   Nesterov's variant and L2 weight decay w, as PyTorch writes them:

     g = scale * gradient + w * parameter;  v = momentum * v + g (the first step: v = g)
     parameter -= rate * (nesterov ? g + momentum * v : v) */
#include "optimizerimpl.h"
#include "renga/private/kernel.h"

static RengaErrorCode UpdateSgd(RengaOptimizer optimizer, RengaDevice device, RengaStream stream,
                                const RengaOptimizerStep *step, int count,
                                const RengaParameterUpdate updates[])
{
  const RengaSgdStep sgd = {
      .learning_rate = step->learning_rate,
      .momentum = optimizer->momentum,
      .nesterov = optimizer->nesterov,
      .first = step->number == 0,
  };
  RengaCall(RengaDeviceUpdateSgd(device, stream, &sgd, step->scale, count, updates));
  return RENGA_SUCCESS;
}

static RengaErrorCode MomentsOfSgd(RengaOptimizer optimizer, int *count, const char *const **names)
{
  static const char *const moment_names[] = {"momentum"};
  *count = optimizer->momentum > 0 ? 1 : 0;
  *names = moment_names;
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewSgd(RengaOptimizer optimizer, RengaViewer viewer)
{
  return RengaViewerPrintf(viewer, "  momentum %g%s\n", optimizer->momentum,
                           optimizer->nesterov ? ", Nesterov" : "");
}

/*@
   RengaOptimizerSetMomentum - the momentum of type sgd

   Input:
   . optimizer - the optimizer, of type sgd; another type is an error
   . momentum - the momentum, at least 0, less than 1; 0: none
   . nesterov - look ahead by Nesterov's rule

   Options:
   . -optimizer_momentum - the momentum
   . -optimizer_nesterov - Nesterov's rule

   Errors: RENGA_ERR_ARGUMENT for a type other than sgd, or a momentum below 0, or of 1 and
   above.
@*/
RengaErrorCode RengaOptimizerSetMomentum(RengaOptimizer optimizer, double momentum, bool nesterov)
{
  RengaCheckPointer(optimizer);
  RengaCheck(optimizer->ops->update == UpdateSgd, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "RengaOptimizerSetMomentum is for type sgd; the type is %s", optimizer->hdr.type_name);
  RengaCheck(momentum >= 0 && momentum < 1, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "a momentum of %g is not at least 0 and less than 1", momentum);
  optimizer->momentum = momentum;
  optimizer->nesterov = nesterov;
  optimizer->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

/*@
   RengaOptimizerGetMomentum - the momentum of type sgd

   Input:
   . optimizer - the optimizer, of type sgd; another type is an error

   Output:
   . momentum - 0: none
   . nesterov - whether it looks ahead by Nesterov's rule

   Errors: RENGA_ERR_ARGUMENT for a type other than sgd.
@*/
RengaErrorCode RengaOptimizerGetMomentum(RengaOptimizer optimizer, double *momentum, bool *nesterov)
{
  RengaCheckPointers(optimizer, momentum, nesterov);
  RengaCheck(optimizer->ops->update == UpdateSgd, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "RengaOptimizerGetMomentum is for type sgd; the type is %s", optimizer->hdr.type_name);
  *momentum = optimizer->momentum;
  *nesterov = optimizer->nesterov;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOptimizerCreate_SGD(void *object)
{
  RengaOptimizer optimizer = object;
  optimizer->ops->update = UpdateSgd;
  optimizer->ops->moments = MomentsOfSgd;
  optimizer->ops->view = ViewSgd;
  return RENGA_SUCCESS;
}
