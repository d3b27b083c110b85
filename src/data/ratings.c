/* Data: ratings of items by users, for networks that recommend: lines of user, item and, where they
   have them, a rating and more, between them commas, semicolons, tabs, colons or blanks. Users and
   items are numbered in the order of their names in the file, which are whole numbers.

   Negatives: He et al., Neural collaborative filtering, 2017, section 4.1: for each rated item so
   many that the user has not rated, with label 0, where the rated one has label 1. */
#include "csv.h"
#include "renga/private/number.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 64, NEGATIVE = 0x6e6567 /* a stream of random numbers of its own */ };

typedef struct {
  int64_t user, item;
  float label;
} Rating;

typedef struct {
  const char *name;
  int64_t count, room;
  Rating *rating;                /* in the file's order */
  Rating *sorted;                /* by user and item */
  int64_t *user_first;           /* [users + 1] in sorted */
  int64_t *names[2], n_names[2]; /* of users and items, ascending */
  int64_t negatives, samples;
  uint64_t seed;
} Ratings;

/* A whole number from 0. */
static bool ParseName(const char *cell, int64_t *number)
{
  char *end;
  errno = 0;
  *number = strtoll(cell, &end, 10);
  return end != cell && !errno && *number >= 0 && !*end;
}

static bool ParseLabel(const char *cell, float *label)
{
  char *end;
  *label = RengaReadSingle(cell, &end);
  return end != cell && !*end && *label - *label == 0;
}

/* user item [rating ...] */
static bool ParseRow(const RengaCsv *csv, Rating *rating)
{
  *rating = (Rating){0, 0, 1};
  return csv->n_cells >= 2 && ParseName(RengaCsvCell_Private(csv, 0), &rating->user) &&
         ParseName(RengaCsvCell_Private(csv, 1), &rating->item) &&
         (csv->n_cells == 2 || ParseLabel(RengaCsvCell_Private(csv, 2), &rating->label));
}

/* A heading has no number. */
static bool IsHeading(const RengaCsv *csv)
{
  for (int c = 0; c < csv->n_cells; c++) {
    const char *cell = RengaCsvCell_Private(csv, c);
    float value;
    if (!*cell || ParseLabel(cell, &value) || strspn(cell, "0123456789.,+-") == strlen(cell))
      return false;
  }
  return true;
}

/* Does the name of a column hold a word, small or capital? */
static bool NameHolds(const char *name, const char *word)
{
  const size_t length = strlen(word);
  for (; *name; name++)
    if (RengaIsSamePart(name, word, length)) return true;
  return false;
}

/* Columns whose names say that they are others than those taken for users, items and ratings. */
static RengaErrorCode CheckHeading(const RengaCsv *csv)
{
  static const char *const words[] = {"user", "item", "rating"};
  for (int w = 0; w < 3; w++)
    for (int c = 0; c < csv->n_cells; c++) {
      if (w < csv->n_cells && NameHolds(RengaCsvCell_Private(csv, w), words[w])) break;
      RengaCheck(!NameHolds(RengaCsvCell_Private(csv, c), words[w]), MPI_COMM_SELF,
                 RENGA_ERR_FILE_FORMAT,
                 "ratings %s, line %lld: column %d is named %.40s, but the columns of user, item "
                 "and rating must be the first three, in this order",
                 csv->name, (long long)csv->line, c + 1, RengaCsvCell_Private(csv, c));
    }
  return RENGA_SUCCESS;
}

/* The cells of a line, for a message. */
static const char *FormatRatingRow(const RengaCsv *csv, size_t size, char text[])
{
  const char separator[] = {csv->separator, csv->doubled ? csv->separator : '\0', '\0'};
  size_t used = 0;
  text[0] = '\0';
  for (int c = 0; c < csv->n_cells && used < size; c++)
    used += (size_t)snprintf(text + used, size - used, "%s%s", c > 0 ? separator : "",
                             RengaCsvCell_Private(csv, c));
  return text;
}

static RengaErrorCode AddRating(Ratings *r, const Rating *rating)
{
  if (r->count == r->room) {
    r->room = r->room * 2 + 1024;
    RengaCall(RengaRealloc(r->room, &r->rating));
  }
  r->rating[r->count++] = *rating;
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeRatingRow(Ratings *r, const RengaCsv *csv, int columns)
{
  Rating rating;
  char text[64];
  RengaCheck(csv->n_cells == columns, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "ratings %s, line %lld: %d cells, but the lines before have %d", r->name,
             (long long)csv->line, csv->n_cells, columns);
  RengaCheck(ParseRow(csv, &rating), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "ratings %s, line %lld: a user and an item, whole numbers from 0, and perhaps a "
             "rating, a number with a point if it is none, are expected, not \"%s\"",
             r->name, (long long)csv->line, FormatRatingRow(csv, sizeof text, text));
  RengaCall(AddRating(r, &rating));
  return RENGA_SUCCESS;
}

/* The first line may be a heading. */
static RengaErrorCode ReadRatingLines(Ratings *r, RengaCsv *csv)
{
  bool more;
  int columns = 0;
  for (bool first = true;; first = false) {
    RengaCall(RengaCsvRead_Private(csv, &more));
    if (!more) break;
    if (first && IsHeading(csv)) {
      RengaCall(CheckHeading(csv));
      continue;
    }
    if (columns == 0) columns = csv->n_cells;
    RengaCall(TakeRatingRow(r, csv, columns));
  }
  RengaCheck(r->count > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "ratings %s has no line of ratings", r->name);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadRatings(Ratings *r)
{
  RengaCsv csv;
  RengaErrorCode code = RengaCsvOpenRatings_Private(r->name, &csv);
  if (code == RENGA_SUCCESS) code = ReadRatingLines(r, &csv);
  RengaCsvClose_Private(&csv);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static int CompareRatedNumbers(const void *a, const void *b)
{
  const int64_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static int CompareRatings(const void *a, const void *b)
{
  const Rating *x = a, *y = b;
  if (x->user != y->user) return x->user < y->user ? -1 : 1;
  return (x->item > y->item) - (x->item < y->item);
}

/* The names of users (0) or items (1), and their places in that list instead of them. */
static RengaErrorCode Number(Ratings *r, int which)
{
  int64_t *names, n = 0;
  RengaCall(RengaMalloc(r->count, &names));
  r->names[which] = names;
  for (int64_t i = 0; i < r->count; i++)
    names[i] = which == 0 ? r->rating[i].user : r->rating[i].item;
  qsort(names, (size_t)r->count, sizeof *names, CompareRatedNumbers);
  for (int64_t i = 0; i < r->count; i++)
    if (i == 0 || names[i] != names[i - 1]) names[n++] = names[i];
  r->n_names[which] = n;
  for (int64_t i = 0; i < r->count; i++) {
    int64_t *field = which == 0 ? &r->rating[i].user : &r->rating[i].item;
    int64_t *found = bsearch(field, names, (size_t)n, sizeof *names, CompareRatedNumbers);
    *field = found - names;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Sort(Ratings *r)
{
  RengaCall(RengaMalloc(r->count, &r->sorted));
  RengaCall(RengaMalloc(r->n_names[0] + 1, &r->user_first));
  memcpy(r->sorted, r->rating, (size_t)r->count * sizeof *r->sorted);
  qsort(r->sorted, (size_t)r->count, sizeof *r->sorted, CompareRatings);
  for (int64_t i = 0; i < r->count; i++) r->user_first[r->sorted[i].user + 1] = i + 1;
  for (int64_t u = 0; u < r->n_names[0] && r->negatives > 0; u++) {
    int64_t items = 0;
    for (int64_t i = r->user_first[u]; i < r->user_first[u + 1]; i++)
      items += i == r->user_first[u] || r->sorted[i].item != r->sorted[i - 1].item;
    RengaCheck(items < r->n_names[1], MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "ratings %s: user %lld has rated all %lld items; no negative can be drawn", r->name,
               (long long)r->names[0][u], (long long)items);
  }
  return RENGA_SUCCESS;
}

static bool IsRated(const Ratings *r, int64_t user, int64_t item)
{
  const Rating key = {user, item, 0};
  const int64_t first = r->user_first[user], last = r->user_first[user + 1];
  return bsearch(&key, r->sorted + first, (size_t)(last - first), sizeof key, CompareRatings) !=
         NULL;
}

/* The negative of a sample: drawn, or the next free item after the last draw. */
static int64_t DrawNegative(const Ratings *r, int64_t sample, int64_t user)
{
  const uint32_t key[2] = {(uint32_t)r->seed, (uint32_t)(r->seed >> 32)};
  int64_t item = 0;
  for (uint32_t attempt = 0; attempt < DRAWS; attempt++) {
    const uint32_t counter[4] = {attempt, (uint32_t)sample, (uint32_t)(sample >> 32), NEGATIVE};
    uint32_t draw[4];
    RengaPhilox(counter, key, draw);
    item = (int64_t)(((uint64_t)draw[0] << 32 | draw[1]) % (uint64_t)r->n_names[1]);
    if (!IsRated(r, user, item)) return item;
  }
  while (IsRated(r, user, item)) item = (item + 1) % r->n_names[1];
  return item;
}

static RengaErrorCode AddColumn(RengaDataWriter output, const char *path, RengaDataType type,
                                int64_t count, const void *values)
{
  const RengaTensorSpec spec = {.type = type, .ndim = 1, .dim = {count}};
  int dataset;
  RengaCall(RengaDataWriterAdd(output, path, &spec, &dataset));
  RengaCall(RengaDataWriterWrite(output, dataset, 0, count, values));
  return RENGA_SUCCESS;
}

static void FillColumns(const Ratings *r, int64_t *user, int64_t *item, float *label)
{
  for (int64_t s = 0; s < r->samples; s++) {
    const Rating *rating = &r->rating[s / (1 + r->negatives)];
    const bool rated = s % (1 + r->negatives) == 0;
    user[s] = rating->user;
    item[s] = rated ? rating->item : DrawNegative(r, s, rating->user);
    label[s] = !rated ? 0 : r->negatives > 0 ? 1 : rating->label;
  }
}

static RengaErrorCode WriteColumns(const Ratings *r, RengaDataWriter output, int64_t *user,
                                   int64_t *item, float *label)
{
  FillColumns(r, user, item, label);
  RengaCall(AddColumn(output, "/training/user", RENGA_INT64, r->samples, user));
  RengaCall(AddColumn(output, "/training/item", RENGA_INT64, r->samples, item));
  RengaCall(AddColumn(output, "/training/label", RENGA_FLOAT32, r->samples, label));
  RengaCall(AddColumn(output, "/users", RENGA_INT64, r->n_names[0], r->names[0]));
  RengaCall(AddColumn(output, "/items", RENGA_INT64, r->n_names[1], r->names[1]));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteSamples(Ratings *r, RengaDataWriter output)
{
  int64_t *user = NULL, *item = NULL;
  float *label = NULL;
  r->samples = r->count * (1 + r->negatives);
  RengaErrorCode code = RengaMalloc(r->samples, &user);
  if (code == RENGA_SUCCESS) code = RengaMalloc(r->samples, &item);
  if (code == RENGA_SUCCESS) code = RengaMalloc(r->samples, &label);
  if (code == RENGA_SUCCESS) code = WriteColumns(r, output, user, item, label);
  RengaFree(&user);
  RengaFree(&item);
  RengaFree(&label);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode PrepareRatings(Ratings *r)
{
  RengaCall(ReadRatings(r));
  RengaCall(Number(r, 0));
  RengaCall(Number(r, 1));
  RengaCall(Sort(r));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteRatings(Ratings *r, const char *out_file)
{
  RengaDataWriter output = NULL;
  RengaErrorCode code = PrepareRatings(r);
  if (code == RENGA_SUCCESS) code = RengaDataWriterCreate(out_file, &output);
  if (code == RENGA_SUCCESS) code = WriteSamples(r, output);
  code = RengaDataWriterClose(&output, code);
  RengaFree(&r->rating);
  RengaFree(&r->sorted);
  RengaFree(&r->user_first);
  for (int which = 0; which < 2; which++) RengaFree(&r->names[which]);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaDataWriteRatings - make a set for recommending from a list of ratings

   Collective; rank 0 works

   Input:
   . text_file - lines of user, item and, if it likes, a rating. Commas, semicolons, tabs, colons,
     double colons or blanks stand between them, in all lines alike. The first may be a heading,
     without numbers
   . out_file - the HDF5 file to make; replaced when the new one is whole
   . negatives - items that the user has not rated, for each one rated; 0: labels are the ratings
   . seed - any number: it decides which samples are drawn

   Output:
   . numbers - [3], the numbers of users, items and samples. Rank 0 knows them

   Errors: RENGA_ERR_ARGUMENT for a number of negatives that cannot be; RENGA_ERR_FILE_OPEN,
   RENGA_ERR_FILE_FORMAT or RENGA_ERR_FILE_WRITE where a file cannot be read or written. All
   ranks have the error.

   Notes: datasets user and item (numbers from 0) and label [N] of the group training; users and
   items, the names that they have in the text. Labels are 1 and 0 where there are negatives, else
   the ratings, or 1 where a line has none.

   See also: RengaDataSetFile()
@*/
RengaErrorCode RengaDataWriteRatings(RengaComm comm, const char *text_file, const char *out_file,
                                     int64_t negatives, uint64_t seed, int64_t numbers[3])
{
  RengaCheckPointers(comm, text_file, out_file);
  Ratings r = {.name = text_file, .negatives = negatives, .seed = seed};
  MPI_Comm mpi;
  int rank;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(comm, &mpi));
  RengaCheck(negatives >= 0 && negatives <= 10000, mpi, RENGA_ERR_ARGUMENT,
             "%lld negatives for each rating; 0 to 10000 are possible", (long long)negatives);
  RengaCallMPI(MPI_Comm_rank(mpi, &rank));
  if (rank == 0) code = WriteRatings(&r, out_file);
  RengaCall(RengaErrorAgree(mpi, code));
  if (numbers != NULL) {
    numbers[0] = r.n_names[0];
    numbers[1] = r.n_names[1];
    numbers[2] = r.samples;
  }
  return RENGA_SUCCESS;
}
