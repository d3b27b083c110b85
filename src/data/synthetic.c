/* Data source "synthetic": numbers that depend on seed, field, sample and element, and nothing
   else. Integers are even over [0, classes), or 0 and 1 where the classes are not known; floats are
   normal. */
#include "dataimpl.h"

enum { BLOCK = 256, STREAMS = 0x64617461 /* apart from those of the network */ };

static void FillNormalField(RengaData data, int field, int64_t sample, void *out)
{
  const RengaDataField *f = &data->fields[field];
  uint64_t first = (uint64_t)(sample * f->elements), stream = (uint64_t)field << 32 | STREAMS;
  float block[BLOCK];
  for (int64_t at = 0; at < f->elements; at += BLOCK) {
    int64_t n = f->elements - at < BLOCK ? f->elements - at : BLOCK;
    RengaRandomNormal(data->seed, stream, first + (uint64_t)at, n, block);
    RengaDataConvert(RENGA_FLOAT32, block, f->spec.type,
                     (char *)out + (size_t)at * RengaDataTypeSize(f->spec.type), n);
  }
}

/* A 64-bit draw times the bound, its upper half: even but for 1 in 2^64 / bound. */
static int64_t DrawIndexBelow(uint64_t draw, uint64_t bound)
{
  uint64_t high = draw >> 32, low = draw & 0xffffffff;
  return (int64_t)((high * bound + (low * bound >> 32)) >> 32);
}

static RengaErrorCode FillIntegers(RengaData data, int field, int64_t sample, void *out)
{
  const RengaDataField *f = &data->fields[field];
  uint64_t bound = f->classes > 0 ? (uint64_t)f->classes : 2;
  uint32_t key[2] = {(uint32_t)data->seed, (uint32_t)(data->seed >> 32)};
  int64_t block[BLOCK];
  for (int64_t at = 0; at < f->elements; at += BLOCK) {
    int64_t n = f->elements - at < BLOCK ? f->elements - at : BLOCK;
    for (int64_t i = 0; i < n; i++) {
      uint64_t element = (uint64_t)(sample * f->elements + at + i);
      uint32_t counter[4] = {(uint32_t)element, (uint32_t)(element >> 32), (uint32_t)field,
                             STREAMS},
               draw[4];
      RengaPhilox(counter, key, draw);
      block[i] = DrawIndexBelow((uint64_t)draw[0] << 32 | draw[1], bound);
    }
    char *to = (char *)out + (size_t)at * RengaDataTypeSize(f->spec.type);
    RengaCheck(RengaDataConvert(RENGA_INT64, block, f->spec.type, to, n) == n, MPI_COMM_SELF,
               RENGA_ERR_ARGUMENT, "input %s of type %s cannot hold %lld classes", f->name,
               RengaDataTypeName(f->spec.type), (long long)bound);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadSynthetic(RengaData data, RengaDataPart source, int field, int64_t epoch,
                                    int64_t count, const int64_t samples[], const char *const raw[],
                                    void *buffer)
{
  const RengaDataField *f = &data->fields[field];
  size_t bytes = (size_t)f->elements * RengaDataTypeSize(f->spec.type);
  (void)source;
  (void)epoch;
  (void)raw;
  for (int64_t i = 0; i < count; i++) {
    char *out = (char *)buffer + (size_t)i * bytes;
    if (RengaDataIsInteger(f->spec.type)) {
      RengaCall(FillIntegers(data, field, samples[i], out));
    } else {
      FillNormalField(data, field, samples[i], out);
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpSynthetic(RengaData data, int64_t counts[RENGA_DATA_PARTS])
{
  for (int i = 0; i < data->n_fields; i++) {
    RengaDataType type = data->fields[i].spec.type;
    RengaCheck(RengaDataConvertible(RengaDataIsInteger(type) ? RENGA_INT64 : RENGA_FLOAT32, type),
               data->hdr.comm, RENGA_ERR_SUPPORT, "input %s has type %s, which is not made up",
               data->fields[i].name, RengaDataTypeName(type));
  }
  counts[RENGA_DATA_TRAINING] = data->samples_option;
  counts[RENGA_DATA_VALIDATION] = 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewSynthetic(RengaData data, RengaViewer viewer)
{
  for (int i = 0; i < data->n_fields; i++) {
    const RengaDataField *f = &data->fields[i];
    char spec[128];
    RengaTensorSpecFormat(&f->spec, sizeof spec, spec);
    RengaCall(RengaViewerPrintf(viewer, "  %s %s, ", f->name, spec));
    if (RengaDataIsInteger(f->spec.type))
      RengaCall(RengaViewerPrintf(viewer, "even over 0 to %lld\n",
                                  (long long)(f->classes > 0 ? f->classes : 2) - 1));
    else
      RengaCall(RengaViewerPrintf(viewer, "normal\n"));
  }
  return RENGA_SUCCESS;
}

/* Seed and shapes are settings of their own. */
static RengaErrorCode DigestSynthetic(RengaData data, uint64_t *digest)
{
  *digest = RengaHash(&data->samples_option, sizeof data->samples_option, *digest);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDataCreate_Synthetic(RengaData data)
{
  data->ops->setup = SetUpSynthetic;
  data->ops->read = ReadSynthetic;
  data->ops->view = ViewSynthetic;
  data->ops->digest = DigestSynthetic;
  return RENGA_SUCCESS;
}
