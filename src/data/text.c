/* Data: a set of tokens from text, a byte a token, a block at a time. */
#include "dataimpl.h"
#include "renga/private/open.h"
#include <errno.h>
#include <sys/stat.h>

enum { BLOCK = 4 * 1024 * 1024, VOCABULARY = 256 };

static RengaErrorCode MeasureText(const char *text_file, FILE **file, int64_t *bytes)
{
  struct stat status;
  FILE *f = RengaFileOpen_Private(text_file, "rb");
  RengaCheck(f != NULL, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "text %s: %s", text_file,
             RengaFileReason_Private(errno));
  *file = f; /* closed by the caller, good or not */
  RengaCheck(fstat(fileno(f), &status) == 0 && S_ISREG(status.st_mode), MPI_COMM_SELF,
             RENGA_ERR_FILE_OPEN, "text %s is not a regular file", text_file);
  *bytes = (int64_t)status.st_size;
  return RENGA_SUCCESS;
}

/* Both parts need a whole window, or the second part nothing. */
static RengaErrorCode SplitTokens(const char *text_file, int64_t bytes, int64_t sequence,
                                  double validation_share, int64_t lengths[RENGA_DATA_PARTS])
{
  lengths[1] = (int64_t)((double)bytes * validation_share);
  lengths[0] = bytes - lengths[1];
  for (int part = 0; part < RENGA_DATA_PARTS; part++)
    RengaCheck(lengths[part] > sequence || (part == 1 && validation_share == 0), MPI_COMM_SELF,
               RENGA_ERR_ARGUMENT,
               "text %s of %lld bytes is too short: %lld of them for %s, and a sample of sequence "
               "%lld needs %lld",
               text_file, (long long)bytes, (long long)lengths[part],
               part == 0 ? "training" : "validation", (long long)sequence,
               (long long)(sequence + 1));
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyTextPart(FILE *file, const char *text_file, RengaDataWriter output,
                                   int dataset, int64_t length, unsigned char block[])
{
  for (int64_t at = 0; at < length; at += BLOCK) {
    int64_t n = length - at < BLOCK ? length - at : BLOCK;
    RengaCheck(fread(block, 1, (size_t)n, file) == (size_t)n, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
               "text %s: %s", text_file,
               ferror(file) ? RengaFileReason_Private(errno) : "became shorter while it was read");
    RengaCall(RengaDataWriterWrite(output, dataset, at, n, block));
  }
  return RENGA_SUCCESS;
}

/* A part of no tokens is left out. */
static RengaErrorCode WriteTokenFile(FILE *file, const char *text_file, RengaDataWriter output,
                                     const int64_t lengths[RENGA_DATA_PARTS], int64_t sequence)
{
  static const char *const paths[RENGA_DATA_PARTS] = {"/training", "/validation"};
  unsigned char *block;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaDataWriterPutText(output, -1, "format", "tokens"));
  RengaCall(RengaDataWriterPutInt(output, -1, "sequence", sequence));
  RengaCall(RengaDataWriterPutInt(output, -1, "vocabulary", VOCABULARY));
  RengaCall(RengaMalloc(BLOCK, &block));
  for (int part = 0; part < RENGA_DATA_PARTS && code == RENGA_SUCCESS; part++) {
    RengaTensorSpec spec = {.type = RENGA_UINT8, .ndim = 1, .dim = {lengths[part]}};
    int dataset;
    if (lengths[part] == 0) continue;
    code = RengaDataWriterAdd(output, paths[part], &spec, &dataset);
    if (code == RENGA_SUCCESS)
      code = CopyTextPart(file, text_file, output, dataset, lengths[part], block);
  }
  RengaFree(&block);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteTextFile(const char *text_file, const char *out_file, int64_t sequence,
                                    double validation_share)
{
  FILE *file = NULL;
  RengaDataWriter output = NULL;
  int64_t bytes = 0, lengths[RENGA_DATA_PARTS];
  RengaErrorCode code = MeasureText(text_file, &file, &bytes);
  if (code == RENGA_SUCCESS)
    code = SplitTokens(text_file, bytes, sequence, validation_share, lengths);
  if (code == RENGA_SUCCESS) code = RengaDataWriterCreate(out_file, &output);
  if (code == RENGA_SUCCESS) code = WriteTokenFile(file, text_file, output, lengths, sequence);
  code = RengaDataWriterClose(&output, code);
  if (file != NULL) fclose(file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What no rank could use. */
RengaErrorCode RengaDataCheckWindow_Private(MPI_Comm comm, int64_t sequence,
                                            double validation_share)
{
  RengaCheck(sequence > 0, comm, RENGA_ERR_ARGUMENT, "a sequence of %lld tokens is too short",
             (long long)sequence);
  RengaCheck(validation_share >= 0 && validation_share < 1, comm, RENGA_ERR_ARGUMENT,
             "a validation share of %g is not at least 0 and less than 1", validation_share);
  return RENGA_SUCCESS;
}

/*@
   RengaDataWriteText - make a set of tokens from text, a byte a token

   Collective; rank 0 works

   Input:
   . text_file - any regular file
   . out_file - the HDF5 file to make; replaced when the new one is whole
   . sequence - T: sample i is the window of T + 1 bytes that begins at byte i T
   . validation_share - the share of the text, from its end, for the validation part; at least 0,
     less than 1

   Errors: RENGA_ERR_ARGUMENT for a sequence or a share that cannot be, or a text that is too
   short; RENGA_ERR_FILE_OPEN or RENGA_ERR_FILE_WRITE where a file cannot be read or written. All
   ranks have the error.

   Notes: the text is never in memory as a whole. Datasets training and validation (uint8),
   attributes format = "tokens", sequence, vocabulary = 256.

   See also: RengaDataWriteTokens(), RengaDataSetFile()
@*/
RengaErrorCode RengaDataWriteText(RengaComm comm, const char *text_file, const char *out_file,
                                  int64_t sequence, double validation_share)
{
  RengaCheckPointers(comm, text_file, out_file);
  MPI_Comm mpi;
  int rank;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(comm, &mpi));
  RengaCall(RengaDataCheckWindow_Private(mpi, sequence, validation_share));
  RengaCallMPI(MPI_Comm_rank(mpi, &rank));
  if (rank == 0) code = WriteTextFile(text_file, out_file, sequence, validation_share);
  RengaCall(RengaErrorAgree(mpi, code));
  return RENGA_SUCCESS;
}
