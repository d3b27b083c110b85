/* Do all ranks mean the same? One small sum says so; where they do not, the lists of all are
   compared, so that the error has a name. */
#include "renga/private/same.h"
#include "commimpl.h"
#include <string.h>

void RengaSettingAdd_Private(RengaSettingList *list, const char *name, const void *bytes,
                             size_t size)
{
  if (list->count == RENGA_SETTINGS_MOST) return; /* RengaCommCheckSame_Private says so */
  list->row[list->count++] = (RengaSetting){name, RengaHash(bytes, size, 0)};
}

void RengaSettingAddText_Private(RengaSettingList *list, const char *name, const char *text)
{
  RengaSettingAdd_Private(list, name, text ? text : "", text ? strlen(text) + 1 : 0);
}

void RengaSettingAddInt64_Private(RengaSettingList *list, const char *name, int64_t value)
{
  RengaSettingAdd_Private(list, name, &value, sizeof value);
}

void RengaSettingAddRow_Private(RengaSettingList *list, const RengaOptionRow *row, const void *base)
{
  static const size_t sizes[] = {
      [RENGA_OPTION_BOOL] = sizeof(bool),     [RENGA_OPTION_INT] = sizeof(int),
      [RENGA_OPTION_INT64] = sizeof(int64_t), [RENGA_OPTION_REAL] = sizeof(double),
      [RENGA_OPTION_BYTES] = sizeof(int64_t), [RENGA_OPTION_ENUM] = sizeof(int)};
  const char *at = (const char *)base + row->offset, *text;
  if (row->kind != RENGA_OPTION_STRING && row->kind != RENGA_OPTION_SECRET) {
    RengaSettingAdd_Private(list, row->name, at, sizes[row->kind]);
    return;
  }
  memcpy(&text, at, sizeof text);
  RengaSettingAddText_Private(list, row->name, text);
}

/* "optimizer_type" is an option, "seed" and "plan (its leaf)" are words. */
static const char *DashOf(const char *name)
{
  return strchr(name, '_') && !strpbrk(name, " -") ? "-" : "";
}

/* all: [ranks][RENGA_SETTINGS_MOST] hashes. */
static RengaErrorCode NameDifferentSetting(RengaComm comm, RengaErrorCode code,
                                           const RengaSettingList *list, const uint64_t all[])
{
  for (int r = 1; r < comm->size; r++)
    for (int s = 0; s < list->count; s++)
      RengaCheck(all[r * RENGA_SETTINGS_MOST + s] == all[s], comm->hdr.comm, code,
                 "rank %d differs from rank 0 in its %s%s: all ranks must be given the same", r,
                 DashOf(list->row[s].name), list->row[s].name);
  RengaRaise(comm->hdr.comm, code, "some rank differs from rank 0 in its settings");
}

static RengaErrorCode FindDifferentSetting(RengaComm comm, RengaErrorCode failure, const char *what,
                                           const RengaSettingList *list)
{
  uint64_t *mine = NULL, *all = NULL;
  RengaErrorCode code = RengaMalloc(RENGA_SETTINGS_MOST, &mine);
  if (!code) code = RengaMalloc(RENGA_SETTINGS_MOST * (int64_t)comm->size, &all);
  code = RengaErrorAgree(comm->hdr.comm, code);
  for (int s = 0; s < list->count && !code; s++) mine[s] = list->row[s].hash;
  if (!code) code = RengaCommGather(comm, mine, RENGA_SETTINGS_MOST * sizeof *mine, all, -1, what);
  if (!code) code = NameDifferentSetting(comm, failure, list, all);
  RengaFree(&all);
  RengaFree(&mine);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCommCheckSame_Private(RengaComm comm, RengaErrorCode code, const char *what,
                                          const RengaSettingList *list)
{
  RengaRequest request;
  uint64_t hash = 0;
  for (int s = 0; s < list->count; s++) hash = RengaHash(&list->row[s].hash, sizeof hash, hash);
  memcpy(&comm->same[0], &hash, sizeof hash);
  comm->same[1] = ~comm->same[0];
  RengaCall(RengaCommStartLargest(comm, 2, comm->same, &request));
  RengaCall(RengaCommWait(comm, &request, what));
  if (comm->same[0] != ~comm->same[1]) RengaCall(FindDifferentSetting(comm, code, what, list));
  RengaCheck(list->count < RENGA_SETTINGS_MOST, comm->hdr.comm, RENGA_ERR_INTERNAL,
             "there are more than %d settings to compare", RENGA_SETTINGS_MOST - 1);
  return RENGA_SUCCESS;
}
