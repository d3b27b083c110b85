/* TEST ranks: 1 */
/* Lists of attributes: set, replace, remove, copy, compare; defaults from the operator's row. */
#include "../plan/plantest.h"
#include "renga/private/fault.h"
#include "renga/private/op.h"
#include <math.h>

static RengaErrorCode Fill(RengaAttributes *attributes)
{
  const int64_t ints[] = {2, 0, 1};
  const double reals[] = {0.5, -1};
  RengaCall(RengaAttributesSetInt(attributes, "axis", 1));
  RengaCall(RengaAttributesSetInt(attributes, "axis", -2));
  RengaCall(RengaAttributesSetInts(attributes, "perm", 3, ints));
  RengaCall(RengaAttributesSetReal(attributes, "epsilon", 1e-3));
  RengaCall(RengaAttributesSetReals(attributes, "scales", 2, reals));
  RengaCall(RengaAttributesSetString(attributes, "mode", "edge"));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckValues(void)
{
  RengaAttributes attributes = {0};
  int count;
  RengaCall(Fill(&attributes));
  TestTrue(attributes.count == 5);
  TestTrue(RengaAttributesInt(&attributes, "axis", 7) == -2);
  TestTrue(RengaAttributesInt(&attributes, "none", 7) == 7);
  TestTrue(RengaAttributesInt(&attributes, "mode", 7) == 7);
  TestTrue(RengaAttributesReal(&attributes, "epsilon", 0) == 1e-3);
  TestTrue(RengaAttributesReal(NULL, "epsilon", 2) == 2);
  TestTrue(strcmp(RengaAttributesString(&attributes, "mode", ""), "edge") == 0);
  const int64_t *ints = RengaAttributesInts(&attributes, "perm", &count);
  TestTrue(count == 3 && ints[0] == 2 && ints[2] == 1);
  TestTrue(RengaAttributesInts(&attributes, "axes", &count) == NULL && count == 0);
  const RengaAttribute *scales = RengaAttributesFind(&attributes, "scales");
  TestTrue(scales && scales->kind == RENGA_ATTRIBUTE_REALS && scales->reals[1] == -1);
  RengaCall(RengaAttributesRemove(&attributes, "perm"));
  RengaCall(RengaAttributesRemove(&attributes, "perm"));
  TestTrue(attributes.count == 4 && !RengaAttributesFind(&attributes, "perm"));
  TestTrue(RengaAttributesInt(&attributes, "axis", 0) == -2);
  RengaCall(RengaAttributesFree(&attributes));
  TestTrue(attributes.count == 0);
  return RENGA_SUCCESS;
}

/* Of a copy that fails nothing is left. */
static RengaErrorCode CheckFailingCopies(void)
{
  RengaAttributes a = {0}, b = {0};
  RengaErrorCode code = RENGA_ERR_MEMORY;
  int64_t failed = 0;
  RengaCall(Fill(&a));
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  for (int64_t n = 1; code && n < 100; n++) {
    char left[200];
    const unsigned mark = RengaMemoryGetMark();
    RengaFaultSet(RENGA_FAULT_ALLOCATION, n);
    code = RengaAttributesCopy(&a, &b);
    RengaFaultSet(RENGA_FAULT_ALLOCATION, 0);
    if (!code) break;
    TestTrue(code == RENGA_ERR_MEMORY && b.count == 0);
    TestTrue(RengaMemoryListSince(mark, sizeof left, left) == 0);
    failed++;
  }
  RengaErrorSetHandler(NULL, NULL);
  TestTrue(failed == 1 && RengaAttributesEqual(&a, &b)); /* a copy is one block */
  RengaCall(RengaAttributesFree(&a));
  RengaCall(RengaAttributesFree(&b));
  return RENGA_SUCCESS;
}

/* A copy is changed under a name of its own; where that fails nothing is left of it. */
static RengaErrorCode CheckFailingChanges(void)
{
  RengaAttributes a = {0}, b = {0};
  RengaErrorCode code = RENGA_ERR_MEMORY;
  int64_t failed = 0;
  RengaCall(Fill(&a));
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  for (int64_t n = 1; code; n++) {
    char left[200];
    const unsigned mark = RengaMemoryGetMark();
    RengaCall(RengaAttributesCopy(&a, &b));
    RengaFaultSet(RENGA_FAULT_ALLOCATION, n);
    code = n % 2 ? RengaAttributesRemove(&b, b.row[1].name)
                 : RengaAttributesSetInts(&b, b.row[1].name, b.row[1].count, b.row[1].ints);
    RengaFaultSet(RENGA_FAULT_ALLOCATION, 0);
    if (!code) RengaCall(RengaAttributesFree(&b));
    TestTrue(b.count == 0);
    TestTrue(RengaMemoryListSince(mark, sizeof left, left) == 0);
    failed += code != 0;
  }
  RengaErrorSetHandler(NULL, NULL);
  TestTrue(failed > 2);
  RengaCall(RengaAttributesFree(&a));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckCopies(void)
{
  RengaAttributes a = {0}, b, empty = {0};
  RengaCall(Fill(&a));
  RengaCall(RengaAttributesCopy(&a, &b));
  TestTrue(RengaAttributesEqual(&a, &b) && RengaAttributesEqual(&empty, NULL));
  const uint64_t hash = RengaAttributesHash(&a, NULL, 1),
                 but_axis = RengaAttributesHash(&a, "axis", 1);
  TestTrue(RengaAttributesHash(&b, NULL, 1) == hash && RengaAttributesHash(&b, NULL, 2) != hash);
  RengaCall(RengaAttributesRemove(&b, "axis"));
  TestTrue(!RengaAttributesEqual(&a, &b) && !RengaAttributesEqual(&a, NULL));
  TestTrue(RengaAttributesHash(&b, NULL, 1) == but_axis && but_axis != hash);
  RengaCall(RengaAttributesSetInt(&b, "axis", -2)); /* now in another order */
  TestTrue(RengaAttributesEqual(&a, &b));
  RengaCall(RengaAttributesSetString(&b, "mode", "wrap"));
  TestTrue(!RengaAttributesEqual(&a, &b));
  RengaCall(RengaAttributesSetReal(&b, "mode", 1));
  TestTrue(!RengaAttributesEqual(&a, &b));
  RengaCall(RengaAttributesFree(&a));
  RengaCall(RengaAttributesFree(&b));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckDefaults(void)
{
  RengaAttributes attributes = {0};
  RengaOpCall call = {.op = RengaOperatorFind("Clip"), .attributes = &attributes};
  TestTrue(RengaOpCallReal(&call, "min") == -INFINITY && RengaOpCallReal(&call, "max") == INFINITY);
  RengaCall(RengaAttributesSetReal(&attributes, "max", 6));
  TestTrue(RengaOpCallReal(&call, "max") == 6);
  call.op = RengaOperatorFind("CrossEntropy");
  call.attributes = NULL;
  TestTrue(RengaOpCallInt(&call, "axis") == -1);
  TestTrue(RengaOpCallInt(&call, "ignore_index") == INT64_MIN);
  call.op = RengaOperatorFind("Pad");
  int count;
  TestTrue(RengaOpCallInts(&call, "pads", &count) == NULL && count == 0);
  TestTrue(strcmp(RengaOpCallString(&call, "mode"), "") == 0);
  RengaCall(RengaAttributesFree(&attributes));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(CheckValues());
  RengaCallAbort(CheckCopies());
  RengaCallAbort(CheckFailingCopies());
  RengaCallAbort(CheckFailingChanges());
  RengaCallAbort(CheckDefaults());
  RengaCallAbort(RengaFinalize());
  return 0;
}
