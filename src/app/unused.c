/* Options that a command has, but that nothing of this run would look at. */
#include "app.h"
#include <string.h>

RengaErrorCode AppRefuseUnused(MPI_Comm printer, const char *name, const char *why)
{
  const char *value;
  bool given;
  RengaCall(RengaOptionsGetString(name, &value, &given));
  const bool shown = strcmp(name, "monitor_token") != 0; /* which is a secret */
  RengaCheck(!given, printer, RENGA_ERR_OPTION, "-%s%s%s: %s", name, shown ? " " : "",
             shown ? value : "", why);
  return RENGA_SUCCESS;
}

/* What validations decide needs validations. */
RengaErrorCode AppCheckValidation(MPI_Comm printer, int64_t every, int64_t samples)
{
  int64_t patience;
  bool best;
  RengaCall(RengaOptionsGetInt64("early_stop", &patience, NULL));
  RengaCall(RengaOptionsGetBool("keep_best", &best, NULL));
  RengaCheck(!patience || every, printer, RENGA_ERR_OPTION,
             "-early_stop %lld counts validations during the run: -eval_every says how often",
             (long long)patience);
  RengaCheck((!patience && !best) || samples > 0, printer, RENGA_ERR_OPTION,
             "-%s needs validations, but the data have no validation part: -data_validation or "
             "-eval gives one",
             best ? "keep_best" : "early_stop");
  return RENGA_SUCCESS;
}
