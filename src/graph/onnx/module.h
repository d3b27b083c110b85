/* Parameters that are lost, and the modules that they are of. */
#pragma once
#include "onnx.h"

typedef struct {
  int count;
  RengaOnnxBinding **parameter; /* in importer->placeholders; NULL: taken */
} RengaOnnxLost;

/* The parameters of a calculation, and those that take their places. */
enum { RENGA_ONNX_OWNERS_MAX = 8 };
typedef struct {
  int count;
  const RengaOnnxBinding *old[RENGA_ONNX_OWNERS_MAX];
  RengaOnnxBinding *other[RENGA_ONNX_OWNERS_MAX];
} RengaOnnxOwners;

/* Whose forward wrote a node: a.b of "['', 'a', 'a.b', 'linear_3']", its class, and the lines of
   Python, or NULL. */
typedef struct {
  char *module, *type, *trace;
} RengaOnnxOrigin;

size_t RengaOnnxModuleLength(const char *target);
const char *RengaOnnxLastName(const char *target);
bool RengaOnnxIsInside(const char *inner, const char *outer, size_t length);
RengaErrorCode RengaOnnxReadOrigin(RengaOnnxImporter *importer, const Onnx__NodeProto *node,
                                   RengaOnnxOrigin *origin);
RengaErrorCode RengaOnnxFindLost(RengaOnnxImporter *importer, RengaOnnxLost *lost);
int RengaOnnxLostIn(const RengaOnnxLost *lost, const char *module, size_t length, const char *name);
/* Does the reader, or a line of Python that led to it, belong to a module that lost a parameter? */
bool RengaOnnxNamesLost(const RengaOnnxLost *lost, const RengaOnnxOrigin *reader);
bool RengaOnnxIsLikeLost(const RengaOnnxLost *lost, const RengaOnnxOwners *parameters);
bool RengaOnnxTakeLost(RengaOnnxLost *lost, RengaOnnxOwners *parameters,
                       const RengaOnnxOrigin *reader, const char *type);
