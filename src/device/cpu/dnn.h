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
