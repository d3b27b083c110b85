/* TEST ranks: 1 */
/* The operator table is whole, its costs are right, and tensor specs say what they are. */
#include "../plan/plantest.h"
#include "renga/private/op.h"
#include "renga/private/ref.h"
#include <math.h>

/* Each type word is a letter per place; names are unique; what is no sum over the batch has a
   kernel. */
static void CheckRow(int index)
{
  const RengaOperator *op = RengaOperatorAt(index);
  TestTrue(RengaOperatorFind(op->name) == op);
  TestTrue(op->shape && op->types && strchr(op->types, '>'));
  TestTrue(strspn(op->types, "TUNMFZIBLS") == (size_t)(strchr(op->types, '>') - op->types));
  TestTrue(op->min_in >= 0 && (op->max_in < 0 || op->max_in >= op->min_in));
  TestTrue(op->min_out >= 1 && (op->max_out < 0 || op->max_out >= op->min_out));
  if (!RengaRefFind(op->name)) {
    fprintf(stderr, "%s has no kernel on ref\n", op->name);
    TestTrue(false);
  }
}

static void CheckTypes(void)
{
  TestTrue(RengaDataTypeSize(RENGA_BFLOAT16) == 2 && RengaDataTypeSize(RENGA_TYPE_COUNT) == 0);
  TestTrue(strcmp(RengaDataTypeName(RENGA_UINT16), "uint16") == 0);
  TestTrue(RengaDataTypeIsFloating(RENGA_FLOAT16) && !RengaDataTypeIsFloating(RENGA_BOOL));
}

/* Each of 16 bits is a float32, whatever it is: the least, the largest, none at all. */
static void CheckWidening(void)
{
  const uint16_t half[] = {0x3E00, 0xC000, 0x0001, 0x7BFF, 0xFC00},
                 brain[] = {0x3FC0, 0xC000, 0x0001};
  float wide[5];
  TestTrue(RengaDataWiden(RENGA_FLOAT16, 5, half, wide) == RENGA_SUCCESS);
  TestTrue(wide[0] == 1.5f && wide[1] == -2 && wide[2] == 0x1p-24f && wide[3] == 65504);
  TestTrue(wide[4] == -INFINITY);
  memcpy(wide, brain, sizeof brain); /* where they are */
  TestTrue(RengaDataWiden(RENGA_BFLOAT16, 3, wide, wide) == RENGA_SUCCESS);
  TestTrue(wide[0] == 1.5f && wide[1] == -2 && wide[2] == 0x1p-133f);
  TestError(RengaDataWiden(RENGA_INT64, 1, wide, wide), RENGA_ERR_SUPPORT, "int64");
  const float exact[] = {1.5F, -2, 0.25F};
  uint16_t narrow[3];
  TestTrue(RengaDataNarrow(RENGA_BFLOAT16, 3, exact, narrow) == RENGA_SUCCESS);
  TestTrue(RengaDataWiden(RENGA_BFLOAT16, 3, narrow, wide) == RENGA_SUCCESS);
  TestTrue(memcmp(wide, exact, sizeof exact) == 0);
  TestError(RengaDataNarrow(RENGA_INT64, 1, exact, narrow), RENGA_ERR_SUPPORT, "int64");
}

static void CheckSpecs(void)
{
  char text[64];
  RengaTensorSpec spec = {RENGA_INT64, 3, {-1, 4, -3}};
  RengaTensorSpecFormat(&spec, sizeof text, text);
  TestTrue(strcmp(text, "int64[N,4,3N]") == 0);
  RengaTensorSpecFormat(&spec, 9, text);
  TestTrue(strcmp(text, "int64[N,") == 0);
  RengaTensorSpec five = RengaTensorSpecAt(&spec, 5);
  TestTrue(five.dim[0] == 5 && five.dim[1] == 4 && five.dim[2] == 15);
  TestTrue(RengaTensorSpecCount(&five) == 300 && RengaTensorSpecBytes(&five) == 2400);
  RengaTensorSpec scalar = {RENGA_FLOAT32, 0, {0}}, absent = {RENGA_FLOAT32, -1, {0}};
  TestTrue(RengaTensorSpecCount(&scalar) == 1 && RengaTensorSpecCount(&absent) == 0);
  RengaTensorSpec other[2] = {spec, scalar}, none = {RENGA_INT64, -1, {0}};
  TestTrue(RengaTensorSpecEqual(&spec, &other[0]) && !RengaTensorSpecEqual(&spec, &five));
  TestTrue(RengaTensorSpecEqual(&absent, &none) && !RengaTensorSpecEqual(&absent, &scalar));
  uint64_t hash = RengaTensorSpecHash(2, other, 1);
  other[0].dim[spec.ndim] = 99; /* beyond the shape */
  TestTrue(RengaTensorSpecHash(2, other, 1) == hash && RengaTensorSpecHash(1, other, 1) != hash);
  TestTrue(RengaTensorSpecHash(1, &absent, 3) == RengaTensorSpecHash(1, &none, 3));
  other[0].type = RENGA_INT32;
  TestTrue(!RengaTensorSpecEqual(&spec, &other[0]) && RengaTensorSpecHash(2, other, 1) != hash);
  RengaTensorSpec huge = {RENGA_FLOAT32, 3, {INT64_MAX, 2, 3}};
  TestTrue(RengaTensorSpecCount(&huge) == INT64_MAX && RengaTensorSpecBytes(&huge) == SIZE_MAX);
  huge.dim[1] = 0;
  TestTrue(RengaTensorSpecCount(&huge) == 0);
}

static void CheckCosts(void)
{
  RengaTensorSpec in[3] = {
      {RENGA_FLOAT32, 3, {2, 8, 16}}, {RENGA_FLOAT32, 2, {16, 32}}, {RENGA_FLOAT32, 1, {32}}};
  RengaTensorSpec out[1] = {{.ndim = -1}};
  RengaOpCall call = {RengaOperatorFind("Linear"), NULL, 3, 1, in, out};
  RengaCallAbort(RengaOperatorInfer(&call));
  TestTrue(RengaOperatorFlops(&call) == 2.0 * 16 * 16 * 32);
  TestTrue(RengaOperatorBytes(&call) == 4.0 * (256 + 512 + 32 + 512));
  char text[128];
  RengaOpCallFormat(&call, sizeof text, text);
  TestTrue(strcmp(text, "Linear(float32[2,8,16], float32[16,32], float32[32])") == 0);
  TestTrue(RengaOpCallHasInput(&call, 2) && !RengaOpCallHasInput(&call, 3));
  in[0] = (RengaTensorSpec){RENGA_FLOAT32, 4, {2, 4, 8, 8}};
  in[1] = (RengaTensorSpec){RENGA_FLOAT32, 4, {6, 4, 3, 3}};
  call = (RengaOpCall){RengaOperatorFind("Conv"), NULL, 2, 1, in, out};
  RengaCallAbort(RengaOperatorInfer(&call));
  TestTrue(RengaOperatorFlops(&call) == 2.0 * (2 * 6 * 6 * 6) * (4 * 3 * 3));
}

/* A shape that no memory can hold is refused before anything is asked for. */
static void CheckHuge(void)
{
  RengaTensorSpec in[2] = {{RENGA_FLOAT32, 2, {(int64_t)1 << 40, 1}},
                           {RENGA_FLOAT32, 2, {1, (int64_t)1 << 40}}};
  RengaTensorSpec out[1] = {{.ndim = -1}};
  RengaOpCall call = {RengaOperatorFind("MatMul"), NULL, 2, 1, in, out};
  TestError(RengaOperatorInfer(&call), RENGA_ERR_SHAPE, "output 0 is too large");
  in[0].dim[0] = -1;
  TestError(RengaOperatorInfer(&call), RENGA_ERR_SHAPE, "dimension 0 of input 0 is -1");
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  TestTrue(RengaOperatorCount() > 150 && !RengaOperatorAt(RengaOperatorCount()));
  TestTrue(!RengaOperatorFind("Nonsense"));
  for (int i = 0; i < RengaOperatorCount(); i++) CheckRow(i);
  CheckTypes();
  CheckWidening();
  CheckSpecs();
  CheckCosts();
  CheckHuge();
  RengaCallAbort(RengaFinalize());
  return 0;
}
