/* Ratings in text: which lines are read, as what, and which are refused; none is dropped or changed
   without a word. */
#include "datatest.h"
#include <string.h>
#include <unistd.h>

enum { MOST = 4 };
static const char text_name[] = "ratings.tmp.csv", set_name[] = "ratings.tmp.h5";

static RengaErrorCode PutText(const char *text)
{
  FILE *file = fopen(text_name, "wb");
  Expect(file != NULL);
  fputs(text, file);
  Expect(fclose(file) == 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadLabels(RengaComm comm, int64_t samples, float label[])
{
  const char *const names[] = {"label"};
  const RengaTensorSpec spec = Spec(RENGA_FLOAT32, 0, 0, 0);
  RengaData data;
  int64_t count;
  RengaCall(RengaDataCreate(comm, &data));
  RengaCall(RengaDataSetFile(data, set_name));
  RengaCall(RengaDataSetShuffle(data, false));
  RengaCall(RengaDataSetFields(data, 1, names, &spec, NULL));
  RengaCall(RengaDataSetUp(data));
  RengaCall(RengaDataGetCount(data, RENGA_DATA_TRAINING, &count));
  Expect(count == samples);
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, 0, 0, samples, label));
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRead(RengaComm comm)
{
  static const struct {
    const char *text;
    int64_t users, items, samples;
    float label[MOST];
  } rows[] = {
      {"userId,movieId,rating,timestamp\n1,31,2.5,12\n2,32,4,13\n", 2, 2, 2, {2.5f, 4}},
      {"\xEF\xBB\xBF"
       "1,31,5\n2,32,4\n",
       2,
       2,
       2,
       {5, 4}},
      {"1::31::5::978300760\n1::32::-0.5::978302109\n", 1, 2, 2, {5, -0.5f}},
      {"1:31:5\r\n\r\n2:31:4", 2, 1, 2, {5, 4}},
      {"1,31,5\r2,31,4\r", 2, 1, 2, {5, 4}},
      {"  1 31  5 \n\n2\t 31 4\n", 2, 1, 2, {5, 4}},
      {"user item rating\n1\t31\t5\n", 1, 1, 1, {5}},
      {"\"1\";\"31\";\"5\"\n 2 ; 32 ; 4e0 \n", 2, 2, 2, {5, 4}},
      {"7 8\n7 9\n", 1, 2, 2, {1, 1}},
  };
  for (int i = 0; i < COUNT_OF(rows); i++) {
    int64_t numbers[3];
    float label[MOST];
    RengaCall(PutText(rows[i].text));
    RengaCall(RengaDataWriteRatings(comm, text_name, set_name, 0, 0, numbers));
    Expect(numbers[0] == rows[i].users && numbers[1] == rows[i].items);
    RengaCall(ReadLabels(comm, rows[i].samples, label));
    for (int64_t s = 0; s < rows[i].samples; s++) Expect(label[s] == rows[i].label[s]);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRefused(RengaComm comm)
{
  static const struct {
    const char *text, *message;
  } rows[] = {
      {"1;31;2,5\n2;31;4,0\n", "line 1: a user and an item, whole numbers from 0, and perhaps a "
                               "rating, a number with a point if it is none, are expected, not "
                               "\"1;31;2,5\""},
      {"1,31,,1260759144\n2,31,4,7\n", "line 1: a user and an item"},
      {"1,31,5,7\n2,,31,7\n", "line 2: a user and an item"},
      {"1,31,5\n2,31,\n", "line 2: a user and an item"},
      {"x1,31,5\n2,31,4\n", "line 1: a user and an item"},
      {"1,31,5\n\n2,31\n", "line 3: 2 cells, but the lines before have 3"},
      {"1 31 5\n2 31 4 7\n", "line 2: 4 cells, but the lines before have 3"},
      {"1 31\n2 31 nan\n", "line 2: 3 cells, but the lines before have 2"},
      {"1 31 5\n2 31 inf\n", "line 2: a user and an item"},
      {"1,31,5 stars\n", "line 1: a user and an item"},
      {"1.5,31,5\n", "line 1: a user and an item"},
      {"-1,31,5\n", "line 1: a user and an item"},
      {"1:31,5\n", "line 1: a user and an item"},
      {"movie,user,rating\n31,1,5\n", "line 1: column 2 is named user, but the columns of user, "
                                      "item and rating must be the first three, in this order"},
      {"UserID,ItemID,Timestamp,Rating\n1,31,978300760,5\n", "line 1: column 4 is named Rating"},
      {"1,\"31,5\n", "a quote that opens at line 1 is never closed"},
      {"user,item\n", "has no line of ratings"},
      {"", "has no line of ratings"},
  };
  for (int i = 0; i < COUNT_OF(rows); i++) {
    RengaCall(PutText(rows[i].text));
    ExpectError(RengaDataWriteRatings(comm, text_name, "ratings-refused.h5", 0, 0, NULL),
                RENGA_ERR_FILE_FORMAT, rows[i].message);
    Expect(access("ratings-refused.h5", F_OK) != 0);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(CheckRead(comm));
  RengaCall(CheckRefused(comm));
  unlink(text_name);
  unlink(set_name);
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
