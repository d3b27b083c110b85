/* Data: vocabularies in files: a text file, a line that says so, then the two tokens of each pair;
   a data set that was made with one; a tokenizer.json. */
#include "vocabulary.h"
#include "renga/private/open.h"
#include "renga/private/output.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char title[] = "Renga byte-pair vocabulary";

static RengaErrorCode ReadPairs(FILE *file, const char *name, int64_t *count, int32_t (**merges)[2])
{
  char line[256] = "";
  int64_t room = 0;
  bool known = fgets(line, sizeof line, file) && strncmp(line, title, sizeof title - 1) == 0;
  RengaCheck(known, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s is no vocabulary: it does not begin with \"%s\"", name, title);
  while (fgets(line, sizeof line, file)) {
    char *end, *more;
    long left = strtol(line, &end, 10), right = strtol(end, &more, 10);
    RengaCheck(end != line && more != end && *more == '\n' && left >= 0 && right >= 0 &&
                   left <= INT32_MAX && right <= INT32_MAX,
               MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "vocabulary %s, line %lld: two tokens are expected, not \"%.*s\"", name,
               (long long)*count + 2, (int)strcspn(line, "\n"), line);
    RengaCall(RengaWordsRoom(*count, &room, merges));
    (*merges)[*count][0] = (int32_t)left;
    (*merges)[*count][1] = (int32_t)right;
    (*count)++;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadVocabularyText(const char *name, int64_t *count, int32_t (**merges)[2])
{
  FILE *file = RengaFileOpen_Private(name, "rb");
  RengaCheck(file != NULL, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "vocabulary %s: %s", name,
             RengaFileReason_Private(errno));
  RengaErrorCode code = ReadPairs(file, name, count, merges);
  fclose(file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadDataset(RengaHdf5File file, const char *name, RengaHdf5Dataset *dataset,
                                  int64_t *count, int32_t (**merges)[2])
{
  RengaCheck(RengaHdf5Has(file, "/vocabulary"), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "data set %s has no vocabulary: its tokens are bytes or of another program", name);
  RengaCall(RengaHdf5DatasetOpen(file, "/vocabulary", dataset));
  const RengaTensorSpec *spec = RengaHdf5DatasetSpec(*dataset);
  RengaCheck(spec->type == RENGA_INT32 && spec->ndim == 2 && spec->dim[1] == 2, MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT, "%s is no list of pairs", RengaHdf5DatasetName(*dataset));
  RengaCall(RengaMalloc(spec->dim[0] + 1, merges));
  if (spec->dim[0] > 0) RengaCall(RengaHdf5Read(*dataset, 0, 0, spec->dim[0], *merges));
  *count = spec->dim[0];
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadHdf5(const char *name, int64_t *count, int32_t (**merges)[2])
{
  RengaHdf5File file = NULL;
  RengaHdf5Dataset dataset = NULL;
  RengaCall(RengaHdf5Open(name, &file));
  RengaErrorCode code = ReadDataset(file, name, &dataset, count, merges);
  RengaCall(RengaHdf5DatasetClose(&dataset));
  RengaCall(RengaHdf5Close(&file));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadStoredJson(RengaHdf5Dataset dataset, const char *name,
                                     RengaVocabulary *vocabulary)
{
  const RengaTensorSpec *spec = RengaHdf5DatasetSpec(dataset);
  char *json = NULL;
  RengaCheck(spec->type == RENGA_UINT8 && spec->ndim == 1, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s is no tokenizer.json", RengaHdf5DatasetName(dataset));
  RengaCall(RengaMalloc(spec->dim[0] + 1, &json));
  RengaErrorCode code = RengaHdf5Read(dataset, 0, 0, spec->dim[0], json);
  if (!code) code = RengaVocabularyCreateFromJson_Private(name, json, spec->dim[0], vocabulary);
  RengaFree(&json);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* NULL where the data set has none. */
static RengaErrorCode ReadStoredTokenizer(const char *name, RengaVocabulary *vocabulary)
{
  RengaHdf5File file = NULL;
  RengaHdf5Dataset dataset = NULL;
  *vocabulary = NULL;
  RengaCall(RengaHdf5Open(name, &file));
  RengaErrorCode code = RENGA_SUCCESS;
  if (RengaHdf5Has(file, "/tokenizer")) {
    code = RengaHdf5DatasetOpen(file, "/tokenizer", &dataset);
    if (!code) code = ReadStoredJson(dataset, name, vocabulary);
  }
  RengaCall(RengaHdf5DatasetClose(&dataset));
  RengaCall(RengaHdf5Close(&file));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadJsonFile(FILE *file, const char *name, RengaVocabulary *vocabulary)
{
  char *json = NULL;
  RengaCheck(fseek(file, 0, SEEK_END) == 0 && ftell(file) >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
             "tokenizer %s: %s", name, RengaFileReason_Private(errno));
  const long bytes = ftell(file);
  rewind(file);
  RengaCall(RengaMalloc(bytes + 1, &json));
  const size_t got = fread(json, 1, (size_t)bytes, file);
  const RengaErrorCode code =
      RengaVocabularyCreateFromJson_Private(name, json, (int64_t)got, vocabulary);
  RengaFree(&json);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static bool BeginsWith(const char *name, const char *magic)
{
  char begin[8] = "";
  FILE *file = RengaFileOpen_Private(name, "rb");
  const size_t length = strlen(magic);
  bool is = file && fread(begin, 1, length, file) == length && !memcmp(begin, magic, length);
  if (file != NULL) fclose(file);
  return is;
}

static RengaErrorCode ReadTokenizer(const char *name, RengaVocabulary *vocabulary)
{
  FILE *file = RengaFileOpen_Private(name, "rb");
  RengaCheck(file != NULL, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "tokenizer %s: %s", name,
             RengaFileReason_Private(errno));
  const RengaErrorCode code = ReadJsonFile(file, name, vocabulary);
  fclose(file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaVocabularyRead - a vocabulary from its own file or from a data set

   Input:
   . file - a file of RengaVocabularyWrite, a data set that was made with a vocabulary, or a
     tokenizer.json of Hugging Face

   Output:
   . vocabulary - end it with RengaVocabularyDestroy

   Errors: RENGA_ERR_SUPPORT names what of a tokenizer.json is not supported.

   Notes: of a tokenizer.json models BPE, of bytes and of signs, Unigram and WordPiece are
   supported, with the usual normalizers and pre-tokenizers. Tokens are those of encode(text,
   add_special_tokens=False); its post-processor is not looked at.

   See also: RengaVocabularyWrite(), RengaDataWriteTokens()
@*/
RengaErrorCode RengaVocabularyRead(const char *file, RengaVocabulary *vocabulary)
{
  int64_t count = 0;
  int32_t(*merges)[2] = NULL;
  RengaVocabulary found = NULL;
  RengaCheckPointers(file, vocabulary);
  const bool hdf5 = BeginsWith(file, "\x89HDF\r\n\x1a\n");
  if (hdf5)
    RengaCall(ReadStoredTokenizer(file, &found));
  else if (BeginsWith(file, "{"))
    RengaCall(ReadTokenizer(file, &found));
  if (!found) {
    RengaErrorCode code =
        hdf5 ? ReadHdf5(file, &count, &merges) : ReadVocabularyText(file, &count, &merges);
    if (code != RENGA_SUCCESS) RengaFree(&merges);
    RengaCall(code);
    RengaCall(RengaVocabularyCreate_Private(count, merges, &found));
  }
  *vocabulary = found;
  return RENGA_SUCCESS;
}

static void WritePairs(RengaVocabulary v, FILE *out)
{
  fprintf(out, "%s, %lld kinds of tokens: 4 for no text, 256 bytes, then these pairs\n", title,
          (long long)v->count);
  for (int64_t m = 0; m < v->n_merges; m++) fprintf(out, "%d %d\n", v->merge[m][0], v->merge[m][1]);
}

/*@
   RengaVocabularyWrite - keep a vocabulary as a text file

   Input:
   . file - the name of the file, which is made or replaced

   Errors: RENGA_ERR_FILE_WRITE where the file cannot be written.

   See also: RengaVocabularyRead()
@*/
RengaErrorCode RengaVocabularyWrite(RengaVocabulary vocabulary, const char *file)
{
  RengaCheckPointers(vocabulary, file);
  RengaOutput output;
  RengaCall(RengaOutputOpen_Private(file, &output));
  if (vocabulary->tokenizer)
    fwrite(vocabulary->tokenizer->json, 1, (size_t)vocabulary->tokenizer->json_bytes,
           output.stream);
  else
    WritePairs(vocabulary, output.stream);
  RengaCall(RengaOutputClose_Private(&output, RENGA_SUCCESS));
  return RENGA_SUCCESS;
}

/* The pairs, and what data sets of one vocabulary have in common. */
static RengaErrorCode PutTokenizer(RengaVocabulary v, RengaDataWriter output)
{
  const RengaTokenizer *tokenizer = v->tokenizer;
  const RengaTensorSpec spec = {.type = RENGA_UINT8, .ndim = 1, .dim = {tokenizer->json_bytes}};
  const uint64_t digest = RengaHash(tokenizer->json, (size_t)tokenizer->json_bytes, 0);
  int dataset;
  RengaCall(RengaDataWriterPutInt(output, -1, "vocabulary", v->count));
  RengaCall(RengaDataWriterPutInt(output, -1, "vocabulary_digest", (int64_t)(digest >> 1)));
  RengaCall(RengaDataWriterAdd(output, "/tokenizer", &spec, &dataset));
  RengaCall(RengaDataWriterWrite(output, dataset, 0, tokenizer->json_bytes, tokenizer->json));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaVocabularyPut_Private(RengaVocabulary v, RengaDataWriter output)
{
  if (v->tokenizer) return PutTokenizer(v, output);
  const RengaTensorSpec spec = {.type = RENGA_INT32, .ndim = 2, .dim = {v->n_merges, 2}};
  uint64_t digest = RengaHash(v->merge, (size_t)v->n_merges * sizeof *v->merge, 0);
  int dataset;
  RengaCall(RengaDataWriterPutInt(output, -1, "vocabulary", v->count));
  RengaCall(RengaDataWriterPutInt(output, -1, "mask", RENGA_TOKEN_MASK));
  RengaCall(RengaDataWriterPutInt(output, -1, "vocabulary_digest", (int64_t)(digest >> 1)));
  RengaCall(RengaDataWriterAdd(output, "/vocabulary", &spec, &dataset));
  RengaCall(RengaDataWriterWrite(output, dataset, 0, v->n_merges, v->merge));
  return RENGA_SUCCESS;
}
