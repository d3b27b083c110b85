/* What PyTorch computed: small networks that networks.py made (test/reference/networks), and
   larger ones where there are any (the folder in RENGA_REFERENCE, or ../shared/reference). */
#pragma once
#include "rengaop.h"

typedef enum { REFERENCE_OWN, REFERENCE_LARGER } ReferenceSet;
typedef struct {
  int64_t file; /* hid_t */
  char path[1024];
} Reference;

bool ReferenceIsThere(ReferenceSet set);
RengaErrorCode ReferenceOpen(ReferenceSet set, const char *name,
                             Reference *reference); /* NAME.h5 */
/* path [size] of NAME.onnx */
void ReferenceNetwork(ReferenceSet set, const char *name, size_t size, char path[]);
RengaErrorCode ReferenceClose(Reference *reference);
RengaErrorCode ReferenceReal(const Reference *reference, const char *attribute, double *value);
bool ReferenceHas(const Reference *reference, const char *group, const char *name);
/* The norm of all numbers of all data sets of a group. */
RengaErrorCode ReferenceNorm(const Reference *reference, const char *group, double *norm);
/* Elements [first, first + count) of a data set as the type asks, whatever it is in the file. */
RengaErrorCode ReferenceRead(const Reference *reference, const char *group, const char *name,
                             RengaDataType type, int64_t first, int64_t count, void *data);
