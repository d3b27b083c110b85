/* Transport mpi: MPI gets the pointers of the device, whose memory is the host's. */
#include "transportimpl.h"

static RengaErrorCode Send_MPI(RengaParcel parcel, const void *memory, size_t bytes, int to,
                               int tag)
{
  RengaCall(RengaCommSend(parcel->comm, memory, bytes, to, tag, &parcel->request));
  parcel->under_way = true;
  return RENGA_SUCCESS;
}

static RengaErrorCode Receive_MPI(RengaParcel parcel, void *memory, size_t bytes, int from, int tag)
{
  RengaCall(RengaCommReceive(parcel->comm, memory, bytes, from, tag, &parcel->request));
  parcel->under_way = true;
  return RENGA_SUCCESS;
}

static RengaErrorCode Test_MPI(RengaParcel parcel, bool *done)
{
  RengaCall(RengaCommTest(parcel->comm, &parcel->request, done));
  parcel->under_way = !*done;
  return RENGA_SUCCESS;
}

static RengaErrorCode Wait_MPI(RengaParcel parcel, const char *what)
{
  RengaCall(RengaCommWait(parcel->comm, &parcel->request, what));
  parcel->under_way = false;
  return RENGA_SUCCESS;
}

static RengaErrorCode Sum_MPI(RengaConvoy convoy, RengaDataType type, int64_t count, void *values,
                              const char *what)
{
  RengaCall(RengaCommSumUnordered(convoy->comm, type, count, values, what));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTransportCreate_MPI(void *object)
{
  RengaTransport transport = object;
  const char *device;
  RengaCall(RengaDeviceGetType(transport->device, &device));
  RengaCheck(RengaDeviceIsHost(transport->device), transport->hdr.comm, RENGA_ERR_SUPPORT,
             "transport mpi gives MPI the device's own memory, and that of device %s is not the "
             "host's: use -transport_type auto",
             device);
  *transport->ops = (struct _RengaTransportOps){.send = Send_MPI,
                                                .receive = Receive_MPI,
                                                .test = Test_MPI,
                                                .wait = Wait_MPI,
                                                .sum = Sum_MPI,
                                                .does = "tensors are MPI's where they lie"};
  return RENGA_SUCCESS;
}
