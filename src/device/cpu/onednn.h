/* Convolutions by oneDNN behind plain tensors: images [N,C,H,W], weights [O,C/groups,h,w]. */
#pragma once
#include "rengaop.h"

/* Before a call of oneDNN's kernels: it uses this thread alone, which takes no signals
   (signals.c). */
void RengaCpuBeAlone(void);

typedef enum {
  RENGA_CONVOLUTION_FORWARD, /* x, w, (bias) -> y */
  RENGA_CONVOLUTION_INPUT,   /* dy, w -> dx */
  RENGA_CONVOLUTION_WEIGHT,  /* x, dy -> dw */
} RengaConvolutionKind;
typedef struct {
  int64_t images, groups, channels, out_channels;
  int64_t in[2], out[2], kernel[2], stride[2], dilation[2], before[2], after[2];
  bool has_bias;
  bool clears;                 /* the scratch memory begins with zeros */
  RengaDataType x, w, y, bias; /* float32 or bfloat16; or any of 16 bits, with these two: */
  void (*widen)(RengaDataType type, int64_t count, const void *x, float *y);
  void (*narrow)(RengaDataType type, int64_t count, const float *x, void *y);
} RengaConvolutionShape;

typedef struct _RengaConvolution *RengaConvolution;
/* NULL where oneDNN has none on this processor, which may be so with bfloat16. */
RengaErrorCode RengaConvolutionCreate(RengaConvolutionKind kind, const RengaConvolutionShape *shape,
                                      int threads, RengaConvolution *convolution);
/* Does oneDNN compute and turn bfloat16 with AVX-512 here, or with instructions for it? If not, who
   widens first is faster, by far. */
bool RengaConvolutionHasBrain(void);
/* Are its float32 sums with AVX-512 those of oneDNN 2.6, which kernels of Renga beside it have? */
bool RengaDnnHasKnownSums(void);
/* Does oneDNN use AMX? It has asked the system for it, then, for all threads of the process. */
bool RengaDnnHasAmx(void);
/* Where products of amx.c are not taken: those of oneDNN 2.6 by AMX end a process with SIGILL at
   some shapes, such as 47 x 20 by 20 x 63. It comes too late where oneDNN was used before, as by a
   device of another instruction set, and DNNL_MAX_CPU_ISA, where it is set, decides: then products
   of 16 bits are widened. */
void RengaDnnLeaveAmx(void);
size_t RengaConvolutionGetWorkspace(RengaConvolution convolution);
/* a and b are the inputs in the order above, c the output. */
RengaErrorCode RengaConvolutionRun(RengaConvolution convolution, const void *a, const void *b,
                                   const void *bias, void *c, void *workspace);
void RengaConvolutionLibrary(size_t size, char text[]); /* name, version, instruction set */
RengaErrorCode RengaConvolutionDestroy(RengaConvolution *convolution);
