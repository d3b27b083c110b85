/* Learners that train apart (-train_average): options that do not go with them. */
#include "app.h"
#include <string.h>

/* Options that have no meaning, or none yet, where learners train apart. */
RengaErrorCode AppRefuseApart(MPI_Comm printer, const char *average)
{
  static const struct {
    const char *option, *plain;
  } rows[] = {{"data_hide", "0"},          {"pipeline_on_nonfinite", "stop"},
              {"optimizer_sparse", "off"}, {"layout_context", "1"},
              {"layout_tensor", "1"},      {"layout_offload", "none"},
              {"layout_zero", "0"},        {"precision", "fp32"},
              {"schedule_view", "none"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const char *value;
    bool given, tensor;
    RengaCall(AppHasTensorRanks(&tensor));
    RengaCall(RengaOptionsGetString(rows[i].option, &value, &given));
    if (!value) value = "";
    const bool low = strcmp(rows[i].option, "precision") == 0 && strcmp(value, "fp16") != 0;
    const bool one = strcmp(rows[i].plain, "1") == 0 && !tensor && strcmp(value, "auto") != 0;
    const bool plain = one || strcmp(value, rows[i].plain) == 0;
    RengaCheck(!given || low || plain, printer, RENGA_ERR_SUPPORT,
               "-%s %s together with -train_average %s is not supported", rows[i].option, value,
               average);
  }
  return RENGA_SUCCESS;
}
