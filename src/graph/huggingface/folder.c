/* hf:FOLDER: rank 0 reads config.json, all ranks build what it says. */
#include "huggingface.h"
#include "renga/private/open.h"
#include "renga/private/wait.h"
#include <errno.h>
#include <string.h>

enum { MOST_CONFIG = 1 << 24, USUAL_SEQUENCE = 2048 };

#define AT(member) offsetof(RengaHfOptions, member)
static const RengaOptionRow rows[] = {
    {"sequence", RENGA_OPTION_INT64, "0", AT(sequence), NULL, 0, 1e8,
     "tokens per sample; 0: the longest that config.json names, at most 2048"},
    {"target", RENGA_OPTION_INT64, "0", AT(target), NULL, 0, 1e8,
     "of an encoder with a decoder: tokens of a target; 0: as many as of a source"},
    {"segments", RENGA_OPTION_INT64, "1", AT(segments), NULL, 0, 1,
     "0: an encoder has no input of that name"},
    {"padding", RENGA_OPTION_INT64, "1", AT(padding), NULL, 0, 1,
     "0: an encoder has no input attention_mask"},
    {"packed", RENGA_OPTION_INT64, "0", AT(packed), NULL, 0, 1,
     "1: rows hold several documents, which the input position_ids counts anew"},
    {"dropout", RENGA_OPTION_REAL, "-1", AT(dropout), NULL, -1, 0.999,
     "share set to zero, in all places; -1: what config.json says"},
};

/* The bytes of an open file, ended by a zero. */
static RengaErrorCode ReadText(FILE *file, const char *name, int64_t *size, char **text)
{
  RengaCheck(fseeko(file, 0, SEEK_END) == 0 && ftello(file) >= 0, MPI_COMM_SELF,
             RENGA_ERR_FILE_OPEN, "%s: %s", name, RengaFileReason_Private(errno));
  const int64_t bytes = (int64_t)ftello(file);
  RengaCheck(bytes <= MOST_CONFIG, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s has %lld bytes: a config.json has at most %d", name, (long long)bytes,
             MOST_CONFIG);
  rewind(file);
  RengaCall(RengaMalloc(bytes + 1, text));
  const bool whole = fread(*text, 1, (size_t)bytes, file) == (size_t)bytes;
  if (!whole) RengaFree(text);
  RengaCheck(whole, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s cannot be read", name);
  *size = bytes + 1;
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadConfigFile(const char *folder, int64_t *size, char **text)
{
  char *name = NULL;
  const size_t room = strlen(folder) + sizeof "/config.json";
  RengaCall(RengaMalloc(room, &name));
  snprintf(name, room, "%s/config.json", folder);
  FILE *file = RengaFileOpen_Private(name, "rb");
  RengaErrorCode code = file ? ReadText(file, name, size, text) : RENGA_ERR_FILE_OPEN;
  if (file) fclose(file);
  const int reason = errno;
  RengaFree(&name);
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s/config.json: %s", folder,
             RengaFileReason_Private(reason));
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHfShareConfig(MPI_Comm comm, const char *folder, char **text)
{
  static const char what[] = "rank 0 to read config.json";
  int rank;
  int64_t size = 0;
  RengaErrorCode code = RENGA_SUCCESS;
  *text = NULL;
  RengaCallMPI(MPI_Comm_rank(comm, &rank));
  if (rank == 0) code = ReadConfigFile(folder, &size, text);
  RengaCall(RengaErrorAgree(comm, code));
  RengaCall(RengaBroadcast_Private(comm, &size, sizeof size, what));
  if (rank != 0) code = RengaMalloc(size, text);
  code = RengaErrorAgree(comm, code);
  if (!code) code = RengaBroadcast_Private(comm, *text, (size_t)size, what);
  if (code) RengaFree(text);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeSequence(const RengaHfModel *model, RengaHfOptions *options)
{
  /* the rows of padding, and those before it, are of no word */
  const int64_t before = model->family->counts_words ? model->config->padding : 0;
  const int64_t places = model->config->places - before;
  const RengaHfNames *names = model->family->names;
  const bool fixed = names->patches || names->sound;
  RengaCheck(!fixed || options->sequence == 0, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "hf: sequence=%lld, but %s reads %s", (long long)options->sequence, model->folder,
             names->sound ? "sound of one length" : "images");
  if (options->sequence == 0)
    options->sequence = places < USUAL_SEQUENCE || fixed ? places : USUAL_SEQUENCE;
  RengaCheck(!names->places || options->sequence <= places, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "hf: sequence=%lld, but %s has learned positions for %lld tokens",
             (long long)options->sequence, model->folder, (long long)places);
  RengaCheck(options->target == 0 || names->sound || model->family->build == RengaHfBuildT5,
             MPI_COMM_SELF, RENGA_ERR_OPTION,
             "hf: target=%lld, but %s has no decoder beside an encoder", (long long)options->target,
             model->folder);
  RengaCheck(!options->packed || model->family->build == RengaHfBuildDecoder, MPI_COMM_SELF,
             RENGA_ERR_SUPPORT, "hf: packed=1 is for decoders, and %s is of type %s", model->folder,
             model->family->type);
  RengaCheck(options->dropout == -1 || options->dropout >= 0, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "hf: dropout=%g must be from 0 to 0.999, or -1", options->dropout);
  return RENGA_SUCCESS;
}

static RengaErrorCode NarrowModel(RengaHfModel *model, double share)
{
  RengaCheck(model->family->narrow, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "-graph_divide: %s is of the family %s, which cannot be divided; of folders those of "
             "vit can",
             model->folder, model->family->type);
  model->family->narrow(model->config, share);
  return RENGA_SUCCESS;
}

static RengaErrorCode NarrowFolder(void *settings, double share)
{
  RengaHfOptions *options = settings;
  options->share = share;
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildFolder(RengaGraph graph, const void *settings)
{
  RengaHfOptions options = *(const RengaHfOptions *)settings;
  RengaHfModel model;
  RengaErrorCode code = RengaHfReadConfig(options.folder, options.config, &model);
  if (!code) code = TakeSequence(&model, &options);
  if (!code && options.share > 0) code = NarrowModel(&model, options.share);
  if (!code) code = model.family->build(graph, &model, &options);
  RengaHfFreeModel(&model);
  RengaCall(code);
  return RENGA_SUCCESS;
}

const RengaGraphBuilder RengaGraphBuilderFolder = {
    "hf", sizeof(RengaHfOptions), sizeof rows / sizeof rows[0], rows, BuildFolder, NarrowFolder};
