/* What a call has to do: products or other arithmetic, and the bytes that it cannot avoid. */
#include "profileimpl.h"
#include <string.h>

/* Operators whose work is products of matrices. */
static const char *const matrix_names[] = {
    "Linear",        "LinearGradInput", "LinearGradWeight", "MatMul",        "Conv",
    "ConvGradInput", "ConvGradWeight",  "Attention",        "AttentionGrad", "RNNCells",
    "LSTMCells",     "GRUCells",        "RNNCellsGrad",     "LSTMCellsGrad", "GRUCellsGrad",
};

/* Operators that read of their first input only what they return. */
static const char *const picking_names[] = {"Gather", "GatherElements", "GatherND", "Slice"};

static bool IsOneOf(const char *name, size_t count, const char *const names[])
{
  for (size_t i = 0; i < count; i++)
    if (strcmp(name, names[i]) == 0) return true;
  return false;
}

bool RengaProfileIsMatrix_Private(const RengaOpCall *call)
{
  return IsOneOf(call->op->name, sizeof matrix_names / sizeof *matrix_names, matrix_names);
}

double RengaProfileBytes_Private(const RengaOpCall *call)
{
  const double bytes = RengaOperatorBytes(call);
  if (!IsOneOf(call->op->name, sizeof picking_names / sizeof *picking_names, picking_names))
    return bytes;
  const double table = (double)RengaTensorSpecBytes(&call->in[0]);
  const double picked = (double)RengaTensorSpecBytes(&call->out[0]);
  return bytes - table + (picked < table ? picked : table);
}
