/* A bound from work alone: the least largest work of an accelerator when items are packed like
   weights into bins. Items that a host may take are left out, as are small ones; of a class of
   nearly equal ones all are as small as the smallest, so that a bin's content is a few numbers. All
   of that only lowers what is found. By dynamic programming over how many of each class are
   packed, and bisection. */
#include "exactimpl.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_CLASSES = 16, MOST_STATES = 1024, SMALL = 12, HALVINGS = 40 };

typedef struct {
  int classes, states;
  double size[MOST_CLASSES]; /* of each item of a class */
  int count[MOST_CLASSES];   /* its items */
  int stride[MOST_CLASSES];  /* a state is the sum of packed[c] * stride[c] */
  int *bins;                 /* [states] fewest that hold it */
  int from, most;            /* of the state that goes on; what is tried at most */
  double bound;
} Packing;

static int CompareSizes(const void *left, const void *right)
{
  double a = *(const double *)left, b = *(const double *)right;
  return (a < b) - (a > b);
}

/* Descending; gives how many, of which there are not too many for one class. */
static int ListBinSizes(const Instance *instance, double upper, double size[])
{
  int count = 0;
  for (int v = 0; v < instance->items; v++) {
    const RengaCutsItem *item = &instance->item[v];
    if (item->host_only || (instance->hosts > 0 && item->host_work < upper)) continue;
    if (item->work * SMALL * instance->devices < instance->work) continue;
    size[count++] = item->work;
  }
  qsort(size, (size_t)count, sizeof *size, CompareSizes);
  return count < MOST_STATES ? count : MOST_STATES - 1;
}

/* Classes of sizes no smaller than a share of their largest; false: too many. */
static bool Classify(int count, const double size[], double share, Packing *packing)
{
  double largest = HUGE_VAL;
  packing->classes = 0;
  for (int i = 0; i < count; i++) {
    if (i == 0 || size[i] < share * largest) {
      if (packing->classes == MOST_CLASSES) return false;
      packing->count[packing->classes++] = 0;
      largest = size[i];
    }
    packing->count[packing->classes - 1]++;
    packing->size[packing->classes - 1] = size[i];
  }
  packing->states = 1;
  for (int c = 0; c < packing->classes; c++) {
    packing->stride[c] = packing->states;
    if (packing->states > MOST_STATES / (packing->count[c] + 1)) return false;
    packing->states *= packing->count[c] + 1;
  }
  return true;
}

/* One more bin on top of the state, with all that it may hold of this class and the next ones. */
static void FillBin(Packing *packing, int class, int state, double room)
{
  if (class == packing->classes) {
    int bins = packing->bins[packing->from] + 1;
    if (bins < packing->bins[state]) packing->bins[state] = bins;
    return;
  }
  int packed = state / packing->stride[class] % (packing->count[class] + 1);
  int most = packing->count[class] - packed;
  if (room < most * packing->size[class]) most = (int)(room / packing->size[class]);
  for (int n = most; n >= 0; n--)
    FillBin(packing, class + 1, state + n * packing->stride[class],
            room - n * packing->size[class]);
}

static bool FitsBin(Packing *packing, int bins, double bound)
{
  for (int s = 1; s < packing->states; s++) packing->bins[s] = bins + 1;
  packing->bins[0] = 0;
  for (int s = 0; s < packing->states; s++) {
    if (packing->bins[s] >= bins) continue;
    packing->from = s;
    FillBin(packing, 0, s, bound * (1 + RENGA_CUTS_TOLERANCE));
  }
  return packing->bins[packing->states - 1] <= bins;
}

static void Raise(Packing *packing, int bins, double upper, double *bound)
{
  if (packing->states == 1 || !FitsBin(packing, bins, upper)) return;
  for (int h = 0; h < HALVINGS; h++) {
    double middle = *bound + (upper - *bound) / 2;
    if (FitsBin(packing, bins, middle))
      upper = middle;
    else
      *bound = middle;
  }
}

RengaErrorCode RaiseBoundByPacking(const Instance *instance, double upper, double *bound)
{
  Packing packing = {.classes = 0};
  double *size = NULL;
  if (instance->replicas > 1 || instance->devices == 0 || *bound >= upper) return RENGA_SUCCESS;
  RengaErrorCode code = RengaMalloc(instance->items + 1, &size);
  if (!code) code = RengaMalloc(MOST_STATES, &packing.bins);
  if (!code) {
    const int count = ListBinSizes(instance, upper, size);
    double share = 1;
    while (!Classify(count, size, share, &packing)) share *= 0.98;
    Raise(&packing, instance->devices, upper, bound);
  }
  RengaFree(&size);
  RengaFree(&packing.bins);
  RengaCall(code);
  return RENGA_SUCCESS;
}
