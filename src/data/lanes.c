/* Data: samples that belong to lanes, a number of owners that does not follow from the ranks. Each
   epoch every lane shuffles its own samples; before it, each gives the same number of them to
   other lanes and gets as many. Nguyen et al., Why Globally Re-shuffle? Revisiting Data Shuffling
   in Large Scale Deep Learning, IPDPS 2022.

   A lane has as many places for samples as at the beginning. Before epoch e the share Q of the
   places of each lane, a window that begins at a random place, is exchanged: place w of the window
   of lane l goes to place w of the window of lane l + s, where s, from 1 to lanes - 1, is drawn for
   e and w: a permutation of the lanes without a fixed point, so each lane sends and receives one
   sample for each w. All of it is a function of the seed: whoever wants to know which sample is at
   a place follows it back through the epochs, without a table and without a message. */
#include "dataimpl.h"
#include "renga/private/packages.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define AT(member) offsetof(struct _p_RengaData, lanes.member)

static const RengaOptionRow lane_rows[] = {
    {"data_shuffle", RENGA_OPTION_STRING, "true", AT(shuffle), NULL, 0, 0,
     "true or global: each epoch's training samples in an order drawn from the seed; local: "
     "within lanes; partial:Q: and the share Q of each lane is exchanged; false: as they stand"},
    {"data_lanes", RENGA_OPTION_INT64, "0", AT(count), NULL, 0, 1 << 20,
     "owners of the samples, for -data_shuffle local and partial:Q"},
    {"data_lanes_order", RENGA_OPTION_STRING, "shuffled", AT(order), "shuffled|file", 0, 0,
     "which samples a lane has first: drawn from the seed, or one range of the set for each lane"},
    {"data_placement", RENGA_OPTION_STRING, "shared", AT(placement), "shared|local", 0, 0,
     "where samples are read from"},
};
enum { LANE_OPTIONS = sizeof lane_rows / sizeof *lane_rows };
enum { DRAW_OFFSET = 0x0ff5, DRAW_SHIFT = 0x51f7 };

RengaErrorCode RengaDataRegisterLanes_Private(void)
{
  RengaCall(RengaOptionsRegister("Data", LANE_OPTIONS, lane_rows));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDataBeginLanes_Private(RengaData data)
{
  data->shuffle = true;
  data->lanes.exchange = -1;
  RengaCall(RengaOptionsSetDefaults(LANE_OPTIONS, lane_rows, data));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDataEndLanes_Private(RengaData data)
{
  RengaCall(RengaOptionsFreeStrings(LANE_OPTIONS, lane_rows, data));
  return RENGA_SUCCESS;
}

static bool IsWord(const char *text, const char *const words[])
{
  for (; *words; words++)
    if (strcasecmp(text, *words) == 0) return true;
  return false;
}

/* exchange -1: not between lanes. False: the text is none of those. */
static bool ParseShuffle(const char *text, bool *shuffle, double *exchange)
{
  static const char *const yes[] = {"true", "yes", "on", "1", "global", NULL};
  static const char *const no[] = {"false", "no", "off", "0", NULL};
  *shuffle = !IsWord(text, no);
  if (strncmp(text, "partial:", 8) == 0) {
    char *end;
    *exchange = strtod(text + 8, &end);
    return end != text + 8 && *end == '\0' && *exchange >= 0 && *exchange <= 1;
  }
  *exchange = strcmp(text, "local") == 0 ? 0 : -1;
  return *exchange == 0 || !*shuffle || IsWord(text, yes);
}

static RengaErrorCode CheckLanes(RengaData data)
{
  const RengaDataLanes *lanes = &data->lanes;
  MPI_Comm comm = data->hdr.comm;
  RengaCheck(strcmp(lanes->placement, "local") != 0, comm, RENGA_ERR_SUPPORT,
             "-data_placement local is not supported: samples are read from the shared files; "
             "-data_lanes and -data_shuffle give the order that local parts would");
  RengaCheck(lanes->exchange < 0 || lanes->count > 1, comm, RENGA_ERR_OPTION,
             "-data_shuffle %s is within lanes: -data_lanes says how many, at least 2",
             lanes->shuffle);
  RengaCheck(lanes->exchange >= 0 || lanes->count == 0, comm, RENGA_ERR_OPTION,
             "-data_lanes %lld is for -data_shuffle local or partial:Q", (long long)lanes->count);
  RengaCheck(lanes->exchange < 0 || data->hiding.fraction == 0, comm, RENGA_ERR_SUPPORT,
             "-data_hide %g together with -data_lanes is not supported", data->hiding.fraction);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDataReadLaneOptions_Private(RengaData data)
{
  RengaDataLanes *lanes = &data->lanes;
  RengaCall(RengaOptionsSetFromDatabase(data->hdr.prefix, LANE_OPTIONS, lane_rows, data));
  const bool good = ParseShuffle(lanes->shuffle, &data->shuffle, &lanes->exchange);
  RengaCheck(good, data->hdr.comm, RENGA_ERR_OPTION,
             "-data_shuffle %s is none of global, local, partial:Q with Q from 0 to 1, true, false",
             lanes->shuffle);
  RengaCall(CheckLanes(data));
  return RENGA_SUCCESS;
}

/* Once the samples are counted. */
RengaErrorCode RengaDataSetUpLanes_Private(RengaData data)
{
  const int64_t samples = data->part[RENGA_DATA_TRAINING].count;
  RengaCheck(data->lanes.count <= samples, data->hdr.comm, RENGA_ERR_OPTION,
             "%lld training samples cannot be shared out among %lld lanes", (long long)samples,
             (long long)data->lanes.count);
  data->lanes.batch = data->lanes.count;
  return RENGA_SUCCESS;
}

/*@
   RengaDataSetLanes - let samples belong to lanes, and be shuffled within them

   Collective

   Input:
   . data - the data set
   . lanes - owners of the samples, at least 2; their number decides the order, that of the ranks
     does not. 0: none, the whole set is shuffled
   . exchange - the share of its samples that each lane exchanges with others before an epoch, 0 to
     1

   Options:
   . -data_lanes - the lanes
   . -data_shuffle - local (exchange 0) or partial:Q
   . -data_lanes_order - shuffled: which samples a lane has first follows from the seed; file: one
     range of the set for each lane

   Errors: RENGA_ERR_ORDER after RengaDataSetUp; RENGA_ERR_ARGUMENT for one lane, or a share that
   is not in 0 to 1.

   Notes: each batch takes as many samples of each lane (RengaDataSetBatch). Lanes have equally many
   samples, some one more. Source: Nguyen et al., IPDPS 2022.

   See also: RengaDataGetLanes(), RengaDataFindLane()
@*/
RengaErrorCode RengaDataSetLanes(RengaData data, int64_t lanes, double exchange)
{
  RengaCheckPointer(data);
  RengaCheck(lanes == 0 || (lanes > 1 && exchange >= 0 && exchange <= 1), data->hdr.comm,
             RENGA_ERR_ARGUMENT,
             "%lld lanes that exchange a share of %g: at least 2, and a share from 0 to 1",
             (long long)lanes, exchange);
  RengaCheck(data->hdr.state < RENGA_STATE_SETUP, data->hdr.comm, RENGA_ERR_ORDER,
             "RengaDataSetLanes: the data set is set up already");
  data->lanes.count = lanes;
  data->lanes.exchange = lanes > 0 ? exchange : -1;
  return RENGA_SUCCESS;
}

/*@
   RengaDataGetLanes - the lanes of a data set

   Not collective

   Input:
   . data - the data set

   Output:
   . lanes - 0: none
   . exchange - as of RengaDataSetLanes

   Errors: none beyond bad arguments.

   See also: RengaDataSetLanes()
@*/
RengaErrorCode RengaDataGetLanes(RengaData data, int64_t *lanes, double *exchange)
{
  RengaCheckPointer(data);
  RengaCheckPointer(lanes);
  RengaCheckPointer(exchange);
  *lanes = data->lanes.count;
  *exchange = data->lanes.count > 0 ? data->lanes.exchange : 0;
  return RENGA_SUCCESS;
}

/*@
   RengaDataSetBatch - the batch that lanes fill

   Collective

   Input:
   . data - set up
   . batch - samples of a step: sample i of it comes from lane i × lanes / batch

   Errors: a batch that lanes cannot fill equally.

   Notes: without lanes nothing follows from it. Before this call the batch is as large as there are
   lanes.

   See also: RengaDataSetLanes(), RengaDataGetStep()
@*/
RengaErrorCode RengaDataSetBatch(RengaData data, int64_t batch)
{
  RengaCheckPointer(data);
  RengaCheckState(data, RENGA_STATE_SETUP, "RengaDataSetUp");
  RengaCheck(batch > 0 && (data->lanes.count == 0 || batch % data->lanes.count == 0),
             data->hdr.comm, RENGA_ERR_OPTION,
             "a batch of %lld samples cannot be filled equally by %lld data lanes",
             (long long)batch, (long long)data->lanes.count);
  data->lanes.batch = batch;
  return RENGA_SUCCESS;
}

/* A place of a lane. */
typedef struct {
  int64_t lane, place;
} LanePlace;

static int64_t LaneSize(const struct _p_RengaData *data, int64_t lane)
{
  const int64_t samples = data->part[RENGA_DATA_TRAINING].count, lanes = data->lanes.count;
  return samples / lanes + (lane < samples % lanes);
}

/* Which lane fills a place of an epoch, and with which number of its own order. Whole batches have
   blocks of all lanes; what they leave, the end of each lane's order, follows lane by lane. */
static LanePlace FindLanePlace(const struct _p_RengaData *data, int64_t at)
{
  const int64_t samples = data->part[RENGA_DATA_TRAINING].count, lanes = data->lanes.count;
  const int64_t batch = data->lanes.batch, block = batch / lanes, whole = samples / batch;
  if (at < whole * batch) return (LanePlace){at % batch / block, at / batch * block + at % block};
  at -= whole * batch;
  const int64_t left = samples / lanes - whole * block, larger = samples % lanes;
  if (at < larger * (left + 1))
    return (LanePlace){at / (left + 1), whole * block + at % (left + 1)};
  at -= larger * (left + 1);
  return (LanePlace){larger + at / left, whole * block + at % left};
}

/* A number in [0, bound) for an exchange and one of its objects. */
static int64_t DrawLane(const struct _p_RengaData *data, uint32_t what, int64_t exchange,
                        int64_t object, int64_t bound)
{
  const uint32_t key[2] = {(uint32_t)data->seed ^ what, (uint32_t)(data->seed >> 32)};
  const uint32_t counter[4] = {(uint32_t)exchange, (uint32_t)((uint64_t)exchange >> 32),
                               (uint32_t)object, (uint32_t)((uint64_t)object >> 32)};
  uint32_t out[4];
  RengaPhilox(counter, key, out);
  return (int64_t)(((uint64_t)out[0] << 32 | out[1]) % (uint64_t)bound);
}

/* Where the sample was before an exchange that now is at the place. */
static LanePlace Undo(const struct _p_RengaData *data, int64_t exchange, LanePlace at)
{
  const int64_t lanes = data->lanes.count, size = LaneSize(data, at.lane);
  const int64_t window = RengaDataExchanged_Private(data);
  if (window == 0) return at;
  const int64_t begin = DrawLane(data, DRAW_OFFSET, exchange, at.lane, size);
  const int64_t w = (at.place - begin + size) % size;
  if (w >= window) return at;
  const int64_t shift = 1 + DrawLane(data, DRAW_SHIFT, exchange, w, lanes - 1);
  const int64_t from = (at.lane + lanes - shift) % lanes, from_size = LaneSize(data, from);
  return (LanePlace){from,
                     (DrawLane(data, DRAW_OFFSET, exchange, from, from_size) + w) % from_size};
}

/* The samples that each lane gives away, and gets, before an epoch. */
int64_t RengaDataExchanged_Private(const struct _p_RengaData *data)
{
  const int64_t least = data->part[RENGA_DATA_TRAINING].count / data->lanes.count;
  return (int64_t)(data->lanes.exchange * (double)least);
}

/* The sample at a place of an epoch's order; *lane: its owner in that epoch, where it is wanted. */
int64_t RengaDataOfLanes_Private(const struct _p_RengaData *data, int64_t epoch, int64_t at,
                                 int64_t *lane)
{
  const int64_t samples = data->part[RENGA_DATA_TRAINING].count, lanes = data->lanes.count;
  LanePlace found = FindLanePlace(data, at);
  const uint64_t words[2] = {data->seed, (uint64_t)found.lane};
  if (lane) *lane = found.lane;
  found.place = RengaDataShuffle(RengaHash(words, sizeof words, 0x1a9e), epoch,
                                 LaneSize(data, found.lane), found.place);
  for (int64_t exchange = epoch; exchange > 0; exchange--) found = Undo(data, exchange, found);
  const int64_t larger = samples % lanes < found.lane ? samples % lanes : found.lane;
  const int64_t first = found.lane * (samples / lanes) + larger + found.place;
  return strcmp(data->lanes.order, "file") == 0
             ? first
             : RengaDataShuffle(data->seed ^ 0x9a275, -1, samples, first);
}

/*@
   RengaDataFindLane - which sample stands at a place of an epoch, and which lane has it

   Not collective

   Input:
   . data - set up, with lanes
   . epoch - from 0
   . place - of the epoch's order, as of RengaDataGetStep

   Output:
   . lane - the owner in that epoch
   . sample - its number among the training samples

   Errors: RENGA_ERR_ORDER before RengaDataSetUp, or without lanes; RENGA_ERR_ARGUMENT for a
   place that is not in the epoch.

   Notes: any rank may ask for any place; the time that it takes grows with the number of the epoch.

   See also: RengaDataSetLanes()
@*/
RengaErrorCode RengaDataFindLane(RengaData data, int64_t epoch, int64_t place, int64_t *lane,
                                 int64_t *sample)
{
  RengaCheckPointer(data);
  RengaCheckPointer(lane);
  RengaCheckPointer(sample);
  RengaCheckState(data, RENGA_STATE_SETUP, "RengaDataSetUp");
  RengaCheck(data->lanes.count > 0, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "the data set has no lanes: call RengaDataSetLanes before its set-up");
  RengaCheck(epoch >= 0 && place >= 0 && place < data->part[RENGA_DATA_TRAINING].count,
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "place %lld of epoch %lld of %lld samples",
             (long long)place, (long long)epoch, (long long)data->part[RENGA_DATA_TRAINING].count);
  *sample = RengaDataOfLanes_Private(data, epoch, place, lane);
  return RENGA_SUCCESS;
}
