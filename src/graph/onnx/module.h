/* Parameters that are lost, and the modules that they are of. */
#pragma once
#include "onnx.h"

typedef struct {
  int count;
  RengaOnnxBinding **parameter; /* in importer->placeholders; NULL: taken */
} RengaOnnxMissing;

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
RengaErrorCode RengaOnnxFindMissing(RengaOnnxImporter *importer, RengaOnnxMissing *lost);
int RengaOnnxMissingIn(const RengaOnnxMissing *lost, const char *module, size_t length,
                       const char *name);
/* Does the reader, or a line of Python that led to it, belong to a module that lost a parameter? */
bool RengaOnnxNamesMissing(const RengaOnnxMissing *lost, const RengaOnnxOrigin *reader);
bool RengaOnnxIsLikeMissing(const RengaOnnxMissing *lost, const RengaOnnxOwners *parameters);
bool RengaOnnxTakeMissing(RengaOnnxMissing *lost, RengaOnnxOwners *parameters,
                          const RengaOnnxOrigin *reader, const char *type);

/* nodecopies.c: the call of a copy, with other parameters and another result; the list of a folded
   value, of which one name is another; a node with its own lists of names. */
RengaErrorCode RengaOnnxRenameCall(RengaOnnxImporter *importer, const char *call,
                                   const RengaOnnxOwners *parameters, const char *result,
                                   char **renamed);
RengaErrorCode RengaOnnxRenameList(RengaOnnxImporter *importer, const char *list,
                                   const RengaOnnxOwners *parameters, char **renamed);
RengaErrorCode RengaOnnxCopyProto(RengaOnnxImporter *importer, const Onnx__NodeProto *from,
                                  Onnx__NodeProto **to);

bool RengaOnnxIsMoved(const RengaOnnxBinding *folded); /* foldedparameters.c */

/* detached.c. calls: row is the first node of each; next[i]: the node after node i, or -1 */
RengaErrorCode RengaOnnxCheckStopped(RengaOnnxImporter *importer, const RengaOnnxScope *calls,
                                     const int next[]);
