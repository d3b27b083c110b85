/* NCCL as the fabric of cuda devices: the module's. A RengaWire is a communicator of NCCL. */
#include "cuda.h"
#include <stdlib.h>
#include <string.h>

static bool Find_Cuda(RengaDevice device, char text[RENGA_FABRIC_TEXT])
{
  const RengaCudaModule *module = RengaCudaOf_Private(device)->module;
  const bool found = module->nccl.find(RENGA_FABRIC_TEXT, text) == 0;
  if (!found) snprintf(text, RENGA_FABRIC_TEXT, "%s", module->error());
  return found;
}

/* Ranks of which each has another NCCL_HOSTID are on machines of their own for NCCL, and may share
   a GPU. */
static RengaErrorCode Place_Cuda(RengaDevice device, char text[RENGA_FABRIC_TEXT])
{
  const char *host = getenv("NCCL_HOSTID");
  RENGA_CALL_CUDA(device, module_->nccl.bus(text));
  const size_t length = strlen(text);
  if (host) snprintf(text + length, RENGA_FABRIC_TEXT - length, " of NCCL_HOSTID %s", host);
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeKey_Cuda(RengaDevice device, char key[RENGA_FABRIC_KEY])
{
  RENGA_CALL_CUDA(device, module_->nccl.makekey(key));
  return RENGA_SUCCESS;
}

static RengaErrorCode Open_Cuda(RengaDevice device, const char key[RENGA_FABRIC_KEY], int ranks,
                                int rank, bool narrow, RengaWire *wire)
{
  void *made = NULL;
  RENGA_CALL_CUDA(device, module_->nccl.open(key, ranks, rank, narrow, &made));
  *wire = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode Begin_Cuda(RengaDevice device)
{
  RENGA_CALL_CUDA(device, module_->nccl.begin());
  return RENGA_SUCCESS;
}

static RengaErrorCode End_Cuda(RengaDevice device)
{
  RENGA_CALL_CUDA(device, module_->nccl.end());
  return RENGA_SUCCESS;
}

static RengaErrorCode Send_Cuda(RengaDevice device, RengaWire wire, RengaStream stream,
                                const void *from, size_t bytes, int to)
{
  RENGA_CALL_CUDA(
      device, module_->nccl.send(wire, RengaCudaStream_Private(device, stream), from, bytes, to));
  return RENGA_SUCCESS;
}

static RengaErrorCode Receive_Cuda(RengaDevice device, RengaWire wire, RengaStream stream, void *to,
                                   size_t bytes, int from)
{
  RENGA_CALL_CUDA(device, module_->nccl.receive(wire, RengaCudaStream_Private(device, stream), to,
                                                bytes, from));
  return RENGA_SUCCESS;
}

static RengaErrorCode Sum_Cuda(RengaDevice device, RengaWire wire, RengaStream stream,
                               RengaDataType type, int64_t count, void *values)
{
  RengaCheck(type == RENGA_FLOAT32 || type == RENGA_BFLOAT16, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "NCCL adds up float32 and bfloat16, not %s", RengaDataTypeName(type));
  const RengaCudaType sum = type == RENGA_FLOAT32 ? RENGA_CUDA_FLOAT32 : RENGA_CUDA_BFLOAT16;
  RENGA_CALL_CUDA(
      device, module_->nccl.sum(wire, RengaCudaStream_Private(device, stream), sum, count, values));
  return RENGA_SUCCESS;
}

static RengaErrorCode SumDoubles_Cuda(RengaDevice device, RengaWire wire, RengaStream stream,
                                      int64_t count, double values[])
{
  RENGA_CALL_CUDA(device, module_->nccl.sumdoubles(wire, RengaCudaStream_Private(device, stream),
                                                   count, values));
  return RENGA_SUCCESS;
}

static RengaErrorCode Queues_Cuda(RengaDevice device, int *queues)
{
  *queues = RengaCudaOf_Private(device)->module->tell(RENGA_CUDA_QUEUES);
  return RENGA_SUCCESS;
}

static RengaErrorCode Check_Cuda(RengaDevice device, RengaWire wire)
{
  RENGA_CALL_CUDA(device, module_->nccl.check(wire));
  return RENGA_SUCCESS;
}

static RengaErrorCode Close_Cuda(RengaDevice device, RengaWire *wire, bool abort)
{
  void *closed = *wire;
  *wire = NULL;
  RENGA_CALL_CUDA(device, module_->nccl.close(closed, abort));
  return RENGA_SUCCESS;
}

const RengaFabric RengaCudaFabric_Private = {.library = "NCCL",
                                             .find = Find_Cuda,
                                             .place = Place_Cuda,
                                             .makekey = MakeKey_Cuda,
                                             .open = Open_Cuda,
                                             .begin = Begin_Cuda,
                                             .end = End_Cuda,
                                             .send = Send_Cuda,
                                             .receive = Receive_Cuda,
                                             .sum = Sum_Cuda,
                                             .sumdoubles = SumDoubles_Cuda,
                                             .queues = Queues_Cuda,
                                             .own_streams = 1,
                                             .check = Check_Cuda,
                                             .close = Close_Cuda};
