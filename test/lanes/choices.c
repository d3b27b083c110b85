/* What a layout's number chooses besides its ranks, the same for ever, so that all that may come
   up can be tried beforehand. */
#include "cases.h"

static uint32_t Mix(uint32_t x)
{
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  x *= 3266489917u;
  return x ^ x >> 16;
}

/* Some networks begin with nodes that no cut may leave alone. */
static void ChooseCuts(uint32_t draw, int stages, int nodes, size_t size, char options[])
{
  const int first = 3 + (int)(draw % (uint32_t)(nodes / 2));
  const int second = first + 1 + (int)(draw / 1000 % (uint32_t)(nodes - first - 1));
  if (stages == 2)
    snprintf(options, size, " -partition_type manual -partition_cuts %d,%d", second,
             nodes - second);
  else
    snprintf(options, size, " -partition_type manual -partition_cuts %d,%d,%d", first,
             second - first, nodes - second);
}

void Choose(int number, int stages, int nodes, size_t size, char options[])
{
  static const char *const several[] = {"interleaved", "zb-v", "dualpipe-v", "1f1b"};
  static const char *const one[] = {"1f1b", "gpipe", "zb-h1"};
  const uint32_t draw = Mix((uint32_t)number * 2654435761u), other = Mix(draw);
  const char *recompute = draw >> 8 & 1 ? "full" : "auto";
  char cuts[128] = "";
  if (draw % 5 == 2) {
    snprintf(options, size,
             "-layout_recompute %s -schedule_type %s -layout_chunks 2 -partition_type even",
             recompute, several[draw >> 16 & 3]);
    return;
  }
  if (stages > 1 && draw >> 9 & 1)
    ChooseCuts(other, stages, nodes, sizeof cuts, cuts);
  else
    snprintf(cuts, sizeof cuts, " -partition_type even");
  snprintf(options, size, "-layout_recompute %s -schedule_type %s%s", recompute,
           one[(draw >> 16) % 3], cuts);
}
