/* TEST ranks: 1 */
/* Memory: zeroed, aligned, counted, limited; objects with references; types by name. */
#include "../check.h"
#include "renga/private/object.h"
#include "renga/private/limit.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

static RengaErrorCode PutLine(const char *folder, const char *name, const char *line)
{
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  Expect(file != NULL);
  Expect(fprintf(file, "%s\n", line) > 0 && fclose(file) == 0);
  return RENGA_SUCCESS;
}

/* Limits of control groups: the least of a group and those around it, of both versions. */
static RengaErrorCode TestLimits(void)
{
  static const char *const folders[] = {"", "/job", "/job/step", "/memory", "/memory/job"};
  static const char *const files[] = {"/job/memory.max", "/job/step/memory.max",
                                      "/memory/job/memory.limit_in_bytes", "/groups"};
  char root[] = "limits-XXXXXX", path[512];
  Expect(mkdtemp(root) != NULL);
  for (int i = 1; i < 5; i++) {
    snprintf(path, sizeof path, "%s%s", root, folders[i]);
    Expect(mkdir(path, 0700) == 0);
  }
  RengaCall(PutLine(root, "groups", "0::/job/step"));
  snprintf(path, sizeof path, "%s/groups", root);
  Expect(RengaGroupLimit_Private(path, root) == SIZE_MAX);
  Expect(RengaGroupLimit_Private("no-such-file", root) == SIZE_MAX);
  RengaCall(PutLine(root, "job/memory.max", "4096000"));
  RengaCall(PutLine(root, "job/step/memory.max", "max"));
  Expect(RengaGroupLimit_Private(path, root) == 4096000);
  RengaCall(PutLine(root, "job/step/memory.max", "8192"));
  Expect(RengaGroupLimit_Private(path, root) == 8192);
  RengaCall(PutLine(root, "groups", "5:cpu:/other\n4:hugetlb,memory:/job"));
  Expect(RengaGroupLimit_Private(path, root) == SIZE_MAX);
  RengaCall(PutLine(root, "memory/job/memory.limit_in_bytes", "12345"));
  Expect(RengaGroupLimit_Private(path, root) == 12345);
  Expect(RengaHostMemory_Private() > 0 && RengaHostMemory_Private() < SIZE_MAX);
  for (int i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "%s%s", root, files[i]);
    remove(path);
  }
  for (int i = 5; i-- > 0;) {
    snprintf(path, sizeof path, "%s%s", root, folders[i]);
    rmdir(path);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TestMemory(void)
{
  RengaCall(TestBlocks());
  RengaCall(TestObjects());
  RengaCall(TestTypes());
  RengaCall(TestLimits());
  return RENGA_SUCCESS;
}

TEST_MAIN(TestMemory)
