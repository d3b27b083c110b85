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
    {"pipeline_reduction", RENGA_OPTION_ENUM, "ordered", AT(reduction),
     RENGA_REDUCTION_WORDS(RENGA_CHOICE, RENGA_OR_CHOICE), 0, 0,
     "ordered: sums of gradients have the same bits on any layout; unordered: less memory"},
    {"pipeline_buckets", RENGA_OPTION_INT, "0", AT(buckets), NULL, 0, RENGA_BUCKETS_MOST,
     "gradient buckets of a stage; 0: buckets of 4 MiB, at most 16"},
    {"pipeline_bucket_size", RENGA_OPTION_BYTES, "0", AT(bucket_size), NULL, 0, 1e18,
     "bytes of a bucket of gradients; 0: -pipeline_buckets decides"},
    {"pipeline_overlap", RENGA_OPTION_BOOL, "true", AT(overlap), NULL, 0, 0,
     "overlap reduce-scatters and all-gathers over replicas with computing"},
    {"transport_type", RENGA_OPTION_STRING, RENGA_TRANSPORT_AUTO, AT(transport),
     RENGA_TRANSPORT_CHOICES, 0, 0, "how tensors travel between ranks; auto: the first that works"},
};
static const RengaOptionRow axis_rows[] = {
    {"layout_chunks", RENGA_OPTION_INT, "0", AT(chunks), NULL, 0, RENGA_CHUNKS_MOST,
     "virtual pipeline stages per rank, of -partition_type even, tree, manual; 0: one"},
    {"layout_zero", RENGA_OPTION_ENUM, "auto", AT(shard), RENGA_ZERO_CHOICES, RENGA_SHARD_AUTO, 0,
     "ZeRO stage: what is sharded over replicas; auto: where memory is short"},
    {"layout_zero_groups", RENGA_OPTION_INT, "1", AT(shard_groups), NULL, 1, 1e6,
     "groups of replicas that add up a batch's gradients before they exchange them"},
    {"layout_recompute", RENGA_OPTION_ENUM, "auto", AT(recompute), RENGA_RECOMPUTE_CHOICES, 0, 0,
     "recompute activations before backward; auto: where memory is short"},
    {"layout_offload", RENGA_OPTION_ENUM, "none", AT(offload),
     RENGA_OFFLOAD_WORDS(RENGA_CHOICE, RENGA_OR_CHOICE), 0, 0,
     "what a GPU offloads to the host: optimizer moments, saved activations"},
};
/* Of src/sys, which registers it. */
static const RengaOptionRow timeout_row[] = {
    {"timeout", RENGA_OPTION_REAL, "300", AT(timeout), NULL, 0, 1e9, ""}};
static const struct {
  const char *section;
  int count;
  const RengaOptionRow *rows;
} tables[] = {
    {"Pipeline", sizeof rows / sizeof rows[0], rows},
    {"Layout", sizeof axis_rows / sizeof axis_rows[0], axis_rows},
    {NULL, 1, timeout_row},
};
enum { N_TABLES = sizeof tables / sizeof tables[0] };

RengaErrorCode RengaSettingsRegisterPackage(void)
{
  for (int t = 0; t < N_TABLES; t++)
    if (tables[t].section)
      RengaCall(RengaOptionsRegister(tables[t].section, tables[t].count, tables[t].rows));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSettingsSetDefaults_Private(RengaSettings settings)
{
  for (int t = 0; t < N_TABLES; t++)
    RengaCall(RengaOptionsSetDefaults(tables[t].count, tables[t].rows, settings));
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
  for (int t = 0; t < N_TABLES; t++)
    for (int r = 0; r < tables[t].count; r++)
      if (DecidesPlan(&tables[t].rows[r]))
        RengaSettingAddRow_Private(list, &tables[t].rows[r], settings);
  RengaSettingAddText_Private(list, "schedule (-schedule_type)", settings->schedule);
  RengaSettingAdd_Private(list, "extra warm-up micro-batches (-schedule_eager)", &settings->eager,
                          sizeof settings->eager);
  RengaSettingAddInt64_Private(list, "memory bound", settings->memory_bound);
  RengaSettingAddText_Private(list, "device type", settings->device->hdr.type_name);
  RengaSettingAddInt64_Private(list, "-device_threads", settings->device->options.threads == 0);
  RengaSettingAddText_Private(list, "-device_isa", settings->device->options.isa);
  RengaOptimizerListSettings_Private(settings->optimizer, list);
}

RengaErrorCode RengaSettingsReadRows_Private(RengaSettings settings)
{
  for (int t = 0; t < N_TABLES; t++)
    RengaCall(RengaOptionsSetFromDatabase(settings->hdr.prefix, tables[t].count, tables[t].rows,
                                          settings));
  return RENGA_SUCCESS;
}
