/* cuDNN's names for C and C++: those of the module's own header, and types of its functions. */
#pragma once
#include <cuda_runtime_api.h>
#if __has_include("module/cudnn.h")
#include "module/cudnn.h"
typedef int cudnnStatus_t, cudnnDataType_t, cudnnPointwiseMode_t, cudnnReduceTensorOp_t;
typedef int cudnnConvolutionMode_t, cudnnBackendHeurMode_t, cudnnBackendNumericalNote_t;
typedef int cudnnBackendDescriptorType_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t;
typedef void *cudnnBackendDescriptor_t;
typedef void *cudnnHandle_t;
#ifdef __cplusplus
extern "C"
#endif
int cudnnDestroy(cudnnHandle_t handle); /* which the module leaves to the process's end */
#else
#include <cudnn_graph.h>
#endif
