/* TEST ranks: 1 */
/* What is left of spans between two waits: none whose work failed before its end, and none whose
   times the device cannot say, which the wait's error tells once. */
#include "../../src/sys/sys.h"
#include "../check.h"
#include "renga/private/device.h"
#include "renga/private/span.h"
#include "rengacomm.h"

enum { MOST = 8192 /* between two waits */, COUNT = 5 };

static struct {
  RengaErrorCode (*seconds)(RengaDevice, RengaEvent, RengaEvent, bool *, double *);
  int asked, fails; /* which question is not answered; 0: all are */
} clock_of_device;

static RengaErrorCode AskClock(RengaDevice device, RengaEvent from, RengaEvent to, bool *done,
                               double *seconds)
{
  if (++clock_of_device.asked == clock_of_device.fails) return RENGA_ERR_LIBRARY;
  RengaCall(clock_of_device.seconds(device, from, to, done, seconds));
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeTimes(RengaDevice device, RengaErrorCode *code)
{
  clock_of_device.asked = 0;
  RengaCall(RengaSpansMark_Private(device));
  RengaCall(RengaStreamSynchronize(device, NULL));
  *code = RengaSpansTake_Private(device);
  return RENGA_SUCCESS;
}

static RengaErrorCode AddSpans(RengaDevice device, int count, bool end)
{
  for (int s = 0; s < count; s++) {
    RengaSpan span;
    RengaCall(RengaSpanBegin_Private(device, NULL, &span));
    Expect(span != RENGA_SPAN_NONE);
    if (end) RengaCall(RengaSpanEnd_Private(device, NULL, span, "compute", NULL, 0, "work"));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckUnended(RengaDevice device)
{
  RengaErrorCode code;
  for (int step = 0; step < 2; step++) {
    RengaCall(AddSpans(device, MOST, false));
    RengaCall(TakeTimes(device, &code));
    Expect(code == RENGA_SUCCESS && clock_of_device.asked == 0);
  }
  RengaCall(AddSpans(device, COUNT, true));
  RengaCall(TakeTimes(device, &code));
  Expect(code == RENGA_SUCCESS && clock_of_device.asked == 2 * COUNT);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckErrors(RengaDevice device)
{
  RengaErrorCode code;
  for (int fails = 1; fails <= 2 * COUNT; fails++) {
    RengaCall(AddSpans(device, COUNT, true));
    clock_of_device.fails = fails;
    RengaCall(TakeTimes(device, &code));
    Expect(code == RENGA_ERR_LIBRARY);
    Expect(clock_of_device.asked >= 2 * COUNT - 1); /* of the others, too */
    clock_of_device.fails = 0;
    RengaCall(AddSpans(device, 1, true));
    RengaCall(TakeTimes(device, &code));
    Expect(code == RENGA_SUCCESS && clock_of_device.asked == 2); /* of the new one alone */
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaDevice device;
  RengaCall(RengaLogStart(MPI_COMM_WORLD, true, false));
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaDeviceCreate(comm, &device));
  RengaCall(RengaDeviceSetType(device, RENGA_DEVICE_FAR));
  RengaCall(RengaDeviceSetUp(device));
  clock_of_device.seconds = device->ops->eventseconds;
  device->ops->eventseconds = AskClock;
  Expect(RengaDeviceHasSpans_Private(device));
  RengaCall(CheckUnended(device));
  RengaCall(CheckErrors(device));
  RengaCall(RengaDeviceDestroy(&device));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
