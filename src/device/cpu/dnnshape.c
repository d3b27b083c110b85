/* What oneDNN is here, and tensors and convolutions as it wants them described. */
#include "dnn.h"
#include "renga/private/device.h"
#include <omp.h>
#include <stdlib.h>

dnnl_data_type_t RengaDnnType(RengaDataType type)
{
  return type == RENGA_BFLOAT16 ? dnnl_bf16 : dnnl_f32;
}

RengaErrorCode RengaDnnDescribeMemory(dnnl_memory_desc_t *md, RengaDataType type, int n,
                                      const int64_t dim[], const int64_t stride[])
{
  dnnl_dims_t dims, strides;
  int64_t size = 1;
  for (int d = n - 1; d >= 0; d--) {
    dims[d] = dim[d];
    strides[d] = stride ? stride[d] : size;
    size *= dim[d];
  }
  CallDNN(dnnl_memory_desc_init_by_strides(md, n, dims, RengaDnnType(type), strides));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDnnDescribeForward(const RengaConvolutionShape *s,
                                       const dnnl_memory_desc_t any[], dnnl_convolution_desc_t *q)
{
  dnnl_dims_t stride, dilation, before, after, channels = {s->out_channels};
  for (int d = 0; d < 2; d++) {
    stride[d] = s->stride[d];
    dilation[d] = s->dilation[d] - 1;
    before[d] = s->before[d];
    after[d] = s->after[d];
  }
  dnnl_memory_desc_t bias;
  CallDNN(dnnl_memory_desc_init_by_tag(&bias, 1, channels, RengaDnnType(s->bias), dnnl_a));
  CallDNN(dnnl_dilated_convolution_forward_desc_init(
      q, dnnl_forward_training, dnnl_convolution_direct, &any[0], &any[1],
      s->has_bias ? &bias : NULL, &any[2], stride, dilation, before, after));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDnnDescribeBackward(RengaConvolutionKind kind, const RengaConvolutionShape *s,
                                        const dnnl_memory_desc_t any[], dnnl_convolution_desc_t *q)
{
  dnnl_dims_t stride, dilation, before, after;
  for (int d = 0; d < 2; d++) {
    stride[d] = s->stride[d];
    dilation[d] = s->dilation[d] - 1;
    before[d] = s->before[d];
    after[d] = s->after[d];
  }
  if (kind == RENGA_CONVOLUTION_INPUT)
    CallDNN(dnnl_dilated_convolution_backward_data_desc_init(
        q, dnnl_convolution_direct, &any[0], &any[1], &any[2], stride, dilation, before, after));
  else
    CallDNN(dnnl_dilated_convolution_backward_weights_desc_init(q, dnnl_convolution_direct, &any[0],
                                                                &any[1], NULL, &any[2], stride,
                                                                dilation, before, after));
  return RENGA_SUCCESS;
}

/* oneDNN decides that once for a process, with its first primitive or this question. */
bool RengaConvolutionHasBrain(void)
{
  const int isa = (int)dnnl_get_effective_cpu_isa(), wanted = (int)dnnl_cpu_isa_avx512_core;
  return (isa & wanted) == wanted;
}

bool RengaDnnHasKnownSums(void)
{
  const dnnl_version_t *version = dnnl_version();
  return RengaConvolutionHasBrain() && version->major == 2 && version->minor == 6;
}

bool RengaDnnHasAmx(void)
{
  const int isa = (int)dnnl_get_effective_cpu_isa(), wanted = (int)dnnl_cpu_isa_avx512_core_amx;
  return (isa & wanted) == wanted;
}

void RengaDnnLeaveAmx(void)
{
  if (getenv("DNNL_MAX_CPU_ISA") || getenv("ONEDNN_MAX_CPU_ISA")) return;
  dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16); /* too late where it was asked before */
}

void RengaCpuBeAlone(void)
{
  omp_set_num_threads(1);
  if (omp_get_thread_num() > 0) RengaDeviceRefuseSignals_Private(); /* the others hold them */
}

void RengaConvolutionLibrary(size_t size, char text[])
{
  static const struct {
    dnnl_cpu_isa_t isa;
    const char *name;
  } sets[] = {{dnnl_cpu_isa_sse41, "sse41"},
              {dnnl_cpu_isa_avx, "avx"},
              {dnnl_cpu_isa_avx2, "avx2"},
              {dnnl_cpu_isa_avx512_core, "avx512_core"},
              {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
              {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
              {dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"}};
  const dnnl_version_t *version = dnnl_version();
  const int isa = (int)dnnl_get_effective_cpu_isa();
  char number[16];
  snprintf(number, sizeof number, "0x%x", (unsigned)isa); /* of a newer version, or another kind */
  const char *name = number;
  for (size_t s = 0; s < sizeof sets / sizeof *sets; s++)
    if ((int)sets[s].isa == isa) name = sets[s].name;
  snprintf(text, size, "oneDNN %d.%d.%d %s", version->major, version->minor, version->patch, name);
}
