# Reads ONNX files. The message types are made from onnx.proto of the system.
ONNX_SOURCES = %D%/mergednodes.c %D%/attention.c %D%/attribute.c %D%/axes.c %D%/batch.c %D%/call.c %D%/mutatedbuffers.c %D%/defaults.c %D%/einsum.c %D%/emit.c %D%/file.c %D%/fold.c %D%/form.c %D%/foldmove.c %D%/foldnumber.c %D%/foldedparameters.c %D%/host.c %D%/import.c %D%/input.c \
  %D%/draw.c %D%/grid.c %D%/hostvalue.c %D%/constantoperators.c %D%/loop.c %D%/loss.c %D%/missingparameters.c %D%/memory.c %D%/mergedinitializers.c %D%/module.c %D%/node.c %D%/nodes.c %D%/batchindices.c %D%/open.c %D%/order.c %D%/col2im.c %D%/property.c %D%/inputoverrides.c %D%/product.c %D%/read.c %D%/recurrent.c %D%/nodecopies.c %D%/reduce.c %D%/region.c \
  %D%/resize.c %D%/metadata.c %D%/sameoperators.c %D%/scope.c %D%/maskedselect.c %D%/sequence.c %D%/shape.c %D%/spectrum.c %D%/detached.c %D%/table.c %D%/tensor.c %D%/foldedfunctions.c %D%/value.c %D%/warn.c %D%/wire.c %D%/words.c
librenga_la_SOURCES += $(ONNX_SOURCES)
librenga_la_LIBADD += %D%/libonnxproto.la
AM_CPPFLAGS += -I$(top_builddir)/src/graph
noinst_HEADERS += %D%/module.h %D%/form.h %D%/onnx.h %D%/fold.h %D%/wire.h

noinst_LTLIBRARIES += %D%/libonnxproto.la
nodist_%C%_libonnxproto_la_SOURCES = %D%/onnx.pb-c.c
%C%_libonnxproto_la_CFLAGS = -fvisibility=hidden $(PROTOBUF_C_CFLAGS) $(SANITIZE_CFLAGS) -w
BUILT_SOURCES += %D%/onnx.pb-c.h
CLEANFILES += %D%/onnx.pb-c.h %D%/onnx.pb-c.c
%D%/onnx.pb-c.c: $(ONNX_PROTO_DIR)/onnx/onnx.proto
	$(AM_V_GEN)$(MKDIR_P) %D% && $(PROTOC_C) -I $(ONNX_PROTO_DIR) --c_out=%D%/.. onnx/onnx.proto
%D%/onnx.pb-c.h: %D%/onnx.pb-c.c
$(ONNX_SOURCES:.c=.lo): %D%/onnx.pb-c.h
