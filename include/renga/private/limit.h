/* How much memory this process may have. */
#pragma once
#include "rengasys.h"

/* Bytes: the machine's memory, or the least limit of the control groups that the process is in. */
size_t RengaHostMemory_Private(void);
/* That limit, where groups is a file like /proc/self/cgroup and root holds the groups' files;
   SIZE_MAX: none. */
size_t RengaGroupLimit_Private(const char *groups, const char *root);
