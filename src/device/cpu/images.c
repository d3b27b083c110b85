/* Images of 16 bits for oneDNN, whose own reordering of them takes several times as long. */
#include "dnn.h"
#include "turn.h"

/* Those of own are the user's with the channels last, in the same 16 bits. */
bool RengaDnnHasChannelsLast(const dnnl_memory_desc_t *user, const dnnl_memory_desc_t *own)
{
  const dnnl_dim_t *stride = user->format_desc.blocking.strides, *dim = user->dims;
  const dnnl_dim_t *last = own->format_desc.blocking.strides;
  if (user->data_type != dnnl_bf16 || own->data_type != dnnl_bf16 || user->ndims != 4) return false;
  if (own->format_kind != dnnl_blocked || own->format_desc.blocking.inner_nblks > 0) return false;
  return stride[3] == 1 && stride[2] == dim[3] && stride[1] == dim[2] * dim[3] && last[1] == 1 &&
         last[3] == dim[1] && last[2] == dim[1] * dim[3];
}

void RengaDnnTurnImages(const dnnl_memory_desc_t *user, const dnnl_memory_desc_t *own, bool back,
                        void *user_data, void *own_data)
{
  const int64_t channels = user->dims[1], pixels = user->dims[2] * user->dims[3];
  const int64_t user_image = user->format_desc.blocking.strides[0];
  const int64_t own_image = own->format_desc.blocking.strides[0];
  for (int64_t n = 0; n < user->dims[0]; n++) {
    uint16_t *theirs = (uint16_t *)user_data + n * user_image;
    uint16_t *mine = (uint16_t *)own_data + n * own_image;
    if (back)
      RengaCpuTurn16(pixels, channels, mine, channels, theirs, pixels);
    else
      RengaCpuTurn16(channels, pixels, theirs, pixels, mine, channels);
  }
}
