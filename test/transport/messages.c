/* TEST ranks: 1 2 3 4 */
/* Messages of a device's memory by each transport: of any length, in order, many under way, in
   parcels that are used again while the device is late; refused. */
#include "transporttest.h"

enum { LONGEST = 200000, TAG = WAYS_TAG };

static unsigned char ByteOf(int from, int to, int64_t kind, size_t i)
{
  return (unsigned char)(from * 31 + to * 17 + (int)(kind * 7) + (int)(i % 251));
}

static void FillBytes(int from, int to, int64_t kind, size_t bytes, unsigned char *buffer)
{
  for (size_t i = 0; i < bytes; i++) buffer[i] = ByteOf(from, to, kind, i);
}

/* Each rank to each, itself too, tested and waited for in turn. */
static void CheckLengths(const Ways *w)
{
  static const size_t lengths[] = {0, 1, 65535, 65536, 65537, LONGEST};
  static unsigned char host[LONGEST];
  RengaParcel parcel[2 * MOST_RANKS];
  char *in[MOST_RANKS], *out[MOST_RANKS];
  for (int p = 0; p < w->size; p++) {
    RengaCallAbort(RengaDeviceMalloc(w->device, LONGEST, &in[p]));
    RengaCallAbort(RengaDeviceMalloc(w->device, LONGEST, &out[p]));
    for (int k = 0; k < 2; k++)
      RengaCallAbort(RengaParcelCreate_Private(w->transport, w->comm, LONGEST, &parcel[2 * p + k]));
  }
  for (int kind = 0; kind < 6; kind++) {
    const size_t n = lengths[kind];
    for (int p = 0; p < w->size; p++) {
      FillBytes(w->rank, p, kind, n, host);
      PutBytes(w, out[p], host, n);
      RengaCallAbort(RengaParcelReceive_Private(parcel[2 * p], in[p], n, p, TAG));
      RengaCallAbort(RengaParcelSend_Private(parcel[2 * p + 1], out[p], n, p, TAG));
      TestTrue(RengaParcelIsUnderWay_Private(parcel[2 * p]));
    }
    for (int i = 2 * w->size - 1; i >= 0; i--) {
      for (bool done = false; !done && i % 2;)
        RengaCallAbort(RengaParcelTest_Private(parcel[i], &done));
      RengaCallAbort(RengaParcelWait_Private(parcel[i], "each to each"));
      TestTrue(!RengaParcelIsUnderWay_Private(parcel[i]));
    }
    for (int p = 0; p < w->size; p++) {
      GetBytes(w, host, in[p], n);
      for (size_t i = 0; i < n; i++) TestTrue(host[i] == ByteOf(p, w->rank, kind, i));
    }
  }
  for (int p = 0; p < w->size; p++) {
    for (int k = 0; k < 2; k++) RengaCallAbort(RengaParcelDestroy_Private(&parcel[2 * p + k]));
    RengaCallAbort(RengaDeviceFree(w->device, &in[p]));
    RengaCallAbort(RengaDeviceFree(w->device, &out[p]));
  }
}

/* Round a ring, under one tag, in few parcels with one memory each: what is sent is written by
   queued work right before, and what came is used by queued work and written over by the next
   message; nobody waits for the device but at the end. The sum of all that came is looked at. */
static void CheckReuse(const Ways *w)
{
  enum { MESSAGES = 40, PARCELS = 3, COUNT = 3000 };
  const int next = (w->rank + 1) % w->size, before = (w->rank + w->size - 1) % w->size;
  static float host[COUNT];
  float *one, *counter, *sum, *out[PARCELS], *in[PARCELS];
  RengaParcel send[PARCELS], receive[PARCELS];
  const size_t bytes = sizeof host;
  RengaCallAbort(RengaDeviceMalloc(w->device, bytes, &one));
  RengaCallAbort(RengaDeviceMalloc(w->device, bytes, &counter));
  RengaCallAbort(RengaDeviceMalloc(w->device, bytes, &sum));
  for (int i = 0; i < PARCELS; i++) {
    RengaCallAbort(RengaDeviceMalloc(w->device, bytes, &out[i]));
    RengaCallAbort(RengaDeviceMalloc(w->device, bytes, &in[i]));
    RengaCallAbort(RengaParcelCreate_Private(w->transport, w->comm, bytes, &send[i]));
    RengaCallAbort(RengaParcelCreate_Private(w->transport, w->comm, bytes, &receive[i]));
  }
  for (int i = 0; i < COUNT; i++) host[i] = 1;
  PutBytes(w, one, host, bytes);
  for (int i = 0; i < COUNT; i++) host[i] = (float)w->rank;
  PutBytes(w, counter, host, bytes);
  RengaCallAbort(RengaDeviceSetBytes(w->device, NULL, sum, 0, bytes));
  for (int m = 0; m < MESSAGES + PARCELS; m++) {
    const int at = m % PARCELS;
    if (m >= PARCELS) {
      RengaCallAbort(RengaParcelWait_Private(receive[at], "a message of the ring"));
      RengaCallAbort(RengaDeviceAdd(w->device, NULL, RENGA_FLOAT32, COUNT, sum, in[at]));
    }
    if (m >= MESSAGES) continue;
    RengaCallAbort(RengaParcelWait_Private(send[at], "a message of the ring to leave"));
    RengaCallAbort(RengaDeviceAdd(w->device, NULL, RENGA_FLOAT32, COUNT, counter, one));
    RengaCallAbort(
        RengaDeviceCopy(w->device, NULL, RENGA_DEVICE_TO_DEVICE, out[at], counter, bytes));
    RengaCallAbort(RengaParcelReceive_Private(receive[at], in[at], bytes, before, TAG));
    RengaCallAbort(RengaParcelSend_Private(send[at], out[at], bytes, next, TAG));
  }
  GetBytes(w, host, sum, bytes);
  const int all = MESSAGES * before + MESSAGES * (MESSAGES + 1) / 2;
  for (int i = 0; i < COUNT; i++) TestTrue(host[i] == (float)all);
  for (int i = 0; i < PARCELS; i++) {
    RengaCallAbort(RengaParcelWait_Private(send[i], "the last messages to leave"));
    RengaCallAbort(RengaParcelDestroy_Private(&send[i]));
    RengaCallAbort(RengaParcelDestroy_Private(&receive[i]));
    RengaCallAbort(RengaDeviceFree(w->device, &out[i]));
    RengaCallAbort(RengaDeviceFree(w->device, &in[i]));
  }
  RengaCallAbort(RengaDeviceFree(w->device, &one));
  RengaCallAbort(RengaDeviceFree(w->device, &counter));
  RengaCallAbort(RengaDeviceFree(w->device, &sum));
}

/* Many messages of alternating length under one tag; they are waited for from the last to the
   first, some by a wait for something else. */
static void CheckMany(const Ways *w)
{
  enum { MANY = 30 };
  const int next = (w->rank + 1) % w->size, before = (w->rank + w->size - 1) % w->size;
  RengaParcel parcel[2 * MANY];
  int *memory, host[1000];
  RengaCallAbort(RengaDeviceMalloc(w->device, 2 * MANY * sizeof host, &memory));
  for (int i = 0; i < MANY; i++) {
    const size_t bytes = i % 2 ? sizeof host : sizeof *host;
    host[0] = w->rank * 100 + i;
    PutBytes(w, memory + i * 1000, host, bytes);
    for (int k = 0; k < 2; k++)
      RengaCallAbort(RengaParcelCreate_Private(w->transport, w->comm, bytes, &parcel[2 * i + k]));
    RengaCallAbort(RengaParcelSend_Private(parcel[2 * i], memory + i * 1000, bytes, next, TAG));
    RengaCallAbort(RengaParcelReceive_Private(parcel[2 * i + 1], memory + (MANY + i) * 1000, bytes,
                                              before, TAG));
  }
  RengaCallAbort(RengaCommBarrier(w->comm, "all ranks"));
  for (int i = 2 * MANY - 1; i >= 0; i--)
    RengaCallAbort(RengaParcelWait_Private(parcel[i], "many"));
  for (int i = 0; i < MANY; i++) {
    GetBytes(w, host, memory + (MANY + i) * 1000, sizeof *host);
    TestTrue(host[0] == before * 100 + i);
  }
  for (int i = 0; i < 2 * MANY; i++) RengaCallAbort(RengaParcelDestroy_Private(&parcel[i]));
  RengaCallAbort(RengaDeviceFree(w->device, &memory));
}

static void CheckRefused(const Ways *w)
{
  RengaParcel parcel, other;
  char *memory;
  bool done = false;
  RengaCallAbort(RengaDeviceMalloc(w->device, 100, &memory));
  RengaCallAbort(RengaParcelCreate_Private(w->transport, w->comm, 10, &parcel));
  TestError(RengaParcelSend_Private(parcel, memory, 11, w->rank, TAG), RENGA_ERR_ARGUMENT);
  TestError(RengaParcelSend_Private(parcel, memory, 10, w->size, TAG), RENGA_ERR_ARGUMENT);
  TestTrue(!RengaParcelIsUnderWay_Private(parcel));
  RengaCallAbort(RengaParcelReceive_Private(parcel, memory, 10, w->rank, TAG));
  TestError(RengaParcelSend_Private(parcel, memory, 10, w->rank, TAG), RENGA_ERR_ORDER);
  RengaCallAbort(RengaParcelTest_Private(parcel, &done));
  TestTrue(!done);
  RengaCallAbort(RengaCommSetTimeout(w->comm, 0.1));
  FILE *file;
  const int saved = BeginErrors(&file);
  const RengaErrorCode code = RengaParcelWait_Private(parcel, "the gradient of step 7");
  const char *text = EndErrors(file, saved);
  char from[64];
  snprintf(from, sizeof from, "the gradient of step 7 (10 bytes from rank %d, tag 3)", w->rank);
  TestTrue(code == RENGA_ERR_TIMEOUT && strstr(text, from));
  RengaCallAbort(RengaCommSetTimeout(w->comm, 150));
  RengaCallAbort(RengaParcelCreate_Private(w->transport, w->comm, 10, &other));
  RengaCallAbort(RengaParcelSend_Private(other, memory + 50, 10, w->rank, TAG));
  RengaCallAbort(RengaParcelWait_Private(parcel, "a message to this rank itself"));
  RengaCallAbort(RengaParcelWait_Private(other, "a message to this rank itself"));
  RengaCallAbort(RengaParcelDestroy_Private(&parcel));
  RengaCallAbort(RengaParcelDestroy_Private(&other));
  RengaCallAbort(RengaDeviceFree(w->device, &memory));
}

static void CheckAll(const Ways *w)
{
  CheckLengths(w);
  CheckReuse(w);
  CheckMany(w);
  CheckRefused(w);
  RengaCallAbort(RengaCommBarrier(w->comm, "all ranks to be refused"));
}

static RengaErrorCode RunTest(void)
{
  RengaCall(TestAllWays(CheckAll));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
