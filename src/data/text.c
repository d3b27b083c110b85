/* Data: a set of tokens from text, a byte a token, a block at a time. */
#include "dataimpl.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 4 * 1024 * 1024, VOCABULARY = 256 };

static RengaErrorCode MeasureText(const char *text_file, FILE **file, int64_t *bytes)
{
  struct stat status;
  FILE *f = fopen(text_file, "rb");
  RengaCheck(f != NULL, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "text %s: %s", text_file,
             strerror(errno));
  *file = f; /* closed by the caller, good or not */
  RengaCheck(fstat(fileno(f), &status) == 0 && S_ISREG(status.st_mode), MPI_COMM_SELF,
             RENGA_ERR_FILE_OPEN, "text %s is not a regular file", text_file);
  *bytes = (int64_t)status.st_size;
  return RENGA_SUCCESS;
}

/* Both parts need a whole window, or the second part nothing. */
static RengaErrorCode SplitText(const char *text_file, int64_t bytes, int64_t sequence,
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

static RengaErrorCode CopyText(FILE *file, const char *text_file, RengaHdf5Tokens tokens,
                               const int64_t lengths[RENGA_DATA_PARTS], unsigned char block[])
{
  for (int part = 0; part < RENGA_DATA_PARTS; part++)
    for (int64_t at = 0; at < lengths[part]; at += BLOCK) {
      int64_t n = lengths[part] - at < BLOCK ? lengths[part] - at : BLOCK;
      RengaCheck(fread(block, 1, (size_t)n, file) == (size_t)n, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
                 "text %s: %s", text_file,
                 ferror(file) ? strerror(errno) : "became shorter while it was read");
      RengaCall(RengaHdf5TokensWrite(tokens, (RengaDataPart)part, at, n, block));
    }
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteTokens(FILE *file, const char *text_file, const char *name,
                                  const int64_t lengths[RENGA_DATA_PARTS], int64_t sequence)
{
  RengaHdf5Tokens tokens = NULL;
  unsigned char *block;
  RengaCall(RengaMalloc(BLOCK, &block));
  RengaErrorCode code = RengaHdf5TokensCreate(name, lengths, sequence, VOCABULARY, &tokens);
  if (code == RENGA_SUCCESS) code = CopyText(file, text_file, tokens, lengths, block);
  if (tokens != NULL) {
    RengaErrorCode closed = RengaHdf5TokensClose(&tokens);
    if (code == RENGA_SUCCESS) code = closed;
  }
  RengaFree(&block);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static bool SyncPath(const char *name, int flags)
{
  int descriptor = open(name, flags);
  bool synced = descriptor >= 0 && fsync(descriptor) == 0;
  if (descriptor >= 0) close(descriptor);
  return synced;
}

/* On disk under its own name only when it is whole. */
static RengaErrorCode Publish(const char *temporary, const char *out_file)
{
  RengaCheck(SyncPath(temporary, O_RDWR) && rename(temporary, out_file) == 0, MPI_COMM_SELF,
             RENGA_ERR_FILE_WRITE, "%s cannot be written: %s", out_file, strerror(errno));
  char *folder;
  RengaCall(RengaStringCopy(out_file, &folder));
  char *slash = strrchr(folder, '/');
  if (slash != NULL) *(slash == folder ? slash + 1 : slash) = '\0';
  SyncPath(slash != NULL ? folder : ".", O_RDONLY | O_DIRECTORY);
  RengaFree(&folder);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteText(const char *text_file, const char *out_file, int64_t sequence,
                                double validation_share)
{
  FILE *file = NULL;
  char *temporary;
  int64_t bytes = 0, lengths[RENGA_DATA_PARTS];
  size_t room = strlen(out_file) + 32;
  RengaCall(RengaMalloc(room, &temporary));
  snprintf(temporary, room, "%s.%ld.tmp", out_file, (long)getpid());
  RengaErrorCode code = MeasureText(text_file, &file, &bytes);
  if (code == RENGA_SUCCESS)
    code = SplitText(text_file, bytes, sequence, validation_share, lengths);
  if (code == RENGA_SUCCESS) code = WriteTokens(file, text_file, temporary, lengths, sequence);
  if (code == RENGA_SUCCESS) code = Publish(temporary, out_file);
  if (code != RENGA_SUCCESS) unlink(temporary);
  if (file != NULL) fclose(file);
  RengaFree(&temporary);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaDataWriteText - make a set of tokens from text, a byte a token

   Collective; rank 0 works

   Input:
   . comm - the ranks
   . text_file - any regular file
   . out_file - the HDF5 file to make; replaced when the new one is whole
   . sequence - T: sample i is the window of T + 1 bytes that begins at byte i T
   . validation_share - of the text, from its end, for the validation part; at least 0, less than 1

   Notes: the text is never in memory as a whole. Datasets training and validation (uint8),
   attributes format = "tokens", sequence, vocabulary = 256.
@*/
RengaErrorCode RengaDataWriteText(RengaComm comm, const char *text_file, const char *out_file,
                                  int64_t sequence, double validation_share)
{
  RengaCheckPointer(comm);
  RengaCheckPointer(text_file);
  RengaCheckPointer(out_file);
  MPI_Comm mpi;
  int rank;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(comm, &mpi));
  RengaCheck(sequence > 0, mpi, RENGA_ERR_ARGUMENT, "a sequence of %lld tokens is too short",
             (long long)sequence);
  RengaCheck(validation_share >= 0 && validation_share < 1, mpi, RENGA_ERR_ARGUMENT,
             "a validation share of %g is not at least 0 and less than 1", validation_share);
  RengaCallMPI(MPI_Comm_rank(mpi, &rank));
  if (rank == 0) code = WriteText(text_file, out_file, sequence, validation_share);
  RengaCall(RengaErrorAgree(mpi, code));
  return RENGA_SUCCESS;
}
