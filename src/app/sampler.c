/* The choice of the next token: of the likeliest k, then of the fewest of these that have a share p
   of the probability, then by chance.

   Fan and others: Hierarchical neural story generation, arXiv 1805.04833 (k); Holtzman and others:
   The curious case of neural text degeneration, arXiv 1904.09751 (p). */
#include "text.h"
#include <math.h>
#include <stdlib.h>

typedef struct _AppCandidate {
  float score;
  int32_t token;
} TokenCandidate;

static int64_t LikeliestToken(const AppSampler *sampler, const float scores[])
{
  int64_t best = sampler->lowest;
  for (int64_t t = best + 1; t < sampler->highest; t++)
    if (scores[t] > scores[best]) best = t;
  return best;
}

/* Of equal scores the smaller token comes first. */
static int CompareCandidates(const void *a, const void *b)
{
  const TokenCandidate *left = a, *right = b;
  if (left->score != right->score) return left->score > right->score ? -1 : 1;
  return left->token < right->token ? -1 : left->token > right->token;
}

/* Weights of what is not among the first become 0; returns the sum of the others. */
static double KeepFirst(const AppSampler *sampler, const float scores[], double sum)
{
  const int64_t count = sampler->highest - sampler->lowest;
  const int64_t most = sampler->top_k > 0 && sampler->top_k < count ? sampler->top_k : count;
  int64_t kept = 0;
  double left = 0, whole = 0;
  if (most == count && sampler->top_p >= 1) return sum;
  for (int64_t i = 0; i < count; i++)
    sampler->candidate[i] =
        (TokenCandidate){scores[sampler->lowest + i], (int32_t)(sampler->lowest + i)};
  qsort(sampler->candidate, (size_t)count, sizeof *sampler->candidate, CompareCandidates);
  for (int64_t i = 0; i < most; i++) whole += sampler->weight[sampler->candidate[i].token];
  while (kept < most && (kept == 0 || left < sampler->top_p * whole))
    left += sampler->weight[sampler->candidate[kept++].token];
  for (int64_t i = kept; i < count; i++) sampler->weight[sampler->candidate[i].token] = 0;
  return left;
}

int64_t AppSamplerChoose(const AppSampler *sampler, const float scores[], uint64_t key,
                         int64_t number)
{
  const int64_t likeliest = LikeliestToken(sampler, scores);
  const double best = (double)scores[likeliest];
  double sum = 0;
  float random;
  if (sampler->temperature <= 0) return likeliest;
  for (int64_t t = sampler->lowest; t < sampler->highest; t++) {
    sampler->weight[t] = exp(((double)scores[t] - best) / sampler->temperature);
    sum += sampler->weight[t];
  }
  sum = KeepFirst(sampler, scores, sum);
  RengaRandomUniform(sampler->seed, key, (uint64_t)number, 1, &random);
  double left = (double)random * sum;
  int64_t chosen = likeliest; /* where rounding leaves nothing */
  for (int64_t t = sampler->lowest; t < sampler->highest && left >= 0; t++) {
    if (sampler->weight[t] <= 0) continue;
    left -= sampler->weight[t];
    chosen = t;
  }
  return chosen;
}

RengaErrorCode AppSamplerCreate(MPI_Comm printer, int64_t lowest, int64_t highest,
                                AppSampler *sampler)
{
  int64_t seed = 0;
  *sampler = (AppSampler){.lowest = lowest, .highest = highest};
  RengaCall(RengaOptionsGetReal("temperature", &sampler->temperature, NULL));
  RengaCall(RengaOptionsGetInt64("generate_top_k", &sampler->top_k, NULL));
  RengaCall(RengaOptionsGetReal("generate_top_p", &sampler->top_p, NULL));
  RengaCall(RengaOptionsGetInt64("seed", &seed, NULL));
  RengaCheck(sampler->top_p > 0, printer, RENGA_ERR_OPTION,
             "-generate_top_p %g is a share of the probability: above 0, at most 1",
             sampler->top_p);
  sampler->seed = (uint64_t)seed;
  RengaErrorCode code = RengaMalloc(highest, &sampler->weight);
  if (!code) code = RengaMalloc(highest - lowest, &sampler->candidate);
  if (code) AppSamplerDestroy(sampler);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void AppSamplerDestroy(AppSampler *sampler)
{
  RengaFree(&sampler->weight);
  RengaFree(&sampler->candidate);
}
