librenga_la_SOURCES += %D%/type.c %D%/storage.c %D%/attribute.c %D%/check.c %D%/operator.c %D%/shape.c %D%/unary.c \
  %D%/binary.c %D%/reduce.c %D%/move.c %D%/index.c %D%/matrix.c %D%/convolve.c %D%/normalize.c %D%/loss.c %D%/recurrent.c
noinst_HEADERS += include/renga/private/op.h include/renga/private/low.h
