/* Other names of options: those that programs of the field have for the axes of a layout, and those
   of the version before, which are read for one version more. */
#include "sys.h"
#include "renga/private/choice.h"
#include <string.h>

static const RengaOptionName names[] = {
    {"pipeline_parallel", "layout_pipeline", false},
    {"data_parallel", "layout_data", false},
    {"tensor_parallel", "layout_tensor", false},
    {"context_parallel", "layout_context", false},
    {"expert_parallel", "layout_expert", false},
    {"zero_stage", "layout_zero", false},
    {"recompute", "layout_recompute", false},
    {"partition_stages", "layout_pipeline", true},
    {"partition_replicas", "layout_data", true},
    {"partition_tensor", "layout_tensor", true},
    {"partition_sequence", "layout_context", true},
    {"pipeline_chunks", "layout_chunks", true},
    {"pipeline_shard", "layout_zero", true},
    {"pipeline_recompute", "layout_recompute", true},
    {"pipeline_offload", "layout_offload", true},
    {"partition_split", "graph_split", true},
    {"reduction_leaf", "partition_leaf", true},
    {"partition_leaves", "partition_leaf", true},
    {"pipeline_schedule", "schedule_type", true},
    {"pipeline_eager", "schedule_eager", true},
    {"pipeline_timeout", "timeout", true},
    {"precision_loss_scale", "pipeline_loss_scale", true},
    {"on_nonfinite", "pipeline_on_nonfinite", true},
    {"comm_transport", "transport_type", true},
    {"data_parallel", "train_average", true}, /* words, where the field's name has a number */
    {"data_learners", "train_learners", true},
};
enum { N_NAMES = sizeof names / sizeof names[0] };

const RengaOptionName *RengaOptionNextName(const char *name, const RengaOptionName *after)
{
  for (const RengaOptionName *row = after ? after + 1 : names; row < names + N_NAMES; row++)
    if (name == NULL || strcmp(row->name, name) == 0) return row;
  return NULL;
}

int RengaOptionNameNumber(const RengaOptionName *row)
{
  return (int)(row - names);
}

const char *RengaOptionNewName_Private(const char *name, bool *old)
{
  const RengaOptionName *row = RengaOptionNextName(name, NULL);
  *old = row && row->old;
  return row ? row->option : NULL;
}

const char *RengaOptionOldName_Private(const char *option, int number)
{
  for (int i = 0; i < N_NAMES; i++)
    if (names[i].old && strcmp(names[i].option, option) == 0 && number-- == 0) return names[i].name;
  return NULL;
}

/* A line for all old names that were met since the last one. */
void RengaOptionsTellOld(MPI_Comm comm, bool met[RENGA_OPTION_NAMES])
{
  char text[1024] = "";
  for (int i = 0; i < N_NAMES; i++) {
    const size_t used = strlen(text);
    if (met[i])
      snprintf(text + used, sizeof text - used, "%s-%s is -%s now", used ? ", " : "", names[i].name,
               names[i].option);
    met[i] = false;
  }
  if (text[0]) RengaWarning(comm, "%s; the next version knows the new name alone", text);
}

_Static_assert((int)N_NAMES <= (int)RENGA_OPTION_NAMES, "room for all names");
