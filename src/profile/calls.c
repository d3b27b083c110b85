/* Distinct calls: a network repeats its layers, so that few of its nodes need a price of their own.
   What differs from node to node without a change of work, the key of random numbers, is left out
   of the comparison. */
#include "profileimpl.h"
#include "renga/private/lane.h"
#include "renga/private/number.h"
#include <string.h>

enum { FIRST_SLOTS = 1024, LANES_MOST = 64 };

static bool Counts(const RengaAttribute *row)
{
  return strcmp(row->name, "key") != 0;
}

static uint64_t HashCall(const RengaGraphNode *node, const RengaTensorSpec spec[], uint32_t warm)
{
  const int64_t head[3] = {node->n_in, node->n_out, warm};
  uint64_t hash = RengaHash(node->op->name, strlen(node->op->name), 0);
  hash = RengaAttributesHash(&node->attributes, "key", RengaHash(head, sizeof head, hash));
  return RengaTensorSpecHash(node->n_in + node->n_out, spec, hash);
}

static bool SameAttribute(const RengaAttribute *a, const RengaAttribute *b)
{
  if (!b || a->kind != b->kind || a->count != b->count) return false;
  if (a->ints && memcmp(a->ints, b->ints, (size_t)a->count * sizeof *a->ints)) return false;
  if (a->reals && memcmp(a->reals, b->reals, (size_t)a->count * sizeof *a->reals)) return false;
  return !a->string || strcmp(a->string, b->string) == 0;
}

static bool SameAttributes(const RengaAttributes *a, const RengaAttributes *b)
{
  if (a->count != b->count) return false;
  for (int i = 0; i < a->count; i++)
    if (Counts(&a->row[i]) && !SameAttribute(&a->row[i], RengaAttributesFind(b, a->row[i].name)))
      return false;
  return true;
}

static bool IsSameCall(const ProfileCall *call, const RengaGraphNode *node,
                       const RengaTensorSpec spec[], uint32_t warm)
{
  if (call->node->op != node->op || call->warm != warm || call->node->n_in != node->n_in ||
      call->node->n_out != node->n_out)
    return false;
  for (int i = 0; i < node->n_in + node->n_out; i++)
    if (!RengaTensorSpecEqual(&call->spec[i], &spec[i])) return false;
  return SameAttributes(&call->node->attributes, &node->attributes);
}

/* The slot of the call, or the free one where it belongs. */
static int FindCallSlot(RengaProfile profile, const RengaGraphNode *node,
                        const RengaTensorSpec spec[], uint32_t warm, uint64_t hash)
{
  int at = (int)(hash % (uint64_t)profile->n_slots);
  for (; profile->slot[at]; at = (at + 1) % profile->n_slots) {
    const ProfileCall *call = &profile->call[profile->slot[at] - 1];
    if (call->hash == hash && IsSameCall(call, node, spec, warm)) break;
  }
  return at;
}

/* Twice the slots, at most half of them taken. */
static RengaErrorCode GrowCallSlots(RengaProfile profile)
{
  const int count = profile->n_slots ? 2 * profile->n_slots : FIRST_SLOTS;
  RengaFree(&profile->slot);
  RengaCall(RengaMalloc(count, &profile->slot));
  profile->n_slots = count;
  for (int c = 0; c < profile->n_calls; c++) {
    int at = (int)(profile->call[c].hash % (uint64_t)count);
    while (profile->slot[at]) at = (at + 1) % count;
    profile->slot[at] = c + 1;
  }
  RengaCall(RengaRealloc(count / 2, &profile->call));
  return RENGA_SUCCESS;
}

static RengaErrorCode FindCall(RengaProfile profile, int n, int64_t samples,
                               const RengaTensorSpec spec[], int *number)
{
  const RengaGraphNode *node = RengaGraphGetNode(profile->whole, n);
  const uint32_t warm = profile->warm[n];
  if (2 * profile->n_calls >= profile->n_slots) RengaCall(GrowCallSlots(profile));
  const uint64_t hash = HashCall(node, spec, warm);
  const int at = FindCallSlot(profile, node, spec, warm, hash), count = node->n_in + node->n_out;
  if (profile->slot[at] == 0) {
    ProfileCall call = {
        .node = node, .warm = warm, .samples = samples, .hash = hash, .seconds = -1};
    RengaCall(RengaMalloc(count + 1, &call.spec));
    memcpy(call.spec, spec, (size_t)count * sizeof *spec);
    profile->call[profile->n_calls++] = call;
    profile->slot[at] = profile->n_calls;
  }
  *number = profile->slot[at] - 1;
  return RENGA_SUCCESS;
}

static RengaErrorCode FindCallOfNode(RengaProfile profile, int n, int64_t samples,
                                     RengaTensorSpec spec[], int *number)
{
  const RengaGraphNode *node = RengaGraphGetNode(profile->whole, n);
  *number = -1;
  if (profile->part[n] == PROFILE_PART_NONE || (node->op->flags & RENGA_OP_RESHAPE) ||
      (profile->sums_in_one && profile->sum[n] != PROFILE_SUM_NONE))
    return RENGA_SUCCESS;
  for (int i = 0; i < node->n_in + node->n_out; i++) {
    const RengaValue value = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
    if (value == RENGA_VALUE_NONE)
      spec[i].ndim = -1;
    else
      spec[i] = RengaGraphStoredAt(RengaGraphGetValue(profile->whole, value), samples);
  }
  RengaCall(FindCall(profile, n, samples, spec, number));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaProfileFindCalls_Private(RengaProfile profile, int64_t samples, int number[])
{
  RengaTensorSpec *spec;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaMalloc(profile->largest + 1, &spec));
  for (int n = 0; n < RengaGraphGetNodeCount(profile->whole) && code == RENGA_SUCCESS; n++)
    code = FindCallOfNode(profile, n, samples, spec, &number[n]);
  RengaFree(&spec);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaProfileFreeCalls_Private(RengaProfile profile)
{
  for (int c = 0; c < profile->n_calls; c++) RengaFree(&profile->call[c].spec);
  RengaFree(&profile->call);
  RengaFree(&profile->slot);
  RengaFree(&profile->number);
  profile->n_calls = profile->n_slots = 0;
}

RengaOpCall RengaProfileOpCall_Private(const ProfileCall *call)
{
  return (RengaOpCall){.op = call->node->op,
                       .attributes = &call->node->attributes,
                       .n_in = call->node->n_in,
                       .n_out = call->node->n_out,
                       .in = call->spec,
                       .out = call->spec + call->node->n_in};
}

static size_t AppendCall(size_t used, size_t size, char text[], const char *part)
{
  if (used < size) snprintf(text + used, size - used, "%s", part);
  return used + strlen(part);
}

static size_t AppendAttribute(size_t used, size_t size, char text[], const RengaAttribute *row)
{
  char number[40];
  used = AppendCall(used, size, text, " ");
  used = AppendCall(used, size, text, row->name);
  used = AppendCall(used, size, text, "=");
  if (row->string) used = AppendCall(used, size, text, row->string);
  for (int i = 0; i < row->count && (row->ints || row->reals); i++) {
    if (row->ints)
      snprintf(number, sizeof number, "%s%lld", i ? "," : "", (long long)row->ints[i]);
    else
      RengaTextFormat(number, sizeof number, "%s%.17g", i ? "," : "", row->reals[i]);
    used = AppendCall(used, size, text, number);
  }
  return used;
}

/* For people; the number at the end tells calls apart. */
void RengaProfileCallText_Private(const ProfileCall *call, size_t size, char text[])
{
  char part[160];
  const RengaGraphNode *node = call->node;
  size_t used = AppendCall(0, size, text, node->op->name);
  for (int i = 0; i < node->n_in + node->n_out; i++) {
    RengaTensorSpecFormat(&call->spec[i], sizeof part, part);
    used = AppendCall(used, size, text, i == node->n_in ? " -> " : " ");
    used = AppendCall(used, size, text, call->spec[i].ndim < 0 ? "-" : part);
    if (i < 32 && call->warm >> i & 1) used = AppendCall(used, size, text, "*");
  }
  for (int i = 0; i < node->attributes.count; i++)
    if (Counts(&node->attributes.row[i]))
      used = AppendAttribute(used, size, text, &node->attributes.row[i]);
  const int length = snprintf(part, sizeof part, " #%016llx", (unsigned long long)call->hash);
  if (used + (size_t)length >= size) used = size - (size_t)length - 1;
  AppendCall(used, size, text, part);
}

/* Negative: the node is no call. */
static double SecondsOfNode(RengaProfile profile, int n, int number)
{
  if (number >= 0) return profile->call[number].seconds;
  const bool sum = profile->sums_in_one && profile->sum[n] == PROFILE_SUM_WHOLE;
  return sum && profile->part[n] != PROFILE_PART_NONE ? profile->sum_seconds : -1;
}

/* A host issues products, with the small kernels between them, one after the other: a product and
   what follows it up to the next one take no less than it does. [lanes]: what is left of that. */
static double WaitForHost(RengaProfile profile, int lanes, const RengaGraphNode *node,
                          double seconds, double left[])
{
  const int lane = RengaLaneOfKind(node->lane, RENGA_LANES_OF_HEADS); /* from 1 on */
  const int first = lane ? (lane - 1) % lanes : 0, last = lane ? first : lanes - 1;
  const bool issued = RengaProfileIsMatrix_Private(&(RengaOpCall){.op = node->op});
  double least = profile->host;
  for (int l = first; l <= last; l++) {
    if (issued) left[l] = profile->host;
    if (left[l] < least) least = left[l];
    left[l] = left[l] > seconds ? left[l] - seconds : 0;
  }
  if (issued) return seconds > profile->host ? seconds : profile->host;
  return seconds > least ? seconds - least : 0;
}

static RengaErrorCode SumCalls(RengaProfile profile, const int number[], RengaProfileCost costs[])
{
  const int count = RengaGraphGetNodeCount(profile->graph);
  double left[LANES_MOST] = {0};
  int lanes = 1;
  RengaCall(RengaGraphGetLanes(profile->graph, &lanes, NULL));
  if (lanes > LANES_MOST) lanes = LANES_MOST;
  memset(costs, 0, (size_t)count * sizeof *costs);
  for (int n = 0; n < RengaGraphGetNodeCount(profile->whole); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(profile->whole, n);
    double seconds = SecondsOfNode(profile, n, number[n]);
    if (seconds < 0) continue;
    if (profile->host > 0) seconds = WaitForHost(profile, lanes, node, seconds, left);
    RengaCheck(node->id >= 0 && node->id < count, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
               "node %s has id %d in a network of %d nodes", node->name, node->id, count);
    if (profile->part[n] == PROFILE_PART_FORWARD)
      costs[node->id].forward += seconds;
    else
      costs[node->id].backward += seconds;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ListCalls(RengaProfile profile, int64_t samples)
{
  RengaCall(RengaProfileDifferentiate_Private(profile));
  if (!profile->number)
    RengaCall(RengaMalloc(RengaGraphGetNodeCount(profile->whole) + 1, &profile->number));
  RengaCall(RengaProfileFindCalls_Private(profile, samples, profile->number));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaProfileSumCalls_Private(RengaProfile profile, int64_t samples,
                                            RengaProfileCost costs[])
{
  const int first = profile->n_calls;
  RengaErrorCode code = ListCalls(profile, samples);
  if (profile->ops->together) code = RengaErrorAgree(profile->hdr.comm, code);
  if (!code) code = profile->ops->price(profile, first);
  if (code && profile->n_calls > first) /* or the next question would find no price */
    RengaProfileFreeCalls_Private(profile);
  RengaCall(code);
  RengaCall(SumCalls(profile, profile->number, costs));
  return RENGA_SUCCESS;
}
