/* Failures on purpose, for tests. */
#include "renga/private/fault.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char *const fault_names[RENGA_FAULT_KINDS] = {"allocation", "message", "file"};
static atomic_llong fault_count[RENGA_FAULT_KINDS], fault_due[RENGA_FAULT_KINDS];
static atomic_bool fault_environment_is_read;

/* RENGA_FAULT=KIND:N */
static void ReadFaultEnvironment(void)
{
  const char *text = getenv("RENGA_FAULT"), *colon = text ? strchr(text, ':') : NULL;
  if (atomic_exchange(&fault_environment_is_read, true) || !colon) return;
  for (int k = 0; k < RENGA_FAULT_KINDS; k++)
    if (strlen(fault_names[k]) == (size_t)(colon - text) &&
        strncmp(fault_names[k], text, (size_t)(colon - text)) == 0)
      fault_due[k] = atoll(colon + 1);
}

void RengaFaultSet(RengaFaultKind kind, int64_t n)
{
  atomic_store(&fault_environment_is_read, true);
  fault_count[kind] = 0;
  fault_due[kind] = n;
}

int64_t RengaFaultGetCount(RengaFaultKind kind)
{
  return fault_count[kind];
}

bool RengaFaultIsDue(RengaFaultKind kind)
{
  if (!fault_environment_is_read) ReadFaultEnvironment();
  const long long due = fault_due[kind];
  const long long count = atomic_fetch_add_explicit(&fault_count[kind], 1, memory_order_relaxed);
  return due > 0 && count + 1 == due;
}
