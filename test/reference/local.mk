# Networks against PyTorch's losses and gradients; skipped where the reference files are absent.
reference_tests = %D%/gradients
check_PROGRAMS += $(reference_tests)
TESTS += $(reference_tests)
%C%_gradients_SOURCES = %D%/gradients.c %D%/reference.c %D%/reference.h test/onnx/execute.c
%C%_gradients_LDADD = $(LDADD) $(HDF5_LIBS)
