# The emulated CUDA runtime and its tests: g++ and NVIDIA's headers, no library of theirs.
cuda_emulator = %D%/emu/copy.eo %D%/emu/cublaslt.eo %D%/emu/cudnn.eo %D%/emu/device.eo %D%/emu/dnngraph.eo %D%/emu/dnnrun.eo \
  %D%/emu/event.eo %D%/emu/fiber.eo \
  %D%/emu/launch.eo %D%/emu/memory.eo %D%/emu/messages.eo %D%/emu/nccl.eo %D%/emu/product.eo \
  %D%/emu/queue.eo %D%/emu/report.eo
cuda_emulator_headers = %D%/emu/blas.h %D%/emu/dnn.h %D%/emu/emu.h %D%/emu/emucuda.h %D%/emu/messages.h
cuda_kernels = %D%/kernels.eo
# The cuda device's module, linked with the emulator.
cuda_module = src/device/cuda/module/error.eo src/device/cuda/module/runtime.eo src/device/cuda/module/product.eo \
  src/device/cuda/module/nccl.eo src/device/cuda/module/cudnn.eo src/device/cuda/module/cudnngraph.eo src/device/cuda/module/cudnnplan.eo src/device/cuda/module/elementwise.eo src/device/cuda/module/vector.eo src/device/cuda/module/softmax.eo \
  src/device/cuda/module/norm.eo src/device/cuda/module/loss.eo src/device/cuda/module/index.eo \
  src/device/cuda/module/reduce.eo src/device/cuda/module/move.eo src/device/cuda/module/random.eo \
  src/device/cuda/module/attention.eo src/device/cuda/module/tensorattention.eo src/device/cuda/module/batchnorm.eo src/device/cuda/module/window.eo src/device/cuda/module/round.eo
tests += %D%/suite.sh %D%/device.sh %D%/planted.sh %D%/transports.sh %D%/failures.sh
EXTRA_DIST += %D%/transports.sh %D%/failures.sh
tests += %D%/networks.sh %D%/graphs.sh %D%/accepted.sh %D%/engines.sh
EXTRA_DIST += %D%/accepted.sh %D%/engines.sh %D%/h200.json
test_environment += CUDA_EMULATED='$(CUDA_EMULATED)' CUDA_MISSING='$(CUDA_MISSING)'
EXTRA_DIST += %D%/graphs.sh %D%/README.md %D%/suite.sh %D%/device.sh %D%/networks.sh %D%/planted.sh %D%/kernels.cu %D%/faults.cu %D%/emu/copy.cc \
  %D%/emu/cublaslt.cc %D%/emu/cudnn.cc %D%/emu/device.cc %D%/emu/dnngraph.cc %D%/emu/dnnrun.cc %D%/emu/event.cc %D%/emu/fiber.cc %D%/emu/launch.cc \
  %D%/emu/memory.cc %D%/emu/messages.cc %D%/emu/nccl.cc %D%/emu/product.cc %D%/emu/queue.cc \
  %D%/emu/report.cc
noinst_HEADERS += $(cuda_emulator_headers) %D%/cudatest.h %D%/kernels.h %D%/longcases.h

# Objects have a suffix of their own, so that no other file is built by these rules.
SUFFIXES = .cc .cu .eo
CUDA_CXXFLAGS = -std=c++17 -O2 -g -fPIC -fvisibility=hidden -ffp-contract=off -Wall -Wextra -Wshadow
CUDA_CPPFLAGS = -isystem $(CUDA_DIR)/include -I$(srcdir)/test/cuda/emu -I$(srcdir)/test/cuda \
  -I$(srcdir)/src/device/cuda -I$(srcdir)/include
.cc.eo:
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)$(CUDA_CXX) $(CUDA_CPPFLAGS) $(CUDA_CXXFLAGS) -c -o $@ $<
# A file of kernels as C++ for the host.
.cu.eo:
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)$(CUDA_CXX) -x c++ -include emucuda.h $(CUDA_CPPFLAGS) $(CUDA_CXXFLAGS) -Wno-unknown-pragmas -c -o $@ $<
.c.eo:
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)$(CC) -std=c11 -D_GNU_SOURCE -DRENGA_NCCL_LINKED -O2 -g -fPIC -fvisibility=hidden $(WARN_CFLAGS) $(CPPFLAGS) $(CUDA_CPPFLAGS) -c -o $@ $<
$(cuda_emulator): $(cuda_emulator_headers)
%D%/emu/cudnn.eo %D%/emu/dnngraph.eo %D%/emu/dnnrun.eo: $(cuda_module_headers)
$(cuda_module): $(cuda_module_headers) %D%/emu/emucuda.h
%D%/renga_cudaemu.so: $(cuda_module) %D%/libemucuda.a
	$(AM_V_CCLD)$(CUDA_CXX) -shared -Wl,-z,nodelete,-z,defs -o $@ $(cuda_module) %D%/libemucuda.a -lpthread -lrt
$(cuda_kernels) %D%/faults.eo: %D%/emu/emucuda.h %D%/kernels.h src/device/cuda/launch.h
%D%/libemucuda.a: $(cuda_emulator)
	$(AM_V_AR)$(AR) cr $@ $(cuda_emulator)
CLEANFILES += $(cuda_module) %D%/renga_cudaemu.so $(cuda_emulator) $(cuda_kernels) %D%/faults.eo %D%/libemucuda.a

if CUDA_EMULATED
%C%_operators_SOURCES = %D%/operators.c
%C%_waits_SOURCES = %D%/waits.c
%C%_again_SOURCES = %D%/again.c
%C%_engines_SOURCES = %D%/engines.c
cuda_programs = %D%/operators %D%/waits %D%/again %D%/engines %D%/kernels %D%/streams %D%/products %D%/cudnn %D%/accepted %D%/messages
check_PROGRAMS += $(cuda_programs)
check_SCRIPTS = %D%/faults %D%/renga_cudaemu.so
CLEANFILES += %D%/faults
cuda_test_cppflags = $(AM_CPPFLAGS) -isystem $(CUDA_DIR)/include
cuda_test_libraries = $(cuda_kernels) %D%/libemucuda.a -lstdc++ -lpthread -lrt -lm
%C%_kernels_SOURCES = %D%/kernels.c
%C%_kernels_CPPFLAGS = $(cuda_test_cppflags)
%C%_kernels_LDADD = $(cuda_test_libraries)
%C%_streams_SOURCES = %D%/streams.c
%C%_streams_CPPFLAGS = $(cuda_test_cppflags)
%C%_streams_LDADD = $(cuda_test_libraries)
%C%_products_SOURCES = %D%/products.c
%C%_products_CPPFLAGS = $(cuda_test_cppflags)
%C%_products_LDADD = $(cuda_test_libraries)
%C%_cudnn_SOURCES = %D%/cudnn.c
%C%_cudnn_CPPFLAGS = $(cuda_test_cppflags) -I$(srcdir)/src/device/cuda
%C%_cudnn_LDADD = $(cuda_test_libraries)
# With NVIDIA's cuDNN, which is opened at run time.
%C%_accepted_SOURCES = %D%/accepted.c src/device/cuda/module/cudnn.c src/device/cuda/module/cudnngraph.c \
  src/device/cuda/module/cudnnplan.c
%C%_accepted_CPPFLAGS = $(cuda_test_cppflags) -I$(srcdir)/src/device/cuda
%C%_accepted_LDADD = -ldl -lm
%C%_messages_SOURCES = %D%/messages.c
%C%_messages_CPPFLAGS = $(cuda_test_cppflags)
%C%_messages_LDADD = $(cuda_test_libraries)
%D%/faults: %D%/faults.eo $(cuda_kernels) %D%/libemucuda.a
	$(AM_V_CCLD)$(CUDA_CXX) -o $@ %D%/faults.eo $(cuda_test_libraries)
endif

# For planted.sh: the module, or the operators' test, with a file of the device that has a fault.
planted-module:
	$(CUDA_CXX) -x c++ -include emucuda.h -I$(srcdir)/src/device/cuda/module $(CUDA_CPPFLAGS) $(CUDA_CXXFLAGS) -w \
	  -c -o $(PLANTED)/fault.eo $(PLANTED)/$(PLANTED_FILE).cu
	$(CUDA_CXX) -shared -Wl,-z,nodelete,-z,defs -o $(PLANTED)/module.so $(PLANTED)/fault.eo \
	  $(filter-out %/$(PLANTED_FILE).eo,$(cuda_module)) %D%/libemucuda.a -lpthread -lrt
planted-program:
	$(COMPILE) -w -I$(srcdir)/src/device/cuda -c -o $(PLANTED)/fault.o $(PLANTED)/$(PLANTED_FILE).c
	$(LIBTOOL) --tag=CC --mode=link $(CCLD) $(AM_CFLAGS) $(CFLAGS) $(AM_LDFLAGS) $(LDFLAGS) -o $(PLANTED)/operators \
	  $(PLANTED)/fault.o $(test_cuda_operators_OBJECTS) $(test_cuda_operators_LDADD) $(LIBS)
.PHONY: planted-module planted-program

# The emulated suite alone.
cuda_tests = %D%/graphs.sh %D%/suite.sh %D%/device.sh %D%/networks.sh %D%/planted.sh %D%/transports.sh %D%/failures.sh %D%/accepted.sh %D%/engines.sh
check-cuda: renga $(cuda_programs) $(check_SCRIPTS) test/device/low test/device/lowkernels test/graph/singular test/reference/training
	$(run_tests) $(cuda_tests)
.PHONY: check-cuda
