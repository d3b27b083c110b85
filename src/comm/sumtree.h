/* What the tree and its exchange know of each other. */
#pragma once
#include "rengacomm.h"

/* How many times the last two of the pieces merge, one after the other. */
int RengaCommTreeMerges(int64_t n_leaves, int count, const RengaPartialSum pieces[]);
