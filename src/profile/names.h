/* Nodes by name, for files of costs: a node's name where no other node has it, otherwise that of
   the first value it makes. */
#pragma once
#include "profileimpl.h"
#include <stdarg.h>

typedef struct {
  int count;
  const char **of_node; /* [count] lent by the network */
  int *sorted;          /* [count] nodes by name */
} ProfileNames;
RengaErrorCode RengaProfileNamesCreate_Private(RengaGraph graph, ProfileNames *names);
void RengaProfileNamesFree_Private(ProfileNames *names);
/* -1: there is none; closest: the one that was probably meant, or NULL. */
int RengaProfileNamesFind_Private(const ProfileNames *names, const char *name,
                                  const char **closest);
