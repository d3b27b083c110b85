/* What the files that call oneDNN share. */
#pragma once
#include "rengasys.h"
#include <dnnl.h>

#define CallDNN(call)                                                                              \
  do {                                                                                             \
    dnnl_status_t renga_dnnl_ = (call);                                                            \
    if (renga_dnnl_ != dnnl_success)                                                               \
      RengaRaise(MPI_COMM_SELF, RENGA_ERR_LIBRARY, "oneDNN: status %d of %s", (int)renga_dnnl_,    \
                 #call);                                                                           \
  } while (0)

/* Images of bfloat16, [N,C,H,W]: whether own are the user's with the channels last; and the way
   there, or back. */
bool RengaDnnHasChannelsLast(const dnnl_memory_desc_t *user, const dnnl_memory_desc_t *own);
void RengaDnnTurnImages(const dnnl_memory_desc_t *user, const dnnl_memory_desc_t *own, bool back,
                        void *user_data, void *own_data);
