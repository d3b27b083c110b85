# Tests of the ONNX reader.
onnx_tests = %D%/bad %D%/large %D%/forms %D%/nodes
check_PROGRAMS += $(onnx_tests)
TESTS += $(onnx_tests)
%C%_bad_SOURCES = %D%/bad.c %D%/write.c %D%/write.h
%C%_large_SOURCES = %D%/large.c %D%/write.c %D%/write.h
%C%_nodes_SOURCES = %D%/nodes.c %D%/execute.c %D%/execute.h
%C%_forms_SOURCES = %D%/forms.c %D%/execute.c %D%/execute.h %D%/write.c %D%/write.h
CLEANFILES += onnx-bad.onnx onnx-nodes.messages onnx-forms.onnx onnx-large.onnx onnx-outside.onnx onnx-outside.data
