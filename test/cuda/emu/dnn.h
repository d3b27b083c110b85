/* cuDNN of the emulator: the part of its backend that describes attention and convolutions as
   graphs of operations. */
#pragma once
#include "emu.h"
#include "module/cuda.h"
extern "C" {
#include "module/cudnn.h"
}

typedef int cudnnStatus_t, cudnnBackendDescriptorType_t, cudnnBackendAttributeName_t;
typedef int cudnnBackendAttributeType_t;
typedef void *cudnnBackendDescriptor_t, *cudnnHandle_t;

/* Statuses, beside success and not supported. */
enum {
  DNN_NOT_INITIALIZED = 1001,
  DNN_BAD = 2000,
  DNN_NULL = 2002,
  DNN_MISALIGNED = 2003,
  DNN_NOT_FINALIZED = 2004,
  DNN_OTHER_TYPE = 2010,
  DNN_OTHER_PATTERN = 3001,
  DNN_OTHER_SHAPE = 3002,
  DNN_OTHER_DATA_TYPE = 3003,
  DNN_OTHER_LAYOUT = 3004,
  DNN_FAILED = 5000
};

/* What the library cannot do, for its caller. */
struct DnnRefusal {
  int status;
  std::string text;
};
[[noreturn]] void DnnRefuse(int status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A descriptor's contents, which other descriptors may hold, too. */
struct DnnState;
typedef std::shared_ptr<DnnState> DnnPart;
struct DnnValue {
  int type;
  int64_t count;
  std::string bytes;          /* of all elements */
  std::vector<DnnPart> parts; /* in place of bytes: other descriptors */
};
struct DnnProgram;
struct DnnState {
  int kind;
  bool finalized = false;
  std::map<int, DnnValue> values;            /* by attribute */
  std::shared_ptr<const DnnProgram> program; /* of a graph, and of what is made from one */
};
bool DnnHas(const DnnState &state, int attribute);
const DnnPart &DnnGetPart(const DnnState &state, int attribute, size_t number = 0);
std::vector<int64_t> DnnGetNumbers(const DnnState &state, int attribute);
int64_t DnnGetNumber(const DnnState &state, int attribute, int64_t otherwise = 0);

/* dnngraph.cc: operations in an order in which they can run, and engines that do. */
typedef std::vector<int64_t> DnnList;
struct DnnTensor {
  int64_t id, alignment;
  int type;
  DnnList dims, strides;
  bool is_virtual, by_value, written = false, read = false;
};
struct DnnStep {
  int kind, mode = 0;                 /* of the operation; of a pointwise one or a reduction */
  int x = -1, b = -1, t = -1, y = -1; /* tensors; of convolutions the image, the filter, -1, what
                                         is convolved */
  int64_t axis = 0;
  float alpha = 1, beta = 0;
  DnnList padding, stride, dilation; /* of a convolution's dimensions of space */
};
struct DnnEngine {
  int64_t number, workspace;
  DnnList notes;
  bool ordered; /* false: sums are added up in another order each time */
  int rounds;   /* factors are rounded: CUDNN_DATA_FLOAT: to tf32, CUDNN_DATA_HALF; -1: they are
                   not */
};
struct DnnProgram {
  std::vector<DnnTensor> tensors;
  std::vector<DnnStep> steps;
  std::vector<DnnEngine> engines; /* as advised */
};
void DnnCheckOperation(const DnnState &operation);
std::shared_ptr<const DnnProgram> DnnMakeProgram(const DnnState &graph);
int64_t DnnCount(const DnnList &dims);
size_t DnnSizeOf(int type);                 /* bytes of an element */
int64_t DnnSpanOf(const DnnTensor &tensor); /* elements from the first to the last one */
/* The same of a dimension, a group of those of another one, or 1 for all. */
bool DnnGoesInto(const DnnList &small, const DnnList &large, size_t dims);

int DnnWrites(const DnnStep &step); /* its tensor */

/* dnnrun.cc: memory: by tensor, of the device, or of values; NULL: virtual. wrong: each result is
   1 more. */
void DnnRun(const DnnProgram &program, const DnnEngine &engine, const std::vector<char *> &memory,
            char *workspace, bool wrong, uint64_t *random);
