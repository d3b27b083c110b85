/* Flat float32 vectors: sums of gradients, norms, and the optimizers' updates. */
#include "renga/private/device.h"

/*@
   RengaDeviceAdd - y += x

   Not collective

   Input:
   . device - the device
   . stream - queued on it
   . count - elements
   . x - not overlapping y

   Output:
   . y - the sum
@*/
RengaErrorCode RengaDeviceAdd(RengaDevice device, RengaStream stream, int64_t count, float y[],
                              const float x[])
{
  RengaCheckPointer(device);
  if (count > 0) RengaCall(device->ops->add(device, stream, count, y, x));
  return RENGA_SUCCESS;
}

/*@
   RengaDeviceSumOfSquares - the square of the 2-norm

   Not collective

   Input:
   . device - the device
   . stream - waited for
   . count - elements
   . x - the vector

   Output:
   . sum - in double, the same for any number of threads
@*/
RengaErrorCode RengaDeviceSumOfSquares(RengaDevice device, RengaStream stream, int64_t count,
                                       const float x[], double *sum)
{
  RengaCheckPointer(device);
  RengaCheckPointer(sum);
  *sum = 0;
  if (count > 0) RengaCall(device->ops->sumofsquares(device, stream, count, x, sum));
  return RENGA_SUCCESS;
}

/*@
   RengaDeviceUpdateSgd - one step of stochastic gradient descent

   Not collective

   Input:
   . device - the device
   . stream - queued on it
   . step - rate, momentum m, dampening d, weight decay w
   . scale - the gradient is g = scale * gradient + w * parameter
   . count - elements
   . gradient - the gradient

   Output:
   . parameter - p -= rate * u; u is g without momentum, v with it, g + m v with Nesterov's
   . momentum - v = m v + (1 - d) g, or v = g in the first step; NULL where m is 0

   Notes: Sutskever et al., On the importance of initialization and momentum in deep learning, 2013,
in the form that has the rate outside the momentum.
@*/
RengaErrorCode RengaDeviceUpdateSgd(RengaDevice device, RengaStream stream,
                                    const RengaSgdStep *step, double scale, int64_t count,
                                    float parameter[], const float gradient[], float momentum[])
{
  RengaCheckPointer(device);
  RengaCheckPointer(step);
  RengaCheck(momentum || step->momentum == 0 || count == 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "momentum is %g and there is no buffer for it", step->momentum);
  if (count > 0)
    RengaCall(
        device->ops->updatesgd(device, stream, step, scale, count, parameter, gradient, momentum));
  return RENGA_SUCCESS;
}

/*@
   RengaDeviceUpdateAdam - one step of Adam or AdamW

   Not collective

   Input:
   . device - the device
   . stream - queued on it
   . step - rate, beta1, beta2, epsilon, weight decay, number of the step from 1
   . scale - the gradient is g = scale * gradient (+ decay * parameter where it is not decoupled)
   . count - elements
   . gradient - the gradient

   Output:
   . parameter - p -= rate m' / (sqrt(v') + epsilon), after p *= 1 - rate * decay where decoupled
   . first - m = beta1 m + (1 - beta1) g; m' = m / (1 - beta1^step)
   . second - v = beta2 v + (1 - beta2) g^2; v' = v / (1 - beta2^step)

   Notes: Kingma and Ba, Adam, 2015, algorithm 1; Loshchilov and Hutter, Decoupled weight decay
   regularization, 2019.
@*/
RengaErrorCode RengaDeviceUpdateAdam(RengaDevice device, RengaStream stream,
                                     const RengaAdamStep *step, double scale, int64_t count,
                                     float parameter[], const float gradient[], float first[],
                                     float second[])
{
  RengaCheckPointer(device);
  RengaCheckPointer(step);
  RengaCheck(step->step >= 1, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "step is %lld: the first is 1",
             (long long)step->step);
  if (count > 0)
    RengaCall(device->ops->updateadam(device, stream, step, scale, count, parameter, gradient,
                                      first, second));
  return RENGA_SUCCESS;
}
