/* What dividing a network and naming its parts share. */
#pragma once
#include "graphimpl.h"

/* While the parts are built; all lists are scratch of the graph. */
struct RengaGraphParts {
  RengaGraphDivision division;
  bool building;
  char prefix[32];                  /* of the names of the part that is built */
  int done;                         /* parts */
  RengaValue *scores, *logs, *loss; /* of each part */
};
