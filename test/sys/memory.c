/* TEST ranks: 1 */
/* Memory: zeroed, aligned, counted; objects with references; types by name. */
#include "../check.h"
#include "renga/private/object.h"
#include <string.h>

static RengaErrorCode TestBlocks(void)
{
  size_t before, during, peak;
  int64_t blocks_before, blocks;
  RengaMemoryGetUsage(&before, NULL, &blocks_before);
  for (size_t count = 0; count < 300; count++) {
    char *bytes;
    RengaCall(RengaMalloc(count, &bytes));
    Expect(bytes != NULL && (uintptr_t)bytes % 64 == 0);
    for (size_t i = 0; i < count; i++) Expect(bytes[i] == 0);
    memset(bytes, 1, count);
    RengaCall(RengaRealloc(2 * count + 1, &bytes));
    for (size_t i = 0; i <= 2 * count; i++) Expect(bytes[i] == (i < count));
    RengaCall(RengaRealloc(count / 2, &bytes));
    RengaMemoryGetUsage(&during, &peak, &blocks);
    Expect(during == before + count / 2 && peak >= during && blocks == blocks_before + 1);
    RengaFree(&bytes);
    Expect(bytes == NULL);
    RengaFree(&bytes);
  }
  RengaMemoryGetUsage(&during, NULL, &blocks);
  Expect(during == before && blocks == blocks_before);
  Expect(RengaMemoryResident() > 0);
  return RENGA_SUCCESS;
}

typedef struct _p_Thing {
  struct _p_RengaObject hdr;
  int *destroyed;
} * Thing;

static RengaErrorCode DestroyThing(void *object)
{
  ++*((Thing)object)->destroyed;
  return RENGA_SUCCESS;
}

static RengaErrorCode TestObjects(void)
{
  Thing parent, child, again;
  int parents = 0, children = 0;
  MPI_Comm comm;
  RengaCall(RengaHeaderCreate(NULL, "Thing", sizeof *parent, DestroyThing, &parent));
  parent->hdr.comm = MPI_COMM_SELF;
  parent->destroyed = &parents;
  RengaCall(RengaHeaderCreate(parent, "Thing", sizeof *child, DestroyThing, &child));
  child->destroyed = &children;
  RengaCall(RengaObjectGetComm(child, &comm));
  Expect(comm == MPI_COMM_SELF);
  RengaCall(RengaObjectSetName(child, "small"));
  RengaCall(RengaObjectSetName(child, "smaller"));
  Expect(strcmp(child->hdr.name, "smaller") == 0);
  RengaCall(RengaHeaderSetTypeName(child, "kind"));
  again = child;
  RengaCall(RengaHeaderReference(again));
  RengaCall(RengaHeaderDestroy(&child));
  Expect(child == NULL && children == 0);
  RengaCall(RengaHeaderDestroy(&parent));
  Expect(parent == NULL && parents == 0); /* the child holds it */
  RengaCall(RengaHeaderDestroy(&again));
  Expect(children == 1 && parents == 1);
  RengaCall(RengaHeaderDestroy(&again));
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateKind(void *object)
{
  (void)object;
  return RENGA_SUCCESS;
}

static RengaErrorCode TestTypes(void)
{
  static const RengaTypeRow rows[] = {{"ref", CreateKind, NULL}, {"cpu", CreateKind, NULL}, {0}};
  const RengaTypeRow *row = NULL;
  RengaCall(RengaTypeFind("Device", rows, "cpu", &row));
  Expect(row == &rows[1]);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestMemory(void)
{
  RengaCall(TestBlocks());
  RengaCall(TestObjects());
  RengaCall(TestTypes());
  return RENGA_SUCCESS;
}

TEST_MAIN(TestMemory)
