# Networks against PyTorch's losses and gradients; skipped where the reference files are absent.
%C%_tests = %D%/gradients
check_PROGRAMS += $(%C%_tests)
TESTS += $(%C%_tests)
%C%_gradients_SOURCES = %D%/gradients.c %D%/reference.c %D%/reference.h test/onnx/execute.c
%C%_gradients_LDADD = $(LDADD) $(HDF5_LIBS)
