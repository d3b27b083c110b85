/* renga export CHECKPOINT FOLDER: the parameters, as Hugging Face's libraries load them. */
#include "app.h"
#include <string.h>

/* What the checkpoint says of its network. */
static RengaErrorCode FindOwnFolder(const App *app, char **folder, bool *adapters)
{
  RengaCheckpoint checkpoint = NULL;
  const char *network = NULL, *described = NULL;
  int64_t step;
  RengaCall(RengaCheckpointCreate(app->comm, &checkpoint));
  RengaErrorCode code = RengaCheckpointPeekInitial(checkpoint, app->words[0], &step);
  if (!code) code = RengaCheckpointGetAttribute(checkpoint, "graph", &network);
  if (!code) code = RengaCheckpointGetAttribute(checkpoint, "adapters", &described);
  if (!code) code = AppFolderFile(network, "", folder);
  RengaCheckpointDestroy(&checkpoint);
  RengaCall(code);
  *adapters = described != NULL;
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadExportSettings(RengaCheckpointExportSettings *settings)
{
  static const struct {
    const char *name;
    RengaDataType type;
  } types[] = {
      {"float32", RENGA_FLOAT32}, {"bfloat16", RENGA_BFLOAT16}, {"float16", RENGA_FLOAT16}};
  const char *type;
  RengaCall(RengaOptionsGetString("export_type", &type, NULL));
  RengaCall(RengaOptionsGetInt64("export_file", &settings->file_bytes, NULL));
  RengaCall(RengaOptionsGetString("export_like", &settings->like, NULL));
  RengaCall(RengaOptionsGetBool("export_merged", &settings->merged, NULL));
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
    if (strcmp(types[i].name, type) == 0) settings->type = types[i].type;
  return RENGA_SUCCESS;
}

/* alone: of adapters that are not merged. */
static RengaErrorCode ExportLike(const App *app, const RengaCheckpointExportSettings *settings,
                                 bool alone)
{
  const MPI_Comm printer = AppPrinter(app->comm);
  RengaCall(RengaCheckpointExport(app->comm, app->words[0], app->words[1], settings));
  if (alone)
    RengaCall(RengaPrintf(printer,
                          "%s has the adapters of %s, for the network of %s (-export_merged writes "
                          "the network with them)\n",
                          app->words[1], app->words[0],
                          settings->like ? settings->like : "the run"));
  else if (settings->like)
    RengaCall(RengaPrintf(printer, "%s has the parameters of %s, and config.json of %s\n",
                          app->words[1], app->words[0], settings->like));
  else
    RengaCall(RengaPrintf(printer,
                          "%s has the parameters of %s, and no config.json: its network is not of "
                          "a folder (-export_like FOLDER copies that of another)\n",
                          app->words[1], app->words[0]));
  return RENGA_SUCCESS;
}

RengaErrorCode AppExport(const App *app)
{
  RengaCheckpointExportSettings settings = {.type = RENGA_FLOAT32};
  char *own = NULL;
  bool adapters;
  RengaCall(ReadExportSettings(&settings));
  RengaCall(FindOwnFolder(app, &own, &adapters));
  if (!settings.like) settings.like = own;
  const RengaErrorCode code = ExportLike(app, &settings, adapters && !settings.merged);
  RengaFree(&own);
  RengaCall(code);
  return RENGA_SUCCESS;
}
