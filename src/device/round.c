/* Products whose factors are rounded to 8 bits, Linear and its gradients: the device's product of
   bfloat16, of rounded copies in the workspace. Numbers of 8 bits are exact in bfloat16, and their
   products in float32, so that sums are those of a product of 8 bits. */
#include "renga/private/device.h"
#include "renga/private/op.h"
#include <string.h>

enum { FACTORS = 2, ALIGNED = 64 };

typedef struct {
  RengaFp8 format[FACTORS];
  size_t offset[FACTORS]; /* of copies in the workspace */
  size_t work, bytes;     /* of the rounding; in front of the inner kernel's workspace */
} RoundedKernel;

/* Gradients of outputs have a larger range, and fewer bits of fraction. */
void RengaOpCallFormats_Private(const RengaOpCall *call, RengaFp8 format[2])
{
  format[0] = format[1] = RENGA_FP8_E4M3;
  if (strcmp(call->op->name, "LinearGradInput") == 0) format[0] = RENGA_FP8_E5M2;
  if (strcmp(call->op->name, "LinearGradWeight") == 0) format[1] = RENGA_FP8_E5M2;
}

static RengaErrorCode RunRounded(RengaKernel kernel, RengaStream stream,
                                 const RengaKernelContext *context, const void *const in[],
                                 void *const out[], void *workspace)
{
  const RoundedKernel *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  RengaDevice device = kernel->device;
  char *memory = workspace;
  const void *factor[FACTORS + 1] = {NULL, NULL, call->n_in > FACTORS ? in[FACTORS] : NULL};
  for (int i = 0; i < FACTORS; i++) {
    const RengaRounding rounding = {.format = s->format[i],
                                    .count = RengaTensorSpecCount(&call->in[i]),
                                    .from = call->in[i].type,
                                    .x = in[i],
                                    .y = (uint16_t *)(void *)(memory + s->offset[i]),
                                    .work = memory + s->work};
    if (rounding.count > 0) RengaCall(device->ops->round(device, stream, &rounding));
    if (rounding.count > 0) factor[i] = rounding.y;
  }
  const RengaKernel inner = kernel->wide;
  RengaCall(inner->run(inner, stream, context, factor, out, memory + s->bytes));
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyRounded(RengaKernel kernel)
{
  RengaFree(&kernel->data);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOpCallOfRounded_Private(const RengaOpCall *call, RengaTensorSpec in[],
                                            RengaAttributes *attributes)
{
  RengaCall(RengaAttributesCopy(call->attributes, attributes));
  RengaCall(RengaAttributesRemove(attributes, "rounds"));
  for (int i = 0; i < call->n_in; i++) in[i] = call->in[i];
  for (int i = 0; i < FACTORS; i++) in[i].type = RENGA_BFLOAT16;
  return RENGA_SUCCESS;
}

/* Where this fails, who destroys the kernel frees what was made. */
RengaErrorCode RengaKernelRound_Private(RengaKernel kernel)
{
  RoundedKernel *s;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = DestroyRounded;
  RengaOpCallFormats_Private(&kernel->call, s->format);
  for (int i = 0; i < FACTORS; i++) {
    const size_t bytes = (size_t)RengaTensorSpecCount(&kernel->call.in[i]) * sizeof(uint16_t);
    s->offset[i] = s->bytes;
    s->bytes += (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
  }
  s->work = s->bytes;
  s->bytes += RENGA_ROUNDING_WORK;
  kernel->workspace = s->bytes + kernel->wide->workspace;
  kernel->fallback = kernel->wide->fallback;
  kernel->run = RunRounded;
  return RENGA_SUCCESS;
}
