/* What types tensors have, by precision: the one place that says so. */
#include "renga/private/choice.h"
#include "renga/private/object.h"
#include "renga/private/op.h"

/* Sums and what is updated by small steps stay in 32 bits. */
static const RengaStorage storages[] = {
    [RENGA_PRECISION_FP32] = {RENGA_FLOAT32, RENGA_FLOAT32, RENGA_FLOAT32, RENGA_FLOAT32,
                              RENGA_FLOAT32, RENGA_FLOAT32},
    [RENGA_PRECISION_BF16] = {RENGA_BFLOAT16, RENGA_FLOAT32, RENGA_FLOAT32, RENGA_FLOAT32,
                              RENGA_BFLOAT16, RENGA_BFLOAT16},
    [RENGA_PRECISION_FP16] = {RENGA_FLOAT16, RENGA_FLOAT32, RENGA_FLOAT32, RENGA_FLOAT32,
                              RENGA_FLOAT16, RENGA_FLOAT16},
    [RENGA_PRECISION_TF32] = {RENGA_FLOAT32, RENGA_FLOAT32, RENGA_FLOAT32, RENGA_FLOAT32,
                              RENGA_FLOAT32, RENGA_FLOAT32},
    [RENGA_PRECISION_FP8] = {RENGA_BFLOAT16, RENGA_FLOAT32, RENGA_FLOAT32, RENGA_FLOAT32,
                             RENGA_BFLOAT16, RENGA_BFLOAT16},
};

/*@
   RengaPrecisionName - the name of a precision, as bf16

   See also: RengaPrecisionGetStorage()
@*/
const char *RengaPrecisionName(RengaPrecision precision)
{
  static const char *const names[] = {RENGA_PRECISION_WORDS(RENGA_WORD, RENGA_WORD)};
  return (int)precision >= 0 && precision < RENGA_PRECISION_COUNT ? names[precision] : "unknown";
}

/*@
   RengaPrecisionGetStorage - the types that networks of a precision keep their tensors in

   Input:
   . precision - the precision of the network

   Output:
   . storage - the types

   Errors: RENGA_ERR_ARGUMENT for a precision that there is not.

   Source: P. Micikevicius and others, Mixed precision training, ICLR 2018: 32 bits for the
   parameters that are updated and for sums of gradients.

   See also: RengaGraphSetPrecision()
@*/
RengaErrorCode RengaPrecisionGetStorage(RengaPrecision precision, RengaStorage *storage)
{
  RengaCheckPointer(storage);
  const int count = sizeof storages / sizeof storages[0];
  RengaCheck((int)precision >= 0 && (int)precision < count, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "precision %d is none: 0 (fp32) to %d are", (int)precision, count - 1);
  *storage = storages[precision];
  return RENGA_SUCCESS;
}

bool RengaPrecisionIsNarrow_Private(RengaPrecision precision)
{
  return storages[precision].value != RENGA_FLOAT32;
}

static RengaErrorCode CheckMomentCount(int moments)
{
  RengaCheck(moments >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "%d moments of each element",
             moments);
  return RENGA_SUCCESS;
}

/* Of a value that is not the master; 0: they are the same memory. */
static int64_t BytesOfValue(const RengaStorage *storage)
{
  return storage->master == storage->value ? 0 : (int64_t)RengaDataTypeSize(storage->value);
}

/* What a device keeps of each element of a parameter. moments: moments that the optimizer keeps of
   each element, at least 0. bytes: bytes, at least 0, of the value, of the master where it is not
   the same memory, and of the moments; the buffers of gradients are not counted. */
RengaErrorCode RengaStorageCountParameterBytes(const RengaStorage *storage, int moments,
                                               int64_t *bytes)
{
  RengaCheckPointers(storage, bytes);
  RengaCall(CheckMomentCount(moments));
  *bytes = BytesOfValue(storage) + (int64_t)RengaDataTypeSize(storage->master) +
           moments * (int64_t)RengaDataTypeSize(storage->moment);
  return RENGA_SUCCESS;
}

/* What the update of each element of a parameter moves. moments: moments that the optimizer keeps
   of each element (RengaOptimizerGetMoments), at least 0. bytes: bytes, at least 0: the master and
   each moment there and back, the gradient, and the value where it is written beside the master. */
RengaErrorCode RengaStorageCountUpdateBytes(const RengaStorage *storage, int moments,
                                            int64_t *bytes)
{
  RengaCheckPointers(storage, bytes);
  RengaCall(CheckMomentCount(moments));
  *bytes = BytesOfValue(storage) + 2 * (int64_t)RengaDataTypeSize(storage->master) +
           (int64_t)RengaDataTypeSize(storage->gradient) +
           2 * moments * (int64_t)RengaDataTypeSize(storage->moment);
  return RENGA_SUCCESS;
}
