/* Random numbers that are the same in every run. */
#pragma once
#include <stdint.h>

static uint64_t state = 88172645463325252u;

static double Random(void)
{
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (double)(state >> 11) / 9007199254740992.0;
}

static int RandomBelow(int n)
{
  return (int)(Random() * n);
}
