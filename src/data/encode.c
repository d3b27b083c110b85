/* Data: a set of tokens from text in a vocabulary of byte pairs. The text is read twice, first to
   count its tokens; it is never in memory as a whole. */
#include "vocabulary.h"

enum { BLOCK = 1 << 20 };

typedef struct {
  RengaVocabulary vocabulary;
  RengaDataWriter output; /* NULL: count only */
  RengaDataType type;
  int64_t total, lengths[RENGA_DATA_PARTS]; /* tokens */
  int dataset[RENGA_DATA_PARTS];
  int64_t written, n_block;
  int32_t *block;
  char *stored; /* the block in its type */
} Encoder;

/* The block into the parts that it belongs to. */
static RengaErrorCode FlushTokens(Encoder *e)
{
  RengaDataConvert(RENGA_INT32, e->block, e->type, e->stored, e->n_block);
  for (int64_t at = 0, n; at < e->n_block; at += n) {
    int part = e->written >= e->lengths[0];
    int64_t first = e->written - (part ? e->lengths[0] : 0), left = e->lengths[part] - first;
    n = e->n_block - at < left ? e->n_block - at : left;
    RengaCheck(n > 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
               "a text became longer while it was read: %lld tokens were counted",
               (long long)e->total);
    RengaCall(RengaDataWriterWrite(e->output, e->dataset[part], first, n,
                                   e->stored + (size_t)at * RengaDataTypeSize(e->type)));
    e->written += n;
  }
  e->n_block = 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeTextTokens(void *user, int64_t count, const int32_t tokens[],
                                     const int64_t places[])
{
  Encoder *e = user;
  (void)places;
  if (e->output == NULL) {
    e->total += count;
    return RENGA_SUCCESS;
  }
  for (int64_t i = 0; i < count; i++) {
    if (e->n_block == BLOCK) RengaCall(FlushTokens(e));
    e->block[e->n_block++] = tokens[i];
  }
  return RENGA_SUCCESS;
}

/* Both parts need a whole window, or the second part nothing. */
static RengaErrorCode SplitDocument(Encoder *e, const char *text_file, int64_t sequence,
                                    double share)
{
  e->lengths[1] = (int64_t)((double)e->total * share);
  e->lengths[0] = e->total - e->lengths[1];
  for (int part = 0; part < RENGA_DATA_PARTS; part++)
    RengaCheck(
        e->lengths[part] > sequence || (part == 1 && share == 0), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
        "text %s of %lld tokens is too short: %lld of them for %s, and a sample of sequence "
        "%lld needs %lld",
        text_file, (long long)e->total, (long long)e->lengths[part],
        part == 0 ? "training" : "validation", (long long)sequence, (long long)(sequence + 1));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddTokenDatasets(Encoder *e, int64_t sequence)
{
  static const char *const paths[RENGA_DATA_PARTS] = {"/training", "/validation"};
  int64_t kinds;
  RengaCall(RengaVocabularyGetCount(e->vocabulary, &kinds));
  e->type = kinds <= UINT16_MAX + 1 ? RENGA_UINT16 : RENGA_INT32;
  RengaCall(RengaDataWriterPutText(e->output, -1, "format", "tokens"));
  RengaCall(RengaDataWriterPutInt(e->output, -1, "sequence", sequence));
  RengaCall(RengaVocabularyPut_Private(e->vocabulary, e->output));
  for (int part = 0; part < RENGA_DATA_PARTS; part++) {
    const RengaTensorSpec spec = {.type = e->type, .ndim = 1, .dim = {e->lengths[part]}};
    if (e->lengths[part] > 0)
      RengaCall(RengaDataWriterAdd(e->output, paths[part], &spec, &e->dataset[part]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode EncodeAll(Encoder *e, const char *text_file, int64_t sequence)
{
  RengaCall(AddTokenDatasets(e, sequence));
  RengaCall(RengaMalloc(BLOCK, &e->block));
  RengaCall(RengaMalloc((size_t)BLOCK * RengaDataTypeSize(e->type), &e->stored));
  RengaCall(RengaVocabularyVisitFile_Private(e->vocabulary, text_file, TakeTextTokens, e));
  RengaCall(FlushTokens(e));
  RengaCheck(e->written == e->total, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
             "text %s became shorter while it was read", text_file);
  return RENGA_SUCCESS;
}

static RengaErrorCode EncodeTokens(RengaVocabulary vocabulary, const char *text_file,
                                   const char *out_file, int64_t sequence, double share)
{
  Encoder e = {.vocabulary = vocabulary};
  RengaCheck(vocabulary != NULL, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "rank 0 has no vocabulary");
  RengaCall(RengaVocabularyVisitFile_Private(vocabulary, text_file, TakeTextTokens, &e));
  RengaCall(SplitDocument(&e, text_file, sequence, share));
  RengaErrorCode code = RengaDataWriterCreate(out_file, &e.output);
  if (code == RENGA_SUCCESS) code = EncodeAll(&e, text_file, sequence);
  code = RengaDataWriterClose(&e.output, code);
  RengaFree(&e.block);
  RengaFree(&e.stored);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaDataWriteTokens - make a set of tokens from text, in a vocabulary

   Collective; rank 0 works

   Input:
   . vocabulary - the vocabulary; that of rank 0 counts
   . text_file - any regular file
   . out_file - the HDF5 file to make; replaced when the new one is whole
   . sequence - T: sample i is the window of T + 1 tokens that begins at token i T
   . validation_share - the share of the tokens, from the end, for the validation part; at least 0,
     below 1

   Errors: RENGA_ERR_ARGUMENT for a sequence or a share that cannot be, no vocabulary on rank 0,
   or a text that is too short; RENGA_ERR_FILE_OPEN, RENGA_ERR_FILE_FORMAT or
   RENGA_ERR_FILE_WRITE where a file cannot be read or written. All ranks have the error.

   Notes: as RengaDataWriteText; the vocabulary stands in the file.

   See also: RengaVocabularyTrain(), RengaDataWriteText()
@*/
RengaErrorCode RengaDataWriteTokens(RengaComm comm, RengaVocabulary vocabulary,
                                    const char *text_file, const char *out_file, int64_t sequence,
                                    double validation_share)
{
  RengaCheckPointers(comm, text_file, out_file);
  MPI_Comm mpi;
  int rank;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(comm, &mpi));
  RengaCall(RengaDataCheckWindow_Private(mpi, sequence, validation_share));
  RengaCallMPI(MPI_Comm_rank(mpi, &rank));
  if (rank == 0) code = EncodeTokens(vocabulary, text_file, out_file, sequence, validation_share);
  RengaCall(RengaErrorAgree(mpi, code));
  return RENGA_SUCCESS;
}
