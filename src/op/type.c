/* Data types and tensor specs. */
#include "renga/private/low.h"
#include "renga/private/object.h"
#include "renga/private/op.h"
#include "rengaop.h"
#include <inttypes.h>
#include <string.h>

#define RENGA_TYPE_NAME(name, text, size) text,
static const char *const type_names[] = {RENGA_TYPE_MAP(RENGA_TYPE_NAME)};
#define RENGA_TYPE_SIZE(name, text, size) size,
static const size_t type_sizes[] = {RENGA_TYPE_MAP(RENGA_TYPE_SIZE)};

static bool IsType(RengaDataType type)
{
  return (int)type >= 0 && type < RENGA_TYPE_COUNT;
}

/*@
   RengaDataTypeSize - bytes of one element

   Notes: 0 for a value that is no data type

   See also: RengaDataTypeName(), RengaTensorSpecBytes()
@*/
size_t RengaDataTypeSize(RengaDataType type)
{
  return IsType(type) ? type_sizes[type] : 0;
}

/*@
   RengaDataTypeName - the name of a data type, as float32

   See also: RengaDataTypeSize()
@*/
const char *RengaDataTypeName(RengaDataType type)
{
  return IsType(type) ? type_names[type] : "unknown type";
}

/*@
   RengaDataTypeIsFloating - whether a data type holds floating numbers of any width

   See also: RengaDataTypeName()
@*/
bool RengaDataTypeIsFloating(RengaDataType type)
{
  return type == RENGA_FLOAT32 || type == RENGA_FLOAT64 || type == RENGA_BFLOAT16 ||
         type == RENGA_FLOAT16;
}

/*@
   RengaDataWiden - floating numbers of at most 32 bits as float32

   Input:
   . type - the type of the numbers: RENGA_FLOAT32, RENGA_BFLOAT16 or RENGA_FLOAT16
   . count - elements, at least 0
   . from - the numbers, in memory of the host

   Output:
   . to - [count] the same numbers; may begin where `from` does

   Errors: RENGA_ERR_SUPPORT for other types.

   See also: RengaDataTypeName()
@*/
RengaErrorCode RengaDataWiden(RengaDataType type, int64_t count, const void *from, float to[])
{
  RengaCheckPointers(from, to);
  RengaCheck(type == RENGA_FLOAT32 || type == RENGA_BFLOAT16 || type == RENGA_FLOAT16,
             MPI_COMM_SELF, RENGA_ERR_SUPPORT, "numbers of type %s cannot be widened to float32",
             RengaDataTypeName(type));
  if (type == RENGA_FLOAT32) memmove(to, from, (size_t)count * sizeof *to);
  for (int64_t i = count - 1; i >= 0 && type != RENGA_FLOAT32; i--) { /* the last first */
    uint16_t bits;
    memcpy(&bits, (const char *)from + (size_t)i * sizeof bits, sizeof bits);
    to[i] = type == RENGA_FLOAT16 ? RengaLowFromHalf(bits) : RengaLowFromBrain(bits);
  }
  return RENGA_SUCCESS;
}

/*@
   RengaDataNarrow - float32 as floating numbers of at most 32 bits

   Input:
   . type - the type of the numbers: RENGA_FLOAT32, RENGA_BFLOAT16 or RENGA_FLOAT16
   . count - elements, at least 0
   . from - [count] float32, in memory of the host

   Output:
   . to - [count] the numbers, rounded to nearest, ties to even; may begin where `from` does

   Errors: RENGA_ERR_SUPPORT for other types.

   See also: RengaDataWiden()
@*/
RengaErrorCode RengaDataNarrow(RengaDataType type, int64_t count, const void *from, void *to)
{
  RengaCheckPointers(from, to);
  RengaCheck(type == RENGA_FLOAT32 || type == RENGA_BFLOAT16 || type == RENGA_FLOAT16,
             MPI_COMM_SELF, RENGA_ERR_SUPPORT, "numbers of type %s are not made of float32",
             RengaDataTypeName(type));
  if (type == RENGA_FLOAT32) memmove(to, from, (size_t)count * sizeof(float));
  for (int64_t i = 0; i < count && type != RENGA_FLOAT32; i++) {
    float number;
    memcpy(&number, (const char *)from + (size_t)i * sizeof number, sizeof number);
    const uint16_t bits = type == RENGA_FLOAT16 ? RengaLowToHalf(number) : RengaLowToBrain(number);
    memcpy((char *)to + (size_t)i * sizeof bits, &bits, sizeof bits);
  }
  return RENGA_SUCCESS;
}

/*@
   RengaTensorSpecCount - number of elements of a concrete shape

   Input:
   . spec - the tensor; a scalar has one element, an absent tensor none

   Notes: a number that does not fit is given as INT64_MAX

   See also: RengaTensorSpecBytes()
@*/
int64_t RengaTensorSpecCount(const RengaTensorSpec *spec)
{
  if (spec->ndim < 0) return 0;
  bool empty = false;
  for (int d = 0; d < spec->ndim; d++)
    if (spec->dim[d] <= 0) empty = true;
  if (empty) return 0;
  int64_t count = 1;
  for (int d = 0; d < spec->ndim; d++) {
    if (count > INT64_MAX / spec->dim[d]) return INT64_MAX;
    count *= spec->dim[d];
  }
  return count;
}

/* How many pieces a flat vector has. Each is of RENGA_VECTOR_PIECE elements, but for the last,
   which may be short. count: elements of the vector, at least 0. */
int64_t RengaVectorPieces(int64_t count)
{
  return count / RENGA_VECTOR_PIECE + (count % RENGA_VECTOR_PIECE > 0);
}

/*@
   RengaTensorSpecBytes - bytes of a concrete tensor

   Input:
   . spec - the tensor

   Notes: a number that does not fit is given as SIZE_MAX

   See also: RengaTensorSpecCount(), RengaDataTypeSize()
@*/
size_t RengaTensorSpecBytes(const RengaTensorSpec *spec)
{
  size_t size = RengaDataTypeSize(spec->type);
  size_t count = (size_t)RengaTensorSpecCount(spec);
  return size != 0 && count > SIZE_MAX / size ? SIZE_MAX : count * size;
}

/*@
   RengaTensorSpecAt - the concrete shape for a number of samples

   Input:
   . spec - the shape; a dimension -c means c times the batch
   . batch - samples, at least 1

   See also: RengaTensorSpecCount()
@*/
RengaTensorSpec RengaTensorSpecAt(const RengaTensorSpec *spec, int64_t batch)
{
  RengaTensorSpec concrete = *spec;
  for (int d = 0; d < spec->ndim; d++)
    if (spec->dim[d] < 0) concrete.dim[d] = -spec->dim[d] * batch;
  return concrete;
}

/*@
   RengaTensorSpecEqual - whether two tensors have the same type and shape

   Input:
   . a - a tensor
   . b - another; absent ones are equal, whatever their types

   See also: RengaDataTypeName()
@*/
bool RengaTensorSpecEqual(const RengaTensorSpec *a, const RengaTensorSpec *b)
{
  if (a->ndim != b->ndim) return false;
  if (a->ndim < 0) return true;
  return a->type == b->type && !memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof a->dim[0]);
}

/* A number that equal tensors share. The same in every run and on every rank. count: the number of
   tensors, at least 0. seed: any number: a hash of all that comes before. */
uint64_t RengaTensorSpecHash(int count, const RengaTensorSpec specs[], uint64_t seed)
{
  uint64_t hash = seed;
  for (int i = 0; i < count; i++) {
    const RengaTensorSpec *spec = &specs[i];
    const int64_t head[2] = {spec->ndim, spec->ndim < 0 ? 0 : (int64_t)spec->type};
    hash = RengaHash(head, sizeof head, hash);
    if (spec->ndim > 0) hash = RengaHash(spec->dim, (size_t)spec->ndim * sizeof spec->dim[0], hash);
  }
  return hash;
}

static int FormatDimension(int64_t dim, size_t size, char text[])
{
  if (dim == -1) return snprintf(text, size, "N");
  if (dim < 0) return snprintf(text, size, "%" PRId64 "N", -dim);
  return snprintf(text, size, "%" PRId64, dim);
}

/*@
   RengaTensorSpecFormat - a tensor as text: float32[N,3,32], where N is the batch

   Input:
   . spec - the tensor
   . size - bytes of text, at least 1

   Output:
   . text - the description, cut to size

   See also: RengaTensorSpecEqual()
@*/
void RengaTensorSpecFormat(const RengaTensorSpec *spec, size_t size, char text[])
{
  if (size == 0) return;
  if (spec->ndim < 0) {
    snprintf(text, size, "none");
    return;
  }
  size_t at = (size_t)snprintf(text, size, "%s[", RengaDataTypeName(spec->type));
  for (int d = 0; d < spec->ndim && d < RENGA_MAX_DIM && at < size; d++) {
    if (d > 0) text[at++] = ',';
    if (at < size) at += (size_t)FormatDimension(spec->dim[d], size - at, text + at);
  }
  if (at < size) snprintf(text + at, size - at, "]");
  text[size - 1] = '\0';
}
