/* What PyTorch computed (../shared/reference, or the folder in RENGA_REFERENCE). */
#pragma once
#include "rengaop.h"

enum { REFERENCE_SKIPPED = 77 };
typedef struct {
  int64_t file; /* hid_t */
  char path[1024];
} Reference;

const char *ReferenceFolder(void);                                    /* NULL where it is absent */
RengaErrorCode ReferenceOpen(const char *name, Reference *reference); /* NAME.h5 */
RengaErrorCode ReferenceClose(Reference *reference);
RengaErrorCode ReferenceReal(const Reference *reference, const char *attribute, double *value);
bool ReferenceHas(const Reference *reference, const char *group, const char *name);
/* Elements [first, first + count) of a data set as the type asks, whatever it is in the file. */
RengaErrorCode ReferenceRead(const Reference *reference, const char *group, const char *name,
                             RengaDataType type, int64_t first, int64_t count, void *data);
