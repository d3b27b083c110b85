librenga_la_SOURCES += %D%/type.c %D%/storage.c %D%/attribute.c %D%/check.c %D%/operator.c %D%/shape.c %D%/unary.c \
  %D%/binary.c %D%/reduce.c %D%/move.c %D%/index.c %D%/matrix.c %D%/convolve.c %D%/normalize.c %D%/attention.c %D%/loss.c %D%/recurrent.c
noinst_HEADERS += include/renga/private/op.h include/renga/private/low.h
librenga_la_SOURCES += %D%/split/ways.c %D%/split/list.c %D%/split/formula.c %D%/split/rules.c %D%/split/index.c \
  %D%/split/products.c %D%/split/reshape.c %D%/split/check.c %D%/split/lane.c %D%/split/window.c %D%/split/call.c
noinst_HEADERS += %D%/split/splitimpl.h include/renga/private/split.h
