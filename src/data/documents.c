/* Data: a set of rows that hold the documents of a text, which a word in it ends. */
#include "packing.h"
#include "renga/private/open.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

typedef struct {
  RengaVocabulary vocabulary;
  const char *end_text;
  int64_t end_token, bytes;
  char *text; /* of all documents */
} Documents;

static RengaErrorCode ReadDocuments(const char *text_file, Documents *documents)
{
  struct stat status;
  FILE *file = RengaFileOpen_Private(text_file, "rb");
  RengaCheck(file != NULL, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "text %s: %s", text_file,
             RengaFileReason_Private(errno));
  const bool regular = fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode);
  RengaErrorCode code = regular ? RengaMalloc(status.st_size + 1, &documents->text) : RENGA_SUCCESS;
  if (regular && !code)
    documents->bytes = (int64_t)fread(documents->text, 1, (size_t)status.st_size, file);
  fclose(file);
  RengaCheck(regular, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "text %s is not a regular file",
             text_file);
  RengaCall(code);
  RengaCheck(documents->bytes == (int64_t)status.st_size, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
             "text %s became shorter while it was read", text_file);
  return RENGA_SUCCESS;
}

/* A tokenizer's own token, or the one that ends texts in Renga's vocabularies. */
static RengaErrorCode FindEnd(Documents *documents)
{
  int64_t count = 0, *tokens = NULL;
  documents->end_token = RENGA_TOKEN_END;
  if (!RengaVocabularyIsTokenizer_Private(documents->vocabulary)) return RENGA_SUCCESS;
  RengaCall(RengaVocabularyEncode(documents->vocabulary, documents->end_text,
                                  (int64_t)strlen(documents->end_text), &count, &tokens));
  if (count == 1) documents->end_token = tokens[0];
  RengaFree(&tokens);
  RengaCheck(count == 1, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "documents end with \"%.80s\", which is %lld tokens of the tokenizer, and must be one",
             documents->end_text, (long long)count);
  return RENGA_SUCCESS;
}

/* The tokens of a text and its end. */
static RengaErrorCode TakeDocument(const Documents *documents, RengaPacking *packing,
                                   const char *text, int64_t length)
{
  int64_t count = 0, *tokens = NULL, *labels = NULL;
  RengaErrorCode code = RengaVocabularyEncode(documents->vocabulary, text, length, &count, &tokens);
  if (!code) code = RengaRealloc(count + 1, &tokens);
  if (!code) code = RengaMalloc(count + 1, &labels);
  if (!code) {
    tokens[count] = documents->end_token;
    for (int64_t i = 0; i < count; i++) labels[i] = tokens[i + 1];
    labels[count] = RENGA_LABEL_IGNORED;
    code = RengaPackingTake_Private(packing, count + 1, tokens, labels);
  }
  RengaFree(&tokens);
  RengaFree(&labels);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Where the end of a document begins; NULL: there is none. */
static const char *FindEndText(const char *at, const char *end, const char *text, size_t width)
{
  for (; (size_t)(end - at) >= width; at++) {
    at = memchr(at, text[0], (size_t)(end - at) - width + 1);
    if (!at || memcmp(at, text, width) == 0) return at;
  }
  return NULL;
}

/* Line ends around a document are not of it; where nothing is left there is none. */
static RengaErrorCode VisitDocuments(void *user, RengaPacking *packing)
{
  const Documents *documents = user;
  const size_t width = strlen(documents->end_text);
  const char *at = documents->text, *end = at + documents->bytes;
  while (at < end) {
    const char *stop = FindEndText(at, end, documents->end_text, width);
    const char *next = stop ? stop + width : end;
    if (!stop) stop = end;
    while (at < stop && (*at == '\r' || *at == '\n')) at++;
    while (stop > at && (stop[-1] == '\r' || stop[-1] == '\n')) stop--;
    if (stop > at) RengaCall(TakeDocument(documents, packing, at, stop - at));
    at = next;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PackDocuments(RengaPackingTask *task, Documents *documents, int64_t counts[])
{
  RengaCheck(task->vocabulary != NULL, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "rank 0 has no vocabulary");
  RengaCheck(documents->end_text && documents->end_text[0], MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the text that ends documents has no characters");
  RengaCall(ReadDocuments(task->source, documents));
  RengaCall(FindEnd(documents));
  task->padding = documents->end_token;
  RengaCall(RengaPackingWrite_Private(task, counts));
  return RENGA_SUCCESS;
}

/*@
   RengaDataWriteDocuments - make a set of rows that hold the documents of a text

   Collective; rank 0 works

   Input:
   . vocabulary - the vocabulary; that of rank 0 counts
   . text_file - any regular file
   . out_file - the HDF5 file to make; replaced when the new one is whole
   . rows - their length; end: of a tokenizer it is one token

   Output:
   . counts - documents, rows, documents that are longer than a row and go on in another, tokens.
     Rank 0 knows

   Errors: RENGA_ERR_ARGUMENT for a sequence or a share that cannot be, no vocabulary on rank 0, an
   end_text that is no token, or too few documents; RENGA_ERR_FILE_OPEN, RENGA_ERR_FILE_FORMAT or
   RENGA_ERR_FILE_WRITE where a file cannot be read or written. All ranks have the error.

   Notes: tokens, labels and, if packed, position_ids [N,sequence], int32. A document is its tokens
   and the end; a label is the token that comes next, -100 behind the end, and in padding. Positions
   count each document from 0. The text is in memory as a whole. The vocabulary stands in the file.

   See also: RengaDataWriteTokens(), RengaVocabularyRead()
@*/
RengaErrorCode RengaDataWriteDocuments(RengaComm comm, RengaVocabulary vocabulary,
                                       const char *text_file, const char *out_file,
                                       const RengaDataRows *rows,
                                       int64_t counts[RENGA_DATA_ROW_COUNTS])
{
  RengaCheckPointers(comm, text_file, out_file, rows);
  Documents documents = {.vocabulary = vocabulary, .end_text = rows->end};
  RengaPackingTask task = {.source = text_file,
                           .out_file = out_file,
                           .vocabulary = vocabulary,
                           .visit = VisitDocuments,
                           .user = &documents,
                           .rows = rows};
  int64_t found[RENGA_DATA_ROW_COUNTS] = {0};
  MPI_Comm mpi;
  int rank;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(comm, &mpi));
  RengaCall(RengaDataCheckWindow_Private(mpi, rows->sequence, rows->validation_share));
  RengaCallMPI(MPI_Comm_rank(mpi, &rank));
  if (rank == 0) code = PackDocuments(&task, &documents, found);
  RengaFree(&documents.text);
  RengaCall(RengaErrorAgree(mpi, code));
  if (counts != NULL) memcpy(counts, found, sizeof found);
  return RENGA_SUCCESS;
}
