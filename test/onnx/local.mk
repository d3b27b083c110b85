# Tests of the ONNX reader.
onnx_tests = %D%/bad
check_PROGRAMS += $(onnx_tests)
TESTS += $(onnx_tests)
%C%_bad_SOURCES = %D%/bad.c %D%/write.c %D%/write.h
CLEANFILES += onnx-bad.onnx onnx-nodes.messages
