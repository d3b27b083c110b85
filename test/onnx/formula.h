/* A network of one input x [N,4] and one output y against a formula, at a batch size. */
#pragma once
#include "execute.h"

enum { FORMULA_WIDTH = 4, FORMULA_ELEMENTS = 256 };
typedef int64_t (*Formula)(const float x[], int64_t n, double y[]); /* the count of y */
/* Runs the graph, which is set up; an error calls it by name. */
RengaErrorCode RunFormula(RengaGraph graph, RengaDevice device, const char *name, Formula formula,
                          int64_t batch);
/* A device of type ref, set up. */
RengaErrorCode NewFormulaDevice(RengaComm comm, RengaDevice *device);
