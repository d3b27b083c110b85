librenga_la_SOURCES += %D%/graph.c %D%/options.c %D%/error.c %D%/value.c %D%/outputs.c %D%/node.c %D%/layer.c %D%/total.c %D%/initialize.c \
  %D%/load.c %D%/trainable.c %D%/lora.c %D%/divide.c %D%/division.c %D%/huggingface/families.c %D%/huggingface/rope.c %D%/huggingface/config.c %D%/huggingface/parts.c %D%/huggingface/decoder.c %D%/huggingface/encoder.c %D%/huggingface/images.c %D%/huggingface/modern.c %D%/huggingface/t5.c %D%/huggingface/whisper.c %D%/huggingface/folder.c %D%/build/blocks.c %D%/build/bert.c %D%/build/gpt.c %D%/build/llama.c %D%/build/mlp.c \
  %D%/build/ncf.c %D%/build/resnet.c %D%/build/t5.c %D%/build/transformer.c %D%/view.c %D%/setup.c %D%/order.c \
  %D%/simplify.c %D%/lanes.c %D%/lanecount.c %D%/lanenodes.c %D%/lanesums.c %D%/lanejoin.c %D%/laneslices.c %D%/splitoption.c %D%/lanevocabulary.c %D%/lanetables.c %D%/tokenlanes.c %D%/rowlanes.c %D%/rownorm.c %D%/rowresize.c %D%/fuse.c %D%/fuse/linear.c %D%/fuse/normalize.c %D%/fuse/gelu.c \
  %D%/fuse/attention.c %D%/fuse/flat.c %D%/fuse/loss.c %D%/fuse/pattern.c %D%/mark.c %D%/precision.c %D%/batchsums.c %D%/sample.c %D%/sampleloss.c %D%/statistics.c %D%/subgraph.c %D%/packed.c %D%/padded.c %D%/channelslast.c %D%/readers.c %D%/reverse.c \
  %D%/reverse/apply.c %D%/reverse/recomputerows.c %D%/reverse/accumulate.c %D%/reverse/lanegradients.c %D%/reverse/lanereaders.c %D%/reverse/unary.c %D%/reverse/binary.c %D%/reverse/reduce.c \
  %D%/reverse/move.c %D%/reverse/index.c %D%/reverse/matrix.c %D%/reverse/convolve.c \
  %D%/reverse/normalize.c %D%/reverse/loss.c %D%/reverse/recurrent.c %D%/reverse/outside.c
noinst_HEADERS += %D%/build/blocks.h %D%/huggingface/huggingface.h %D%/huggingface/parts.h %D%/graphimpl.h %D%/division.h %D%/fuse.h %D%/lanes.h %D%/reverse.h %D%/reverse/walk.h include/renga/private/graph.h
noinst_HEADERS += include/renga/private/lane.h
noinst_HEADERS += include/renga/private/onnx.h
include src/graph/onnx/local.mk
librenga_la_SOURCES += %D%/decode/decoder.c %D%/decode/attention.c %D%/decode/decodervalues.c %D%/decode/memory.c
noinst_HEADERS += %D%/decode/decode.h
