/* Failures on purpose, for tests. */
#include "renga/private/fault.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const fault_names[RENGA_FAULT_KINDS] = {"allocation", "message", "file"};
static atomic_llong fault_count[RENGA_FAULT_KINDS], fault_due[RENGA_FAULT_KINDS];
atomic_bool RengaFaultsAreCounted;

void RengaFaultSet(RengaFaultKind kind, int64_t n)
{
  fault_count[kind] = 0;
  fault_due[kind] = n;
  RengaFaultsAreCounted = true;
}

int64_t RengaFaultGetCount(RengaFaultKind kind)
{
  return fault_count[kind];
}

bool RengaFaultCount(RengaFaultKind kind)
{
  const long long due = fault_due[kind];
  const long long count = atomic_fetch_add_explicit(&fault_count[kind], 1, memory_order_relaxed);
  return due > 0 && count + 1 == due;
}

int RengaFaultRefuse(void)
{
  errno = EIO;
  return -1;
}

void RengaFaultReadEnvironment(int rank)
{
  const char *text = getenv("RENGA_FAULT"), *colon = text ? strchr(text, ':') : NULL;
  for (int k = 0; colon && k < RENGA_FAULT_KINDS; k++) {
    const size_t length = (size_t)(colon - text);
    char *end;
    if (strlen(fault_names[k]) != length || strncmp(fault_names[k], text, length) != 0) continue;
    const long long n = strtoll(colon + 1, &end, 10);
    if (*end != ':' || atoi(end + 1) == rank) RengaFaultSet((RengaFaultKind)k, n);
  }
}
