/* TEST ranks: 1 */
/* Each way of each operator's split rule against the whole call, on ref, with random shapes, uneven
   lanes and coarser or interleaved units: inputs are cut into lanes, the kernel runs on each, and
   what lanes make is put together. To the last bit where outputs are split, close where they are
   sums. */
#include "renga/private/dropout.h"
#include "renga/private/fault.h"
#include "renga/private/ref.h"
#include "renga/private/split.h"
#include "splitcases.h"
#include "splittrial.h"
#include <math.h>

enum { TRIALS = 6 };
static uint64_t dice = 1;
static int ways_checked, refined;

static int64_t Roll(int64_t sides)
{
  dice = dice * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((dice >> 33) % (uint64_t)sides);
}

/* Capitals become extents; 3AB is their product. in_attributes: only after a $. */
static void Substitute(const char *text, const int64_t extent[26], bool in_attributes, char to[256])
{
  size_t at = 0;
  while (*text && at < 200) {
    const char *end = text + (in_attributes && *text == '$');
    const size_t digits = strspn(end, "0123456789");
    const size_t length = strspn(end, "0123456789ABCDEFGHIJ");
    const bool product = length > digits && (!in_attributes || *text == '$');
    if (!product) {
      to[at++] = *text++;
      continue;
    }
    int64_t value = digits ? atoll(end) : 1;
    for (size_t i = digits; i < length; i++) value *= extent[end[i] - 'A'];
    at += (size_t)snprintf(to + at, 256 - at, "%lld", (long long)value);
    text = end + length;
  }
  to[at] = '\0';
}

/* A lane's part of a whole tensor, or back. */
static void MovePart(const RengaTensorSpec *whole, const RengaSplit *split, int lane, int lanes,
                     bool back, char *of_whole, char *of_part)
{
  const RengaTensorSpec part = RengaSplitSpec(whole, split, lane, lanes);
  const size_t size = RengaDataTypeSize(whole->type);
  for (int64_t e = 0; e < RengaTensorSpecCount(&part); e++) {
    char *a = of_whole + (size_t)RengaSplitPlace(whole, split, lane, lanes, e) * size;
    char *b = of_part + (size_t)e * size;
    memcpy(back ? a : b, back ? b : a, size);
  }
}

/* Random terms that add up to the tensor, the last one what is missing. */
static void MakeTerms(const RengaTensorSpec *spec, const float *x, int lanes, void *const part[])
{
  for (int64_t e = 0; e < RengaTensorSpecCount(spec); e++) {
    float left = x[e];
    for (int l = 0; l < lanes - 1; l++) {
      const float term = (float)Roll(1000) / 500 - 1;
      ((float *)part[l])[e] = term;
      left -= term;
    }
    ((float *)part[lanes - 1])[e] = left;
  }
}

/* Node [first, first + n) of the fixed tree of lanes: halves are powers of two. */
static float AddLanes(void *const part[], int64_t element, int first, int n)
{
  int half = 1;
  if (n == 1) return ((const float *)part[first])[element];
  while (2 * half < n) half *= 2;
  return AddLanes(part, element, first, half) + AddLanes(part, element, first + half, n - half);
}

static RengaErrorCode Refuse(const Trial *trial, int output, const char *why)
{
  char text[512];
  RengaOpCallFormat(trial->op, sizeof text, text);
  RengaCheck(false, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%s (%s), %lld units in %d lanes, need %d: output %d %s", text,
             trial->test->attributes, (long long)trial->way->units, trial->lanes,
             (int)trial->way->need, output, why);
  return RENGA_SUCCESS;
}

static RengaErrorCode CutInputs(Trial *trial)
{
  for (int i = 0; i < trial->op->n_in; i++) {
    const RengaTensorSpec *spec = &trial->op->in[i];
    for (int l = 0; l < trial->lanes; l++) {
      trial->in[i][l] = NewTensor(spec);
      if (i == 0 && trial->way->need == RENGA_LANE_WINDOW) {
        RengaCall(CutWindowed(trial, l));
        continue;
      }
      MovePart(spec, &trial->way->in[i], l, trial->lanes, false, trial->call->input[i],
               trial->in[i][l]);
    }
    if (trial->way->in[i].kind != RENGA_SPLIT_SUM) continue;
    Expect(spec->type == RENGA_FLOAT32);
    MakeTerms(spec, trial->call->input[i], trial->lanes, trial->in[i]);
  }
  return RENGA_SUCCESS;
}

/* Numbers are drawn by the place of an element in the whole tensor: here by hand. */
static void DropByPlace(const Trial *trial, int lane, const RengaOpCall *op)
{
  const RengaTensorSpec *whole = &trial->op->out[0];
  const bool drops = op->n_in > 0;
  const RengaDropout dropout =
      RengaDropoutStart(context.seed, context.step, RengaOpCallInt(op, "key"));
  const int64_t per_sample = RengaTensorSpecCount(whole) / whole->dim[0];
  const float ratio = drops ? (float)RengaOpCallReal(op, "ratio") : 0;
  for (int64_t e = 0; e < RengaTensorSpecCount(&op->out[0]); e++) {
    const int64_t place = RengaSplitPlace(whole, &trial->way->out[0], lane, trial->lanes, e);
    const float u =
        RengaDropoutUniform(&dropout, context.sample + place / per_sample, place % per_sample);
    float *y = &((float *)trial->out[0][lane])[e];
    *y = !drops ? u : u < ratio ? 0 : ((const float *)trial->in[0][lane])[e] / (1 - ratio);
    if (op->n_out > 1) ((bool *)trial->out[1][lane])[e] = u >= ratio;
  }
}

/* The lane's call is one that its operator takes, and makes what the way says. */
static RengaErrorCode RunLane(Trial *trial, int lane)
{
  RengaTensorSpec in[MOST], out[MOST], inferred[MOST];
  RengaAttributes attributes = {0};
  RengaOpCall op;
  void *inputs[MOST], *outputs[MOST];
  RengaCall(RengaSplitCall(trial->op, trial->way, lane, trial->lanes, in, out, &attributes, &op));
  memcpy(inferred, out, sizeof out);
  op.out = inferred;
  RengaCall(RengaOperatorInfer(&op));
  for (int o = 0; o < op.n_out; o++)
    if (!RengaTensorSpecEqual(&inferred[o], &out[o]))
      RengaCall(Refuse(trial, o, "has no such part"));
  for (int i = 0; i < op.n_in; i++) inputs[i] = trial->in[i][lane];
  for (int o = 0; o < op.n_out; o++) outputs[o] = trial->out[o][lane];
  if (trial->way->need == RENGA_LANE_PLACE)
    DropByPlace(trial, lane, &op);
  else
    RunRef(&op, inputs, outputs);
  RengaCall(RengaAttributesFree(&attributes));
  return RENGA_SUCCESS;
}

/* Of rows that are looked up all terms but one are zeros. */
static RengaErrorCode CompareSum(const Trial *trial, int o)
{
  const double near = trial->way->need == RENGA_LANE_INDICES ? 0 : 2e-4;
  const RengaTensorSpec *spec = &trial->op->out[o];
  const float *expected = trial->call->output[o];
  const int64_t count = RengaTensorSpecCount(spec);
  double largest = 1;
  for (int64_t e = 0; e < count; e++)
    if (isfinite(expected[e])) largest = fmax(largest, fabs(expected[e]));
  for (int64_t e = 0; e < count; e++) {
    const double sum = AddLanes(trial->out[o], e, 0, trial->lanes);
    const bool outside = !isfinite(expected[e]) && !isfinite(sum); /* asin at 2 */
    if (!outside && !(fabs(sum - expected[e]) <= near * largest))
      RengaCall(Refuse(trial, o, "is another sum"));
  }
  return RENGA_SUCCESS;
}

/* Of a tensor split along a dimension every element is one lane's. */
static RengaErrorCode CompareParts(const Trial *trial, int o)
{
  const RengaTensorSpec *spec = &trial->op->out[o];
  const RengaSplit *split = &trial->way->out[o];
  const size_t bytes = RengaTensorSpecBytes(spec);
  char *together = NewTensor(spec);
  int64_t count = 0;
  memset(together, 0xa5, bytes);
  for (int l = 0; l < trial->lanes; l++) {
    const RengaTensorSpec part = RengaSplitSpec(spec, split, l, trial->lanes);
    count += RengaTensorSpecCount(&part);
    MovePart(spec, split, l, trial->lanes, true, together, trial->out[o][l]);
  }
  const bool same = trial->way->need == RENGA_LANE_STATISTICS
                        ? IsNear(RengaTensorSpecCount(spec), (const float *)(const void *)together,
                                 trial->call->output[o])
                        : memcmp(together, trial->call->output[o], bytes) == 0;
  RengaFree(&together);
  if (split->kind == RENGA_SPLIT_ALONG && count != RengaTensorSpecCount(spec))
    RengaCall(Refuse(trial, o, "is not cut into its elements"));
  if (!same) RengaCall(Refuse(trial, o, "differs"));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckWay(const Case *test, const RengaOpCall *op, const Call *call,
                               const RengaSplitWay *way)
{
  Trial trial = {.test = test, .op = op, .call = call, .way = way};
  bool adds = false; /* a lane without units has terms of a sum still, as of a bias */
  trial.lanes = 2 + (int)Roll(MOST_LANES - 1);
  for (int i = 0; i < op->n_in; i++) adds = adds || way->in[i].kind == RENGA_SPLIT_SUM;
  if (way->need == RENGA_LANE_PLACE && op->op->flags & RENGA_OP_PRODUCT) return RENGA_SUCCESS;
  if (way->need == RENGA_LANE_PLACE && strstr(op->op->name, "Attention")) return RENGA_SUCCESS;
  RengaCall(CutInputs(&trial));
  if (way->need == RENGA_LANE_STATISTICS) RengaCall(JoinStatistics(&trial));
  for (int l = 0; l < trial.lanes; l++) {
    int64_t first, count;
    for (int o = 0; o < op->n_out; o++) trial.out[o][l] = NewTensor(&op->out[o]);
    RengaLaneUnits(way->units, l, trial.lanes, &first, &count);
    if (way->units == 0 || count > 0 || adds) RengaCall(RunLane(&trial, l));
  }
  for (int o = 0; o < op->n_out; o++)
    if (way->out[o].kind == RENGA_SPLIT_SUM)
      RengaCall(CompareSum(&trial, o));
    else
      RengaCall(CompareParts(&trial, o));
  for (int t = 0; t < MOST; t++)
    for (int l = 0; l < MOST_LANES; l++) {
      RengaFree(&trial.in[t][l]);
      RengaFree(&trial.out[t][l]);
    }
  ways_checked++;
  return RENGA_SUCCESS;
}

/* A way as it is, and in random units. */
static RengaErrorCode CheckWays(const Case *test, const RengaOpCall *op, const Call *call)
{
  RengaSplitWays ways;
  RengaCall(RengaSplitWaysGet(op, &ways));
  for (int w = 0; w < ways.count; w++) {
    RengaSplitWay *way = &ways.way[w];
    RengaCall(CheckWay(test, op, call, way));
    const int64_t rolled = 1 + Roll(3), unit = 1 + Roll(3);
    const bool follow =
        way->shifted || way->need == RENGA_LANE_WINDOW || way->need == RENGA_LANE_INDICES;
    const int64_t repeat = follow ? 1 : rolled;
    if (way->units == 0 || way->units % (repeat * unit) || repeat * unit == 1) continue;
    RengaCall(RengaSplitWayRefine(way, op, repeat, unit));
    RengaCall(CheckWay(test, op, call, way));
    refined++;
  }
  RengaSplitWaysFree(&ways);
  return RENGA_SUCCESS;
}

/* Extents are drawn anew where a case does not refer to the one before. */
static RengaErrorCode CheckCase(const Case *test, int number, int64_t extent[26], Call *before)
{
  char attributes[256], inputs[256], outputs[256];
  Call call;
  RengaOpCall op;
  if (!strpbrk(test->inputs, "@^"))
    for (int i = 0; i < 26; i++) extent[i] = 1 + Roll(6);
  Substitute(test->attributes, extent, true, attributes);
  Substitute(test->inputs, extent, false, inputs);
  Substitute(test->outputs, extent, false, outputs);
  const Case concrete = {test->op, attributes, inputs, outputs, 0};
  RengaCall(MakeCall(&concrete, number, before, &call, &op));
  for (int o = 0; o < call.n_out; o++) call.output[o] = NewTensor(&call.out[o]);
  RunRef(&op, call.input, call.output);
  RengaCall(CheckWays(&concrete, &op, &call));
  RengaCall(FreeCall(before));
  *before = call;
  return RENGA_SUCCESS;
}

/* Elementwise operators without a case of their own: three dimensions for each input. */
static RengaErrorCode CheckElementwise(const RengaOperator *op, int number, int64_t extent[26],
                                       Call *before)
{
  char inputs[64] = "", word[16];
  for (int i = 0; i < op->min_in; i++) {
    const char type = strchr("Z", op->types[i]) ? 'l' : op->types[i] == 'B' ? 'b' : 'f';
    snprintf(word, sizeof word, "%cA,B,C ", type);
    strcat(inputs, word);
  }
  RengaCall(CheckCase(&(Case){op->name, "", inputs, "1", 0}, number, extent, before));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckOperator(const RengaOperator *op, int trial)
{
  int64_t extent[26] = {0};
  Call before = {.n_in = 0};
  bool any = false;
  for (int c = 0; c < N_CASES; c++) {
    /* a gradient follows what it is of, and refers to it */
    const bool next =
        c + 1 < N_CASES && !strcmp(cases[c + 1].op, op->name) && strpbrk(cases[c + 1].inputs, "@^");
    if (strcmp(cases[c].op, op->name) && !next) continue;
    any = any || !strcmp(cases[c].op, op->name);
    RengaCall(CheckCase(&cases[c], 1000 * trial + c, extent, &before));
  }
  if (!any && op->flags & RENGA_OP_ELEMENTWISE)
    RengaCall(CheckElementwise(op, 1000 * trial, extent, &before));
  else
    RengaCheck(any, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%s has a split rule and no case", op->name);
  RengaCall(FreeCall(&before));
  return RENGA_SUCCESS;
}

/* Operators that stay whole, by name: a new one is decided on. */
static RengaErrorCode CheckWithout(const RengaOperator *op)
{
  static const char *const without[] = {"WholeBatch",
                                        "Range",
                                        "EyeLike",
                                        "BatchSum",
                                        "PackedAttention",
                                        "PackedAttentionGrad",
                                        "AddLayerNormalization",
                                        "AddRMSNormalization",
                                        "BatchNormalizationRelu",
                                        "BatchNormalizationReluGrad"}; /* of stages */
  bool known = false;
  for (size_t i = 0; i < sizeof without / sizeof *without; i++)
    known = known || !strcmp(without[i], op->name);
  RengaCheck(known, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%s has no split rule", op->name);
  return RENGA_SUCCESS;
}

/* Heads of a fused dimension, by hand: queries, keys and values of two lanes of three heads. */
static RengaErrorCode CheckHeads(void)
{
  const RengaTensorSpec fused = {RENGA_FLOAT32, 2, {1, 18}}; /* [T, 3*h*d], h 3, d 2 */
  const RengaSplit heads = {RENGA_SPLIT_ALONG, 1, 3, 2};
  static const int64_t places[] = {2, 3, 4, 5, 8, 9, 10, 11, 14, 15, 16, 17};
  Expect(RengaSplitUnits(&fused, &heads) == 3);
  const RengaTensorSpec second = RengaSplitSpec(&fused, &heads, 1, 2);
  Expect(second.dim[1] == 12);
  for (int e = 0; e < 12; e++) Expect(RengaSplitPlace(&fused, &heads, 1, 2, e) == places[e]);
  return RENGA_SUCCESS;
}

/* Each allocation of a rule fails, in its turn: an error, and nothing is left. */
static RengaErrorCode CheckFaults(void)
{
  RengaTensorSpec in[3] = {
      {RENGA_FLOAT32, 2, {2, 8}}, {RENGA_FLOAT32, 2, {8, 3}}, {RENGA_FLOAT32, 1, {3}}};
  RengaTensorSpec out[1] = {{.ndim = -1}};
  RengaOpCall call = {RengaOperatorFind("Linear"), NULL, 3, 1, in, out};
  RengaSplitWays ways;
  RengaErrorCode code;
  size_t bytes, peak;
  int64_t before, after, n = 0;
  RengaCall(RengaOperatorInfer(&call));
  RengaMemoryGetUsage(&bytes, &peak, &before);
  do {
    FILE *file;
    const int saved = BeginErrors(&file);
    RengaFaultSet(RENGA_FAULT_ALLOCATION, ++n);
    code = RengaSplitWaysGet(&call, &ways);
    RengaFaultSet(RENGA_FAULT_ALLOCATION, 0);
    EndErrors(file, saved);
    if (code == RENGA_SUCCESS) RengaSplitWaysFree(&ways);
    RengaMemoryGetUsage(&bytes, &peak, &after);
    Expect(after == before);
  } while (code != RENGA_SUCCESS);
  Expect(n > 5);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaCall(CheckHeads());
  RengaCall(CheckFaults());
  for (int o = 0; o < RengaOperatorCount(); o++) {
    const RengaOperator *op = RengaOperatorAt(o);
    if (!RengaSplitHasRule(op))
      RengaCall(CheckWithout(op));
    else
      for (int trial = 0; trial < UnlessSlow(TRIALS, 2); trial++)
        RengaCall(CheckOperator(op, trial));
  }
  Expect(ways_checked > 1000 && refined > 100);
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
