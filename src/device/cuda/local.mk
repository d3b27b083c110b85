# The module renga_cuda.so: all that needs CUDA. make cuda-module builds it where nvcc is; with
# --with-cuda it is built and installed with the rest.
cuda_module_sources = %D%/module/error.c %D%/module/runtime.c %D%/module/product.c %D%/module/elementwise.cu \
  %D%/module/vector.cu
cuda_module_headers = src/device/low.h %D%/launch.h %D%/module.h %D%/module/cuda.h
EXTRA_DIST += $(cuda_module_sources)
CUDA_GENCODE = -gencode arch=compute_75,code=sm_75 -gencode arch=compute_80,code=sm_80 \
  -gencode arch=compute_86,code=sm_86 -gencode arch=compute_89,code=sm_89 \
  -gencode arch=compute_90,code=sm_90 -gencode arch=compute_100,code=sm_100 \
  -gencode arch=compute_100,code=compute_100
NVCCFLAGS = -O3 -fmad=false
# CUDA's own library is linked in, never the driver's: the module opens on machines without one.
%D%/renga_cuda.so: $(cuda_module_sources) $(cuda_module_headers)
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)$(NVCC) $(NVCCFLAGS) $(CUDA_GENCODE) -Xcompiler -fPIC,-fvisibility=hidden -shared -cudart static -o $@ \
	  $(cuda_module_sources:%=$(srcdir)/%) -L$(CUDA_DIR)/lib64 -lcublasLt -Xlinker -z,nodelete,-rpath,$(CUDA_DIR)/lib64
CLEANFILES += %D%/renga_cuda.so
cuda-module: %D%/renga_cuda.so
.PHONY: cuda-module
if CUDA_MODULE
cudamoduledir = $(libdir)/renga
cudamodule_SCRIPTS = %D%/renga_cuda.so
endif
