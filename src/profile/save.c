/* Costs of nodes to a text file, which type file reads. */
#include "names.h"
#include "renga/private/number.h"
#include "renga/private/output.h"
#include "renga/private/path.h"

static void WriteSize(FILE *file, const ProfileNames *names, int64_t samples,
                      const RengaProfileCost costs[])
{
  fprintf(file, "samples %lld\n", (long long)samples);
  for (int n = 0; n < names->count; n++)
    RengaFilePrint(file, "%.9g %.9g %s\n", costs[n].forward, costs[n].backward, names->of_node[n]);
}

/* costs: [count][nodes] */
static RengaErrorCode WriteCosts(const char *name, const ProfileNames *names,
                                 const double vectors[2], int count, const int64_t samples[],
                                 const RengaProfileCost costs[])
{
  RengaOutput output;
  RengaCall(RengaPathCheckOutput_Private(name));
  RengaCall(RengaOutputOpen_Private(name, &output));
  FILE *const file = output.stream;
  fprintf(file, "renga-profile 1\n# seconds forward, seconds backward, node; for a parameter:\n");
  RengaFilePrint(file, "update %.9g\naccumulate %.9g\n", vectors[0], vectors[1]);
  for (int s = 0; s < count; s++)
    WriteSize(file, names, samples[s], costs + (int64_t)s * names->count);
  fprintf(file, "end\n");
  RengaCall(RengaOutputClose_Private(&output, RENGA_SUCCESS));
  return RENGA_SUCCESS;
}

static RengaErrorCode AskCosts(RengaProfile profile, int count, const int64_t samples[],
                               RengaProfileCost costs[], double vectors[2])
{
  const int nodes = RengaGraphGetNodeCount(profile->graph);
  RengaGraphTotals totals;
  for (int s = 0; s < count; s++)
    RengaCall(RengaProfileGetCosts(profile, samples[s], costs + (int64_t)s * nodes));
  RengaCall(RengaGraphGetTotals(profile->graph, &totals));
  const int64_t parameters = totals.parameters > 0 ? totals.parameters : 1;
  RengaCall(RengaProfileGetUpdateSeconds(profile, parameters, &vectors[0]));
  RengaCall(RengaProfileGetAccumulateSeconds(profile, parameters, &vectors[1]));
  for (int v = 0; v < 2; v++) vectors[v] /= (double)parameters;
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSampleSizes(RengaProfile profile, int count, const int64_t samples[])
{
  RengaCheck(profile->graph, profile->hdr.comm, RENGA_ERR_ORDER,
             "the profile has no network: call RengaProfileSetGraph first");
  RengaCheck(count > 0, profile->hdr.comm, RENGA_ERR_ARGUMENT, "costs for no size are to be saved");
  for (int s = 1; s < count; s++)
    RengaCheck(samples[s - 1] < samples[s], profile->hdr.comm, RENGA_ERR_ARGUMENT,
               "sizes of micro-batches must rise, but %lld comes before %lld",
               (long long)samples[s - 1], (long long)samples[s]);
  return RENGA_SUCCESS;
}

/*@
   RengaProfileSave - write costs to a text file that type file reads

   Collective

   Input:
   . profile - the profile, with a network
   . file - its name; rank 0 writes
   . count - the number of sizes, at least 1
   . samples - [count], sizes of micro-batches, each at least 1, rising

   Options:
   . -profile_save - for renga profile: the file

   Errors: RENGA_ERR_ORDER without a network; RENGA_ERR_ARGUMENT for sizes that do not rise;
   RENGA_ERR_FILE_WRITE where the file cannot be written. All ranks have the error.

   Notes: the lines are "renga-profile 1"; "update S" and "accumulate S", seconds of a parameter;
   for each size "samples N" and then for each node "FORWARD BACKWARD NAME"; and "end". NAME is the
   node's, or that of the first value it makes where several nodes have the same.

   See also: RengaProfileGetCosts(), RengaProfileSetType()
@*/
RengaErrorCode RengaProfileSave(RengaProfile profile, const char *file, int count,
                                const int64_t samples[])
{
  ProfileNames names = {0};
  RengaProfileCost *costs = NULL;
  double vectors[2];
  RengaCheckPointers(profile, file, samples);
  RengaCall(CheckSampleSizes(profile, count, samples));
  RengaCall(RengaMalloc((int64_t)count * RengaGraphGetNodeCount(profile->graph) + 1, &costs));
  RengaErrorCode code = AskCosts(profile, count, samples, costs, vectors);
  if (code == RENGA_SUCCESS) code = RengaProfileNamesCreate_Private(profile->graph, &names);
  if (code == RENGA_SUCCESS && RengaCommGetRank(profile->hdr.owner) == 0)
    code = WriteCosts(file, &names, vectors, count, samples, costs);
  RengaProfileNamesFree_Private(&names);
  RengaFree(&costs);
  RengaCall(RengaErrorAgree(profile->hdr.comm, code));
  return RENGA_SUCCESS;
}
