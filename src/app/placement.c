/* Samples that ranks hold (-data_placement local): what came of it. */
#include "app.h"
#include <string.h>

static void FormatAll(const RengaDataTraffic *all, char held[16], char loaded[16], char sent[16])
{
  RengaFormatBytes((double)all->held_bytes, 16, held);
  RengaFormatBytes((double)all->loaded_bytes, 16, loaded);
  RengaFormatBytes((double)all->sent_bytes, 16, sent);
}

RengaErrorCode AppPrintTraffic(RengaComm comm, RengaData data, AppMonitor monitor)
{
  enum { NUMBERS = sizeof(RengaDataTraffic) / sizeof(int64_t) };
  RengaDataTraffic mine;
  int64_t sums[NUMBERS];
  char held[16], loaded[16], sent[16];
  RengaCall(RengaDataGetTraffic(data, &mine));
  memcpy(sums, &mine, sizeof sums);
  RengaCall(RengaCommSumInt64(comm, NUMBERS, sums, "what all ranks hold of the data set"));
  memcpy(&mine, sums, sizeof sums);
  if (mine.held_bytes == 0) return RENGA_SUCCESS;
  FormatAll(&mine, held, loaded, sent);
  RengaCall(
      AppMonitorSay(monitor,
                    "samples: ranks hold %s, read %s from the data set, sent %s (%lld samples, "
                    "%lld bytes) to other ranks\n",
                    held, loaded, sent, (long long)mine.sent_samples, (long long)mine.sent_bytes));
  if (mine.again_samples + mine.outside_samples > 0)
    RengaCall(AppMonitorSay(monitor,
                            "samples: %lld of owners that a rank does not hold, and %lld that it "
                            "had lost, were read from the data set\n",
                            (long long)mine.outside_samples, (long long)mine.again_samples));
  return RENGA_SUCCESS;
}
