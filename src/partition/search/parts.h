/* Parameters of which lanes have parts (RengaPlanFindParts_Private), in the chain (parts.c). */
#pragma once
#include "search.h"

bool RengaSearchCutsIntoParts_Private(RengaGraph graph, int n, const int parts[]);
void RengaSearchLeaveCopiesOut_Private(const SearchTask *task, const int parts[]);
/* Elements of the parts that a node makes, and that are not where the costs are of. */
typedef double SearchElsewhere(const void *user, const RengaGraphNode *split);
void RengaSearchLeavePartsOut_Private(SearchChain *chain, const int parts[],
                                      SearchElsewhere *elsewhere, const void *user);
/* The ranks that compute a replica of a stage. */
RengaLaneGroup RengaSearchGroupOf_Private(const SearchTask *task);
const char *RengaSearchKindOfRanks_Private(const SearchTask *task); /* "tensor-parallel" */
/* terms.c: of the bytes that tensor ranks give each other in the runtime those that the machine's
   all-reduces do. */
RengaErrorCode RengaSearchAllReduceShare_Private(const SearchTask *task, double *share);
