/* What the files that call oneDNN share. */
#pragma once
#include "onednn.h"
#include <dnnl.h>

#define CallDNN(call)                                                                              \
  do {                                                                                             \
    dnnl_status_t renga_dnnl_ = (call);                                                            \
    if (renga_dnnl_ != dnnl_success)                                                               \
      RengaRaise(MPI_COMM_SELF, RENGA_ERR_LIBRARY, "oneDNN: status %d of %s", (int)renga_dnnl_,    \
                 #call);                                                                           \
  } while (0)

/* dnnshape.c. bfloat16, or else float32. */
dnnl_data_type_t RengaDnnType(RengaDataType type);
/* stride NULL: without gaps */
RengaErrorCode RengaDnnDescribeMemory(dnnl_memory_desc_t *md, RengaDataType type, int n,
                                      const int64_t dim[], const int64_t stride[]);
/* any: x, w, y */
RengaErrorCode RengaDnnDescribeForward(const RengaConvolutionShape *shape,
                                       const dnnl_memory_desc_t any[], dnnl_convolution_desc_t *q);
RengaErrorCode RengaDnnDescribeBackward(RengaConvolutionKind kind,
                                        const RengaConvolutionShape *shape,
                                        const dnnl_memory_desc_t any[], dnnl_convolution_desc_t *q);

/* Images of bfloat16, [N,C,H,W]: whether own are the user's with the channels last; and the way
   there, or back. */
bool RengaDnnHasChannelsLast(const dnnl_memory_desc_t *user, const dnnl_memory_desc_t *own);
void RengaDnnTurnImages(const dnnl_memory_desc_t *user, const dnnl_memory_desc_t *own, bool back,
                        void *user_data, void *own_data);
