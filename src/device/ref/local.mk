librenga_la_SOURCES += %D%/find.c %D%/type.c %D%/unary.c %D%/binary.c %D%/reduce.c %D%/scan.c %D%/move.c \
  %D%/pad.c %D%/index.c %D%/matrix.c %D%/convolve.c %D%/pool.c %D%/normalize.c %D%/batch.c %D%/softmax.c \
  %D%/attention.c %D%/cached.c %D%/loss.c %D%/recurrent.c %D%/determinant.c %D%/region.c
noinst_HEADERS += %D%/ref.h
