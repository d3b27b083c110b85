/* Data: pairs of sentences, from the lines of two texts of which each is the other's translation.
   The texts are read twice, first to count the pairs. */
#include "vocabulary.h"
#include "renga/private/open.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 512, IGNORED = -100, FIELDS = 4 };
typedef enum { SOURCE, MASK, TARGET, LABELS } PairField;
static const char *const fields[FIELDS] = {"source", "source_mask", "target", "labels"};

typedef struct {
  RengaVocabulary vocabulary;
  const char *name[2];
  FILE *file[2];
  char *line[2];
  size_t room[2];
  int64_t n_line; /* lines read */
  int64_t length[2], pairs[3], kept[RENGA_DATA_PARTS];
  RengaDataWriter output;
  int dataset[RENGA_DATA_PARTS][FIELDS];
  int32_t *row[FIELDS]; /* [BATCH][length] */
  unsigned char *mask;
  int64_t n_rows, written;
  int64_t n_frame[2], *frame[2], start, padding; /* around each text; of targets */
} Pairing;

/* *length: without the line's end; -1 at the end of the file. */
static RengaErrorCode ReadLine(Pairing *p, int side, int64_t *length)
{
  errno = 0;
  ssize_t got = getline(&p->line[side], &p->room[side], p->file[side]);
  RengaCheck(got >= 0 || !ferror(p->file[side]), MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "text %s: %s",
             p->name[side], RengaFileReason_Private(errno));
  while (got > 0 && strchr("\n\r", p->line[side][got - 1])) got--;
  if (p->n_line == 0 && got >= 3 && memcmp(p->line[side], "\xEF\xBB\xBF", 3) == 0) {
    got -= 3; /* a mark of the encoding, as in tables */
    memmove(p->line[side], p->line[side] + 3, (size_t)got);
  }
  *length = got;
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadPair(Pairing *p, int64_t length[2], bool *end)
{
  for (int side = 0; side < 2; side++) RengaCall(ReadLine(p, side, &length[side]));
  *end = length[0] < 0;
  RengaCheck((length[0] < 0) == (length[1] < 0), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "texts %s and %s are not aligned: %s ends after %lld lines, the other goes on",
             p->name[0], p->name[1], p->name[length[0] >= 0], (long long)p->n_line);
  p->n_line++;
  return RENGA_SUCCESS;
}

static RengaErrorCode FlushPairs(Pairing *p)
{
  for (int64_t at = 0, n; at < p->n_rows; at += n) {
    int part = p->written >= p->kept[0];
    int64_t first = p->written - (part ? p->kept[0] : 0), left = p->kept[part] - first;
    n = p->n_rows - at < left ? p->n_rows - at : left;
    RengaCheck(n > 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "text %s changed while it was read",
               p->name[0]);
    for (int f = 0; f < FIELDS; f++) {
      const int64_t width = p->length[f == TARGET || f == LABELS];
      const void *rows =
          f == MASK ? (const void *)(p->mask + at * width) : (const void *)(p->row[f] + at * width);
      RengaCall(RengaDataWriterWrite(p->output, p->dataset[part][f], first, n, rows));
    }
    p->written += n;
  }
  p->n_rows = 0;
  return RENGA_SUCCESS;
}

static void FillPairRow(int32_t row[], int64_t width, const int64_t tokens[], int64_t count,
                        int64_t rest)
{
  for (int64_t i = 0; i < width; i++) row[i] = (int32_t)(i < count ? tokens[i] : rest);
}

/* before, as many tokens as fit, behind; returns how many. */
static int64_t FillFramed(const Pairing *p, int side, int64_t count, const int64_t tokens[],
                          int32_t row[])
{
  const int64_t *n = p->n_frame, most = p->length[side] - n[0] - n[1];
  const int64_t kept = count < most ? count : most;
  FillPairRow(row, n[0], p->frame[0], n[0], 0);
  FillPairRow(row + n[0], kept, tokens, kept, 0);
  FillPairRow(row + n[0] + kept, n[1], p->frame[1], n[1], 0);
  return n[0] + kept + n[1];
}

/* source and labels: tokens, with those before and behind; target: begin, the labels. */
static void PlacePair(Pairing *p, const int64_t count[2], int64_t *const tokens[2])
{
  const int64_t at = p->n_rows++, s = p->length[0], t = p->length[1];
  int32_t *source = p->row[SOURCE] + at * s, *target = p->row[TARGET] + at * t;
  int32_t *labels = p->row[LABELS] + at * t;
  const int64_t n = FillFramed(p, 0, count[0], tokens[0], source);
  const int64_t m = FillFramed(p, 1, count[1], tokens[1], labels);
  for (int64_t i = n; i < s; i++) source[i] = (int32_t)p->padding;
  for (int64_t i = 0; i < s; i++) p->mask[at * s + i] = i < n;
  target[0] = (int32_t)p->start;
  for (int64_t i = 1; i < t; i++) target[i] = i < m ? labels[i - 1] : (int32_t)p->padding;
  for (int64_t i = m; i < t; i++) labels[i] = IGNORED;
}

static RengaErrorCode TakePair(Pairing *p, const int64_t length[2])
{
  int64_t count[2] = {0}, *tokens[2] = {NULL};
  RengaErrorCode code = RENGA_SUCCESS;
  if (p->n_rows == BATCH) RengaCall(FlushPairs(p));
  for (int side = 0; side < 2 && code == RENGA_SUCCESS; side++)
    code = RengaVocabularyEncode(p->vocabulary, p->line[side], length[side], &count[side],
                                 &tokens[side]);
  if (code == RENGA_SUCCESS) {
    const int64_t frame = p->n_frame[0] + p->n_frame[1];
    p->pairs[2] += count[0] + frame > p->length[0] || count[1] + frame > p->length[1];
    PlacePair(p, count, tokens);
  }
  RengaFree(&tokens[0]);
  RengaFree(&tokens[1]);
  return code;
}

/* One reading of both texts. */
static RengaErrorCode VisitPairs(Pairing *p)
{
  bool end = false;
  p->n_line = p->pairs[0] = p->pairs[1] = 0;
  for (int side = 0; side < 2; side++) rewind(p->file[side]);
  while (!end) {
    int64_t length[2];
    RengaCall(ReadPair(p, length, &end));
    if (end) break;
    bool whole = length[0] > 0 && length[1] > 0;
    p->pairs[whole ? 0 : 1]++;
    if (whole && p->output) RengaCall(TakePair(p, length));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Open(Pairing *p)
{
  for (int side = 0; side < 2; side++) {
    p->file[side] = RengaFileOpen_Private(p->name[side], "rb");
    RengaCheck(p->file[side] != NULL, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "text %s: %s",
               p->name[side], RengaFileReason_Private(errno));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode SplitPairs(Pairing *p, double share)
{
  p->kept[1] = (int64_t)((double)p->pairs[0] * share);
  p->kept[0] = p->pairs[0] - p->kept[1];
  RengaCheck(p->kept[0] > 0 && (p->kept[1] > 0 || share == 0), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "texts %s and %s have %lld pairs of lines that are not empty, which is too few: %lld "
             "for training, %lld for validation",
             p->name[0], p->name[1], (long long)p->pairs[0], (long long)p->kept[0],
             (long long)p->kept[1]);
  return RENGA_SUCCESS;
}

static RengaErrorCode AddPairDatasets(Pairing *p)
{
  static const char *const groups[RENGA_DATA_PARTS] = {"training", "validation"};
  RengaCall(RengaVocabularyPut_Private(p->vocabulary, p->output));
  for (int part = 0; part < RENGA_DATA_PARTS; part++)
    for (int f = 0; f < FIELDS && p->kept[part] > 0; f++) {
      char path[64];
      const int64_t width = p->length[f == TARGET || f == LABELS];
      const RengaTensorSpec spec = {
          .type = f == MASK ? RENGA_UINT8 : RENGA_INT32, .ndim = 2, .dim = {p->kept[part], width}};
      snprintf(path, sizeof path, "/%s/%s", groups[part], fields[f]);
      RengaCall(RengaDataWriterAdd(p->output, path, &spec, &p->dataset[part][f]));
    }
  for (int f = 0; f < FIELDS; f++)
    if (f != MASK) RengaCall(RengaMalloc(BATCH * p->length[f != SOURCE], &p->row[f]));
  RengaCall(RengaMalloc(BATCH * p->length[0], &p->mask));
  return RENGA_SUCCESS;
}

/* The tokens that begin, end and pad. */
static RengaErrorCode FindMarks(Pairing *p)
{
  RengaCall(RengaVocabularyGetStart(p->vocabulary, &p->start, &p->padding));
  RengaCheck(p->start >= 0, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "of a tokenizer.json it is not known which token begins a target: give -tokenizer "
             "FOLDER, whose config.json says it, in place of -vocabulary_file");
  RengaCall(RengaVocabularyGetFrame(p->vocabulary, p->n_frame, p->frame));
  RengaCheck(p->n_frame[1] > 0, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "the tokenizer puts no token behind a text, so that targets would have no end");
  for (int side = 0; side < 2; side++)
    RengaCheck(p->length[side] > p->n_frame[0] + p->n_frame[1], MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "rows of %lld tokens have no room beside the %lld that the tokenizer puts around a "
               "text",
               (long long)p->length[side], (long long)(p->n_frame[0] + p->n_frame[1]));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteAllPairs(Pairing *p, const char *out_file, double share)
{
  RengaCheck(p->vocabulary != NULL, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "rank 0 has no vocabulary");
  RengaCall(FindMarks(p));
  RengaCall(Open(p));
  RengaCall(VisitPairs(p));
  RengaCall(SplitPairs(p, share));
  RengaCall(RengaDataWriterCreate(out_file, &p->output));
  RengaCall(AddPairDatasets(p));
  RengaCall(VisitPairs(p));
  RengaCall(FlushPairs(p));
  return RENGA_SUCCESS;
}

static void FreePairs(Pairing *p)
{
  for (int side = 0; side < 2; side++) {
    if (p->file[side] != NULL) fclose(p->file[side]);
    free(p->line[side]); /* of getline */
  }
  for (int f = 0; f < FIELDS; f++) RengaFree(&p->row[f]);
  for (int side = 0; side < 2; side++) RengaFree(&p->frame[side]);
  RengaFree(&p->mask);
}

/*@
   RengaDataWritePairs - make a set for translation from two texts

   Collective; rank 0 works

   Input:
   . vocabulary - the vocabulary of both languages; that of rank 0 counts
   . source_file, target_file - line i of one is the translation of line i of the other
   . out_file - the HDF5 file to make; replaced when the new one is whole
   . lengths - S and T, tokens of source and target, at least 2
   . validation_share - the share of the pairs, from the end, for the validation part; at least 0,
     less than 1

   Output:
   . pairs - written; left out, as a line is empty; cut, as a line is too long. Rank 0 knows

   Errors: RENGA_ERR_ARGUMENT for a sequence or a share that cannot be, or no vocabulary on rank
   0; RENGA_ERR_SUPPORT for a vocabulary of which it is not known which tokens begin, end and pad;
   RENGA_ERR_FILE_OPEN, RENGA_ERR_FILE_FORMAT or RENGA_ERR_FILE_WRITE where a file cannot be read
   or written. All ranks have the error.

   Notes: source [N,S] is the line's tokens, an end, then padding; target [N,T] a begin, the tokens,
   padding; labels [N,T] the tokens, an end, then -100, which losses ignore; source_mask [N,S] is 1
   where source is no padding. Of a tokenizer.json the end is what RengaVocabularyGetFrame says, and
   the begin that of RengaVocabularySetStart. The vocabulary stands in the file.

   See also: RengaVocabularyTrain(), RengaDataWriteTokens()
@*/
RengaErrorCode RengaDataWritePairs(RengaComm comm, RengaVocabulary vocabulary,
                                   const char *source_file, const char *target_file,
                                   const char *out_file, const int64_t lengths[2],
                                   double validation_share, int64_t pairs[3])
{
  RengaCheckPointers(comm, source_file, target_file, out_file, lengths);
  Pairing p = {.vocabulary = vocabulary,
               .name = {source_file, target_file},
               .length = {lengths[0], lengths[1]}};
  MPI_Comm mpi;
  int rank;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(comm, &mpi));
  for (int side = 0; side < 2; side++)
    RengaCall(RengaDataCheckWindow_Private(mpi, lengths[side] - 1, validation_share));
  RengaCallMPI(MPI_Comm_rank(mpi, &rank));
  if (rank == 0) {
    code = WriteAllPairs(&p, out_file, validation_share);
    code = RengaDataWriterClose(&p.output, code);
    FreePairs(&p);
  }
  RengaCall(RengaErrorAgree(mpi, code));
  if (pairs != NULL) memcpy(pairs, p.pairs, sizeof p.pairs);
  return RENGA_SUCCESS;
}
