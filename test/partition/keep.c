/* What a stage keeps and what it makes again, against all choices of small random stages; layers
   that repeat, as many as a large network has; what is not looked at to the end keeps a true
   bound; what makes no sense is refused. */
#include "../check.h"
#include "renga/private/keep.h"
#include <math.h>

enum { ITEMS_MOST = 10, VALUES_MOST = 16, NEEDS_MOST = 64, STAGES = 300, LAYERS = 96 };

typedef struct {
  RengaKeepProblem problem;
  double seconds[ITEMS_MOST];
  int maker[VALUES_MOST], first[ITEMS_MOST + 1], need[NEEDS_MOST];
  bool read[VALUES_MOST];
  int64_t price[VALUES_MOST];
} Stage;

static uint64_t drawn;

static double DrawShare(void)
{
  float share;
  RengaRandomUniform(7, 0, drawn++, 1, &share);
  return (double)share;
}

static int Draw(int count)
{
  return (int)(DrawShare() * count);
}

/* Values 0 and 1 are always there. Some have a price that others have too, and some items take no
   time or have seconds that others have too, so that choices tie. */
static void MakeStage(Stage *stage)
{
  int values = 2, needs = 0;
  const int items = 1 + Draw(ITEMS_MOST), readable = 30 + Draw(70), far = 1 + Draw(VALUES_MOST);
  int64_t all = 0;
  *stage = (Stage){.maker = {-1, -1}, .read = {false, true}, .price = {5, 5}};
  for (int i = 0; i < items; i++) {
    stage->first[i] = needs;
    for (int n = 1 + Draw(3); n > 0; n--)
      stage->need[needs++] = values - 1 - Draw(values < far ? values : far);
    for (int o = Draw(8) ? 1 : 2; o > 0 && values < VALUES_MOST; o--, values++) {
      stage->maker[values] = i;
      stage->read[values] = Draw(100) < readable;
      stage->price[values] = Draw(9) ? 1 + Draw(Draw(2) ? 4 : 100) : stage->read[values] - 1;
      all += stage->price[values] > 0 ? stage->price[values] : 0;
    }
    stage->seconds[i] = Draw(3) ? Draw(6) : DrawShare();
  }
  stage->first[items] = needs;
  stage->problem = (RengaKeepProblem){.items = items,
                                      .values = values,
                                      .seconds = stage->seconds,
                                      .maker = stage->maker,
                                      .read = stage->read,
                                      .price = stage->price,
                                      .first = stage->first,
                                      .need = stage->need,
                                      .bound = Draw((int)all + 2)};
}

/* Straight from what the problem says: an item is run again where something of it that is not there
   is read or needed. HUGE_VAL: the choice cannot be. */
static double SecondsOf(const RengaKeepProblem *problem, unsigned choice)
{
  bool wanted[VALUES_MOST] = {false};
  int64_t bytes = 0;
  double seconds = 0;
  for (int v = 0; v < problem->values; v++) {
    wanted[v] = problem->read[v];
    if (!(choice >> v & 1)) continue;
    if (problem->maker[v] < 0 || problem->price[v] < 0) return HUGE_VAL;
    bytes += problem->price[v];
  }
  for (int i = problem->items - 1; i >= 0; i--) {
    bool again = false;
    for (int v = 0; v < problem->values; v++)
      again = again || (problem->maker[v] == i && wanted[v] && !(choice >> v & 1));
    for (int n = problem->first[i]; again && n < problem->first[i + 1]; n++)
      wanted[problem->need[n]] = true;
    seconds += again ? problem->seconds[i] : 0;
  }
  return bytes <= problem->bound ? seconds : HUGE_VAL;
}

static double BruteSeconds(const RengaKeepProblem *problem)
{
  double least = HUGE_VAL;
  for (unsigned choice = 0; choice < 1u << problem->values; choice += 4)
    least = fmin(least, SecondsOf(problem, choice));
  return least;
}

static RengaErrorCode CheckChoice(const RengaKeepProblem *problem, const RengaKeepResult *result)
{
  double seconds;
  int64_t bytes;
  unsigned choice = 0;
  for (int v = 0; v < problem->values; v++) choice |= (unsigned)result->keep[v] << v;
  RengaCall(RengaKeepEvaluate(problem, result->keep, NULL, &seconds, &bytes));
  Expect(seconds == result->seconds && bytes == result->bytes && bytes <= problem->bound);
  Expect(fabs(SecondsOf(problem, choice) - seconds) <= 1e-12 * (1 + seconds));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckStage(Stage *stage)
{
  RengaKeepResult result;
  const double least = BruteSeconds(&stage->problem);
  RengaCall(RengaKeepSolve(&stage->problem, &result));
  RengaCall(CheckChoice(&stage->problem, &result));
  Expect(result.optimal && result.bound == result.seconds);
  Expect(fabs(result.seconds - least) <= 1e-9 * (1 + least));
  RengaKeepFreeResult(&result);
  stage->problem.point_limit = 1;
  RengaCall(RengaKeepSolve(&stage->problem, &result));
  RengaCall(CheckChoice(&stage->problem, &result));
  Expect(result.bound <= least * (1 + 1e-9) && least <= result.seconds * (1 + 1e-9));
  RengaKeepFreeResult(&result);
  return RENGA_SUCCESS;
}

/* A layer of GPT: normalisation, a product that is cut in three, attention, its projection, dropout
   and sum; normalisation, a product four times as wide, its function, a product, dropout and sum.
   Bytes are of one 8 bit value of each sample, token and channel. */
enum { LAYER_ITEMS = 12 };
static const struct {
  double seconds;
  int64_t price;
  bool read;
  int needs[2]; /* how many values before its own */
} layer[LAYER_ITEMS] = {
    {0.02, 2, true, {1, 0}}, {3.0, 6, false, {1, 0}}, {0.06, 6, true, {1, 0}},
    {1.1, 2, true, {1, 0}},  {1.0, 2, false, {1, 0}}, {0.01, 2, false, {1, 0}},
    {0.02, 2, true, {1, 7}}, {0.02, 2, true, {1, 0}}, {4.0, 8, true, {1, 0}},
    {0.09, 8, true, {1, 0}}, {4.1, 2, false, {1, 0}}, {0.02, 2, true, {1, 5}},
};

static void MakeLayers(int layers, double seconds[], int maker[], bool read[], int64_t price[],
                       int first[], int need[])
{
  int needs = 0;
  maker[0] = -1;
  for (int i = 0; i < layers * LAYER_ITEMS; i++) {
    first[i] = needs;
    for (int n = 0; n < 2; n++)
      if (layer[i % LAYER_ITEMS].needs[n]) need[needs++] = i + 1 - layer[i % LAYER_ITEMS].needs[n];
    seconds[i] = layer[i % LAYER_ITEMS].seconds;
    price[i + 1] = layer[i % LAYER_ITEMS].price;
    read[i + 1] = layer[i % LAYER_ITEMS].read;
    if (!read[i + 1]) price[i + 1] = -1;
    maker[i + 1] = i;
  }
  first[layers * LAYER_ITEMS] = needs;
}

/* Keeping all takes 32 a layer. Bounds in between leave a choice that is proved. */
static RengaErrorCode CheckLayers(int layers)
{
  static double seconds[LAYERS * LAYER_ITEMS];
  static int maker[LAYERS * LAYER_ITEMS + 1], first[LAYERS * LAYER_ITEMS + 1],
      need[2 * LAYERS * LAYER_ITEMS];
  static bool read[LAYERS * LAYER_ITEMS + 1];
  static int64_t price[LAYERS * LAYER_ITEMS + 1];
  RengaKeepProblem problem = {.items = layers * LAYER_ITEMS,
                              .values = layers * LAYER_ITEMS + 1,
                              .seconds = seconds,
                              .maker = maker,
                              .read = read,
                              .price = price,
                              .first = first,
                              .need = need};
  double before = HUGE_VAL;
  MakeLayers(layers, seconds, maker, read, price, first, need);
  for (int part = 0; part <= 10; part++) {
    RengaKeepResult result;
    problem.bound = 32 * layers * part / 10;
    RengaCall(RengaKeepSolve(&problem, &result));
    Expect(result.optimal && result.bytes <= problem.bound && result.seconds <= before);
    Expect(part < 10 || result.seconds == 0);
    before = result.seconds;
    RengaKeepFreeResult(&result);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRefused(void)
{
  static const double seconds[2] = {1, 1}, negative[2] = {1, -1};
  static const int maker[2] = {0, 1}, first[3] = {0, 1, 1}, need[1] = {1};
  static const bool read[2] = {true, true};
  static const int64_t price[2] = {1, 1};
  RengaKeepProblem problem = {.items = 2,
                              .values = 2,
                              .seconds = seconds,
                              .maker = maker,
                              .read = read,
                              .price = price,
                              .first = first,
                              .need = need,
                              .bound = -1};
  RengaKeepResult result;
  ExpectError(RengaKeepSolve(&problem, &result), RENGA_ERR_ARGUMENT, "a bound of -1 bytes");
  problem.bound = 1;
  ExpectError(RengaKeepSolve(&problem, &result), RENGA_ERR_ARGUMENT,
              "item 0 needs value 1, which item 1 makes");
  problem.seconds = negative;
  ExpectError(RengaKeepSolve(&problem, &result), RENGA_ERR_ARGUMENT, "item 1 takes -1 seconds");
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  static const int layers[] = {1, 2, 3, 5, 8, 12, LAYERS};
  for (int s = 0; s < STAGES; s++) {
    Stage stage;
    MakeStage(&stage);
    RengaCall(CheckStage(&stage));
  }
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) RengaCall(CheckLayers(layers[i]));
  RengaCall(CheckRefused());
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
