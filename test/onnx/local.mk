# Tests of the ONNX reader.
onnx_tests = %D%/bad %D%/mutations %D%/large %D%/forms %D%/exported %D%/merged %D%/nodes %D%/trained %D%/composed %D%/called %D%/definition %D%/arity
check_PROGRAMS += $(onnx_tests)
tests += $(onnx_tests)
%C%_bad_SOURCES = %D%/bad.c %D%/malformed.c %D%/malformed.h %D%/wrong.c %D%/text.c %D%/write.c %D%/wrong.h %D%/text.h %D%/write.h
%C%_mutations_SOURCES = %D%/mutations.c %D%/text.c %D%/write.c %D%/text.h %D%/write.h
%C%_mutations_LDADD = $(LDADD) $(HDF5_LIBS)
%C%_large_SOURCES = %D%/large.c %D%/write.c %D%/write.h
%C%_nodes_SOURCES = %D%/nodes.c %D%/execute.c %D%/execute.h
%C%_forms_SOURCES = %D%/forms.c %D%/formula.c %D%/execute.c %D%/formula.h %D%/execute.h %D%/text.c %D%/write.c %D%/text.h %D%/write.h
%C%_exported_SOURCES = %D%/exported.c %D%/formula.c %D%/execute.c %D%/formula.h %D%/execute.h %D%/text.c %D%/write.c %D%/text.h %D%/write.h
%C%_composed_SOURCES = %D%/composed.c %D%/execute.c %D%/execute.h %D%/text.c %D%/write.c %D%/text.h %D%/write.h
%C%_definition_SOURCES = %D%/definition.c %D%/formula.c %D%/execute.c %D%/formula.h %D%/execute.h %D%/text.c %D%/write.c %D%/text.h %D%/write.h
%C%_arity_SOURCES = %D%/arity.c %D%/text.c %D%/write.c %D%/text.h %D%/write.h
%C%_trained_SOURCES = %D%/trained.c %D%/reader.c %D%/write.c %D%/reader.h %D%/write.h
%C%_called_SOURCES = %D%/called.c %D%/reader.c %D%/text.c %D%/write.c %D%/reader.h %D%/text.h %D%/write.h
%C%_merged_SOURCES = %D%/merged.c %D%/reader.c %D%/text.c %D%/write.c %D%/reader.h %D%/text.h %D%/write.h
CLEANFILES += onnx-arity.onnx onnx-definition.onnx onnx-composed.onnx onnx-read.onnx onnx-bad.onnx onnx-exported.onnx onnx-mutations.onnx onnx-mutations.h5 onnx-mutations.options onnx-mutations-made.h5 onnx-nodes.messages onnx-forms.onnx onnx-large.onnx onnx-outside.onnx onnx-outside.data
