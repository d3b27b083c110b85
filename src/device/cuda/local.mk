librenga_la_SOURCES += %D%/cuda.c %D%/attention.c %D%/convolution.c %D%/cudnn.c %D%/eights.c %D%/elementwise.c %D%/index.c %D%/kernel.c %D%/line.c %D%/move.c %D%/plan.c %D%/product.c \
  %D%/queue.c %D%/recording.c %D%/reduce.c %D%/shaped.c %D%/vector.c %D%/window.c
librenga_la_SOURCES += %D%/fabric.c
noinst_HEADERS += %D%/cuda.h %D%/launch.h %D%/module.h %D%/shapes.h %D%/module/attention.h %D%/module/cuda.h %D%/module/cudnn.h %D%/module/kernel.h %D%/module/matrix.h %D%/module/values.h

# The module renga_cuda.so: all that needs CUDA. make cuda-module builds it where nvcc is; with
# --with-cuda it is built and installed with the rest.
cuda_module_sources = %D%/module/error.c %D%/module/runtime.c %D%/module/product.c %D%/module/nccl.c %D%/module/cudnn.c %D%/module/cudnngraph.c %D%/module/cudnnplan.c %D%/module/elementwise.cu \
  %D%/module/vector.cu %D%/module/softmax.cu %D%/module/norm.cu %D%/module/loss.cu %D%/module/index.cu \
  %D%/module/reduce.cu %D%/module/move.cu %D%/module/random.cu %D%/module/attention.cu %D%/module/batchnorm.cu \
  %D%/module/window.cu %D%/module/round.cu %D%/module/tensorattention.cu
cuda_module_headers = include/renga/private/factors.h include/renga/private/fp8.h include/renga/private/low.h include/renga/private/logsum.h %D%/launch.h %D%/module.h %D%/shapes.h %D%/module/attention.h %D%/module/cuda.h %D%/module/cudnn.h %D%/module/kernel.h %D%/module/matrix.h %D%/module/values.h
EXTRA_DIST += $(cuda_module_sources)
CUDA_GENCODE = -gencode arch=compute_75,code=sm_75 -gencode arch=compute_80,code=sm_80 \
  -gencode arch=compute_86,code=sm_86 -gencode arch=compute_89,code=sm_89 \
  -gencode arch=compute_90,code=sm_90 -gencode arch=compute_100,code=sm_100 \
  -gencode arch=compute_100,code=compute_100
NVCCFLAGS = -O3 -fmad=false
# CUDA's own library is linked in, never the driver's: the module opens on machines without one.
%D%/renga_cuda.so: $(cuda_module_sources) $(cuda_module_headers)
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)$(NVCC) -I$(srcdir)/include $(NVCCFLAGS) $(CUDA_GENCODE) -Xcompiler -fPIC,-fvisibility=hidden -shared -cudart static -o $@ \
	  $(cuda_module_sources:%=$(srcdir)/%) -L$(CUDA_DIR)/lib64 -lcublasLt -Xlinker -z,nodelete,-rpath,$(CUDA_DIR)/lib64
CLEANFILES += %D%/renga_cuda.so
cuda-module: %D%/renga_cuda.so
.PHONY: cuda-module
if CUDA_MODULE
cudamoduledir = $(libdir)/renga
cudamodule_SCRIPTS = %D%/renga_cuda.so
endif
