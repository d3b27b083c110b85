librenga_la_SOURCES += %D%/graph.c %D%/value.c %D%/node.c %D%/layer.c %D%/total.c %D%/initialize.c \
  %D%/load.c %D%/build/gpt.c %D%/build/mlp.c %D%/build/resnet.c
noinst_HEADERS += %D%/graphimpl.h include/renga/private/graph.h
noinst_HEADERS += include/renga/private/onnx.h
include src/graph/onnx/local.mk
