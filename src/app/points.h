/* Numbers of steps, at most so many of them: where there are more every second one is left out,
   then three of four, and so on. */
#pragma once
#include "rengasys.h"

enum { POINT_COLUMNS = 5, MOST_POINTS = 1024 };
typedef struct {
  int64_t step;
  double value[POINT_COLUMNS];
} AppPoint;
typedef struct {
  int count;
  int64_t stride, seen; /* every so manieth of those seen is kept */
  AppPoint point[MOST_POINTS];
} AppPoints;
void AppPointsAdd(AppPoints *points, const AppPoint *point);
