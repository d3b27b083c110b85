/* The options of the settings that one row each reads. */
#include "renga/private/choice.h"
#include "renga/private/device.h"
#include "renga/private/optimizer.h"
#include "renga/private/packages.h"
#include "renga/private/settings.h"
#include "rengacomm.h"

#define AT(member) offsetof(struct _p_RengaSettings, member)
static const RengaOptionRow rows[] = {
    {"seed", RENGA_OPTION_INT64, "0", AT(seed), NULL, 0, 0,
     "seed of initial values, dropout and shuffles"},
    {"pipeline_timeout", RENGA_OPTION_REAL, "300", AT(timeout), NULL, 0, 1e9,
     "another name of -timeout"},
    {"pipeline_reduction", RENGA_OPTION_ENUM, "ordered", AT(reduction),
     RENGA_REDUCTION_WORDS(RENGA_CHOICE, RENGA_OR_CHOICE), 0, 0,
     "ordered: sums of gradients have the same bits on any layout; unordered: less memory"},
    {"pipeline_buckets", RENGA_OPTION_INT, "0", AT(buckets), NULL, 0, RENGA_BUCKETS_MOST,
     "gradient buckets of a stage; 0: buckets of 4 MiB, at most 16"},
    {"pipeline_bucket_size", RENGA_OPTION_BYTES, "0", AT(bucket_size), NULL, 0, 1e18,
     "bytes of a bucket of gradients; 0: -pipeline_buckets decides"},
    {"pipeline_overlap", RENGA_OPTION_BOOL, "true", AT(overlap), NULL, 0, 0,
     "overlap reduce-scatters and all-gathers over replicas with computing"},
    {"pipeline_chunks", RENGA_OPTION_INT, "0", AT(chunks), NULL, 0, RENGA_CHUNKS_MOST,
     "virtual pipeline stages per rank, of types even, tree, manual; 0: one"},
    {"pipeline_shard", RENGA_OPTION_ENUM, "auto", AT(shard),
     RENGA_SHARD_WORDS(RENGA_CHOICE, RENGA_OR_CHOICE), RENGA_SHARD_AUTO, 0,
     "sharding over replicas (ZeRO 1, 2, 3): optimizer, gradients, parameters"},
    {"pipeline_recompute", RENGA_OPTION_ENUM, "auto", AT(recompute),
     RENGA_RECOMPUTE_WORDS(RENGA_CHOICE, RENGA_OR_CHOICE), 0, 0,
     "recompute activations before backward; auto: where memory is short"},
    {"pipeline_offload", RENGA_OPTION_ENUM, "none", AT(offload),
     RENGA_OFFLOAD_WORDS(RENGA_CHOICE, RENGA_OR_CHOICE), 0, 0,
     "what a GPU offloads to the host: optimizer moments, saved activations"},
    {"comm_transport", RENGA_OPTION_STRING, RENGA_TRANSPORT_AUTO, AT(transport),
     RENGA_TRANSPORT_CHOICES, 0, 0, "how tensors travel between ranks; auto: the first that works"},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

RengaErrorCode RengaSettingsRegisterPackage(void)
{
  RengaCall(RengaOptionsRegister("Pipeline", N_ROWS, rows));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSettingsSetDefaults_Private(RengaSettings settings)
{
  RengaCall(RengaOptionsSetDefaults(N_ROWS, rows, settings));
  settings->timeout = -1;
  return RENGA_SUCCESS;
}

/* Neither the seed nor a time limit changes a plan. */
static bool DecidesPlan(const RengaOptionRow *row)
{
  return row->offset != AT(seed) && row->offset != AT(timeout);
}

void RengaSettingsList_Private(RengaSettings settings, RengaSettingList *list)
{
  for (int r = 0; r < N_ROWS; r++)
    if (DecidesPlan(&rows[r])) RengaSettingAddRow_Private(list, &rows[r], settings);
  RengaSettingAddText_Private(list, "schedule (-pipeline_schedule)", settings->schedule);
  RengaSettingAdd_Private(list, "extra warm-up micro-batches (-pipeline_eager)", &settings->eager,
                          sizeof settings->eager);
  RengaSettingAddInt64_Private(list, "memory bound", settings->memory_bound);
  RengaSettingAddText_Private(list, "device type", settings->device->hdr.type_name);
  RengaSettingAddInt64_Private(list, "-device_threads", settings->device->options.threads == 0);
  RengaSettingAddText_Private(list, "-device_isa", settings->device->options.isa);
  RengaOptimizerListSettings_Private(settings->optimizer, list);
}

RengaErrorCode RengaSettingsReadRows_Private(RengaSettings settings)
{
  RengaCall(RengaOptionsSetFromDatabase(settings->hdr.prefix, N_ROWS, rows, settings));
  return RENGA_SUCCESS;
}
