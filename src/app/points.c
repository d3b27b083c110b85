/* Fewer and fewer of more and more points. */
#include "points.h"

void AppPointsAdd(AppPoints *points, const AppPoint *point)
{
  if (points->stride == 0) points->stride = 1;
  if (points->seen++ % points->stride != 0) return;
  if (points->count == MOST_POINTS) {
    for (int i = 0; i < MOST_POINTS / 2; i++) points->point[i] = points->point[2 * i];
    points->count = MOST_POINTS / 2;
    points->stride *= 2;
  }
  points->point[points->count++] = *point;
}
