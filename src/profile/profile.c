/* The profile: life, options, and what all types share. */
#include "profileimpl.h"
#include "renga/private/cost.h"
#include "renga/private/packages.h"

static const RengaOptionRow rows[] = {
    {"profile_type", RENGA_OPTION_STRING, NULL, RENGA_OPTION_NO_OFFSET, "measured|analytic|file", 0,
     0, "where costs of operators come from; default: analytic with a machine, else measured"},
    {"profile_file", RENGA_OPTION_STRING, NULL, RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "measured: HDF5 file that keeps costs, renga/profile.h5 in the user's cache; file: the text"},
    {"profile_save", RENGA_OPTION_STRING, NULL, RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "renga profile: write costs of nodes to this text file"},
    {"profile_samples", RENGA_OPTION_STRING, NULL, RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "renga profile: sizes of micro-batches, rising: 1,2,4; default: -microbatch_size"},
    {"profile_view", RENGA_OPTION_STRING, NULL, RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "show the costs of a network: ascii, or ascii:FILE"},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static const RengaTypeRow types[] = {
    {RENGA_PROFILE_MEASURED, RengaProfileCreate_Measured, NULL},
    {RENGA_PROFILE_ANALYTIC, RengaProfileCreate_Analytic, NULL},
    {RENGA_PROFILE_FILE, RengaProfileCreate_File, NULL},
    {NULL, NULL, NULL},
};

RengaErrorCode RengaProfileRegisterPackage(void)
{
  RengaCall(RengaOptionsRegister("Profile", N_ROWS, rows));
  return RENGA_SUCCESS;
}

static RengaErrorCode ResetProfile(void *object)
{
  RengaProfile profile = object;
  if (profile->ops->destroy) RengaCall(profile->ops->destroy(profile));
  profile->ops[0] = (struct _RengaProfileOps){0};
  profile->rule = NULL;
  profile->sums_in_one = false;
  profile->host = 0;
  RengaFree(&profile->data);
  RengaProfileFreeCalls_Private(profile);
  return RENGA_SUCCESS;
}

static const RengaClass profiles = {"RengaProfile", "profile_type", types, ResetProfile,
                                    RengaProfileAdopt_Private};

/*@
   RengaProfileRegister - add a type of profile from outside

   Input:
   . rule - kept, not copied, until the program ends: its name, and the functions that know seconds

   Errors: RENGA_ERR_ARGUMENT for a name that another type has, for a rule that prices neither
   calls nor nodes, or both, and for a size that is none. What the functions return, and seconds
   that are not from 0 to 1e9 (RENGA_ERR_NUMERIC), are errors of RengaProfileGetCosts() and its
   like, on all ranks.

   Notes: before RengaInitialize, so that -profile_type may choose it. Rank 0 asks the functions,
   and all ranks have the answers. Calls are those of a training step, forward and backward; nodes
   that share a call are asked of once for a size of micro-batches. Memory and links are of a
   machine, which a planner describes where none was given. Costs are no part of results: a plan
   decides about them as all plans do.

   See also: RengaProfileSetType(), RengaProfileGetCosts(), RengaProfileGetMachine()
@*/
RengaErrorCode RengaProfileRegister(const RengaProfileRule *rule)
{
  RengaCheckPointer(rule);
  const char *name = rule->name ? rule->name : "without a name";
  RengaCheck(rule->size == sizeof *rule, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the profile %s: its rule says that it has %zu bytes, and this library's has %zu: set "
             "size to sizeof(RengaProfileRule)",
             name, rule->size, sizeof *rule);
  RengaCheck(!rule->price != !rule->costs, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the profile %s needs a function that prices calls, or one that prices nodes, and not "
             "both",
             name);
  RengaCall(RengaClassRegisterType_Private(&profiles, rule->name, rule));
  return RENGA_SUCCESS;
}

static RengaErrorCode ForgetGraph(RengaProfile profile)
{
  RengaProfileFreeCalls_Private(profile);
  RengaFree(&profile->part);
  RengaFree(&profile->warm);
  RengaFree(&profile->sum);
  profile->largest = 0;
  if (profile->whole) RengaCall(RengaGraphDestroy(&profile->whole));
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyProfile(void *object)
{
  RengaProfile profile = object;
  RengaCall(ResetProfile(profile));
  RengaCall(ForgetGraph(profile));
  if (profile->settings) RengaCall(RengaSettingsDestroy(&profile->settings));
  RengaCall(RengaHeaderReplace(&profile->device, NULL));
  RengaCall(RengaHeaderReplace(&profile->machine, NULL));
  RengaCall(RengaHeaderReplace(&profile->graph, NULL));
  return RENGA_SUCCESS;
}

/*@
   RengaProfileCreate - a profile without a network

   Collective

   Input:
   . comm - the processes that plan; with type measured they share the work

   Output:
   . profile - the new profile; RengaProfileDestroy() frees it

   See also: RengaProfileSetGraph(), RengaProfileSetType(), RengaProfileDestroy()
@*/
RengaErrorCode RengaProfileCreate(RengaComm comm, RengaProfile *profile)
{
  RengaCheckPointers(comm, profile);
  RengaProfile made;
  RengaCall(RengaHeaderCreate(comm, "RengaProfile", sizeof *made, DestroyProfile, &made));
  const RengaErrorCode code = RengaProfileSetType(made, RENGA_PROFILE_MEASURED);
  if (code) RengaHeaderDestroy(&made);
  RengaCall(code);
  *profile = made;
  return RENGA_SUCCESS;
}

/*@
   RengaProfileSetGraph - say which network costs are wanted of

   Collective

   Input:
   . graph - the network, set up; the profile keeps a reference

   See also: RengaProfileGetGraph(), RengaProfileGetCosts()
@*/
RengaErrorCode RengaProfileSetGraph(RengaProfile profile, RengaGraph graph)
{
  RengaCheckPointers(profile, graph);
  RengaCall(ForgetGraph(profile));
  if (profile->ops->forget) RengaCall(profile->ops->forget(profile));
  RengaCall(RengaHeaderReplace(&profile->graph, graph));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaProfileGetGraph(RengaProfile profile, RengaGraph *graph)
{
  RengaCheckPointers(profile, graph);
  *graph = profile->graph;
  return RENGA_SUCCESS;
}

/*@
   RengaProfileSetMachine - say for which machine

   Collective

   Input:
   . machine - described; the profile keeps a reference; NULL: none
@*/
RengaErrorCode RengaProfileSetMachine(RengaProfile profile, RengaMachine machine)
{
  RengaCheckPointer(profile);
  RengaProfileFreeCalls_Private(profile);
  RengaCall(RengaHeaderReplace(&profile->machine, machine));
  return RENGA_SUCCESS;
}

/*@
   RengaProfileSetDevice - say on which device to measure

   Collective

   Input:
   . device - set up; the profile keeps a reference; NULL: none

   Errors: RENGA_ERR_ORDER after costs were asked for.
@*/
RengaErrorCode RengaProfileSetDevice(RengaProfile profile, RengaDevice device)
{
  RengaCheckPointer(profile);
  RengaCheck(!profile->n_calls, profile->hdr.comm, RENGA_ERR_ORDER,
             "the device is set after costs were asked for");
  RengaCall(RengaHeaderReplace(&profile->device, device));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaProfileGetDevice(RengaProfile profile, RengaDevice *device)
{
  RengaCheckPointers(profile, device);
  *device = profile->device;
  return RENGA_SUCCESS;
}

/*@
   RengaProfileSetSettings - say what the run goes by whose costs are wanted

   Collective

   Input:
   . profile - the profile, which keeps a reference
   . settings - the settings whose optimizer updates the parameters; type measured measures on a
     device like theirs, where none was set

   Notes: without them RengaProfileSetFromOptions() makes some from the options.
@*/
RengaErrorCode RengaProfileSetSettings(RengaProfile profile, RengaSettings settings)
{
  RengaCheckPointers(profile, settings);
  RengaCall(RengaHeaderReference(settings));
  if (profile->settings) RengaCall(RengaSettingsDestroy(&profile->settings));
  profile->settings = settings;
  return RENGA_SUCCESS;
}

/*@
   RengaProfileGetSettings - what the run goes by whose costs are wanted, lent

   Output:
   . settings - NULL: none were set, nor made from options
@*/
RengaErrorCode RengaProfileGetSettings(RengaProfile profile, RengaSettings *settings)
{
  RengaCheckPointers(profile, settings);
  *settings = profile->settings;
  return RENGA_SUCCESS;
}

/*@
   RengaProfileSetType - choose where costs come from

   Collective

   Input:
   . type - measured, analytic, file, or one of RengaProfileRegister()

   Options:
   . -profile_type - the same

   Errors: RENGA_ERR_SUPPORT for a type that there is not.

   See also: RengaProfileGetType(), RengaProfileRegister()
@*/
RengaErrorCode RengaProfileSetType(RengaProfile profile, const char *type)
{
  RengaCall(RengaClassSetType_Private(&profiles, profile, type, __func__));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaProfileGetType(RengaProfile profile, const char **type)
{
  RengaCheckPointers(profile, type);
  *type = profile->hdr.type_name;
  return RENGA_SUCCESS;
}

/*@
   RengaProfileSetFromOptions - take the options

   Collective

   Input:
   . profile - the profile; set its machine before, if it has one

   Options:
   . -profile_type - where costs come from; without it from the machine where one is set
   . -profile_file - measured: the HDF5 file that keeps them; file: the text that has them
   . those of RengaSettingsSetFromOptions(), where no settings were set

   Errors: RENGA_ERR_OPTION for a bad value; RENGA_ERR_SUPPORT for a type that there is not.

   See also: RengaProfileSetType()
@*/
RengaErrorCode RengaProfileSetFromOptions(RengaProfile profile)
{
  const char *type;
  RengaSettings settings;
  bool given = false;
  RengaCheckPointer(profile);
  if (!profile->settings) {
    RengaCall(RengaProfileNeedSettings_Private(profile, &settings));
    RengaCall(RengaSettingsSetFromOptions(settings));
  }
  RengaCall(RengaOptionsGetString("profile_type", &type, &given));
  if (given || profile->machine)
    RengaCall(RengaProfileSetType(profile, given ? type : RENGA_PROFILE_ANALYTIC));
  if (profile->ops->setfromoptions) RengaCall(profile->ops->setfromoptions(profile));
  return RENGA_SUCCESS;
}

/*@
   RengaProfileGetCosts - seconds of each node on one micro-batch

   Collective

   Input:
   . profile - the profile, with a network
   . samples - samples of a micro-batch, at least 1

   Output:
   . costs - one for each node of the network: forward, and all gradients that training needs of it

   Errors: RENGA_ERR_ORDER without a network or, for type analytic, a machine; RENGA_ERR_ARGUMENT
   for a micro-batch without samples; what the type says: of measured, that of the device and of
   the file of costs, of analytic, RENGA_ERR_SUPPORT for a type of numbers whose rate the machine
   does not say.

   Notes: nodes that are prepared, views and what depends on constants only cost nothing. Backward
   costs follow from differentiating the network once; a call that many nodes share is priced once.

   See also: RengaProfileGetUpdateSeconds(), RengaProfileSave()
@*/
RengaErrorCode RengaProfileGetCosts(RengaProfile profile, int64_t samples, RengaProfileCost costs[])
{
  RengaCheckPointers(profile, costs);
  RengaCheck(profile->graph, profile->hdr.comm, RENGA_ERR_ORDER,
             "the profile has no network: call RengaProfileSetGraph first");
  RengaCheck(samples > 0, profile->hdr.comm, RENGA_ERR_ARGUMENT, "micro-batches of %lld samples",
             (long long)samples);
  RengaCall(profile->ops->costs(profile, samples, costs));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSampleCount(RengaProfile profile, int64_t parameters)
{
  RengaCheck(parameters >= 0, profile->hdr.comm, RENGA_ERR_ARGUMENT, "%lld parameters",
             (long long)parameters);
  return RENGA_SUCCESS;
}

/*@
   RengaProfileGetUpdateSeconds - seconds to update parameters once

   Collective

   Input:
   . parameters - elements, at least 0

   Output:
   . seconds - seconds, at least 0, with the optimizer of the settings

   Errors: RENGA_ERR_ARGUMENT for a negative number; what the type says.

   See also: RengaProfileGetCosts(), RengaProfileGetAccumulateSeconds()
@*/
RengaErrorCode RengaProfileGetUpdateSeconds(RengaProfile profile, int64_t parameters,
                                            double *seconds)
{
  RengaCheckPointers(profile, seconds);
  RengaCall(CheckSampleCount(profile, parameters));
  RengaCall(profile->ops->update(profile, parameters, seconds));
  return RENGA_SUCCESS;
}

/*@
   RengaProfileGetAccumulateSeconds - seconds to add one micro-batch's gradient to another

   Collective

   Input:
   . parameters - elements of the gradient, at least 0

   Output:
   . seconds - seconds of y += x, at least 0

   Errors: RENGA_ERR_ARGUMENT for a negative number; what the type says.

   See also: RengaProfileGetCosts(), RengaProfileGetUpdateSeconds()
@*/
RengaErrorCode RengaProfileGetAccumulateSeconds(RengaProfile profile, int64_t parameters,
                                                double *seconds)
{
  RengaCheckPointers(profile, seconds);
  RengaCall(CheckSampleCount(profile, parameters));
  RengaCall(profile->ops->accumulate(profile, parameters, seconds));
  return RENGA_SUCCESS;
}

/* Seconds that the caller measured, the same in the next run. Collective. Types other than measured
   keep nothing. seconds: seconds that rank 0 has measured, at least 0. seconds: the seconds on all
   ranks: those that type measured has in its file under this name, else those of rank 0, which are
   put there. */
RengaErrorCode RengaProfileKeepSeconds(RengaProfile profile, const char *name, double *seconds)
{
  RengaCheckPointers(profile, name, seconds);
  RengaCall(RengaCommBroadcast(profile->hdr.owner, seconds, sizeof *seconds, 0, name));
  if (profile->ops->keep) RengaCall(profile->ops->keep(profile, name, seconds));
  return RENGA_SUCCESS;
}

/*@
   RengaProfileGetMachine - the machine whose links and memory go with the costs

   Collective

   Output:
   . machine - the machine that was set, or one that was measured; lent by the profile

   Errors: what measuring the links says, where type measured does it.
@*/
RengaErrorCode RengaProfileGetMachine(RengaProfile profile, RengaMachine *machine)
{
  RengaCheckPointers(profile, machine);
  RengaCall(profile->ops->machine(profile, machine));
  return RENGA_SUCCESS;
}

/*@
   RengaProfileDestroy - free a profile

   Collective

   Input:
   . profile - set to NULL
@*/
RengaErrorCode RengaProfileDestroy(RengaProfile *profile)
{
  RengaCheckPointer(profile);
  RengaCall(RengaHeaderDestroy(profile));
  return RENGA_SUCCESS;
}
